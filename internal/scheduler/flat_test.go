package scheduler

import (
	"math"
	"math/rand/v2"
)

// flat is Algorithm 2 of the EasiCrawl paper on the exact cost, as it is written
// down: a table of the least cost of k crawls with the last one at candidate j, each
// entry a minimum over all earlier candidates, O(m^2 n) in all. It shares only the
// candidates and (W) with the methods that it is compared with.
type flat struct {
	least  []int64 // [k*m+j], of k crawls with the last at j
	prev   []int32
	onward []int64 // from each node to the sink, over look-ahead nodes only
	m      int
}

const never = math.MaxInt64 / 2

// fill fills the table up to most crawls beside a forced one.
func (f *flat) fill(w *worker, most int) {
	g := &w.graph
	f.m = g.counted + 1
	f.onward = append(f.onward[:0], make([]int64, len(g.nodes))...)
	for i := len(g.nodes) - 2; i >= 0; i-- {
		f.onward[i] = cost(g.nodes[i], g.nodes[len(g.nodes)-1])
		for j := max(i, g.counted) + 1; j < len(g.nodes)-1; j++ {
			f.onward[i] = min(f.onward[i], cost(g.nodes[i], g.nodes[j])+g.price+f.onward[j])
		}
	}
	for len(f.least) < (most+1)*f.m {
		f.least, f.prev = append(f.least, 0), append(f.prev, 0)
	}
	for j := range f.m {
		f.least[j] = never
	}
	f.least[0] = 0
	for k := 1; k <= most; k++ {
		before, now := f.least[(k-1)*f.m:k*f.m], f.least[k*f.m:(k+1)*f.m]
		now[0] = never
		for j := 1; j < f.m; j++ {
			now[j] = never
			for i, c := range before[:j] {
				if c += cost(g.nodes[i], g.nodes[j]); c < now[j] {
					now[j] = c
					f.prev[k*f.m+j] = int32(i)
				}
			}
		}
		w.work += int64(f.m) * int64(f.m) / 2
	}
}

// best is the least cost of k crawls and where the last of them stands.
func (f *flat) best(k int) (e int64, last int) {
	e = never
	for j, c := range f.least[k*f.m : (k+1)*f.m] {
		if c += f.onward[j]; c < e {
			e, last = c, j
		}
	}
	return e, last
}

// method is the table as a method of composed.
func (f *flat) method() method {
	return method{
		curve: func(w *worker, p *Problem, d *Demand, ahead float64, most int) (curve, error) {
			w.build(p, d, ahead, p.forces(d))
			var c curve
			if w.forced {
				c.least = 1
			}
			most = min(most-c.least, w.counted)
			f.fill(w, most)
			for k := range most {
				e, _ := f.best(k)
				more, _ := f.best(k + 1)
				c.gains = append(c.gains, float64(e-more)*p.unit(d))
			}
			return c, nil
		},
		instants: func(w *worker, p *Problem, d *Demand, ahead float64, n int) []int32 {
			w.build(p, d, ahead, p.forces(d))
			ticks := make([]int32, n)
			if w.forced {
				n--
				ticks[n] = int32(w.nodes[len(w.nodes)-1].x/4 + w.origin)
			}
			f.fill(w, n)
			for _, j := f.best(n); n > 0; n-- {
				ticks[n-1] = int32(w.nodes[j].x/4 + w.origin)
				j = int(f.prev[n*f.m+j])
			}
			return ticks
		},
	}
}

// flatFox and flatPairwise are the allocations over flat tables.
func flatFox(p *Problem, _ *rand.Rand) (*Solution, error) {
	return composed(p, alike(new(flat).method()), foxShare)
}

func flatPairwise(p *Problem, _ *rand.Rand) (*Solution, error) {
	return composed(p, alike(new(flat).method()), pairwiseShare)
}

// literal is Algorithm 1 as the paper runs it: for every pair both sensors are planned
// anew, by flat tables. Beyond that it is pairwiseShare.
func literal(p *Problem, _ *rand.Rand) (*Solution, error) {
	var f flat
	w := &worker{}
	plan := func(i, n int) float64 {
		d := &p.Demands[i]
		w.build(p, d, p.Price, p.forces(d))
		if w.forced {
			n--
		}
		f.fill(w, n)
		e, _ := f.best(n)
		return float64(e) * p.unit(d)
	}
	share := func(p *Problem, curves []curve) (counts []int, exchanges int, pairs int64) {
		counts = evenlyDivide(p, curves)
		for ; ; exchanges++ {
			best, giver, taker := 0.0, -1, -1
			now := make([]float64, len(counts))
			for i, n := range counts {
				now[i] = plan(i, n)
			}
			for i, c := range curves {
				for j, to := range curves {
					if i == j || counts[i] == c.least || counts[j] == to.least+len(to.gains) {
						continue
					}
					change := now[i] + now[j] - plan(i, counts[i]-1) - plan(j, counts[j]+1)
					if change > best {
						best, giver, taker = change, i, j
					}
				}
			}
			if giver < 0 {
				return counts, exchanges, w.work
			}
			counts[giver]--
			counts[taker]++
		}
	}
	return composed(p, alike(method{exactCurve, f.method().instants}), share)
}
