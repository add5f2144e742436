package planner

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/crawld/crawld/internal/scheduler"
)

// judgeCurve returns what is wrong with a curve: it falls, ever slower, by the price
// from budget to budget. exact is where no polish and no capacity come between.
func judgeCurve(c BudgetCurve, exact bool) (problems []string) {
	wrong := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf(format, args...))
	}
	if !slices.ContainsFunc(c.Points, func(p BudgetPoint) bool { return p.Budget == c.Budget }) {
		wrong("the configured budget %d is missing", c.Budget)
	}
	for k, p := range c.Points {
		if k == 0 {
			continue
		}
		before := c.Points[k-1]
		if p.Budget <= before.Budget || before.Feasible && !p.Feasible {
			wrong("budget %d after %d", p.Budget, before.Budget)
		}
		if !before.Feasible || !p.Feasible {
			continue
		}
		step := float64(p.Budget - before.Budget)
		if p.Price > before.Price || p.Less == nil || *p.Less < p.Price || *p.Less > before.Price {
			wrong("budgets %d, %d: price %v falls to %v, one less is %v", before.Budget, p.Budget,
				before.Price, p.Price, p.Less)
			continue
		}
		if step == 1 && *p.Less != before.Price {
			wrong("budget %d: one less is %v, the price there %v", p.Budget, *p.Less, before.Price)
		}
		fall, slack := before.Objective-p.Objective, 1e-9*before.Objective
		if exact && (fall > step*before.Price+slack || fall < step**p.Less-slack) {
			wrong("budgets %d, %d: falls by %v, prices %v, %v", before.Budget, p.Budget, fall,
				before.Price, *p.Less)
		}
	}
	return problems
}

// awakeSensors counts the sensors that the Fixed rule crawls.
func awakeSensors(pr *scheduler.Problem) (n int) {
	for i := range pr.Demands {
		one := *pr
		one.Budget, one.Demands = 0, pr.Demands[i:i+1]
		if _, err := scheduler.Solve(&one, 1); err != nil {
			n++
		}
	}
	return n
}

func TestBudgetCurve(t *testing.T) {
	feasible, exact, infeasible, dropped := 0, 0, 0, 0
	worst := 0.0
	for i := range trials(400, 1500) {
		n := drawnSnapshot(t, seeded(i))
		pr, _ := n.problem()
		c, err := n.BudgetCurve(1)
		if err != nil {
			t.Fatalf("seed %d: %v", i, err)
		}
		strict := pr.Candidates == scheduler.Grid && pr.Capacity == 0
		for _, problem := range judgeCurve(c, strict) {
			t.Errorf("seed %d: %s", i, problem)
		}
		forced := awakeSensors(pr)
		for k, p := range c.Points {
			if p.Feasible != (p.Budget-c.Reserved >= forced) || p.Feasible != (p.BudgetedPlan != nil) {
				t.Errorf("seed %d: %d crawls for %d awake sensors: %+v", i, p.Budget, forced, p)
			}
			if !p.Feasible {
				infeasible++
				continue
			}
			feasible++
			dropped += p.Dropped
			if strict {
				exact++
			}
			if k > 0 && c.Points[k-1].Feasible && pr.Capacity == 0 {
				rise := p.Objective - c.Points[k-1].Objective
				worst = max(worst, rise/max(p.Objective, 1e-9))
			}
			if p.Budget == c.Budget {
				checkConfigured(t, i, n, c, p)
			}
		}
		if t.Failed() {
			break
		}
	}
	t.Logf("%d points, %d exact, %d infeasible, %d crawls dropped; worst rise %g", feasible, exact,
		infeasible, dropped, worst)
	if exact < 500 || infeasible < 50 || dropped < 50 {
		t.Error("too few of a kind")
	}
	if worst > 1e-3 { // of the polish
		t.Errorf("the latency rises by a share of %v with the budget", worst)
	}
}

// checkConfigured holds the point of the configured budget against the plan, and the
// plan's own curve against the snapshot's.
func checkConfigured(t *testing.T, seed int, n *Snapshot, c BudgetCurve, p BudgetPoint) {
	t.Helper()
	pl, err := n.Solve(1)
	if err != nil {
		t.Fatal(err)
	}
	rec, sol := pl.Record(), pl.Solution
	if p.Planned != rec.Planned || !equals(p.Expected, rec.Expected, p.Expected) ||
		p.Price != rec.Price || p.Objective != sol.Objective || p.Loss != sol.SpillLoss ||
		p.Dropped != sol.Dropped {
		t.Errorf("seed %d: configured %+v, planned %+v", seed, *p.BudgetedPlan, rec)
	}
	again, err := pl.BudgetCurve(1)
	if err != nil || len(again.Points) != len(c.Points) {
		t.Fatalf("seed %d: %v, %v", seed, again, err)
	}
	for k, q := range again.Points {
		if p := c.Points[k]; p.Budget != q.Budget || p.Feasible && p.Objective != q.Objective {
			t.Errorf("seed %d: the plan's curve has %+v, the snapshot's %+v", seed, q, p)
		}
	}
}

// The control: a curve with anything wrong is caught.
func TestWrongCurveIsCaught(t *testing.T) {
	spoilers := map[string]func(p []BudgetPoint, k int){
		"too low":        func(p []BudgetPoint, k int) { p[k].Objective *= 1 - 1e-3 },
		"too high":       func(p []BudgetPoint, k int) { p[k].Objective *= 1 + 1e-3 },
		"a wrong price":  func(p []BudgetPoint, k int) { p[k].Price = p[k-1].Price + 1e-6 },
		"a wrong less":   func(p []BudgetPoint, k int) { *p[k].Less = p[k].Price - 1e-6 },
		"unsorted":       func(p []BudgetPoint, k int) { p[k], p[k-1] = p[k-1], p[k] },
		"not configured": func(p []BudgetPoint, k int) { p[k].Budget = -1 },
	}
	spoilt := 0
	for i := range 200 {
		n := drawnSnapshot(t, seeded(i))
		n.par.Candidates, n.par.Capacity = scheduler.Grid, 0
		for name, spoil := range spoilers {
			c, err := n.BudgetCurve(1)
			if err != nil {
				t.Fatal(err)
			}
			k := slices.IndexFunc(c.Points, func(p BudgetPoint) bool { return p.Budget == c.Budget })
			if k == 0 || !c.Points[k-1].Feasible || !(c.Points[k].Price > 0) {
				continue // nothing before it, or nothing to gain
			}
			spoilt++
			if spoil(c.Points, k); len(judgeCurve(c, true)) == 0 {
				t.Errorf("seed %d: %s goes unnoticed: %+v", i, name, *c.Points[k].BudgetedPlan)
			}
		}
	}
	if spoilt < 300 {
		t.Errorf("only %d curves spoilt", spoilt)
	}
}

func TestBudgets(t *testing.T) {
	for theta, want := range map[int][]int{
		0: {0, 1}, 1: {0, 1, 2, 3, 4},
		100: {25, 28, 31, 35, 40, 45, 50, 56, 63, 71, 79, 89, 99, 100, 101, 112, 126, 141, 159, 178,
			200, 224, 252, 283, 317, 356, 400},
	} {
		if got := budgets(theta); !slices.Equal(got, want) {
			t.Errorf("%d: %v, want %v", theta, got, want)
		}
	}
	if got := budgets(math.MaxInt32); got[len(got)-1] != 4*math.MaxInt32 || !slices.IsSorted(got) {
		t.Errorf("%v", got)
	}
}
