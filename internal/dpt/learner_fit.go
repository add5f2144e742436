package dpt

import (
	"cmp"
	"math"
	"slices"
)

// A fit is what the evidence says under one period P: the sensor is awake once per
// period from start to end, always at the same phase.
//
// All looks are folded to one period and sorted. A window that starts in the gap before
// look i and ends in the gap before look j contains the looks between, so its
// log-likelihood is S(j) - S(i), with S the running sum of the looks' up or down. With
// len the length of a gap, thinned far from the contacts, the marginal likelihood is
//
//	Z = sum over i <= j of len(i) * len(j) * exp(S(j) - S(i)),
//
// and the chance of being awake at a phase x in gap g is A(x)*B(x)/Z, where A sums the
// starts before x and B the ends after it. Both are running sums: no sampling, no grid.
type fit struct {
	hypothesis
	likelihood float64 // log of the marginal likelihood
	logw       float64 // the same, times the prior of the period
	weight     float64 // share among all fits
	cut        float64 // phase at which the circle is cut, deep in the sleeping part

	start, end     float64 // of the window near ref, s; posterior medians
	startSD, endSD float64
	windows        int        // windows in which there was contact
	daily          bool       // one window a day, on some days of the week
	on             [7]float64 // chance that the sensor wakes at all in cycle k mod 7

	// Gap g lies between the folded looks g-1 and g.
	looks        []float64
	below, above []float64 // A at the gap's lower end, B at its upper end
	inLog, outLo []float64 // density of starts and of ends in the gap
	z            float64
}

// A hypothesis is one period, or a small range of periods step wide around it.
type hypothesis struct {
	Period float64 // s
	Step   float64 // s; 0 = exactly Period
}

const (
	day  = 86400.0
	week = 7 * day
)

// point is a folded look.
type point struct {
	phase float64
	w     float64
	at    float64
	awake bool
}

// bench is memory that fits of one evidence share.
type bench struct {
	points []point
	keys   []uint64 // phases in the upper bits, look numbers in the lower phaseShift
	phases []float64
	sums   []float64
	alien  float64 // log-likelihood of all answers if none is in a window
}

// phaseShift leaves room for the number of a look: maxLooks < 1<<phaseShift.
const phaseShift = 10

// A look further than scale/coherence out of phase between the ends of a hypothesis'
// range says nothing about it yet.
const coherence = 4

// fit weighs one hypothesis. keep asks for what awake needs.
func (e *evidence) fit(h hypothesis, b *bench, keep bool) *fit {
	f, ok := e.above(math.Inf(-1), h, b, keep)
	if !ok {
		return &fit{hypothesis: h, logw: math.Inf(-1)}
	}
	return f
}

// mostSpread is what the marginal likelihood can exceed that of the likeliest window by, in
// logarithms: starts and ends thin out from its contacts on, so that Z is hardly more than
// the square of their distance.
const mostSpread = 1

// above is fit for hypotheses whose log-likelihood may be above floor; false for others.
func (e *evidence) above(floor float64, h hypothesis, b *bench, keep bool) (*fit, bool) {
	f := &fit{hypothesis: h, daily: math.Abs(h.Period-day) < day/200}
	if f.daily {
		floor = math.Inf(-1) // days without a window may explain silences
	}
	if floor > math.Inf(-1) && len(e.looks) > 2*aFew {
		// Fewer looks never are less likely than all.
		e.fold(e.nearest(), h, b)
		if a, ok := e.arc(b.points); ok && b.alien+a.sum+mostSpread < floor {
			return nil, false
		}
	}
	e.fold(e.looks, h, b)
	a, ok := e.arc(b.points)
	if !ok || b.alien+a.sum+mostSpread < floor {
		return nil, false
	}
	mid := a.mid(b.points, h.Period)
	base := 0.0
	if f.daily {
		base = f.weekdays(e, b, mid, a.length(b.points, h.Period))
		if a, ok = e.arc(b.points); !ok {
			return nil, false
		}
	}
	f.integrate(b, a, e.scale, base+b.alien, keep)
	f.likelihood = f.logw
	f.logw += f.prior()
	f.count(e)
	return f, true
}

// single weighs that all contacts were in one window, that is, that the period is
// longer than what was seen. A sensor that never sleeps is a case of it.
func (e *evidence) single(b *bench) *fit {
	first, last := e.looks[0].at, e.looks[len(e.looks)-1].at
	f := &fit{hypothesis: hypothesis{Period: 2*max(-first, last) + 2*week}}
	e.fold(e.looks, f.hypothesis, b)
	// The sensor is not known to sleep at all, but the circle has to be cut somewhere.
	far := point{phase: -f.Period / 2, w: -1e-9, at: -f.Period / 2}
	b.points = slices.Insert(b.points, 0, far)
	a, _ := e.arc(b.points)
	f.integrate(b, a, e.scale, b.alien, true)
	// The period is longer than what was seen, but how long? The prior is even on its
	// logarithm, and a period that long finds a window so short with chance 1/period.
	least := max(last-e.oldest, 2*e.scale)
	width := max(-e.oldest, e.scale)
	inside := min((f.end-f.start)/width, 1) * width
	f.logw += math.Log(priorSingle) - math.Log(f.z) + math.Log(f.Period*max(f.end-f.start, 1e-3))
	f.logw += math.Log(inside/least) - math.Log(math.Log(8*week/min(least, 2*week)))
	f.logw -= e.breaks() * breakCost
	f.windows = 1
	return f
}

// breakCost is what two silences in a row between contacts say against one window, beyond
// what two losses do.
const breakCost = 4

// breaks counts the runs of two or more silences between contacts.
func (e *evidence) breaks() float64 {
	run, count := 0, 0.0
	for _, l := range e.looks {
		if l.at < e.oldest {
			continue
		}
		if run++; l.awake {
			if run > 2 {
				count++
			}
			run = 0
		}
	}
	return count
}

// aFew looks refute most periods.
const aFew = 40

// nearest are the aFew looks around ref, where all periods are in phase.
func (e *evidence) nearest() []look {
	if e.middle == 0 {
		e.middle, _ = slices.BinarySearchFunc(e.looks, 0, func(l look, t float64) int {
			return cmp.Compare(l.at, t)
		})
	}
	from := min(max(e.middle-aFew/2, 0), len(e.looks)-aFew)
	return e.looks[from : from+aFew]
}

// fold puts the looks that say something about h into the bench, sorted by phase.
func (e *evidence) fold(looks []look, h hypothesis, b *bench) {
	reach := e.reach(h)
	b.keys, b.points = b.keys[:0], b.points[:0]
	if len(b.phases) < len(looks) {
		b.phases = make([]float64, 2*len(looks))
	}
	inverse := 1 / h.Period
	for i, l := range looks {
		if math.Abs(l.at) > reach {
			continue
		}
		x := l.at - h.Period*math.Floor(l.at*inverse+0.5)
		b.phases[i] = x
		turn := min(max(x*inverse+0.5, 0), 1)
		b.keys = append(b.keys, uint64(turn*(1<<50))<<phaseShift|uint64(i))
	}
	b.alien = 0
	slices.Sort(b.keys) // several times as fast as sorting the points
	for _, key := range b.keys {
		i := key & (1<<phaseShift - 1)
		l := &looks[i]
		if l.awake {
			b.alien += l.trust * e.stray
		}
		b.points = append(b.points, point{b.phases[i], l.weight, l.at, l.awake})
	}
}

// reach is the distance from ref within which looks say something about h.
func (e *evidence) reach(h hypothesis) float64 {
	if h.Step == 0 {
		return math.Inf(1)
	}
	return 2 * e.scale / coherence * h.Period / h.Step
}

// An arc is a run of count folded looks from first on, around the circle.
type arc struct {
	first, count int
	sum          float64
}

func (a arc) last(points []point) point { return points[(a.first+a.count-1)%len(points)] }

// length is from the arc's first to its last look.
func (a arc) length(points []point, period float64) float64 {
	return wrap(a.last(points).phase-points[a.first].phase, period)
}

func (a arc) mid(points []point, period float64) float64 {
	return points[a.first].phase + a.length(points, period)/2
}

// wrap is x modulo period in [0, period).
func wrap(x, period float64) float64 {
	x -= period * math.Floor(x/period)
	if x >= period {
		return 0
	}
	return x
}

// arc is the most likely window: the run of looks with the largest sum. False if it
// contains all looks, that is, if nothing shows that the sensor ever sleeps.
func (e *evidence) arc(points []point) (arc, bool) {
	var best, worst arc
	high, low, total := math.Inf(-1), math.Inf(1), 0.0
	var up, down float64
	upFrom, downFrom := 0, 0
	for i, p := range points {
		total += p.w
		if up <= 0 {
			up, upFrom = 0, i
		}
		if up += p.w; up > high {
			high, best = up, arc{upFrom, i - upFrom + 1, up}
		}
		if down >= 0 {
			down, downFrom = 0, i
		}
		if down += p.w; down < low {
			low, worst = down, arc{downFrom, i - downFrom + 1, down}
		}
	}
	n := len(points)
	if total-low > high {
		best = arc{(worst.first + worst.count) % n, n - worst.count, total - low}
	}
	return best, n > 0 && best.count > 0 && best.count < n
}

// rotated are the looks in order from the cut on, which lies in the middle of the
// sleeping part. The cut look comes first, at distance 0.
func rotated(points []point, a arc, period float64) (cut float64, order int) {
	n := len(points)
	from := points[(a.first+a.count-1)%n].phase
	sleep := wrap(points[a.first].phase-from, period)
	best, order := math.Inf(1), 0
	for k := a.count; k < n; k++ {
		i := (a.first + k) % n
		off := math.Abs(wrap(points[i].phase-from, period) - sleep/2)
		if off < best {
			best, order = off, i
		}
	}
	return points[order].phase, order
}

// priorOff is the chance that a sensor that wakes once a day leaves out a weekday.
const priorOff = 0.25

// weekdays marginalises over the days of the week on which the sensor wakes. A day with
// contact is one of them. The silences of any other day in the window around mid say
// that it is not one, or that all were lost; they say nothing of the window's edges.
func (f *fit) weekdays(e *evidence, b *bench, mid, length float64) float64 {
	var contact [7]bool
	var silent [7]float64
	for _, p := range b.points {
		k := math.Round((p.at - mid) / f.Period)
		if p.awake {
			contact[mod7(k)] = true
		} else if math.Abs(p.at-mid-k*f.Period) <= length/2 {
			silent[mod7(k)] += p.w
		}
	}
	sum := 0.0
	for c := range f.on {
		on := (1 - priorOff) * math.Exp(silent[c])
		if contact[c] {
			f.on[c] = 1
			sum += math.Log(1 - priorOff)
		} else {
			f.on[c] = on / (on + priorOff)
			sum += math.Log(on + priorOff)
		}
	}
	b.points = slices.DeleteFunc(b.points, func(p point) bool {
		return !contact[mod7(math.Round((p.at-mid)/f.Period))]
	})
	return sum
}

func mod7(k float64) int {
	return int(k-7*math.Floor(k/7)) % 7
}

// integrate fills in the marginal likelihood and the edges.
func (f *fit) integrate(b *bench, a arc, scale, base float64, keep bool) {
	n := len(b.points)
	var first int
	f.cut, first = rotated(b.points, a, f.Period)
	size := 6 * (n + 1)
	if len(b.sums) < size {
		b.sums = make([]float64, 2*size)
	}
	part := func(i int) []float64 { return b.sums[i*(n+1) : (i+1)*(n+1)] }
	looks, sums := part(0)[:n], part(1)
	f.below, f.above, f.inLog, f.outLo = part(2), part(3), part(4), part(5)
	sums[0] = 0
	for i := range n {
		k := first + i
		if k >= n {
			k -= n
		}
		p := &b.points[k]
		looks[i] = wrap(p.phase-f.cut, f.Period)
		switch {
		case i == 0 || looks[i] >= looks[i-1]:
		case looks[i-1]-looks[i] > f.Period/2:
			looks[i] = f.Period // as far round as the cut look
		default:
			looks[i] = looks[i-1] // sorting has rounded
		}
		sums[i+1] = sums[i] + p.w
	}
	lowest := (a.first - first + n) % n
	lo, hi := sums[lowest], sums[lowest+a.count]
	f.looks = looks
	last := (lowest + a.count - 1) % n
	width := max(looks[last]-looks[lowest], scale)
	// A start may be far likelier than that of the likeliest window if all ends after it are
	// as much less likely.
	least := negligible - max(lo-slices.Min(sums), slices.Max(sums)-hi, 0)
	for g := range n + 1 {
		f.inLog[g], f.outLo[g] = odds(lo-sums[g], least), odds(sums[g]-hi, least)
		from, to := f.gap(g)
		if g <= lowest && f.inLog[g] > 0 {
			f.inLog[g] *= thinned(looks[lowest]-to, looks[lowest]-from, width)
		}
		if g > last && f.outLo[g] > 0 {
			f.outLo[g] *= thinned(from-looks[last], to-looks[last], width)
		}
	}
	f.edges()
	width = max(f.end-f.start, 1e-3)
	f.logw = base + hi - lo + math.Log(f.z) - math.Log(f.Period*width)
	if keep {
		f.compress()
		return
	}
	f.looks, f.below, f.above, f.inLog, f.outLo = nil, nil, nil, nil, nil
}

// thinned is the mean prior density of an edge that is near .. far s off the contacts, which
// span width: even as long as that is little, then falling with the distance.
func thinned(near, far, width float64) float64 {
	if far-near < 1e-3*width {
		return width / (width + near)
	}
	return width * math.Log((width+far)/(width+near)) / (far - near)
}

// negligible is the log of the share of a sum that is left out.
const negligible = -40

// odds is exp(x) within bounds, 0 below least.
func odds(x, least float64) float64 {
	if x < least {
		return 0
	}
	return math.Exp(min(max(x, -300), 300))
}

// noEdge is the chance below which a gap is taken to have no edge.
const noEdge = 1e-9

// compress keeps the gaps in which an edge may lie and one on either side of each. In
// between neither A nor B changes.
func (f *fit) compress() {
	n := len(f.looks)
	for g := range n + 1 {
		lo, hi := f.gap(g)
		long := hi - lo + instant
		least := noEdge * f.z / long
		if f.inLog[g]*(f.above[g]+long*f.outLo[g]) < least &&
			f.outLo[g]*(f.below[g]+long*f.inLog[g]) < least {
			f.inLog[g], f.outLo[g] = 0, 0
		}
	}
	edge := func(g int) bool { return f.inLog[g] > 0 || f.outLo[g] > 0 }
	var c fit
	for g := range n + 1 {
		if g == 0 || g == n || edge(g-1) || edge(g) || edge(g+1) {
			c.below, c.above = append(c.below, f.below[g]), append(c.above, f.above[g])
			c.inLog, c.outLo = append(c.inLog, f.inLog[g]), append(c.outLo, f.outLo[g])
			if g < n {
				c.looks = append(c.looks, f.looks[g])
			}
		}
	}
	f.looks, f.below, f.above, f.inLog, f.outLo = c.looks, c.below, c.above, c.inLog, c.outLo
}

// gap is the extent of gap g, in s from the cut.
func (f *fit) gap(g int) (lo, hi float64) {
	hi = f.Period
	if g > 0 {
		lo = f.looks[g-1]
	}
	if g < len(f.looks) {
		hi = f.looks[g]
	}
	return lo, max(hi, lo)
}

// instant is the least length of a gap, s: two looks may fall on one phase.
const instant = 1e-3

// edges sums starts from below and ends from above, and with them Z and the moments of
// both edges.
func (f *fit) edges() {
	n := len(f.looks)
	sum := 0.0
	for g := range n + 1 {
		lo, hi := f.gap(g)
		f.below[g] = sum
		sum += (hi - lo + instant) * f.inLog[g]
	}
	sum = 0
	for g := n; g >= 0; g-- {
		lo, hi := f.gap(g)
		f.above[g] = sum
		sum += (hi - lo + instant) * f.outLo[g]
	}
	var s, e moments
	for g := range n + 1 {
		if f.inLog[g] == 0 && f.outLo[g] == 0 {
			continue
		}
		lo, hi := f.gap(g)
		long := hi - lo + instant
		both := long * long / 2 * f.inLog[g] * f.outLo[g] // start and end in one gap
		s.add(lo, hi, long*f.inLog[g]*f.above[g]+both)
		e.add(lo, hi, long*f.outLo[g]*f.below[g]+both)
	}
	f.z = s.sum
	_, f.startSD = s.result()
	_, f.endSD = e.result()
	f.start, f.end = f.medians(s.sum / 2)
	// Back to phases around ref.
	shift := f.cut
	if mid := (f.start+f.end)/2 + f.cut; mid > f.Period/2 {
		shift -= f.Period
	}
	f.start += shift
	f.end += shift
}

// medians are those of start and end, s from the cut; half is half of Z.
func (f *fit) medians(half float64) (start, end float64) {
	started, ended := 0.0, 0.0
	for g := range f.inLog {
		if f.inLog[g] == 0 && f.outLo[g] == 0 {
			continue
		}
		lo, hi := f.gap(g)
		long := hi - lo + instant
		both := long * long / 2 * f.inLog[g] * f.outLo[g]
		if w := long*f.inLog[g]*f.above[g] + both; started < half {
			if started += w; started >= half {
				start = hi - (hi-lo)*(started-half)/w
			}
		}
		if w := long*f.outLo[g]*f.below[g] + both; ended < half {
			if ended += w; ended >= half {
				end = hi - (hi-lo)*(ended-half)/w
			}
		}
	}
	return start, max(end, start)
}

// moments of a piecewise uniform density.
type moments struct{ sum, first, second float64 }

func (m *moments) add(lo, hi, w float64) {
	mid := (lo + hi) / 2
	m.sum += w
	m.first += w * mid
	m.second += w * (mid*mid + (hi-lo)*(hi-lo)/12)
}

func (m *moments) result() (mean, sd float64) {
	mean = m.first / m.sum
	return mean, math.Sqrt(max(m.second/m.sum-mean*mean, 0))
}

// cycle is the number of the window that t belongs to, 0 at ref.
func (f *fit) cycle(t float64) float64 {
	return math.Round((t - (f.start+f.end)/2) / f.Period)
}

// count finds the windows with contact, as far as silences tell them apart.
func (f *fit) count(e *evidence) {
	last, silent, reach := math.Inf(-1), true, e.reach(f.hypothesis)
	for _, l := range e.looks {
		switch k := f.cycle(l.at); {
		case math.Abs(l.at) > reach:
		case !l.awake:
			silent = true
		case silent && k != last:
			f.windows++
			last, silent = k, false
		}
	}
}

// awake is the chance that the sensor is awake at t, given this period.
func (f *fit) awake(t float64) float64 {
	// The range of periods smears the window the more the further away t is.
	d := f.Step / 3
	if d*math.Abs(t) < 0.005*f.Period*(f.end-f.start) {
		return f.exactly(t, f.Period)
	}
	return (f.exactly(t, f.Period-d) + f.exactly(t, f.Period) + f.exactly(t, f.Period+d)) / 3
}

func (f *fit) exactly(t, period float64) float64 {
	mid := (f.start + f.end) / 2
	k := math.Floor((t-mid)/period + 0.5)
	x := wrap(t-k*period-f.cut, f.Period)
	g := 0 // there are few gaps
	for g < len(f.looks) && f.looks[g] < x {
		g++
	}
	lo, hi := f.gap(g)
	x = min(max(x, lo), hi)
	p := (f.below[g] + (x-lo)*f.inLog[g]) * (f.above[g] + (hi-x)*f.outLo[g]) / f.z
	if f.daily {
		p *= f.on[mod7(k)]
	}
	return min(p, 1)
}
