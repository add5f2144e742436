package scheduler

// exactMethod plans one sensor by chords: its curve piece by piece, its plans by
// EXACT_N.
var exactMethod = method{curve: exactCurve, instants: exactInstants}

// exactCurve lists the straight pieces of the whole curve, from no crawl but a forced
// one to a crawl at every candidate.
func exactCurve(w *worker, p *Problem, d *Demand, ahead float64, most int) (curve, error) {
	w.build(p, d, ahead, p.forces(d))
	var c curve
	if w.forced {
		c.least = 1
	}
	w.probes++
	none := w.penal(w.whole | 1)
	u := p.unit(d)
	for _, e := range w.edges(nil, none, w.every(), &w.probes) {
		for range min(e.count, most-c.least-len(c.gains)) {
			c.gains = append(c.gains, float64(e.d)*u)
		}
	}
	return c, nil
}

// exactInstants begins at the price at which a sensor that is always awake would make
// n crawls.
func exactInstants(w *worker, p *Problem, d *Demand, ahead float64, n int) []int32 {
	w.build(p, d, ahead, p.forces(d))
	inner := n
	if w.forced {
		inner--
	}
	path, _ := w.exact(inner, w.whole/int64(n+1)/int64(n+1)|1, &w.probes)
	w.place(p, d, path, inner)
	ticks := w.keep(n)
	for k := range ticks {
		ticks[k] = int32(w.placed[k].x/4 + w.origin)
	}
	return ticks
}

// exact finds an optimal plan of exactly n counted crawls (n >= 0, at most
// counted) and its cost: EXACT_N. hint is an odd multiplier to begin with. The
// path is valid until the next use of the graph.
//
// It holds n between two known points of the curve and probes their chord, which
// cuts the distance well on most curves. A chord that finds nothing between them
// has proved the curve straight there, and the two plans are spliced.
func (g *graph) exact(n int, hint int64, probes *int) ([]int32, int64) {
	*probes++
	p := g.penal(hint)
	path := g.trace(g.paths[0])
	g.paths[0] = path
	if p.n == n {
		return path, p.e
	}
	lo, hi := p, p // the curve's points around n; their paths are paths[0], paths[1]
	if p.n > n {
		g.paths[0], g.paths[1] = g.paths[1], g.paths[0]
		*probes++
		lo = g.penal(g.whole | 1)
		g.paths[0] = g.trace(g.paths[0])
	} else {
		hi = g.every()
	}
	for lo.n != n && hi.n != n {
		*probes++
		c := chord(lo, hi)
		mid := g.penal(c)
		if mid.n == lo.n {
			e := lo.e - int64(n-lo.n)*((lo.e-hi.e)/int64(hi.n-lo.n))
			g.paths[2] = splice(g.paths[2], g.paths[0], g.paths[1], lo.n, n)
			return g.paths[2], e
		}
		k := 0
		if mid.n > n {
			k = 1
			hi = mid
		} else {
			lo = mid
		}
		g.paths[k] = g.trace(g.paths[k])
	}
	if lo.n == n {
		return g.paths[0], lo.e
	}
	return g.paths[1], hi.e
}

// every puts the path of a crawl at every candidate into paths[1]: the right end
// of the curve, where marginals may be 0 and no positive price leads.
func (g *graph) every() point {
	g.work += int64(g.counted)
	path := g.paths[1][:0]
	var e int64
	for j := range g.counted + 1 {
		path = append(path, int32(j))
		if j > 0 {
			e += cost(g.nodes[j-1], g.nodes[j])
		}
	}
	rest, ahead := g.tail(g.nodes[g.counted])
	g.paths[1] = append(path, ahead...)
	return point{g.counted, e + rest}
}

// tail is the cheapest way from a crawl at nd to the sink, over look-ahead nodes
// only, and its nodes, the sink being the last. The nodes are valid until the next
// use of the graph.
func (g *graph) tail(nd node) (int64, []int32) {
	h := &g.front
	last := len(g.nodes) - 1
	h.reset(0, g.nodes[last].x, g.wide)
	h.push(line{k: nd.b, a: nd.a})
	for j := g.counted + 1; j < last; j++ {
		at := g.nodes[j]
		from, v := h.least(at.x)
		g.back[j].prev = from.at
		h.push(line{k: at.a*at.x + v + g.price, a: at.a, at: int32(j)})
	}
	sink := g.nodes[last]
	from, v := h.least(sink.x)
	path := append(g.bounds[:0], int32(last))
	for j := from.at; j != 0; j = g.back[j].prev {
		path = append(path, j)
	}
	for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
		path[i], path[j] = path[j], path[i]
	}
	g.bounds = path
	return sink.a*sink.x - sink.b + v, path
}

// splice joins optimal paths p of np crawls and q of more, between which all
// marginals are equal, into one of n crawls (T2): q's first ones, then p's from
// where a link of q lies within one of p's. By Monge the two crossing links cost no
// more than the nested ones, and no less either, since on a straight piece of the
// curve nothing lies below it. Indices run over counted crawls; p's look-ahead is
// kept, which the same argument allows for the last link.
func splice(dst, p, q []int32, np, n int) []int32 {
	c := n - np
	i := 0
	for i < np && q[i+1+c] > p[i+1] {
		i++
	}
	dst = append(dst[:0], q[:i+c+1]...)
	return append(dst, p[i+1:]...)
}
