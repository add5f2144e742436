package scheduler

// maxSweeps bounds the polish. A sweep moves every crawl once; few windows hold
// so many crawls that errors of a candidate's spacing outlive it.
const maxSweeps = 100

// placed is a chosen instant, free to move within lo..hi.
type placed struct {
	node
	home   int32
	lo, hi int64
}

// place turns the counted crawls of a path into instants, which may move within
// the legal part of their window in the range: the window a crawl stands in is the
// path's decision, its tick there the polish's.
func (g *graph) place(p *Problem, d *Demand, path []int32, n int) {
	g.placed = g.placed[:0]
	from, to := d.From-g.origin, p.Length-1-g.origin
	if g.forced {
		n++
	}
	for _, j := range path[1 : n+1] {
		w := &g.windows[g.homes[j]]
		g.placed = append(g.placed, placed{
			node: g.nodes[j], home: g.homes[j], lo: max(w.start, from), hi: min(w.last, to),
		})
	}
	if g.forced {
		g.placed[n-1].lo = g.placed[n-1].hi // the rule fixes it
	}
}

// polish moves instants on single ticks, one at a time, to where the awake time
// since the last crawl equals the time to the next one (T7) or to the nearest
// legal instant of its window, until no move gains. next is what follows the
// last crawl: its look-ahead crawl or the sink.
func (g *graph) polish(next node) {
	for range maxSweeps {
		moved := false
		for i := range g.placed {
			prev, follow := g.nodes[0], next
			if i > 0 {
				prev = g.placed[i-1].node
			}
			if i+1 < len(g.placed) {
				follow = g.placed[i+1].node
			}
			moved = g.balance(&g.placed[i], prev, follow) || moved
		}
		if !moved {
			return
		}
	}
}

// balance moves one instant to its best tick between two others. Of U(prev,t) +
// U(t,next) only 4 t (A(t)-A(prev)) - 4 next A(t) depends on t; in a window
// A(t) is t plus a constant, so it is 4 (t^2 + slope t) plus another. The vertex
// lies strictly between the neighbours: at either of them the crawl is worth
// nothing. An instant moves only for a gain, so rounding cannot make it wander.
func (g *graph) balance(c *placed, prev, next node) bool {
	if c.lo == c.hi {
		return false
	}
	w := &g.windows[c.home]
	slope := w.a - w.start - prev.a - next.x/4
	t := c.x / 4
	best := min(max(-slope>>1, c.lo), c.hi) // the vertex, rounded down: both its sides cost the same
	if best*(best+slope) >= t*(t+slope) {
		return false
	}
	c.node = w.at(best)
	return true
}

// bill is what placed crawls and the rest of a path cost in U: the objective up
// to the sink, with the price of each look-ahead crawl, and the wait up to the
// range's end as if no crawl came after it. Under a forced sink they are the same.
func (g *graph) bill(rest []int32) (objective, wait int64) {
	last := g.nodes[0]
	for i := range g.placed {
		objective += cost(last, g.placed[i].node)
		last = g.placed[i].node
	}
	wait = objective + cost(last, g.end)
	if g.forced {
		return wait, wait
	}
	for i, j := range rest {
		objective += cost(last, g.nodes[j])
		last = g.nodes[j]
		if i+1 < len(rest) {
			objective += g.price
		}
	}
	return objective, wait
}
