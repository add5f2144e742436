package scheduler

import (
	"fmt"
	"math/rand/v2"
)

// EvenNonSleeping plans a fleet that never sleeps by Lemma 1: EasiCrawl's initial
// arrangement at even distances, see EvenSchedule. It draws nothing and ignores
// Capacity.
func EvenNonSleeping(p *Problem, _ *rand.Rand) (*Solution, error) {
	return scheduled(p, EvenSchedule)
}

// scheduled solves by a closed form, which it asks for as many crawls as a sensor gets
// in the initial arrangement, or for the largest smaller number that it has an answer to.
func scheduled(p *Problem, form func(p *Problem, d *Demand, n int) ([]int32, error)) (
	*Solution, error) {
	for i := range p.Demands {
		if d := &p.Demands[i]; d.Coef > 0 && d.Cap != 0 {
			if _, err := form(p, d, 1); err != nil {
				return nil, fmt.Errorf("sensor %d: %w", i, err)
			}
		}
	}
	return baseline(p, func(_ *worker, d *Demand, n int) []int32 {
		for ; n > 0; n-- {
			if ticks, err := form(p, d, n); err == nil {
				return ticks
			}
		}
		return nil
	})
}

// EvenSchedule is Lemma 1 of the EasiCrawl paper: n crawls of a sensor that never
// sleeps, at equal distances from the start of the range, where it was crawled, to the
// last legal instant. It is optimal among plans that end with that crawl, the paper's
// fixed end, for every convex penalty: in continuous time, and on ticks since the
// distances differ by at most one. Where the range's end is a sink and no crawl, the
// distances to it count as well, and n crawls are n+1 links.
//
// It returns ErrProblem, wrapped with what keeps the lemma from applying.
func EvenSchedule(p *Problem, d *Demand, n int) ([]int32, error) {
	if err := p.fresh(d, n); err != nil {
		return nil, fmt.Errorf("%w: even schedule: %w", ErrProblem, err)
	}
	var s, e, last int64 // the window around From
	for k := 0; k < len(d.Spans) && e <= d.From; {
		s, e, k = nextSpan(d.Spans, k)
		last = min(d.lastLegal(s, e), p.Length-1)
	}
	switch {
	case e <= d.From || s > d.From:
		return nil, fmt.Errorf("%w: even schedule: the sensor sleeps at tick %d", ErrProblem, d.From)
	case e < p.Length:
		return nil, fmt.Errorf("%w: even schedule: the sensor sleeps at tick %d", ErrProblem, e)
	case int64(n) > last-d.From:
		return nil, fmt.Errorf("%w: even schedule: %d crawls on %d legal ticks",
			ErrProblem, n, max(0, last-d.From))
	}
	ticks := make([]int32, n)
	for k := range ticks {
		ticks[k] = int32(d.From + int64(k+1)*(last-d.From)/int64(n))
	}
	return ticks, nil
}

// fresh checks what both lemmas suppose of n crawls of a sensor: that nothing waits for
// them when the range begins.
func (p *Problem) fresh(d *Demand, n int) error {
	if err := p.validate(); err != nil {
		return err
	}
	if err := p.check(d); err != nil {
		return err
	}
	if n < 0 {
		return fmt.Errorf("%d crawls must not be negative", n)
	}
	if m := d.mass(d.Source, d.From); m > 0 {
		return fmt.Errorf("events of %d awake ticks wait already at tick %d", m, d.From)
	}
	return nil
}
