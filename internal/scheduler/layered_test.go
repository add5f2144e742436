package scheduler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// bySubsets is e(n) by trying all sets of crawls, look-ahead ones included, like
// twin.subsets but with each wait computed once.
func bySubsets(tw *twin) []int64 {
	all := slices.Concat([]int64{tw.d.Source}, tw.counted, tw.ahead, []int64{tw.sink})
	wait := make([][]int64, len(all))
	for i := range all {
		for j := range all {
			w := int64(0)
			if i < j {
				w = tw.wait(all[i], all[j], i == 0)
			}
			wait[i] = append(wait[i], w)
		}
	}
	c, sink := len(tw.counted), len(all)-1
	e := slices.Repeat([]int64{-1}, c+1)
	var try func(from, n int, sum int64)
	try = func(from, n int, sum int64) {
		if all := sum + wait[from][sink]; (!tw.forced() || from == c) && (e[n] < 0 || all < e[n]) {
			e[n] = all
		}
		for j := from + 1; j < sink; j++ {
			if j <= c {
				try(j, n+1, sum+wait[from][j])
			} else {
				try(j, n, sum+wait[from][j]+tw.toll)
			}
		}
	}
	try(0, 0, 0)
	return e
}

// fillings are the methods that find a whole curve, and their ways to each of its
// points, on one graph.
var fillings = map[string]func(t *tables[int64], g *graph, n int) int64{
	"dynamic": func(t *tables[int64], g *graph, n int) int64 { return t.dynamic(exactWeights(g), n) },
	"divide":  func(t *tables[int64], g *graph, n int) int64 { return t.divide(exactWeights(g), n) },
	"layers":  func(t *tables[int64], g *graph, n int) int64 { return g.layers(t, n) },
}

// TestCurvesAgree is the equality of all ways to e(n): sets, the paper's programme,
// divide and conquer, hulls in layers, EXACT_N. The control is a twin whose windows
// are closed.
func TestCurvesAgree(t *testing.T) {
	var kinds struct{ sensors, capped, tied, carried, backlog, late, ahead, forced int }
	var tab tables[int64]
	probes, caught := 0, 0
	smallGraphs(t, trials(4000, 20000), func(seed int, _ *rand.Rand, tw *twin, g *graph) {
		if len(tw.counted)+len(tw.ahead) > 12 {
			return
		}
		count := func(n *int, is bool) {
			if is {
				*n++
			}
		}
		want := bySubsets(tw)
		count(&kinds.sensors, true)
		count(&kinds.capped, tw.d.Cap > 0)
		count(&kinds.tied, tied(want))
		count(&kinds.carried, tw.d.Source < 0)
		count(&kinds.backlog, tw.d.Backlog > 0)
		count(&kinds.late, tw.d.From > 0)
		count(&kinds.ahead, len(tw.ahead) > 0)
		count(&kinds.forced, g.forced)
		tw.wrong = true
		count(&caught, !slices.Equal(want, bySubsets(tw)))
		if g.forced {
			want = want[1:]
			for n := range want {
				want[n] -= g.after
			}
		}
		for name, fill := range fillings {
			work := fill(&tab, g, g.counted)
			if !slices.Equal(tab.e, want) || work <= 0 {
				t.Fatalf("seed %d: %s: e = %v, want %v", seed, name, tab.e, want)
			}
			for n := range want {
				checkWay(t, seed, g, tab.trace(n), want[n])
			}
		}
		for n := range want {
			if _, e := g.exact(n, 1, &probes); e != want[n] {
				t.Fatalf("seed %d: EXACT_N(%d) = %d, want %d", seed, n, e, want[n])
			}
		}
	})
	t.Logf("%+v; %d of them caught with closed windows", kinds, caught)
	for _, n := range []int{kinds.capped, kinds.tied, kinds.carried, kinds.backlog, kinds.late,
		kinds.ahead, kinds.forced, caught} {
		if 25*n < kinds.sensors {
			t.Errorf("a case makes up %d of %d sensors only", n, kinds.sensors)
		}
	}
}

// checkWay recomputes what counted crawls at nodes cost.
func checkWay(t *testing.T, seed int, g *graph, nodes []int32, want int64) {
	t.Helper()
	last, sum := int32(0), int64(0)
	for _, j := range nodes {
		if j <= last || int(j) > g.counted {
			t.Fatalf("seed %d: crawls at nodes %v of %d", seed, nodes, g.counted)
		}
		sum += cost(g.nodes[last], g.nodes[j])
		last = j
	}
	if rest, _ := g.tail(g.nodes[last]); sum+rest != want {
		t.Fatalf("seed %d: crawls at nodes %v cost %d, want %d", seed, nodes, sum+rest, want)
	}
}

// TestCurvesAgreeOnLongGraphs compares where sets are out of reach: hundreds of
// candidates, and products that need 128 bits.
func TestCurvesAgreeOnLongGraphs(t *testing.T) {
	var g graph
	var tab tables[int64]
	for i := range trials(8, 60) {
		rng := seeded(i)
		h := int64(2000)
		if i%2 == 1 {
			h = MaxTicks * 9 / 10
		}
		p, d := longDemand(rng, h)
		p.Price = math.Exp(10*rng.Float64()) * float64(h)
		g.build(p, d, p.Price, i%4 > 1)
		n := min(g.counted, 30)
		fillings["dynamic"](&tab, &g, n)
		want := slices.Clone(tab.e)
		for name, fill := range fillings {
			if fill(&tab, &g, n); !slices.Equal(tab.e, want) {
				t.Errorf("seed %d: %s differs on %d candidates", i, name, g.counted)
			}
		}
		if !convex(want) {
			t.Errorf("seed %d: not convex: %v", i, want)
		}
	}
}

func convex(e []int64) bool {
	for n := 2; n < len(e); n++ {
		if e[n-2]-e[n-1] < e[n-1]-e[n] {
			return false
		}
	}
	return true
}

// weightsOf are the weights of a matrix, w[i][j] from node i to node j, no look-ahead.
func weightsOf[T number](w [][]T) edgeWeights[T] {
	return edgeWeights[T]{
		counted: len(w) - 2, last: len(w) - 1,
		between: func(i, j int) T { return w[i][j] },
		into: func(j int, row []T) {
			for i := range j {
				row[i] = w[i][j]
			}
		},
	}
}

// concave replaces the exact cost by one that grows slower and slower: not Monge.
func concave(g *graph) [][]int64 {
	w := make([][]int64, g.counted+2)
	for i := range w {
		w[i] = make([]int64, len(w))
		for j := i + 1; j < len(w); j++ {
			w[i][j] = int64(1e6 * math.Sqrt(float64(cost(g.nodes[i], g.nodes[j]))))
		}
	}
	return w
}

// TestMongeMatters is the control of what is proved: with another penalty quadruples
// are wrong, divide and conquer goes astray and curves are not convex.
func TestMongeMatters(t *testing.T) {
	quadruples, astray, bent := 0, 0, 0
	var a, b tables[int64]
	smallGraphs(t, 1500, func(_ int, _ *rand.Rand, _ *twin, g *graph) {
		w := concave(g)
		for j := 3; j < len(w); j++ {
			if w[0][j]+w[1][j-1] < w[0][j-1]+w[1][j] {
				quadruples++
			}
		}
		a.dynamic(weightsOf(w), g.counted)
		b.divide(weightsOf(w), g.counted)
		if !slices.Equal(a.e, b.e) {
			astray++
		}
		if !convex(a.e) {
			bent++
		}
	})
	if quadruples < 100 || astray < 20 || bent < 100 {
		t.Errorf("a concave penalty shows in %d quadruples, %d wrong curves and %d that bend only",
			quadruples, astray, bent)
	}
}

// TestPriceOfACurve is PENAL against the whole curve at odd prices. The control: at
// even prices the count is often not the only one.
func TestPriceOfACurve(t *testing.T) {
	var tab tables[int64]
	ties := 0
	smallGraphs(t, trials(1000, 8000), func(seed int, rng *rand.Rand, _ *twin, g *graph) {
		g.layers(&tab, g.counted)
		for range 4 {
			price := int64(math.Exp(9*rng.Float64())) | 1
			got := g.penal(price)
			if n, _ := cheapest(tab.e, price); n != got.n || tab.e[n] != got.e {
				t.Fatalf("seed %d: price %d: %+v, want %d crawls of %v", seed, price, got, n, tab.e)
			}
			if _, several := cheapest(tab.e, price); several {
				t.Fatalf("seed %d: price %d ties in %v", seed, price, tab.e)
			}
			if _, several := cheapest(tab.e, price-1); several {
				ties++
			}
		}
	})
	if ties < 100 {
		t.Errorf("%d ties at even prices only", ties)
	}
}

// cheapest is the n of least e(n) + price n, and whether another is as good.
func cheapest(e []int64, price int64) (n int, several bool) {
	for k := range e {
		a, b := e[k]+price*int64(k), e[n]+price*int64(n)
		if a < b {
			n, several = k, false
		} else if a == b && k != n {
			several = true
		}
	}
	return n, several
}

// forbidden is the weight of an edge that a side condition rules out: beyond every
// sum of costs here, and a curve's worth of it fits in an int64.
const forbidden = 1 << 50

// TestSideConditions rules out short edges, a least time between crawls, or long ones,
// a largest backlog (T6). Where there are plans at all, their numbers are a run and the
// curve over it is convex. The control rules out edges at random.
func TestSideConditions(t *testing.T) {
	conditions := map[string]func(rng *rand.Rand, g *graph) func(i, j int) bool{
		"spacing": func(rng *rand.Rand, g *graph) func(i, j int) bool {
			least := 4 * (1 + rng.Int64N(8))
			return func(i, j int) bool {
				return i > 0 && j <= g.counted && g.nodes[j].x-g.nodes[i].x < least
			}
		},
		"backlog": func(rng *rand.Rand, g *graph) func(i, j int) bool {
			most := 1 + rng.Int64N(12)
			return func(i, j int) bool { return g.nodes[j].a-g.nodes[i].a > most }
		},
		"control": func(rng *rand.Rand, _ *graph) func(i, j int) bool {
			salt := rng.Uint64()
			return func(i, j int) bool { return (uint64(31*i+j)*salt)>>60 < 4 }
		},
	}
	for name, condition := range conditions {
		triples, cut, bent := 0, 0, 0
		var tab tables[int64]
		smallGraphs(t, trials(700, 6000), func(seed int, rng *rand.Rand, _ *twin, g *graph) {
			out := condition(rng, g)
			w := exactWeights(g)
			w.into = func(j int, row []int64) {
				for i := range j {
					if row[i] = w.between(i, j); out(i, j) {
						row[i] = forbidden
						cut++
					}
				}
			}
			tab.dynamic(w, g.counted)
			e := slices.Clone(tab.e)
			first := slices.IndexFunc(e, func(v int64) bool { return v < forbidden })
			if first < 0 {
				return
			}
			e = e[first:]
			if end := slices.IndexFunc(e, func(v int64) bool { return v >= forbidden }); end >= 0 {
				if slices.ContainsFunc(e[end:], func(v int64) bool { return v < forbidden }) {
					bent++
				}
				e = e[:end]
			}
			triples += max(0, len(e)-2)
			if !convex(e) {
				bent++
			}
		})
		t.Logf("%s: %d triples, %d edges ruled out, %d curves bent", name, triples, cut, bent)
		if control := name == "control"; triples < 500 || cut < 1000 || (bent > 0) != control {
			t.Errorf("%s: %d triples, %d edges ruled out, %d curves bent", name, triples, cut, bent)
		}
	}
}

// TestShapeOnSingleTicks is T7 where every tick is a candidate: a crawl inside its
// window has awake time before it and time after it equal within a tick. The control
// moves each such crawl by two ticks.
func TestShapeOnSingleTicks(t *testing.T) {
	inside, ends, starts, caught := 0, 0, 0, 0
	var seen seen
	for i := range trials(600, 4000) {
		rng := seeded(i)
		p := randomProblem(rng, &seen)
		p.Candidates, p.Step, p.Length, p.Extra = Grid, 1, 30+rng.Int64N(60), 0
		d := randomDemand(rng, p.Length, &seen)
		d.Coef, d.Cap, d.Backlog = 1, -1, 0
		var w worker
		c, err := divideMethod.curve(&w, p, &d, 0, 1+rng.IntN(8))
		if err != nil {
			t.Fatal(err)
		}
		ticks := divideMethod.instants(&w, p, &d, 0, c.least+len(c.gains))
		sink := w.nodes[len(w.nodes)-1].x/4 + w.origin
		stops := append([]int64{d.Source}, make([]int64, len(ticks))...)
		for k, at := range ticks {
			stops[k+1] = int64(at)
		}
		if !w.forced {
			stops = append(stops, sink)
		}
		for k := 1; k+1 < len(stops); k++ {
			prev, at, next := stops[k-1], stops[k], stops[k+1]
			windows := d.legalWindows(p.Length)
			j := slices.IndexFunc(windows, func(w legalWindow) bool { return at <= w.last })
			switch at {
			case windows[j].last:
				ends++
			case windows[j].first:
				starts++
			default:
				inside++
				if off := d.mass(prev, at) - (next - at); off < -1 || off > 1 {
					t.Fatalf("seed %d: the crawl at %d of %v is off balance by %d", i, at, ticks, off)
				}
				if off := d.mass(prev, at+2) - (next - at - 2); off > 1 {
					caught++
				}
			}
		}
	}
	t.Logf("%d crawls inside windows, %d at ends, %d at starts", inside, ends, starts)
	if inside < 100 || ends < 100 || caught < inside/2 {
		t.Errorf("%d crawls inside windows, %d at ends, %d caught only", inside, ends, caught)
	}
}
