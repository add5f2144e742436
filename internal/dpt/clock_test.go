package dpt

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// clocked is a sensor that shows its newest publication by a clock of its own.
type clocked struct {
	items []int64
	show  func(published, now int64) int64 // by its clock
	known int
}

func (s *clocked) answer(now int64) (o visit.Outcome, latencies []float64) {
	n, _ := slices.BinarySearch(s.items, now+1)
	o = poll(now, visit.Unchanged)
	for ; s.known < n; s.known++ {
		o.Result = visit.Described
		latencies = append(latencies, float64(now-s.items[s.known])/1000)
		o.PublishedAt = []time.Time{at(s.show(s.items[s.known], now))}
	}
	return o, latencies
}

// mean latency of a tracker that follows s, without the first skip items.
func (s *clocked) mean(tr *Tracker, skip int) float64 {
	now, sum := int64(0), 0.0
	for s.known < len(s.items) {
		now = next(tr, now)
		o, latencies := s.answer(now)
		tr.Observe(o)
		for i, l := range latencies {
			if s.known-len(latencies)+i >= skip {
				sum += l
			}
		}
	}
	return sum / float64(len(s.items)-skip)
}

const year = 365 * 24 * hour

// A wrong clock of the sensor is found out; what it shows is then as good as that of a
// right one. The control takes its instants as they are.
func TestSensorClock(t *testing.T) {
	items := source{300_000, 1, 1, 5_000}.publish(rand.New(rand.NewPCG(2, 2)), 600)
	right := (&clocked{items: items, show: func(p, _ int64) int64 { return p }}).mean(
		NewTracker(testParams(), epoch0), 50)
	if right > 60 {
		t.Fatalf("right clock: mean latency %.1f s", right)
	}
	for name, show := range map[string]func(p, now int64) int64{
		"40 s slow":         func(p, _ int64) int64 { return p - 40_000 },
		"110 s slow":        func(p, _ int64) int64 { return p - 110_000 },
		"110 s fast":        func(p, _ int64) int64 { return p + 110_000 },
		"20 years behind":   func(p, _ int64) int64 { return p - 20*year - 37_000 },
		"20 years ahead":    func(p, _ int64) int64 { return p + 20*year + 37_000 },
		"100 ppm":           func(p, _ int64) int64 { return p - p/10_000 },
		"-100 ppm":          func(p, _ int64) int64 { return p + p/10_000 },
		"set half way":      func(p, _ int64) int64 { return p - 20*year + 20*year*min(p/90_000_000, 1) },
		"whole seconds":     func(p, _ int64) int64 { return p / 1000 * 1000 },
		"rounded to second": func(p, _ int64) int64 { return (p + 500) / 1000 * 1000 },
	} {
		tr := NewTracker(testParams(), epoch0)
		got := (&clocked{items: items, show: show}).mean(tr, 50)
		p := testParams()
		p.PublishTimes = TimesTrust
		control := (&clocked{items: items, show: show}).mean(NewTracker(p, epoch0), 50)
		active, _ := tr.Policy()
		t.Logf("%-18s mean latency %5.1f s (right clock %.1f, taken as it is %.1f), offset %v", name, got,
			right, control, span(tr.s.Clock.Offset))
		if got > 1.4*right || active != DPTN {
			t.Errorf("%s: mean latency %.1f s, right clock %.1f s, policy %s", name, got, right, active)
		}
		if wrong := name == "40 s slow" || name == "110 s slow"; wrong && control < 2*right {
			t.Errorf("%s: taken as it is it makes %.1f s: the test shows nothing", name, control)
		}
	}
}

// Publish times that cannot be right are not used, whoever shows them when: the sensor
// then is one without publish times, and becomes another one when they are right again.
func TestTimesComeAndGo(t *testing.T) {
	p := testParams()
	tr, now := learnt(t, p, 300_000, 10)
	var got []Policy
	say := func(times ...time.Time) {
		now += 300_000
		o := poll(now, visit.Described)
		o.PublishedAt = times
		tr.Observe(o)
		active, _ := tr.Policy()
		got = append(got, active)
	}
	for range 4 {
		say()
	}
	for range 4 {
		say(at(now + 299_000))
	}
	want := []Policy{DPTN, DPTN, BB, BB, BB, BB, DPTN, DPTN}
	if !slices.Equal(got, want) {
		t.Errorf("policies %v, want %v", got, want)
	}
}

// A publisher without publish times that counts its Max-Age down shows them all the same.
// One with a fixed Max-Age does not.
func TestCountdown(t *testing.T) {
	items := source{300_000, 1, 1, 2000}.publish(rand.New(rand.NewPCG(2, 2)), 400)
	for _, counts := range []bool{true, false} {
		tr := NewTracker(testParams(), epoch0)
		for now, known := int64(0), 0; known < len(items); {
			now = next(tr, now)
			n, _ := slices.BinarySearch(items, now+1)
			o := poll(now, visit.Unchanged)
			if n > known {
				o.Result, known = visit.Described, n
			}
			if o.HasMaxAge = n > 0; o.HasMaxAge {
				o.MaxAge = 5 * time.Minute
				if counts {
					left := max(items[n-1]+300_000-now, 0)
					o.MaxAge = span(left).Truncate(time.Second)
				}
			}
			tr.Observe(o)
		}
		active, reason := tr.Policy()
		period, sd, _, _ := tr.Stats()
		t.Logf("counts down %v: %s %q, period %v, sd %v", counts, active, reason, period, sd)
		if (active == DPTN) != counts {
			t.Errorf("counts down %v: policy %s", counts, active)
		}
		wrong := period - 5*time.Minute
		if max(wrong, -wrong) > 2*time.Second || counts && sd > 4*time.Second {
			t.Errorf("period %v, sd %v", period, sd)
		}
	}
}

// Whatever is shown, what is handed on is ascending and not in the future.
func TestClockHandsOnWhatCanBe(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 1))
	kinds := map[string]int{}
	for range trials(300, 5000) {
		c, before, given := clock{}, int64(0), int64(0)
		now := epoch0.UnixMilli()
		for range 60 {
			now += 1 + rng.Int64N(600_000)
			g := signal{kind: described, start: now, end: now + rng.Int64N(3000)}
			for range rng.IntN(4) {
				back := rng.Int64N(1 << (10 + rng.IntN(32)))
				g.published = append(g.published, g.end-back+2000*rng.Int64N(3))
			}
			slices.Sort(g.published)
			g.published = slices.Compact(g.published)
			if rng.IntN(3) == 0 {
				g.stated, g.maxAge = true, 1000*rng.Int64N(600)
			}
			c.answer(g, before, hour)
			s := c.take(g, circumstances{before: before, slack: hour, pulled: rng.IntN(9) == 0,
				sure: rng.IntN(9) == 0, drains: rng.IntN(2) == 0})
			kinds[fmt.Sprintf("%d fresh", min(len(s.fresh), 2))]++
			for _, x := range s.fresh {
				if x <= given || x > g.end {
					t.Fatalf("handed on %d after %d at %d", x, given, g.end)
				}
				given = x
			}
			if err := c.check(); err != nil {
				t.Fatal(err)
			}
			before = now
		}
	}
	t.Log(kinds)
	if len(kinds) < 3 {
		t.Errorf("cases %v", kinds)
	}
}
