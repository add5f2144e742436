package planner

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// world answers a planner's visits as sensors do that are awake by their true plans.
type world struct {
	*driver
	truth map[string]sleepplan.Plan // of sensors that are not awake by their listing
	seen  []visit.Outcome
	count int // descriptions
}

// step makes the next visit.
func (w *world) step() visit.Outcome {
	w.t.Helper()
	v := w.next()
	for ; !v.Deadline.After(w.now); v = w.next() {
		w.p.Observe(Missed(v, w.now), w.now)
	}
	o := visit.Outcome{Visit: v, Result: visit.Asleep, Started: w.now,
		Ended: w.now.Add(100 * time.Millisecond)}
	if w.truth[v.Sensor].Awake(w.now) {
		w.count++
		o.Result, o.Contact, o.Code = visit.Described, true, "2.05"
		o.Hash = fmt.Sprint(w.count)
	}
	w.now = o.Ended
	w.p.Observe(o, w.now)
	w.seen = append(w.seen, o)
	return o
}

func (w *world) sensor(id string) *sensor {
	i, _ := w.p.fleet.Find(id)
	return w.p.sensors[i]
}

// hiding is a fleet of a sensor s0 that hides its sleep plan, 30 s in 5 min, one that
// never sleeps and one with a listed plan.
func hiding(t *testing.T) (*world, *fleet.Fleet) {
	t.Helper()
	truth, listed := cycle(t, 5*time.Minute, 30*time.Second, time.Minute), cycle(t, time.Minute,
		20*time.Second, 0)
	f := testFleet(t, sleepplan.Unknown(), sleepplan.AlwaysOn(), listed)
	return &world{driver: newDriver(t, f, hidingParameters()), truth: map[string]sleepplan.Plan{
		"s0": truth, "s1": sleepplan.AlwaysOn(), "s2": listed}}, f
}

func hidingParameters() Parameters {
	par := parameters()
	par.Range, par.PerSensor = time.Hour, 30
	par.Polling.MaxGap = time.Hour
	return par
}

// untilClaimed goes on until the plan of s0 is claimed.
func (w *world) untilClaimed() *sensor {
	w.t.Helper()
	s := w.sensor("s0")
	for _, claimed := s.claim(w.now); !claimed; _, claimed = s.claim(w.now) {
		if w.now.Sub(start) > 20*24*time.Hour {
			w.t.Fatalf("no claim after %d visits: %+v", len(w.seen), s.learned(w.now))
		}
		w.step()
	}
	return s
}

func (w *world) saved() Saved {
	saved := Saved{Fleet: w.p.FleetRecord(), Sensors: map[string][]byte{}}
	for _, s := range w.p.sensors {
		saved.Sensors[s.ID] = s.rec.Encode()
	}
	return saved
}

// A claim becomes the sensor's sleep plan, with its guard, and is planned at once. What was
// watched is counted by awake time from then on.
func TestClaimIsTaken(t *testing.T) {
	w, _ := hiding(t)
	s := w.sensor("s0")
	var first time.Time
	for s.Plan.Equal(sleepplan.Unknown()) {
		if first.IsZero() {
			first = s.rec.Source
		}
		if e, _ := w.p.Explain("s0", w.now); e.State != Learning && e.State != Unknown {
			t.Fatalf("state %v without a plan", e.State)
		}
		w.step()
		if w.now.Sub(start) > 20*24*time.Hour {
			t.Fatal("no claim")
		}
	}
	if s.rec.Version != w.p.rec.Version {
		t.Error("not planned in the running range")
	}
	e, _ := w.p.Explain("s0", w.now)
	l := e.Learner
	if l == nil || l.State != "claimed" || l.Probes == 0 || l.Confidence < .5 ||
		math.Abs(l.Period-300) > .3 || math.Abs(l.Awake-30) > 6 {
		t.Fatalf("learned %+v", l)
	}
	if e.State == Learning || e.State == Unknown || e.Guard < s.edge.Seconds() || s.edge <= 0 {
		t.Errorf("state %v, guard %v s, edge %v", e.State, e.Guard, s.edge)
	}
	if plan := w.p.SleepPlan("s0"); !plan.Equal(s.Plan) || e.SleepPlan != plan.String() {
		t.Errorf("sleep plan %v, explained as %s", plan, e.SleepPlan)
	}
	duty := l.Awake / l.Period
	got := s.rec.Rate.Exposure() / s.rec.Source.Sub(first).Seconds()
	if math.Abs(got/duty-1) > .1 {
		t.Errorf("exposure is %.4f of all time, want the duty cycle of %.4f", got, duty)
	}
	st := w.p.Status(w.now)
	if st.Claims != 1 || st.Revoked != 0 || st.Learners["claimed"] != 1 {
		t.Errorf("%+v", st)
	}
	for range 200 {
		o := w.step()
		if o.Sensor != "s0" || o.Kind == visit.Probe {
			continue
		}
		if _, awake := s.Plan.Window(o.Started); !awake || o.Result != visit.Described {
			t.Fatalf("%v visit at %v comes to %v", o.Kind, o.Started, o.Result)
		}
	}
}

// A restart and a reload of the same lists leave plan and rate as they are, to the bit; so
// does a reload that changes something else of the sensor.
func TestClaimOutlivesRestartAndReload(t *testing.T) {
	w, f := hiding(t)
	s := w.untilClaimed()
	for range 50 {
		w.step()
	}
	saved := w.saved()
	again, err := New(f, hidingParameters(), saved, w.now)
	if err != nil {
		t.Fatal(err)
	}
	back := again.sensors[0]
	if !back.Plan.Equal(s.Plan) || back.edge != s.edge || back.rec.Duty != s.rec.Duty {
		t.Errorf("plan %v edge %v duty %v, before %v %v %v", back.Plan, back.edge, back.rec.Duty, s.Plan,
			s.edge, s.rec.Duty)
	}
	if diff := cmp.Diff(s.rec.Rate, back.rec.Rate); diff != "" {
		t.Errorf("rate (-before +after)\n%s", diff)
	}
	rate, plan := s.rec.Rate.clone(), s.Plan
	w.p.Replace(f, w.now)
	heavier := testFleet(t, sleepplan.Unknown(), sleepplan.AlwaysOn(), f.At(2).Plan)
	heavier.At(0).Weight = 2
	w.p.Replace(heavier, w.now)
	if s = w.sensor("s0"); s.Weight != 2 {
		t.Fatal("the listing did not change")
	}
	if diff := cmp.Diff(rate, s.rec.Rate); diff != "" || !s.Plan.Equal(plan) {
		t.Errorf("plan %v, before %v; rate (-before +after)\n%s", s.Plan, plan, diff)
	}
	if st := again.Status(w.now); st.Claims != 0 {
		t.Errorf("a claim that was found again counts as new: %d", st.Claims)
	}
}

// A plan that is listed later wins, and what was learned goes; listed plans are not
// learned, nor are their sensors probed.
func TestListedPlanWins(t *testing.T) {
	w, f := hiding(t)
	s := w.untilClaimed()
	duty, exposure := s.rec.Duty, s.rec.Rate.Exposure()
	listed := cycle(t, 10*time.Minute, 2*time.Minute, 0)
	w.p.Replace(testFleet(t, listed, sleepplan.AlwaysOn(), f.At(2).Plan), w.now)
	s = w.sensor("s0")
	if !s.Plan.Equal(listed) || s.edge != 0 || s.rec.Learner != nil || s.rec.Duty != 0 {
		t.Errorf("plan %v edge %v learner %v duty %v", s.Plan, s.edge, s.rec.Learner, s.rec.Duty)
	}
	if got, want := s.rec.Rate.Exposure()/exposure, .2/duty; math.Abs(got/want-1) > .01 {
		t.Errorf("exposure counts %.3f of what it did, want %.3f", got, want)
	}
	e, _ := w.p.Explain("s0", w.now)
	if e.Learner != nil || len(s.rec.Instants) == 0 {
		t.Errorf("learner %+v, %d crawls planned", e.Learner, len(s.rec.Instants))
	}
	for _, o := range w.seen {
		if o.Sensor != "s0" && o.Kind == visit.Probe {
			t.Fatalf("%s is probed: %s", o.Sensor, o.Why)
		}
	}
	for _, id := range []string{"s1", "s2"} {
		if x := w.sensor(id); x.rec.Learner != nil || x.rec.Duty != 0 || !x.Plan.Equal(x.Sensor.Plan) {
			t.Errorf("%s: learner %v, plan %v", id, x.rec.Learner, x.Plan)
		}
	}
	w.p.Replace(f, w.now) // hidden again: what was watched counts by all time
	if s = w.sensor("s0"); s.rec.Duty != 1 || !s.polled(w.now) {
		t.Errorf("duty %v, polled %v", s.rec.Duty, s.polled(w.now))
	}
	if got := s.rec.Rate.Exposure() / exposure; math.Abs(got*duty-1) > .01 {
		t.Errorf("exposure counts %.3f of what it did, want %.3f", got, 1/duty)
	}
}

// Two unanswered confirmable visits in the middle of different windows take a claim back,
// nothing else does: not silence to probes, at a window's end, or twice in one window.
func TestClaimIsRevoked(t *testing.T) {
	w, _ := hiding(t)
	s := w.untilClaimed()
	from := len(w.seen)
	w.truth["s0"] = sleepplan.Unknown() // never awake
	silent := map[time.Time]bool{}
	probes, ends := 0, 0
	for len(silent) < maxSilent {
		plan := s.Plan
		if _, claimed := s.claim(w.now); !claimed {
			t.Fatalf("revoked after %d silent windows and %d probes", len(silent), probes)
		}
		o := w.step()
		win, awake := plan.Window(o.Started)
		quarter := win.Duration() / 4
		switch {
		case o.Sensor != "s0":
		case o.NON:
			probes++
		case !awake || o.Started.Before(win.Start.Add(quarter)) || o.Started.After(win.End.Add(-quarter)):
			ends++
		default:
			silent[win.Start.Truncate(time.Second)] = true
		}
		if len(w.seen)-from > 2000 {
			t.Fatalf("not revoked: %d probes, %d at edges, silent %v", probes, ends, silent)
		}
	}
	if _, claimed := s.claim(w.now); claimed || !s.polled(w.now) || s.rec.Unreachable ||
		w.p.Status(w.now).Revoked != 1 || len(s.rec.Margins) > 0 {
		t.Errorf("after silence in %d windows: claimed %v, %+v", len(silent), claimed, s.learned(w.now))
	}
	if ends == 0 {
		t.Error("no visit at a window's end was silent first")
	}
	if s.rec.Duty != 1 {
		t.Errorf("duty %v without a claim", s.rec.Duty)
	}
}

// Probes revoke nothing, however many are lost in the middle of windows.
func TestLostProbesRevokeNothing(t *testing.T) {
	w, _ := hiding(t)
	s := w.untilClaimed()
	for range 10 {
		win, _ := s.Plan.NextWindow(w.now.Add(time.Minute))
		at := win.Start.Add(win.Duration() / 2)
		o := visit.Outcome{Visit: visit.Visit{Sensor: "s0", Kind: visit.Probe, NON: true, At: at},
			Result: visit.Asleep, Started: at, Ended: at.Add(probeWait)}
		w.now = o.Ended
		w.p.Observe(o, w.now)
		if _, claimed := s.claim(w.now); !claimed || s.rec.Silent > 0 || s.rec.Unreachable {
			t.Fatalf("claimed %v, silent %d, unreachable %v", claimed, s.rec.Silent, s.rec.Unreachable)
		}
	}
}

// What the learner probes counts against budget and caps, before the claim and after, and
// holds the least gap.
func TestProbesCount(t *testing.T) {
	w, _ := hiding(t)
	par := hidingParameters()
	par.PerSensor = 8
	f := testFleet(t, sleepplan.Unknown(), sleepplan.AlwaysOn(), sleepplan.Unknown())
	f.At(2).MaxCrawls = 5
	w.driver = newDriver(t, f, par)
	w.truth["s2"] = cycle(t, 7*time.Minute, time.Minute, 0)
	used, last := map[string]map[time.Time]int{}, map[string]time.Time{}
	probes, capped, full := 0, 0, map[time.Time]int{}
	for w.now.Sub(start) < 24*time.Hour {
		o := w.step()
		begin := w.p.rec.Range
		for id, n := range map[string]int{o.Sensor: 0, "": 0} {
			if used[id] == nil {
				used[id] = map[time.Time]int{}
			}
			used[id][o.Started.Truncate(par.Range)] += 1 + n
		}
		if o.Kind == visit.Probe {
			probes++
		}
		if gap := o.Started.Sub(last[o.Sensor]); gap < par.Polling.MinGap && o.Kind != visit.Planned {
			t.Fatalf("%s: %v after the last visit, %v", o.Sensor, gap, o.Kind)
		}
		last[o.Sensor] = o.Started
		sum := 0
		for _, n := range w.p.used {
			sum += n
		}
		if sum != w.p.spent || used[""][begin] > w.p.rec.Theta || w.p.spent > w.p.rec.Theta {
			t.Fatalf("spent %d, by kind %d, seen %d of %d", w.p.spent, sum, used[""][begin], w.p.rec.Theta)
		}
		if n := used["s2"][begin]; n > 5 {
			t.Fatalf("s2: %d visits, cap 5", n)
		} else if n == 5 {
			capped++
		}
		full[begin] = used[""][begin]
	}
	spent := slices.Contains(slices.Collect(maps.Values(full)), w.p.rec.Theta)
	if probes < 30 || capped < 10 || !spent {
		t.Errorf("%d probes, %d times at the cap, visits %v", probes, capped, full)
	}
}

// A budget that is spent puts a claimed sensor's probes off to the next range; the planner
// does not ask for them over and over.
func TestSpentBudgetPutsProbesOff(t *testing.T) {
	w, _ := hiding(t)
	s := w.untilClaimed()
	w.p.spend(s, visit.Manual, w.p.rec.Theta)
	s.probe = probe{at: w.now.Add(time.Second), why: "learner: due", stretch: 1}
	w.p.schedule(s, w.now)
	asked, end := 0, w.p.end()
	for w.now.Before(end) {
		w.solve()
		if _, ok, wake := w.p.Next(w.now); ok {
			t.Fatal("a visit beyond the budget")
		} else {
			w.now = wake
		}
		if asked++; asked > 500 {
			t.Fatalf("asked %d times by %v of the range until %v", asked, w.now, end)
		}
	}
}

// Rescaled there and back a rate is what it was, and a learned prior scales with it.
func TestRescale(t *testing.T) {
	listed := NewRate(.01, false)
	listed.Events(40, 5000)
	zero := NewRate(0, false)
	zero.Visit(true, 100)
	zero.Events(20, 3000)
	for _, r := range []Rate{listed, zero} {
		was := r.Mean()
		r.rescale(.1)
		if fast := r.Mean(); fast < 3*was {
			t.Errorf("%v becomes %v when a tenth of the time counts", was, fast)
		}
		r.rescale(10)
		if math.Abs(r.Mean()/was-1) > 1e-9 {
			t.Errorf("%v comes back as %v", was, r.Mean())
		}
	}
	zero.rescale(.1)
	if got := zero.Mean(); math.Abs(got/(21+priorEvents)*(3100+100*priorEvents)/10-1) > .02 {
		t.Errorf("a rate that was learned alone scales to %v", got)
	}
}
