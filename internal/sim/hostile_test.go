package sim

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/visit"
)

// malice is what a hostile sensor makes of a visit, of which seq have been made to such
// ones: as far as the planner sees it, which is how it ends and how long it took.
type malice struct {
	name string
	act  func(o *visit.Outcome, seq int)
}

// malices are all kinds of end that the modes of `crawld testbed` bring a visit to.
var malices = []malice{
	{"silent", func(o *visit.Outcome, _ int) { o.Result, o.Reason = visit.Asleep, "timeout" }},
	{"drips to the deadline", failing(visit.Failed, time.Hour)},
	{"stuck", failing(visit.Failed, 2*time.Second)},
	{"refuses", failing(visit.Refused, 50*time.Millisecond)},
	{"fails every other time", func(o *visit.Outcome, seq int) {
		if failing(visit.Failed, 10*time.Second)(o, seq); seq%2 == 0 {
			o.Result, o.Reason, o.Hash = visit.Unchanged, "", fmt.Sprintf("%064x", 7)
		}
	}},
	{"always new", served},
	{"logs a thousand events", logged(1000)},
}

// logged is a description with that many events that nobody has seen before.
func logged(events int) func(o *visit.Outcome, seq int) {
	return func(o *visit.Outcome, seq int) {
		served(o, seq)
		for k := range events {
			at := o.Started.Add(time.Duration(k-events) * time.Millisecond)
			o.PublishedAt = append(o.PublishedAt, at)
		}
	}
}

// failing ends a visit with contact, after a while.
func failing(result visit.Result, after time.Duration) func(o *visit.Outcome, seq int) {
	return func(o *visit.Outcome, _ int) {
		o.Result, o.Reason, o.Contact = result, "hostile", true
		o.Ended = earlier(o.Started.Add(after), o.Deadline)
	}
}

// served is a description that nobody has seen before.
func served(o *visit.Outcome, seq int) {
	o.Result, o.Contact, o.Hash = visit.Described, true, fmt.Sprintf("%064x", seq)
	o.Ended = o.Started.Add(50 * time.Millisecond)
}

// plannedFleet are sensors of every kind of sleep plan, all listed.
func plannedFleet(tb testing.TB, n, limit int, seed uint64) []Sensor {
	tb.Helper()
	sensors := randomFleet(tb, n, seed)
	for i := range sensors {
		s := &sensors[i]
		s.Loss, s.Listed.Plan, s.Listed.Weight, s.Listed.MaxCrawls = 0, s.Plan, 1, limit
	}
	return sensors
}

// beside is what the events of the first honest sensors are expected to wait beside the
// others, which do what act does, or behave if that is nil. It has no noise of events, and
// what the honest ones do is the same whatever is beside them.
func beside(t *testing.T, sensors []Sensor, honest, ranges int,
	act func(sensor int) func(o *visit.Outcome, seq int)) float64 {
	t.Helper()
	par := dayParameters()
	par.PerSensor = 4
	daemon := newBadClock(t, sensors, par, 1, dayStart.Add(time.Duration(ranges)*par.Range))
	number := map[string]int{}
	for i := range sensors {
		s := daemon.run.sensors[sensors[i].Listed.ID]
		s.Uncounted, number[s.Listed.ID] = i >= honest, i
		daemon.run.order = append(daemon.run.order, s)
	}
	seq := 0
	daemon.watch = func(visit.Visit, time.Time, time.Time) {}
	daemon.hostile = func(v visit.Visit, now time.Time) (visit.Outcome, bool) {
		i := number[v.Sensor]
		if i < honest || act == nil {
			return visit.Outcome{}, false
		}
		seq++
		o := visit.Outcome{Visit: v, Started: now, Ended: v.Deadline}
		act(i)(&o, seq)
		return o, true
	}
	daemon.live()
	daemon.run.p = daemon.p
	daemon.run.finish()
	if act != nil && seq == 0 {
		t.Error("no hostile sensor was visited")
	}
	return daemon.run.res.Expected
}

// One hostile sensor in a hundred among sensors with listed sleep plans and a max_crawls of
// twice the budget: what events of the others wait is within 1 % of the same fleet without
// it. That can be told from noise: a sensor that behaves in its place moves it by less than
// half of that. Where nothing caps a sensor, one that tells of many events at each visit
// takes the others' crawls.
func TestHostileFewAmongPlanned(t *testing.T) {
	t.Parallel()
	honest, ranges := 297, 6
	if os.Getenv("CRAWLD_SOAK") != "" {
		honest, ranges = 9900, 24
	}
	mixed := func(i int) func(*visit.Outcome, int) { return malices[i%len(malices)].act }
	for _, c := range []struct {
		limit int
		among []malice
		fine  bool
	}{
		{8, append(malices, malice{name: "all of these"}), true},
		{fleet.NoCap, malices[2:3], true},
		{fleet.NoCap, []malice{{"logs thirty events", logged(30)}}, false},
	} {
		sensors := plannedFleet(t, honest+honest/99, c.limit, soakSeed())
		base := beside(t, sensors[:honest], honest, ranges, nil)
		behaved := beside(t, sensors, honest, ranges, nil)/base - 1
		if behaved > 0.0075 || behaved < -0.0075 {
			t.Errorf("cap %d: a hundredth that behaves moves the others by %.2f %%", c.limit, 100*behaved)
		}
		worst := 0.0
		for _, m := range c.among {
			act := mixed
			if m.act != nil {
				act = func(int) func(*visit.Outcome, int) { return m.act }
			}
			moved := beside(t, sensors, honest, ranges, act)/base - 1
			t.Logf("cap %d, %d honest, %d hostile, %s: honest ones wait %+.2f %% (behaving %+.2f %%)",
				c.limit, honest, len(sensors)-honest, m.name, 100*moved, 100*behaved)
			worst = max(worst, moved)
		}
		if fine := worst < 0.01; fine != c.fine {
			t.Errorf("cap %d: at worst %+.2f %%", c.limit, 100*worst)
		}
	}
}
