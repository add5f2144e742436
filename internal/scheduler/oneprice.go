package scheduler

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// OnePrice is Solve on one worker, as an Algorithm. It draws nothing.
func OnePrice(p *Problem, _ *rand.Rand) (*Solution, error) { return Solve(p, 1) }

// Solve finds the optimal arrangement and its crawl plans. Before the polish they
// are the exact optimum on the candidate set, with
//
//	sum n = min(Budget, sum over c > 0 of min(Cap, crawls of positive value)),
//
// equal marginals going to the lower sensor index. The result is the same for
// any number of workers. In the first range, without a price, the look-ahead is
// priced by a solution whose sink stands half a gap after the range.
//
// Under the Paper objective it is DivideAndConquer's solution instead, with what
// else a plan needs, see solvePaper: hulls need lines.
//
// It returns ErrProblem, wrapped with the sensor and what is wrong with it, or
// ErrBudget.
func Solve(p *Problem, workers int) (*Solution, error) {
	s, err := newSolver(p, workers)
	if err != nil {
		return nil, err
	}
	if p.Objective == Paper {
		return s.solvePaper()
	}
	s.solve(p.Price)
	if p.End == Lookahead && p.Price == 0 {
		if price := s.price(); price > 0 {
			s.solve(price)
		}
	}
	sol := s.solution()
	if p.Capacity == 0 {
		return sol, nil
	}
	planned := s.crawls()
	s.spillBack(sol)
	return s.shed(sol, planned), nil
}

// When the capacity cuts a plan by more than shedFrom of its crawls, plans of fewer
// are tried, shedStep less each time, until shedTries in a row are no better.
const (
	shedFrom  = 0.01
	shedStep  = 0.06
	shedTries = 3
)

// shed plans with fewer crawls where many found no slot: those that spill-back drops
// are the least harmed of one second each, which together need not be the least
// valuable of all, and what is left has been pushed far from where it was planned.
func (s *solver) shed(whole *Solution, planned int) *Solution {
	best := whole
	if float64(whole.Dropped) <= shedFrom*float64(planned) {
		return whole
	}
	fewer := *s.p
	left := float64(planned - whole.Dropped)
	for tries := 0; tries < shedTries; tries++ {
		fewer.Budget = int(left)
		left *= 1 - shedStep
		t, err := newSolver(&fewer, len(s.workers))
		if err != nil {
			break // Fixed: it is below the sensors that have to be crawled
		}
		t.solve(s.ahead)
		sol, tried := t.solution(), t.crawls()
		t.spillBack(sol)
		whole.Probes += sol.Probes
		whole.Work += sol.Work
		if sol.Objective >= best.Objective {
			continue
		}
		tries = -1
		sol.Dropped += planned - tried
		sol.SpillLoss = whole.SpillLoss + sol.Objective - whole.Objective
		best = sol
	}
	best.Price = whole.Price // the budget's; what the capacity costs is SpillLoss
	best.Probes, best.Work, best.problem = whole.Probes, whole.Work, s.p
	return best
}

// crawls is how many crawls the sensors have settled on.
func (s *solver) crawls() (sum int) {
	for i := range s.state {
		sum += int(s.state[i].n)
	}
	return sum
}

// solver is the state of one Solve.
type solver struct {
	p       *Problem
	ahead   float64 // price of look-ahead crawls, 0 = no look-ahead
	workers []*worker
	weights []float64 // square-root rule: crawls are expected in this proportion
	state   []state
	plans   []SensorPlan
}

// newSolver checks a problem and prepares to solve it.
func newSolver(p *Problem, workers int) (*solver, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	s := &solver{
		p:       p,
		workers: make([]*worker, max(1, workers)),
		weights: make([]float64, len(p.Demands)),
		state:   make([]state, len(p.Demands)),
		plans:   make([]SensorPlan, len(p.Demands)),
	}
	for i := range s.workers {
		s.workers[i] = &worker{block: arenaBlock}
	}
	return s, s.survey()
}

// survey validates the demands and weighs them. It reports the first bad one.
func (s *solver) survey() error {
	var lock sync.Mutex
	var fault error
	bad := len(s.weights)
	var forced atomic.Int64
	s.each(len(s.weights), func(_ *worker, i int) {
		d := &s.p.Demands[i]
		if err := s.p.check(d); err != nil {
			lock.Lock()
			defer lock.Unlock()
			if i < bad {
				bad, fault = i, fmt.Errorf("%w: sensor %d: %w", ErrProblem, i, err)
			}
			return
		}
		awake, legal := d.legalTime(s.p.Length)
		s.weights[i] = math.Sqrt(d.Coef * float64(awake))
		if legal > 0 && s.p.forces(d) {
			forced.Add(1)
		}
	})
	if n := forced.Load(); fault == nil && n > int64(s.p.Budget) {
		return fmt.Errorf("%w: %d crawls for %d sensors that the fixed end rule crawls at their "+
			"last legal instant; raise the budget or use another end rule", ErrBudget, s.p.Budget, n)
	}
	return fault
}

// chunk is how many sensors a worker takes at a time.
const chunk = 64

// each runs f for 0..n-1 on the workers. f writes only what belongs to its i.
func (s *solver) each(n int, f func(w *worker, i int)) {
	var next atomic.Int64
	run := func(w *worker) {
		for {
			from := int(next.Add(chunk)) - chunk
			if from >= n {
				return
			}
			for i := from; i < min(from+chunk, n); i++ {
				f(w, i)
			}
		}
	}
	var group sync.WaitGroup
	for _, w := range s.workers[1:] {
		group.Go(func() { run(w) })
	}
	run(s.workers[0])
	group.Wait()
}

// nudge parts prices from marginals they may have been made of, so that rounding
// cannot split equal marginals of sensors with different c.
const nudge = 1e-9

// solve settles every sensor at an estimate of the price, then takes or drops the
// crawls by which the sum misses the budget.
func (s *solver) solve(ahead float64) {
	s.ahead = ahead
	at := s.estimate(s.sample())
	sum := s.settleAll(at.price)
	if theta := float64(s.p.Budget); at.miss < 0.1 && math.Abs(float64(sum)-theta) > 0.3*theta {
		at = s.estimate(s.everyone()) // the sample was no picture of the fleet
		sum = s.settleAll(at.price)
	}
	s.correct(s.p.Budget-sum, at)
	s.setMults()
}

// settleAll plans every sensor at a price and returns how many crawls they take.
func (s *solver) settleAll(price float64) int {
	var sum atomic.Int64
	s.each(len(s.state), func(w *worker, i int) {
		s.settle(w, i, odd(price*(1+nudge), s.p.stake(&s.p.Demands[i])), -1)
		sum.Add(int64(s.state[i].n))
	})
	return int(sum.Load())
}

// price is the value of the best crawl that was not made.
func (s *solver) price() float64 {
	var price float64
	for i := range s.plans {
		price = max(price, s.plans[i].Gain)
	}
	return price
}

// setMults gives each sensor a price of its own at which PENAL finds its plan
// again: just under its last marginal or, where it may not lose one, the fleet's.
func (s *solver) setMults() {
	price := s.price()
	for i := range s.plans {
		st := &s.state[i]
		switch {
		case st.lose == pinned || st.n == 0:
			s.plans[i].Mult = max(odd(price, s.p.stake(&s.p.Demands[i])), st.gain+1)
		default:
			s.plans[i].Mult = max(1, st.lose-1)
		}
	}
}

// solution wraps up what the sensors have settled on.
func (s *solver) solution() *Solution {
	sol := &Solution{
		Price: s.price(), Sensors: s.plans, problem: s.p,
		Arrangement: make(Arrangement, len(s.plans)),
	}
	for _, w := range s.workers {
		sol.Probes += w.probes
		sol.Work += w.work
	}
	s.total(sol)
	return sol
}

// total sums up the sensors in their order, so that the sums do not depend on the
// workers.
func (s *solver) total(sol *Solution) {
	sol.Objective, sol.Expected = 0, 0
	for i := range s.plans {
		d := &s.p.Demands[i]
		sol.Arrangement[i] = s.state[i].n
		sol.Objective += float64(s.state[i].objective) * s.p.unit(d)
		sol.Expected += d.Coef * s.plans[i].Wait
	}
}
