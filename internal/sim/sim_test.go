package sim

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// oneRange runs a single range of a family's fleet, every sensor crawled at its start.
func oneRange(tb testing.TB, family string, n, theta int, seed uint64, change func(*Config)) Result {
	tb.Helper()
	f, err := FamilyNamed(family)
	if err != nil {
		tb.Fatal(err)
	}
	length := 200 * Unit
	sensors, err := f.Fleet(rand.New(rand.NewPCG(seed, 1)), n, length)
	if err != nil {
		tb.Fatal(err)
	}
	c := Config{Sensors: sensors, Parameters: OneRange(length, theta), Start: Epoch,
		Duration: length, Seed: seed, Crawled: true}
	c.Parameters.End = scheduler.Carry
	if change != nil {
		change(&c)
	}
	res, err := Run(c)
	if err != nil {
		tb.Fatal(err)
	}
	return res
}

// Where every visit succeeds, what the simulator expects of the visits that were
// made is what the plan promised, and the events it draws wait as long on average.
func TestExpectedIsThePromise(t *testing.T) {
	for _, f := range Families() {
		var promised, expected, measured, awaited, events, square float64
		const runs = 60
		for seed := range uint64(runs) {
			var plan float64
			res := oneRange(t, f.Name, 20, 80, seed, func(c *Config) {
				c.Planned = func(pl *planner.Plan) { plan = pl.Record().Expected }
			})
			if math.Abs(res.Expected-plan) > 1e-3*plan {
				t.Fatalf("%s, seed %d: %.6g expected of the visits, %.6g promised", f.Name, seed,
					res.Expected, plan)
			}
			promised += plan
			expected += res.Expected
			measured += res.Latency
			square += (res.Latency - res.Expected) * (res.Latency - res.Expected)
			awaited += res.Awaited
			events += float64(res.Events)
		}
		t.Logf("%s: promised %.4g, expected %.4g, measured %.4g s; %.0f events of %.0f", f.Name,
			promised, expected, measured, events, awaited)
		if off := math.Abs(measured - expected); off > 4*math.Sqrt(square) {
			t.Errorf("%s: measured %v, expected %v", f.Name, measured, expected)
		}
		if math.Abs(events-awaited) > 4*math.Sqrt(awaited) {
			t.Errorf("%s: %v events, expected %v", f.Name, events, awaited)
		}
	}
}

// The negative control: a wrong rate in the accounts is seen.
func TestExpectedNoticesAWrongRate(t *testing.T) {
	res := oneRange(t, "half", 20, 80, 1, func(c *Config) {
		for i := range c.Sensors {
			c.Sensors[i].Rate *= 1.5
		}
	})
	honest := oneRange(t, "half", 20, 80, 1, nil)
	if ratio := res.Expected / honest.Expected; math.Abs(ratio-1.5) > 1e-9 {
		t.Errorf("1.5 times the events wait %v times as long in sum", ratio)
	}
}

func TestRateChanges(t *testing.T) {
	half := Epoch.Add(100 * Unit)
	double := oneRange(t, "half", 20, 80, 1, func(c *Config) {
		for i := range c.Sensors {
			c.Sensors[i].Changes = []RateChange{{Epoch, 2 * c.Sensors[i].Rate}}
		}
	})
	later := oneRange(t, "half", 20, 80, 1, func(c *Config) {
		for i := range c.Sensors {
			c.Sensors[i].Changes = []RateChange{{half, 2 * c.Sensors[i].Rate}}
		}
	})
	never := oneRange(t, "half", 20, 80, 1, nil)
	if math.Abs(double.Expected-2*never.Expected) > 1e-9*never.Expected {
		t.Errorf("a doubled rate gives %v, once %v", double.Expected, never.Expected)
	}
	if !(never.Awaited < later.Awaited && later.Awaited < double.Awaited) {
		t.Errorf("events %v, %v, %v", never.Awaited, later.Awaited, double.Awaited)
	}
}

// A clock error of its own moves each window's ends both ways; without one a
// sensor is heard exactly in its windows.
func TestSkew(t *testing.T) {
	plan, err := sleepplan.Cycle(20*time.Minute, 5*time.Minute, Epoch)
	if err != nil {
		t.Fatal(err)
	}
	s := &sensor{Sensor: &Sensor{Plan: plan, Skew: 2 * time.Second}, seed: 5}
	const cycles = 4000
	counts := map[time.Duration]int{}
	offsets := []time.Duration{-4, -2, 0, 2, 4}
	for k := range cycles {
		end := Epoch.Add(time.Duration(k)*20*time.Minute + 5*time.Minute)
		for _, off := range offsets {
			if s.hears(end.Add(off * time.Second)) {
				counts[off]++
			}
		}
	}
	for _, off := range offsets { // P(error > off), normal
		want := 0.5 * math.Erfc(float64(off)/2/math.Sqrt2)
		if got := float64(counts[off]) / cycles; math.Abs(got-want) > 0.03 {
			t.Errorf("%v s from the end it is heard in %.3f of the windows, want %.3f", off, got, want)
		}
	}
}

func TestOutOfReach(t *testing.T) {
	visits := oneRange(t, "half", 100, 1000, 1, func(c *Config) {
		for i := range c.Sensors {
			c.Sensors[i].Out = 0.2
		}
	}).Visits
	failed := float64(visits[visit.Asleep])
	share := failed / (failed + float64(visits[visit.Described]+visits[visit.Unchanged]))
	if math.Abs(share-0.2) > 0.05 {
		t.Errorf("%.3f of the visits found the sensor out of reach, want 0.2: %v", share, visits)
	}
}

// Given events are captured as they are, and seen by the next crawl.
func TestGivenEvents(t *testing.T) {
	at := []time.Time{Epoch.Add(-time.Hour), Epoch.Add(Unit), Epoch.Add(2 * Unit), Epoch.Add(3 * time.Hour)}
	var seen []time.Time
	res := oneRange(t, "half", 1, 10, 1, func(c *Config) {
		c.Sensors[0].Events = at
		c.Event = func(_ string, event, crawled time.Time) {
			seen = append(seen, event)
			if crawled.Before(event) {
				t.Errorf("an event of %v was seen at %v", event, crawled)
			}
		}
	})
	if res.Events != 3 || len(seen) != 3 || !seen[0].Equal(at[1]) {
		t.Errorf("%d events, %v; want the three after the start", res.Events, seen)
	}
}
