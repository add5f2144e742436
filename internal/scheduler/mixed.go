package scheduler

import "math/rand/v2"

// FastGreedy is Algorithm 1 over the curves of Algorithm 3, see greedyMethod: the
// EasiCrawl paper's group of sensors that are all planned greedily. Those curves are
// not convex, so the arrangement is one that no exchange of a single crawl improves,
// which need not be the best. It draws nothing and ignores Capacity.
func FastGreedy(p *Problem, _ *rand.Rand) (*Solution, error) {
	return composed(p, alike(greedyMethod), pairwiseShare)
}

// HalfGreedy plans every second sensor by Algorithm 3 and the others by Algorithm 2:
// the paper's mixed group. It draws nothing and ignores Capacity.
func HalfGreedy(p *Problem, _ *rand.Rand) (*Solution, error) {
	return composed(p, func(i int) method {
		if i%2 == 1 {
			return greedyMethod
		}
		return dynamicMethod
	}, pairwiseShare)
}
