package sim

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

var dayStart = time.Date(2026, 3, 28, 18, 0, 0, 0, time.UTC)

func dayParameters() planner.Parameters {
	return planner.Parameters{Range: time.Hour, Tick: 100 * time.Millisecond, Step: 1,
		GuardAuto: true, PerSensor: 2, Capacity: 500,
		Polling: dpt.Params{Policy: dpt.DPTN, Bootstrap: 5 * time.Minute,
			MinGap: 10 * time.Second, MaxGap: time.Hour}}
}

// randomFleet draws sensors of every kind, some with caps, some that lose, some
// whose plan is hidden from the planner.
func randomFleet(tb testing.TB, n int, seed uint64) []Sensor {
	tb.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	out := make([]Sensor, n)
	for i := range out {
		plan, err := randomPlan(rng)
		if err != nil {
			tb.Fatal(err)
		}
		rate := 0.5 / 3600 * (1 + 20*rng.Float64())
		s := Sensor{Plan: plan, Rate: rate, Listed: fleet.Sensor{ID: fmt.Sprintf("s%05d", i),
			URI: fmt.Sprintf("coap://10.%d.%d.%d/", i>>16, i>>8&255, i&255), Weight: 1 + float64(i%3),
			MaxCrawls: fleet.NoCap, Rate: rate, Plan: plan}}
		if i%4 == 0 {
			s.Listed.MaxCrawls = i % 3
		}
		if i%5 == 0 {
			s.Loss = 0.2
		}
		if i%10 == 9 {
			s.Listed.Plan = sleepplan.Unknown()
		}
		out[i] = s
	}
	return out
}

func randomPlan(rng *rand.Rand) (sleepplan.Plan, error) {
	switch rng.IntN(4) {
	case 0:
		return sleepplan.AlwaysOn(), nil
	case 1:
		period := time.Duration(1+rng.IntN(30)) * time.Minute
		awake := time.Duration(float64(period) * (0.02 + 0.3*rng.Float64()))
		return sleepplan.Cycle(period, awake, dayStart.Add(time.Duration(rng.IntN(3600))*time.Second))
	case 2:
		from, to := rng.IntN(24), rng.IntN(24)
		if from == to {
			to = (to + 1) % 24
		}
		return sleepplan.Weekly([]string{fmt.Sprintf("daily %02d:00:05-%02d:30", from, to)},
			"Europe/Berlin", nil)
	}
	var ws []sleepplan.Window
	for at := dayStart; at.Before(dayStart.Add(26 * time.Hour)); {
		at = at.Add(time.Duration(1+rng.IntN(7200)) * time.Second)
		end := at.Add(time.Duration(2+rng.IntN(600)) * time.Second)
		ws = append(ws, sleepplan.Window{Start: at, End: end})
		at = end.Add(time.Second)
	}
	return sleepplan.Explicit(ws)
}

func daySize() (sensors, hours int) {
	if os.Getenv("CRAWLD_CI") != "" {
		return 10000, 24
	}
	return 1000, 24
}

// A whole virtual day: every promise that the observer knows of holds at any instant.
func TestVirtualDay(t *testing.T) {
	t.Parallel()
	n, hours := daySize()
	sensors := randomFleet(t, n, soakSeed())
	o, res := observedDay(t, sensors, hours, 8)
	o.report(t)
	t.Logf("%d sensors, %d h: %d visits %v, %d events, mean latency %.0f s; events waited %.3f "+
		"of what was promised; busiest minute %d starts", n, hours, o.visits, res.Visits,
		res.Events, res.Mean(), o.fresh.waited/o.fresh.promised, o.minute.busiest)
	if res.Visits[visit.Described] == 0 || res.Visits[visit.Asleep] == 0 {
		t.Errorf("a day without described or unanswered visits: %v", res.Visits)
	}
}

// Decisions are the same for any number of workers.
func TestWorkersDecideAlike(t *testing.T) {
	t.Parallel()
	sensors := randomFleet(t, 600, soakSeed())
	one, _ := observedDay(t, sensors, 12, 1)
	for _, workers := range []int{2, 8} {
		if o, _ := observedDay(t, sensors, 12, workers); o.trace != one.trace || o.visits == 0 {
			t.Errorf("%d workers decide differently from 1", workers)
		}
	}
}

func observedDay(t *testing.T, sensors []Sensor, hours, workers int) (*observer, Result) {
	t.Helper()
	par := dayParameters()
	o := newObserver(sensors, par)
	res, err := Run(o.on(Config{Sensors: sensors, Parameters: par, Start: dayStart, Seed: soakSeed(),
		Duration: time.Duration(hours) * time.Hour, Workers: workers, Paced: true}))
	if err != nil {
		t.Fatal(err)
	}
	return o, res
}

// Where the capacity leaves little room, starts keep it in every minute, and nothing else
// breaks. Freshness is not looked at: a plan promises nothing of the crawls that it finds no
// second for, and most of them are made later on.
func TestVirtualRush(t *testing.T) {
	t.Parallel()
	sensors := randomFleet(t, 600, 20+soakSeed())
	par := dayParameters()
	par.Capacity = 1
	for _, paced := range []bool{true, false} {
		o := newObserver(sensors, par)
		_, err := Run(o.on(Config{Sensors: sensors, Parameters: par, Start: dayStart, Seed: 4,
			Duration: 12 * time.Hour, Paced: paced}))
		if err != nil {
			t.Fatal(err)
		}
		rush := o.count[faultRush]
		t.Logf("paced %v: %d visits, busiest minute %d starts", paced, o.visits, o.minute.busiest)
		if full := 60 * par.Capacity; paced && o.minute.busiest < full {
			t.Errorf("no minute had %d starts: the capacity was not tried", full)
		}
		if !paced && rush == 0 {
			t.Error("starts that keep no pace go unnoticed")
		}
		delete(o.count, faultRush)
		if paced && rush > 0 || len(o.count) > 0 {
			t.Errorf("%d minutes with too many starts; %q", rush, o.faults)
		}
	}
}

// A fleet that nobody has crawled yet wants all of its first crawls at once. Those that find
// no second are made later; they are no reason to plan the others anew, again and again, and
// put them off each time.
func TestFirstHourUnderACapacity(t *testing.T) {
	const n = 1000
	sensors := randomFleet(t, n, 30+soakSeed())
	hour := func(capacity int) Result {
		par := dayParameters()
		par.Capacity = capacity
		res, err := Run(Config{Sensors: sensors, Parameters: par, Start: dayStart, Seed: 1,
			Duration: time.Hour, Paced: true})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	free, limited := hour(0), hour(n/200)
	t.Logf("expected latency without a limit %.4g s, with one %.4g s; planned anew %d and %d times; "+
		"%d crawls found no second", free.Expected, limited.Expected, free.Status.Mended,
		limited.Status.Mended, limited.Status.Spilled)
	if limited.Status.Spilled < n/20 {
		t.Errorf("only %d crawls found no second", limited.Status.Spilled)
	}
	if limited.Expected > 1.1*free.Expected {
		t.Errorf("%.2f times the latency", limited.Expected/free.Expected)
	}
}

// A million sensors for an hour, each with a description already. For a soak.
func TestVirtualHour(t *testing.T) {
	if os.Getenv("CRAWLD_SOAK") == "" {
		t.Skip("takes minutes and gigabytes: set CRAWLD_SOAK=1")
	}
	const n = 1_000_000
	defer debug.SetGCPercent(debug.SetGCPercent(50)) // 7 GB instead of 10
	sensors := randomFleet(t, n, soakSeed())
	par := dayParameters()
	par.Capacity = n / 1000
	o := newObserver(sensors, par)
	res, err := Run(o.on(Config{Sensors: sensors, Parameters: par, Start: dayStart, Seed: soakSeed(),
		Duration: time.Hour, Crawled: true, Workers: runtime.GOMAXPROCS(0), Paced: true}))
	if err != nil {
		t.Fatal(err)
	}
	o.report(t)
	t.Logf("%d sensors, %d h: %d visits %v, %d events; events waited %.3f of what was promised; "+
		"busiest minute %d starts", n, 1, o.visits, res.Visits, res.Events,
		o.fresh.waited/o.fresh.promised, o.minute.busiest)
}

// The observer must see what it is there for: a planner that is told another budget, other
// caps, windows, gaps and a higher capacity than the observer believes is caught, and so are
// sensors that answer less often than plans can know.
func TestObserverCatches(t *testing.T) {
	sensors := randomFleet(t, 200, 2)
	par := dayParameters()
	par.PerSensor = 4
	o := newObserver(sensors, par)
	o.theta, o.par.Capacity, o.par.Polling.MinGap = 50, 1, 20*time.Minute
	o.par.Polling.Bootstrap = 20 * time.Minute
	for _, s := range o.listed {
		s.MaxCrawls = 1
	}
	told := slices.Clone(sensors)
	for i := range told {
		told[i].Listed.MaxCrawls = fleet.NoCap
		told[i].Out = 0.4
		if i%10 != 9 { // those stay hidden, and are polled
			told[i].Listed.Plan = sleepplan.AlwaysOn()
		}
	}
	_, err := Run(o.on(Config{Sensors: told, Parameters: par, Start: dayStart, Seed: 3,
		Duration: 4 * time.Hour}))
	if err != nil {
		t.Fatal(err)
	}
	at := dayStart.Add(4 * time.Hour)
	for range 2 { // the second time before the first one has ended
		o.watch(visit.Visit{Sensor: told[0].Listed.ID, At: at, Deadline: at.Add(time.Minute)}, at)
	}
	for _, f := range []string{faultBudget, faultCap, faultAsleep, faultWindow, faultTwice, faultGap,
		faultRush} {
		if o.count[f] == 0 {
			t.Errorf("goes unnoticed: %q", f)
		}
	}
	if err := o.fresh.check(); err == nil || o.fresh.waited < o.fresh.promised {
		t.Errorf("%.4g s waited, %.4g s promised: that goes unnoticed", o.fresh.waited, o.fresh.promised)
	}
}

// The plan beats the baselines of the EasiCrawl paper at the same budget,
// through the same planner.
func TestPlanBeatsBaselines(t *testing.T) {
	sensors := randomFleet(t, 300, 5)
	for i := range sensors {
		sensors[i].Loss, sensors[i].Listed.Plan, sensors[i].Listed.MaxCrawls = 0, sensors[i].Plan, fleet.NoCap
		sensors[i].Listed.RateFixed = true
	}
	means := map[string]float64{}
	for name, algorithm := range map[string]scheduler.Algorithm{"crawld": nil,
		"random": scheduler.RandomCrawl, "even": scheduler.Even, "snapped": scheduler.EvenSnapped} {
		par := dayParameters()
		par.PerSensor, par.Capacity, par.Algorithm = 4, 0, algorithm
		res, err := Run(Config{Sensors: sensors, Parameters: par, Start: dayStart, Seed: 9,
			Duration: 12 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		means[name] = res.Mean()
		t.Logf("%-8s mean latency %6.0f s, %v, %d events, %d unseen", name, res.Mean(), res.Visits,
			res.Events, res.Unseen)
	}
	for _, rival := range []string{"random", "even", "snapped"} {
		if means["crawld"] >= means[rival] {
			t.Errorf("crawld %.0f s is not below %s %.0f s", means["crawld"], rival, means[rival])
		}
	}
}
