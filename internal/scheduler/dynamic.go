package scheduler

import "math/rand/v2"

// Dynamic solves a problem by Algorithm 2 of the EasiCrawl paper for each sensor and by
// Fox's arrangement, under either objective. Pairwise is the same with the paper's own
// arrangement. It draws nothing and ignores Capacity.
func Dynamic(p *Problem, _ *rand.Rand) (*Solution, error) {
	return composed(p, alike(dynamicMethod), foxShare)
}

// dynamicMethod is Algorithm 2 of the EasiCrawl paper, the dynamic programme over
// candidate instants: O(m^2 n) for n crawls on m candidates. It supposes nothing of
// the weights, and serves as a rival and as a slow twin.
//
// As printed it counts from the first candidate and wants the last one crawled; here
// the source is a node before all candidates, and the graph's sink after them, which
// under the Fixed rule is that last crawl.
var dynamicMethod = tabular((*tables[int64]).dynamic, (*tables[float64]).dynamic)

// dynamic fills the tables by equation (2). It goes node by node and for each through
// the layers, so that each weight is computed once and used n times. An infinite f,
// of more crawls than there are nodes up to one, is never read.
func (t *tables[T]) dynamic(w edgeWeights[T], n int) (work int64) {
	t.size(n, w.counted, w.last)
	work = t.onwardFromAll(w)
	for j := 1; j <= w.counted; j++ {
		row := t.row[:j]
		w.into(j, row)
		if n > 0 {
			f, prev := t.layer(1)
			f[j], prev[j] = row[0], 0
			work++
		}
		for k := 2; k <= min(n, j); k++ {
			f, prev := t.layer(k)
			before, _ := t.layer(k - 1)
			before = before[:len(row)]
			best, at := before[k-1]+row[k-1], k-1
			for i := k; i < len(row); i++ {
				if v := before[i] + row[i]; v < best {
					best, at = v, i
				}
			}
			f[j], prev[j] = best, int32(at)
			work += int64(j - k + 1)
		}
	}
	return work + t.join()
}

// onwardFromAll fills rest backwards: at its turn, a look-ahead node has been offered
// everything after it.
func (t *tables[T]) onwardFromAll(w edgeWeights[T]) (work int64) {
	w.into(w.last, t.rest)
	for j := w.last - 1; j > w.counted; j-- {
		w.into(j, t.row)
		toll := w.price + t.rest[j]
		for i, v := range t.row[:j] {
			t.rest[i] = min(t.rest[i], v+toll)
		}
		work += int64(j)
	}
	return work + int64(w.last)
}
