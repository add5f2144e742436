package dpt

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A rare window of a period that people set is found with fewer probes than by
// golden-ratio spacing, the control, and one of another period with no more.
func TestSweepFindsRareWindows(t *testing.T) {
	runs := trials(80, 200)
	for _, c := range []struct{ period, awake, most float64 }{
		{3600e3, 10e3, 0.85}, {1800e3, 6e3, 0.85}, {5003e3, 15e3, 1.25},
	} {
		rng := rand.New(rand.NewPCG(12, uint64(c.period)))
		swept, golden := 0, 0
		for seed := range uint64(runs) {
			phase := rng.Float64() * c.period
			l := NewLearner(testLearner(), epoch0, seed)
			swept += probes(l, c.period, c.awake, phase)
			g := NewSearch(searchParams(), epoch0, seed)
			golden += probes(g, c.period, c.awake, phase)
		}
		a, b := float64(swept)/float64(runs), float64(golden)/float64(runs)
		t.Logf("%v s awake of %v s: mean of %.0f probes, %.0f at golden-ratio spacing",
			c.awake/1e3, c.period/1e3, a, b)
		if a > c.most*b {
			t.Errorf("%v s: more than %v times", c.period/1e3, c.most)
		}
	}
}

// The nearest phase is that of looking at each.
func TestApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(13, 0))
	for range 2000 {
		period := 1 + rng.Float64()*100
		phases := make([]float64, 1+rng.IntN(20))
		for i := range phases {
			phases[i] = rng.Float64() * period
		}
		slices.Sort(phases)
		x, want := rng.Float64()*period, period
		for _, p := range phases {
			want = min(want, wrap(x-p, period), wrap(p-x, period))
		}
		if got := apart(phases, x, period); got != want {
			t.Fatalf("%v of %v, period %v: %v, want %v", x, phases, period, got, want)
		}
	}
}
