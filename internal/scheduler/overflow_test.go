package scheduler

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// limitDemand is a sensor whose horizon is exactly h ticks, with everything that counts
// towards it: carry-in, backlog, range, look-ahead and what follows. Every second one is
// awake but for single ticks, which makes U as large as it gets.
func limitDemand(rng *rand.Rand, h int64, end EndRule, dense bool) (*Problem, *Demand) {
	p := &Problem{Tick: time.Second, End: end, Candidates: Grid, Budget: 1}
	d := &Demand{Coef: 1, Cap: -1, Gap: float64(h / 8), Known: math.MaxInt64, Backlog: h / 64}
	d.Source = -h / 8
	p.Length = h - d.Backlog + d.Source
	if end == Lookahead {
		p.Price = float64(h) * float64(h) * rng.Float64() / 100
		p.Extra = h / 5
		p.Length -= p.Extra + int64(math.Round(d.Gap/2))
	}
	p.Step = p.Length / (20 + rng.Int64N(30))
	for t := d.Source; t < h; {
		w := 1 + rng.Int64N(h/20)
		d.Spans = append(d.Spans, sleepplan.Span{Start: int32(t), End: int32(min(t+w, h))})
		t += w + 1
		if !dense {
			t += rng.Int64N(h / 40)
		}
	}
	return p, d
}

// limits are the horizons at which the arithmetic changes or ends.
var limits = []int64{fastTicks, fastTicks + 1, MaxTicks}

// atLimits calls f with graphs at the limits, under all end rules.
func atLimits(t *testing.T, n int, f func(rng *rand.Rand, p *Problem, d *Demand, g *graph)) {
	t.Helper()
	for i := range n {
		for _, h := range limits {
			rng := seeded(i)
			p, d := limitDemand(rng, h, EndRule(i%3), i%2 == 0)
			if err := p.check(d); err != nil {
				t.Fatal(err)
			}
			if d.Backlog++; p.check(d) == nil && h == MaxTicks {
				t.Fatalf("a horizon of %d ticks is let through", h+1)
			}
			d.Backlog--
			var g graph
			g.build(p, d, p.Price, p.forces(d))
			if g.wide != (h > fastTicks) {
				t.Fatalf("horizon %d: wide is %v", h, g.wide)
			}
			f(rng, p, d, &g)
		}
	}
}

// bigCost integrates U over the spans in numbers of any size.
func bigCost(p *Problem, d *Demand, s, t int64) *big.Int {
	stop := min(t, p.Length)
	if p.End == Lookahead {
		stop = min(t, p.Length+p.Extra)
	}
	sum := new(big.Int)
	for _, span := range d.Spans {
		if from, to := max(int64(span.Start), s), min(int64(span.End), stop); from < to {
			part := big.NewInt(2 * (to - from))
			sum.Add(sum, part.Mul(part, big.NewInt(2*t-from-to)))
		}
	}
	if s == d.Source {
		part := big.NewInt(4 * d.Backlog)
		sum.Add(sum, part.Mul(part, big.NewInt(t)))
	}
	return sum
}

// tick is where a node stands; the source's node has no other instant than its own.
func (g *graph) tick(d *Demand, j int) int64 {
	if j == 0 {
		return d.Source
	}
	return g.nodes[j].x/4 + g.origin
}

// bigWalk is the cost of a path by bigCost, look-ahead prices included.
func bigWalk(p *Problem, d *Demand, g *graph, path []int32) *big.Int {
	sum := new(big.Int)
	for k := 1; k < len(path); k++ {
		sum.Add(sum, bigCost(p, d, g.tick(d, int(path[k-1])), g.tick(d, int(path[k]))))
		if int(path[k]) > g.counted && k+1 < len(path) {
			sum.Add(sum, big.NewInt(g.price))
		}
	}
	return sum
}

// bigCurve is e(0), .., e(most) by the quadratic programme in numbers of any size.
func bigCurve(p *Problem, d *Demand, g *graph, most int) []*big.Int {
	last := len(g.nodes) - 1
	edge := make([][]*big.Int, last+1)
	for j := range edge {
		for i := range j {
			edge[j] = append(edge[j], bigCost(p, d, g.tick(d, i), g.tick(d, j)))
		}
	}
	var curve []*big.Int
	best := make([]*big.Int, last+1) // of k crawls with the last one at a node
	best[0] = new(big.Int)
	for range most + 1 {
		next := make([]*big.Int, last+1)
		offer := func(to []*big.Int, i, j int, toll int64) {
			if best[i] == nil {
				return
			}
			v := new(big.Int).Add(best[i], edge[j][i])
			if v.Add(v, big.NewInt(toll)); to[j] == nil || v.Cmp(to[j]) < 0 {
				to[j] = v
			}
		}
		for j := 1; j <= last; j++ {
			for i := range j {
				switch {
				case j <= g.counted:
					offer(next, i, j, 0)
				case j < last:
					offer(best, i, j, g.price)
				default:
					offer(best, i, j, 0)
				}
			}
		}
		curve, best = append(curve, best[last]), next
	}
	return curve
}

func equals(a int64, b *big.Int) bool { return b.IsInt64() && b.Int64() == a }

// All of U, of plans at any price and of any count, is exact at every horizon.
func TestCostsAtTheLimits(t *testing.T) {
	nodes := 0
	atLimits(t, trials(9, 60), func(rng *rand.Rand, p *Problem, d *Demand, g *graph) {
		last := len(g.nodes) - 1
		nodes += last
		for range 100 {
			j := 1 + rng.IntN(last)
			i := rng.IntN(j)
			want := bigCost(p, d, g.tick(d, i), g.tick(d, j))
			if got := cost(g.nodes[i], g.nodes[j]); !equals(got, want) || got&1 != 0 {
				t.Fatalf("horizon of %d: U is %d, want %v", p.Length, got, want)
			}
		}
		if g.whole != cost(g.nodes[0], g.nodes[last]) {
			t.Fatal("not the whole cost")
		}
		for _, mult := range []int64{1, 3, int64(rng.Uint64()>>(2+rng.IntN(60))) | 1, g.whole/50 | 1,
			g.whole - 1, g.whole | 1, maxMult + 1, math.MaxInt64} {
			got := g.penal(mult | 1)
			mult = max(1, min(mult|1, g.whole|1))
			total := new(big.Int).Mul(big.NewInt(mult), big.NewInt(int64(got.n)))
			if total.Add(total, big.NewInt(got.e)).Cmp(bigPenal(g, mult)) != 0 {
				t.Fatalf("price %d: %v at %+v, want %v", mult, total, got, bigPenal(g, mult))
			}
			if walked := bigWalk(p, d, g, g.trace(nil)); !equals(got.e, walked) {
				t.Fatalf("price %d: the path costs %v, not %d", mult, walked, got.e)
			}
		}
		checkBigCurve(t, p, d, g)
	})
	if nodes < 500 {
		t.Errorf("%d nodes only", nodes)
	}
}

// checkBigCurve compares counts, their neighbours and the curve's pieces.
func checkBigCurve(t *testing.T, p *Problem, d *Demand, g *graph) {
	t.Helper()
	const most = 6
	want := bigCurve(p, d, g, most+1)
	for n := range most + 1 {
		probes := 0
		path, e := g.exact(n, g.whole/9|1, &probes)
		path = append([]int32(nil), path...)
		if !equals(e, want[n]) || !equals(e, bigWalk(p, d, g, path)) {
			t.Fatalf("e(%d) = %d, want %v; the path costs %v", n, e, want[n], bigWalk(p, d, g, path))
		}
		fewer, more := g.neighbours(path, n)
		if !equals(fewer, want[max(0, n-1)]) || !equals(more, want[n+1]) {
			t.Fatalf("beside e(%d) are %d and %d, want %v and %v", n, fewer, more,
				want[max(0, n-1)], want[n+1])
		}
	}
	c, err := exactCurve(&worker{}, p, d, p.Price, most)
	if err != nil {
		t.Fatal(err)
	}
	for k, gain := range c.gains {
		d := new(big.Int).Sub(want[k], want[k+1])
		if u, _ := new(big.Float).SetInt(d).Float64(); gain != u*p.unit(&Demand{Coef: 1}) {
			t.Fatalf("crawl %d gains %v, want %v/4", k+1, gain, u)
		}
	}
}

// Comparisons of hull lines: within fastTicks the products fit in an int64, beyond they
// take 128 bits and, as the control shows, must.
func TestHullComparisonsAtTheLimits(t *testing.T) {
	wrapped, compared := 0, 0
	atLimits(t, trials(9, 60), func(rng *rand.Rand, p *Problem, d *Demand, g *graph) {
		for _, mult := range []int64{1, g.whole/9 | 1, g.whole | 1} {
			g.penal(mult)
			lines := []line{{}}
			for j := 1; j < len(g.nodes)-1; j++ {
				lines = append(lines, line{k: g.back[j].k, a: g.nodes[j].a})
			}
			for range 300 {
				k := 2 + rng.IntN(len(lines)-2)
				j := 1 + rng.IntN(k-1)
				o, m, l := lines[rng.IntN(j)], lines[j], lines[k]
				left := new(big.Int).Mul(big.NewInt(l.k-o.k), big.NewInt(m.a-o.a))
				right := new(big.Int).Mul(big.NewInt(m.k-o.k), big.NewInt(l.a-o.a))
				want := left.Cmp(right) <= 0
				compared++
				if productLE(l.k-o.k, m.a-o.a, m.k-o.k, l.a-o.a, g.wide) != want {
					t.Fatalf("lines %v, %v, %v: the comparison is not %v", o, m, l, want)
				}
				if !g.wide && (!left.IsInt64() || !right.IsInt64()) {
					t.Fatalf("lines %v, %v, %v: products %v and %v do not fit", o, m, l, left, right)
				}
				if g.wide && productLE(l.k-o.k, m.a-o.a, m.k-o.k, l.a-o.a, false) != want {
					wrapped++
				}
			}
		}
	})
	t.Logf("%d comparisons; %d would have gone wrong in an int64", compared, wrapped)
	if wrapped == 0 {
		t.Error("no product has wrapped: the test is too weak")
	}
}

// A negative cap is none, whatever its size.
func TestNegativeCapsAreNone(t *testing.T) {
	var seen seen
	crawled := 0
	for i := range 60 {
		p := randomFleet(seeded(i), &seen)
		for _, c := range solvers {
			var want *Solution
			for _, limit := range []int{1 << 20, -1, -7, math.MinInt} {
				for k := range p.Demands {
					p.Demands[k].Cap = limit
				}
				sol, err := c.solve(p, nil)
				switch {
				case err != nil:
					if !errors.Is(err, ErrBudget) {
						t.Fatalf("seed %d, %s: %v", i, c.name, err)
					}
				case want == nil:
					want = sol
					crawled += len(sol.Plan())
				case !reflect.DeepEqual(sol.Sensors, want.Sensors):
					t.Fatalf("seed %d, %s: a cap of %d is another plan than none", i, c.name, limit)
				}
			}
		}
	}
	if crawled < 1000 {
		t.Errorf("%d crawls only", crawled)
	}
}

// Coefficients and prices scaled by a power of two change nothing but the value, from
// far below what any fleet has to near the largest that is let through.
func TestCoefficientsOfAnySize(t *testing.T) {
	var seen seen
	crawled := 0
	for i := range trials(100, 1000) {
		p := randomFleet(seeded(i), &seen)
		for _, c := range solvers {
			want, err := c.solve(p, nil)
			if err != nil {
				continue
			}
			crawled += len(want.Plan())
			for _, exponent := range []int{-940, 820} {
				scaled := *p
				scaled.Price = math.Ldexp(p.Price, exponent)
				scaled.Demands = slices.Clone(p.Demands)
				for k := range scaled.Demands {
					scaled.Demands[k].Coef = math.Ldexp(p.Demands[k].Coef, exponent)
				}
				got, err := c.solve(&scaled, nil)
				if err != nil {
					t.Fatalf("seed %d, %s, 2^%d: %v", i, c.name, exponent, err)
				}
				if !slices.Equal(got.Arrangement, want.Arrangement) || p.Candidates == Grid &&
					got.Objective != math.Ldexp(want.Objective, exponent) {
					t.Fatalf("seed %d, %s, 2^%d: %v at %v, want %v at %v", i, c.name, exponent,
						got.Arrangement, got.Objective, want.Arrangement, want.Objective)
				}
			}
		}
	}
	if crawled < 1000 {
		t.Errorf("%d crawls only", crawled)
	}
}

// Whoever plans, bad input is an error that names the sensor and the value, never a plan.
// TestInvalidProblemsAreNamed has the rest of the table.
func TestNoPlanFromBadInput(t *testing.T) {
	type span = sleepplan.Span
	all := append([]solverCase{{name: "EvenSnapped", solve: EvenSnapped},
		{name: "RandomCrawl", solve: RandomCrawl}}, solvers...)
	for want, spoil := range map[string]func(p *Problem, d *Demand){
		"tick of -1s":                    func(p *Problem, _ *Demand) { p.Tick = -time.Second },
		"length of -5":                   func(p *Problem, _ *Demand) { p.Length = -5 },
		"objective has number 9":         func(p *Problem, _ *Demand) { p.Objective = 9 },
		"look-ahead of 134217729":        func(p *Problem, _ *Demand) { p.Extra = MaxTicks + 1 },
		"grid step of -2":                func(p *Problem, _ *Demand) { p.Candidates, p.Step = Grid, -2 },
		"budget -922337203685477":        func(p *Problem, _ *Demand) { p.Budget = math.MinInt },
		"price -1":                       func(p *Problem, _ *Demand) { p.Price = -1 },
		"price +Inf":                     func(p *Problem, _ *Demand) { p.Price = math.Inf(1) },
		"price -Inf":                     func(p *Problem, _ *Demand) { p.Price = math.Inf(-1) },
		"sensor 1: coefficient -0.5":     func(_ *Problem, d *Demand) { d.Coef = -0.5 },
		"sensor 1: coefficient -Inf":     func(_ *Problem, d *Demand) { d.Coef = math.Inf(-1) },
		"sensor 1: coefficient 1e+300":   func(_ *Problem, d *Demand) { d.Coef = 1e300 },
		"sensor 1: expected gap of NaN":  func(_ *Problem, d *Demand) { d.Gap = math.NaN() },
		"sensor 1: expected gap of +Inf": func(_ *Problem, d *Demand) { d.Gap = math.Inf(1) },
		"sensor 1: expected gap of -3":   func(_ *Problem, d *Demand) { d.Gap = -3 },
		"sensor 1: backlog of 134217729": func(_ *Problem, d *Demand) { d.Backlog = MaxTicks + 1 },
		"sensor 1: horizon of 134217729": func(p *Problem, d *Demand) {
			p.Length, p.Extra, d.Gap = MaxTicks-9, 5, 10
		},
		"sensor 1: horizon of 134217787": func(_ *Problem, d *Demand) {
			d.Backlog = MaxTicks - 43
		},
		"sensor 1: span 0 [9,3)": func(_ *Problem, d *Demand) {
			d.Spans = []span{{Start: 9, End: 3}}
		},
		"sensor 1: span 1 [1,7)": func(_ *Problem, d *Demand) {
			d.Spans = []span{{Start: 1, End: 7}, {Start: 1, End: 7}}
		},
		"sensor 1: span 2 [8,9)": func(_ *Problem, d *Demand) {
			d.Spans = []span{{Start: 1, End: 7}, {Start: 7, End: 9}, {Start: 8, End: 9}}
		},
	} {
		p := &Problem{Tick: time.Second, Length: 100, Budget: 4, Demands: make([]Demand, 3)}
		for i := range p.Demands {
			p.Demands[i] = Demand{Coef: 1, Cap: -1, Gap: 4, Spans: []span{{Start: 10, End: 20}}}
		}
		spoil(p, &p.Demands[1])
		for _, c := range all {
			sol, err := c.solve(p, seeded(1))
			if sol != nil || !errors.Is(err, ErrProblem) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s: %v", c.name, want, err)
			}
		}
		if _, err := Solve(p, 4); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("four workers, %s: %v", want, err)
		}
	}
}

// The report of a budget below the forced crawls names both.
func TestBudgetBelowAwakeSensors(t *testing.T) {
	p := &Problem{Tick: time.Second, Length: 100, End: Fixed, Candidates: Grid, Step: 1, Budget: 2}
	for range 3 {
		d := Demand{Coef: 1, Cap: -1, Spans: []sleepplan.Span{{Start: 10, End: 20}}}
		p.Demands = append(p.Demands, d)
	}
	for _, c := range solvers {
		sol, err := c.solve(p, nil)
		if sol != nil || !errors.Is(err, ErrBudget) ||
			!strings.Contains(err.Error(), "2 crawls for 3 sensors") {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
