package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/sleepplan"
)

// halfHidden is a fleet of duty-cycled, daily and always-on sensors. Of every second one
// the planner is not told when it is awake; only those count.
func halfHidden(tb testing.TB, n int, seed uint64) []Sensor {
	tb.Helper()
	rng := rand.New(rand.NewPCG(seed, 11))
	out := make([]Sensor, n)
	for i := range out {
		var plan sleepplan.Plan
		var err error
		switch i / 2 % 4 {
		case 0:
			plan, err = sleepplan.Cycle(5*time.Minute, 30*time.Second,
				Epoch.Add(time.Duration(rng.IntN(300))*time.Second))
		case 1:
			plan, err = sleepplan.Cycle(15*time.Minute, time.Minute,
				Epoch.Add(time.Duration(rng.IntN(900))*time.Second))
		case 2:
			plan, err = sleepplan.Weekly([]string{"daily 18:00-09:00"}, "UTC", nil)
		default:
			plan = sleepplan.AlwaysOn()
		}
		if err != nil {
			tb.Fatal(err)
		}
		awake := 1.0
		if i/2%4 < 2 {
			awake = 0.1
		}
		rate := (0.3 + rng.Float64()) / 3600 / awake
		out[i] = Sensor{Plan: plan, Rate: rate, Loss: 0.02, Logs: true, Uncounted: i%2 == 0,
			Listed: fleet.Sensor{ID: fmt.Sprintf("s%04d", i), URI: fmt.Sprintf("coap://h%d.example", i),
				Weight: 1, MaxCrawls: fleet.NoCap, Rate: rate, Plan: plan}}
		if i/8%2 == 1 {
			out[i].Listed.MaxCrawls = 8 // twice the budget's share, and less than learners want
		}
	}
	return out
}

// hiddenSize is how many sensors there are, how long they have to be found out, and what the
// hidden ones may then wait, as a multiple. The ends of daily windows are found by halves:
// it takes them some weeks.
func hiddenSize() (sensors, days int, most float64) {
	if os.Getenv("CRAWLD_CI") != "" {
		return 32, 30, 1.25
	}
	return 16, 12, 1.5
}

// A sensor that hides its sleep plan does not stay unknown: after some weeks its events
// wait little longer than those of the same sensors with known plans, within the same
// budget, caps and gaps.
func TestHiddenSleepPlansAreLearned(t *testing.T) {
	t.Parallel()
	par := planner.Parameters{Range: time.Hour, Tick: 100 * time.Millisecond, Step: 1,
		GuardAuto: true, PerSensor: 4, Capacity: 500,
		Polling: dpt.Params{Policy: dpt.DPTN, Bootstrap: 5 * time.Minute, MinGap: 10 * time.Second,
			MaxGap: time.Hour}}
	n, days, most := hiddenSize()
	lastWeek := func(hide bool) (wait float64, res Result) {
		sensors := halfHidden(t, n, soakSeed())
		o := newObserver(sensors, par)
		for i := range sensors {
			if hide && i%2 == 1 {
				sensors[i].Listed.Plan = sleepplan.Unknown()
				o.listed[sensors[i].Listed.ID].Plan = sleepplan.Unknown()
			}
		}
		run := func(days int) Result {
			o.rewind()
			res, err := Run(o.on(Config{Sensors: sensors, Parameters: par, Start: Epoch,
				Seed: 4 + soakSeed(), Duration: time.Duration(days) * 24 * time.Hour, Workers: 2}))
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		before := run(days - 7)
		res = run(days)
		for _, fault := range o.faults {
			t.Error(fault)
		}
		return res.Expected - before.Expected, res
	}
	known, _ := lastWeek(false)
	hidden, res := lastWeek(true)
	t.Logf("%d days: expected latency of the hidden half in the last week %.3g, known %.3g: %.3f; "+
		"%v %v, claimed %d revoked %d", days, hidden, known, hidden/known, res.Visits,
		res.Status.Learners, res.Status.Claims, res.Status.Revoked)
	if hidden > most*known {
		t.Errorf("%.3f times the latency of known plans", hidden/known)
	}
}
