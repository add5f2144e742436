package planner

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// publisher is a source that is awake for ever, does not say so, and publishes regularly.
type publisher struct {
	period, phase time.Duration
	jitter        time.Duration
	seen          time.Time
}

// publications are the instants of (seen, now].
func (s *publisher) publications(rng *rand.Rand, now time.Time) []time.Time {
	var all []time.Time
	from := now.Add(-s.period * 20)
	if s.seen.After(from) {
		from = s.seen
	}
	k := (from.Sub(start) - s.phase) / s.period
	for at := start.Add(s.phase + k*s.period); !at.After(now); at = at.Add(s.period) {
		t := at.Add(time.Duration(rng.Float64() * float64(s.jitter)))
		if t.After(s.seen) && !t.After(now) && rng.IntN(20) > 0 {
			all = append(all, t)
		}
	}
	s.seen = now
	return all
}

// promises is what is held against every visit, by its own count.
type promises struct {
	par   Parameters
	caps  map[string]int
	last  map[string]time.Time
	rest  map[string]time.Time
	used  map[string]int
	spent int
	begun time.Time
}

func (c *promises) fault(v visit.Visit, begin, now time.Time) string {
	if !begin.Equal(c.begun) {
		c.begun, c.spent, c.used = begin, 0, map[string]int{}
	}
	c.spent++
	c.used[v.Sensor]++
	gap := now.Sub(c.last[v.Sensor])
	c.last[v.Sensor] = now
	switch {
	case gap < c.par.Polling.MinGap && v.Kind != visit.Planned && v.Kind != visit.Retry:
		return fmt.Sprintf("%s: %v after the last visit", v.Sensor, gap)
	case now.Before(c.rest[v.Sensor]):
		return fmt.Sprintf("%s: asked for rest until %v", v.Sensor, c.rest[v.Sensor])
	case c.spent > c.par.Theta(len(c.caps)):
		return fmt.Sprintf("%d visits in a range", c.spent)
	case c.caps[v.Sensor] >= 0 && c.used[v.Sensor] > c.caps[v.Sensor]:
		return fmt.Sprintf("%s: %d visits, cap %d", v.Sensor, c.used[v.Sensor], c.caps[v.Sensor])
	}
	return ""
}

// meeters is a random fleet with random groups.
type meeters struct {
	*driver
	rng     *rand.Rand
	fleet   *fleet.Fleet
	par     Parameters
	sources map[string]*publisher
	held    promises
	seen    map[string]int // what was seen, to know that the cases are there
}

func newMeeters(t *testing.T, seed uint64) *meeters {
	rng := rand.New(rand.NewPCG(seed, 41))
	m := &meeters{rng: rng, sources: map[string]*publisher{}, seen: map[string]int{}}
	m.par = parameters()
	m.par.PerSensor = []float64{4, 10, 40}[rng.IntN(3)]
	m.par.Polling = dpt.Params{Policy: []dpt.Policy{dpt.DPTL, dpt.DPTN, dpt.BB}[rng.IntN(3)],
		Bootstrap: 20 * time.Second, MinGap: 2 * time.Second, MaxGap: 20 * time.Minute}
	n := 2 + rng.IntN(4)
	plans := make([]sleepplan.Plan, n)
	for i := range plans {
		if rng.IntN(5) == 0 {
			plans[i] = cycle(t, time.Minute, 20*time.Second, 0)
		}
	}
	m.fleet = testFleet(t, plans...)
	m.held = promises{par: m.par, caps: map[string]int{}, last: map[string]time.Time{},
		rest: map[string]time.Time{}}
	for i, s := range m.fleet.All() {
		if rng.IntN(4) == 0 {
			m.fleet.At(i).MaxCrawls = 1 + rng.IntN(5)
		}
		m.held.caps[s.ID] = s.MaxCrawls
		period := time.Duration(60+rng.IntN(300)) * time.Second
		m.sources[s.ID] = &publisher{period: period, jitter: time.Duration(rng.IntN(5)) * time.Second,
			phase: time.Duration(rng.Int64N(int64(period)))}
	}
	for g := range 1 + rng.IntN(2) {
		var members []string
		for _, s := range m.fleet.All() {
			if rng.IntN(4) > 0 {
				members = append(members, s.ID)
			}
		}
		m.par.Groups = append(m.par.Groups, Group{ID: fmt.Sprintf("g%d", g), Members: members,
			AtLeast: 1 + rng.IntN(n), Spare: rng.IntN(2)})
	}
	m.driver = newDriver(t, m.fleet, m.par)
	return m
}

// step makes the next visit and holds the promises.
func (m *meeters) step() {
	m.t.Helper()
	v := m.next()
	if !v.Deadline.After(m.now) {
		m.p.Observe(Missed(v, m.now), m.now)
		return
	}
	if fault := m.held.fault(v, m.p.rec.Range, m.now); fault != "" {
		m.t.Fatalf("%s: %v %q", fault, v.Kind, v.Why)
	}
	s := m.p.sensors[0]
	for _, x := range m.p.sensors {
		if x.ID == v.Sensor {
			s = x
		}
	}
	byGroup := strings.HasPrefix(v.Why, "group ") || strings.Contains(v.Why, "; group ")
	if byGroup {
		m.seen["by group"]++
	}
	if want := s.expecting(m.now) && v.Kind == visit.Poll && !strings.HasPrefix(v.Why, "cap") &&
		!strings.HasPrefix(v.Why, "budget: theta"); byGroup != want {
		m.t.Fatalf("%s: expecting %v, but why is %q", v.Sensor, want, v.Why)
	}
	o := visit.Outcome{Visit: v, Result: visit.Unchanged, Contact: true, Code: "2.03", Started: m.now,
		Ended: m.now.Add(time.Duration(m.rng.IntN(2000)) * time.Millisecond)}
	switch m.rng.IntN(20) {
	case 0:
		o.Result, o.Contact, o.Code = visit.Asleep, false, ""
	case 1:
		o.Result, o.Code, o.RetryAfter = visit.Refused, "5.03", time.Duration(m.rng.IntN(90))*time.Second
		m.held.rest[v.Sensor] = o.Ended.Add(o.RetryAfter)
	case 2:
		o.Result, o.Contact, o.Code = visit.Missed, false, ""
		m.held.spent--
		m.held.used[v.Sensor]--
	default:
		o.PublishedAt = m.sources[v.Sensor].publications(m.rng, m.now)
		if len(o.PublishedAt) > 0 {
			o.Result, o.Code, o.Hash = visit.Described, "2.05", fmt.Sprint(m.now.UnixNano())
		}
	}
	m.now = o.Ended
	m.p.Observe(o, m.now)
	if o.Result == visit.Described && m.rng.IntN(10) == 0 {
		o.Result, o.Reason = visit.Failed, NotStored
		m.p.Observe(o, m.now)
		m.seen["not stored"]++
	}
	m.bounded()
}

// bounded holds that no sensor that a group times is left alone for longer than MaxGap.
func (m *meeters) bounded() {
	m.t.Helper()
	for _, s := range m.p.sensors {
		if s.inflight || !s.expecting(m.now) || s.rec.Used >= s.limit() || !s.at.Before(m.p.end()) &&
			strings.HasPrefix(s.why, "budget: theta") || !s.rec.Broke.Before(m.p.end()) {
			continue
		}
		gap := time.Duration(float64(m.par.Polling.MaxGap) * max(m.p.rec.Stretch, 1))
		latest := later(later(s.rec.LastAttempt.Add(gap), s.rec.NotBefore), m.now.Add(2*time.Second))
		if s.at.After(latest) {
			m.t.Fatalf("%s waits until %v, last visited %v: %s", s.ID, s.at, s.rec.LastAttempt, s.why)
		}
		m.seen["bounded"]++
	}
}

// Whatever groups want, budget, caps, gaps and what sensors ask for hold, and no sensor is
// forgotten.
func TestGroupsKeepPromises(t *testing.T) {
	n := uint64(trials(12, 200))
	seen := map[string]int{}
	for seed := range n {
		m := newMeeters(t, seed)
		for range 150 {
			m.step()
		}
		for what, k := range m.seen {
			seen[what] += k
		}
		if m.p.Status(m.now).Dropped > 0 {
			seen["short"]++
		}
	}
	t.Log(seen)
	if seen["by group"] < 20*int(n) || seen["not stored"] < int(n) || seen["bounded"] < 50*int(n) ||
		seen["short"] == 0 {
		t.Errorf("too few cases: %v", seen)
	}
}

// What holds the promises notices each that is broken.
func TestPromisesAreNoticed(t *testing.T) {
	fresh := func() *promises {
		par := parameters()
		return &promises{par: par, caps: map[string]int{"a": 2, "b": -1}, last: map[string]time.Time{},
			rest: map[string]time.Time{"b": start.Add(time.Minute)}}
	}
	visits := func(id string, gaps ...time.Duration) string {
		c, at := fresh(), start
		for _, gap := range gaps {
			at = at.Add(gap)
			if fault := c.fault(visit.Visit{Sensor: id, Kind: visit.Poll}, start, at); fault != "" {
				return fault
			}
		}
		return ""
	}
	for _, c := range []struct{ got, want string }{
		{visits("a", 0, time.Minute), ""},
		{visits("a", 0, time.Second), "after the last visit"},
		{visits("a", 0, time.Minute, time.Minute), "cap 2"},
		{visits("b", time.Second), "asked for rest"},
		{visits("b", time.Minute, 9e9, 9e9, 9e9, 9e9, 9e9, 9e9), "visits in a range"},
	} {
		if c.want == "" && c.got != "" || !strings.Contains(c.got, c.want) {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// A restart in the middle of a round loses nothing of it: the next visits are the same.
func TestRestartKeepsRounds(t *testing.T) {
	rounds := 0
	for seed := range uint64(24) {
		m := newMeeters(t, seed)
		for range 60 + m.rng.IntN(60) {
			m.step()
		}
		saved := Saved{Fleet: m.p.FleetRecord(), Sensors: map[string][]byte{}}
		for _, s := range m.p.sensors {
			saved.Sensors[s.ID] = s.rec.Encode()
		}
		again, err := New(m.fleet, m.par, saved, m.now)
		if err != nil {
			t.Fatal(err)
		}
		for k, g := range m.p.groups {
			if got, want := again.groups[k].mdpt.Ready(), g.mdpt.Ready(); got != want {
				t.Fatalf("seed %d: group %s: %d ready, %d before the restart", seed, g.ID, got, want)
			} else if want > 0 {
				rounds++
			}
		}
		m.p.timeGroups(m.now)
		again.timeGroups(m.now)
		for k, s := range m.p.sensors {
			b := again.sensors[k]
			// What was due already is due now.
			d := later(s.look.at, m.now).Sub(later(b.look.at, m.now))
			if s.look.at.IsZero() != b.look.at.IsZero() || d.Abs() > 2*time.Millisecond ||
				s.look.why != b.look.why {
				t.Fatalf("seed %d: %s: looked at %v %q, after the restart %v %q", seed, s.ID, s.look.at,
					s.look.why, b.look.at, b.look.why)
			}
		}
	}
	if rounds < 6 {
		t.Errorf("only %d groups were in a round", rounds)
	}
}

// awake is a fleet of n sensors that never sleep, hide it, and publish once a period.
func awake(t *testing.T, par Parameters, n int, period time.Duration) *meeters {
	t.Helper()
	f := testFleet(t, make([]sleepplan.Plan, n)...)
	m := &meeters{driver: newDriver(t, f, par), fleet: f, par: par, rng: rand.New(rand.NewPCG(1, 2)),
		seen: map[string]int{}, sources: map[string]*publisher{}, held: promises{par: par,
			caps: map[string]int{}, last: map[string]time.Time{}, rest: map[string]time.Time{}}}
	for i, s := range f.All() {
		m.held.caps[s.ID] = fleet.NoCap
		m.sources[s.ID] = &publisher{period: period, phase: time.Duration(i) * time.Minute}
	}
	return m
}

// Of two sensors that are found never to sleep, the one that publishes regularly stays with
// its tracker, the other one is planned.
func TestRegularPublisherStaysWithItsTracker(t *testing.T) {
	par := parameters()
	par.PerSensor, par.Range = 20, time.Hour
	par.Polling.Bootstrap, par.Polling.Policy = 5*time.Minute, dpt.DPTL
	par.Polling.MaxGap = time.Hour
	soon, seeds := 0, uint64(6)
	for seed := range seeds {
		m := awake(t, par, 2, 20*time.Minute)
		m.rng = rand.New(rand.NewPCG(seed, 2))
		m.sources["s1"].jitter = m.sources["s1"].period
		found := func(id string) bool {
			e, _ := m.p.Explain(id, m.now)
			return e.Learner.State == "awake"
		}
		for !(found("s0") && found("s1")) && m.now.Before(start.Add(48*time.Hour)) {
			m.step()
		}
		if m.now.Before(start.Add(40 * time.Hour)) {
			soon++
		}
		for id, polled := range map[string]bool{"s0": true, "s1": false} {
			e, _ := m.p.Explain(id, m.now)
			i, _ := m.p.fleet.Find(id)
			if got := m.p.sensors[i].polled(m.now); got != polled || !found(id) {
				t.Errorf("seed %d, %s: polled %v, learner %+v, %s", seed, id, got, e.Learner,
					e.Publications)
			}
		}
	}
	if t.Logf("%d of %d pairs found out within 40 h", soon, seeds); soon < 4 {
		t.Error("too few")
	}
}

// A sensor's first group times it, a second one counts on it; a reload without groups gives
// it back to its tracker.
func TestFirstGroupTimes(t *testing.T) {
	par := parameters()
	par.PerSensor = 60
	par.Polling.Bootstrap, par.Polling.Policy = 20*time.Second, dpt.DPTL
	par.Groups = []Group{{ID: "inner", Members: []string{"s0", "s1"}, AtLeast: 2},
		{ID: "outer", Members: []string{"s0", "inner", "s2"}, AtLeast: 2}}
	m := awake(t, par, 3, 5*time.Minute)
	why := map[string]string{}
	for range 300 {
		m.step()
		for _, s := range m.p.sensors {
			if strings.HasPrefix(s.look.why, "group ") {
				why[s.ID] = s.look.why
			}
		}
	}
	for id, group := range map[string]string{"s0": "inner", "s1": "inner", "s2": "outer"} {
		if want := "group " + group + ": "; !strings.HasPrefix(why[id], want) {
			t.Errorf("%s: why %q, want %q", id, why[id], want)
		}
	}
	if n := len(m.p.sensors[0].rec.Completed) + len(m.p.sensors[1].rec.Completed); n == 0 {
		t.Error("no round of the inner group was completed")
	}
	if err := m.p.Regroup([]Group{{ID: "none", Members: []string{"s0"}}}, m.now); err == nil {
		t.Error("a group that needs no member is taken")
	}
	if len(m.p.groups) != 2 {
		t.Fatal("a refused reload changed the groups")
	}
	if err := m.p.Regroup(nil, m.now); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		if v := m.next(); strings.Contains(v.Why, "group") {
			t.Fatalf("%s: %s", v.Sensor, v.Why)
		} else {
			m.tell(v, visit.Unchanged)
		}
	}
}
