package scheduler

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// What a fleet's solution has to be, and where it is held:
//
//	every optimal algorithm has the value of a knapsack  TestAlgorithmsAgree; of Solve alone
//	  of brute-force curves and uses the budget          also TestSolveIsTheOptimum
//	instants are legal, increasing, and cost what is     checkPlan, in all of these
//	  said, by an integration of its own
//	ties of 20 000 identical sensors                     TestIdenticalSensorsTie and, for
//	                                                     FoxGreedy, TestFoxTiesLikeSolve
//	ranges add up with what they carry over              TestRangesAdd
//	monotone in budget, candidates and scale             TestMonotone; TestMoreBudgetIsNoWorse
//	simulated events wait as long as computed            TestLatencyAgainstSimulation (one plan),
//	                                                     TestFleetLatencyAgainstSimulation
//	few candidates and the polish: within 0.1 %          TestEndsAreNearlyAsGoodAsEveryTick,
//	                                                     TestSpacingUpToTenUnits
//	capacity: no slot above it, the cost bounded         TestSpillBack, ..AgainstExhaustion (above),
//	                                                     TestSpillBackAgainstDualBound (below)
//	any number of workers: the same solution             TestWorkersDoNotMatter
//	no overflow at any price or horizon                  overflow_test.go
//	exchanges of Pairwise                                TestPairwiseTakesNoDetour, ..OnAnyCurves

// solverCase is an algorithm and what can be asked of it.
type solverCase struct {
	name    string
	solve   Algorithm
	optimal bool // its value is the optimum on the candidates
	ties    bool // of equal marginals it takes the lower sensor's
}

// solvers are all algorithms that plan on the candidates.
var solvers = []solverCase{
	{"OnePrice", OnePrice, true, true},
	{"FoxGreedy", FoxGreedy, true, true},
	{"Pairwise", Pairwise, true, false},
	{"Dynamic", Dynamic, true, true},
	{"DivideAndConquer", DivideAndConquer, true, true},
	{"Layered", Layered, true, true},
	{"FoxGreedy on flat tables", flatFox, true, true},
	{"Pairwise on flat tables", flatPairwise, true, false},
}

// randomFleet is a randomProblem whose two to seven sensors have room for more crawls
// than the budget mostly allows.
func randomFleet(rng *rand.Rand, seen *seen) *Problem {
	p := randomProblem(rng, seen)
	p.Length = 16 + rng.Int64N(20)
	if p.End == Lookahead {
		p.Extra = p.Length + rng.Int64N(5)
	}
	p.Demands = randomDemands(rng, 2+rng.IntN(6), p.Length, seen)
	p.Budget = rng.IntN(3 * len(p.Demands))
	return p
}

// disagreement says how a solution differs from the knapsack and from Fox on the
// twin's curves.
func disagreement(p *Problem, curves [][]int64, c solverCase, sol *Solution) error {
	want, left := fox(curves, p.Demands, p.Budget)
	least := knapsack(curves, p.Demands, p.Budget)
	var onCandidates int64
	sum, possible := 0, 0
	for i, n := range sol.Arrangement {
		d := &p.Demands[i]
		if int(n) >= len(curves[i]) || curves[i][n] < 0 {
			return fmt.Errorf("sensor %d cannot make %d crawls", i, n)
		}
		onCandidates += int64(d.Coef) * curves[i][n]
		sum += int(n)
		possible += positive(curves[i], d)
	}
	switch {
	case c.ties && !slices.Equal(sol.Arrangement, want):
		return fmt.Errorf("arrangement %v, want %v", sol.Arrangement, want)
	case sum > p.Budget || c.optimal && sum != min(p.Budget, possible):
		return fmt.Errorf("%d crawls of %d possible, budget %d", sum, possible, p.Budget)
	case onCandidates < least || c.optimal && onCandidates > least:
		return fmt.Errorf("cost %d on the candidates, want %d", onCandidates, least)
	case c.optimal && p.Candidates == Grid && sol.Objective != float64(least):
		return fmt.Errorf("objective %v, want %d", sol.Objective, least)
	case c.optimal && sol.Objective > float64(least):
		return fmt.Errorf("objective %v, %d before the polish", sol.Objective, least)
	case c.optimal && sol.Price != float64(left):
		return fmt.Errorf("price %v, want %d", sol.Price, left)
	}
	return nil
}

func TestAlgorithmsAgree(t *testing.T) {
	var seen seen
	solved, moved, same, polished := 0, 0, 0, 0
	var ends [3]int
	for i := range trials(700, 5000) {
		p := randomFleet(seeded(i), &seen)
		tws, curves := twins(p)
		reference, fault := OnePrice(p, nil)
		for _, c := range solvers {
			sol, err := c.solve(p, seeded(i))
			if fault != nil {
				if !errors.Is(err, ErrBudget) || err.Error() != fault.Error() || sol != nil {
					t.Fatalf("seed %d, %s: %v, want %v", i, c.name, err, fault)
				}
				continue
			}
			if err != nil {
				t.Fatalf("seed %d, %s: %v", i, c.name, err)
			}
			if err := disagreement(p, curves, c, sol); err != nil {
				t.Fatalf("seed %d, %s: %v", i, c.name, err)
			}
			for k := range sol.Sensors {
				checkPlan(t, i, tws[k], curves[k], &sol.Sensors[k], p.Candidates)
			}
			if again, _ := c.solve(p, seeded(i)); !reflect.DeepEqual(again, sol) {
				t.Fatalf("seed %d, %s: another solution the second time", i, c.name)
			}
			checkLikeSolve(t, i, c, reference, sol, &same, &moved)
			if p.Candidates == Ends {
				polished++
			}
		}
		if fault == nil {
			solved++
			ends[p.End]++
		}
		for k := range curves {
			if tied(curves[k]) {
				seen.ties++
			}
		}
	}
	t.Logf("%d instances, by end rule %v; of %d sensors %d capped, %d with ties, %d carried in; "+
		"%d plans like Solve's, %d with other instants of the same cost", solved, ends, seen.total,
		seen.caps, seen.ties, seen.carry, same, moved)
	for _, n := range []int{seen.caps, seen.ties, seen.carry} {
		if 10*n < seen.total {
			t.Errorf("a case makes up %d of %d sensors only", n, seen.total)
		}
	}
	if slices.Min(ends[:]) < solved/10 || polished < solved {
		t.Errorf("end rules %v, %d solutions polished", ends, polished)
	}
}

// checkLikeSolve compares sensor by sensor: where the counts are the same, so are the
// marginals and the price, and where the instants are, so is everything else.
func checkLikeSolve(t *testing.T, seed int, c solverCase, want, got *Solution, same, moved *int) {
	t.Helper()
	if c.ties && (got.Price != want.Price || got.Dropped != 0) {
		t.Fatalf("seed %d, %s: price %v, want %v", seed, c.name, got.Price, want.Price)
	}
	equal := true
	for k := range got.Sensors {
		equal = equal && slices.Equal(got.Sensors[k].Ticks, want.Sensors[k].Ticks)
		if got.Arrangement[k] != want.Arrangement[k] {
			continue
		}
		a, b := got.Sensors[k], want.Sensors[k]
		if a.Lose != b.Lose || a.Gain != b.Gain || c.ties && a.Mult != b.Mult {
			t.Fatalf("seed %d, %s: sensor %d: marginals %v, %v, own price %d, want %v, %v, %d",
				seed, c.name, k, a.Lose, a.Gain, a.Mult, b.Lose, b.Gain, b.Mult)
		}
		if !slices.Equal(a.Ticks, b.Ticks) {
			*moved++
			continue
		}
		*same++
		if a.Wait != b.Wait || a.next != b.next {
			t.Fatalf("seed %d, %s: sensor %d waits %v until %d, want %v until %d",
				seed, c.name, k, a.Wait, a.next, b.Wait, b.next)
		}
	}
	if equal && (got.Objective != want.Objective || got.Expected != want.Expected) {
		t.Fatalf("seed %d, %s: the same plan costs %v and %v, want %v and %v", seed, c.name,
			got.Objective, got.Expected, want.Objective, want.Expected)
	}
}

// Allocations and methods with a fault must be found out.
func TestWrongAlgorithmsDisagree(t *testing.T) {
	unweighted := func(p *Problem, curves []curve) ([]int, int, int64) {
		scaled := make([]curve, len(curves))
		for i, c := range curves {
			scaled[i].least = c.least
			for _, g := range c.gains {
				scaled[i].gains = append(scaled[i].gains, g/p.Demands[i].Coef)
			}
		}
		return foxShare(p, scaled)
	}
	initial := func(p *Problem, curves []curve) ([]int, int, int64) {
		return evenlyDivide(p, curves), 0, 0
	}
	late := func(w *worker, p *Problem, d *Demand, ahead float64, n int) []int32 {
		ticks := exactInstants(w, p, d, ahead, n)
		if first := ticks[0] - 1; awake(d.Spans, int64(first)) && int64(first) >= d.From {
			ticks[0] = first
		}
		return ticks
	}
	with := func(m method, share allocation) Algorithm {
		return func(p *Problem, _ *rand.Rand) (*Solution, error) {
			return composed(p, alike(m), share)
		}
	}
	for _, c := range []solverCase{
		{"weights ignored", with(exactMethod, unweighted), true, false},
		{"initial arrangement only", with(exactMethod, initial), true, false},
		{"first crawl a tick early", with(method{exactCurve, late}, foxShare), true, false},
	} {
		caught, tried := 0, 0
		var seen seen
		for i := range 300 {
			p := randomFleet(seeded(i), &seen)
			p.Candidates = Grid
			_, curves := twins(p)
			sol, err := c.solve(p, nil)
			if err != nil {
				continue
			}
			tried++
			if disagreement(p, curves, c, sol) != nil {
				caught++
			}
		}
		t.Logf("%s: caught in %d of %d", c.name, caught, tried)
		if 10*caught < tried {
			t.Errorf("%s: caught in %d of %d only", c.name, caught, tried)
		}
	}
}

// Under Fixed, without a cap, with a capacity: corners that randomFleet leaves out.
func TestComposedCorners(t *testing.T) {
	window := []sleepplan.Span{{Start: 10, End: 20}, {Start: 30, End: 35}}
	for _, c := range solvers {
		p := &Problem{Tick: 2 * time.Second, Length: 40, End: Fixed, Budget: 2}
		p.Demands = []Demand{{Coef: 1, Cap: -1, Gap: 20, Spans: window},
			{Coef: 1, Cap: 0, Gap: 20, Spans: window}, {Coef: 0, Cap: -1, Gap: 20, Spans: window},
			{Coef: 1, Cap: -1, Gap: 20}, {Coef: 1, Cap: 1, Gap: 20, Spans: window}}
		sol, err := c.solve(p, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if !slices.Equal(sol.Arrangement, Arrangement{1, 0, 0, 0, 1}) ||
			!slices.Equal(sol.Sensors[0].Ticks, []int32{34}) {
			t.Errorf("%s: crawls %v, %v", c.name, sol.Arrangement, sol.Sensors[0].Ticks)
		}
		u := func(from, to, at int) int { return 2 * (to - from) * (2*at - from - to) }
		none := u(10, 20, 40) + u(30, 35, 40)
		kept := u(10, 20, 34) + u(30, 34, 34) + u(34, 35, 40)
		if got := sol.Sensors[4]; got.Lose != float64(none-kept) || got.Gain != 0 {
			t.Errorf("%s: the forced crawl is worth %v, want %d; gain %v",
				c.name, got.Lose, none-kept, got.Gain)
		}
		p.Budget = 1
		if _, err := c.solve(p, nil); !errors.Is(err, ErrBudget) {
			t.Errorf("%s: 1 crawl for 2 sensors: %v", c.name, err)
		}
		p.End, p.Budget = Carry, 0
		if sol, err := c.solve(p, nil); err != nil || len(sol.Plan()) != 0 || sol.Price == 0 {
			t.Errorf("%s: budget 0: %v", c.name, err)
		}
		p.Budget = math.MaxInt
		if sol, err := c.solve(p, nil); err != nil || sol.Price != 0 || sol.Arrangement[4] != 1 {
			t.Errorf("%s: any budget: %v, %v", c.name, sol, err)
		}
		if sol, err := c.solve(&Problem{Tick: time.Second, Length: 5}, nil); err != nil ||
			len(sol.Plan()) != 0 {
			t.Errorf("%s: no sensors: %v", c.name, err)
		}
	}
}

// Pairwise makes as many exchanges as its first arrangement is away from its last, and
// no optimal one is nearer.
func TestPairwiseTakesNoDetour(t *testing.T) {
	var seen seen
	exchanged, total := 0, 0
	for i := range trials(1500, 8000) {
		p := randomFleet(seeded(i), &seen)
		best, err := OnePrice(p, nil)
		if err != nil {
			continue
		}
		s, err := newSolver(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		s.priceAhead()
		curves, err := s.curves(alike(exactMethod))
		if err != nil {
			t.Fatal(err)
		}
		start := evenlyDivide(p, curves)
		counts, exchanges, pairs := pairwiseShare(p, curves)
		if far := distance(start, counts); exchanges != far {
			t.Fatalf("seed %d: %d exchanges from %v to %v", i, exchanges, start, counts)
		}
		if n := int64(len(counts)); pairs > int64(exchanges+1)*n*(n-1) {
			t.Fatalf("seed %d: %d pairs in %d iterations", i, pairs, exchanges+1)
		}
		optimum := make([]int, len(counts))
		for k, n := range best.Arrangement {
			optimum[k] = int(n)
		}
		if far := distance(start, optimum); exchanges > far {
			t.Fatalf("seed %d: %d exchanges, %v is %d from %v", i, exchanges, optimum, far, start)
		}
		if exchanges > 0 {
			exchanged++
		}
		total += exchanges
	}
	t.Logf("%d instances took %d exchanges", exchanged, total)
	if exchanged < 100 {
		t.Errorf("%d instances only needed an exchange", exchanged)
	}
}

// distance is half the 1-norm between two arrangements of the same sum.
func distance(a, b []int) int {
	sum := 0
	for i := range a {
		sum += max(a[i]-b[i], b[i]-a[i])
	}
	return (sum + 1) / 2
}

// On curves that are not convex, pairwise and its literal twin, which adds up the whole
// fleet for each pair, make the same exchanges, and end where none gains.
func TestPairwiseOnAnyCurves(t *testing.T) {
	missed := 0
	for i := range trials(1000, 5000) {
		rng := seeded(i)
		p := &Problem{Tick: time.Second, Length: 100, End: Carry, Budget: rng.IntN(12)}
		var curves []curve
		for range 1 + rng.IntN(4) {
			d := Demand{Coef: float64(1 + rng.IntN(3)), Cap: -1}
			d.Spans = []sleepplan.Span{{Start: 0, End: 1 + rng.Int32N(99)}}
			var c curve
			for range rng.IntN(6) {
				c.gains = append(c.gains, float64(rng.IntN(8)))
			}
			p.Demands, curves = append(p.Demands, d), append(curves, c)
		}
		counts, exchanges, _ := pairwiseShare(p, curves)
		want, steps := pairwiseTwin(p, curves)
		if !slices.Equal(counts, want) || exchanges != steps {
			t.Fatalf("seed %d: %v after %d exchanges, want %v after %d", i, counts, exchanges, want, steps)
		}
		if greedy, _, _ := foxShare(p, curves); saved(curves, greedy) > saved(curves, counts) {
			missed++
		}
	}
	if missed == 0 {
		t.Error("no instance where a single exchange does not suffice: the curves are too tame")
	}
}

// Planned anew for each pair, as the paper has it, the fleet makes the same exchanges as
// over tables made once.
func TestLiteralMakesTheSameExchanges(t *testing.T) {
	exchanges := 0
	var seen seen
	for i := range trials(250, 1500) {
		p := randomFleet(seeded(i), &seen)
		if p.Candidates = Grid; p.End == Lookahead && p.Price == 0 {
			continue
		}
		want, fault := Pairwise(p, nil)
		got, err := literal(p, nil)
		if fault != nil {
			if err == nil || err.Error() != fault.Error() {
				t.Fatalf("seed %d: %v, want %v", i, err, fault)
			}
			continue
		}
		if err != nil || !slices.Equal(got.Arrangement, want.Arrangement) ||
			got.Iterations != want.Iterations || got.Objective != want.Objective {
			t.Fatalf("seed %d: %v after %d exchanges, want %v after %d", i, got.Arrangement,
				got.Iterations, want.Arrangement, want.Iterations)
		}
		exchanges += got.Iterations
	}
	if exchanges < 30 {
		t.Errorf("%d exchanges only", exchanges)
	}
}

// saved is what an arrangement saves in all.
func saved(curves []curve, counts []int) (sum float64) {
	for i, c := range curves {
		for _, g := range c.gains[:counts[i]-c.least] {
			sum += g
		}
	}
	return sum
}

func pairwiseTwin(p *Problem, curves []curve) ([]int, int) {
	now := evenlyDivide(p, curves)
	for steps := 0; ; steps++ {
		best, from := now, saved(curves, now)
		for i := range now {
			for j := range now {
				try := slices.Clone(now)
				try[i]--
				try[j]++
				if i == j || try[i] < 0 || try[j] > len(curves[j].gains) {
					continue
				}
				if v := saved(curves, try); v > from {
					best, from = try, v
				}
			}
		}
		if slices.Equal(best, now) {
			return now, steps
		}
		now = best
	}
}

// One crawl more is never worse, whoever plans. Without a price the look-ahead's
// depends on the budget, and values do not compare.
func TestMoreBudgetIsNoWorse(t *testing.T) {
	better, tried := 0, 0
	var seen seen
	for i := range trials(300, 3000) {
		p := randomFleet(seeded(i), &seen)
		if p.Candidates = Grid; p.End == Lookahead && p.Price == 0 {
			continue
		}
		more := *p
		more.Budget++
		for _, c := range solvers {
			was, err := c.solve(p, nil)
			if err != nil {
				continue
			}
			is, err := c.solve(&more, nil)
			if err != nil {
				t.Fatalf("seed %d, %s: %v", i, c.name, err)
			}
			tried++
			if is.Objective < was.Objective {
				better++
			}
			if c.optimal && (is.Objective > was.Objective || is.Price > was.Price) {
				t.Fatalf("seed %d, %s: %v at a price of %v, with one crawl more %v at %v", i, c.name,
					was.Objective, was.Price, is.Objective, is.Price)
			}
		}
	}
	if 10*better < tried {
		t.Errorf("%d of %d fleets only gained from a crawl", better, tried)
	}
}

// Equal marginals of 20 000 identical sensors go to the lower ones.
func TestFoxTiesLikeSolve(t *testing.T) {
	n := 20000
	var spans []sleepplan.Span
	for k := range int32(12) {
		spans = append(spans, sleepplan.Span{Start: 25 * k, End: 25*k + 10})
	}
	p := &Problem{Tick: time.Second, Length: 300, End: Carry, Budget: 73 * n / 10}
	for range n {
		p.Demands = append(p.Demands, Demand{Coef: 0.1, Cap: -1, Spans: spans, Gap: 1000})
	}
	want, err := OnePrice(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := FoxGreedy(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Arrangement, want.Arrangement) || got.Price != want.Price {
		t.Error("not the arrangement of Solve")
	}
	if math.Abs(got.Objective-want.Objective) > 1e-9*want.Objective {
		t.Errorf("objective %v, want %v", got.Objective, want.Objective)
	}
}

// Every algorithm tells how much it has looked at, and one price looks at least.
func TestWorkIsCounted(t *testing.T) {
	p := family(seeded(1), 40, 2000, families[1].awake, families[1].asleep)
	p.Candidates, p.Step, p.End, p.Budget = Grid, 10, Fixed, 200
	least, err := Solve(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range solvers {
		sol, err := c.solve(p, nil)
		if err != nil {
			t.Fatal(err)
		}
		if sol.Work <= 0 || sol.Work < least.Work {
			t.Errorf("%s: work %d, one price %d", c.name, sol.Work, least.Work)
		}
	}
}
