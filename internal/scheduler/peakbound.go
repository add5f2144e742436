package scheduler

import (
	"fmt"
	"math"
)

// PeakBound is a lower bound on the Objective of every plan of p that makes at most
// Budget crawls and starts at most Capacity of them in each slot, a second or a tick
// where that is longer. Where a plan meets it, no other way to spread the starts
// would have been better.
//
// It is the dual of those two limits: with a price mu on each crawl and pi on each
// start in a slot, sensors decide alone, and
//
//	sum over sensors of min (U of a plan + mu and pi of its crawls) - mu Budget - Capacity sum pi
//
// bounds all plans within the limits from below, whatever the prices. Each minimum
// is a shortest path over ALL legal ticks of the sensor, not only the candidates that
// p plans with, so it holds for polished and for moved instants too. Prices are
// rounded down to whole U, which can only lower the sum. Caps are relaxed: with them
// the bound holds but may be weak.
//
// The prices are raised by rounds subgradient steps of Polyak's length, the plan that
// Solve makes being the target, and the best sum seen is the bound: more rounds never
// lower it. A round is a pass over all ticks of all sensors.
func PeakBound(p *Problem, rounds int) (float64, error) {
	if p.Capacity == 0 {
		return 0, fmt.Errorf("%w: capacity 0 is no limit, there is no peak to bound", ErrProblem)
	}
	if rounds < 1 {
		return 0, fmt.Errorf("%w: %d rounds, at least 1 is needed", ErrProblem, rounds)
	}
	b, target, err := newPeakDual(p)
	if err != nil {
		return 0, err
	}
	best, stalled := math.Inf(-1), 0
	for range rounds {
		value := b.value()
		if stalled++; value > best {
			best, stalled = value, 0
		}
		if stalled == patience {
			b.reach, stalled = b.reach/2, 0
		}
		b.step(target - value)
	}
	return best, nil
}

// patience is how many rounds may pass without a better bound before steps are halved.
const patience = 20

// peakDual is the dual function at its present prices. All prices are in weighted
// latency seconds per crawl.
type peakDual struct {
	p      *Problem // of all legal ticks
	w      *worker
	ahead  float64
	price  float64   // mu
	prices []float64 // pi, by slot
	room   float64   // starts that a slot has room for
	crawls float64   // of the last value
	starts []float64 // of the last value, by slot
	reach  float64   // share of Polyak's step
}

// newPeakDual starts at the price of the problem without Capacity, and returns the
// objective of a plan within it: what the bound cannot exceed.
func newPeakDual(p *Problem) (*peakDual, float64, error) {
	q := *p
	if q.End == Fixed { // its plans are some of those that Carry allows, at the same cost
		q.End = Carry
	}
	s, err := newSolver(&q, 1)
	if err != nil {
		return nil, 0, err
	}
	s.solve(q.Price)
	if price := s.price(); q.End == Lookahead && q.Price == 0 && price > 0 {
		s.solve(price)
	}
	sol := s.solution()
	s.spillBack(sol)
	q.Candidates, q.Step = Grid, 1
	b := &peakDual{p: &q, w: &worker{}, ahead: s.ahead, price: s.price(), reach: 1,
		room: float64(q.perSecond())}
	slots := q.second(q.Length-1) + 1
	b.prices, b.starts = make([]float64, slots), make([]float64, slots)
	return b, sol.Objective, nil
}

// value is the dual function, and counts what the cheapest plans start.
func (b *peakDual) value() float64 {
	b.crawls = 0
	clear(b.starts)
	sum := -b.price * float64(b.p.Budget)
	for _, pi := range b.prices {
		sum -= b.room * pi
	}
	for i := range b.p.Demands {
		if d := &b.p.Demands[i]; d.Coef > 0 {
			sum += float64(b.cheapest(d)) * b.p.unit(d)
		}
	}
	return sum
}

// cheapest is the least cost in U of one sensor's plan with the prices of its crawls:
// PENAL with a charge of its own for each tick.
func (b *peakDual) cheapest(d *Demand) int64 {
	w := b.w
	w.build(b.p, d, b.ahead, false)
	h, unit := &w.front, b.p.unit(d)
	last := len(w.nodes) - 1
	sink := w.nodes[last]
	h.reset(0, sink.x, w.wide)
	h.push(line{})
	for j := 1; j < last; j++ {
		nd, charge := w.nodes[j], w.price
		if j <= w.counted {
			pi := b.prices[b.p.second(nd.x/4+w.origin)]
			charge = int64(min((b.price+pi)/unit, float64(w.whole)))
		}
		if j <= w.counted && d.Cap == 0 {
			charge = w.whole // no crawl is worth it
		}
		from, v := h.least(nd.x)
		w.back[j].prev = from.at
		h.push(line{k: nd.a*nd.x + charge + v, a: nd.a, at: int32(j)})
	}
	from, v := h.least(sink.x)
	for j := from.at; j != 0; j = w.back[j].prev {
		if int(j) <= w.counted {
			b.crawls++
			b.starts[b.p.second(w.nodes[j].x/4+w.origin)]++
		}
	}
	return sink.a*sink.x - sink.b + v
}

// step moves the prices along the subgradient, what each limit is exceeded by, so far
// that a linear function would rise by a share of gap. Prices stay at 0 or above.
func (b *peakDual) step(gap float64) {
	over := b.crawls - float64(b.p.Budget)
	var square float64
	for i, n := range b.starts {
		if n -= b.room; n > 0 || b.prices[i] > 0 {
			square += n * n
		}
	}
	if over > 0 || b.price > 0 {
		square += over * over
	}
	if square == 0 || gap <= 0 {
		return // the prices are optimal
	}
	length := b.reach * gap / square
	b.price = max(0, b.price+length*over)
	for i, n := range b.starts {
		b.prices[i] = max(0, b.prices[i]+length*(n-b.room))
	}
}
