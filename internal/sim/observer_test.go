package sim

import (
	"fmt"
	"hash/fnv"
	"math"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// observer checks the planner's promises from outside, by counting:
//
//   - nobody is asked outside a listed awake window, and no planned visit may go on after it;
//   - no range has more attempts than its budget, no sensor more of them than its cap;
//   - no sensor is asked while a visit to it is under way;
//   - what is decided for a sensor alone (polls, probes, announced visits, retries) begins at
//     least the minimum gap after the sensor's last attempt has begun. Planned crawls are
//     exempt: the fleet's plan places them by what they are worth, and may crawl twice around
//     a sleep that is shorter than the gap;
//   - no minute, whenever it begins, has more than 1.1 times the starts that the capacity
//     allows in one;
//   - events wait as long as the plans promise, see freshness.
type observer struct {
	listed   map[string]*fleet.Sensor
	par      planner.Parameters
	theta    int
	spent    int
	perSense map[string]int
	started  map[string]time.Time // last attempt
	underWay map[string]bool
	minute   minute
	fresh    *freshness
	start    time.Time
	rangeNo  int64
	faults   []string       // the first few of each kind
	count    map[string]int // by format
	trace    uint64
	visits   int
}

func newObserver(sensors []Sensor, par planner.Parameters) *observer {
	o := &observer{par: par, start: dayStart, theta: par.Theta(len(sensors)),
		listed: make(map[string]*fleet.Sensor, len(sensors)), fresh: newFreshness(sensors)}
	for i := range sensors {
		o.listed[sensors[i].Listed.ID] = &sensors[i].Listed
	}
	o.rewind()
	return o
}

// rewind makes the observer watch another run of the same fleet.
func (o *observer) rewind() {
	o.rangeNo, o.spent, o.perSense = -1, 0, map[string]int{}
	o.started, o.underWay, o.minute = map[string]time.Time{}, map[string]bool{}, minute{}
	o.count, o.faults, o.trace, o.visits = map[string]int{}, nil, 0, 0
}

// on lets the observer watch a run.
func (o *observer) on(c Config) Config {
	o.start = c.Start
	o.fresh.begin(c)
	c.Watch, c.Outcome, c.Event, c.Planned = o.watch, o.ended, o.fresh.seen, o.fresh.promise
	return c
}

func (o *observer) watch(v visit.Visit, now time.Time) {
	h := fnv.New64a()
	fmt.Fprint(h, o.trace, v.Sensor, now.UnixNano(), v.Kind, v.Deadline.UnixNano())
	o.trace = h.Sum64()
	if !v.Deadline.After(now) {
		return // missed: nobody is asked
	}
	o.visits++
	o.counters(v, now)
	o.spacing(v, now)
	s := o.listed[v.Sensor]
	until, limited := s.Plan.KnownUntil()
	known := !limited || now.Before(until)
	if known && !s.Plan.Awake(now) {
		o.fault(faultAsleep, now, v.Sensor, v.Kind, v.Why)
	}
	if known && v.Kind == visit.Planned {
		if w, _ := s.Plan.Window(now); v.Deadline.After(w.End) {
			o.fault(faultWindow, now, v.Sensor, v.Deadline, w.End)
		}
	}
}

// counters holds an attempt to budget and cap.
func (o *observer) counters(v visit.Visit, now time.Time) {
	if no := int64(now.Sub(o.start) / o.par.Range); no != o.rangeNo {
		o.rangeNo, o.spent = no, 0
		clear(o.perSense)
	}
	o.spent++
	o.perSense[v.Sensor]++
	if o.spent > o.theta {
		o.fault(faultBudget, now, o.spent, o.theta)
	}
	if most := o.listed[v.Sensor].MaxCrawls; most >= 0 && o.perSense[v.Sensor] > most {
		o.fault(faultCap, now, v.Sensor, o.perSense[v.Sensor], most)
	}
}

// spacing holds an attempt to the minimum gap and to the capacity.
func (o *observer) spacing(v visit.Visit, now time.Time) {
	if o.underWay[v.Sensor] {
		o.fault(faultTwice, now, v.Sensor, v.Kind)
	}
	least := planner.Polling(o.par.Polling, o.listed[v.Sensor].Polling).MinGap
	last, asked := o.started[v.Sensor]
	if gap := now.Sub(last); asked && v.Kind != visit.Planned && gap < least {
		o.fault(faultGap, now, v.Sensor, v.Kind, v.Why, gap, least)
	}
	o.started[v.Sensor], o.underWay[v.Sensor] = now, true
	starts, most := o.minute.start(now), mostInMinute(o.par)
	if o.par.Capacity > 0 && float64(starts) > most {
		o.fault(faultRush, now, starts, most)
	}
}

func (o *observer) ended(out visit.Outcome) {
	if out.Result == visit.Missed {
		return
	}
	o.underWay[out.Sensor] = false
	if out.Result.Success() {
		o.fresh.crawled(out)
	}
}

// What an observer finds.
const (
	faultBudget = "%v: attempt %d of a budget of %d"
	faultCap    = "%v: %s asked %d times, cap %d"
	faultAsleep = "%v: %s asked (%v, %s) while it sleeps"
	faultWindow = "%v: %s may be asked until %v, its window ends %v"
	faultTwice  = "%v: %s asked (%v) while a visit is under way"
	faultGap    = "%v: %s asked (%v, %s) after a gap of %v, at least %v"
	faultRush   = "%v: start %d of a minute, at most %.0f"
)

// report fails the test for what has been found.
func (o *observer) report(t *testing.T) {
	t.Helper()
	for _, f := range o.faults {
		t.Error(f)
	}
	if err := o.fresh.check(); err != nil {
		t.Error(err)
	}
}

func (o *observer) fault(format string, args ...any) {
	o.count[format]++
	if o.count[format] <= 3 {
		o.faults = append(o.faults, fmt.Sprintf(format, args...))
	}
}

// minute counts the starts of the last minute.
type minute struct {
	starts  []time.Time
	busiest int
}

func (m *minute) start(now time.Time) int {
	for len(m.starts) > 0 && now.Sub(m.starts[0]) >= time.Minute {
		m.starts = m.starts[1:]
	}
	m.starts = append(m.starts, now)
	m.busiest = max(m.busiest, len(m.starts))
	return len(m.starts)
}

// mostInMinute is how many starts a minute may have: a tenth above the capacity, because a
// pace lets a burst through.
func mostInMinute(par planner.Parameters) float64 { return 1.1 * 60 * float64(par.Capacity) }

// freshness compares what plans promise with what events go through. A plan promises for each
// sensor how long, in sum, its events will wait within the range ((W) of package scheduler, by
// the rates believed when it was made): from their capture, or the range's start if that is
// later, to the crawl that sees them, or the range's end if that is earlier. The same is
// measured of the events that really came, by the instants at which they were captured and
// seen, and both are summed over all ranges.
//
// A plan takes its crawls to succeed, and knows no events of a sensor that has never been
// crawled. So the sum is over sensors that lose nothing, whose sleep plan is listed and that
// may be crawled at all, each from the first range on that was planned after its first crawl.
type freshness struct {
	followed map[string]bool
	crawls   map[string]bool      // of the followed ones: it has been crawled
	from     map[string]time.Time // start of the first range that counts
	planned  time.Time            // start of the last range that was promised for

	promised, waited float64 // seconds
	square           float64 // of the waits of single events: the variance of waited
}

func newFreshness(sensors []Sensor) *freshness {
	f := &freshness{followed: map[string]bool{}, crawls: map[string]bool{}}
	for _, s := range sensors {
		if s.Loss == 0 && s.Listed.MaxCrawls != 0 && s.Listed.Plan.Kind() != sleepplan.KindUnknown {
			f.followed[s.Listed.ID] = true
		}
	}
	return f
}

// begin forgets what was seen, and looks at a run that is about to begin.
func (f *freshness) begin(c Config) {
	f.planned, f.from, f.crawls = time.Time{}, map[string]time.Time{}, map[string]bool{}
	f.promised, f.waited, f.square = 0, 0, 0
	for id := range f.followed {
		f.crawls[id] = c.Crawled
	}
}

// promise takes in a plan; those of the rest of a range promise nothing new.
func (f *freshness) promise(plan *planner.Plan) {
	if plan.Start.Equal(f.planned) {
		return
	}
	f.planned = plan.Start
	for _, p := range plan.Promises() {
		if !f.crawls[p.ID] {
			continue
		}
		if _, counts := f.from[p.ID]; !counts {
			f.from[p.ID] = plan.Start
		}
		f.promised += p.Latency
	}
}

// crawled takes in a success.
func (f *freshness) crawled(o visit.Outcome) {
	if f.followed[o.Sensor] {
		f.crawls[o.Sensor] = true
	}
}

// seen takes in an event.
func (f *freshness) seen(sensor string, at, seen time.Time) {
	from, counts := f.from[sensor]
	if at = later(at, from); counts && at.Before(seen) {
		wait := seen.Sub(at).Seconds()
		f.waited += wait
		f.square += wait * wait
	}
}

// check says what is wrong: more than a fiftieth of what was promised, and three standard
// deviations of what chance does to events.
func (f *freshness) check() error {
	if f.promised == 0 || f.square == 0 {
		return fmt.Errorf("freshness: %v s promised, %v s waited", f.promised, f.waited)
	}
	off, most := f.waited-f.promised, f.promised/50+3*math.Sqrt(f.square)
	if math.Abs(off) > most {
		return fmt.Errorf("freshness: events waited %.4g s, the plans promised %.4g s: off by %.4g s, "+
			"at most %.2g s", f.waited, f.promised, off, most)
	}
	return nil
}

// Over sensors that all count, freshness sums up what the simulator does; and a minute's
// starts are those that a look at all of them finds.
func TestObserverCountsAsOthersDo(t *testing.T) {
	sensors := randomFleet(t, 100, 6)
	for i := range sensors {
		s := &sensors[i]
		s.Loss, s.Listed.Plan, s.Listed.MaxCrawls = 0, s.Plan, fleet.NoCap
	}
	o := newObserver(sensors, dayParameters())
	cfg := o.on(Config{Sensors: sensors, Parameters: o.par, Start: dayStart, Seed: 3,
		Duration: 5 * time.Hour, Crawled: true})
	var starts []time.Time
	cfg.Watch = func(v visit.Visit, now time.Time) {
		o.watch(v, now)
		starts = append(starts, now)
	}
	res, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if res.Events < 100 || math.Abs(o.fresh.waited-res.Latency) > 1e-9*res.Latency {
		t.Errorf("%v s waited by %d events, %v by the simulator", o.fresh.waited, res.Events, res.Latency)
	}
	busiest := 0
	for i, from := range starts {
		n := i
		for n < len(starts) && starts[n].Before(from.Add(time.Minute)) {
			n++
		}
		busiest = max(busiest, n-i)
	}
	if busiest != o.minute.busiest || busiest < 2 {
		t.Errorf("%d starts in the busiest minute, counted %d", busiest, o.minute.busiest)
	}
}
