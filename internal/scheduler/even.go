package scheduler

import (
	"math/rand/v2"
	"slices"
)

// Even ignores sleep: EasiCrawl's initial arrangement at even instants, the last
// one at the end of the range. Crawls that meet a sleeping sensor fail; they
// stand in the plan and count against the budget all the same. Only under Fixed the
// last one is at the last legal instant, as the rule has it for everybody. It draws
// nothing and ignores Capacity.
func Even(p *Problem, _ *rand.Rand) (*Solution, error) {
	return baseline(p, func(_ *worker, d *Demand, n int) []int32 {
		ticks := evenInstants(p, d, n)
		_, legal := d.legalTime(p.Length)
		if legal == 0 || n == 0 || !p.forces(d) {
			return ticks
		}
		last := d.legalInstant(legal - 1)
		ticks = slices.DeleteFunc(ticks, func(t int32) bool { return t >= last })
		return append(ticks[:min(len(ticks), n-1)], last)
	})
}

// EvenSnapped moves each instant of Even back to the last legal one at or before
// it; those that meet are one crawl. It is the honest rival of a planner: simple
// and aware of sleep.
func EvenSnapped(p *Problem, _ *rand.Rand) (*Solution, error) {
	return baseline(p, func(_ *worker, d *Demand, n int) []int32 {
		var ticks []int32
		k, last := 0, int32(-1)
		for _, t := range evenInstants(p, d, n) {
			for k < len(d.Spans) && d.Spans[k].Start <= t {
				var s, e int64
				next := k
				s, e, next = nextSpan(d.Spans, k)
				if legal := min(d.lastLegal(s, e), int64(t)); legal >= max(s, d.From) {
					last = int32(legal)
				}
				if e > int64(t) {
					break
				}
				k = next
			}
			if last >= 0 && (len(ticks) == 0 || ticks[len(ticks)-1] < last) {
				ticks = append(ticks, last)
			}
		}
		return ticks
	})
}

// evenInstants are n instants of equal distance up to the range's last tick.
func evenInstants(p *Problem, d *Demand, n int) []int32 {
	length := p.Length - d.From
	ticks := make([]int32, 0, n)
	for k := int64(1); k <= int64(n) && length > 0; k++ {
		ticks = append(ticks, int32(d.From+length*k/int64(n)-1))
	}
	return ticks
}
