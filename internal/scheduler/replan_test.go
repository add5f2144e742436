package scheduler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

func TestCountAgainstTwin(t *testing.T) {
	var seen seen
	for i := range trials(600, 4000) {
		p := randomProblem(seeded(i), &seen)
		for k := range p.Demands {
			d := &p.Demands[k]
			d.Coef = max(1, d.Coef)
			tw := newTwin(p, d, p.Price)
			e := tw.curve()
			for n := range len(e) + 1 {
				plan, err := Count(p, d, n)
				if err != nil {
					t.Fatal(err)
				}
				most := min(n, len(e)-1)
				if d.Cap >= 0 {
					most = min(most, d.Cap)
				}
				if len(plan.Ticks) != most && p.Candidates == Grid {
					t.Fatalf("seed %d: %v, want %d crawls", i, plan.Ticks, most)
				}
				if most > 0 || !tw.forced() {
					checkPlan(t, i, tw, e, &plan, p.Candidates)
				}
			}
		}
	}
}

// Replanned at its own price a sensor keeps its plan, or takes an equal one.
func TestReplanKeepsThePlan(t *testing.T) {
	var seen seen
	kept, equal := 0, 0
	for i := range trials(600, 4000) {
		p := randomProblem(seeded(i), &seen)
		if p.End == Lookahead && p.Price == 0 {
			continue
		}
		sol, err := Solve(p, 1)
		if err != nil {
			continue // the budget is below the forced crawls
		}
		for k := range p.Demands {
			d, old := p.Demands[k], &sol.Sensors[k]
			plan, err := Replan(p, &d, old.Mult)
			if err != nil {
				t.Fatal(err)
			}
			if slices.Equal(plan.Ticks, old.Ticks) {
				kept++
				continue
			}
			d.Cap = len(old.Ticks) // ties: more crawls of the same value
			if plan, err = Replan(p, &d, old.Mult); err != nil {
				t.Fatal(err)
			}
			tw := newTwin(p, &d, p.Price)
			if len(plan.Ticks) != d.Cap ||
				p.Candidates == Grid && tw.plan(plan.Ticks) != tw.plan(old.Ticks) {
				t.Fatalf("seed %d: %v, before %v", i, plan.Ticks, old.Ticks)
			}
			equal++
		}
	}
	if kept < 20*equal {
		t.Errorf("%d plans kept, %d exchanged for equal ones", kept, equal)
	}
}

func TestReplanInMidRange(t *testing.T) {
	var seen seen
	for i := range trials(600, 4000) {
		rng := seeded(i)
		p := randomProblem(rng, &seen)
		p.Candidates = Grid
		d := p.Demands[0]
		d.Coef, d.From = max(1, d.Coef), rng.Int64N(p.Length+3)
		d.Source = min(d.Source, d.From)
		mult := int64(math.Exp(8*rng.Float64())) | 1
		plan, err := Replan(p, &d, mult)
		if err != nil {
			t.Fatal(err)
		}
		tw := newTwin(p, &d, p.Price)
		e := tw.curve()
		best, n := int64(math.MaxInt64), 0
		for k, v := range e {
			if v >= 0 && (d.Cap < 0 || k <= d.Cap) && v+mult*int64(k) < best {
				best, n = v+mult*int64(k), k
			}
		}
		if len(plan.Ticks) != n || plan.Mult != mult {
			t.Fatalf("seed %d: %v, want %d crawls", i, plan.Ticks, n)
		}
		checkPlan(t, i, tw, e, &plan, Grid)
	}
}

func TestMultiplier(t *testing.T) {
	for _, c := range []struct {
		price, coef float64
		want        int64
	}{{0, 1, 1}, {10, 1, 11}, {11.9, 1, 11}, {12, 2, 7}, {1, 0, maxMult + 1}, {0, 0, maxMult + 1}} {
		if got := Multiplier(c.price, c.coef, 2*time.Second); got != c.want {
			t.Errorf("price %v, coefficient %v: %d, want %d", c.price, c.coef, got, c.want)
		}
	}
}

func BenchmarkReplan(b *testing.B) {
	p := benchProblem(1, rand.New(rand.NewPCG(1, 1)))
	sol, err := Solve(p, 1)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Replan(p, &p.Demands[0], sol.Sensors[0].Mult); err != nil {
			b.Fatal(err)
		}
	}
}

// crowd is sensors that are awake at the same time: their crawls want the same
// seconds.
func crowd(rng *rand.Rand, n int, tick time.Duration, capacity int) *Problem {
	p := &Problem{Tick: tick, Length: 60, End: Carry, Capacity: capacity, Budget: 3 * n}
	for range n {
		d := Demand{Coef: float64(1 + rng.IntN(9)), Cap: -1, Gap: 15, Source: -rng.Int64N(10)}
		for k := range int32(4) {
			s := 15*k + rng.Int32N(2)
			d.Spans = append(d.Spans, sleepplan.Span{Start: s, End: s + 5 + rng.Int32N(2)})
		}
		p.Demands = append(p.Demands, d)
	}
	return p
}

func TestSpillBack(t *testing.T) {
	dropped := 0
	for i := range 200 {
		tick := []time.Duration{time.Second, 300 * time.Millisecond, 2500 * time.Millisecond}[i%3]
		p := crowd(seeded(i), 30, tick, 1+i%7)
		free := *p
		free.Capacity = 0
		want, err := Solve(&free, 1)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Solve(p, 2)
		if err != nil {
			t.Fatal(err)
		}
		checkSlots(t, i, p, got)
		if got.SpillLoss < 0 ||
			math.Abs(got.Objective-want.Objective-got.SpillLoss) > 1e-9*got.Objective {
			t.Fatalf("seed %d: lost %v, objective %v, without capacity %v",
				i, got.SpillLoss, got.Objective, want.Objective)
		}
		sum := 0
		for k, plan := range got.Sensors {
			sum += len(plan.Ticks)
			checkSpilled(t, i, p, &p.Demands[k], plan)
		}
		if sum+got.Dropped != len(want.Plan()) {
			t.Fatalf("seed %d: %d crawls and %d dropped of %d", i, sum, got.Dropped, len(want.Plan()))
		}
		dropped += got.Dropped
	}
	if dropped == 0 {
		t.Error("no crawl was dropped: the crowd is too small")
	}
}

// checkSlots counts starts per second, or per tick where that is longer.
func checkSlots(t *testing.T, seed int, p *Problem, sol *Solution) {
	t.Helper()
	slots := map[time.Duration]int{}
	slot := max(p.Tick, time.Second)
	for _, c := range sol.Plan() {
		slots[time.Duration(c.Tick)*p.Tick/slot]++
	}
	for at, n := range slots {
		if float64(n) > float64(p.Capacity)*slot.Seconds() {
			t.Fatalf("seed %d: %d starts in slot %d, capacity %d per second", seed, n, at, p.Capacity)
		}
	}
}

func checkSpilled(t *testing.T, seed int, p *Problem, d *Demand, plan SensorPlan) {
	t.Helper()
	for k, at := range plan.Ticks {
		if !awake(d.Spans, int64(at)) || k > 0 && plan.Ticks[k-1] >= at {
			t.Fatalf("seed %d: instants %v", seed, plan.Ticks)
		}
	}
	if want := ExpectedLatency(d, plan.Ticks, p.Length, p.Tick); math.Abs(plan.Wait-want) > 1e-9*want {
		t.Fatalf("seed %d: wait %v, want %v", seed, plan.Wait, want)
	}
}

// Of few sensors in one window the best instants under a capacity of one can be
// tried out: spilling back comes near, never below.
func TestSpillBackAgainstExhaustion(t *testing.T) {
	var ratios float64
	const runs = 100
	for i := range runs {
		rng := seeded(i)
		p := &Problem{Tick: time.Second, Length: 12, End: Carry, Capacity: 1, Budget: 4}
		for range 4 {
			p.Demands = append(p.Demands, Demand{Coef: 1 + 5*rng.Float64(), Cap: 1, Gap: 100,
				Spans: []sleepplan.Span{{Start: rng.Int32N(3), End: 7 + rng.Int32N(3)}}})
		}
		sol, err := Solve(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		least := exhaust(p, 0, map[int32]bool{})
		if sol.Expected < least*(1-1e-9) {
			t.Fatalf("seed %d: %v is below the least, %v", i, sol.Expected, least)
		}
		ratios += sol.Expected / least
	}
	t.Logf("spilled plans cost %.4f of the least", ratios/runs)
	if ratios/runs > 1.05 {
		t.Errorf("spilled plans cost %.4f of the least", ratios/runs)
	}
}

// exhaust tries all instants of sensors from i on, at most one crawl each and none
// together.
func exhaust(p *Problem, i int, taken map[int32]bool) float64 {
	if i == len(p.Demands) {
		return 0
	}
	d := &p.Demands[i]
	least := d.Coef*ExpectedLatency(d, nil, p.Length, p.Tick) + exhaust(p, i+1, taken)
	for at := range int32(p.Length) {
		if taken[at] || !awake(d.Spans, int64(at)) {
			continue
		}
		taken[at] = true
		here := d.Coef * ExpectedLatency(d, []int32{at}, p.Length, p.Tick)
		least = min(least, here+exhaust(p, i+1, taken))
		delete(taken, at)
	}
	return least
}
