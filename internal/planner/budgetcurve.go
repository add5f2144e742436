package planner

import (
	"errors"
	"math"
	"slices"

	"github.com/crawld/crawld/internal/scheduler"
)

// BudgetCurve is one range's problem at other budgets. Windows, candidates, sinks
// and the price of look-ahead crawls stay those of the configured budget, so that
// points differ by the budget alone: what is told is what more crawls in this range
// would buy.
type BudgetCurve struct {
	Budget   int           `json:"budget"`   // as configured
	Reserved int           `json:"reserved"` // of each budget, for polls and retries
	Points   []BudgetPoint `json:"points"`   // by budget
}

// BudgetPoint is one budget of a curve. It is not feasible where the end rule asks
// for more crawls than there are; then it has no plan.
type BudgetPoint struct {
	Budget   int  `json:"budget"`
	Feasible bool `json:"feasible"`
	*BudgetedPlan
}

// BudgetedPlan are the figures of the optimal plan of one budget.
type BudgetedPlan struct {
	Planned int `json:"planned"`
	// Expected is the latency of the range, weighted, as a plan promises it.
	Expected float64 `json:"expected_latency_seconds"`
	// Objective is what is minimised: weighted latency seconds up to the sinks,
	// the cheapest look-ahead included. But for the polish and Capacity it falls
	// from one budget to the next by Price.
	Objective float64 `json:"objective"`
	Price     float64 `json:"price"` // what one more crawl would save
	// Less is what one crawl less would cost; null where all are needed.
	Less *float64 `json:"one_less"`
	// Dropped and Loss are what the limit on starts per second costs.
	Dropped int     `json:"dropped"`
	Loss    float64 `json:"capacity_loss_seconds"`
}

// curveSteps is how many budgets stand evenly, by ratio, on either side of the
// configured one, up to curveReach times as much or as little.
const (
	curveSteps = 12
	curveReach = 4
)

// BudgetCurve solves the snapshot at budgets around its own. It must come before
// Solve, which leaves its price in the snapshot.
func (n *Snapshot) BudgetCurve(workers int) (BudgetCurve, error) {
	pr, _ := n.problem()
	return n.budgetCurve(pr, workers)
}

// BudgetCurve solves the plan's problem at budgets around its own.
func (pl *Plan) BudgetCurve(workers int) (BudgetCurve, error) {
	return pl.budgetCurve(pl.problem, workers)
}

func (n *Snapshot) budgetCurve(pr *scheduler.Problem, workers int) (BudgetCurve, error) {
	c := BudgetCurve{Budget: n.rec.Theta, Reserved: n.rec.Theta - pr.Budget}
	pr, err := priced(pr, workers)
	if err != nil {
		return c, err
	}
	for _, budget := range budgets(pr.Budget) {
		p := *pr
		p.Budget = budget
		point := BudgetPoint{Budget: budget + c.Reserved}
		sol, err := scheduler.Solve(&p, workers)
		switch {
		case err == nil:
			point.Feasible, point.BudgetedPlan = true, n.budgeted(&p, sol)
			point.Less, err = oneLess(&p, sol, workers)
		case errors.Is(err, scheduler.ErrBudget):
			err = nil
		}
		if err != nil {
			return c, err
		}
		c.Points = append(c.Points, point)
	}
	return c, nil
}

// budgets are the budgets of a curve around theta, ascending.
func budgets(theta int) []int {
	list := []int{theta + 1}
	if theta > 0 {
		list = append(list, theta-1)
	}
	for k := -curveSteps; k <= curveSteps; k++ {
		ratio := math.Pow(curveReach, float64(k)/curveSteps)
		list = append(list, int(math.Round(float64(theta)*ratio)))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// budgeted are the figures of a solution.
func (n *Snapshot) budgeted(p *scheduler.Problem, sol *scheduler.Solution) *BudgetedPlan {
	b := &BudgetedPlan{Price: sol.Price, Objective: sol.Objective, Dropped: sol.Dropped,
		Loss: sol.SpillLoss}
	plan := Plan{Snapshot: n, Solution: sol}
	for i, a := range n.asks {
		b.Planned += len(sol.Sensors[i].Ticks)
		b.Expected += a.coef * plan.wait(i, p)
	}
	return b
}

// oneLess is the least marginal value of a crawl that is made, which is the price at
// a budget of one less. It is nil where no crawl can be spared.
func oneLess(p *scheduler.Problem, sol *scheduler.Solution, workers int) (*float64, error) {
	if sol.Dropped > 0 { // values are those of the counts before Capacity
		free := *p
		free.Capacity = 0
		var err error
		if sol, err = scheduler.Solve(&free, workers); err != nil {
			return nil, err
		}
	}
	made, least := 0, math.Inf(1)
	for i, n := range sol.Arrangement {
		made += int(n)
		if n > 1 || n == 1 && p.End != scheduler.Fixed {
			least = min(least, sol.Sensors[i].Lose)
		}
	}
	switch {
	case made < p.Budget:
		least = 0
	case math.IsInf(least, 1):
		return nil, nil
	}
	return &least, nil
}
