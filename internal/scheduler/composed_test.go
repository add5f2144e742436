package scheduler

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// TestComposedMethods solves whole problems by each method and Fox's arrangement, which
// must find what one price finds, down to the marginals. The control is the greedy
// method, which is none of these.
func TestComposedMethods(t *testing.T) {
	var seen seen
	solved, missed := 0, 0
	methods := map[string]Algorithm{
		"dynamic": func(p *Problem, _ *rand.Rand) (*Solution, error) {
			return composed(p, func(int) method { return dynamicMethod }, foxShare)
		},
		"layers": func(p *Problem, _ *rand.Rand) (*Solution, error) {
			return composed(p, func(int) method { return layersMethod }, foxShare)
		},
		"divide": DivideAndConquer,
	}
	for i := range trials(1500, 20000) {
		rng := seeded(i)
		p := randomProblem(rng, &seen)
		p.Candidates = Grid
		best, err := Solve(p, 1)
		if errors.Is(err, ErrBudget) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		solved++
		for name, solve := range methods {
			got, err := solve(p, nil)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", i, name, err)
			}
			checkComposed(t, i, name, p, got, best)
		}
		greedy, err := composed(p, func(int) method { return greedyMethod }, foxShare)
		if err != nil {
			t.Fatal(err)
		}
		if p.Step == 1 && greedy.Objective < best.Objective*(1-1e-12) {
			t.Fatalf("seed %d: greedy has %v, the optimum is %v", i, greedy.Objective, best.Objective)
		}
		if greedy.Objective != best.Objective {
			missed++
		}
	}
	if solved < 1000 || missed < solved/5 {
		t.Errorf("%d problems solved; greedy misses %d optima only", solved, missed)
	}
}

// checkComposed holds a composed solution against that of one price. A curve ends with
// the budget: what a crawl beyond it would gain, it cannot say. And a crawl that the end
// rule makes has no marginal on a curve that begins with it.
func checkComposed(t *testing.T, seed int, name string, p *Problem, got, best *Solution) {
	t.Helper()
	whole := slices.Contains(best.Arrangement, int32(p.Budget))
	if got.Objective != best.Objective || !whole && got.Price != best.Price {
		t.Fatalf("seed %d: %s: objective %v at price %v, want %v at %v", seed, name,
			got.Objective, got.Price, best.Objective, best.Price)
	}
	if got.Work <= 0 && slices.Max(got.Arrangement) > 0 {
		t.Fatalf("seed %d: %s: no work for %v", seed, name, got.Arrangement)
	}
	for k, plan := range got.Sensors {
		want := &best.Sensors[k]
		lose := plan.Lose
		if p.forces(&p.Demands[k]) && len(plan.Ticks) == 1 {
			lose = want.Lose
		}
		if len(plan.Ticks) != len(want.Ticks) || lose != want.Lose ||
			!whole && plan.Gain != want.Gain {
			t.Fatalf("seed %d: %s: sensor %d: %+v, want %+v", seed, name, k, plan, *want)
		}
	}
}

// TestComposedIsRepeatable asks the same of used scratch memory as of fresh.
func TestComposedIsRepeatable(t *testing.T) {
	p := largeFleet(seeded(5), 60, Lookahead)
	p.Budget = 200
	for k := range p.Demands {
		p.Demands[k].Rate = 0.1
	}
	for _, p.Objective = range []Objective{Exact, Paper} {
		a, err := DivideAndConquer(p, nil)
		b, again := DivideAndConquer(p, nil)
		if err != nil || again != nil || !reflect.DeepEqual(a, b) {
			t.Errorf("%v: another solution, %v, %v", p.Objective, err, again)
		}
		if math.IsNaN(a.Objective) || slices.Max(a.Arrangement) == 0 {
			t.Errorf("%v: objective %v, arrangement %v", p.Objective, a.Objective, a.Arrangement)
		}
	}
}
