package scheduler

import (
	"cmp"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// The slow, obvious twin: it marks every tick awake or asleep, adds up waits tick
// by tick, tries every set of candidates and every arrangement. It shares no code
// with what it checks; only the types of the problem are common.

// twin is one sensor as the twin sees it.
type twin struct {
	p       *Problem
	d       *Demand
	awake   map[int64]bool
	counted []int64
	ahead   []int64
	sink    int64
	stop    int64 // nothing is awake from here on
	toll    int64 // of a look-ahead crawl
	wrong   bool  // the negative control: a crawl sees its own tick, as if windows were closed
}

// run is a maximal awake stretch.
type run struct{ s, e int64 }

func newTwin(p *Problem, d *Demand, price float64) *twin {
	tw := &twin{p: p, d: d, awake: map[int64]bool{}, sink: p.Length, stop: p.Length}
	for _, s := range d.Spans {
		for t := s.Start; t < s.End; t++ {
			tw.awake[int64(t)] = true
		}
	}
	if p.End == Lookahead {
		tw.sink += int64(math.Round(d.Gap / 2))
		if price > 0 && p.Extra > 0 && d.Known >= p.Length+p.Extra {
			tw.sink, tw.stop = tw.sink+p.Extra, p.Length+p.Extra
			tw.toll = 2 * int64(math.Floor(2*price/(d.Coef*p.Tick.Seconds()*p.Tick.Seconds())))
			tw.ahead = tw.instants(max(p.Length, d.From), p.Length+p.Extra)
		}
	}
	tw.counted = tw.instants(d.From, p.Length)
	return tw
}

func (tw *twin) runs() []run {
	var runs []run
	for t := int64(-300); t < 600; t++ {
		if tw.awake[t] && !tw.awake[t-1] {
			runs = append(runs, run{t, t})
		}
		if tw.awake[t] {
			runs[len(runs)-1].e = t + 1
		}
	}
	return runs
}

func (tw *twin) legal(r run, t int64) bool {
	guard := tw.d.Guard
	if tw.d.GuardHalf && guard > (r.e-r.s)/2 {
		guard = (r.e - r.s) / 2
	}
	return t >= r.s && t < r.e && (t == r.s || t+guard+1 <= r.e) && t >= tw.d.From
}

// instants are the candidates in [from, to).
func (tw *twin) instants(from, to int64) []int64 {
	set := map[int64]bool{}
	last := int64(-1)
	for _, r := range tw.runs() {
		var legal []int64
		for t := from; t < to; t++ {
			if tw.legal(r, t) {
				legal = append(legal, t)
			}
		}
		if len(legal) == 0 {
			continue
		}
		lo, hi := legal[0], legal[len(legal)-1]
		last = hi
		if tw.p.Candidates == Grid {
			for _, t := range legal {
				if t%tw.p.Step == 0 {
					set[t] = true
				}
			}
			continue
		}
		pieces := int64(math.Ceil(10 * float64(hi-lo) / tw.d.Gap))
		pieces = max(1, min(pieces, hi-lo))
		for j := range pieces + 1 {
			set[lo+(hi-lo)*j/pieces] = true
		}
	}
	if last >= 0 {
		set[last] = true
	}
	var list []int64
	for t := range set {
		list = append(list, t)
	}
	slices.Sort(list)
	return list
}

// wait is U of what is captured in [s,t) for a crawl at t, the backlog included
// if no crawl has been made before it.
func (tw *twin) wait(s, t int64, none bool) int64 {
	var sum int64
	for u := s; u < min(t, tw.stop); u++ {
		if tw.awake[u] {
			sum += 4*(t-u) - 2 // an event stands, on average, in the middle of its tick
		}
	}
	if tw.wrong && tw.awake[t] {
		sum -= 2
	}
	if none {
		sum += 4 * tw.d.Backlog * (t - max(0, s))
	}
	return sum
}

func (tw *twin) forced() bool {
	return tw.p.End == Fixed && tw.d.Coef > 0 && tw.d.Cap != 0 && len(tw.counted) > 0
}

// curve is the least cost of n = 0, 1, .. crawls, -1 where impossible: the
// paper's dynamic programme, quadratic in the candidates for each n.
func (tw *twin) curve() []int64 {
	const none = -1
	all := append(append([]int64{tw.d.Source}, tw.counted...), tw.ahead...)
	c := len(tw.counted)
	best := make([][]int64, len(all)) // [node][crawls]
	for j := range all {
		best[j] = slices.Repeat([]int64{none}, c+1)
		if j == 0 {
			best[0][0] = 0
			continue
		}
		for i := range j {
			w := tw.wait(all[i], all[j], i == 0)
			for n, v := range best[i] {
				to, toll := n+1, int64(0)
				if j > c {
					to, toll = n, tw.toll
				}
				if v != none && to <= c && (best[j][to] == none || v+w+toll < best[j][to]) {
					best[j][to] = v + w + toll
				}
			}
		}
	}
	e := slices.Repeat([]int64{none}, c+1)
	for i := range all {
		if tw.forced() && i != c {
			continue
		}
		w := tw.wait(all[i], tw.sink, i == 0)
		for n, v := range best[i] {
			if v != none && (e[n] == none || v+w < e[n]) {
				e[n] = v + w
			}
		}
	}
	return e
}

// subsets is curve by trying all sets of crawls, look-ahead ones included.
func (tw *twin) subsets() []int64 {
	all := slices.Concat(tw.counted, tw.ahead)
	e := slices.Repeat([]int64{-1}, len(tw.counted)+1)
	for set := range uint(1) << len(all) {
		prev, sum := tw.d.Source, int64(0)
		for j, t := range all {
			if set>>j&1 == 1 {
				sum += tw.wait(prev, t, set&(1<<j-1) == 0)
				prev = t
				if j >= len(tw.counted) {
					sum += tw.toll
				}
			}
		}
		if tw.forced() && set>>(len(tw.counted)-1)&1 == 0 {
			continue
		}
		sum += tw.wait(prev, tw.sink, set == 0)
		n := bits.OnesCount(set & (1<<len(tw.counted) - 1))
		if e[n] < 0 || sum < e[n] {
			e[n] = sum
		}
	}
	return e
}

// plan recomputes a plan's cost up to its sink with the cheapest look-ahead.
func (tw *twin) plan(ticks []int32) int64 {
	c := *tw
	c.counted = nil
	sum, prev := int64(0), tw.d.Source
	d := *tw.d
	for _, t := range ticks {
		if tw.awake[int64(t)] {
			sum += tw.wait(prev, int64(t), d.Backlog > 0)
			prev, d.Backlog = int64(t), 0
		}
	}
	d.Source = prev
	c.d = &d
	return sum + c.curve()[0]
}

// knapsack is the least weighted sum over the curves with at most budget crawls
// and caps, no convexity assumed. weights are integers here.
func knapsack(curves [][]int64, demands []Demand, budget int) int64 {
	const none = math.MaxInt64
	best := make([]int64, budget+1)
	for i, e := range curves {
		next := slices.Repeat([]int64{none}, budget+1)
		for have, v := range best {
			for n, cost := range e {
				if v == none || cost < 0 || have+n > budget ||
					n > 0 && (demands[i].Coef == 0 || demands[i].Cap >= 0 && n > demands[i].Cap) {
					continue
				}
				next[have+n] = min(next[have+n], v+int64(demands[i].Coef)*cost)
			}
		}
		best = next
	}
	return slices.Min(best)
}

// fox takes the best marginal again and again, the lower index first among equal
// ones, and returns the arrangement and the best marginal it left.
func fox(curves [][]int64, demands []Demand, budget int) (Arrangement, int64) {
	type marginal struct {
		value  int64
		sensor int
	}
	got := make(Arrangement, len(curves))
	var list []marginal
	for i, e := range curves {
		for n := 1; n < len(e); n++ {
			switch d := &demands[i]; {
			case d.Coef == 0 || d.Cap >= 0 && n > d.Cap || e[n] < 0:
			case e[n-1] < 0:
				got[i]++
				budget--
			default:
				list = append(list, marginal{int64(d.Coef) * (e[n-1] - e[n]), i})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b marginal) int {
		return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.sensor, b.sensor))
	})
	for _, m := range list {
		if m.value <= 0 {
			break
		}
		if budget == 0 {
			return got, m.value
		}
		budget--
		got[m.sensor]++
	}
	return got, 0
}

// seen counts what the generator made, so that no test passes for want of cases.
type seen struct {
	total, caps, ties, carry, straddle, scarce int
}

// randomDemand is a small sensor; c is an integer and ticks are 2 s, so that a U
// of c = 1 is one weighted latency second and sums of floats are exact.
func randomDemand(rng *rand.Rand, length int64, seen *seen) Demand {
	d := Demand{
		Coef: float64(rng.IntN(5)), Cap: -1, Gap: 1 + 30*rng.Float64(), Known: math.MaxInt64,
	}
	if rng.IntN(4) == 0 {
		d.Cap = rng.IntN(4)
		seen.caps++
	}
	if rng.IntN(3) > 0 {
		d.Guard = rng.Int64N(4)
		d.GuardHalf = rng.IntN(2) == 0
	}
	if rng.IntN(2) == 0 {
		d.Source = -rng.Int64N(20)
		seen.carry++
	}
	if rng.IntN(6) == 0 {
		d.Backlog = rng.Int64N(30)
	}
	if rng.IntN(6) == 0 {
		d.From = rng.Int64N(length)
		d.Source += rng.Int64N(d.From - d.Source + 1)
	}
	if rng.IntN(6) == 0 {
		d.Known = length + rng.Int64N(length)
	}
	short := rng.IntN(2) == 0
	t := int32(-20)
	straddles := false
	for t < int32(3*length) {
		t += 1 + rng.Int32N(9)
		w := 1 + rng.Int32N(9)
		if short {
			w = 1 + rng.Int32N(2)
		}
		if rng.IntN(12) == 0 {
			t += 25
		}
		straddles = straddles || t < int32(length) && t+w > int32(length)
		d.Spans = append(d.Spans, sleepplan.Span{Start: t, End: t + w})
		t += w
	}
	if straddles {
		seen.straddle++
	}
	return d
}

// randomDemands are n demands, some of them alike but for their coefficients.
func randomDemands(rng *rand.Rand, n int, length int64, seen *seen) (demands []Demand) {
	for range n {
		seen.total++
		d := randomDemand(rng, length, seen)
		if len(demands) > 0 && rng.IntN(3) == 0 {
			d = demands[rng.IntN(len(demands))]
			d.Coef = cmp.Or(d.Coef, 1) * float64(1+rng.IntN(2))
		}
		demands = append(demands, d)
	}
	return demands
}

func randomProblem(rng *rand.Rand, seen *seen) *Problem {
	p := &Problem{
		Tick: 2 * time.Second, Length: 6 + rng.Int64N(24), End: EndRule(rng.IntN(3)),
		Candidates: CandidateRule(rng.IntN(2)), Step: 1 + rng.Int64N(3),
	}
	if p.End == Lookahead {
		p.Extra = p.Length + rng.Int64N(5)
		if rng.IntN(4) > 0 {
			p.Price = math.Exp(6 * rng.Float64())
		}
	}
	p.Demands = randomDemands(rng, 1+rng.IntN(4), p.Length, seen)
	p.Budget = rng.IntN(5 * len(p.Demands))
	return p
}
