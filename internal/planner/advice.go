package planner

import (
	"fmt"
	"sort"
	"time"

	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/sleepplan"
)

// Advice explains what a plan does with one sensor. Gains, values, costs and the
// price are what the optimiser compares: weighted latency seconds up to the
// sensor's sink, the cheapest look-ahead included.
type Advice struct {
	ID        string       `json:"id"`
	Latency   float64      `json:"expected_latency_seconds"` // as Promise has it
	Cap       *int         `json:"max_crawls"`               // null: none
	Price     float64      `json:"price"`                    // the best crawl of the fleet not made
	Bound     Bound        `json:"bound"`
	Crawls    []Advised    `json:"crawls"`
	Marginals []Marginal   `json:"marginals"`
	Guard     GuardCost    `json:"guard"`
	Capacity  CapacityCost `json:"capacity"`
}

// Marginal is what a sensor's k-th crawl saves where it has k instead of k-1. The
// crawls that are planned come first; one more follows if there is room for it.
type Marginal struct {
	Crawl int     `json:"crawl"`
	Gain  float64 `json:"gain"`
	Made  bool    `json:"made"` // by the optimum, before Capacity
}

// Advised is one planned crawl.
type Advised struct {
	At     time.Time   `json:"at"`
	Window *TimeWindow `json:"window"` // null: awake for longer than two ranges
	Binds  Bind        `json:"binds"`
	Value  float64     `json:"value"` // what is lost if this crawl alone is dropped
}

// TimeWindow is the awake window of a crawl.
type TimeWindow struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// GuardCost is how long before a window's end no crawl starts, and what that
// costs: the least expected latency of as many crawls in the range, with the guard
// and without.
type GuardCost struct {
	Seconds float64 `json:"seconds"`
	Half    bool    `json:"at_most_half_the_window"`
	Cost    float64 `json:"cost"`
}

// CapacityCost is what the limit on starts per second costs: the plan against
// the one without it. A cost is below 0 where a crawl was moved to a better instant
// than the rules had: a grid may miss it, and Fixed puts last crawls late. Those of
// all sensors add up to that of the fleet.
type CapacityCost struct {
	PerSecond    int     `json:"per_second"` // 0: no limit
	Moved        int     `json:"moved"`      // crawls of the sensor
	Dropped      int     `json:"dropped"`
	Cost         float64 `json:"cost"`
	FleetDropped int     `json:"fleet_dropped"`
	FleetCost    float64 `json:"fleet_cost"`
}

// Bound is what keeps a sensor from getting one more crawl.
type Bound string

// The bounds.
const (
	BoundPrice      Bound = "price"      // one more is worth less than another sensor's
	BoundBudget     Bound = "budget"     // one more is worth the price: it is next in line
	BoundCap        Bound = "cap"        // the sensor's own limit
	BoundCandidates Bound = "candidates" // no further instant gains anything
	BoundWeight     Bound = "weight"     // weight or rate is 0
	BoundEnd        Bound = "end"        // only the end rule makes it crawl at all
)

// Bind is what sets the instant of a crawl.
type Bind string

// The binds. Balanced is where the awake time since the last crawl equals the
// time to the next one.
const (
	BindWindowEnd   Bind = "window_end" // less the guard
	BindWindowStart Bind = "window_start"
	BindRangeStart  Bind = "range_start" // or the end of the rest that the sensor asked for
	BindRangeEnd    Bind = "range_end"
	BindBalanced    Bind = "balanced"  // inside its window
	BindAlwaysOn    Bind = "always_on" // balanced, no window limits it
	BindGrid        Bind = "grid"      // a multiple of the step
	BindCapacity    Bind = "capacity"  // moved from a second that is full
)

// Advise explains one sensor; false if the plan does not have it. It solves the
// problem once or twice more, with that many workers. A Plan that an
// Algorithm made is explained against the optimum's curve all the same.
func (pl *Plan) Advise(id string, workers int) (Advice, bool, error) {
	i := sort.Search(len(pl.asks), func(i int) bool { return pl.asks[i].id >= id })
	if i == len(pl.asks) || pl.asks[i].id != id {
		return Advice{}, false, nil
	}
	pr, err := priced(pl.problem, workers)
	if err != nil {
		return Advice{}, true, err
	}
	free := pl.Solution
	if pr.Capacity > 0 && pl.par.Algorithm == nil {
		open := *pr
		open.Capacity = 0
		if free, err = scheduler.Solve(&open, workers); err != nil {
			return Advice{}, true, err
		}
	}
	a := Advice{ID: id, Latency: pl.asks[i].rate * pl.waits[i], Price: pl.Solution.Price}
	if limit := pl.asks[i].cap; limit >= 0 {
		a.Cap = &limit
	}
	ticks := free.Sensors[i].Ticks
	a.Crawls = pl.advised(i, ticks)
	if err := a.weigh(pr, &pr.Demands[i], len(ticks)); err != nil {
		return a, true, err
	}
	a.Bound = a.bound(pr, &pr.Demands[i], len(ticks))
	if a.Guard, err = guardCost(pr, &pr.Demands[i], len(ticks)); err != nil {
		return a, true, err
	}
	err = pl.spillCost(&a, pr, i, ticks)
	return a, true, err
}

// priced is the problem with the price that its look-ahead was solved at. In a
// first range that is the price of the range alone, which is the same question
// without look-ahead. Without any price there is none, whatever the budget.
func priced(pr *scheduler.Problem, workers int) (*scheduler.Problem, error) {
	p := *pr
	if p.End != scheduler.Lookahead || p.Price > 0 {
		return &p, nil
	}
	alone := p
	alone.Extra, alone.Capacity = 0, 0
	sol, err := scheduler.Solve(&alone, workers)
	if err != nil {
		return nil, err
	}
	if p.Price = sol.Price; p.Price == 0 {
		p.Extra = 0
	}
	return &p, nil
}

// weigh fills in the marginals of n crawls and one more. The cap is left out: what
// it denies has a value, too.
func (a *Advice) weigh(pr *scheduler.Problem, d *scheduler.Demand, n int) error {
	a.Marginals = []Marginal{}
	uncapped := *d
	uncapped.Cap = -1
	for k := 1; k <= n+1; k++ {
		plan, err := scheduler.Count(pr, &uncapped, k)
		if err != nil {
			return err
		}
		if len(plan.Ticks) < k {
			return nil
		}
		a.Marginals = append(a.Marginals, Marginal{k, plan.Lose, k <= n})
	}
	return nil
}

// bound compares the marginal after the n-th with the price. Both come from the same
// integers, so equality is exact.
func (a *Advice) bound(pr *scheduler.Problem, d *scheduler.Demand, n int) Bound {
	next := 0.0
	if len(a.Marginals) > n {
		next = a.Marginals[n].Gain
	}
	switch {
	case d.Coef == 0:
		return BoundWeight
	case next == 0:
		return BoundCandidates
	case n == d.Cap && next >= a.Price:
		return BoundCap
	case next >= a.Price:
		return BoundBudget
	case pr.End == scheduler.Fixed && n == 1 && a.Marginals[0].Gain < a.Price:
		return BoundEnd
	}
	return BoundPrice
}

// advised lists the sensor's planned crawls; free are its instants without limit
// on starts.
func (pl *Plan) advised(i int, free []int32) []Advised {
	d, asked := &pl.problem.Demands[i], pl.asks[i]
	kept := make(map[int32]bool)
	for _, t := range free {
		kept[t] = true
	}
	list := []Advised{}
	for _, c := range pl.Solution.Plan() {
		if int(c.Sensor) != i {
			continue
		}
		at := pl.Start.Add(time.Duration(c.Tick) * pl.par.Tick)
		a := Advised{At: at, Value: c.Value}
		w, _ := asked.plan.Window(at)
		bounded := w.Duration() <= 2*pl.par.Range
		if bounded {
			a.Window = &TimeWindow{w.Start, w.End}
		}
		a.Binds = bind(pl.problem, d, c.Tick)
		switch {
		case !kept[int32(c.Tick)]:
			a.Binds = BindCapacity
		case a.Binds == BindBalanced && !bounded:
			a.Binds = BindAlwaysOn
		}
		list = append(list, a)
	}
	return list
}

// bind is what sets an instant, as far as its window tells.
func bind(p *scheduler.Problem, d *scheduler.Demand, t int64) Bind {
	s, e := window(d.Spans, t)
	guard := d.Guard
	if d.GuardHalf {
		guard = min(guard, (e-s)/2)
	}
	switch {
	case t == s:
		return BindWindowStart
	case t == e-1-guard:
		return BindWindowEnd
	case t == d.From:
		return BindRangeStart
	case t == p.Length-1:
		return BindRangeEnd
	case p.Candidates == scheduler.Grid:
		return BindGrid
	}
	return BindBalanced
}

// window is the awake window around a tick, touching spans being one. It is empty
// where a sensor is asleep, which only Even crawls.
func window(spans []sleepplan.Span, t int64) (s, e int64) {
	k := sort.Search(len(spans), func(k int) bool { return int64(spans[k].End) > t })
	if k == len(spans) || int64(spans[k].Start) > t {
		return t, t
	}
	first, last := k, k
	for first > 0 && spans[first-1].End == spans[first].Start {
		first--
	}
	for last+1 < len(spans) && spans[last+1].Start == spans[last].End {
		last++
	}
	return int64(spans[first].Start), int64(spans[last].End)
}

// spillCost fills in what Capacity costs sensor i, whose instants without it are free.
func (pl *Plan) spillCost(a *Advice, pr *scheduler.Problem, i int, free []int32) error {
	d, ticks := &pr.Demands[i], pl.Solution.Sensors[i].Ticks
	best, err := bill(pr, d, free)
	if err != nil {
		return err
	}
	now, err := bill(pr, d, ticks)
	a.Capacity = CapacityCost{PerSecond: pr.Capacity, Dropped: len(free) - len(ticks),
		Cost: now - best, FleetDropped: pl.Solution.Dropped, FleetCost: pl.Solution.SpillLoss}
	for _, c := range a.Crawls {
		if c.Binds == BindCapacity {
			a.Capacity.Moved++
		}
	}
	return err
}

// guardCost compares n crawls in the range alone, with the guard and without. What
// comes after the range is left out, or the cost would be that of two ranges. As
// every plan with a guard is one without, it is not negative.
func guardCost(pr *scheduler.Problem, d *scheduler.Demand, n int) (GuardCost, error) {
	alone, late := *pr, *d
	alone.End, late.Guard = scheduler.Carry, 0
	with, err := scheduler.Count(&alone, d, n)
	if err != nil {
		return GuardCost{}, err
	}
	without, err := scheduler.Count(&alone, &late, n)
	return GuardCost{Seconds: (time.Duration(d.Guard) * pr.Tick).Seconds(), Half: d.GuardHalf,
		Cost: d.Coef * max(0, with.Wait-without.Wait)}, err
}

// bill is what crawls of a sensor at these instants cost up to its sink: its part of
// scheduler.Solution.Objective. After the last one stands the plan of a range
// that begins there and may not be crawled any more.
func bill(pr *scheduler.Problem, d *scheduler.Demand, ticks []int32) (float64, error) {
	rest, seen := *d, 0.0
	if n := len(ticks); n > 0 {
		rest.Source, rest.Backlog = int64(ticks[n-1]), 0
		seen = d.Coef * scheduler.ExpectedLatency(d, ticks, rest.Source, pr.Tick)
	}
	rest.From = pr.Length
	tail := *pr
	tail.Budget, tail.Capacity, tail.Demands = 0, 0, []scheduler.Demand{rest}
	sol, err := scheduler.Solve(&tail, 1)
	if err != nil {
		return 0, fmt.Errorf("after the last crawl: %w", err)
	}
	return seen + sol.Objective, nil
}
