package scheduler

import (
	"math"
	"reflect"
	"slices"
	"testing"
)

// A sensor that answers every other attempt competes with half its worth, and its
// plan for a given number of crawls stays what it was.
func TestYieldCompetesWithItsShare(t *testing.T) {
	var seen seen
	moved, solved := 0, 0
	for i := range trials(1000, 5000) {
		rng := seeded(i)
		p := randomProblem(rng, &seen)
		plain, err := Solve(p, 1)
		if err != nil {
			continue // the budget is below the forced crawls
		}
		solved++
		shared, worth := *p, *p
		shared.Demands, worth.Demands = slices.Clone(p.Demands), slices.Clone(p.Demands)
		for k := range p.Demands {
			yield := math.Ldexp(1, -rng.IntN(3))
			shared.Demands[k].Yield = yield
			worth.Demands[k].Coef *= yield
		}
		got, err := Solve(&shared, 1)
		if err != nil {
			t.Fatal(err)
		}
		want, err := Solve(&worth, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got.Price != want.Price || !slices.Equal(got.Arrangement, want.Arrangement) {
			t.Fatalf("seed %d: %v at %v, want %v at %v", i, got.Arrangement, got.Price,
				want.Arrangement, want.Price)
		}
		for k := range got.Sensors {
			a, b := got.Sensors[k], want.Sensors[k]
			if !reflect.DeepEqual(a, b) {
				t.Fatalf("seed %d: sensor %d is planned %+v, want %+v", i, k, a, b)
			}
		}
		if !slices.Equal(got.Arrangement, plain.Arrangement) {
			moved++
		}
	}
	if moved < solved/30 {
		t.Errorf("failures moved crawls in %d of %d fleets only", moved, solved)
	}
}
