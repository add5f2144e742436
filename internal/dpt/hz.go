package dpt

import (
	"errors"
	"fmt"
	"math"
)

// hz follows the publish instants that answers show: a clock locked to whole publication
// epochs (hz_lock.go), the density of the next publication around it (hz_density.go), and
// the looks that cost least in waiting and polls (hz_plan.go).
//
// It needs publish instants. Fed with detection times it runs away: a look that finds
// something at once never learns how late it was. So it refuses them and says so.
type hz struct {
	Params   hzParams  `json:"l"`
	At       int64     `json:"a"`           // last look
	Due      int64     `json:"d"`           // next look
	Count    int       `json:"n,omitempty"` // publications so far
	Last     int64     `json:"p,omitempty"` // the newest one, if Count > 0
	Refused  bool      `json:"r,omitempty"` // the last hit showed no usable publish instant
	Misses   int       `json:"m,omitempty"` // since the last hit
	RTT      float64   `json:"t,omitempty"` // smoothed round trip, ms
	Lambda   float64   `json:"y,omitempty"` // the period, ms; 0 = not locked
	Renewal  bool      `json:"q,omitempty"` // publications keep to no epochs
	Gaps     series    `json:"g,omitempty"` // newest memory-1 inter-publish times, ms
	Epochs   series    `json:"e,omitempty"` // of each gap; 0 = within an epoch, broken = not known
	Window   int       `json:"w,omitempty"` // newest gaps without a broken one
	Far      int       `json:"b,omitempty"` // residuals beyond a quarter period in a row
	Outages  int       `json:"o,omitempty"` // in a row
	Filters  hzFilters `json:"f"`
	Chain    hzChain   `json:"h"`
	Price    float64   `json:"c,omitempty"` // what one poll is worth, ms of latency
	PollsSum float64   `json:"u,omitempty"` // polls and publications of late, forgotten by
	PubsSum  float64   `json:"v,omitempty"` // a hundredth per hit
	Looks    series    `json:"x,omitempty"` // the plan, ms after Last
	By       series    `json:"z,omitempty"` // its chance to have found something by then, 1/1000
}

// hzParams are the operator's choices, in milliseconds. At most one of Price and Target
// is set; without both the price is startPrice periods.
type hzParams struct {
	Price      int64   `json:"c,omitempty"` // latency that one poll is worth
	Target     float64 `json:"t,omitempty"` // polls per publication, 0.05 .. 100
	Bootstrap  int64   `json:"b"`           // gap while the period is unknown
	MinGap     int64   `json:"n"`
	MaxGap     int64   `json:"x"`
	Resolution int64   `json:"r,omitempty"` // of the publish instants, which are rounded down
}

const (
	// startPrice and topPrice are in periods. The dearest look takes about 14
	// publications at once, sqrt(2*topPrice); the density reaches no further.
	startPrice = 0.03
	topPrice   = 100
	// outagePolls are charged for an outage against the target, however many it took:
	// what a silent sensor costs must not be saved where it publishes. (Without epochs
	// there are no outages, only long gaps.)
	outagePolls = 5
	// tailGrowth is the factor by which looks move away once a plan is used up.
	tailGrowth = 1.25
)

// newHZ begins at the first contact.
func newHZ(p hzParams, contact int64) *hz {
	h := &hz{Params: p, At: contact, Chain: newHZChain()}
	h.bootstrap()
	return h
}

// configure adopts changed parameters and keeps what was learnt.
func (h *hz) configure(p hzParams) {
	h.Params = p
	h.replan()
}

func (p hzParams) check() error {
	const longest = int64(maxMaxGap / 1e6)
	switch {
	case p.MinGap < 1 || p.MinGap > p.Bootstrap || p.Bootstrap > p.MaxGap || p.MaxGap > longest:
		return fmt.Errorf("hz: gaps %d, %d, %d ms: must be 1 <= least <= bootstrap <= largest <= %d",
			p.MinGap, p.Bootstrap, p.MaxGap, longest)
	case p.Price < 0 || p.Price > longest:
		return fmt.Errorf("hz: price %d ms: must lie in 0 .. %d", p.Price, longest)
	case p.Target != 0 && !(p.Target >= 0.05 && p.Target <= 100):
		return fmt.Errorf("hz: target of %g polls per publication: must lie in 0.05 .. 100", p.Target)
	case p.Price != 0 && p.Target != 0:
		return errors.New("hz: price and target of polls per publication exclude each other")
	case p.Resolution < 0 || p.Resolution > longest:
		return fmt.Errorf("hz: resolution %d ms: must lie in 0 .. %d", p.Resolution, longest)
	}
	return nil
}

// hit drops instants that are not after the newest known one or that lie in the future.
// If none is left the hit is as good as one without publish times.
func (h *hz) hit(at int64, published []int64, exact bool) {
	if at < h.Last { // the clock was set back
		h.forget()
	}
	h.At = at
	polls := h.Misses + 1
	h.Misses = 0
	fresh, broken := 0, false
	for _, t := range published {
		if exact && t <= at && (h.Count == 0 || t > h.Last) && t >= -farAway {
			broken = h.publication(t, h.Refused && fresh == 0) || broken
			fresh++
		}
	}
	if h.Refused = fresh == 0; h.Refused {
		h.bootstrap()
		return
	}
	h.control(polls, fresh, broken)
	h.replan()
}

// miss takes the next instant of the plan. The plan holds until the next hit, since its
// costs are those of the tail that is left.
func (h *hz) miss(at, rtt int64) {
	if at < h.Last { // the clock was set back
		h.forget()
	}
	h.At = at
	h.Misses++
	rtt = min(rtt, h.Params.MaxGap)
	h.RTT += (float64(max(rtt, 0)) - h.RTT) / 8 // as SRTT of RFC 6298
	h.advance()
}

func (h *hz) due() int64    { return h.Due }
func (h *hz) refused() bool { return h.Refused }

// forget begins anew, prices and parameters apart.
func (h *hz) forget() {
	*h = hz{
		Params: h.Params, At: h.At, RTT: h.RTT, Chain: newHZChain(),
		Price: h.Price, PollsSum: h.PollsSum, PubsSum: h.PubsSum,
	}
}

// learning reports whether there is nothing to plan with.
func (h *hz) learning() bool { return h.Refused || h.Lambda == 0 }

func (h *hz) bootstrap() {
	h.Looks, h.By = nil, nil
	h.advance()
}

// replan makes the plan that follows a hit.
func (h *hz) replan() {
	if h.learning() {
		h.bootstrap()
		return
	}
	h.Looks, h.By = h.plan()
	h.advance()
}

// advance sets Due to the first look of the plan that is left, within the gaps.
func (h *hz) advance() {
	p := h.Params
	next := h.At + int64(h.bootstrapGap())
	switch i := h.pending(); {
	case h.learning():
	case i < len(h.Looks):
		next = h.Last + h.Looks[i]
	default:
		next = h.tail()
	}
	h.Due = min(max(next, h.At+p.MinGap), h.At+p.MaxGap)
}

// pending is the index of the plan's first look after the last one made.
func (h *hz) pending() int {
	i := 0
	for i < len(h.Looks) && h.Last+h.Looks[i] <= h.At {
		i++
	}
	return i
}

// bootstrapGap grows after patience misses, so that a sensor that is silent for months
// is not polled at the bootstrap interval.
func (h *hz) bootstrapGap() float64 {
	n := min(max(h.Misses-patience, 0), 1000)
	return min(float64(h.Params.Bootstrap)*math.Pow(gapGrowth, float64(n)), float64(h.Params.MaxGap))
}

// tail is the next look once the plan is used up: late in an epoch, a quarter further
// from the last publication than now. Without epochs there is only the quarter.
func (h *hz) tail() int64 {
	if h.Renewal {
		since := max(float64(h.At-h.Last), float64(h.Params.MinGap))
		return h.Last + int64(min(math.Ceil(tailGrowth*since), float64(farAway)))
	}
	base := h.Filters.base()
	k := math.Ceil((float64(h.At-h.Last) - base) / h.Lambda)
	k = max(k+1, math.Ceil(tailGrowth*k))
	latest := h.kernel()
	next := math.Ceil(base + k*h.Lambda + latest[len(latest)-1])
	return h.Last + int64(min(next, float64(farAway)))
}

// unit is the period or, without epochs, the mean gap: what prices are scaled by.
func (h *hz) unit() float64 {
	if !h.Renewal {
		return h.Lambda
	}
	sum := 0.0
	for _, x := range h.Gaps {
		sum += float64(x)
	}
	return sum / float64(max(len(h.Gaps), 1))
}

// price is what one poll is worth, ms. Below one round trip two looks would overlap.
func (h *hz) price() float64 {
	unit, c := h.unit(), h.Price
	switch {
	case h.Params.Price > 0:
		c = float64(h.Params.Price)
	case h.Params.Target == 0:
		c = startPrice * unit
	}
	return max(min(c, topPrice*unit), h.RTT, 1)
}

// control moves the price so that polls per publication meet the target. ended says
// that this hit ended an outage.
func (h *hz) control(polls, published int, ended bool) {
	if h.learning() {
		return
	}
	n := float64(polls)
	h.PollsSum = 0.99*h.PollsSum + n
	h.PubsSum = 0.99*h.PubsSum + float64(published)
	if h.Params.Target == 0 {
		return
	}
	if h.Price == 0 {
		h.Price = startPrice * h.unit()
	}
	if ended && !h.Renewal {
		n = min(n, outagePolls)
	}
	gain := min(max(10/float64(h.Count+1), 0.01), 0.2)
	c := h.Price * math.Exp(gain*max(n-h.Params.Target*float64(published), -50))
	h.Price = max(min(c, topPrice*h.unit()), h.RTT, 1)
}

// why says which epoch is looked at, how likely there is something by then, and what a
// poll is worth.
func (h *hz) why() string {
	gap := rounded(float64(h.Due - h.At))
	i := h.pending()
	switch {
	case h.Refused:
		return "hz: no publish times, gap " + gap
	case h.Lambda == 0:
		return "hz: bootstrap " + gap
	case h.Due == h.At+h.Params.MaxGap:
		return "hz: max gap " + gap
	case i >= len(h.Looks) && h.Renewal:
		return "hz: overdue, gap " + gap
	case i >= len(h.Looks):
		return fmt.Sprintf("hz: overdue, epoch %.0f", h.epoch())
	}
	name := "without epochs"
	if !h.Renewal {
		name = fmt.Sprintf("epoch %.0f", h.epoch())
	}
	return fmt.Sprintf("hz: %s, %d %% by then, price %.3g s", name, (h.By[i]+5)/10, h.price()/1000)
}

// epoch of Due, counted from the last publication.
func (h *hz) epoch() float64 {
	return math.Round((float64(h.Due-h.Last) - h.Filters.base()) / h.Lambda)
}

func (h *hz) pace() (gap, growth float64) {
	switch {
	case h.learning() && h.Misses < patience:
		return h.bootstrapGap(), 1
	case h.learning():
		return h.bootstrapGap(), gapGrowth
	case h.pending() >= len(h.Looks):
		return max((tailGrowth-1)*float64(h.Due-h.Last), h.Lambda), tailGrowth
	}
	perLook := 1.0 // publications
	if h.PollsSum > 0 {
		perLook = h.PubsSum / h.PollsSum
	}
	between := h.unit()
	if !h.Renewal {
		between /= h.Chain.share()
	}
	return between * perLook, 1
}

func (h *hz) stats() (period, spread float64, mode string) {
	switch {
	case h.Lambda == 0:
		mode = "bootstrap"
	case h.pending() >= len(h.Looks):
		mode = "outage"
	case h.Renewal:
		mode = "renewal"
	default:
		mode = "locked"
	}
	if h.Refused {
		mode = "refused"
	}
	if h.Lambda > 0 {
		period, spread = h.unit(), h.spread()
	}
	return period, spread, mode
}
