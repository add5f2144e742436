package scheduler

import (
	"fmt"
	"math"
)

// curve is what a method finds of one sensor: e(least), e(least+1), .. as the
// savings from one to the next.
type curve struct {
	least int       // fewest crawls: 1 where the end rule forces one, else 0
	gains []float64 // what an attempt at crawl least+1+k saves, weighted latency seconds
}

// method plans one sensor. Both functions may use the worker's scratch memory,
// and count what they evaluate in worker.work.
type method struct {
	// curve finds the sensor's curve up to most crawls in all, or up to as many as
	// it has candidates for.
	curve func(w *worker, p *Problem, d *Demand, ahead float64, most int) (curve, error)
	// instants is the plan of n crawls, curve.least <= n <= least+len(gains), n > 0:
	// increasing legal instants, under Fixed with the range's last one, in memory that
	// the worker does not use again.
	instants func(w *worker, p *Problem, d *Demand, ahead float64, n int) []int32
}

// allocation shares the budget out: so many crawls for each sensor, between least
// and least+len(gains). With them it returns the number of its exchanges and how
// many pairs it looked at.
type allocation func(p *Problem, curves []curve) (counts []int, exchanges int, pairs int64)

// alike picks the same method for every sensor.
func alike(m method) func(int) method { return func(int) method { return m } }

// composed solves a problem as the papers do: first each sensor's curve, then an
// arrangement, then each sensor's plan. pick is the method of sensor i. What Solve
// does beside that is done alike: the price of look-ahead crawls in a first range,
// the polish and all figures of the Solution. Capacity is ignored.
func composed(p *Problem, pick func(i int) method, share allocation) (*Solution, error) {
	s, err := newSolver(p, 1)
	if err != nil {
		return nil, err
	}
	s.priceAhead()
	w := s.workers[0]
	w.probes, w.work = 0, 0
	curves, err := s.curves(pick)
	if err != nil {
		return nil, err
	}
	counts, exchanges, pairs := share(p, curves)
	for i, n := range counts {
		var ticks []int32
		if n > 0 {
			ticks = pick(i).instants(w, p, &p.Demands[i], s.ahead, n)
		}
		s.accept(i, ticks, curves[i])
	}
	s.setMults()
	sol := s.solution()
	sol.Iterations = exchanges
	sol.Work += pairs
	return sol, nil
}

// priceAhead sets the price of look-ahead crawls: the problem's own or, in a
// first range, the one that Solve finds for itself.
func (s *solver) priceAhead() {
	if s.ahead = s.p.Price; s.p.End == Lookahead && s.p.Price == 0 {
		s.solve(0)
		s.ahead = s.price()
	}
}

// curves finds the sensors' curves, one crawl beyond the budget: that one's gain is
// still a sensor's Gain.
func (s *solver) curves(pick func(i int) method) ([]curve, error) {
	curves := make([]curve, len(s.p.Demands))
	for i := range curves {
		d := &s.p.Demands[i]
		if d.Coef == 0 || d.Cap == 0 {
			continue
		}
		most := min(s.p.Budget, MaxTicks) + 1
		if d.Cap > 0 {
			most = min(most, d.Cap)
		}
		var err error
		curves[i], err = pick(i).curve(s.workers[0], s.p, d, s.ahead, most)
		if err != nil {
			return nil, fmt.Errorf("%w: sensor %d: %w", ErrProblem, i, err)
		}
		for k := range curves[i].gains {
			curves[i].gains[k] *= d.yield()
		}
	}
	return curves, nil
}

// accept settles sensor i on instants that a method has chosen from its candidates.
// Off the grid they are polished first, as finish does it.
func (s *solver) accept(i int, ticks []int32, c curve) {
	p, d, w := s.p, &s.p.Demands[i], s.workers[0]
	w.build(p, d, s.ahead, false)
	rest := w.locate(p, d, ticks)
	if n := len(w.placed); n > 0 && p.Candidates == Ends {
		if last := &w.placed[n-1]; p.forces(d) {
			last.lo = last.x / 4
			last.hi = last.lo // the rule fixes it
		}
		w.polish(w.nodes[rest[0]])
		for k := range w.placed {
			ticks[k] = int32(w.placed[k].x/4 + w.origin)
		}
	}
	u, n := p.stake(d), len(ticks)
	st := state{n: int32(n)}
	st.objective, s.plans[i] = w.appraise(p, ticks, rest)
	pl := &s.plans[i]
	pl.Lose, pl.Gain = c.around(n)
	st.lose, st.gain = marginal(pl.Lose, u), marginal(pl.Gain, u)
	if c.least == 1 && n == 1 { // the rule keeps it, but it has a value: that of no crawl at all
		st.lose = pinned
		pl.Lose = float64(w.whole-st.objective) * u
	}
	s.state[i] = st
}

// around is what the n-th crawl saves and what one more would.
func (c curve) around(n int) (lose, gain float64) {
	k := n - c.least
	if k > 0 {
		lose = c.gains[k-1]
	}
	if k >= 0 && k < len(c.gains) {
		gain = c.gains[k]
	}
	return lose, gain
}

// marginal is a saving in U: an even number, exactly that of the graph as far as a
// float64 holds it.
func marginal(value, unit float64) int64 {
	if value == 0 {
		return 0
	}
	return 2 * int64(math.Round(min(value/(2*unit), maxMult/2)))
}
