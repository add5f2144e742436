package sleepplan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestCycleAgreesWithCounting holds the cycle against stepping from its anchor.
func TestCycleAgreesWithCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		period := rapid.IntRange(2, 50).Draw(t, "period")
		awake := rapid.IntRange(1, period-1).Draw(t, "awake")
		anchor := rapid.IntRange(-300, 300).Draw(t, "anchor")
		p := must(Cycle(time.Duration(period)*time.Second, time.Duration(awake)*time.Second,
			origin().Add(time.Duration(anchor)*time.Second)))
		var on [400]bool // seconds after origin
		for s := anchor - 20*period*50; s < len(on); s += period {
			for i := s; i < s+awake; i++ {
				if i >= 0 && i < len(on) {
					on[i] = true
				}
			}
		}
		for i, want := range on {
			if x := origin().Add(time.Duration(i) * time.Second); p.Awake(x) != want {
				t.Fatalf("%v: Awake(%v) = %t", p, x, !want)
			}
		}
	})
}

// TestCycleFarFromItsAnchor would lose the phase, or not end, if it counted
// periods from the anchor in a time.Duration.
func TestCycleFarFromItsAnchor(t *testing.T) {
	p := must(Cycle(7*time.Second, 2*time.Second, time.Time{}))
	// 7 s divide a week, and year 1 began on a Monday: so does every phase.
	monday := at("2026-03-16")
	want := []Window{{monday, monday.Add(2 * time.Second)},
		{monday.Add(7 * time.Second), monday.Add(9 * time.Second)}}
	if got := p.Windows(monday, monday.Add(10*time.Second)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	later := must(Cycle(7*time.Second, 2*time.Second, monday))
	if !p.Equal(later) || later.Equal(must(Cycle(7*time.Second, 2*time.Second, monday.Add(1)))) {
		t.Error("Equal must compare anchors modulo the period")
	}
	long := must(Cycle(1<<62, 1<<61, monday))
	if w, ok := long.Window(monday.Add(1 << 60)); !ok || w != (Window{monday, monday.Add(1 << 61)}) {
		t.Errorf("146-year period: %v %t", w, ok)
	}
}

func TestCycleErrors(t *testing.T) {
	for _, c := range []struct {
		period, awake time.Duration
		want          string
	}{
		{0, 0, "period 0s"}, {-1, 1, "period -1ns"}, {time.Second, 0, "awake 0s"},
		{time.Second, -1, "awake -1ns"}, {time.Second, 2 * time.Second, "at most the period 1s"},
	} {
		_, err := Cycle(c.period, c.awake, origin())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v/%v: error %v, want %q", c.awake, c.period, err, c.want)
		}
	}
	if p := must(Cycle(time.Second, time.Second, origin())); !p.Equal(AlwaysOn()) {
		t.Errorf("awake all the period: %v", p)
	}
}
