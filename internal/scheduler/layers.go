package scheduler

import (
	"errors"
	"math/rand/v2"
)

// Layered solves a problem by the line hull of each sensor and by Fox's arrangement. It
// finds what Solve finds before the polish, and refuses the Paper objective. It draws
// nothing and ignores Capacity.
func Layered(p *Problem, _ *rand.Rand) (*Solution, error) {
	return composed(p, alike(layersMethod), foxShare)
}

// layersMethod is the line hull, layer by layer: e(0..n) in O(n m). What a crawl
// costs as the start of the next link is a line in the tick (see line), so that each
// layer is the lower envelope of the one before it and each node asks it once. Only
// the exact cost has lines.
var layersMethod = method{
	curve: func(w *worker, p *Problem, d *Demand, ahead float64, most int) (curve, error) {
		if p.Objective != Exact {
			return curve{}, errors.New("a hull of lines plans under the exact objective only; " +
				"use divide and conquer or the dynamic programme under " + p.Objective.String())
		}
		w.build(p, d, ahead, p.forces(d))
		c := curve{least: w.least()}
		w.work += w.layers(&w.exacts, max(0, min(most-c.least, w.counted)))
		c.gains = w.exacts.gains(p.unit(d))
		return c, nil
	},
	instants: func(w *worker, p *Problem, d *Demand, ahead float64, n int) []int32 {
		w.build(p, d, ahead, p.forces(d))
		n -= w.least()
		w.work += w.layers(&w.exacts, n)
		return w.stand(w.exacts.trace(n))
	},
}

// layers fills the tables with e(0..n); f holds the ordinates of the nodes' lines
// instead of costs. While layer k goes into the hull, layer k+1 is asked of it.
func (g *graph) layers(t *tables[int64], n int) (work int64) {
	t.size(n, g.counted, 0)
	h := &g.front
	sink := g.nodes[len(g.nodes)-1]
	for k := 0; k <= n; k++ {
		h.reset(0, sink.x, g.wide)
		lines, _ := t.layer(k)
		var next []int64
		var prev []int32
		if k < n {
			next, prev = t.layer(k + 1)
		}
		for j := k; j <= g.counted; j++ {
			nd := g.nodes[j]
			if j > k && k < n {
				from, v := h.least(nd.x)
				next[j], prev[j] = nd.a*nd.x+v, from.at
				work++
			}
			if k > 0 || j == 0 {
				h.push(line{k: lines[j], a: nd.a, at: int32(j)})
			}
		}
		t.e[k], t.ends[k] = g.finishLayer(h)
		work += int64(len(g.nodes) - 1 - g.counted)
	}
	return work
}

// finishLayer goes on from a hull over counted nodes to the sink. It returns the least
// cost and the last counted node on that way.
func (g *graph) finishLayer(h *hull) (e int64, end int32) {
	last := len(g.nodes) - 1
	for _, nd := range g.nodes[g.counted+1 : last] {
		from, v := h.least(nd.x)
		h.push(line{k: nd.a*nd.x + v + g.price, a: nd.a, at: from.at})
	}
	sink := g.nodes[last]
	from, v := h.least(sink.x)
	return sink.a*sink.x - sink.b + v, from.at
}
