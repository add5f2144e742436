package scheduler

import (
	"math"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// overrun is how many of a plan's crawls a server that makes capacity starts per second, one
// after another in their order, would start only after the range.
func overrun(p *Problem, sol *Solution) (late int) {
	free := 0.0 // seconds from the range's start, when the server can start again
	for _, c := range sol.Plan() {
		free = max(free, float64(c.Tick)*p.Tick.Seconds())
		if free > float64(p.Length)*p.Tick.Seconds()-1e-9 {
			late++
		}
		free += 1 / float64(p.Capacity)
	}
	return late
}

// However many crawls the end of a range draws, all of a plan with a capacity can be
// started before it, and none is given up that a second earlier has room for. Without a
// capacity the same plan overruns.
func TestPlansEndWithTheRange(t *testing.T) {
	overran, crowded, sparse := 0, 0, 0
	for i := range trials(2000, 20000) {
		rng := seeded(i)
		p := &Problem{Tick: 100 * time.Millisecond, Length: 25 + rng.Int64N(80), End: Lookahead,
			Price: 1e9, Capacity: 1 + rng.IntN(30)}
		p.Extra = p.Length
		n := 1 + rng.IntN(1+p.Capacity*int(p.Length-10)/20)
		p.Budget = n
		for range n {
			d := Demand{Coef: 1 + rng.Float64(), Cap: -1, Known: math.MaxInt64,
				Gap: float64(p.Length), Source: -rng.Int64N(p.Length),
				Spans: []sleepplan.Span{{Start: -1000, End: 1000}}}
			p.Demands = append(p.Demands, d)
		}
		sol, err := Solve(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		if late := overrun(p, sol); late > 0 {
			t.Fatalf("seed %d: %d of %d crawls start after the range, capacity %d, %v", i, late, n,
				p.Capacity, sol.Plan())
		}
		if sol.Dropped > 0 {
			t.Fatalf("seed %d: %d of %d crawls dropped, capacity %d, %d ticks", i, sol.Dropped, n,
				p.Capacity, p.Length)
		}
		free := *p
		free.Capacity = 0
		whole, err := Solve(&free, 1)
		if err != nil {
			t.Fatal(err)
		}
		if n > p.Capacity {
			crowded++
		} else {
			sparse++
		}
		free.Capacity = p.Capacity
		if overrun(&free, whole) > 0 {
			overran++
		}
	}
	t.Logf("%d crowded, %d sparse, %d overrun without a capacity", crowded, sparse, overran)
	if least := trials(2000, 20000) / 5; crowded < least || sparse < least || overran < least {
		t.Errorf("too few: %d crowded, %d sparse, %d overrun", crowded, sparse, overran)
	}
}
