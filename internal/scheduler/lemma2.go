package scheduler

import (
	"fmt"
	"math/rand/v2"
)

// PeriodicEnds plans a fleet of periodic sensors by Lemma 2: EasiCrawl's initial
// arrangement, each number lowered to a divisor of the sensor's windows, at ends of
// windows, see PeriodicSchedule. It draws nothing and ignores Capacity.
func PeriodicEnds(p *Problem, _ *rand.Rand) (*Solution, error) {
	return scheduled(p, PeriodicSchedule)
}

// PeriodicSchedule is Lemma 2 of the EasiCrawl paper: n crawls of a periodic sensor
// whose number of windows m in the range is a multiple of n, at the last legal instants
// of the windows i = 1..m with i mod (m/n) = 0. The last of them is the range's last
// legal instant, and the schedule is optimal among plans that end there, the paper's
// fixed end. No window may be cut by the range. Where n does not divide m the lemma
// says nothing, and this gives no schedule.
//
// It returns ErrProblem, wrapped with what keeps the lemma from applying.
func PeriodicSchedule(p *Problem, d *Demand, n int) ([]int32, error) {
	if err := p.fresh(d, n); err != nil {
		return nil, fmt.Errorf("%w: periodic schedule: %w", ErrProblem, err)
	}
	ends, err := d.periodicEnds(p.Length)
	if err != nil {
		return nil, fmt.Errorf("%w: periodic schedule: %w", ErrProblem, err)
	}
	if n == 0 {
		return nil, nil
	}
	if len(ends) == 0 || len(ends)%n != 0 {
		return nil, fmt.Errorf("%w: periodic schedule: %d windows are no multiple of %d crawls",
			ErrProblem, len(ends), n)
	}
	ticks := make([]int32, n)
	each := len(ends) / n
	for k := range ticks {
		ticks[k] = ends[(k+1)*each-1]
	}
	return ticks, nil
}

// periodicEnds are the last legal instants of the windows of the range, or why these
// are not periodic.
func (d *Demand) periodicEnds(length int64) ([]int32, error) {
	var ends []int32
	var first, second, awake int64 // starts of two windows, and how long each is
	for k := 0; k < len(d.Spans); {
		var s, e int64
		s, e, k = nextSpan(d.Spans, k)
		if e <= d.From {
			continue
		}
		if s >= length {
			break
		}
		switch len(ends) {
		case 0:
			first, awake = s, e-s
		case 1:
			second = s
		}
		next := first + int64(len(ends))*(second-first)
		switch {
		case s < d.From || e > length:
			return nil, fmt.Errorf("the range [%d,%d) cuts the window [%d,%d)", d.From, length, s, e)
		case e-s != awake:
			return nil, fmt.Errorf("the window [%d,%d) is not %d ticks long like the first", s, e, awake)
		case len(ends) > 1 && s != next:
			return nil, fmt.Errorf("the window [%d,%d) does not start a cycle after the one before "+
				"it, at %d", s, e, next)
		}
		ends = append(ends, int32(d.lastLegal(s, e)))
	}
	return ends, nil
}
