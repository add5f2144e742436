package testbed

import (
	"math"
	"math/rand/v2"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// Event is one change of one sensor's description.
type Event struct {
	Sensor string    // Spec.Name
	At     time.Time // when it was captured
	Seq    int       // 1, 2, .. per sensor
}

// process is one sensor's events: Poisson of a constant rate in awake time. It
// runs on no timer. Whoever reads it says what time it is; the gaps between
// events are counted in whole nanoseconds of awake time, so the instants are the
// same however often it is read.
type process struct {
	rng    *rand.Rand
	rate   float64
	plan   sleepplan.Plan
	drift  time.Duration
	cursor time.Time     // times is complete up to here
	left   time.Duration // awake time from cursor to the next event
	times  []time.Time   // times[i] is the instant of event i+1
}

func newProcess(rng *rand.Rand, s Spec, start time.Time) *process {
	p := &process{rng: rng, rate: s.Rate, plan: truth(s.Plan), drift: s.Drift, cursor: start}
	p.left = p.gap()
	return p
}

// truth is the plan that a sensor follows which was given p.
func truth(p sleepplan.Plan) sleepplan.Plan {
	if p.Kind() == sleepplan.KindUnknown {
		return sleepplan.AlwaysOn()
	}
	return p
}

// gap draws the awake time between two events; the longest one that a Duration
// holds where there are none.
func (p *process) gap() time.Duration {
	ns := p.rng.ExpFloat64() / p.rate * float64(time.Second)
	if !(ns < math.MaxInt64) {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

// awake reports whether the sensor is awake by its own clock.
func (p *process) awake(now time.Time) bool { return p.plan.Awake(now.Add(-p.drift)) }

// advance lets the events before now happen. An earlier now changes nothing.
func (p *process) advance(now time.Time) {
	if !now.After(p.cursor) {
		return
	}
	if p.rate > 0 {
		for _, w := range p.plan.Windows(p.cursor.Add(-p.drift), now.Add(-p.drift)) {
			p.live(w.Start.Add(p.drift), w.End.Add(p.drift))
		}
	}
	p.cursor = now
}

// live spends the awake time [at, end).
func (p *process) live(at, end time.Time) {
	for end.Sub(at) > p.left {
		at = at.Add(p.left)
		p.times = append(p.times, at)
		p.left = p.gap()
	}
	p.left -= end.Sub(at)
}

// publish adds an event at now, on top of the process, and returns its instant:
// now, or the cursor if the wall clock was set back.
func (p *process) publish(now time.Time) time.Time {
	p.advance(now)
	p.times = append(p.times, p.cursor)
	return p.cursor
}
