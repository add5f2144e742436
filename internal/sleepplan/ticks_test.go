package sleepplan

import (
	"math"
	"math/big"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// genWindows draws sorted windows with nanosecond edges near the origin, some
// of them touching.
func genWindows(t *rapid.T) []Window {
	var ws []Window
	x := rapid.IntRange(-200, 50).Draw(t, "first")
	for range rapid.IntRange(0, 8).Draw(t, "windows") {
		start := x + rapid.IntRange(0, 30).Draw(t, "asleep")
		x = start + rapid.IntRange(1, 40).Draw(t, "awake")
		ws = append(ws, Window{origin().Add(time.Duration(start)), origin().Add(time.Duration(x))})
	}
	return ws
}

// wrongTicks compares spans with windows nanosecond by nanosecond: a tick is
// in a span exactly if it is awake throughout. It names the first that is not.
func wrongTicks(spans []Span, ws []Window, tick int) (int, bool) {
	for k := -1000 / tick; k < 1000/tick; k++ {
		awake := true
		for ns := k * tick; ns < (k+1)*tick; ns++ {
			x := origin().Add(time.Duration(ns))
			awake = awake && slices.ContainsFunc(ws, func(w Window) bool { return w.Contains(x) })
		}
		in := slices.ContainsFunc(spans, func(s Span) bool { return int(s.Start) <= k && k < int(s.End) })
		if in != awake {
			return k, true
		}
	}
	return 0, false
}

func TestTicksRoundInward(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ws := genWindows(t)
		tick := rapid.IntRange(1, 12).Draw(t, "tick")
		spans := Ticks(nil, ws, origin(), time.Duration(tick))
		if k, wrong := wrongTicks(spans, ws, tick); wrong {
			t.Fatalf("tick %d of %d ns is wrong in %v of %v", k, tick, spans, ws)
		}
		for i, s := range spans {
			if s.Start >= s.End || i > 0 && spans[i-1].End >= s.Start {
				t.Fatalf("spans are empty or touch: %v", spans)
			}
		}
	})
}

func TestRoundingOutwardIsFound(t *testing.T) {
	ws := []Window{{origin().Add(-7), origin().Add(8)}}
	if _, wrong := wrongTicks(Ticks(nil, ws, origin(), 5), ws, 5); wrong {
		t.Error("rounding inward is called wrong")
	}
	for _, s := range []Span{{-2, 1}, {-1, 2}, {0, 1}, {-1, 0}} {
		if _, wrong := wrongTicks([]Span{s}, ws, 5); !wrong {
			t.Errorf("%v passes", s)
		}
	}
}

func TestTicksMergeAndClamp(t *testing.T) {
	x := func(ns int) time.Time { return origin().Add(time.Duration(ns)) }
	ws := []Window{{x(0), x(15)}, {x(15), x(30)}, {x(31), x(39)}, {x(40), x(50)}}
	dst := []Span{{0, 0}}
	if got := Ticks(dst, ws, origin(), 10); !slices.Equal(got, []Span{{0, 0}, {0, 3}, {4, 5}}) {
		t.Errorf("got %v", got)
	}
	all, _ := AlwaysOn().Window(origin())
	for _, tick := range []time.Duration{1, time.Millisecond, time.Second} {
		got := Ticks(nil, []Window{all}, origin(), tick)
		if !slices.Equal(got, []Span{{math.MinInt32, math.MaxInt32}}) {
			t.Errorf("tick %v: got %v", tick, got)
		}
	}
	far := []Window{{origin().AddDate(80, 0, 0), origin().AddDate(81, 0, 0)}}
	if got := Ticks(nil, far, origin(), time.Second); len(got) != 0 {
		t.Errorf("beyond int32: got %v", got)
	}
}

func TestMassAndMomentAgreeWithCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spans := Ticks(nil, genWindows(t), origin(), 3)
		from := rapid.Int64Range(-100, 150).Draw(t, "from")
		to := rapid.Int64Range(-100, 150).Draw(t, "to")
		var mass, moment int64
		for k := from; k < to; k++ {
			for _, s := range spans {
				if int64(s.Start) <= k && k < int64(s.End) {
					mass++
					moment += 2*k + 1 // the integral of 2u du over [k, k+1)
				}
			}
		}
		if got := Mass(spans, from, to); got != mass {
			t.Fatalf("mass of %v in [%d, %d): %d, want %d", spans, from, to, got, mass)
		}
		if got := Moment2(spans, from, to); got != moment {
			t.Fatalf("moment of %v in [%d, %d): %d, want %d", spans, from, to, got, moment)
		}
	})
}

// TestMomentDoesNotOverflow takes the widest spans against big integers.
func TestMomentDoesNotOverflow(t *testing.T) {
	for _, spans := range [][]Span{
		{{math.MinInt32, math.MaxInt32}}, {{math.MinInt32, 0}}, {{0, math.MaxInt32}},
		{{math.MinInt32, -1}, {0, 1 << 30}, {1<<30 + 1, math.MaxInt32}},
	} {
		want := new(big.Int)
		for _, s := range spans {
			e2 := new(big.Int).Mul(big.NewInt(int64(s.End)), big.NewInt(int64(s.End)))
			s2 := new(big.Int).Mul(big.NewInt(int64(s.Start)), big.NewInt(int64(s.Start)))
			want.Add(want, e2.Sub(e2, s2))
		}
		if got := Moment2(spans, math.MinInt64, math.MaxInt64); want.Cmp(big.NewInt(got)) != 0 {
			t.Errorf("moment of %v: %d, want %v", spans, got, want)
		}
	}
}
