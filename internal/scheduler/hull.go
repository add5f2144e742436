package scheduler

import (
	"math"
	"math/bits"
)

// line is what a crawl at node `at` costs as the start of the next link. With F
// the least cost of getting there, a link to t costs F + U(at,t) = a(t) 4t - b(t)
// + (k - a 4t) with k = F + b(at): a line in 4t of slope -a.
type line struct {
	k, a  int64
	at    int32
	count int32 // counted crawls up to and including at
}

// hull is the lower envelope of lines that come with falling slopes and are asked
// at rising 4t, so both ends only move forward: O(1) each, amortised. Only what is
// lowest somewhere in lo..hi matters.
type hull struct {
	lines      []line // storage; in use are first..end-1
	first, end int
	lo, hi     int64 // where it is asked
	atLo, atHi int64 // the least values there
	wide       bool
}

// reset empties the hull, to be asked within lo..hi. Its storage holds as many lines
// as the graph has nodes.
func (h *hull) reset(lo, hi int64, wide bool) {
	h.first, h.end, h.wide = 0, 0, wide
	h.lo, h.hi, h.atLo, h.atHi = lo, hi, math.MaxInt64, math.MaxInt64
}

// least returns the lowest line at x and its value there. Lines that are no longer
// lowest never will be again and leave at the front; of equal ones the later wins,
// which keeps plans the same from run to run. The line is valid until the next push.
func (h *hull) least(x int64) (*line, int64) {
	lines := h.lines[h.first:h.end]
	i, best := 0, lines[0].k-lines[0].a*x
	for i+1 < len(lines) {
		v := lines[i+1].k - lines[i+1].a*x
		if v > best {
			break
		}
		i, best = i+1, v
	}
	h.first += i
	return &lines[i], best
}

// push adds a line whose slope is at most the last one's. If it is above another at
// hi, it was so all the way; if it is below all others at lo, it stays so. Branches
// that go one way for long are cheap, so this spares most of the search that follows:
// the last line m leaves if the new one undercuts it where m would start to be
// lowest, where the one before it, o, meets the new line no later than it meets m.
// Slopes are equal only where no time awake lies between two nodes; then the lower
// line stays.
func (h *hull) push(l line) {
	v := l.k - l.a*h.hi
	if v > h.atHi {
		return
	}
	h.atHi = v
	if v := l.k - l.a*h.lo; v < h.atLo {
		h.atLo = v
		h.end = h.first
	}
	lines := h.lines[h.first:]
	n := h.end - h.first
	if n > 0 && lines[n-1].a == l.a {
		if l.k >= lines[n-1].k {
			return
		}
		n--
	}
	for ; n > 1; n-- {
		o, m := &lines[n-2], &lines[n-1]
		if !productLE(l.k-o.k, m.a-o.a, m.k-o.k, l.a-o.a, h.wide) {
			break
		}
	}
	lines[n] = l
	h.end = h.first + n + 1
}

// productLE reports a*b <= c*d. Up to fastTicks the products fit in an int64;
// beyond, they would wrap silently and give wrong optima.
func productLE(a, b, c, d int64, wide bool) bool {
	if wide {
		return wideLE(a, b, c, d)
	}
	return a*b <= c*d
}

// wideLE is productLE for any int64s.
func wideLE(a, b, c, d int64) bool {
	hi1, lo1 := mul(a, b)
	hi2, lo2 := mul(c, d)
	return hi1 < hi2 || hi1 == hi2 && lo1 <= lo2
}

// mul is the signed 128-bit product: the unsigned one of the two's complements, less
// 2^64 times one factor wherever the other is negative.
func mul(a, b int64) (hi int64, lo uint64) {
	h, lo := bits.Mul64(uint64(a), uint64(b))
	hi = int64(h)
	if a < 0 {
		hi -= b
	}
	if b < 0 {
		hi -= a
	}
	return hi, lo
}

// maxMult bounds multipliers before they are compared with a graph's whole cost. It
// is beyond the U of any horizon, and a float64 below it converts safely.
const maxMult = 1 << 60

// unit is the weighted latency seconds of one U of a sensor.
func (p *Problem) unit(d *Demand) float64 {
	s := p.Tick.Seconds()
	return d.Coef * s * s / 4
}

// stake is what an attempt may expect to save where one that succeeds saves a U:
// attempts compete for the budget, and of a sensor that often fails to answer
// each is worth less.
func (p *Problem) stake(d *Demand) float64 { return p.unit(d) * d.yield() }

// yield is the share of attempts that succeed.
func (d *Demand) yield() float64 {
	if d.Yield == 0 {
		return 1
	}
	return d.Yield
}

// odd is a price in U made odd, so that it never equals a marginal (T5). A
// marginal above price is at least odd+1, one at or below it at most odd-1.
func odd(price, unit float64) int64 {
	half := math.Floor(price / (2 * unit))
	if !(half < maxMult/2) { // also for NaN, the price 0 of a sensor without events
		return maxMult + 1
	}
	return 2*int64(half) + 1
}

// point is a point (n, e(n)) of a sensor's curve. n leaves out the crawl of a
// forced sink, e what waits after it.
type point struct {
	n int
	e int64
}

// link is how PENAL got to a node.
type link struct {
	k           int64 // of the node's own line
	prev, count int32
}

// penal finds the plan of least e(n) + mult n for an odd mult: the inner loop of
// everything. The count is unique; trace reads the plan. Look-ahead crawls are
// charged their own even price and not counted, so that marginals stay even.
//
// F(j) = min over i of F(i) + U(i,j) + charge is the least over lines in 4 t(j), one
// per earlier node, which the hull answers in constant time. Since U(i,j) + b(j) =
// a(j) 4t(j) + ..., the ordinate of node j's own line needs no b at all. The best i never
// falls, and so neither do counts: firsts tells the nodes of each apart.
func (g *graph) penal(mult int64) point {
	mult = max(1, min(mult, g.whole|1)) // same optimum, no overflow
	h := &g.front
	last := len(g.nodes) - 1
	g.work += int64(last)
	sink := g.nodes[last]
	h.reset(0, sink.x, g.wide)
	h.push(line{})
	charge, one := mult, int32(1)
	g.mult, g.firsts = mult, append(g.firsts[:0], 0)
	for j := 1; j < last; j++ {
		if j == g.counted+1 {
			charge, one = g.price, 0
		}
		nd := g.nodes[j]
		from, v := h.least(nd.x)
		l := line{k: nd.a*nd.x + charge + v, a: nd.a, at: int32(j), count: from.count + one}
		g.back[j] = link{l.k, from.at, l.count}
		if int(l.count) == len(g.firsts) {
			g.firsts = append(g.firsts, int32(j))
		}
		h.push(l)
	}
	from, v := h.least(sink.x)
	g.back[last] = link{prev: from.at, count: from.count}
	f := sink.a*sink.x - sink.b + v
	return point{int(from.count), f - mult*int64(from.count)}
}

// trace writes the plan of the last penal into path: source, n crawls,
// look-ahead crawls, sink.
func (g *graph) trace(path []int32) []int32 {
	path = path[:0]
	for j := int32(len(g.nodes) - 1); j != 0; j = g.back[j].prev {
		path = append(path, j)
	}
	path = append(path, 0)
	for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
		path[i], path[j] = path[j], path[i]
	}
	return path
}
