package scheduler

import (
	"cmp"
	"container/heap"
	"math/rand/v2"
)

// FoxGreedy takes the best marginal of the fleet again and again (Fox 1966) over
// exact curves. Its value is Solve's, and so is its arrangement: equal marginals go
// to the lower sensor index. It takes more work, since it needs each sensor's whole
// curve, where Solve looks only around the price. It draws nothing and ignores
// Capacity.
func FoxGreedy(p *Problem, _ *rand.Rand) (*Solution, error) {
	return composed(p, alike(exactMethod), foxShare)
}

// next is the gain of a sensor's next crawl.
type next struct {
	gain   float64
	sensor int
}

// nexts is a heap with the best gain on top, of equal ones the lower sensor's.
type nexts []next

func (h nexts) Len() int { return len(h) }
func (h nexts) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[j].gain, h[i].gain), cmp.Compare(h[i].sensor, h[j].sensor)) < 0
}
func (h nexts) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *nexts) Push(x any)   { *h = append(*h, x.(next)) }
func (h *nexts) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}

// foxShare is Fox's greedy. Crawls of no value are not made. On a curve that is not
// convex it does not look past a crawl without value, nor at what a poor one leads to.
func foxShare(p *Problem, curves []curve) (counts []int, exchanges int, pairs int64) {
	counts = make([]int, len(curves))
	rest := p.Budget
	h := make(nexts, 0, len(curves))
	for i, c := range curves {
		counts[i] = c.least
		rest -= c.least
		if len(c.gains) > 0 && c.gains[0] > 0 {
			h = append(h, next{c.gains[0], i})
		}
	}
	heap.Init(&h)
	for ; rest > 0 && len(h) > 0; rest-- {
		i := h[0].sensor
		counts[i]++
		if _, gain := curves[i].around(counts[i]); gain > 0 {
			h[0].gain = gain
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	return counts, 0, 0
}
