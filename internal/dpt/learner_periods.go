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
	// priorFraction is how likely a seventh, say, of a period that people set is beside it.
	priorFraction = 0.05
)

// nicePeriods are those that people set, s.
var nicePeriods = [...]float64{
	10, 15, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600, 2 * 3600,
	3 * 3600, 4 * 3600, 6 * 3600, 8 * 3600, 12 * 3600, day, week,
}

func (h hypothesis) prior() float64 {
	nice := priorNice / float64(len(nicePeriods))
	switch {
	case h.Step == 0 && slices.Contains(nicePeriods[:], h.Period):
		return math.Log(nice)
	case h.Step == 0:
		return math.Log(nice * priorFraction)
	}
	return math.Log(priorDensity * h.Step / h.Period)
}

// Bounds of the search for periods.
const (
	maxCells     = 96  // ranges of periods that are kept
	fineCells    = 40  // ranges up to which they are made finer than they need to be
	maxDivisor   = 160 // periods that fit into the distance of two meetings
	maxLeap      = 50
	alike        = 0.7  // least ratio of widths of ranges that are held against each other
	beam         = 250  // ranges of one width that are halved: few looks tell them apart
	maxSeeds     = 1500 // ranges in the distance of two meetings, about
	maxFits      = 48   // hypotheses that decide on the next probe
	minPeriod    = 10.  // s
	shortLags    = 2    // distances of meetings that periods are sought in
	longestShare = 0.12 // the same in the distance of two meetings: one contact says little
	hopeless     = 9.0  // in log-likelihood below the best: given up
)

// A lag is the distance of two neighbouring windows, which is a whole number of periods:
// between least and most. at is where the later one was met.
type lag struct{ least, most, at float64 }

// lags are the shortest distances between neighbouring windows: few periods fit into
// them. The starts of both windows are as far apart as the ends, which gives two brackets.
// Two meetings that may well be in one window have none.
func (e *evidence) lags() []lag {
	ms := e.meetings()
	width := e.scale
	for _, m := range ms {
		width = max(width, m.last-m.first)
	}
	var lags []lag
	for i := 1; i < len(ms); i++ {
		a, b := ms[i-1], ms[i]
		seen := (b.first + b.last - a.first - a.last) / 2
		off := max(4*width, min(longestShare*seen, 40*e.scale))
		l := lag{
			max(b.before-a.first, b.last-a.after, seen-off),
			min(b.after-a.last, b.first-a.before, seen+off), b.first,
		}
		if seen > 1.2*width && seen < 2*week && l.least < l.most {
			lags = append(lags, l)
		}
	}
	slices.SortStableFunc(lags, func(a, b lag) int { return cmp.Compare(a.most, b.most) })
	return lags[:min(len(lags), shortLags)]
}

// from is the same evidence with another reference, t s from the old one.
func (e *evidence) from(t float64) *evidence {
	c := *e
	c.ref += int64(math.Round(t * 1000))
	c.looks = slices.Clone(e.looks)
	for i := range c.looks {
		c.looks[i].at -= t
	}
	c.oldest -= t
	c.chain, c.middle = 0, 0
	return &c
}

// seeds are the ranges of periods that the shortest lags allow.
func (e *evidence) seeds(least float64, b *bench) []hypothesis {
	var all []hypothesis
	for _, m := range e.meetings() {
		least = max(least, minPeriod, 1.05*(m.last-m.first))
	}
	for _, l := range e.lags() {
		near := e.from(l.at)
		_, best := near.nice(b, 0)
		all = added(all, ranges(near.sharpen(near.divisions(l, least), best, b)))
	}
	return all
}

// divisions are ranges of periods of which a whole number leads from one window to
// another. Each range is narrow enough for both to be in phase.
func (e *evidence) divisions(l lag, least float64) []hypothesis {
	var hs []hypothesis
	most := min(maxDivisor, math.Floor(l.most/least))
	room := math.Floor(maxSeeds / most)
	for m := 1.0; m <= most; m++ {
		lo, hi := max(l.least, least*m)/m, l.most/m
		n := min(math.Ceil((hi-lo)*m/(e.scale/2)), max(room, 1))
		for i := range int(n) {
			step := (hi - lo) / n
			// To the precision that is stored.
			hs = append(hs, hypothesis{lo + (float64(i)+0.5)*step, float64(float32(step))})
		}
	}
	return hs
}

// split reports whether there is a silence between two contacts. Without one there may
// have been but one window, and no period can be told.
func (e *evidence) split() bool {
	silent := false
	for _, l := range e.looks {
		if l.at >= e.oldest && l.at <= 0 {
			silent = silent || !l.awake
		}
	}
	return silent
}

// nice are the fits of the nice periods that are thought of, and best is the largest of
// their log-likelihoods.
func (e *evidence) nice(b *bench, claimed float64) (fits []*fit, best float64) {
	var hs []hypothesis
	for _, p := range nicePeriods {
		if claimed == 0 || math.Abs(p-claimed) < aroundShare*p {
			hs = append(hs, hypothesis{Period: p})
		}
	}
	best = math.Inf(-1)
	if !e.split() {
		return nil, best
	}
	fits = e.weigh(hs, b)
	for _, f := range fits {
		best = max(best, f.likelihood)
	}
	return fits, best
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

// aroundShare is how far a claimed period is followed, as a share of it.
const aroundShare = 3e-4

// around are ranges of periods near one that is believed in: should its clock be a
// little off, or change, they say by how much.
func around(period float64) []hypothesis {
	const n, off = 32, aroundShare
	hs := make([]hypothesis, n)
	for i := range hs {
		step := float64(float32(2 * off * period / n))
		hs[i] = hypothesis{period*(1-off) + (float64(i)+0.5)*step, step}
	}
	return hs
}

// sharpen weighs ranges of periods and halves those in whose middle and ends contacts would
// be out of phase, the widest first: ranges alike in width are judged by the same looks. Of
// each width it drops the hopeless and keeps the likeliest beam; what is judged by all looks
// is held against best too, the log-likelihood of the best period known so far.
func (e *evidence) sharpen(cells []hypothesis, best float64, b *bench) []*fit {
	var done []*fit
	slices.SortStableFunc(cells, func(g, h hypothesis) int { return cmp.Compare(h.blur(), g.blur()) })
	for len(cells) > 0 {
		n := 1
		for n < len(cells) && cells[n].blur() > alike*cells[0].blur() {
			n++
		}
		var halves []hypothesis
		for _, f := range e.likeliest(cells[:n], best, b) {
			if e.blurred(f) {
				halves = append(halves, f.halves()...)
				continue
			}
			best = max(best, f.likelihood)
			done = append(done, f)
		}
		cells = slices.Concat(cells[n:], halves)
		slices.SortStableFunc(cells, func(g, h hypothesis) int {
			return cmp.Compare(h.blur(), g.blur())
		})
	}
	done = slices.DeleteFunc(done, func(f *fit) bool { return f.likelihood < best-hopeless })
	slices.SortStableFunc(done, func(f, g *fit) int { return cmp.Compare(g.likelihood, f.likelihood) })
	return e.refine(done, b)
}

// likeliest are the fits of ranges alike in width, without the hopeless and at most beam.
func (e *evidence) likeliest(cells []hypothesis, best float64, b *bench) []*fit {
	var fits []*fit
	level := math.Inf(-1)
	for _, h := range cells {
		if f, ok := e.above(max(best, level)-hopeless, h, b, false); ok {
			fits = append(fits, f)
			level = max(level, f.likelihood)
		}
	}
	fits = slices.DeleteFunc(fits, func(f *fit) bool { return f.likelihood < level-hopeless })
	slices.SortStableFunc(fits, func(f, g *fit) int { return cmp.Compare(g.likelihood, f.likelihood) })
	return fits[:min(len(fits), beam)]
}

// blur is the width of a range as a share of its period.
func (h hypothesis) blur() float64 { return h.Step / h.Period }

// refine halves what is left of the ranges further, as far as there is room. It returns
// them by ascending period.
func (e *evidence) refine(fits []*fit, b *bench) []*fit {
	fits = fits[:min(len(fits), maxCells)]
	wide := 0
	for _, f := range fits {
		if e.wide(f) {
			wide++
		}
	}
	var finer []*fit
	for _, f := range fits {
		if !e.wide(f) || len(fits)+wide > fineCells {
			finer = append(finer, f)
			continue
		}
		for _, h := range f.halves() {
			if g := e.fit(h, b, false); !math.IsInf(g.logw, -1) {
				finer = append(finer, g)
			}
		}
	}
	slices.SortFunc(finer, func(f, g *fit) int {
		return cmp.Or(cmp.Compare(f.Period, g.Period), cmp.Compare(f.Step, g.Step))
	})
	return finer
}

// ranges are what is stored of fits.
func ranges(fits []*fit) []hypothesis {
	hs := make([]hypothesis, len(fits))
	for i, f := range fits {
		hs[i] = f.hypothesis
	}
	return hs
}

// sharp is how far, in windows, the ends of a range may fall apart over the time that
// contacts span.
const sharp = 0.03

// blurred reports whether the farthest contact says nothing about the range yet.
func (e *evidence) blurred(f *fit) bool { return e.farthest() > e.reach(f.hypothesis) }

// farthest is the largest distance from ref of a contact that can be brought into phase: a
// period known well enough to reach one contact is tried out for the next if that is not
// more than maxLeap times as far. Contacts beyond wait until others lie between.
func (e *evidence) farthest() float64 {
	if e.chain > 0 {
		return e.chain
	}
	far := e.distances()
	e.chain = max(e.scale, 1)
	for i, d := range far {
		if i > 0 && d > maxLeap*max(far[i-1], e.scale) && e.chain > 1.2*e.scale {
			break
		}
		e.chain = max(e.chain, d)
	}
	return e.chain
}

// distances are those of the contacts from ref, ascending.
func (e *evidence) distances() []float64 {
	var far []float64
	for _, l := range e.looks {
		if l.awake {
			far = append(far, math.Abs(l.at))
		}
	}
	slices.Sort(far)
	return far
}

func (e *evidence) wide(f *fit) bool {
	return e.farthest()/f.Period*f.Step > sharp*max(f.end-f.start, e.scale/4)
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
	near   float64 // period that is claimed, s; 0 = none
	mass   float64 // of the periods within a thousandth of the heaviest
	others float64 // of the periods far from it
	period float64 // their mean, s
	sd     float64 // its standard deviation, s

	evidenceLog float64 // log marginal likelihood of all periods together
}

// sameShare is how near periods are that count as one.
const sameShare = 1e-3

// otherShare is how far away a period is taken for another one, such as a multiple.
const otherShare = 0.05

// believe weighs the ranges kept and the nice periods. Once a period is claimed only
// those near it are thought of: visits follow the claim then, and would fit many another.
func (e *evidence) believe(cells []hypothesis, claimed float64) *belief {
	b := &bench{}
	nice, _ := e.nice(b, claimed)
	return e.conclude(append(e.weigh(cells, b), nice...), claimed, b)
}

// conclude adds the companions of the heaviest fits and compares them all.
func (e *evidence) conclude(fits []*fit, claimed float64, b *bench) *belief {
	bel := &belief{evidence: e, single: e.single(b), near: claimed}
	fits = slices.DeleteFunc(fits, func(f *fit) bool { return f.windows < 2 })
	if claimed == 0 {
		fits = append(fits, e.weigh(companions(fits), b)...)
	}
	if len(fits) == 0 {
		return bel
	}
	slices.SortStableFunc(fits, func(f, g *fit) int { return cmp.Compare(g.logw, f.logw) })
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
	fits = heaviest(fits)
	sum = 0
	for _, f := range fits {
		sum += f.weight
	}
	for _, f := range fits {
		if f.weight > leastWeight {
			g := e.fit(f.hypothesis, b, true)
			g.weight = f.weight / sum
			bel.fits = append(bel.fits, g)
		}
	}
	return bel
}

// leastWeight of a fit that has a say in where to look next.
const leastWeight = 1e-4

// heaviest are the heaviest maxFits, of which a quarter is far from the first: its rivals
// have to be seen to be ruled out.
func heaviest(fits []*fit) []*fit {
	var near, far []*fit
	for _, f := range fits {
		if math.Abs(f.Period-fits[0].Period) <= otherShare*fits[0].Period {
			near = append(near, f)
		} else {
			far = append(far, f)
		}
	}
	near = near[:min(len(near), maxFits-min(len(far), maxFits/4))]
	return append(near, far[:min(len(far), maxFits-len(near))]...)
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
			twin := func(o hypothesis) bool {
				return math.Abs(o.Period-h.Period) < max(o.Step, 1e-9*o.Period)
			}
			near := func(g *fit) bool { return twin(g.hypothesis) }
			if h.Period >= minPeriod && h.Period <= 2*week && !slices.ContainsFunc(fits, near) &&
				!slices.ContainsFunc(hs, twin) {
				hs = append(hs, h)
			}
		}
	}
	return hs
}

// summarise finds the period that most weight agrees on, and what is left for others.
func (b *belief) summarise(fits []*fit) {
	top := fits[0].Period
	var m moments
	for _, f := range fits {
		off := math.Abs(f.Period-top) / top
		if off <= sameShare {
			m.add(f.Period-f.Step/2, f.Period+f.Step/2, f.weight)
		}
		if off > otherShare {
			b.others += f.weight
		}
	}
	b.mass = m.sum
	b.period, b.sd = m.result()
}

// settled reports whether one period is left.
func (b *belief) settled() bool { return b.mass >= claimMass && b.others <= claimOthers }

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
	return len(b.fits) > 0 && (b.near > 0 || b.fits[0].logw > b.single.logw)
}
