package scheduler

// neighbours returns e(n-1) and e(n+1) for the optimal path of n >= 0 crawls in
// O(m), after any PENAL on the graph. By Monge (T1) some optimal plan of n-1 crawls
// has its i-th crawl between the path's i-th and i+1-th, and one of n+1 crawls
// between the i-1-th and the i-th: take any optimal plan, and replace both by their
// elementwise minima and maxima, which together cost no more. So a layer per crawl
// over those stretches is enough, and the layers together hold each candidate once.
// Where there is no such plan the answer is e(n).
func (g *graph) neighbours(path []int32, n int) (fewer, more int64) {
	fewer = g.layered(path[1 : n+1])
	g.bounds = append(append(g.bounds[:0], path[:n+1]...), int32(g.counted))
	return fewer, g.layered(g.bounds)
}

// layered is the least cost of len(bounds)-1 crawls, the i-th at a node of
// bounds[i-1]..bounds[i], both included. Layers share their bounds, so two crawls
// may meet; that is a plan of fewer crawls and cheaper than none.
//
// The last PENAL's cheapest way to a node is also the cheapest of as many crawls, so
// the nodes that it reached with i crawls need no search in layer i: of both
// neighbours' layers together these are half.
func (g *graph) layered(bounds []int32) int64 {
	g.work += int64(len(g.nodes) - 1)
	h, next := &g.front, &g.spare
	h.reset(0, g.nodes[len(g.nodes)-1].x, g.wide)
	h.push(line{})
	for i, l := 1, g.layer(1, bounds); i < len(bounds); i++ {
		after := g.layer(i+1, bounds)
		lo, hi := g.asked(after)
		next.reset(lo, hi, g.wide)
		for _, nd := range g.nodes[l.from:l.known] {
			_, v := h.least(nd.x)
			next.push(line{k: nd.a*nd.x + v, a: nd.a})
		}
		charges := g.mult * int64(i)
		for j := l.known; j < l.rest; j++ {
			next.push(line{k: g.back[j].k - charges, a: g.nodes[j].a})
		}
		for _, nd := range g.nodes[l.rest:l.end] {
			_, v := h.least(nd.x)
			next.push(line{k: nd.a*nd.x + v, a: nd.a})
		}
		h, next, l = next, h, after
	}
	return g.ahead(h)
}

// layer is the nodes from..end-1 at which an i-th crawl may stand. known..rest-1 are
// those that the last PENAL reached with i crawls: its counts never fall.
type layer struct{ from, known, rest, end int32 }

// layer is the i-th layer, after all of them what follows the last crawl.
func (g *graph) layer(i int, bounds []int32) layer {
	if i >= len(bounds) {
		from := int32(g.counted + 1)
		return layer{from, from, from, int32(len(g.nodes))}
	}
	l := layer{from: bounds[i-1], end: bounds[i] + 1}
	l.known, l.rest = l.end, l.end
	if i < len(g.firsts) {
		l.known = max(l.from, min(g.firsts[i], l.end))
	}
	if i+1 < len(g.firsts) {
		l.rest = max(l.from, min(g.firsts[i+1], l.end))
	}
	return l
}

// asked is from where to where in 4t a layer asks the one before it. One that is
// known as a whole asks nothing, and gets what it may.
func (g *graph) asked(l layer) (lo, hi int64) {
	first, last := l.from, l.end-1
	if l.known == l.from {
		first = l.rest
	}
	if l.rest == l.end {
		last = l.known - 1
	}
	return g.nodes[first].x, g.nodes[last].x
}

// ahead is the least cost of going on to the sink from a hull over counted nodes. The
// look-ahead is decided anew for each layer, so neighbours pay for theirs.
func (g *graph) ahead(h *hull) int64 {
	last := len(g.nodes) - 1
	for _, nd := range g.nodes[g.counted+1 : last] {
		_, v := h.least(nd.x)
		h.push(line{k: nd.a*nd.x + v + g.price, a: nd.a})
	}
	sink := g.nodes[last]
	_, v := h.least(sink.x)
	return sink.a*sink.x - sink.b + v
}

// edge is a straight piece of a curve: count marginals of value d.
type edge struct {
	d     int64
	count int
}

// edges appends the pieces of the curve between two of its points, steepest
// first. Each chord probe finds a point in between or proves there is none, so k
// pieces take less than 2k probes, however many equal marginals each stands for:
// every periodic sleep plan has long runs of those.
func (g *graph) edges(dst []edge, lo, hi point, probes *int) []edge {
	n := hi.n - lo.n
	if n == 0 {
		return dst
	}
	if n == 1 {
		return append(dst, edge{lo.e - hi.e, 1})
	}
	*probes++
	mid := g.penal(chord(lo, hi))
	if mid.n == lo.n {
		return append(dst, edge{(lo.e - hi.e) / int64(n), n})
	}
	return g.edges(g.edges(dst, lo, mid, probes), mid, hi, probes)
}

// chord is the odd multiplier at the mean marginal between two points (T5). Marginals
// are even and fall. If all are the mean, chord is one above it and PENAL returns
// lo. Otherwise the first is at least the next even number above the mean, which
// is above chord, and the last is below chord: PENAL returns a point in between.
func chord(lo, hi point) int64 { return (lo.e-hi.e)/int64(hi.n-lo.n) | 1 }
