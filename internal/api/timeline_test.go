package api

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// Shading against looking at every pixel's instants one by one. Merging may
// fill a gap of less than two pixels and widen a bar by one.
func TestShadeAgainstPixels(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	s := scale{sleepplan.Window{Start: start, End: start.Add(960 * time.Second)}}
	for range rounds(200) {
		period := time.Duration(1+rng.IntN(200_000)) * time.Millisecond
		awake := time.Duration(1 + rng.Int64N(int64(period)))
		anchor := start.Add(time.Duration(rng.IntN(1e6)) * time.Millisecond)
		plan, err := sleepplan.Cycle(period, awake, anchor)
		if err != nil {
			t.Fatal(err)
		}
		bars := s.shade(plan)
		for i, b := range bars {
			if b.X < 0 || b.X+b.Width > timelineWidth+1 || b.Width < 1 ||
				i > 0 && b.X < bars[i-1].X+bars[i-1].Width {
				t.Fatalf("cycle %v/%v: bar %d of %v", awake, period, i, bars)
			}
		}
		for px := range timelineWidth {
			at := start.Add(time.Duration(px)*time.Second + 500*time.Millisecond)
			near := plan.Windows(at.Add(-2*time.Second), at.Add(2*time.Second))
			dark := covered(bars, float64(px)+0.5)
			switch {
			case len(near) == 0 && dark:
				t.Fatalf("cycle %v/%v: %v is shaded", awake, period, at)
			case len(near) == 1 && near[0].Duration() == 4*time.Second && !dark:
				t.Fatalf("cycle %v/%v: %v is not shaded", awake, period, at)
			}
		}
	}
}

func covered(bars []bar, x float64) bool {
	for _, b := range bars {
		if b.X <= x && x < b.X+b.Width {
			return true
		}
	}
	return false
}

// A plan of very many windows costs no more than the width.
func TestShadeIsBounded(t *testing.T) {
	fast, err := sleepplan.Cycle(time.Microsecond, time.Microsecond/2, start)
	if err != nil {
		t.Fatal(err)
	}
	s := scale{sleepplan.Window{Start: start, End: start.Add(365 * 24 * time.Hour)}}
	bars := s.shade(fast)
	if len(bars) != 1 || bars[0].X != 0 || math.Abs(bars[0].Width-timelineWidth) > 1 {
		t.Errorf("%v", bars)
	}
	if bars := s.shade(sleepplan.Unknown()); len(bars) != 0 {
		t.Errorf("unknown: %v", bars)
	}
	if bars := s.shade(sleepplan.AlwaysOn()); len(bars) != 1 || bars[0] != (bar{0, timelineWidth}) {
		t.Errorf("always on: %v", bars)
	}
}
