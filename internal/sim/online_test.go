package sim

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/visit"
)

func online(tb testing.TB, sensors, runs int) Online {
	tb.Helper()
	half, err := FamilyNamed("half")
	if err != nil {
		tb.Fatal(err)
	}
	c := Online{Family: half, Sensors: sensors, Runs: runs, Seed: 1}
	if ci() {
		c.Sensors, c.Runs = 0, 2
	}
	return c
}

// The beginning of a long run is the short run: what the ranges cost adds up to what
// the whole costs, and visits come at the same instants.
func TestPrefixes(t *testing.T) {
	cfg, err := online(t, 20, 1).config(0, 20, 4)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Sensors {
		cfg.Sensors[i].Out, cfg.Sensors[i].Listed.RateFixed = 0.2, false
	}
	waits, err := byRange(cfg)
	if err != nil {
		t.Fatal(err)
	}
	var made [2][]visit.Visit
	var whole Result
	for i, ranges := range []time.Duration{4, 2} {
		cfg.Duration = ranges * cfg.Parameters.Range
		cfg.Watch = func(v visit.Visit, _ time.Time) { made[i] = append(made[i], v) }
		res, err := Run(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			whole = res
		}
	}
	sum := 0.0
	for _, w := range waits {
		sum += w
	}
	if math.Abs(sum-whole.Expected) > 1e-9*sum {
		t.Errorf("ranges sum up to %v, the whole is %v", sum, whole.Expected)
	}
	if len(made[1]) == 0 || len(made[0]) < len(made[1]) {
		t.Fatalf("%d visits in two ranges, %d in four", len(made[1]), len(made[0]))
	}
	for i, v := range made[1] {
		if w := made[0][i]; w.Sensor != v.Sensor || !w.At.Equal(v.At) || w.Kind != v.Kind {
			t.Fatalf("visit %d: %v at %v, in the longer run %v at %v", i, v.Sensor, v.At, w.Sensor, w.At)
		}
	}
}

// A failure that is planned around costs less than one that is ignored, and no range
// ever makes more attempts than theta.
func TestFailures(t *testing.T) {
	t.Parallel()
	f, err := online(t, 60, 2).Failures()
	if err != nil {
		t.Fatal(err)
	}
	latency := panelNamed(t, f, "latency with failed visits")
	attempts := panelNamed(t, f, "attempts with failed visits")
	for _, percent := range []float64{5, 20} {
		ignored := meanAt(t, seriesNamed(t, latency, "ignored"), percent)
		planned := meanAt(t, seriesNamed(t, latency, "re-planned at once"), percent)
		t.Logf("%v %% fail: %.3f ignored, %.3f re-planned", percent, ignored, planned)
		if !(1 < planned && planned-1 < 0.9*(ignored-1)) {
			t.Errorf("%v %% fail: %v, ignored %v", percent, planned, ignored)
		}
	}
	for _, s := range attempts.Series {
		for _, q := range s.Points {
			if q.Max > 1 || q.Mean < 0.9 {
				t.Errorf("%s, %v %%: attempts of %v to %v of theta", s.Name, q.X, q.Min, q.Max)
			}
		}
	}
}

// The counter of attempts sees what it is there for: a budget twice as large as it
// is said to be.
func TestCountAttempts(t *testing.T) {
	cfg, err := online(t, 20, 1).config(0, 20, 2)
	if err != nil {
		t.Fatal(err)
	}
	theta := cfg.Parameters.Budget
	cfg.Parameters.Budget *= 2
	spent := countAttempts(&cfg)
	if _, err := Run(cfg); err != nil {
		t.Fatal(err)
	}
	if slices.Max(spent) <= theta {
		t.Errorf("attempts %v, of twice %d", spent, theta)
	}
}

func TestRates(t *testing.T) {
	t.Parallel()
	f, err := online(t, 60, 1).Rates()
	if err != nil {
		t.Fatal(err)
	}
	changed, learned := f.Panels[0], f.Panels[2]
	never := seriesNamed(t, changed, "never told")
	keep := seriesNamed(t, changed, "told, keeping the plan")
	if a, b := meanAt(t, never, 1), meanAt(t, keep, 1); a != 1 || b != 1 {
		t.Errorf("before anything has changed: %v and %v", a, b)
	}
	if meanAt(t, keep, 2) < 1.01 {
		t.Errorf("being told at once gains nothing over keeping the plan: %v", meanAt(t, keep, 2))
	}
	for _, name := range []string{"learned from changes", "learned from logged events"} {
		last := meanAt(t, seriesNamed(t, changed, name), rateRanges)
		t.Logf("%s, last range: %.3f; never told %.3f", name, last, meanAt(t, never, rateRanges))
		if last-1 > 0.6*(meanAt(t, never, rateRanges)-1) {
			t.Errorf("%s: %v in the last range", name, last)
		}
		s := seriesNamed(t, learned, name)
		first, late := meanAt(t, s, 0), meanAt(t, s, 28)
		t.Logf("%s: %.3f at first, %.3f after 28 events", name, first, late)
		if late > 1.045 || late-1 > 0.5*(first-1) {
			t.Errorf("%s: %v at first, %v after 28 events per sensor", name, first, late)
		}
	}
	wrong := f.Panels[1].Series[0]
	limits := [][2]float64{{0.995, 1.015}, {1.005, 1.05}, {1.03, 1.15}, {1.12, 1.6}}
	for i, q := range wrong.Points {
		t.Logf("rates wrong by sd %v: %.4f", q.X, q.Mean)
		if q.Mean < limits[i][0] || q.Mean > limits[i][1] {
			t.Errorf("rates wrong by sd %v cost %v", q.X, q.Mean)
		}
	}
}

// A listing takes effect when it is read, and a wrong one is refused.
func TestReloads(t *testing.T) {
	cfg, err := online(t, 20, 1).config(0, 20, 1)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	at := Epoch.Add(cfg.Duration / 2)
	var listed []fleet.Sensor
	for i, s := range cfg.Sensors {
		l := s.Listed
		if i < 10 {
			l.MaxCrawls = 0
		}
		listed = append(listed, l)
	}
	cfg.Reloads = []Reload{{at, listed}}
	cfg.Watch = func(v visit.Visit, now time.Time) {
		i := slices.IndexFunc(cfg.Sensors, func(s Sensor) bool { return s.Listed.ID == v.Sensor })
		if i < 10 && !now.Before(at) {
			t.Errorf("%v: %s is asked although it may not be any more", now, v.Sensor)
		}
	}
	capped, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if capped.Expected <= plain.Expected {
		t.Errorf("latency %v with half of the sensors capped, %v without", capped.Expected,
			plain.Expected)
	}
	cfg.Reloads = []Reload{{at, []fleet.Sensor{listed[0], listed[0]}}}
	if _, err := Run(cfg); err == nil {
		t.Error("a sensor listed twice is accepted")
	}
	listed[0].ID = "nobody"
	cfg.Reloads = []Reload{{at, listed}}
	if _, err := Run(cfg); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("a sensor that is not simulated: %v", err)
	}
}

// Without skew every second of guard costs; with skew no guard costs more, and the
// best one grows with the skew.
func TestGuard(t *testing.T) {
	t.Parallel()
	c := online(t, 5, 1)
	f, err := c.Guard()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Panels[:len(guardAwake)] {
		calm := seriesNamed(t, p, skewName(0))
		for i, g := range guards[1:] {
			if meanAt(t, calm, float64(g)) <= meanAt(t, calm, float64(guards[i])) {
				t.Errorf("%s: a guard of %d s costs no more than one of %d s", p.Title, g, guards[i])
			}
		}
		for _, skew := range guardSkews[1:] {
			s := seriesNamed(t, p, skewName(skew))
			if meanAt(t, s, 0) < 1.1 || meanAt(t, s, 0) < meanAt(t, s, 5) {
				t.Errorf("%s: no guard costs %v at skew %v s", p.Title, meanAt(t, s, 0), skew)
			}
		}
	}
	for i, fact := range f.Facts[1:] {
		if (i+1)%len(guardSkews) != 0 && fact.Value < f.Facts[i].Value {
			t.Errorf("%s: %v, below %v", fact.Name, fact.Value, f.Facts[i].Value)
		}
	}
	last := f.Panels[len(f.Panels)-1]
	for _, s := range last.Series {
		for _, q := range s.Points {
			t.Logf("%s, skew %v s: %.3f", s.Name, q.X, q.Mean)
		}
	}
}

// The capacity holds, costs what it costs, and never less than the bound.
func TestPeak(t *testing.T) {
	t.Parallel()
	c := online(t, 60, 1)
	f, err := c.Peak()
	if err != nil {
		t.Fatal(err)
	}
	latency, busiest := f.Panels[0], f.Panels[1]
	for _, fleet := range peakFleets {
		spilt := seriesNamed(t, latency, fleet.name+", spill-back")
		least := seriesNamed(t, latency, fleet.name+", at least")
		free := seriesNamed(t, busiest, fleet.name+", no limit")
		for _, capacity := range peakCapacities {
			x := float64(capacity)
			top := meanAt(t, seriesNamed(t, busiest, fleet.name), x)
			t.Logf("%s, %d/s: %.3f, at least %.3f, busiest second %v of %v", fleet.name, capacity,
				meanAt(t, spilt, x), meanAt(t, least, x), top, meanAt(t, free, x))
			if top > x || meanAt(t, free, x) <= x && capacity < 30 {
				t.Errorf("%s, %d/s: %v starts in a second, %v without limit", fleet.name, capacity, top,
					meanAt(t, free, x))
			}
			if meanAt(t, spilt, x) < meanAt(t, least, x) || meanAt(t, least, x) < 0.999 {
				t.Errorf("%s, %d/s: %v, at least %v", fleet.name, capacity, meanAt(t, spilt, x),
					meanAt(t, least, x))
			}
		}
	}
}

// What a range costs in the simulator is what the scheduler's objective said, which is
// what the bound speaks of.
func TestPeakObjectiveIsExpected(t *testing.T) {
	cfg, err := online(t, 40, 1).aligned(0, 40, 2)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Parameters.Capacity = 3
	got, err := crowd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	sol, err := scheduler.Solve(got.problem, 1)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(sol.Objective-got.expected) > 1e-9*sol.Objective {
		t.Errorf("objective %v, expected %v", sol.Objective, got.expected)
	}
}

// The same seed gives the same bytes, whatever runs beside what; another one does not.
func TestOnlineTwice(t *testing.T) {
	c := online(t, 0, 0)
	c.Sensors, c.Runs = 2, 1
	f := sameTwice(t, c.All)
	if len(f.Panels) != 11 {
		t.Errorf("%d panels", len(f.Panels))
	}
	c.Seed = 2
	other, err := c.Failures()
	if err != nil {
		t.Fatal(err)
	}
	if other.Panels[0].Series[1].Points[1].Mean == f.Panels[0].Series[1].Points[1].Mean {
		t.Error("another seed gives the same figure")
	}
}
