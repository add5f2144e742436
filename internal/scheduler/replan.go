package scheduler

import "fmt"

// Replan plans one sensor anew from d.From on at its own price: PENAL at the odd
// multiplier mult, clipped at d.Cap by EXACT_N. It takes microseconds. Under
// Lookahead p.Price prices look-ahead crawls. Of p it reads neither Budget nor
// Demands. The plan keeps mult.
func Replan(p *Problem, d *Demand, mult int64) (SensorPlan, error) {
	w, err := alone(p, d)
	if err != nil {
		return SensorPlan{}, err
	}
	_, plan := w.plan(p, d, p.Price, max(1, mult)|1, -1)
	plan.Mult = max(1, mult) | 1
	return plan, nil
}

// Count plans one sensor for exactly n crawls (EXACT_N), or for as many as Cap
// and its candidates allow. Crawls of no value are made if n asks for them.
func Count(p *Problem, d *Demand, n int) (SensorPlan, error) {
	if n < 0 {
		return SensorPlan{}, fmt.Errorf("%w: %d crawls must not be negative", ErrProblem, n)
	}
	w, err := alone(p, d)
	if err != nil {
		return SensorPlan{}, err
	}
	st, plan := w.plan(p, d, p.Price, 1, n)
	plan.Mult = st.mult()
	return plan, nil
}

// mult is an odd price at which a sensor stays where it is: just under its last
// marginal or, where it has none to lose, just above the next.
func (st state) mult() int64 {
	if st.n > 0 && st.lose != pinned {
		return max(1, st.lose-1)
	}
	return st.gain + 1
}

// alone checks a sensor that is planned outside a fleet.
func alone(p *Problem, d *Demand) (*worker, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	if err := p.check(d); err != nil {
		return nil, fmt.Errorf("%w: demand: %w", ErrProblem, err)
	}
	return &worker{}, nil
}
