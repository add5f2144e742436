package dpt

import (
	"cmp"
	"math"
	"slices"
)

// Prior weights. Half of it lies on periods that people set, the rest evenly on the
// logarithm of the period, from a second to a fortnight.
const (
	priorSingle  = 0.2
	priorNice    = 0.4
	priorDensity = 0.4 / 14 // per unit of ln(period)
)

// nicePeriods are those that people set, s.
var nicePeriods = [...]float64{
	5, 10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600, 2 * 3600,
	3 * 3600, 4 * 3600, 6 * 3600, 8 * 3600, 12 * 3600, day, week,
}

func (h hypothesis) prior() float64 {
	if h.Step == 0 {
		return math.Log(priorNice / float64(len(nicePeriods)))
	}
	return math.Log(priorDensity * h.Step / h.Period)
}

// Bounds of the search for periods.
const (
	maxCells    = 400 // ranges of periods that are kept
	fineCells   = 100 // ranges up to which they are made finer than they need to be
	maxDivisor  = 160 // periods that fit into the distance of two meetings
	maxSplits   = 1500
	maxFits     = 48  // hypotheses that decide on the next probe
	minPeriod   = 5.0 // s
	farMeetings = 3   // meetings back from the newest
	longestSeen = 4.0 // length of a window, in what was seen of it, at most
	hopeless    = 9.0 // in log-likelihood below the best: given up
)

// lags are the distances of the newest meeting from those before it, as far as they are
// not much longer than the shortest. Two meetings that may well be one have none.
func (e *evidence) lags() []float64 {
	ms := e.meetings()
	var lags []float64
	for i := len(ms) - 2; i >= 0 && i >= len(ms)-1-farMeetings; i-- {
		a, b := ms[i], ms[len(ms)-1]
		lag := (b.first + b.last - a.first - a.last) / 2
		if lag > 2*week || len(lags) > 0 && lag > 3*lags[0] {
			break
		}
		if lag > 1.2*e.scale {
			lags = append(lags, lag)
		}
	}
	return lags
}

// seeds are ranges of periods that lead from one meeting to another: their distance is a
// whole number of periods, up to a window to either side. Each range is narrow enough for
// both meetings to be in phase.
func (e *evidence) seeds(lag, least float64) []hypothesis {
	width := 0.0
	for _, m := range e.meetings() {
		width = max(width, m.last-m.first)
	}
	off := longestSeen * max(width, e.scale)
	least = max(least, minPeriod, 1.05*width)
	var hs []hypothesis
	for m := 1.0; m <= maxDivisor && (lag+off)/m > least; m++ {
		lo, hi := max(lag-off, least*m)/m, (lag+off)/m
		n := min(math.Ceil((hi-lo)*m/(e.scale/2)), 32)
		for i := range int(n) {
			step := (hi - lo) / n
			hs = append(hs, hypothesis{lo + (float64(i)+0.5)*step, step})
		}
	}
	return hs
}

// nice is the log-likelihood of the best nice period.
func (e *evidence) nice(b *bench) float64 {
	best := math.Inf(-1)
	for _, p := range nicePeriods {
		if f := e.fit(hypothesis{Period: p}, b, false); f.windows > 1 {
			best = max(best, f.logw-f.prior())
		}
	}
	return best
}

// added are the ranges and those of the seeds that none of them covers.
func added(cells, seeds []hypothesis) []hypothesis {
	all := slices.Clone(cells)
	for _, h := range seeds {
		if !slices.ContainsFunc(cells, func(c hypothesis) bool {
			return math.Abs(c.Period-h.Period) < (c.Step+h.Step)/2
		}) {
			all = append(all, h)
		}
	}
	return all
}

// around are ranges of periods near one that is believed in: should its clock be a
// little off, or change, they say by how much.
func around(period float64) []hypothesis {
	const n, off = 32, 3e-4
	hs := make([]hypothesis, n)
	for i := range hs {
		step := 2 * off * period / n
		hs[i] = hypothesis{period*(1-off) + (float64(i)+0.5)*step, step}
	}
	return hs
}

// sharpen weighs ranges of periods, drops the hopeless, and halves those in whose middle
// and ends contacts would be out of phase. A wide range is judged by the looks near ref
// alone, which is never worse than what its parts can come to: so nothing that may turn
// out best is dropped, unless it takes more than maxSplits.
func (e *evidence) sharpen(cells []hypothesis, b *bench) []hypothesis {
	var fits []*fit
	nice := e.nice(b)
	for splits := 0; ; {
		for _, h := range cells {
			if f := e.fit(h, b, false); !math.IsInf(f.logw, -1) {
				f.logw -= h.prior()
				fits = append(fits, f)
			}
		}
		slices.SortStableFunc(fits, func(f, g *fit) int { return cmp.Compare(g.logw, f.logw) })
		best := nice
		for _, f := range fits {
			if !e.blurred(f) {
				best = max(best, f.logw)
				break
			}
		}
		cells = cells[:0:0]
		kept := fits[:0:0]
		for _, f := range fits {
			switch {
			case f.logw < best-hopeless:
			case e.blurred(f) && splits < maxSplits:
				splits++
				cells = append(cells, f.halves()...)
			default:
				kept = append(kept, f)
			}
		}
		if len(cells) == 0 {
			return e.refine(kept, b)
		}
		fits = kept
	}
}

// refine halves what is left of the ranges further, as far as there is room.
func (e *evidence) refine(fits []*fit, b *bench) []hypothesis {
	var cells []hypothesis
	fits = fits[:min(len(fits), maxCells)]
	wide := 0
	for _, f := range fits {
		if e.wide(f) {
			wide++
		}
	}
	for _, f := range fits {
		if e.wide(f) && len(fits)+wide <= fineCells {
			cells = append(cells, f.halves()...)
		} else {
			cells = append(cells, f.hypothesis)
		}
	}
	slices.SortFunc(cells, func(a, b hypothesis) int {
		return cmp.Or(cmp.Compare(a.Period, b.Period), cmp.Compare(a.Step, b.Step))
	})
	return cells
}

// sharp is how far, in windows, the ends of a range may fall apart over the time that
// contacts span.
const sharp = 0.03

// blurred reports whether the oldest contact says nothing about the range yet.
func (e *evidence) blurred(f *fit) bool { return -e.oldest > e.reach(f.hypothesis) }

func (e *evidence) wide(f *fit) bool {
	return -e.oldest/f.Period*f.Step > sharp*max(f.end-f.start, e.scale/4)
}

func (h hypothesis) halves() []hypothesis {
	return []hypothesis{{h.Period - h.Step/4, h.Step / 2}, {h.Period + h.Step/4, h.Step / 2}}
}

// A belief is all that is thought possible, with weights that sum to one, the
// heaviest first. single is apart: it competes only with periods under which there
// was contact in two windows.
type belief struct {
	*evidence
	fits   []*fit // the heaviest
	single *fit
	mass   float64 // of the periods within a thousandth of the heaviest
	period float64 // their mean, s
	sd     float64 // its standard deviation, s

	evidenceLog float64 // log marginal likelihood of all periods together
}

// sameShare is how near periods are that count as one.
const sameShare = 1e-3

// believe weighs the ranges kept, the nice periods, and the companions of the heaviest.
func (e *evidence) believe(cells []hypothesis) *belief {
	b := &bench{}
	bel := &belief{evidence: e, single: e.single(b)}
	hs := slices.Clone(cells)
	for _, p := range nicePeriods {
		hs = append(hs, hypothesis{Period: p})
	}
	fits := e.weigh(hs, b)
	fits = append(fits, e.weigh(companions(fits), b)...)
	slices.SortStableFunc(fits, func(f, g *fit) int { return cmp.Compare(g.logw, f.logw) })
	if len(fits) == 0 {
		return bel
	}
	sum := 0.0
	for _, f := range fits {
		f.weight = math.Exp(f.logw - fits[0].logw)
		sum += f.weight
	}
	bel.evidenceLog = fits[0].logw + math.Log(sum)
	for _, f := range fits {
		f.weight /= sum
	}
	bel.summarise(fits)
	fits = fits[:min(len(fits), maxFits)]
	sum = 0
	for _, f := range fits {
		sum += f.weight
	}
	for _, f := range fits {
		if f.weight > 1e-5 {
			g := e.fit(f.hypothesis, b, true)
			g.weight = f.weight / sum
			bel.fits = append(bel.fits, g)
		}
	}
	return bel
}

// weigh fits hypotheses and leaves out those under which there was contact in only one
// window.
func (e *evidence) weigh(hs []hypothesis, b *bench) []*fit {
	var fits []*fit
	for _, h := range hs {
		if f := e.fit(h, b, false); f.windows > 1 && !math.IsInf(f.logw, -1) {
			fits = append(fits, f)
		}
	}
	return fits
}

// companions are simple fractions and multiples of the heaviest periods: strides that
// happen to be even would never tell them apart.
func companions(fits []*fit) []hypothesis {
	var hs []hypothesis
	top := slices.Clone(fits)
	slices.SortStableFunc(top, func(f, g *fit) int { return cmp.Compare(g.logw, f.logw) })
	for _, f := range top[:min(len(top), 6)] {
		for _, r := range []float64{2, 3, 0.5, 1. / 3, 1. / 5, 1. / 7} {
			h := hypothesis{f.Period * r, f.Step * r}
			near := func(g *fit) bool { return math.Abs(g.Period-h.Period) < max(g.Step, 1e-9*g.Period) }
			twin := func(o hypothesis) bool { return math.Abs(o.Period-h.Period) < max(o.Step, 1e-9*o.Period) }
			if h.Period >= minPeriod && !slices.ContainsFunc(fits, near) &&
				!slices.ContainsFunc(hs, twin) {
				hs = append(hs, h)
			}
		}
	}
	return hs
}

// summarise finds the period that most weight agrees on.
func (b *belief) summarise(fits []*fit) {
	top := fits[0].Period
	var m moments
	for _, f := range fits {
		if math.Abs(f.Period-top) <= sameShare*top {
			m.add(f.Period-f.Step/2, f.Period+f.Step/2, f.weight)
		}
	}
	b.mass = m.sum
	b.period, b.sd = m.result()
}

// awake is the chance that the sensor is awake at t.
func (b *belief) awake(t float64) float64 {
	p := 0.0
	for _, f := range b.fits {
		p += f.weight * f.awake(t)
	}
	return p
}

// periodic reports whether the contacts are better explained by several windows of one
// period than by one window.
func (b *belief) periodic() bool {
	return len(b.fits) > 0 && b.fits[0].logw > b.single.logw
}
