package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

var start = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func parameters() Parameters {
	return Parameters{Range: 10 * time.Minute, Tick: 100 * time.Millisecond, Step: 1, GuardAuto: true,
		PerSensor: 3, Polling: dpt.Params{Policy: dpt.DPTN, Bootstrap: time.Minute,
			MinGap: 5 * time.Second, MaxGap: 10 * time.Minute}}
}

// sensors numbered from 0 with the given plans, at one event a minute.
func testFleet(t testing.TB, plans ...sleepplan.Plan) *fleet.Fleet {
	t.Helper()
	var list []fleet.Sensor
	for i, p := range plans {
		list = append(list, fleet.Sensor{ID: fmt.Sprintf("s%d", i), Weight: 1,
			URI: fmt.Sprintf("coap://192.0.2.%d/", i+1), MaxCrawls: fleet.NoCap, Rate: 1.0 / 60, Plan: p})
	}
	f, err := fleet.New(list)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func cycle(t *testing.T, period, awake, shift time.Duration) sleepplan.Plan {
	t.Helper()
	p, err := sleepplan.Cycle(period, awake, start.Add(shift))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// driver asks and tells a planner in virtual time.
type driver struct {
	t   *testing.T
	p   *Planner
	now time.Time

	quick bool // silence is noticed within a second
}

func newDriver(t *testing.T, f *fleet.Fleet, par Parameters) *driver {
	t.Helper()
	p, err := New(f, par, Saved{}, start)
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{t: t, p: p, now: start}
	d.solve()
	return d
}

func (d *driver) solve() {
	d.t.Helper()
	if snap, ok := d.p.Problem(d.now); ok {
		plan, err := snap.Solve(1)
		if err != nil {
			d.t.Fatal(err)
		}
		d.p.Adopt(plan, d.now)
	}
}

// next advances to the next visit.
func (d *driver) next() visit.Visit {
	d.t.Helper()
	for range 100000 {
		d.solve()
		v, ok, wake := d.p.Next(d.now)
		if ok {
			return v
		}
		d.now = wake
	}
	d.t.Fatal("no visit comes")
	return visit.Visit{}
}

// tell observes a result that took a second and returns the record.
func (d *driver) tell(v visit.Visit, r visit.Result) *Record {
	o := visit.Outcome{Visit: v, Result: r, Started: d.now, Ended: d.now.Add(time.Second),
		Contact: r != visit.Asleep && r != visit.Missed, Hash: fmt.Sprint(d.now.UnixNano())}
	if r == visit.Asleep && v.Deadline.After(d.now) && !d.quick {
		o.Ended = v.Deadline
	}
	d.now = o.Ended
	return d.p.Observe(o, d.now)
}

func TestPlannedVisitsStayInsideTheirWindows(t *testing.T) {
	d := newDriver(t, testFleet(t, cycle(t, time.Minute, 20*time.Second, 7*time.Second)), parameters())
	for range 20 {
		v := d.next()
		w, awake := d.p.sensors[0].Plan.Window(d.now)
		if !awake || v.Kind != visit.Planned || v.Deadline.After(w.End) {
			t.Fatalf("visit %+v at %v, window %v", v, d.now, w)
		}
		if guard := d.p.sensors[0].rec.PlanGuard; w.End.Sub(d.now) < guard {
			t.Fatalf("starts %v before the window's end, guard %v", w.End.Sub(d.now), guard)
		}
		d.tell(v, visit.Described)
	}
}

// After silence at a window's end comes a confirmable visit at mid-window; two
// unanswered ones in different windows make the sensor unreachable; any contact
// brings it back. A declared plan is kept and reported as contradicted.
func TestSilenceIsEvidence(t *testing.T) {
	d := newDriver(t, testFleet(t, cycle(t, time.Minute, 20*time.Second, 0)), parameters())
	d.tell(d.next(), visit.Described)
	rec := d.tell(d.next(), visit.Asleep)
	if !rec.Mid || rec.Silent != 0 {
		t.Fatalf("after silence at a window's end: mid %v, silent %d", rec.Mid, rec.Silent)
	}
	var windows []time.Time
	for i := 1; i <= 2; i++ {
		v := d.next()
		w, _ := d.p.sensors[0].Plan.Window(d.now)
		if d.now != w.Start.Add(w.Duration()/2) || v.NON {
			t.Fatalf("visit at %v (NON %v), want the middle of %v", d.now, v.NON, w)
		}
		windows = append(windows, w.Start)
		if rec = d.tell(v, visit.Asleep); rec.Silent != i {
			t.Fatalf("silent %d after %d unanswered mid-window visits", rec.Silent, i)
		}
	}
	if windows[0] == windows[1] {
		t.Fatal("both in one window")
	}
	e, _ := d.p.Explain("s0", d.now)
	if !rec.Unreachable || e.State != Unreachable || !e.Contradicted {
		t.Fatalf("unreachable %v, state %v, contradicted %v", rec.Unreachable, e.State, e.Contradicted)
	}
	v := d.next()
	if v.Kind != visit.Probe || !v.NON || !d.p.sensors[0].Plan.Awake(d.now) {
		t.Fatalf("looks for it by %+v at %v", v, d.now)
	}
	rec = d.tell(v, visit.Unchanged)
	if rec.Unreachable || len(rec.Contacts) == 0 {
		t.Fatalf("contact does not bring it back: %+v", rec)
	}
	if v := d.next(); v.Kind != visit.Planned && v.Kind != visit.Retry {
		t.Fatalf("back, but visited as %v", v.Kind)
	}
}

// Always on: two unanswered visits count only when at least a minute apart.
func TestSilenceOfAnAlwaysOnSensor(t *testing.T) {
	par := parameters()
	par.PerSensor = 100
	d := newDriver(t, testFleet(t, sleepplan.AlwaysOn()), par)
	v := d.next()
	d.tell(v, visit.Described)
	first := time.Time{}
	for range 50 {
		v = d.next()
		at := d.now
		o := visit.Outcome{Visit: v, Result: visit.Asleep, Started: at, Ended: at.Add(time.Second)}
		d.now = o.Ended
		rec := d.p.Observe(o, d.now)
		if first.IsZero() {
			first = at
		}
		if want := at.Sub(first) >= time.Minute; rec.Unreachable != want {
			t.Fatalf("unreachable %v %v after the first silence", rec.Unreachable, at.Sub(first))
		}
		if rec.Unreachable {
			return
		}
	}
	t.Fatal("never unreachable")
}

func TestNotStoredTakesTheSourceBack(t *testing.T) {
	d := newDriver(t, testFleet(t, sleepplan.AlwaysOn()), parameters())
	d.tell(d.next(), visit.Described)
	v := d.next()
	before := d.p.sensors[0].rec.clone()
	d.tell(v, visit.Described)
	if d.p.sensors[0].rec.Source == before.Source {
		t.Fatal("success did not move the source")
	}
	d.p.Observe(visit.Outcome{Visit: v, Result: visit.Failed, Reason: NotStored,
		Started: d.now, Ended: d.now}, d.now)
	rec := d.p.sensors[0].rec
	if rec.Source != before.Source || rec.Rate.Mean() != before.Rate.Mean() {
		t.Fatalf("source %v, want %v", rec.Source, before.Source)
	}
	if v := d.next(); v.Kind != visit.Retry || !v.Full || len(v.ETag) > 0 {
		t.Errorf("next visit is %+v, want a retry that fetches in full", v)
	}
}

// A visit whose window has closed is handed out as too late, counts against
// nothing and is planned anew.
func TestMissedVisitCountsAgainstNothing(t *testing.T) {
	d := newDriver(t, testFleet(t, cycle(t, 2*time.Minute, 20*time.Second, 0)), parameters())
	_, _, wake := d.p.Next(d.now)
	d.now = wake.Add(30 * time.Second)
	v, ok, _ := d.p.Next(d.now)
	if !ok || v.Deadline.After(d.now) {
		t.Fatalf("%v %+v, want a visit that is too late", ok, v)
	}
	rec := d.p.Observe(Missed(v, d.now), d.now)
	if rec.Used != 0 || d.p.spent != 0 || rec.Last != visit.Missed {
		t.Fatalf("missed visit counted: used %d, spent %d", rec.Used, d.p.spent)
	}
	if !rec.Source.IsZero() {
		t.Fatal("a missed visit moved the source")
	}
	if v := d.next(); v.At.Before(d.now.Add(-time.Second)) {
		t.Fatalf("planned into the past: %v at %v", v.At, d.now)
	}
}

// So does one that was handed out in time but never reached the wire.
func TestUnsentVisitIsRefunded(t *testing.T) {
	d := newDriver(t, testFleet(t, sleepplan.AlwaysOn(), sleepplan.Unknown()), parameters())
	for range 4 {
		v := d.next()
		before := d.p.spent
		rec := d.tell(v, visit.Missed)
		if d.p.spent != before-1 || rec.Used != 0 || rec.Kinds != (kindCounts{}) || d.p.used[v.Kind] != 0 {
			t.Fatalf("%v visit: spent %d, used %d, by kind %v", v.Kind, d.p.spent, rec.Used, d.p.used)
		}
	}
}

func TestRefusalIsFinalForItsWindow(t *testing.T) {
	par := parameters()
	par.PerSensor = 30
	d := newDriver(t, testFleet(t, cycle(t, 5*time.Minute, 2*time.Minute, 0)), par)
	d.tell(d.next(), visit.Described)
	v := d.next()
	w, _ := d.p.sensors[0].Plan.Window(d.now)
	d.tell(v, visit.Refused)
	if d.next(); d.now.Before(w.End) {
		t.Errorf("asked again at %v in the window until %v", d.now, w.End)
	}
}

func TestRetryAfterHolds(t *testing.T) {
	par := parameters()
	par.PerSensor = 60
	d := newDriver(t, testFleet(t, sleepplan.AlwaysOn()), par)
	v := d.next()
	o := visit.Outcome{Visit: v, Result: visit.Refused, Contact: true, Code: "5.03",
		RetryAfter: 3 * time.Minute, Started: d.now, Ended: d.now}
	d.p.Observe(o, d.now)
	rest := d.now.Add(3 * time.Minute)
	if d.next(); d.now.Before(rest) {
		t.Errorf("asked again at %v, the sensor wanted rest until %v", d.now, rest)
	}
}

// A restart in mid range finds plan, rates, trackers, attempts and last
// successes as they were; what passed meanwhile counts as spent.
func TestRestartResumes(t *testing.T) {
	f := testFleet(t, sleepplan.AlwaysOn(), cycle(t, time.Minute, 20*time.Second, 0), sleepplan.Unknown(),
		cycle(t, 47*time.Second, 13*time.Second, 0))
	par := parameters()
	par.PerSensor = 12
	p, err := New(f, par, Saved{}, start)
	if err != nil {
		t.Fatal(err)
	}
	snap, _ := p.Problem(start)
	plan, err := snap.Solve(1)
	if err != nil {
		t.Fatal(err)
	}
	p.Adopt(plan, start)
	saved := Saved{Fleet: p.FleetRecord(), Sensors: map[string][]byte{}}
	if saved.Plan, err = plan.Encode(); err != nil {
		t.Fatal(err)
	}
	d := &driver{t: t, p: p, now: start, quick: true}
	overdue := func() bool { return p.due.len() > 0 || !p.wait.items[0].at.After(d.now) }
	for i := 0; i < 8 || overdue(); i++ { // what is overdue counts as in flight
		v := d.next()
		result := visit.Described
		if i%4 == 3 {
			result = visit.Asleep
		}
		saved.Sensors[v.Sensor] = d.tell(v, result).Encode()
	}
	again, err := New(f, par, saved, d.now)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.rec, again.rec, cmpopts.IgnoreFields(FleetRecord{}, "Attempts", "Failed")); diff != "" {
		t.Errorf("fleet record (-before +after):\n%s", diff)
	}
	if p.spent != again.spent || p.left != again.left {
		t.Errorf("spent %d left %d, before %d %d", again.spent, again.left, p.spent, p.left)
	}
	for i, s := range p.sensors {
		opts := cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b *dpt.Tracker) bool {
			return same(a, b)
		}), cmp.Comparer(func(a, b *dpt.Search) bool { return same(a, b) }),
			cmp.Comparer(func(a, b *dpt.Learner) bool { return same(a, b) })}
		if diff := cmp.Diff(s.rec, again.sensors[i].rec, opts); diff != "" {
			t.Errorf("%s (-before +after):\n%s", s.ID, diff)
		}
	}
	first, second := &driver{t: t, p: p, now: d.now}, &driver{t: t, p: again, now: d.now}
	for range 10 {
		a, b := first.next(), second.next()
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("after the restart another visit (-before +after):\n%s", diff)
		}
		first.tell(a, visit.Unchanged)
		second.tell(b, visit.Unchanged)
	}
}

func same(a, b any) bool { return string(encodeJSON(a)) == string(encodeJSON(b)) }

// A sensor that was polled when the running range was planned, and has got a
// sleep plan while the daemon was down, is planned at once.
func TestRestartWithANewSleepPlan(t *testing.T) {
	par := parameters()
	par.PerSensor = 20
	d := newDriver(t, testFleet(t, sleepplan.AlwaysOn(), sleepplan.Unknown()), par)
	saved := Saved{Sensors: map[string][]byte{}}
	for range 6 {
		v := d.next()
		saved.Sensors[v.Sensor] = d.tell(v, visit.Described).Encode()
	}
	saved.Sensors["s1"] = []byte(strings.Replace(string(saved.Sensors["s1"]), `"since"`,
		`"version":7,"since"`, 1)) // planned once, in an earlier range
	d.p.rec.Version = 8
	saved.Fleet = d.p.FleetRecord()
	saved.Plan = []byte(fmt.Sprintf(`{"start":%q,"tick":100000000,"version":8,"sensors":[]}`,
		start.Format(time.RFC3339)))
	p, err := New(testFleet(t, sleepplan.AlwaysOn(), sleepplan.AlwaysOn()), par, saved, d.now)
	if err != nil {
		t.Fatal(err)
	}
	if len(p.sensors[1].rec.Instants) == 0 {
		t.Error("not planned in the running range")
	}
}

// A clock that was set back while the daemon was down silences nobody.
func TestRestartWithAnEarlierClock(t *testing.T) {
	f := testFleet(t, sleepplan.AlwaysOn(), sleepplan.Unknown())
	later := newDriver(t, f, parameters())
	saved := Saved{Fleet: later.p.FleetRecord(), Sensors: map[string][]byte{}}
	for range 6 {
		v := later.next()
		saved.Sensors[v.Sensor] = later.tell(v, visit.Described).Encode()
	}
	early := start.Add(-48 * time.Hour)
	p, err := New(f, parameters(), saved, early)
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{t: t, p: p, now: early}
	seen := map[string]int{}
	for d.now.Before(early.Add(4 * parameters().Range)) {
		v := d.next()
		seen[v.Sensor]++
		d.tell(v, visit.Unchanged)
	}
	if seen["s0"] == 0 || seen["s1"] == 0 {
		t.Errorf("asked %v", seen)
	}
}

// What was in flight when the process died counts as spent.
func TestCrashInFlightIsSpent(t *testing.T) {
	f := testFleet(t, sleepplan.AlwaysOn())
	par := parameters()
	p, _ := New(f, par, Saved{}, start)
	snap, _ := p.Problem(start)
	plan, err := snap.Solve(1)
	if err != nil {
		t.Fatal(err)
	}
	p.Adopt(plan, start)
	encoded, _ := plan.Encode()
	d := &driver{t: t, p: p, now: start}
	d.next() // in flight, never observed
	again, err := New(f, par, Saved{Fleet: p.FleetRecord(), Plan: encoded}, d.now.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	if again.spent != 1 || again.sensors[0].rec.Used != 1 {
		t.Errorf("spent %d, used %d, want 1", again.spent, again.sensors[0].rec.Used)
	}
	now := d.now.Add(time.Second)
	v, ok, _ := again.Next(now)
	if !ok || v.Deadline.After(now) {
		t.Fatalf("%v %+v: what passed is not told as missed", ok, v)
	}
	if rec := again.Observe(Missed(v, now), now); rec.Used != 1 || again.spent != 1 {
		t.Errorf("told as missed: spent %d, used %d, want 1", again.spent, rec.Used)
	}
}

func TestReplaceKeepsUnchangedSensors(t *testing.T) {
	slow := cycle(t, time.Minute, 20*time.Second, 0)
	par := parameters()
	par.PerSensor = 6 // the newcomer's crawls are then no one else's
	d := newDriver(t, testFleet(t, sleepplan.AlwaysOn(), slow, sleepplan.Unknown()), par)
	for range 5 {
		d.tell(d.next(), visit.Described)
	}
	keep := d.p.sensors[0].rec.clone()
	at := d.p.sensors[0].at
	spent := d.p.spent
	learner := d.p.sensors[2].rec.Learner
	next := testFleet(t, sleepplan.AlwaysOn(), cycle(t, 2*time.Minute, 30*time.Second, 0),
		sleepplan.Unknown(), sleepplan.AlwaysOn())
	d.p.Replace(next, d.now)
	if d.p.sensors[0].at != at || d.p.sensors[0].rec.Source != keep.Source || d.p.spent != spent {
		t.Error("an unchanged sensor lost its state")
	}
	if learner == nil || d.p.sensors[2].rec.Learner != learner {
		t.Error("an unchanged sensor lost its learner")
	}
	if len(d.p.sensors[3].rec.Instants) == 0 {
		t.Error("a new sensor is not planned in the running range")
	}
	for _, at := range d.p.sensors[1].rec.Instants {
		if !d.p.sensors[1].Plan.Awake(at) {
			t.Errorf("changed plan: still crawled at %v", at)
		}
	}
	d.p.Replace(testFleet(t, sleepplan.AlwaysOn()), d.now)
	if d.p.Observe(visit.Outcome{Visit: visit.Visit{Sensor: "s2"}}, d.now) != nil {
		t.Error("outcome of a sensor that left gives a record")
	}
	for range 5 {
		if v := d.next(); v.Sensor != "s0" {
			t.Fatalf("visits %s, which has left", v.Sensor)
		} else {
			d.tell(v, visit.Unchanged)
		}
	}
}

// A clock that jumps to and fro neither buys crawls nor starves the fleet: the budget is
// one of time as it passes.
func TestJumpBuysNoCrawls(t *testing.T) {
	d := newDriver(t, testFleet(t, sleepplan.AlwaysOn(), sleepplan.AlwaysOn()), parameters())
	visits, off := 0, time.Duration(0)
	for i := range 40 {
		jump := time.Duration(1+i) * time.Hour
		if i%2 == 1 {
			jump = -jump
		}
		d.now, off = d.now.Add(jump), off+jump
		d.p.Jump(jump, d.now)
		for step := time.Duration(0); step < 3*time.Minute; {
			d.solve()
			v, ok, wake := d.p.Next(d.now)
			if !ok {
				wait := min(wake.Sub(d.now), 3*time.Minute-step)
				d.now, step = d.now.Add(wait), step+wait
				continue
			}
			if v.Deadline.After(d.now) {
				visits++
			}
			step += time.Second
			d.tell(v, visit.Unchanged)
		}
	}
	gone := d.now.Add(-off).Sub(start)
	theta, ranges := parameters().Theta(2), int(gone/parameters().Range)
	if visits > (ranges+1)*theta || visits < ranges*theta/2 {
		t.Errorf("%d visits in %d ranges of %d while the clock jumped", visits, ranges, theta)
	}
}

// What was spent of a range is spent, also where the clock jumped in it and the daemon
// died after that, with records from before.
func TestJumpAndCrashBuyNoCrawls(t *testing.T) {
	f, par := testFleet(t, sleepplan.AlwaysOn(), sleepplan.AlwaysOn()), parameters()
	d := newDriver(t, f, par)
	saved := Saved{Sensors: map[string][]byte{}}
	for range 4 {
		v := d.next()
		saved.Sensors[v.Sensor] = d.tell(v, visit.Described).Encode()
	}
	spent, left := d.p.spent, d.p.end().Sub(d.now)
	for _, jump := range []time.Duration{time.Hour, -365 * 24 * time.Hour} {
		d.now = d.now.Add(jump)
		d.p.Jump(jump, d.now)
	}
	saved.Fleet = d.p.FleetRecord()
	p, err := New(f, par, saved, d.now)
	if err != nil {
		t.Fatal(err)
	}
	if spent != 4 || p.spent != spent || !p.end().Equal(d.now.Add(left)) {
		t.Errorf("%d spent and %v left, after a jump and a restart %d and %v", spent, left, p.spent,
			p.end().Sub(d.now))
	}
}

// A sensor that is worth less than the others is crawled for the first time all the same:
// the longer it waits, the more that is worth.
func TestFirstCrawlComesInTheEnd(t *testing.T) {
	list := make([]fleet.Sensor, 3)
	for i := range list {
		list[i] = fleet.Sensor{ID: fmt.Sprintf("s%d", i), URI: fmt.Sprintf("coap://192.0.2.%d/", i+1),
			Weight: 1, MaxCrawls: fleet.NoCap, Rate: 1.0 / 60, RateFixed: true, Plan: sleepplan.AlwaysOn()}
	}
	list[2].Rate = 1.0 / 60 / 120
	f, err := fleet.New(list)
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, f, parameters())
	for d.now.Before(start.Add(20 * parameters().Range)) {
		v := d.next()
		if v.Sensor == "s2" {
			if gone := d.now.Sub(start); gone < parameters().Range {
				t.Errorf("after %v already: the others are not worth more", gone)
			}
			return
		}
		d.tell(v, visit.Unchanged)
	}
	t.Errorf("never asked in 20 ranges")
}

// Why names the binding thing with its number; the test works it out again.
func TestWhyCanBeRecomputed(t *testing.T) {
	plan := cycle(t, time.Minute, 20*time.Second, 0)
	d := newDriver(t, testFleet(t, plan, sleepplan.AlwaysOn()), parameters())
	d.tell(d.next(), visit.Described)
	d.tell(d.next(), visit.Described)
	seen := map[string]bool{}
	for range 12 {
		v := d.next()
		guard := d.p.sensors[0].rec.PlanGuard
		if guard != DefaultGuard {
			guard = (guard + d.p.par.Tick - 1).Truncate(d.p.par.Tick)
		}
		switch w, _ := plan.Window(v.At); {
		case v.Sensor == "s1":
			if !strings.HasPrefix(v.Why, "always on: balanced") {
				t.Errorf("why %q", v.Why)
			}
		case w.End.Sub(v.At) <= guard+2*d.p.par.Tick:
			seen["end"] = true
			want := fmt.Sprintf("window end %s less guard %v; worth %.3g against price %.3g",
				clock(w.End), guard, v.Value, d.p.rec.Price)
			if w.End.Sub(v.At) < guard {
				t.Errorf("%v before the end, guard %v", w.End.Sub(v.At), guard)
			}
			if v.Why != want {
				t.Errorf("why %q, want %q", v.Why, want)
			}
		}
		d.tell(v, visit.Unchanged)
	}
	if !seen["end"] {
		t.Error("no visit at a window's end was seen")
	}
}
