package scheduler

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestBaselines(t *testing.T) {
	var seen seen
	asleep := 0
	for i := range trials(600, 4000) {
		rng := seeded(i)
		p := randomProblem(rng, &seen)
		p.Candidates, p.Step = Grid, 1
		best, err := Solve(p, 1)
		if err != nil {
			continue // the budget is below the forced crawls
		}
		for _, b := range []struct {
			name  string
			solve Algorithm
		}{{"random", RandomCrawl}, {"even", Even}, {"snapped", EvenSnapped}, {"one price", OnePrice},
			{"greedy", FastGreedy}, {"half greedy", HalfGreedy}} {
			if strings.HasSuffix(b.name, "greedy") && p.End == Lookahead && p.Price == 0 {
				continue // its price is the last marginal, not that of the look-ahead
			}
			got, err := b.solve(p, rng)
			if err != nil {
				t.Fatal(err)
			}
			// Even knows no guard and starts crawls where others may not.
			rival := b.name != "even" ||
				!slices.ContainsFunc(p.Demands, func(d Demand) bool { return d.Guard > 0 })
			if rival && p.End != Fixed && got.Objective < best.Objective {
				t.Fatalf("seed %d: %s has %v, the optimum is %v", i, b.name, got.Objective, best.Objective)
			}
			asleep += checkBaseline(t, i, b.name, p, got)
		}
	}
	if asleep == 0 {
		t.Error("no even crawl met a sleeping sensor")
	}
}

// checkBaseline recomputes a baseline's figures and returns how many of its crawls
// fail.
func checkBaseline(t *testing.T, seed int, name string, p *Problem, got *Solution) (asleep int) {
	t.Helper()
	price := p.Price
	if p.End == Lookahead && price == 0 {
		price = got.Price
	}
	var objective, expected float64
	sum := 0
	for k, plan := range got.Sensors {
		d := &p.Demands[k]
		sum += len(plan.Ticks)
		if len(plan.Ticks) != int(got.Arrangement[k]) || d.Cap >= 0 && len(plan.Ticks) > d.Cap {
			t.Fatalf("seed %d, %s: sensor %d crawled at %v", seed, name, k, plan.Ticks)
		}
		expected += d.Coef * ExpectedLatency(d, plan.Ticks, p.Length, p.Tick)
		if d.Coef == 0 || name == "one price" {
			continue
		}
		tw := newTwin(p, d, price)
		objective += d.Coef * float64(tw.plan(plan.Ticks))
		for j, at := range plan.Ticks {
			legal := slices.ContainsFunc(tw.runs(),
				func(r run) bool { return tw.legal(r, int64(at)) })
			if !awake(d.Spans, int64(at)) {
				asleep++
			}
			if name != "even" && !legal || j > 0 && plan.Ticks[j-1] >= at || int64(at) >= p.Length {
				t.Fatalf("seed %d, %s: sensor %d crawled at %v", seed, name, k, plan.Ticks)
			}
		}
		if n := len(plan.Ticks); name == "random" && n > 0 &&
			int64(plan.Ticks[n-1]) != slices.Max(tw.counted) {
			t.Fatalf("seed %d: the last legal instant is not in %v", seed, plan.Ticks)
		}
	}
	if sum > p.Budget {
		t.Fatalf("seed %d, %s: %d crawls, budget %d", seed, name, sum, p.Budget)
	}
	if name != "one price" && got.Objective != objective ||
		math.Abs(got.Expected-expected) > 1e-9*expected {
		t.Fatalf("seed %d, %s: objective %v and %v, want %v and %v",
			seed, name, got.Objective, got.Expected, objective, expected)
	}
	return asleep
}

func TestProportionalArrangement(t *testing.T) {
	p := family(seeded(4), 50, 2000, families[1].awake, families[1].asleep)
	p.Candidates, p.Budget = Grid, 200
	p.Demands[0].Cap, p.Demands[1].Coef, p.Demands[2].Spans = 1, 0, nil
	sol, err := RandomCrawl(p, rand.New(rand.NewPCG(1, 2)))
	if err != nil {
		t.Fatal(err)
	}
	if a := sol.Arrangement; a[0] != 1 || a[1] != 0 || a[2] != 0 {
		t.Errorf("arrangement %v", a[:3])
	}
	var weights, sum float64
	for i := range p.Demands[3:] {
		d := &p.Demands[3+i]
		weights += d.Coef * float64(d.mass(0, p.Length))
		sum += float64(sol.Arrangement[3+i])
	}
	if sum != 199 {
		t.Errorf("%v crawls, want all 199", sum)
	}
	for i := range p.Demands[3:] {
		d := &p.Demands[3+i]
		share := sum * d.Coef * float64(d.mass(0, p.Length)) / weights
		if n := float64(sol.Arrangement[3+i]); math.Abs(n-share) > 1.5 {
			t.Errorf("sensor %d gets %v crawls, its share is %v", 3+i, n, share)
		}
	}
	if _, err := RandomCrawl(p, nil); err == nil {
		t.Error("RandomCrawl without a generator")
	}
}

// The headline of the EasiCrawl paper: about twice as good as RandomCrawl.
func TestRivals(t *testing.T) {
	for i, f := range families {
		p := family(seeded(i), 50, 2000, f.awake, f.asleep)
		p.Budget, p.End = 250, Lookahead
		setGaps(p)
		best, err := Solve(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		ratio := func(a Algorithm) float64 {
			sol, err := a(p, seeded(i))
			if err != nil {
				t.Fatal(err)
			}
			return sol.Objective / best.Objective
		}
		random, even, snapped := ratio(RandomCrawl), ratio(Even), ratio(EvenSnapped)
		t.Logf("%s: random %.2f, even %.2f, snapped %.2f of the optimum", f.name, random, even, snapped)
		if random < 1.3 || even < 1.1 || snapped < 1 {
			t.Errorf("%s: a rival comes too near", f.name)
		}
	}
}
