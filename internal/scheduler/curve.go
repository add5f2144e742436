package scheduler

// neighbours returns e(n-1) and e(n+1) for the optimal path of n >= 0 crawls in
// O(m). By Monge (T1) some optimal plan of n-1 crawls has its i-th crawl between
// the path's i-th and i+1-th, and one of n+1 crawls between the i-1-th and the
// i-th: take any optimal plan, and replace both by their elementwise minima and
// maxima, which together cost no more. So a layer per crawl over those stretches
// is enough, and the layers together hold each candidate once. Where there is no
// such plan the answer is e(n).
func (g *graph) neighbours(path []int32, n int) (fewer, more int64) {
	fewer = g.layered(path[1 : n+1])
	g.bounds = append(append(g.bounds[:0], path[:n+1]...), int32(g.counted))
	return fewer, g.layered(g.bounds)
}

// layered is the least cost of len(bounds)-1 crawls, the i-th at a node of
// bounds[i]..bounds[i+1], both included. Layers share their bounds, so two crawls
// may meet; that is a plan of fewer crawls and cheaper than none.
func (g *graph) layered(bounds []int32) int64 {
	h, next := &g.front, &g.spare
	h.reset(g.wide)
	h.push(line{})
	for i := 1; i < len(bounds); i++ {
		next.reset(g.wide)
		for _, nd := range g.nodes[bounds[i-1] : bounds[i]+1] {
			_, v := h.least(nd.x)
			next.push(line{k: nd.a*nd.x + v, a: nd.a})
		}
		h, next = next, h
	}
	return g.ahead(h)
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
