package scheduler

import (
	"math"

	"github.com/crawld/crawld/internal/sleepplan"
)

// piecesPerGap is how many interior candidates stand in one expected crawl gap.
// A tenth of a gap is within 0.1 % of single ticks after the polish.
const piecesPerGap = 10

// fastTicks is the longest horizon H at which the products of a hull comparison
// fit in an int64. The ordinate k of a line at a node is 4 t A, at most 4 H^2, plus
// a price, which is clamped to the whole cost of at most 2 H^2, and it is never
// negative. Slopes differ by at most H, so products stay within 6 H^3: 6e18 of
// 9.2e18 at a million ticks, a day of tenths of a second. At 2e6 ticks they wrap
// and optima go wrong without a sound.
const fastTicks = 1_000_000

// node is an instant with the awake mass and moment before it. Ticks are taken
// from the graph's origin, so nothing is negative.
type node struct {
	x int64 // 4t
	a int64 // A(t), awake ticks unseen at the source
	b int64 // 4 Int u a(u) du
}

// cost is U(s,t) = 4 [t (A(t)-A(s)) - (B(t)-B(s))], four times the square ticks that
// what was captured between s and t waits for a crawl at t. It is even, which T5
// rests on.
func cost(s, t node) int64 { return t.x*(t.a-s.a) - (t.b - s.b) }

// window is an awake window of a graph, in ticks from the origin.
type window struct {
	start, end int64 // the awake ticks whose mass counts
	last       int64 // last legal instant, in the range or beyond
	a, b       int64 // mass and moment at start
}

// at is the node of a tick in or at the end of the window.
func (w *window) at(t int64) node {
	return node{x: 4 * t, a: w.a + t - w.start, b: w.b + 2*(t*t-w.start*w.start)}
}

// graph is one sensor's shortest-path problem with all scratch memory to solve
// it. A worker rebuilds it for each sensor: the candidates of a fleet would not
// fit in memory, and regenerating them costs less than loading them.
//
// nodes are the source, counted candidates 1..counted, look-ahead candidates and
// the sink. If forced, the sink is the range's last legal instant and a crawl.
type graph struct {
	nodes   []node
	homes   []int32 // window of each candidate
	windows []window
	counted int
	forced  bool
	wide    bool  // hull products need 128 bits
	price   int64 // of a look-ahead node, even
	whole   int64 // U(source, sink), no less than any marginal
	after   int64 // if forced, what waits from the sink to the range's end
	end     node  // the range's end
	origin  int64
	work    int64 // see Solution.Work

	back         []link  // PENAL's ways to the nodes
	firsts       []int32 // the first nodes that it reached with 0, 1, 2.. crawls
	mult         int64   // its price
	front, spare hull
	paths        [3][]int32
	bounds       []int32
	placed       []placed
}

// reach is how far a sensor's costs extend: nothing is awake from mass on, and
// what is unseen waits until sink.
type reach struct {
	ahead      bool
	mass, sink int64
}

// reach applies the end rule. A sensor whose plan is not known to the end of the
// look-ahead, or a fleet without a price, gets a sink half a gap after the range
// instead: about when its next crawl would come.
func (p *Problem) reach(d *Demand, price float64) reach {
	if p.End != Lookahead {
		return reach{mass: p.Length, sink: p.Length}
	}
	rest := int64(math.Round(d.Gap / 2))
	if price == 0 || p.Extra == 0 || d.Known < p.Length+p.Extra {
		return reach{mass: p.Length, sink: p.Length + rest}
	}
	far := p.Length + p.Extra
	return reach{ahead: true, mass: far, sink: far + rest}
}

// lastLegal is the last instant at which a crawl in [s,e) may start. Where the
// guard fills the window only its first tick is left.
func (d *Demand) lastLegal(s, e int64) int64 {
	guard := d.Guard
	if d.GuardHalf {
		guard = min(guard, (e-s)/2)
	}
	return max(s, e-1-guard)
}

// nextSpan merges touching spans from k on and returns the index after them. The
// guard belongs to the end of the window, not to a seam in it.
func nextSpan(spans []sleepplan.Span, k int) (s, e int64, next int) {
	s, end := int64(spans[k].Start), spans[k].End
	for k++; k < len(spans) && spans[k].Start == end; k++ {
		end = spans[k].End
	}
	return s, int64(end), k
}

// origin is the first tick whose mass counts, at most 0. The backlog stands at tick
// 0 whatever lies before it, so a source far in the past costs no horizon.
func (d *Demand) origin() int64 {
	for _, s := range d.Spans {
		if int64(s.End) > d.Source {
			return min(0, max(int64(s.Start), d.Source))
		}
	}
	return 0
}

// build makes the graph of a demand. price prices look-ahead crawls; forced makes
// the last legal instant the sink, if there is one.
func (g *graph) build(p *Problem, d *Demand, price float64, forced bool) {
	r := p.reach(d, price)
	g.origin = d.origin()
	g.nodes = append(g.nodes[:0], node{})
	g.homes = append(g.homes[:0], -1)
	sink := g.measure(p, d, r)
	g.add(p, d, d.From, p.Length-1)
	g.counted = len(g.nodes) - 1
	g.forced = forced && g.counted > 0
	// A forced crawl leaves a smaller problem of the same kind: the way to it. What
	// waits after it is a constant.
	if g.forced {
		g.counted--
		sink = g.nodes[len(g.nodes)-1]
		g.after = cost(sink, g.end)
	} else {
		if r.ahead {
			g.add(p, d, max(p.Length, d.From), p.Length+p.Extra-1)
		}
		sink.x = 4 * (r.sink - g.origin)
		g.nodes = append(g.nodes, sink)
		g.after = 0
	}
	g.whole = cost(g.nodes[0], sink)
	g.price = 0
	if r.ahead {
		g.price = min(odd(price, p.stake(d))-1, g.whole)
	}
	g.wide = r.sink-g.origin+d.Backlog > fastTicks
	// Scratch grows by doubling and is kept, so probing allocates nothing.
	if n := len(g.nodes); len(g.back) < n {
		g.back = make([]link, 2*n)
		g.front.lines = make([]line, 2*n)
		g.spare.lines = make([]line, 2*n)
	}
}

// measure lists the windows with their mass and moment and returns the totals.
// Mass before the source has been seen and is left out; mass from r.mass on belongs
// to later ranges. A window that straddles either keeps its true end for the guard.
func (g *graph) measure(p *Problem, d *Demand, r reach) node {
	o := g.origin
	sum := node{a: d.Backlog, b: 4 * d.Backlog * (max(0, d.Source) - o)}
	g.windows = g.windows[:0]
	g.end = sum
	for k := 0; k < len(d.Spans); {
		var s, e int64
		s, e, k = nextSpan(d.Spans, k)
		start, end := max(s, d.Source), min(e, r.mass)
		if s >= r.mass {
			break
		}
		if start >= end {
			continue
		}
		w := window{start - o, end - o, d.lastLegal(s, e) - o, sum.a, sum.b}
		if start < p.Length {
			g.end = w.at(min(end, p.Length) - o)
		}
		sum = w.at(w.end)
		g.windows = append(g.windows, w)
	}
	g.end.x = 4 * (p.Length - o)
	return sum
}

// add appends the candidates of the ticks from..to. The same rule serves the range
// and the look-ahead. On a grid the last legal instant always comes along: without
// it a plan would leave events of the last window to nobody.
func (g *graph) add(p *Problem, d *Demand, from, to int64) {
	from -= g.origin
	to -= g.origin
	last, home := int64(-1), 0
	for k := range g.windows {
		w := &g.windows[k]
		lo, hi := max(w.start, from), min(w.last, to)
		if lo > hi {
			continue
		}
		if p.Candidates == Ends {
			g.addEven(k, lo, hi, pieces(hi-lo, d.Gap))
			continue
		}
		step := p.Step
		first := (lo + g.origin + step - 1) / step * step
		for t := first - g.origin; t <= hi; t += step {
			g.nodes = append(g.nodes, w.at(t))
			g.homes = append(g.homes, int32(k))
		}
		last, home = hi, k
	}
	if last >= 0 && (len(g.nodes) == 1 || g.nodes[len(g.nodes)-1].x != 4*last) {
		g.nodes = append(g.nodes, g.windows[home].at(last))
		g.homes = append(g.homes, int32(home))
	}
}

// pieces is into how many pieces a legal stretch is cut: ceil(len / (gap/10)),
// but none shorter than a tick.
func pieces(length int64, gap float64) int64 {
	cuts := math.Ceil(piecesPerGap * float64(length) / gap)
	return int64(min(cuts, float64(length)))
}

// addEven appends lo + floor(j (hi-lo)/n) for j = 0..n, once where lo is hi. It
// carries the remainder along instead of dividing for each point: most of the time
// of a probe goes into loops like this.
func (g *graph) addEven(home int, lo, hi, n int64) {
	w := &g.windows[home]
	g.nodes = append(g.nodes, w.at(lo))
	g.homes = append(g.homes, int32(home))
	if n == 0 {
		return
	}
	step, rest := int64(0), int64(0)
	if n > 1 {
		step, rest = (hi-lo)/n, (hi-lo)%n
	}
	for t, j, left := lo, int64(1), int64(0); j < n; j++ {
		t += step
		if left += rest; left >= n {
			left -= n
			t++
		}
		g.nodes = append(g.nodes, w.at(t))
		g.homes = append(g.homes, int32(home))
	}
	g.nodes = append(g.nodes, w.at(hi))
	g.homes = append(g.homes, int32(home))
}
