package sim

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// The crawler takes what its wall clock has moved against the time that passed as a jump
// beyond jumpSize, and looks at least every lookEvery.
const (
	jumpSize  = time.Minute
	lookEvery = time.Minute
)

// clockSet is a wall clock being set: from an instant of real time on it is off by so much.
type clockSet struct {
	at  time.Time
	off time.Duration
}

// badClock is a daemon whose wall clock is set again and again, while sensors and time
// itself go on. Its loop is the crawler's: it looks at the clock before it asks the
// planner anything, paces starts by real time, and tells outcomes in the wall time that
// holds when they are told.
type badClock struct {
	t        testing.TB
	run      *run
	p        *planner.Planner
	pace     *rate.Limiter
	settings []clockSet // still to come
	off      time.Duration
	known    time.Duration // the offset that the planner was told of
	watch    func(v visit.Visit, real, wall time.Time)
	success  func(o visit.Outcome, real time.Time)
	hostile  func(v visit.Visit, real time.Time) (o visit.Outcome, is bool) // nil: all behave
	jumps    int
}

func newBadClock(t testing.TB, sensors []Sensor, par planner.Parameters, seed uint64,
	end time.Time) *badClock {
	t.Helper()
	cfg := Config{Sensors: sensors, Start: dayStart, Seed: seed, RoundTrip: 50 * time.Millisecond}
	c := &badClock{t: t, run: &run{cfg: cfg, sensors: map[string]*sensor{}, end: end}}
	for i := range sensors {
		sn := newSensor(&cfg, i)
		sn.next = sn.after(dayStart, end)
		c.run.sensors[sn.Listed.ID] = sn
	}
	f, err := cfg.fleet()
	if err != nil {
		t.Fatal(err)
	}
	if c.p, err = planner.New(f, par, planner.Saved{}, dayStart); err != nil {
		t.Fatal(err)
	}
	c.pace = newPace(par.Capacity)
	return c
}

// live goes through real time from dayStart to the run's end.
func (c *badClock) live() {
	for real := dayStart; real.Before(c.run.end); {
		for len(c.settings) > 0 && !c.settings[0].at.After(real) {
			c.off, c.settings = c.settings[0].off, c.settings[1:]
		}
		real = c.turn(real)
	}
}

// turn does what is due and tells when the next turn is.
func (c *badClock) turn(real time.Time) (wake time.Time) {
	wall := real.Add(c.off)
	if by := c.off - c.known; by > jumpSize || by < -jumpSize {
		c.p.Jump(by, wall)
		c.known = c.off
		c.jumps++
	}
	for len(c.run.pending) > 0 && !c.run.pending[0].Ended.After(real) {
		o := heap.Pop(&c.run.pending).(visit.Outcome)
		if o.Result.Success() && c.success != nil {
			c.success(o, real)
		}
		o.Started, o.Ended = o.Started.Add(c.off), o.Ended.Add(c.off)
		c.p.Observe(o, wall)
	}
	if snap, ok := c.p.Problem(wall); ok {
		plan, err := snap.Solve(1)
		if err != nil {
			c.t.Fatal(err)
		}
		c.p.Adopt(plan, wall)
	}
	wake = real.Add(lookEvery)
	for {
		if missing := 1 - c.pace.TokensAt(real); missing > 0 {
			pause := time.Duration(missing / float64(c.pace.Limit()) * float64(time.Second))
			wake = earlier(wake, real.Add(pause+1))
			break
		}
		v, ok, next := c.p.Next(wall)
		if !ok {
			wake = earlier(wake, next.Add(-c.off))
			break
		}
		c.start(v, real, wall)
	}
	if len(c.run.pending) > 0 {
		wake = earlier(wake, c.run.pending[0].Ended)
	}
	return later(wake, real.Add(1))
}

func (c *badClock) start(v visit.Visit, real, wall time.Time) {
	if !v.Deadline.After(wall) {
		c.p.Observe(planner.Missed(v, wall), wall)
		return
	}
	c.pace.AllowN(real, 1)
	c.watch(v, real, wall)
	v.Deadline = v.Deadline.Add(-c.off)
	if c.hostile != nil {
		if o, is := c.hostile(v, real); is {
			heap.Push(&c.run.pending, o)
			return
		}
	}
	heap.Push(&c.run.pending, c.run.sensors[v.Sensor].answer(v, real, c.run))
}

// clockWatch counts by real time what the planner promises, whatever the wall clock says.
// A range may begin up to jumpSize from its real instant.
type clockWatch struct {
	*observer
	minute   int64
	inMinute int
	started  int
	busiest  int
	sensor   map[string]int // attempts in all
	core     map[string]int // attempts in the middle of the range
	inCore   int
}

func newClockWatch(sensors []Sensor, par planner.Parameters) *clockWatch {
	return &clockWatch{observer: newObserver(sensors, par), sensor: map[string]int{},
		core: map[string]int{}}
}

func (o *clockWatch) see(v visit.Visit, real, wall time.Time) {
	gone := real.Sub(dayStart)
	o.started++
	o.sensor[v.Sensor]++
	if no := int64(gone / time.Minute); no != o.minute {
		o.minute, o.inMinute = no, 0
	}
	o.inMinute++
	o.busiest = max(o.busiest, o.inMinute)
	if limit := float64(o.par.Capacity) * 60 * 1.1; float64(o.inMinute) > limit {
		o.fault("%v: start %d of a minute, limit %v", real, o.inMinute, limit)
	}
	o.counters(v, real, gone)
	s := o.listed[v.Sensor]
	until, limited := s.Plan.KnownUntil()
	if (!limited || wall.Before(until)) && !s.Plan.Awake(wall) {
		o.fault("%v: %s asked (%v, %s) while it sleeps by the wall clock", wall, v.Sensor, v.Kind, v.Why)
	}
}

// counters holds the attempts to budget and caps.
func (o *clockWatch) counters(v visit.Visit, real time.Time, gone time.Duration) {
	begun := 1 + int((gone+jumpSize)/o.par.Range)
	limit := o.listed[v.Sensor].MaxCrawls
	if o.started > begun*o.theta {
		o.fault("%v: attempt %d in %d ranges of %d", real, o.started, begun, o.theta)
	}
	if limit >= 0 && o.sensor[v.Sensor] > begun*limit {
		o.fault("%v: %s asked %d times in %d ranges, cap %d", real, v.Sensor, o.sensor[v.Sensor],
			begun, limit)
	}
	no, into := int64(gone/o.par.Range), gone%o.par.Range
	if no != o.rangeNo {
		o.rangeNo, o.inCore = no, 0
		clear(o.core)
	}
	if into < jumpSize || into >= o.par.Range-jumpSize {
		return // it may belong to either range
	}
	o.inCore++
	o.core[v.Sensor]++
	if o.inCore > o.theta {
		o.fault("%v: attempt %d of a range, budget %d", real, o.inCore, o.theta)
	}
	if limit >= 0 && o.core[v.Sensor] > limit {
		o.fault("%v: %s asked %d times in a range, cap %d", real, v.Sensor, o.core[v.Sensor], limit)
	}
}

// randomSettings draws how a clock is set: by a second up to a year to and fro, by an hour where
// summer time begins, by a leap second, and right again every other time.
func randomSettings(rng *rand.Rand, n int, every time.Duration) []clockSet {
	var list []clockSet
	at, off := dayStart.Add(30*time.Minute), time.Duration(0)
	for i := range n {
		at = at.Add(time.Duration(rng.ExpFloat64() * float64(every)))
		size := time.Duration(math.Exp(rng.Float64()*math.Log(365*86400)) * float64(time.Second))
		if rng.IntN(2) == 0 {
			size = -size
		}
		switch {
		case i%2 == 1 || off.Abs() > 400*24*time.Hour:
			off = 0
		case i%10 == 4:
			off = time.Hour
		case i%10 == 6:
			off = -time.Second
		default:
			off += size
		}
		list = append(list, clockSet{at, off})
	}
	return append(list, clockSet{at.Add(time.Second), 0})
}

// clockSize is how much the clock tests do: short counts as a rule, more with CRAWLD_CI.
func clockSize() (sensors, jumps int) {
	if os.Getenv("CRAWLD_CI") != "" {
		return 400, 250
	}
	return 80, 100
}

// soakSeed lets a soak draw other fleets, days and clocks than a test run does.
func soakSeed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("CRAWLD_SEED"), 10, 64); err == nil {
		return n
	}
	return 1
}

// However the wall clock is set, no sensor is asked while it sleeps by that clock, no cap
// and no budget is exceeded in real time, and starts keep their pace. Once the clock is
// right again, so is everything else.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	n, jumps := clockSize()
	for _, every := range []time.Duration{2 * time.Minute, 25 * time.Minute} {
		t.Run(every.String(), func(t *testing.T) {
			sensors := randomFleet(t, n, 10+soakSeed())
			for i := range sensors {
				sensors[i].Loss = 0
			}
			par := dayParameters()
			par.Capacity = max(1, n/300)
			list := randomSettings(rand.New(rand.NewPCG(uint64(every), soakSeed())), jumps, every)
			right := list[len(list)-1].at
			c := newBadClock(t, sensors, par, 5, right.Add(26*time.Hour))
			c.settings = list
			o := newClockWatch(sensors, par)
			seen, before := map[string]bool{}, 0
			c.watch = func(v visit.Visit, real, wall time.Time) {
				o.see(v, real, wall)
				if real.Before(right) {
					before++
				}
			}
			c.success = func(out visit.Outcome, real time.Time) {
				if real.After(right) {
					seen[out.Sensor] = true
				}
			}
			c.live()
			t.Logf("%d jumps (%d noticed) in %v: %d visits, then %d; busiest minute %d starts",
				len(list), c.jumps, right.Sub(dayStart).Round(time.Minute), before, o.started-before, o.busiest)
			for _, f := range o.faults {
				t.Error(f)
			}
			if ranges := int(right.Sub(dayStart) / par.Range); before < ranges*o.theta/3 {
				t.Errorf("%d visits in %d ranges of %d while the clock jumped", before, ranges, o.theta)
			}
			c.recovered(t, sensors, seen)
		})
	}
}

// recovered checks what the planner believes a good day after the clock was put right.
func (c *badClock) recovered(t *testing.T, sensors []Sensor, seen map[string]bool) {
	var ratios []float64
	for _, s := range sensors {
		id := s.Listed.ID
		if s.Listed.MaxCrawls == 0 {
			continue
		}
		if until, limited := s.Plan.KnownUntil(); limited && until.Before(c.run.end) {
			continue // it sleeps for ever after
		}
		if s.Listed.Plan.Equal(sleepplan.Unknown()) {
			continue // a hard one may take longer to be found
		}
		rec := c.p.Record(id)
		if !seen[id] {
			t.Errorf("%s (%v) has not been crawled since: last success %v", id, s.Plan, rec.Source)
		}
		ratios = append(ratios, rec.Rate.Mean()/s.Rate)
	}
	slices.Sort(ratios)
	low, median, high := ratios[len(ratios)/20], ratios[len(ratios)/2], ratios[len(ratios)*19/20]
	t.Logf("rates learned over true ones: %.2f .. %.2f .. %.2f", low, median, high)
	if low < 0.3 || high > 3 {
		t.Errorf("what was learned of rates is off by %.2f .. %.2f", low, high)
	}
}
