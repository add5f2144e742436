package scheduler

import "math"

// penalty is equation (5) of the EasiCrawl paper on one sensor's graph. A crawl at t
// after one at s costs
//
//	w(s,t) = omega Sum over windows [G(t - max(start,s)) - G(t - end)]
//
// over the awake windows between them. That is what equations (6) and (8) are meant to
// say: (6) adds windows up like this in its first line, and (8) takes off what the
// crawl at s has seen. As printed, (8) has its two shifted times exchanged and shifts
// by the first cycle in place of that of s. Since G is convex, w is Monge (T1), and
// e(n) convex.
//
// Events of the backlog are all taken as captured at tick max(0, Source), where the
// exact cost has them wait from: they cost G' of their age per awake second. Sinks and
// look-ahead crawls are those of the exact cost.
type penalty struct {
	omega, rate, tick float64
	backlog           float64   // awake seconds
	since             int64     // tick at which they stand
	at                []int64   // the nodes' ticks
	pieces            []stretch // awake time between nodes
	first             []int32   // the first piece after each node
}

// stretch is awake ticks from..to-1.
type stretch struct{ from, to int64 }

// weights prepares the weights of a built graph, in weighted latency seconds.
func (q *penalty) weights(g *graph, p *Problem, d *Demand,
	ahead float64) edgeWeights[float64] {
	q.rate, q.tick, q.omega = d.Rate, p.Tick.Seconds(), 0
	if d.Coef > 0 {
		q.omega = d.Coef / d.Rate
	}
	q.backlog = float64(d.Backlog) * q.tick
	q.since = max(0, d.Source) - g.origin
	q.cut(g)
	return edgeWeights[float64]{
		counted: g.counted, last: len(g.nodes) - 1,
		price:   ahead,
		between: q.between, into: q.into, slow: true,
	}
}

// cut cuts the windows at the nodes.
func (q *penalty) cut(g *graph) {
	q.at, q.first, q.pieces = q.at[:0], q.first[:0], q.pieces[:0]
	for _, nd := range g.nodes {
		q.at = append(q.at, nd.x/4)
	}
	k := 0
	for i, from := range q.at {
		q.first = append(q.first, int32(len(q.pieces)))
		if i+1 == len(q.at) {
			break
		}
		to := q.at[i+1]
		for ; k < len(g.windows); k++ {
			w := &g.windows[k]
			if s := (stretch{max(w.start, from), min(w.end, to)}); s.from < s.to {
				q.pieces = append(q.pieces, s)
			}
			if w.end > to {
				break
			}
		}
	}
}

// into adds up the pieces before node j from the latest to the earliest; its weights
// are the sums on the way.
func (q *penalty) into(j int, row []float64) {
	var sum float64
	t := q.at[j]
	from, left := int64(-1), 0.0 // where the last piece starts, and G of its age
	for i := j - 1; i >= 0; i-- {
		for k := q.first[i+1] - 1; k >= q.first[i]; k-- {
			s := q.pieces[k]
			if s.to != from {
				left = q.aged(t - s.to)
			}
			right := left
			from, left = s.from, q.aged(t-s.from)
			sum += left - right
		}
		row[i] = q.omega * sum
	}
	row[0] += q.late(t)
}

// between is the weight of one edge.
func (q *penalty) between(i, j int) float64 {
	var sum float64
	t := q.at[j]
	for k := q.first[j] - 1; k >= q.first[i]; k-- {
		sum += q.aged(t-q.pieces[k].from) - q.aged(t-q.pieces[k].to)
	}
	sum *= q.omega
	if i == 0 {
		sum += q.late(t)
	}
	return sum
}

// aged is equation (5) at an age in ticks.
func (q *penalty) aged(ticks int64) float64 {
	return PaperLatency(q.rate, float64(ticks)*q.tick)
}

// late is the weight of the backlog for a crawl at tick t. G'(v) is e^{-x} - 1 + x +
// x (1 - e^{-x}) with x = rate v.
func (q *penalty) late(t int64) float64 {
	if q.backlog == 0 {
		return 0
	}
	x := q.rate * float64(t-q.since) * q.tick
	return q.omega * q.backlog * (beyondLine(x) - x*math.Expm1(-x))
}

// solvePaper is Solve under the Paper objective: the counts and instants of
// DivideAndConquer. Marginals and prices are exact ones of those counts, as Count has
// them, so that a plan can be compared with others and single sensors be planned again
// from it at their own price. So is the look-ahead's price in a first range.
func (s *solver) solvePaper() (*Solution, error) {
	s.priceAhead()
	p := *s.p
	p.Price = s.ahead
	sol, err := DivideAndConquer(&p, nil)
	if err != nil {
		return nil, err
	}
	sol.problem = s.p
	s.plans = sol.Sensors
	w := s.workers[0]
	for i := range s.plans {
		d, plan := &s.p.Demands[i], &s.plans[i]
		at, around := w.plan(s.p, d, s.ahead, 1, len(plan.Ticks))
		plan.Mult, plan.Lose, plan.Gain = at.mult(), around.Lose, around.Gain
		at.objective, _ = w.judge(s.p, d, plan.Ticks, s.ahead)
		s.state[i] = at
	}
	sol.Price = s.price()
	if s.p.Capacity > 0 {
		s.spillBack(sol)
	}
	return sol, nil
}
