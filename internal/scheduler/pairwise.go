package scheduler

import "math/rand/v2"

// Pairwise is Algorithm 1 of the EasiCrawl paper over the curves of its Algorithm 2: from
// an initial arrangement the best exchange of one crawl between two sensors is made again
// and again, until none gains.
// On convex curves it stops at Solve's value (T3); of equal marginals it may take
// others. Where the printed algorithm cannot be meant, this differs from it:
//
//   - LastExpect (line 1) is never updated, and the loop's condition E_L - LastExpect >
//     epsilon (line 2) has the wrong sign for a latency that falls. Here the search
//     ends, as the text of section IV-A says, when no exchange improves.
//   - Lines 8 and 11 make an exchange even if the loop over pairs has found none.
//   - One epsilon stands for the tolerance (line 2), the crawls exchanged (lines 5 and
//     11) and the discretisation of time. Here the tolerance is 0, the grid is
//     Problem.Step, and one crawl is exchanged at a time: line 5 gives 1 and takes
//     epsilon, which keeps the budget only for 1, and a larger step ends too early.
//
// EvenlyDivide (line 1) is the arrangement that the text describes, within caps and
// candidates. Each sensor's curve is found once, where the paper plans both sensors of
// every pair anew. It plans under either objective, draws nothing and ignores Capacity.
func Pairwise(p *Problem, _ *rand.Rand) (*Solution, error) {
	return composed(p, alike(dynamicMethod), pairwiseShare)
}

// pairwiseShare works on any curves. Where they are not convex it stops where no
// single exchange gains, which need not be the best arrangement. Every pair is looked
// at in each iteration, as in the paper; of equally good ones the first is taken.
func pairwiseShare(p *Problem, curves []curve) (counts []int, exchanges int, pairs int64) {
	counts = evenlyDivide(p, curves)
	lose, gain := make([]float64, len(curves)), make([]float64, len(curves))
	for i, c := range curves {
		lose[i], gain[i] = c.around(counts[i])
	}
	for {
		best, giver, taker := 0.0, -1, -1
		for i := range curves {
			if counts[i] == curves[i].least {
				continue
			}
			for j, g := range gain {
				if counts[j] == curves[j].least+len(curves[j].gains) {
					continue // its gain of 0 is none: a giver's loss may be below
				}
				if change := g - lose[i]; change > best && j != i {
					best, giver, taker = change, i, j
				}
			}
			pairs += int64(len(curves) - 1)
		}
		if giver < 0 {
			return counts, exchanges, pairs
		}
		counts[giver]--
		counts[taker]++
		exchanges++
		for _, i := range [...]int{giver, taker} {
			lose[i], gain[i] = curves[i].around(counts[i])
		}
	}
}

// evenlyDivide is the initial arrangement: like proportional, the budget by omega times
// awake time, but within the curves. Crawls beyond a sensor's last gain are worth
// nothing, and are not made.
func evenlyDivide(p *Problem, curves []curve) []int {
	weights := make([]float64, len(curves))
	least, room := make([]int, len(curves)), make([]int, len(curves))
	for i, c := range curves {
		d := &p.Demands[i]
		awake, _ := d.legalTime(p.Length)
		weights[i] = d.initialWeight(awake)
		useful := len(c.gains)
		for useful > 0 && c.gains[useful-1] == 0 {
			useful--
		}
		least[i], room[i] = c.least, c.least+useful
	}
	return apportion(weights, least, room, p.Budget)
}
