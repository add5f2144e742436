package dpt

import (
	"math"
	"slices"
)

const (
	memory     = 100 // publish instants and residuals remembered
	lockGaps   = 3   // a lock needs four publish instants
	relockGaps = 7   // a new lock looks at the last eight
	slopeGaps  = 7   // from eight instants on the period is estimated anew each time
	maxEpochs  = 16  // a gap beyond is an outage
	farTries   = 6   // residuals beyond lambda/4 in a row, after which the lock is lost
	lostShare  = 0.2 // below this p_ss the period is taken for too short
	// harmonicGaps in a row that are all multiples of two or more epochs mean a longer
	// period. Sixteen by chance alone are one in 65000 even where every other epoch
	// is lost.
	harmonicGaps = 16
	// irregular is the spread of the residuals, in periods, from which publications
	// keep to no epochs, and regular the one below which they do again. Uniform
	// residuals, which tell nothing, have 0.29.
	irregular, regular = 0.3, 0.25
	judgedAfter        = 20   // residuals
	leastCount         = 1e-6 // a source that loses nothing for years must not end in 0/0
	broken             = -1   // epochs of a gap that cannot be told: unlocked, outage
)

// gains of the filters that follow the phase: a process that waits its period after each
// publication wants 1, one on a wall clock a small one. Which is right shows in its
// residuals.
var hzGains = [...]float64{1, .5, .2, .05}

// hzFilter estimates the instant of the last epoch: its phase is Offset after the newest
// publication.
type hzFilter struct {
	Offset    float64 `json:"p,omitempty"` // ms
	Dev       float64 `json:"d,omitempty"` // smoothed absolute residual, ms
	Residuals series  `json:"r,omitempty"` // newest memory ones, ms
}

type hzFilters [len(hzGains)]hzFilter

// best is the filter with the smallest deviation.
func (f *hzFilters) best() *hzFilter {
	best := 0
	for i := range f {
		if f[i].Dev < f[best].Dev {
			best = i
		}
	}
	return &f[best]
}

// base is the best estimate of the last epoch, ms after the newest publication.
func (f *hzFilters) base() float64 { return f.best().Offset }

// hzChain counts how epochs with (s) and without (f) a publication follow each other,
// forgetting a hundredth per publication.
type hzChain struct {
	SS float64 `json:"a"`
	SF float64 `json:"b"`
	FS float64 `json:"c"`
	FF float64 `json:"d"`
}

func newHZChain() hzChain { return hzChain{9, 1, 1, 1} }

// add takes a publication d epochs after the last one.
func (c *hzChain) add(d float64) {
	for _, n := range []*float64{&c.SS, &c.SF, &c.FS, &c.FF} {
		*n = max(.99**n, leastCount)
	}
	if d == 1 {
		c.SS++
		return
	}
	c.SF++
	c.FS++
	c.FF += d - 2
}

func (c hzChain) pss() float64 { return c.SS / (c.SS + c.SF) }
func (c hzChain) pfs() float64 { return c.FS / (c.FS + c.FF) }

// share of the epochs that have a publication.
func (c hzChain) share() float64 { return c.pfs() / (1 - c.pss() + c.pfs()) }

// publication takes the instant t, later than Last, and reports whether it ended an
// outage. blind says that publications in between were not seen: the phase is all it
// tells then.
func (h *hz) publication(t int64, blind bool) (outage bool) {
	gap := t - h.Last
	h.Last = t
	if h.Count++; h.Count == 1 {
		return false
	}
	if h.Lambda == 0 {
		if !blind {
			h.remember(gap, broken)
		}
		if len(h.Gaps) >= lockGaps {
			h.lock(lockGaps, 0)
		}
		return false
	}
	d := math.Round((float64(gap) - h.Filters.base()) / h.Lambda)
	switch {
	case blind:
		h.rephase(float64(gap), d)
		return false
	case d > maxEpochs:
		h.outage(gap)
	case d < 1:
		h.extra(gap)
	default:
		h.epochs(gap, d)
	}
	h.judge()
	return d > maxEpochs
}

// rephase moves on by d epochs without learning from them.
func (h *hz) rephase(gap, d float64) {
	h.Window = 0
	for i := range h.Filters {
		f := &h.Filters[i]
		if f.Offset = bounded(f.Offset + max(d, 0)*h.Lambda - gap); d > maxEpochs {
			f.Offset = 0
		}
	}
}

// epochs takes a publication d epochs after the last one.
func (h *hz) epochs(gap int64, d float64) {
	h.Outages = 0
	h.remember(gap, int64(d))
	h.Chain.add(d)
	h.follow(float64(gap), d)
	if h.Window >= slopeGaps {
		h.Lambda = h.slope()
	}
	h.relock()
}

// extra takes a further publication of the last epoch: data that a sensor catches up
// with must not push the clock ahead by an epoch each.
func (h *hz) extra(gap int64) {
	h.remember(gap, 0)
	for i := range h.Filters {
		f := &h.Filters[i]
		f.Offset = bounded(f.Offset - float64(gap))
	}
}

// outage keeps the period and all that was learnt of jitter and loss; the epochs are
// counted from its end. Several in a row are no outages: the period is longer.
func (h *hz) outage(gap int64) {
	h.remember(gap, broken)
	h.Far = 0
	for i := range h.Filters {
		h.Filters[i].Offset = 0
	}
	if h.Outages++; h.Outages > maxOutages {
		h.lock(relockGaps, 0)
	}
}

func (h *hz) remember(gap, epochs int64) {
	h.Gaps = h.Gaps.push(gap, memory-1)
	h.Epochs = h.Epochs.push(epochs, memory-1)
	if h.Window = min(h.Window+1, len(h.Gaps)); epochs == broken {
		h.Window = 0
	}
}

// follow moves every filter by its gain. Seen from the publication, the phase
// ph + d*lambda + g*r with r = t - (ph + d*lambda) lies at (g-1)*r.
func (h *hz) follow(gap, d float64) {
	best := h.Filters.best()
	for i, g := range hzGains {
		f := &h.Filters[i]
		r := bounded(gap - f.Offset - d*h.Lambda)
		if f == best {
			if h.Far++; math.Abs(r) <= h.Lambda/4 {
				h.Far = 0
			}
		}
		f.Offset = (g - 1) * r
		f.Dev = .95*f.Dev + .05*math.Abs(r)
		f.Residuals = f.Residuals.push(int64(math.Round(r)), memory)
	}
}

// bounded keeps sums of spans finite, whatever a restored state began with.
func bounded(ms float64) float64 { return min(max(ms, -hzReach), hzReach) }

// relock begins anew where the epochs do not fit any more.
func (h *hz) relock() {
	if h.Far >= farTries || h.Chain.pss() < lostShare {
		h.lock(relockGaps, 0)
		return
	}
	n := min(h.Window, harmonicGaps)
	if n < relockGaps {
		return
	}
	gaps, epochs := h.Gaps[len(h.Gaps)-n:], h.Epochs[len(h.Epochs)-n:]
	for m := 2.0; m <= 3; m++ {
		if divides(gaps, h.Lambda, m) {
			h.lock(n, h.Lambda/m)
			return
		}
	}
	if common := commonEpochs(epochs); n == harmonicGaps && common > 1 {
		h.lock(n, float64(common)*h.Lambda)
	}
}

// commonEpochs is the greatest common divisor of the epochs between publications.
func commonEpochs(epochs []int64) int64 {
	common := int64(0)
	for _, d := range epochs {
		d = max(d, 1)
		for d != 0 {
			common, d = d, common%d
		}
	}
	return common
}

// divides reports whether the m-th part of lambda fits the gaps where lambda does not:
// at least three lie off its multiples, and all lie closely around those of the part.
// (Uniform ones would be a quarter of the part away from them on average.)
func divides(gaps []int64, lambda, m float64) bool {
	off, sum := 0, 0.0
	part := lambda / m
	for _, x := range gaps {
		k := math.Round(float64(x) / part)
		sum += math.Abs(float64(x) - k*part)
		if math.Mod(k, m) != 0 {
			off++
		}
	}
	return off >= 3 && sum < part/8*float64(len(gaps))
}

// lock counts the epochs of the last n gaps anew, in periods of lambda or, if 0, of
// their median. What is learnt of loss and jitter begins with them.
func (h *hz) lock(n int, lambda float64) {
	n = min(n, len(h.Gaps))
	gaps, epochs := h.Gaps[len(h.Gaps)-n:], h.Epochs[len(h.Epochs)-n:]
	old := h.unit()
	if lambda == 0 {
		lambda = quantile(slices.Sorted(slices.Values(gaps)), .5)
	}
	h.Window = 0
	for i, x := range gaps {
		epochs[i] = int64(math.Round(float64(x) / lambda))
		if h.Window++; epochs[i] > maxEpochs {
			epochs[i], h.Window = broken, 0
		}
	}
	h.Lambda = max(lambda, 1)
	h.Lambda = h.slope()
	residuals := make(series, 0, n)
	dev := 0.0
	for i, d := range epochs {
		if d > 0 {
			r := float64(gaps[i]) - float64(d)*h.Lambda
			residuals = append(residuals, int64(math.Round(r)))
			dev += math.Abs(r)
		}
	}
	dev /= float64(max(len(residuals), 1))
	for i := range h.Filters {
		h.Filters[i] = hzFilter{Dev: dev, Residuals: slices.Clone(residuals)}
	}
	h.Chain, h.Far, h.Outages = newHZChain(), 0, 0
	if old > 0 { // a price stays the same share of the period
		h.Price = min(h.Price*h.unit()/old, topPrice*h.unit())
	}
}

// slope is the median of the periods that pairs of instants half the window apart show:
// a lost epoch does not move it and a late publication hardly. Without a pair it is the
// period as it was.
func (h *hz) slope() float64 {
	n := h.Window + 1
	half := n / 2
	gaps, epochs := h.Gaps[len(h.Gaps)-h.Window:], h.Epochs[len(h.Epochs)-h.Window:]
	var buf [memory]float64
	slopes := buf[:0]
	t, e := int64(0), int64(0)
	for i := range gaps {
		t, e = t+gaps[i], e+epochs[i]
		if i+1 < half {
			continue
		}
		if e > 0 {
			slopes = append(slopes, float64(t)/float64(e))
		}
		t, e = t-gaps[i+1-half], e-epochs[i+1-half]
	}
	if len(slopes) == 0 {
		return h.Lambda
	}
	slices.Sort(slopes)
	return max((slopes[(len(slopes)-1)/2]+slopes[len(slopes)/2])/2, 1)
}

// spread is the root of the mean squared residual, ms. What the epochs did not tell
// counts as a residual of a whole period: an outage, or further publications within an
// epoch, however many in a row.
func (h *hz) spread() float64 {
	squares := 0.0
	residuals := h.Filters.best().Residuals
	for _, r := range residuals {
		squares += float64(r) * float64(r)
	}
	squares /= float64(max(len(residuals), 1))
	odd, before := 0, int64(1)
	for _, d := range h.Epochs {
		if d < 1 && before >= 1 {
			odd++
		}
		before = d
	}
	share := float64(odd) / float64(max(len(h.Epochs), 1))
	return math.Sqrt(squares + share*h.Lambda*h.Lambda)
}

// judge decides whether there are epochs at all, once enough is known.
func (h *hz) judge() {
	if min(len(h.Gaps), len(h.Filters.best().Residuals)) < judgedAfter {
		return
	}
	limit := irregular
	if h.Renewal {
		limit = regular
	}
	h.Renewal = h.spread() > limit*h.Lambda
}
