package planner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// An announced visit is due at once, before planned ones, inside the window, and counts.
func TestAnnouncedVisitComesAtOnce(t *testing.T) {
	f := testFleet(t, cycle(t, time.Minute, 20*time.Second, 0), sleepplan.Unknown())
	d := newDriver(t, f, parameters())
	for _, id := range []string{"s0", "s1"} {
		for d.p.Record(id).LastAttempt.IsZero() {
			d.tell(d.next(), visit.Described)
		}
	}
	d.now = d.now.Add(time.Minute).Truncate(time.Minute).Add(time.Second) // awake
	spent := d.p.spent
	if err := d.p.Announce("s0", d.now); err != nil {
		t.Fatal(err)
	}
	v, ok, _ := d.p.Next(d.now)
	w, _ := f.At(0).Plan.Window(d.now)
	if !ok || v.Sensor != "s0" || v.Kind != visit.Announced || v.At != d.now || v.Deadline != w.End {
		t.Fatalf("%v %+v, window %v", ok, v, w)
	}
	if d.p.spent != spent+1 || d.p.used[visit.Announced] != 1 {
		t.Errorf("spent %d after %d, announced %d", d.p.spent, spent, d.p.used[visit.Announced])
	}
	if err := d.p.Announce("s0", d.now); !errors.Is(err, ErrUnderWay) {
		t.Errorf("announced again: %v", err)
	}
	at := d.now
	rec := d.tell(v, visit.Described)
	if rec.Source != at {
		t.Errorf("source %v after a visit at %v", rec.Source, at)
	}
	if err := d.p.Announce("s0", d.now); !errors.Is(err, ErrGap) {
		t.Errorf("within the minimum gap: %v", err)
	}
	if err := d.p.Announce("other", d.now); !errors.Is(err, ErrUnlisted) {
		t.Errorf("not listed: %v", err)
	}
}

// A sensor taken for unreachable is back at its first word.
func TestContactBringsASensorBack(t *testing.T) {
	d := newDriver(t, testFleet(t, cycle(t, time.Minute, 20*time.Second, 0)), parameters())
	for range 20 {
		if d.tell(d.next(), visit.Asleep).Unreachable {
			break
		}
	}
	rec := d.p.Record("s0")
	if !rec.Unreachable {
		t.Fatal("not unreachable")
	}
	if !d.p.Contact("s0", d.now) || rec.Unreachable || rec.Contacts[len(rec.Contacts)-1] != d.now {
		t.Errorf("unreachable %v, contacts %v", rec.Unreachable, rec.Contacts)
	}
	if v := d.next(); v.Kind != visit.Planned && v.Kind != visit.Retry {
		t.Errorf("visited as %v", v.Kind)
	}
	if d.p.Contact("other", d.now) {
		t.Error("contact with a sensor that is not there")
	}
}

// attempts counts what is handed out, with nothing of the planner's own counters.
type attempts struct {
	ranges map[time.Time]int
	each   map[string]int       // "range sensor"
	last   map[string]time.Time // start of the last attempt
}

// take notes a visit and returns what it breaks.
func (a *attempts) take(p *Planner, v visit.Visit, now time.Time, limit int,
	gap time.Duration) string {
	r := p.Running()
	key := fmt.Sprint(r.Range, v.Sensor)
	a.ranges[r.Range]++
	a.each[key]++
	last, before := a.last[v.Sensor], !a.last[v.Sensor].IsZero()
	a.last[v.Sensor] = now
	switch {
	case a.ranges[r.Range] > r.Theta:
		return fmt.Sprintf("%d attempts, theta %d", a.ranges[r.Range], r.Theta)
	case limit >= 0 && a.each[key] > limit:
		return fmt.Sprintf("%d attempts at %s, cap %d", a.each[key], v.Sensor, limit)
	case v.Kind == visit.Announced && before && now.Sub(last) < gap:
		return fmt.Sprintf("announced visit %v after the last, minimum gap %v", now.Sub(last), gap)
	}
	return ""
}

// announcedFleet is some sensors of every kind of plan, and their caps by id.
func announcedFleet(t *testing.T, rng *rand.Rand) (*fleet.Fleet, map[string]int) {
	t.Helper()
	var list []fleet.Sensor
	caps := map[string]int{}
	for i := range 1 + rng.IntN(6) {
		plan := sleepplan.Unknown()
		switch rng.IntN(3) {
		case 0:
			plan = cycle(t, time.Duration(30+rng.IntN(90))*time.Second, 15*time.Second, 0)
		case 1:
			plan = sleepplan.AlwaysOn()
		}
		s := fleet.Sensor{ID: fmt.Sprintf("s%d", i), URI: fmt.Sprintf("coap://192.0.2.%d/", i+1),
			Weight: 1, MaxCrawls: rng.IntN(6) - 1, Rate: 1.0 / 60, Plan: plan}
		caps[s.ID] = s.MaxCrawls
		list = append(list, s)
	}
	f, err := fleet.New(list)
	if err != nil {
		t.Fatal(err)
	}
	return f, caps
}

// announcer plays one random history of a fleet whose sensors announce themselves.
type announcer struct {
	*driver
	rng      *rand.Rand
	caps     map[string]int
	made     *attempts
	gap      time.Duration   // the minimum one
	reckless bool            // leaves the rules out when an announcement is taken in
	running  []visit.Outcome // visits under way, as they will end
	visits   int             // announced ones
}

// announce returns what the visit breaks that a planner without rules would make.
func (a *announcer) announce(id string) (fault string) {
	err := a.p.Announce(id, a.now)
	if err == nil || !a.reckless || errors.Is(err, ErrUnderWay) {
		return ""
	}
	a.visits++
	v := visit.Visit{Sensor: id, At: a.now, Kind: visit.Announced}
	return a.made.take(a.p, v, a.now, a.caps[id], a.gap)
}

// next begins the next visit, if one is due, and returns what it breaks.
func (a *announcer) next() (fault string) {
	v, ok, _ := a.p.Next(a.now)
	if !ok {
		return ""
	}
	if !v.Deadline.After(a.now) {
		a.p.Observe(Missed(v, a.now), a.now)
		return ""
	}
	if v.Kind == visit.Announced {
		a.visits++
	}
	fault = a.made.take(a.p, v, a.now, a.caps[v.Sensor], a.gap)
	r := visit.Result(a.rng.IntN(5))
	a.running = append(a.running, visit.Outcome{Visit: v, Result: r, Started: a.now,
		Contact: r != visit.Asleep, Hash: fmt.Sprint(a.rng.Uint64())})
	return fault
}

// finish ends the visit that began last.
func (a *announcer) finish() {
	if n := len(a.running); n > 0 {
		o := a.running[n-1]
		a.running = a.running[:n-1]
		o.Ended = a.now
		a.p.Observe(o, a.now)
	}
}

// announcing is one random history; reckless leaves the rules out when an announcement is
// taken in, as a planner without them would.
func announcing(t *testing.T, seed uint64, reckless bool) (visits int, fault string) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	f, caps := announcedFleet(t, rng)
	par := parameters()
	par.PerSensor = float64(1 + rng.IntN(4))
	a := &announcer{driver: newDriver(t, f, par), rng: rng, caps: caps, gap: par.Polling.MinGap,
		made:     &attempts{map[time.Time]int{}, map[string]int{}, map[string]time.Time{}},
		reckless: reckless}
	for range 300 {
		a.solve()
		id := f.At(rng.IntN(f.Len())).ID
		switch rng.IntN(4) {
		case 0:
			a.now = a.now.Add(time.Duration(rng.IntN(20000)) * time.Millisecond)
		case 1:
			fault = a.announce(id)
		case 2:
			a.finish()
		default:
			fault = a.next()
		}
		if fault != "" {
			return a.visits, fault
		}
	}
	return a.visits, ""
}

// Budget, caps and minimum gaps hold in random histories with announcements between visits,
// failures and ranges; without the rules they do not.
func TestAnnouncementsKeepTheRules(t *testing.T) {
	visits := 0
	n := trials(300, 2500)
	for seed := range uint64(n) {
		got, fault := announcing(t, seed, false)
		if fault != "" {
			t.Fatalf("seed %d: %s", seed, fault)
		}
		visits += got
	}
	if visits < n {
		t.Errorf("only %d announced visits in %d histories", visits, n)
	}
	t.Logf("%d announced visits in %d histories", visits, n)
	for seed := range uint64(50) {
		if _, fault := announcing(t, seed, true); fault != "" {
			return
		}
	}
	t.Error("a planner without the rules is not caught")
}
