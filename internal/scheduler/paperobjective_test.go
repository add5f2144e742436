package scheduler

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// eq5 is equation (5) and slope5 its derivative, as they stand.
func eq5(rate, t float64) float64 { return (math.Exp(-t*rate) - 1 + t*rate) * t }

func slope5(rate, t float64) float64 {
	return 2*rate*t - 1 + math.Exp(-rate*t)*(1-rate*t)
}

// paperWait is a twin's wait under the Paper objective: tick by tick what G of its
// ends differ by.
func paperWait(tw *twin, s, t int64, none bool) (sum float64) {
	sec := tw.p.Tick.Seconds()
	for u := s; u < min(t, tw.stop); u++ {
		if tw.awake[u] {
			sum += eq5(tw.d.Rate, float64(t-u)*sec) - eq5(tw.d.Rate, float64(t-u-1)*sec)
		}
	}
	if none {
		sum += float64(tw.d.Backlog) * sec * slope5(tw.d.Rate, float64(t-max(0, s))*sec)
	}
	return sum * tw.d.Coef / tw.d.Rate
}

// paperCurve is e(n) by trying all sets of crawls.
func paperCurve(tw *twin, ahead float64) []float64 {
	all := slices.Concat([]int64{tw.d.Source}, tw.counted, tw.ahead, []int64{tw.sink})
	c, sink := len(tw.counted), len(all)-1
	wait := make([][]float64, len(all))
	for i := range all {
		wait[i] = make([]float64, len(all))
		for j := i + 1; j < len(all); j++ {
			wait[i][j] = paperWait(tw, all[i], all[j], i == 0)
		}
	}
	e := slices.Repeat([]float64{math.Inf(1)}, c+1)
	var try func(from, n int, sum float64)
	try = func(from, n int, sum float64) {
		if !tw.forced() || from == c {
			e[n] = min(e[n], sum+wait[from][sink])
		}
		for j := from + 1; j < sink; j++ {
			if j <= c {
				try(j, n+1, sum+wait[from][j])
			} else {
				try(j, n, sum+wait[from][j]+ahead)
			}
		}
	}
	try(0, 0, 0)
	return e
}

// paperGraphs is smallGraphs with rates, and the weights of each graph.
func paperGraphs(t *testing.T, n int,
	f func(seed int, rng *rand.Rand, tw *twin, g *graph, w edgeWeights[float64])) {
	t.Helper()
	smallGraphs(t, n, func(seed int, rng *rand.Rand, tw *twin, g *graph) {
		tw.d.Rate = math.Exp(6*rng.Float64() - 5)
		f(seed, rng, tw, g, (&penalty{}).weights(g, tw.p, tw.d, tw.p.Price))
	})
}

// differs reports whether two sums of the same size differ by more than rounding.
func differs(a, b, size float64) bool { return !(math.Abs(a-b) <= 1e-9*size) }

// TestPaperCurves compares all ways to e(n) under the Paper objective. The control is
// a twin that takes the exact cost.
func TestPaperCurves(t *testing.T) {
	var tab tables[float64]
	tried, ahead, backlog, forced, caught := 0, 0, 0, 0, 0
	paperGraphs(t, trials(1200, 20000), func(seed int, _ *rand.Rand, tw *twin, g *graph,
		w edgeWeights[float64]) {
		if len(tw.counted)+len(tw.ahead) > 9 {
			return
		}
		tried++
		want := paperCurve(tw, tw.p.Price)
		if len(tw.ahead) > 0 {
			ahead++
		}
		if tw.d.Backlog > 0 {
			backlog++
		}
		after := 0.0
		if g.forced {
			forced++
			want = want[1:]
			last := tw.counted[len(tw.counted)-1]
			after = paperWait(tw, last, tw.sink, false)
		}
		size := paperWait(tw, tw.d.Source, tw.sink, true)
		for name, fill := range map[string]filling[float64]{
			"dynamic": (*tables[float64]).dynamic, "divide": (*tables[float64]).divide,
		} {
			fill(&tab, w, g.counted)
			for n, e := range tab.e {
				if differs(e+after, want[n], size) {
					t.Fatalf("seed %d: %s: e(%d) = %v, want %v", seed, name, n, e+after, want[n])
				}
				if n > 1 && tab.e[n-2]-tab.e[n-1] < tab.e[n-1]-tab.e[n]-1e-9*size {
					t.Fatalf("seed %d: not convex: %v", seed, tab.e)
				}
			}
		}
		if sets := bySubsets(tw); differs(float64(slices.Min(sets))*tw.d.Coef, slices.Min(want), size) {
			caught++
		}
	})
	t.Logf("%d sensors, %d looking ahead, %d with a backlog, %d with a forced end; control %d",
		tried, ahead, backlog, forced, caught)
	if 25*ahead < tried || 25*backlog < tried || 25*forced < tried || 2*caught < tried {
		t.Error("a case is missing")
	}
}

// TestPaperPlansAgree compares divide and conquer with the dynamic programme on long
// graphs, with and without the table of weights.
func TestPaperPlansAgree(t *testing.T) {
	for i := range trials(12, 200) {
		rng := seeded(i)
		f := families[i%len(families)]
		p := family(rng, 1, 2000, f.awake, f.asleep)
		p.Tick, p.Candidates, p.Step, p.Objective = 100*time.Millisecond, Grid, 10, Paper
		if i%2 == 1 {
			p.End, p.Extra, p.Price, p.Demands[0].Gap = Lookahead, 1500, 5*rng.Float64(), 700
		}
		d := &p.Demands[0]
		d.Rate = d.Coef
		var w worker
		w.build(p, d, p.Price, false)
		weights := w.penalty.weights(&w.graph, p, d, p.Price)
		n := min(20, w.counted)
		var a, b, c tables[float64]
		a.dynamic(weights, n)
		b.divide(weights, n)
		direct := weights
		direct.slow = false
		c.divide(direct, n)
		if !slices.Equal(b.e, c.e) {
			t.Fatalf("seed %d: the table of weights changes the curve", i)
		}
		for k := range a.e {
			if differs(a.e[k], b.e[k], a.e[k]) {
				t.Fatalf("seed %d: e(%d) = %v by programme, %v by halves", i, k, a.e[k], b.e[k])
			}
		}
	}
}

// TestPaperIsMonge checks (T1) within the rounding of the sums. The control is the
// square root of each weight.
func TestPaperIsMonge(t *testing.T) {
	checked, caught := 0, 0
	paperGraphs(t, 1500, func(seed int, rng *rand.Rand, _ *twin, _ *graph, w edgeWeights[float64]) {
		for range 40 {
			var i [4]int
			for k := range i {
				i[k] = rng.IntN(w.last + 1)
			}
			if i[0] >= i[1] || i[1] >= i[2] || i[2] >= i[3] {
				continue
			}
			checked++
			a, b := w.between(i[0], i[3]), w.between(i[1], i[2])
			c, d := w.between(i[0], i[2]), w.between(i[1], i[3])
			if a+b < (c+d)*(1-1e-9) {
				t.Fatalf("seed %d: nodes %v: %v < %v", seed, i, a+b, c+d)
			}
			if math.Sqrt(a)+math.Sqrt(b) < (math.Sqrt(c)+math.Sqrt(d))*(1-1e-9) {
				caught++
			}
		}
	})
	if checked < 300 || caught < 100 {
		t.Errorf("%d quadruples, %d caught only", checked, caught)
	}
}

// TestLossOfThePaperObjective measures plans made under equation (5) by what they cost
// in truth. Section V of the EasiCrawl paper has rates between 0 and 1; there the error
// of equation (5) is much alike for all gaps, and with few events per gap it is not.
func TestLossOfThePaperObjective(t *testing.T) {
	solve := func(p *Problem, o Objective) *Solution {
		p.Objective = o
		sol, err := Solve(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		return sol
	}
	worst := map[float64]float64{}
	for _, rates := range []float64{1, 0.05} {
		for i, f := range families {
			for _, perSensor := range []int{2, 5} {
				p := family(seeded(i), 20, 2000, f.awake, f.asleep)
				p.Tick, p.End, p.Candidates, p.Step = 100*time.Millisecond, Fixed, Grid, 10
				p.Budget = perSensor * len(p.Demands)
				for k := range p.Demands {
					p.Demands[k].Coef *= rates
					p.Demands[k].Rate = p.Demands[k].Coef
				}
				exact, paper := solve(p, Exact).Objective, solve(p, Paper).Objective
				loss := paper/exact - 1
				t.Logf("rates to %v, %s, %d crawls per sensor: %.4f %%", rates, f.name, perSensor, 100*loss)
				if loss < -1e-12 {
					t.Errorf("%s: better than the optimum by %v", f.name, -loss)
				}
				worst[rates] = max(worst[rates], loss)
			}
		}
	}
	if worst[1] > 0.005 || worst[0.05] < worst[1] || worst[0.05] > 0.06 {
		t.Errorf("worst losses %v", worst)
	}
}

// A plan under the Paper objective comes with what a daemon goes on with: its own cost
// in truth, and prices at which Replan finds the same counts.
func TestPaperSolution(t *testing.T) {
	var seen seen
	solved, spilled := 0, 0
	for i := range trials(300, 2000) {
		rng := seeded(i)
		p := randomProblem(rng, &seen)
		p.Objective = Paper
		for k := range p.Demands {
			p.Demands[k].Rate = 0.01 + rng.Float64()
		}
		if i%3 == 0 {
			p.Capacity = 1
		}
		sol, err := Solve(p, 1)
		if errors.Is(err, ErrBudget) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		solved++
		spilled += sol.Dropped
		var objective float64
		price, sum := p.Price, 0
		if p.End == Lookahead && price == 0 {
			s, _ := newSolver(p, 1)
			s.priceAhead()
			price = s.ahead
		}
		q := *p
		q.Price = price
		for k, plan := range sol.Sensors {
			d := &p.Demands[k]
			objective += d.Coef * float64(newTwin(p, d, price).plan(plan.Ticks))
			sum += len(plan.Ticks)
			if d.Coef == 0 || p.Capacity > 0 || p.End == Lookahead && price == 0 {
				continue
			}
			again, err := Replan(&q, d, plan.Mult)
			if err != nil || len(again.Ticks) < len(plan.Ticks) {
				t.Fatalf("seed %d: %v planned again at %d: %v, %v", i, plan.Ticks, plan.Mult,
					again.Ticks, err)
			}
		}
		if d := math.Abs(sol.Objective - objective); d > 1e-9*objective || sum > p.Budget {
			t.Fatalf("seed %d: objective %v, want %v; %d crawls, budget %d",
				i, sol.Objective, objective, sum, p.Budget)
		}
		if plan := sol.Plan(); len(plan) != sum {
			t.Fatalf("seed %d: %d crawls in the plan, want %d", i, len(plan), sum)
		}
	}
	if solved < 100 || spilled == 0 {
		t.Errorf("%d problems solved, %d crawls dropped", solved, spilled)
	}
}

func TestPaperNeedsRates(t *testing.T) {
	p := &Problem{Tick: time.Second, Length: 10, End: Carry, Objective: Paper,
		Demands: []Demand{{Coef: 1, Gap: 5, Cap: -1}}}
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		p.Demands[0].Rate = rate
		_, err := Solve(p, 1)
		if !errors.Is(err, ErrProblem) || !strings.Contains(err.Error(), "sensor 0: rate") {
			t.Errorf("rate %v: %v", rate, err)
		}
	}
	p.Demands[0].Coef = 0
	if _, err := Solve(p, 1); err != nil {
		t.Errorf("a sensor that is never crawled needs no rate: %v", err)
	}
	p.Demands[0].Coef, p.Demands[0].Rate = 1, 1
	_, err := composed(p, func(int) method { return layersMethod }, foxShare)
	if !errors.Is(err, ErrProblem) || !strings.Contains(err.Error(), "exact objective") {
		t.Errorf("hulls under the paper objective: %v", err)
	}
	p.Objective = 7
	if _, err := Solve(p, 1); !errors.Is(err, ErrProblem) ||
		!strings.Contains(err.Error(), "objective has number 7") {
		t.Errorf("objective 7: %v", err)
	}
}
