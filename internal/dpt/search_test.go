package dpt

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

func searchParams() Params {
	return Params{
		Policy: DPTN, Bootstrap: 5 * time.Minute, MinGap: time.Second, MaxGap: time.Hour,
	}
}

// probes is the number of probes until one falls into the awake part of a cycle.
func probes(s poller, period, awake, phase float64) int {
	now := int64(0)
	for n := 1; n <= 5000; n++ {
		now = next(s, now)
		if math.Mod(float64(now)+phase, period) < awake {
			return n
		}
		s.Observe(poll(now, visit.Asleep))
	}
	return 5000
}

// steady is the negative control: the same mean gaps, evenly spaced.
type steady struct{ Search }

func (s *steady) Next(now time.Time, stretch float64) (time.Time, string) {
	return now.Add(span(int64(s.s.Limits.searchGap(s.s.Probes + 1)))), ""
}

func periods() []float64 {
	return []float64{30e3, 60e3, 132.306e3, 137e3, 300e3, 301.3e3, 437e3, 600e3, 900e3, 1800e3,
		2400e3, 3600e3}
}

func TestSearchFindsAnyPeriod(t *testing.T) {
	const duty, runs = 0.1, 200
	var worstSteady int
	for _, period := range periods() {
		rng := rand.New(rand.NewPCG(10, uint64(period)))
		sum, worst := 0, 0
		for seed := range uint64(runs) {
			phase := rng.Float64() * period
			n := probes(NewSearch(searchParams(), epoch0, seed), period, duty*period, phase)
			sum += n
			worst = max(worst, n)
			if seed < 10 {
				control := &steady{*NewSearch(searchParams(), epoch0, seed)}
				worstSteady = max(worstSteady, probes(control, period, duty*period, phase))
			}
		}
		mean := float64(sum) / runs
		t.Logf("period %6.0f s duty 10 %%: mean %.1f probes, worst %d", period/1000, mean, worst)
		if mean < 0.7/duty || mean > 1.25/duty || worst > 12/duty {
			t.Errorf("period %v s: mean %.1f, worst %d probes; want about %.0f", period/1000,
				mean, worst, 1/duty)
		}
	}
	if worstSteady < 5000 {
		t.Errorf("even spacing found every sensor within %d probes: the test is blind", worstSteady)
	}
}

// Spacings lie in [1/2, 3/2) mean gaps, and any 13 of them (a Fibonacci number) have
// the mean gap within 6 %.
func TestSpacing(t *testing.T) {
	for seed := range uint64(200) {
		sum := 0.0
		for k := range 13 {
			d := spacing(mix(seed), k+int(seed))
			if d < 0.5 || d >= 1.5 {
				t.Fatalf("spacing %v", d)
			}
			sum += d / 13
		}
		if math.Abs(sum-1) > 0.06 {
			t.Errorf("seed %d: mean spacing %v gaps", seed, sum)
		}
	}
}

func TestSearchGaps(t *testing.T) {
	s := NewSearch(searchParams(), epoch0, 7)
	if a, _ := s.Next(epoch0, 1); !a.After(epoch0) || a.After(at(300_000)) {
		t.Errorf("first probe after %v", a.Sub(epoch0))
	}
	now := int64(0)
	for _, want := range []string{"5m0s", "5m0s", "6m15s", "7m48s", "9m45s"} {
		a, why := s.Next(at(now), 1)
		if why != "search: gap "+want {
			t.Errorf("why %q, want gap %s", why, want)
		}
		now = a.Sub(epoch0).Milliseconds()
		s.Observe(poll(now, visit.Asleep))
	}
	if s.Found() {
		t.Error("found without contact")
	}
	failed := poll(now+1000, visit.Failed)
	s.Observe(failed)
	if !s.Found() {
		t.Error("contact not seen")
	}
}

func TestSearchExpected(t *testing.T) {
	s := NewSearch(searchParams(), epoch0, 3)
	forecast := s.Expected(epoch0, at(24*3600_000))
	spent := 0
	for now := next(s, 0); now < 24*3600_000; now = next(s, now) {
		s.Observe(poll(now, visit.Asleep))
		spent++
	}
	t.Logf("expected %.1f, spent %d", forecast, spent)
	if math.Abs(forecast-float64(spent)) > 3 {
		t.Errorf("expected %.1f probes, spent %d", forecast, spent)
	}
}

func TestSearchUnmarshalRefuses(t *testing.T) {
	for _, bad := range []string{
		`{`, `{}`, `{"l":{"p":"dpt-n","b":300000,"n":1000,"x":1,"w":20,"t":7}}`,
		`{"l":{"p":"dpt-n","b":300000,"n":1000,"x":3600000,"w":20,"t":7},"k":-1}`,
	} {
		if err := new(Search).UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%s was accepted", bad)
		}
	}
}
