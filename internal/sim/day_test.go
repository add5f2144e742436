package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"strings"
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

// observer checks the planner's promises from outside, by counting.
type observer struct {
	listed   map[string]*fleet.Sensor
	par      planner.Parameters
	theta    int
	spent    int
	perSense map[string]int
	start    time.Time
	rangeNo  int64
	faults   []string       // the first few of each kind
	count    map[string]int // by format
	trace    uint64
	visits   int
}

func newObserver(sensors []Sensor, par planner.Parameters) *observer {
	o := &observer{par: par, start: dayStart, theta: par.Theta(len(sensors)), listed: map[string]*fleet.Sensor{},
		perSense: map[string]int{}, count: map[string]int{}}
	for i := range sensors {
		o.listed[sensors[i].Listed.ID] = &sensors[i].Listed
	}
	return o
}

func (o *observer) watch(v visit.Visit, now time.Time) {
	h := fnv.New64a()
	fmt.Fprint(h, o.trace, v.Sensor, now.UnixNano(), v.Kind, v.Deadline.UnixNano())
	o.trace = h.Sum64()
	if !v.Deadline.After(now) {
		return // missed: nobody is asked
	}
	o.visits++
	if no := int64(now.Sub(o.start) / o.par.Range); no != o.rangeNo {
		o.rangeNo, o.spent, o.perSense = no, 0, map[string]int{}
	}
	o.spent++
	o.perSense[v.Sensor]++
	s := o.listed[v.Sensor]
	if o.spent > o.theta {
		o.fault("%v: attempt %d of a budget of %d", now, o.spent, o.theta)
	}
	if s.MaxCrawls >= 0 && o.perSense[v.Sensor] > s.MaxCrawls {
		o.fault("%v: %s asked %d times, cap %d", now, v.Sensor, o.perSense[v.Sensor], s.MaxCrawls)
	}
	until, limited := s.Plan.KnownUntil()
	known := !limited || now.Before(until)
	if known && !s.Plan.Awake(now) {
		o.fault("%v: %s asked (%v, %s) while it sleeps", now, v.Sensor, v.Kind, v.Why)
	}
	if known && v.Kind == visit.Planned {
		if w, _ := s.Plan.Window(now); v.Deadline.After(w.End) {
			o.fault("%v: %s may be asked until %v, its window ends %v", now, v.Sensor, v.Deadline, w.End)
		}
	}
}

func (o *observer) fault(format string, args ...any) {
	o.count[format]++
	if o.count[format] <= 3 {
		o.faults = append(o.faults, fmt.Sprintf(format, args...))
	}
}

func daySize() (sensors int, hours int) {
	if os.Getenv("CRAWLD_CI") != "" {
		return 10000, 24
	}
	return 2000, 24
}

// A whole virtual day: never outside an awake window, never over a cap or the
// budget at any instant, and the same decisions for any number of workers.
func TestVirtualDay(t *testing.T) {
	n, hours := daySize()
	seed := soakSeed()
	sensors := randomFleet(t, n, seed)
	par := dayParameters()
	var first uint64
	for i, workers := range []int{1, 8} {
		o := newObserver(sensors, par)
		res, err := Run(Config{Sensors: sensors, Parameters: par, Start: dayStart, Seed: seed,
			Duration: time.Duration(hours) * time.Hour, Workers: workers, Watch: o.watch})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range o.faults {
			t.Error(f)
		}
		if i == 0 {
			first = o.trace
			t.Logf("%d sensors, %d h: %d visits %v, %d events, mean latency %.0f s", n, hours,
				o.visits, res.Visits, res.Events, res.Mean())
			if res.Visits[visit.Described] == 0 || res.Visits[visit.Asleep] == 0 {
				t.Errorf("a day without described or unanswered visits: %v", res.Visits)
			}
		}
		if o.trace != first {
			t.Errorf("%d workers decide differently from 1", workers)
		}
	}
}

// The observer must see what it is there for: a planner that is told another
// budget, other caps and other windows than the observer believes is caught.
func TestObserverCatches(t *testing.T) {
	sensors := randomFleet(t, 200, 2)
	par := dayParameters()
	o := newObserver(sensors, par)
	o.theta = 50
	for _, s := range o.listed {
		s.MaxCrawls = 1
	}
	listed := make([]Sensor, len(sensors))
	copy(listed, sensors)
	for i := range listed {
		listed[i].Listed.MaxCrawls = fleet.NoCap
		listed[i].Listed.Plan = sleepplan.AlwaysOn()
	}
	_, err := Run(Config{Sensors: listed, Parameters: par, Start: dayStart, Seed: 3,
		Duration: 2 * time.Hour, Watch: o.watch})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]bool{}
	for _, f := range o.faults {
		for _, word := range []string{"budget", "cap", "sleeps"} {
			if strings.Contains(f, word) {
				kinds[word] = true
			}
		}
	}
	if len(kinds) != 3 {
		t.Errorf("caught only %v of broken budget, caps and windows", kinds)
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
