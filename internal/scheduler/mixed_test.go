package scheduler

import (
	"math"
	"slices"
	"testing"
)

// Algorithms 1 and 2 together are Pairwise in value; plans by Algorithm 3 are legal and
// never below the optimum, and on some problems above it.
func TestMixedMethods(t *testing.T) {
	var seen seen
	above := map[string]int{}
	compared := 0
	for i := range trials(400, 5000) {
		p := randomFleet(seeded(i), &seen)
		p.Candidates, p.Step = Grid, 1 // every legal tick, so that nothing is polished
		best, err := Pairwise(p, nil)
		if err != nil {
			continue // the budget is below the forced crawls
		}
		compared++
		for _, c := range []struct {
			name    string
			solve   Algorithm
			optimal bool
		}{{"Dynamic", Dynamic, true}, {"HalfGreedy", HalfGreedy, false},
			{"FastGreedy", FastGreedy, false}} {
			got, err := c.solve(p, nil)
			if err != nil {
				t.Fatalf("seed %d: %s: %v", i, c.name, err)
			}
			slack := 1e-9 * best.Objective
			if got.Objective < best.Objective-slack || c.optimal && got.Objective > best.Objective+slack {
				t.Fatalf("seed %d: %s has %v, the optimum is %v", i, c.name, got.Objective, best.Objective)
			}
			if got.Objective > best.Objective+slack {
				above[c.name]++
			}
			if p.End != Lookahead || p.Price > 0 { // else it has its price from Solve
				checkBaseline(t, i, c.name, p, got)
			}
		}
	}
	if compared < 200 || above["HalfGreedy"] == 0 || above["FastGreedy"] < above["HalfGreedy"] {
		t.Errorf("%d problems compared, above the optimum: %v", compared, above)
	}
}

// RandomCrawl's instants on a grid are of the grid; Even's last one under Fixed is the
// last legal one; and shares go by weight times awake time, not by rate.
func TestBaselinesByThePaper(t *testing.T) {
	var seen seen
	forced := 0
	for i := range trials(400, 4000) {
		rng := seeded(i)
		p := randomProblem(rng, &seen)
		p.Candidates, p.End = Grid, Fixed
		random, err := RandomCrawl(p, rng)
		if err != nil {
			continue // the budget is below the forced crawls
		}
		even, err := Even(p, rng)
		if err != nil {
			t.Fatal(err)
		}
		for k := range p.Demands {
			tw := newTwin(p, &p.Demands[k], 0)
			for _, at := range random.Sensors[k].Ticks {
				if !slices.Contains(tw.counted, int64(at)) {
					t.Fatalf("seed %d: sensor %d is crawled at %d, candidates are %v", i, k, at, tw.counted)
				}
			}
			if ticks := even.Sensors[k].Ticks; len(ticks) > 0 {
				forced++
				if last := slices.Max(tw.counted); int64(ticks[len(ticks)-1]) != last {
					t.Fatalf("seed %d: sensor %d is evenly crawled at %v, its last legal tick is %d", i, k,
						ticks, last)
				}
			}
		}
	}
	if forced < 100 {
		t.Errorf("only %d sensors crawled", forced)
	}
	p := family(seeded(1), 20, 2000, families[1].awake, families[1].asleep)
	p.Candidates, p.Budget = Grid, 200
	for i := range p.Demands {
		p.Demands[i].Rate = p.Demands[i].Coef / float64(1+i%2) // weights 1 and 2
	}
	sol, err := RandomCrawl(p, seeded(2))
	if err != nil {
		t.Fatal(err)
	}
	var total float64
	for i := range p.Demands {
		total += float64(1+i%2) * float64(p.Demands[i].mass(0, p.Length))
	}
	for i := range p.Demands {
		share := 200 * float64(1+i%2) * float64(p.Demands[i].mass(0, p.Length)) / total
		if n := float64(sol.Arrangement[i]); math.Abs(n-share) > 1 {
			t.Errorf("sensor %d gets %v crawls, its share is %v", i, n, share)
		}
	}
}
