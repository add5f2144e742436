package scheduler

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// smallGraphs calls f with random sensors that can be crawled, their twins and
// their graphs.
func smallGraphs(t *testing.T, n int, f func(seed int, rng *rand.Rand, tw *twin, g *graph)) {
	t.Helper()
	var seen seen
	for i := range n {
		rng := seeded(i)
		p := randomProblem(rng, &seen)
		for k := range p.Demands {
			d := &p.Demands[k]
			d.Coef = max(1, d.Coef)
			if d.Cap == 0 {
				continue
			}
			g := &graph{}
			g.build(p, d, p.Price, p.forces(d))
			f(i, rng, newTwin(p, d, p.Price), g)
		}
	}
}

// inner are the twin's costs in the graph's terms: a forced crawl and what waits
// after it left out.
func inner(tw *twin, g *graph) []int64 {
	e := tw.curve()
	if g.forced {
		e = e[1:]
		for n := range e {
			e[n] -= g.after
		}
	}
	return e
}

func TestTwinAgreesWithSubsets(t *testing.T) {
	tried := 0
	smallGraphs(t, trials(800, 4000), func(seed int, _ *rand.Rand, tw *twin, _ *graph) {
		if len(tw.counted)+len(tw.ahead) > 10 {
			return
		}
		tried++
		sets := tw.subsets()
		for n, e := range tw.curve() {
			if e != sets[n] {
				t.Fatalf("seed %d: e(%d) = %d by programme, %d by sets", seed, n, e, sets[n])
			}
		}
	})
	if tried < 100 {
		t.Errorf("%d sensors only were small enough", tried)
	}
}

func TestCostIsMonge(t *testing.T) {
	smallGraphs(t, 500, func(seed int, rng *rand.Rand, _ *twin, g *graph) {
		m := len(g.nodes)
		for range 20 {
			var i [4]int
			for k := range i {
				i[k] = rng.IntN(m)
			}
			if i[0] > i[1] || i[1] > i[2] || i[2] > i[3] {
				continue
			}
			s1, s2, t1, t2 := g.nodes[i[0]], g.nodes[i[1]], g.nodes[i[2]], g.nodes[i[3]]
			nested, crossed := cost(s1, t2)+cost(s2, t1), cost(s1, t1)+cost(s2, t2)
			if nested < crossed {
				t.Fatalf("seed %d: nodes %v: %d < %d", seed, i, nested, crossed)
			}
		}
	})
}

func TestCurve(t *testing.T) {
	tied := 0
	smallGraphs(t, trials(1500, 8000), func(seed int, _ *rand.Rand, tw *twin, g *graph) {
		e := inner(tw, g)
		if len(e) != g.counted+1 {
			t.Fatalf("seed %d: %d candidates, the twin has %d", seed, g.counted, len(e)-1)
		}
		for n := range e {
			probes := 0
			path, got := g.exact(n, 1+2*int64(seed), &probes)
			if got != e[n] {
				t.Fatalf("seed %d: e(%d) = %d, want %d", seed, n, got, e[n])
			}
			if sum, count := walk(g, path); sum != got || count != n {
				t.Fatalf("seed %d: path of %d crawls costs %d, said %d and %d", seed, count, sum, n, got)
			}
			fewer, more := g.neighbours(append([]int32(nil), path...), n)
			if fewer != e[max(0, n-1)] || more != e[min(n+1, g.counted)] {
				t.Fatalf("seed %d: neighbours of %d are %d and %d in %v", seed, n, fewer, more, e)
			}
			if n > 1 && e[n-2]-e[n-1] < e[n-1]-e[n] {
				t.Fatalf("seed %d: not convex at %d: %v", seed, n-1, e)
			}
			if n > 1 && e[n-2]-e[n-1] == e[n-1]-e[n] {
				tied++
			}
		}
	})
	if tied < 1000 {
		t.Errorf("%d ties only", tied)
	}
}

// walk is the cost and the counted crawls of a path.
func walk(g *graph, path []int32) (sum int64, count int) {
	for k := 1; k < len(path); k++ {
		sum += cost(g.nodes[path[k-1]], g.nodes[path[k]])
		switch {
		case int(path[k]) <= g.counted:
			count++
		case k+1 < len(path):
			sum += g.price
		}
	}
	return sum, count
}

func TestPenalIsTheLeastAtItsPrice(t *testing.T) {
	smallGraphs(t, trials(1500, 8000), func(seed int, rng *rand.Rand, tw *twin, g *graph) {
		e := inner(tw, g)
		for _, wide := range []bool{false, true} {
			g.wide = wide
			for range 5 {
				mult := int64(math.Exp(9*rng.Float64())) | 1
				got := g.penal(mult)
				for n := range e {
					if got.e != e[got.n] || e[n]+mult*int64(n) < got.e+mult*int64(got.n) {
						t.Fatalf("seed %d: price %d: %+v, but %d crawls cost %d", seed, mult, got, n, e[n])
					}
				}
				sum, count := walk(g, g.trace(nil))
				if sum != got.e || count != got.n {
					t.Fatalf("seed %d: the path costs %d with %d crawls, not %+v", seed, sum, count, got)
				}
			}
		}
	})
}

// bigPenal is PENAL without a hull, in numbers of any size.
func bigPenal(g *graph, mult int64) *big.Int {
	of := func(v int64) *big.Int { return big.NewInt(v) }
	best := []*big.Int{of(0)}
	for j := 1; j < len(g.nodes); j++ {
		charge := of(mult)
		if j == len(g.nodes)-1 {
			charge = of(0)
		} else if j > g.counted {
			charge = of(g.price)
		}
		var least *big.Int
		for i := range j {
			s, e := g.nodes[i], g.nodes[j]
			f := new(big.Int).Mul(of(e.x), new(big.Int).Sub(of(e.a), of(s.a)))
			f.Sub(f, new(big.Int).Sub(of(e.b), of(s.b)))
			if f.Add(f, best[i]); least == nil || f.Cmp(least) < 0 {
				least = f
			}
		}
		best = append(best, least.Add(least, charge))
	}
	return best[len(best)-1]
}

// longDemand is awake for most of a horizon of h ticks.
func longDemand(rng *rand.Rand, h int64) (*Problem, *Demand) {
	p := &Problem{
		Tick: time.Second, Length: h / 2, Extra: h / 4, End: Lookahead, Price: 1e6, Step: h / 64,
		Candidates: Grid, Budget: 1,
	}
	d := &Demand{Coef: 1, Cap: -1, Gap: float64(h / 8), Known: math.MaxInt64, Backlog: h / 64}
	d.Source = -h / 8
	for t := d.Source; t < h; {
		t += 1 + rng.Int64N(h/100)
		w := 1 + rng.Int64N(h/20)
		d.Spans = append(d.Spans, sleepplan.Span{Start: int32(t), End: int32(t + w)})
		t += w
	}
	return p, d
}

// TestLongHorizons compares with numbers of any size at the limit of products in
// an int64 and at the limit of the package. The control: with int64 products the
// longer horizon goes wrong.
func TestLongHorizons(t *testing.T) {
	wrong := 0
	for i := range trials(60, 400) {
		rng := seeded(i)
		h := int64(fastTicks) * 9 / 10
		if i%2 == 1 {
			h = MaxTicks * 9 / 10
		}
		p, d := longDemand(rng, h)
		if err := p.check(d); err != nil {
			t.Fatal(err)
		}
		var g graph
		g.build(p, d, p.Price, false)
		if g.wide != (i%2 == 1) {
			t.Fatalf("horizon %d: wide is %v", h, g.wide)
		}
		for _, mult := range []int64{1, g.whole/3 | 1, g.whole/50 | 1, g.whole | 1} {
			want := bigPenal(&g, mult)
			got := g.penal(mult)
			f := new(big.Int).Mul(big.NewInt(mult), big.NewInt(int64(got.n)))
			if f.Add(f, big.NewInt(got.e)).Cmp(want) != 0 {
				t.Fatalf("seed %d: price %d: %v, want %v", i, mult, f, want)
			}
			if g.penal(math.MaxInt64) != g.penal(g.whole|1) {
				t.Fatalf("seed %d: a huge price is not clamped", i)
			}
			if g.wide {
				g.wide = false
				f := g.penal(mult)
				g.wide = true
				if f != got {
					wrong++
				}
			}
		}
	}
	if wrong == 0 {
		t.Error("products in an int64 have not gone wrong: the test is too weak")
	}
}

func TestWideProducts(t *testing.T) {
	rng := seeded(1)
	for range 20000 {
		var v [4]int64
		for k := range v {
			v[k] = int64(rng.Uint64()) >> rng.IntN(64)
		}
		a := new(big.Int).Mul(big.NewInt(v[0]), big.NewInt(v[1]))
		b := new(big.Int).Mul(big.NewInt(v[2]), big.NewInt(v[3]))
		if wideLE(v[0], v[1], v[2], v[3]) != (a.Cmp(b) <= 0) || !wideLE(v[0], v[1], v[1], v[0]) {
			t.Fatalf("wrong for %v", v)
		}
	}
}
