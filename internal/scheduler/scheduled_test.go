package scheduler

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// lemmaFleet has identical sensors of one plan, each with crawls enough for the lemmas.
func lemmaFleet(spans []sleepplan.Span, length int64, n, each int) *Problem {
	p := &Problem{Tick: time.Second, Length: length, End: Fixed, Candidates: Grid, Step: 1,
		Budget: n * each}
	for range n {
		p.Demands = append(p.Demands, Demand{Coef: 1, Cap: -1, Spans: spans})
	}
	return p
}

// On fleets that the lemmas speak of, their closed forms are the optimum.
func TestLemmasAsAlgorithms(t *testing.T) {
	always := []sleepplan.Span{{Start: 0, End: 121}} // the last legal instant is 120
	var cycles []sleepplan.Span
	for k := range int32(12) {
		cycles = append(cycles, sleepplan.Span{Start: 10*k + 3, End: 10*k + 7})
	}
	for _, c := range []struct {
		name  string
		solve Algorithm
		p     *Problem
	}{
		{"non-sleeping", EvenNonSleeping, lemmaFleet(always, 121, 3, 6)},
		{"periodic", PeriodicEnds, lemmaFleet(cycles, 120, 3, 6)},
	} {
		got, err := c.solve(c.p, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		want, err := Solve(c.p, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got.Objective != want.Objective || !slices.Equal(got.Arrangement, want.Arrangement) {
			t.Errorf("%s: %v costs %v, the optimum %v costs %v", c.name, got.Arrangement,
				got.Objective, want.Arrangement, want.Objective)
		}
	}
	// Where 5 does not divide 12 windows, 4 crawls are made, and are no optimum.
	p := lemmaFleet(cycles, 120, 1, 5)
	got, err := PeriodicEnds(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	if best, _ := Solve(p, 1); got.Arrangement[0] != 4 || got.Objective <= best.Objective {
		t.Errorf("%d crawls cost %v", got.Arrangement[0], got.Objective)
	}
}

// A fleet that they do not speak of is refused, with the sensor and the reason.
func TestLemmasRefuse(t *testing.T) {
	p := lemmaFleet([]sleepplan.Span{{Start: 0, End: 121}}, 121, 2, 3)
	p.Demands[1].Spans = []sleepplan.Span{{Start: 0, End: 50}, {Start: 60, End: 121}}
	for name, solve := range map[string]Algorithm{"even": EvenNonSleeping, "periodic": PeriodicEnds} {
		_, err := solve(p, nil)
		if !errors.Is(err, ErrProblem) || !strings.Contains(err.Error(), "sensor 1") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
