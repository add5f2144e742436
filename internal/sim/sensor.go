package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// ackTimeout is ACK_TIMEOUT of RFC 7252 section 4.8.
const ackTimeout = 2 * time.Second

// sensor draws its events lazily: the next one is known, the rest is not.
type sensor struct {
	*Sensor
	rng    *rand.Rand // of events: the same whatever the policy does
	wire   *rand.Rand // of losses and timeouts
	next   time.Time  // next event; zero: none any more
	given  []time.Time
	seen   time.Time // last success, at first Start
	seed   uint64
	unseen []time.Time
	seq    int // events up to now
	served bool
	sent   int // seq of the description that was last served
}

// newSensor is a run's i-th sensor at its start.
func newSensor(c *Config, i int) *sensor {
	s := &c.Sensors[i]
	return &sensor{Sensor: s, rng: rand.New(rand.NewPCG(c.Seed, uint64(i)+1)),
		wire: rand.New(rand.NewPCG(c.Seed+1, uint64(i)+1)), given: s.Events,
		seen: c.Start, seed: c.Seed ^ uint64(i+1)<<32, served: c.Crawled}
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
	at, out := now, s.Out > 0 && s.wire.Float64() < s.Out
	for try := 0; try <= v.Retrans && at.Before(v.Deadline); try++ {
		o.DatagramsSent++
		o.Retransmissions = try
		if s.hears(at) && s.wire.Float64() < (1-s.Loss)*(1-s.Loss) && !out {
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
	if s.Logs {
		o.PublishedAt = slices.Clone(s.unseen)
	}
	s.settle(at, r)
	s.unseen = s.unseen[:0]
	s.pay(at, r)
	return o
}

// hears tells whether the sensor can be reached: in its awake windows as its own
// clock has them. Each window's error is drawn from its start, so that it is the
// same for every policy.
func (s *sensor) hears(at time.Time) bool {
	if s.Skew == 0 {
		return s.Plan.Awake(at)
	}
	for _, near := range s.Plan.Windows(at.Add(-8*s.Skew), at.Add(8*s.Skew)) {
		w, _ := s.Plan.Window(near.Start) // near is cut off where the search begins
		rng := rand.New(rand.NewPCG(s.seed, uint64(w.Start.UnixNano())))
		off := time.Duration(rng.NormFloat64() * float64(s.Skew))
		if !at.Before(w.Start.Add(off)) && at.Before(w.End.Add(off)) {
			return true
		}
	}
	return false
}

// rate is the true rate at an instant, and until when it holds.
func (s *sensor) rate(at time.Time) (rate float64, until time.Time) {
	rate = s.Rate
	for _, c := range s.Changes {
		if c.At.After(at) {
			return rate, c.At
		}
		rate = c.Rate
	}
	return rate, time.Time{}
}

// pay adds up what the awake time since the last success makes events wait, on
// the average, for a crawl now: (W), piece by piece of constant rate.
func (s *sensor) pay(now time.Time, r *run) {
	from := s.seen
	s.seen = now
	if s.Uncounted || s.Events != nil {
		return
	}
	for _, w := range s.Plan.Windows(from, now) {
		for at := later(w.Start, from); at.Before(earlier(w.End, now)); {
			rate, until := s.rate(at)
			to := earlier(w.End, now)
			if !until.IsZero() {
				to = earlier(to, until)
			}
			a, b := now.Sub(at).Seconds(), now.Sub(to).Seconds()
			r.res.Expected += rate * (a*a - b*b) / 2
			r.res.Weighted += s.Listed.Weight * rate * (a*a - b*b) / 2
			r.res.Awaited += rate * (a - b)
			at = to
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
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
		if r.cfg.Event != nil {
			r.cfg.Event(s.Listed.ID, at, now)
		}
	}
}

// after is the first event after t: the next given one, or one an exponential
// amount of rate times awake time on.
func (s *sensor) after(t, end time.Time) time.Time {
	if s.Events != nil {
		for len(s.given) > 0 && s.given[0].Before(t) { // before Start
			s.given = s.given[1:]
		}
		if len(s.given) == 0 || s.given[0].After(end) {
			return time.Time{}
		}
		next := s.given[0]
		s.given = s.given[1:]
		return next
	}
	left := s.rng.ExpFloat64()
	for t.Before(end) {
		w, ok := s.Plan.NextWindow(t)
		if !ok || !w.Start.Before(end) {
			break
		}
		from := later(t, w.Start)
		rate, until := s.rate(from)
		to := earlier(w.End, end)
		if !until.IsZero() {
			to = earlier(to, until)
		}
		if events := rate * to.Sub(from).Seconds(); events < left {
			left -= events
			t = to
			continue
		}
		return from.Add(time.Duration(left / rate * float64(time.Second)))
	}
	return time.Time{}
}
