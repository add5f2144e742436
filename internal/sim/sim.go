// Package sim drives the planner through virtual time, against sensors that
// capture Poisson events while awake, sleep and lose. It decides nothing: the
// only way from a policy to a figure is the planner's Next and Observe, the
// same calls that the daemon makes.
//
// Discovery alone knows no planner: it measures Discovery Services, by a clock that it
// is handed.
package sim

import (
	"container/heap"
	"fmt"
	"time"

	"golang.org/x/time/rate"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// Sensor is one simulated sensor: how it is listed and how it really is.
type Sensor struct {
	Listed fleet.Sensor
	Plan   sleepplan.Plan // the true one
	Rate   float64        // true events per awake second
	Loss   float64        // share of datagrams lost in each direction

	// Changes are later true rates, by instant.
	Changes []RateChange
	// Events, if not nil, are what it captures, sorted; Rate then draws nothing.
	Events []time.Time
	// Logs says that a description lists, with their times, the events since the
	// one before it. Otherwise it shows only that something has changed.
	Logs bool
	// Out is the share of visits that find it out of reach for their whole length,
	// whatever its sleep plan says.
	Out float64
	// Skew is the standard deviation of its clock: in each awake window it can be
	// reached that much earlier or later than its plan says. What it captures is
	// not affected.
	Skew time.Duration

	Uncounted bool // its events do not enter Result
}

// RateChange is a true event rate that holds from an instant on.
type RateChange struct {
	At   time.Time
	Rate float64 // events per awake second
}

// Config is one run.
type Config struct {
	Sensors    []Sensor
	Parameters planner.Parameters
	Start      time.Time
	Duration   time.Duration
	Seed       uint64
	Workers    int           // that solve a range; 0 = 1
	RoundTrip  time.Duration // of an answered visit; 0 = 50 ms

	// Crawled says that every sensor was crawled at Start; otherwise the daemon
	// has never heard of them.
	Crawled bool

	// Paced says that starts keep Parameters.Capacity as package crawler has them keep it;
	// otherwise a visit starts when it is due.
	Paced bool

	// Reloads are what the operator lists later on, by instant.
	Reloads []Reload

	// Watch sees every visit as it is issued; nil if nobody looks. It is how an
	// independent observer checks what the planner promises.
	Watch func(v visit.Visit, now time.Time)
	// Outcome sees what became of each visit; nil if nobody looks.
	Outcome func(o visit.Outcome)
	// Event sees each counted event when it is crawled, those that never were at
	// the end; nil if nobody looks.
	Event func(sensor string, at, seen time.Time)
	// Planned sees each plan as it is adopted; nil if nobody looks.
	Planned func(plan *planner.Plan)
}

// Result sums a run up.
type Result struct {
	Visits   map[visit.Result]int
	Attempts int
	Events   int     // captured by all sensors
	Unseen   int     // of them not crawled by the end
	Latency  float64 // seconds summed over Events; the unseen ones wait until the end
	Status   planner.Status

	// Expected is what Latency is on the average over all events that the true
	// rates could have made, given the visits that were made: (W) of package
	// scheduler, integrated over the true sleep plans. It has no noise of events.
	// Weighted is the same with the listed weights. Both leave out Uncounted
	// sensors and those whose Events are given.
	Expected, Weighted float64
	// Awaited is the expected number of events.
	Awaited float64
}

// Mean is the mean latency of an event in seconds, 0 without events.
func (r Result) Mean() float64 {
	if r.Events == 0 {
		return 0
	}
	return r.Latency / float64(r.Events)
}

// run is the state of one simulation.
type run struct {
	cfg     Config
	p       *planner.Planner
	sensors map[string]*sensor
	order   []*sensor // as configured, so that sums do not depend on a map's order
	pending outcomes
	res     Result
	end     time.Time
	pace    *rate.Limiter // nil: starts are not paced
}

// Run simulates from Start for Duration. The error is of the fleet or of the
// planner's parameters.
func Run(cfg Config) (Result, error) {
	if cfg.RoundTrip <= 0 {
		cfg.RoundTrip = 50 * time.Millisecond
	}
	r := &run{cfg: cfg, sensors: make(map[string]*sensor, len(cfg.Sensors)),
		end: cfg.Start.Add(cfg.Duration)}
	r.res.Visits = map[visit.Result]int{}
	f, err := cfg.fleet()
	if err != nil {
		return Result{}, fmt.Errorf("sim: %w", err)
	}
	for i := range cfg.Sensors {
		sn := newSensor(&cfg, i)
		sn.next = sn.after(cfg.Start, r.end)
		r.sensors[sn.Listed.ID] = sn
		r.order = append(r.order, sn)
	}
	if r.p, err = planner.New(f, cfg.Parameters, cfg.saved(f), cfg.Start); err != nil {
		return Result{}, fmt.Errorf("sim: %w", err)
	}
	if cfg.Paced && cfg.Parameters.Capacity > 0 {
		r.pace = newPace(cfg.Parameters.Capacity)
	}
	if err := r.loop(); err != nil {
		return Result{}, fmt.Errorf("sim: %w", err)
	}
	r.finish()
	return r.res, nil
}

// fleet is what is listed at Start.
func (c Config) fleet() (*fleet.Fleet, error) {
	listed := make([]fleet.Sensor, len(c.Sensors))
	for i := range c.Sensors {
		if listed[i] = c.Sensors[i].Listed; listed[i].ID == "" {
			return nil, fmt.Errorf("sensor %d has no id", i)
		}
	}
	return fleet.New(listed)
}

// saved is what a daemon would have stored of a fleet that was crawled at Start.
func (c Config) saved(f *fleet.Fleet) planner.Saved {
	if !c.Crawled {
		return planner.Saved{}
	}
	saved := planner.Saved{Sensors: map[string][]byte{}}
	for _, s := range f.All() {
		rec := planner.Record{URI: s.URI, Since: c.Start, Source: c.Start,
			Rate: planner.NewRate(s.Rate, s.RateFixed), Planned: s.Rate}
		saved.Sensors[s.ID] = rec.Encode()
	}
	return saved
}

// loop advances virtual time from one thing that happens to the next.
func (r *run) loop() error {
	workers := max(1, r.cfg.Workers)
	for now := r.cfg.Start; now.Before(r.end); {
		if err := r.reload(now); err != nil {
			return err
		}
		for len(r.pending) > 0 && !r.pending[0].Ended.After(now) {
			r.observe(heap.Pop(&r.pending).(visit.Outcome), now)
		}
		if snap, ok := r.p.Problem(now); ok && snap.Start.Before(r.end) {
			plan, err := snap.Solve(workers)
			if err != nil {
				return err
			}
			if r.cfg.Planned != nil {
				r.cfg.Planned(plan)
			}
			r.p.Adopt(plan, now)
		}
		wake := now.Add(r.pause(now))
		if !wake.After(now) {
			var v visit.Visit
			var ok bool
			if v, ok, wake = r.p.Next(now); ok {
				r.visit(v, now)
				continue
			}
		}
		if len(r.pending) > 0 && r.pending[0].Ended.Before(wake) {
			wake = r.pending[0].Ended
		}
		if len(r.cfg.Reloads) > 0 && r.cfg.Reloads[0].At.Before(wake) {
			wake = r.cfg.Reloads[0].At
		}
		now = wake
	}
	return nil
}

// newPace lets that many visits start in a second, and a burst of 20 ms worth.
func newPace(capacity int) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(capacity), max(1, capacity/50))
}

// pause is how long the pace asks to wait before the next start.
func (r *run) pause(now time.Time) time.Duration {
	if r.pace == nil {
		return 0
	}
	missing := 1 - r.pace.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return 1 + time.Duration(missing/float64(r.pace.Limit())*float64(time.Second))
}

func (r *run) visit(v visit.Visit, now time.Time) {
	if r.cfg.Watch != nil {
		r.cfg.Watch(v, now)
	}
	if !v.Deadline.After(now) {
		r.observe(planner.Missed(v, now), now)
		return
	}
	if r.pace != nil {
		r.pace.AllowN(now, 1)
	}
	r.res.Attempts++
	heap.Push(&r.pending, r.sensors[v.Sensor].answer(v, now, r))
}

func (r *run) observe(o visit.Outcome, now time.Time) {
	r.res.Visits[o.Result]++
	if r.cfg.Outcome != nil {
		r.cfg.Outcome(o)
	}
	r.p.Observe(o, now)
}

// finish lets what was not seen wait until the end.
func (r *run) finish() {
	for _, s := range r.order {
		s.advance(r.end, r)
		s.settle(r.end, r)
		s.pay(r.end, r)
		if !s.Uncounted {
			r.res.Unseen += len(s.unseen)
		}
	}
	r.res.Status = r.p.Status(r.end)
}

// outcomes is a heap by the instant at which each is known, ties by sensor.
type outcomes []visit.Outcome

func (h outcomes) Len() int { return len(h) }
func (h outcomes) Less(i, j int) bool {
	if c := h[i].Ended.Compare(h[j].Ended); c != 0 {
		return c < 0
	}
	return h[i].Sensor < h[j].Sensor
}
func (h outcomes) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push is heap.Interface's.
func (h *outcomes) Push(x any) { *h = append(*h, x.(visit.Outcome)) }

// Pop is heap.Interface's.
func (h *outcomes) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
