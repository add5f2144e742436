package scheduler

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// trials is the number of random instances, larger where time is set aside.
func trials(quick, full int) int {
	if os.Getenv("CRAWLD_CI") != "" {
		return full
	}
	return quick
}

func seeded(i int) *rand.Rand { return rand.New(rand.NewPCG(uint64(i), 0x5eed)) }

// twins are the curves of a problem as the twin sees them; without a price the
// look-ahead is priced as Solve says it does.
func twins(p *Problem) (tws []*twin, curves [][]int64) {
	price := p.Price
	for range 2 {
		tws, curves = nil, nil
		for i := range p.Demands {
			tw := newTwin(p, &p.Demands[i], price)
			tws = append(tws, tw)
			curves = append(curves, tw.curve())
		}
		if p.End != Lookahead || price > 0 {
			break
		}
		_, left := fox(curves, p.Demands, p.Budget)
		if price = float64(left); left == 0 {
			break
		}
	}
	return tws, curves
}

func TestSolveIsTheOptimum(t *testing.T) {
	var seen seen
	solved := 0
	for i := range trials(4000, 20000) {
		rng := seeded(i)
		p := randomProblem(rng, &seen)
		tws, curves := twins(p)
		sol, err := Solve(p, 1)
		forced := 0
		for _, tw := range tws {
			if tw.forced() {
				forced++
			}
		}
		if forced > p.Budget {
			if !errors.Is(err, ErrBudget) {
				t.Fatalf("seed %d: %d forced crawls, budget %d: %v", i, forced, p.Budget, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("seed %d: %v", i, err)
		}
		solved++
		checkOptimum(t, i, p, tws, curves, sol, &seen)
	}
	t.Logf("%d instances solved; of %d sensors %d capped, %d with tied marginals, %d carried in, "+
		"%d with a straddling window; %d instances short of crawls",
		solved, seen.total, seen.caps, seen.ties, seen.carry, seen.straddle, seen.scarce)
	for _, n := range []int{seen.caps, seen.ties, seen.carry, seen.straddle} {
		if 10*n < seen.total {
			t.Errorf("a case makes up %d of %d sensors only", n, seen.total)
		}
	}
	if 10*seen.scarce < solved {
		t.Errorf("the budget is short in %d of %d instances only", seen.scarce, solved)
	}
}

func checkOptimum(t *testing.T, seed int, p *Problem, tws []*twin, curves [][]int64,
	sol *Solution, seen *seen) {
	t.Helper()
	want, left := fox(curves, p.Demands, p.Budget)
	least := knapsack(curves, p.Demands, p.Budget)
	sum, possible := 0, 0
	var onCandidates int64
	for i, n := range sol.Arrangement {
		d := &p.Demands[i]
		if n != want[i] {
			t.Fatalf("seed %d: arrangement %v, want %v", seed, sol.Arrangement, want)
		}
		onCandidates += int64(d.Coef) * curves[i][n]
		sum += int(n)
		possible += positive(curves[i], d)
		if tied(curves[i]) {
			seen.ties++
		}
		checkPlan(t, seed, tws[i], curves[i], &sol.Sensors[i], p.Candidates)
	}
	if onCandidates != least {
		t.Fatalf("seed %d: cost %d, want %d", seed, onCandidates, least)
	}
	if p.Candidates == Grid && sol.Objective != float64(least) {
		t.Fatalf("seed %d: objective %v, want %d", seed, sol.Objective, least)
	}
	if sol.Objective > float64(least) {
		t.Fatalf("seed %d: polish made it worse: %v > %d", seed, sol.Objective, least)
	}
	if sum != min(p.Budget, possible) {
		t.Fatalf("seed %d: %d crawls of %d possible, budget %d", seed, sum, possible, p.Budget)
	}
	if sol.Price != float64(left) {
		t.Fatalf("seed %d: price %v, want %d", seed, sol.Price, left)
	}
	if sum < possible {
		seen.scarce++
	}
}

// positive is how many crawls of positive value a sensor may make.
func positive(e []int64, d *Demand) int {
	n := 0
	for n+1 < len(e) && d.Coef > 0 && (d.Cap < 0 || n < d.Cap) && (e[n] < 0 || e[n] > e[n+1]) {
		n++
	}
	return n
}

func tied(e []int64) bool {
	for n := 2; n < len(e); n++ {
		if e[n-2] > 0 && e[n-2]-e[n-1] == e[n-1]-e[n] && e[n] < e[n-1] {
			return true
		}
	}
	return false
}

func TestWrongTwinDisagrees(t *testing.T) {
	var seen seen
	costs, plans := 0, 0
	for i := range 300 {
		p := randomProblem(seeded(i), &seen)
		p.End, p.Candidates = Carry, Grid
		tws, curves := twins(p)
		for k, tw := range tws {
			tw.wrong = true
			curves[k] = tw.curve()
		}
		sol, err := Solve(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := fox(curves, p.Demands, p.Budget)
		if sol.Objective != float64(knapsack(curves, p.Demands, p.Budget)) {
			costs++
		}
		if !slices.Equal(sol.Arrangement, want) {
			plans++
		}
	}
	if costs < 100 || plans < 10 {
		t.Errorf("a twin with closed windows differs in %d costs and %d arrangements only", costs, plans)
	}
}

// largeFleet is many small sensors with few different coefficients: ties abound.
func largeFleet(rng *rand.Rand, n int, end EndRule) *Problem {
	p := &Problem{Tick: 2 * time.Second, Length: 40, End: end, Candidates: Grid, Step: 1}
	if end == Lookahead {
		p.Extra, p.Price = 40, 500
	}
	var seen seen
	for range n {
		d := randomDemand(rng, p.Length, &seen)
		d.Coef = float64(1 + rng.IntN(40))
		p.Demands = append(p.Demands, d)
	}
	return p
}

func TestLargeFleetAgainstFox(t *testing.T) {
	for i, end := range []EndRule{Lookahead, Carry, Fixed} {
		p := largeFleet(seeded(i), trials(700, 3000), end)
		_, curves := twins(p)
		for _, perSensor := range []float64{0, 0.3, 1.2, 3, 8, 40} {
			p.Budget = int(perSensor * float64(len(p.Demands)))
			sol, err := Solve(p, 2)
			if end == Fixed && perSensor < 1 {
				if !errors.Is(err, ErrBudget) {
					t.Errorf("budget %d: %v", p.Budget, err)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			want, left := fox(curves, p.Demands, p.Budget)
			if !slices.Equal(sol.Arrangement, want) || sol.Price != float64(left) {
				t.Errorf("%v, budget %d: not the arrangement of Fox", end, p.Budget)
			}
		}
	}
}

// A misleading price of the last range costs time, never the optimum.
func TestAnyStartingPriceGivesTheSamePlan(t *testing.T) {
	p := largeFleet(seeded(7), 600, Carry)
	p.Budget = 1500
	want, err := Solve(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, price := range []float64{1e-300, 1e-3, want.Price, 1e6, 1e300} {
		p.Price = price
		got, err := Solve(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Arrangement, want.Arrangement) || got.Price != want.Price {
			t.Errorf("price %v: another plan", price)
		}
	}
}

// Whatever the estimate says, what correct leaves is the optimum.
func TestCorrectFromAnywhere(t *testing.T) {
	p := largeFleet(seeded(11), 120, Lookahead)
	_, curves := twins(p)
	for i := range trials(300, 2000) {
		rng := seeded(i)
		p.Budget = rng.IntN(900)
		s, err := newSolver(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		s.ahead = p.Price
		price := func() float64 { return math.Exp(14*rng.Float64() - 2) }
		sum := s.settleAll(price())
		s.correct(p.Budget-sum, guess{lo: price(), hi: price()})
		want, left := fox(curves, p.Demands, p.Budget)
		if sol := s.solution(); !slices.Equal(sol.Arrangement, want) || sol.Price != float64(left) {
			t.Fatalf("seed %d: not the arrangement of Fox", i)
		}
	}
}

func TestIdenticalSensorsTie(t *testing.T) {
	n := 20000
	var spans []sleepplan.Span
	for k := range int32(40) {
		spans = append(spans, sleepplan.Span{Start: 25 * k, End: 25*k + 10})
	}
	for _, perSensor := range []float64{0.5, 1, 7.3, 20.5, 31.9} {
		p := &Problem{Tick: time.Second, Length: 1000, End: Carry, Budget: int(perSensor * float64(n))}
		for range n {
			p.Demands = append(p.Demands, Demand{Coef: 0.1, Cap: -1, Spans: spans, Gap: 1000})
		}
		sol, err := Solve(p, 2)
		if err != nil {
			t.Fatal(err)
		}
		sum := 0
		for i, k := range sol.Arrangement {
			sum += int(k)
			if i > 0 && k > sol.Arrangement[i-1] {
				t.Fatalf("sensor %d gets %d crawls, more than the one before it", i, k)
			}
		}
		if sum != p.Budget {
			t.Errorf("%d crawls, want %d", sum, p.Budget)
		}
		if each := float64(sol.Probes) / float64(n); each > 10 {
			t.Errorf("budget %d: %.1f passes per sensor", p.Budget, each)
		} else {
			t.Logf("budget %d: %.1f passes per sensor", p.Budget, each)
		}
	}
}

func TestWorkersDoNotMatter(t *testing.T) {
	p := largeFleet(seeded(3), 900, Lookahead)
	p.Candidates, p.Budget, p.Capacity, p.Price = Ends, 2500, 60, 0
	want, err := Solve(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{0, 2, 8} {
		got, err := Solve(p, workers)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%d workers: another solution", workers)
		}
	}
	if again, err := OnePrice(p, nil); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("OnePrice differs from Solve: %v", err)
	}
}

func TestMonotone(t *testing.T) {
	for i := range trials(300, 2000) {
		var seen seen
		rng := seeded(i)
		p := randomProblem(rng, &seen)
		p.End, p.Candidates = Carry, Grid
		sol, err := Solve(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		more := *p
		more.Budget++
		if s, _ := Solve(&more, 1); s.Objective > sol.Objective {
			t.Fatalf("seed %d: one crawl more is worse", i)
		}
		coarse := *p
		coarse.Step = 2 * p.Step
		if s, _ := Solve(&coarse, 1); s.Objective < sol.Objective {
			t.Fatalf("seed %d: fewer candidates are better", i)
		}
		scaled := *p
		scaled.Demands = slices.Clone(p.Demands)
		for k := range scaled.Demands {
			scaled.Demands[k].Coef *= 8
		}
		s, _ := Solve(&scaled, 1)
		for k := range s.Sensors {
			if !slices.Equal(s.Sensors[k].Ticks, sol.Sensors[k].Ticks) {
				t.Fatalf("seed %d: scaling moved a crawl", i)
			}
		}
		if s.Objective != 8*sol.Objective || s.Price != 8*sol.Price {
			t.Fatalf("seed %d: objective %v, want 8 times %v", i, s.Objective, sol.Objective)
		}
	}
}

// checkPlan recomputes everything that a sensor's plan says of itself.
func checkPlan(t *testing.T, seed int, tw *twin, e []int64, plan *SensorPlan, rule CandidateRule) {
	t.Helper()
	n, c := len(plan.Ticks), tw.d.Coef
	for k, at := range plan.Ticks {
		legal := int64(at) < tw.p.Length && (k == 0 || at > plan.Ticks[k-1])
		inWindow := false
		for _, r := range tw.runs() {
			inWindow = inWindow || tw.legal(r, int64(at))
		}
		if !legal || !inWindow {
			t.Fatalf("seed %d: instant %d of %v is not legal", seed, at, plan.Ticks)
		}
	}
	if tw.forced() && int64(plan.Ticks[n-1]) != tw.counted[len(tw.counted)-1] {
		t.Fatalf("seed %d: %v does not end at the last legal instant", seed, plan.Ticks)
	}
	if got := tw.plan(plan.Ticks); got > e[n] || rule == Grid && got != e[n] {
		t.Fatalf("seed %d: %v costs %d, want %d", seed, plan.Ticks, got, e[n])
	}
	if c == 0 || tw.d.Cap == 0 {
		return
	}
	lose, gain := 0.0, 0.0
	switch {
	case n > 0 && e[n-1] >= 0:
		lose = c * float64(e[n-1]-e[n])
	case n > 0:
		lose = c * float64(tw.wait(tw.d.Source, tw.sink, true)-e[n])
	}
	if n+1 < len(e) && (tw.d.Cap < 0 || n < tw.d.Cap) {
		gain = c * float64(e[n]-e[n+1])
	}
	if plan.Lose != lose || plan.Gain != gain {
		t.Fatalf("seed %d: marginals %v, %v, want %v, %v", seed, plan.Lose, plan.Gain, lose, gain)
	}
	if want := ExpectedLatency(tw.d, plan.Ticks, tw.p.Length, tw.p.Tick); plan.Wait != want {
		t.Fatalf("seed %d: wait %v, want %v", seed, plan.Wait, want)
	}
	if plan.Mult&1 != 1 || plan.Mult < 1 {
		t.Fatalf("seed %d: multiplier %d is not odd", seed, plan.Mult)
	}
}
