// Package sim drives the planner through virtual time, against sensors that
// capture Poisson events while awake, sleep and lose. It decides nothing: the
// only way from a policy to a figure is the planner's Next and Observe, the
// same calls that the daemon makes.
package sim

import (
	"container/heap"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

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

	Uncounted bool // its events do not enter Result
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

	// Watch sees every visit as it is issued; nil if nobody looks. It is how an
	// independent observer checks what the planner promises.
	Watch func(v visit.Visit, now time.Time)
}

// Result sums a run up.
type Result struct {
	Visits   map[visit.Result]int
	Attempts int
	Events   int     // captured by all sensors
	Unseen   int     // of them not crawled by the end
	Latency  float64 // seconds summed over Events; the unseen ones wait until the end
	Status   planner.Status
}

// Mean is the mean latency of an event in seconds, 0 without events.
func (r Result) Mean() float64 {
	if r.Events == 0 {
		return 0
	}
	return r.Latency / float64(r.Events)
}

// ackTimeout is ACK_TIMEOUT of RFC 7252 section 4.8.
const ackTimeout = 2 * time.Second

// run is the state of one simulation.
type run struct {
	cfg     Config
	p       *planner.Planner
	sensors map[string]*sensor
	order   []*sensor // as configured, so that sums do not depend on a map's order
	pending outcomes
	res     Result
	end     time.Time
}

// sensor draws its events lazily: the next one is known, the rest is not.
type sensor struct {
	Sensor
	rng    *rand.Rand // of events: the same whatever the policy does
	wire   *rand.Rand // of losses and timeouts
	next   time.Time  // next event; zero: none any more
	unseen []time.Time
	seq    int // events up to now
	served bool
	sent   int // seq of the description that was last served
}

// Run simulates from Start for Duration. The error is of the fleet or of the
// planner's parameters.
func Run(cfg Config) (Result, error) {
	if cfg.RoundTrip <= 0 {
		cfg.RoundTrip = 50 * time.Millisecond
	}
	r := &run{cfg: cfg, sensors: map[string]*sensor{}, end: cfg.Start.Add(cfg.Duration)}
	r.res.Visits = map[visit.Result]int{}
	listed := make([]fleet.Sensor, len(cfg.Sensors))
	for i, s := range cfg.Sensors {
		listed[i] = s.Listed
	}
	f, err := fleet.New(listed)
	if err != nil {
		return Result{}, fmt.Errorf("sim: %w", err)
	}
	for i, s := range cfg.Sensors {
		id := s.Listed.ID
		if id == "" {
			return Result{}, fmt.Errorf("sim: sensor %d has no id", i)
		}
		sn := &sensor{Sensor: s, rng: rand.New(rand.NewPCG(cfg.Seed, uint64(i)+1)),
			wire: rand.New(rand.NewPCG(cfg.Seed+1, uint64(i)+1))}
		sn.next = sn.after(cfg.Start, r.end)
		r.sensors[id] = sn
		r.order = append(r.order, sn)
	}
	if r.p, err = planner.New(f, cfg.Parameters, planner.Saved{}, cfg.Start); err != nil {
		return Result{}, fmt.Errorf("sim: %w", err)
	}
	if err := r.loop(); err != nil {
		return Result{}, fmt.Errorf("sim: %w", err)
	}
	r.finish()
	return r.res, nil
}

// loop advances virtual time from one thing that happens to the next.
func (r *run) loop() error {
	workers := max(1, r.cfg.Workers)
	for now := r.cfg.Start; now.Before(r.end); {
		for len(r.pending) > 0 && !r.pending[0].Ended.After(now) {
			r.observe(heap.Pop(&r.pending).(visit.Outcome), now)
		}
		if snap, ok := r.p.Problem(now); ok {
			plan, err := snap.Solve(workers)
			if err != nil {
				return err
			}
			r.p.Adopt(plan, now)
		}
		v, ok, wake := r.p.Next(now)
		if ok {
			r.visit(v, now)
			continue
		}
		if len(r.pending) > 0 && r.pending[0].Ended.Before(wake) {
			wake = r.pending[0].Ended
		}
		now = wake
	}
	return nil
}

func (r *run) visit(v visit.Visit, now time.Time) {
	if r.cfg.Watch != nil {
		r.cfg.Watch(v, now)
	}
	if !v.Deadline.After(now) {
		r.observe(planner.Missed(v, now), now)
		return
	}
	r.res.Attempts++
	heap.Push(&r.pending, r.sensors[v.Sensor].answer(v, now, r))
}

func (r *run) observe(o visit.Outcome, now time.Time) {
	r.res.Visits[o.Result]++
	r.p.Observe(o, now)
}

// answer is what becomes of a visit that starts now: the exchange of RFC 7252
// section 4.2, each try lost or heard, each wait twice as long as the one before.
func (s *sensor) answer(v visit.Visit, now time.Time, r *run) visit.Outcome {
	o := visit.Outcome{Visit: v, Result: visit.Asleep, Reason: "timeout", Started: now}
	wait := v.AckTimeout
	if wait == 0 {
		wait = ackTimeout
	}
	wait += time.Duration(s.wire.Float64() * float64(wait) / 2)
	at := now
	for try := 0; try <= v.Retrans && at.Before(v.Deadline); try++ {
		o.DatagramsSent++
		o.Retransmissions = try
		if s.Plan.Awake(at) && s.wire.Float64() < (1-s.Loss)*(1-s.Loss) {
			return s.describe(o, at, r)
		}
		at = at.Add(wait)
		wait *= 2
	}
	if o.Ended = at; v.NON || at.After(v.Deadline) {
		o.Ended = v.Deadline
	}
	return o
}

// describe is the answer of a sensor that was reached at the given instant.
func (s *sensor) describe(o visit.Outcome, at time.Time, r *run) visit.Outcome {
	s.advance(at, r)
	o.Contact, o.DatagramsReceived, o.Ended = true, 1, at.Add(r.cfg.RoundTrip)
	o.Result, o.Reason = visit.Unchanged, ""
	if !s.served || s.sent != s.seq {
		o.Result = visit.Described
	}
	s.served, s.sent = true, s.seq
	o.Hash = fmt.Sprintf("%064x", s.seq)
	s.settle(at, r)
	s.unseen = s.unseen[:0]
	return o
}

// advance captures the events up to now.
func (s *sensor) advance(now time.Time, r *run) {
	for !s.next.IsZero() && !s.next.After(now) {
		s.unseen = append(s.unseen, s.next)
		s.seq++
		if !s.Uncounted {
			r.res.Events++
		}
		s.next = s.after(s.next, r.end)
	}
}

// settle adds up what the unseen events have waited by now.
func (s *sensor) settle(now time.Time, r *run) {
	if s.Uncounted {
		return
	}
	for _, at := range s.unseen {
		r.res.Latency += now.Sub(at).Seconds()
	}
}

// after draws the first event after t: an exponential amount of awake time on.
func (s *sensor) after(t, end time.Time) time.Time {
	if s.Rate <= 0 {
		return time.Time{}
	}
	left := time.Duration(math.Min(s.rng.ExpFloat64()/s.Rate*1e9, math.MaxInt64/4))
	for t.Before(end) {
		w, ok := s.Plan.NextWindow(t)
		if !ok || !w.Start.Before(end) {
			break
		}
		from := t
		if w.Start.After(from) {
			from = w.Start
		}
		if w.End.Sub(from) > left {
			return from.Add(left)
		}
		left -= w.End.Sub(from)
		t = w.End
	}
	return time.Time{}
}

// finish lets what was not seen wait until the end.
func (r *run) finish() {
	for _, s := range r.order {
		s.advance(r.end, r)
		s.settle(r.end, r)
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
