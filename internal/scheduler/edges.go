package scheduler

// number is what an objective counts in: U of the exact cost, which is exact, or
// weighted latency seconds.
type number interface{ int64 | float64 }

// edgeWeights are the weights of a sensor's graph: the w of the EasiCrawl paper's
// section IV-B. Node 0 is the source, 1..counted are the crawls that count,
// counted+1..last-1 look-ahead crawls and last is the sink.
type edgeWeights[T number] struct {
	counted, last int
	price         T                    // of each look-ahead crawl
	between       func(i, j int) T     // the weight from node i to node j, i < j
	into          func(j int, row []T) // all weights into node j, row[i] from node i < j
	slow          bool                 // between takes longer than a look into a table
}

// exactWeights are (W) in U.
func exactWeights(g *graph) edgeWeights[int64] {
	return edgeWeights[int64]{
		counted: g.counted, last: len(g.nodes) - 1, price: g.price,
		between: func(i, j int) int64 { return cost(g.nodes[i], g.nodes[j]) },
		into: func(j int, row []int64) {
			t := g.nodes[j]
			for i, s := range g.nodes[:j] {
				row[i] = cost(s, t)
			}
		},
	}
}

// tables are what the methods that plan one sensor layer by layer fill: f and p of
// the EasiCrawl paper's equation (2) and Algorithm 2. Layer k has the nodes at which
// a k-th crawl can stand, k..counted; layer 0 is the source. They are flat and
// reused, so that no method pays for memory.
type tables[T number] struct {
	width int
	f     []T     // f[k*width+j]: least cost of k crawls, the last at node j
	prev  []int32 // likewise: where the crawl before it stands
	rest  []T     // least cost from a node over look-ahead crawls to the sink
	e     []T     // e(0), e(1), ..: least cost of so many crawls
	ends  []int32 // the last crawl of each, 0 = the source
	row   []T
	grid  []T // weights between all nodes, see tabulated
	path  []int32
}

// size makes room for the layers 0..n of a graph. What was in it is lost.
func (t *tables[T]) size(n, counted, last int) {
	t.width = counted + 1
	t.f = room(t.f, (n+1)*t.width)
	t.prev = room(t.prev, (n+1)*t.width)
	t.rest = room(t.rest, last+1)
	t.row = room(t.row, last+1)
	t.e = room(t.e, n+1)
	t.ends = room(t.ends, n+1)
	t.f[0] = 0
}

// room is a slice of n elements in the memory of another where that is enough.
func room[E any](s []E, n int) []E {
	if cap(s) < n {
		s = make([]E, n)
	}
	return s[:n]
}

// layer is layer k of f and of prev, by node.
func (t *tables[T]) layer(k int) ([]T, []int32) {
	from, to := k*t.width, (k+1)*t.width
	return t.f[from:to], t.prev[from:to]
}

// join finds e and ends from f and rest: a plan of k crawls is its way to the last
// one and the best way on. It returns how many sums it looked at.
func (t *tables[T]) join() (work int64) {
	t.e[0], t.ends[0] = t.rest[0], 0
	for k := 1; k < len(t.e); k++ {
		f, _ := t.layer(k)
		t.e[k], t.ends[k] = f[k]+t.rest[k], int32(k)
		for j := k + 1; j < t.width; j++ {
			if v := f[j] + t.rest[j]; v < t.e[k] {
				t.e[k], t.ends[k] = v, int32(j)
			}
		}
		work += int64(t.width - k)
	}
	return work
}

// trace is the nodes of the k crawls of e(k), valid until the next one.
func (t *tables[T]) trace(k int) []int32 {
	t.path = room(t.path, k)
	for j := t.ends[k]; k > 0; k-- {
		t.path[k-1] = j
		_, prev := t.layer(k)
		j = prev[j]
	}
	return t.path
}

// rounding is the share of a curve's first value below which a gain of float64
// arithmetic is no gain: a crawl at which nothing waits must not look worth its trip.
const rounding = 1e-12

// gains is the curve in weighted latency seconds; unit is one of T's in those.
func (t *tables[T]) gains(unit float64) []float64 {
	gains := make([]float64, len(t.e)-1)
	for k := range gains {
		gain := float64(t.e[k]-t.e[k+1]) * unit
		if gain > rounding*float64(t.e[0])*unit {
			gains[k] = gain
		}
	}
	return gains
}

// filling finds e(0..n), with ways to them, and returns how many edges it evaluated.
type filling[T number] func(t *tables[T], w edgeWeights[T], n int) (work int64)

// tabular is the method of a filling under either objective.
func tabular(exact filling[int64], paper filling[float64]) method {
	fill := func(w *worker, p *Problem, d *Demand, ahead float64, n int) {
		if p.Objective == Paper {
			w.work += paper(&w.paper, w.penalty.weights(&w.graph, p, d, ahead), n)
			return
		}
		w.work += exact(&w.exacts, exactWeights(&w.graph), n)
	}
	return method{
		curve: func(w *worker, p *Problem, d *Demand, ahead float64, most int) (curve, error) {
			w.build(p, d, ahead, p.forces(d))
			c := curve{least: w.least()}
			fill(w, p, d, ahead, max(0, min(most-c.least, w.counted)))
			if p.Objective == Paper {
				c.gains = w.paper.gains(1)
			} else {
				c.gains = w.exacts.gains(p.unit(d))
			}
			return c, nil
		},
		instants: func(w *worker, p *Problem, d *Demand, ahead float64, n int) []int32 {
			w.build(p, d, ahead, p.forces(d))
			n -= w.least()
			fill(w, p, d, ahead, n)
			if p.Objective == Paper {
				return w.stand(w.paper.trace(n))
			}
			return w.stand(w.exacts.trace(n))
		},
	}
}

// least is the number of crawls that a plan cannot do without.
func (g *graph) least() int {
	if g.forced {
		return 1
	}
	return 0
}

// stand is the instants of crawls at counted nodes and, if forced, at the sink.
func (w *worker) stand(nodes []int32) []int32 {
	ticks := w.keep(len(nodes) + w.least())
	for k, j := range nodes {
		ticks[k] = int32(w.nodes[j].x/4 + w.origin)
	}
	if w.forced {
		ticks[len(nodes)] = int32(w.nodes[len(w.nodes)-1].x/4 + w.origin)
	}
	return ticks
}
