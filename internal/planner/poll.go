package planner

import (
	"fmt"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/visit"
)

// schedule puts the sensor's next visit into the queues: the next one planned or polled,
// or a probe of its learner before that.
func (p *Planner) schedule(s *sensor, now time.Time) {
	p.wait.remove(s)
	p.due.remove(s)
	if s.inflight {
		return
	}
	if !s.announced.IsZero() {
		s.at, s.kind, s.why = s.announced, visit.Announced, "the sensor said that it is awake"
		p.enqueue(s)
		return
	}
	found := false
	switch {
	case s.polled(now):
		s.at, s.kind, s.why = p.nextPoll(s, now)
		found = true
	case len(s.rec.Instants) > 0:
		s.kind, s.why = visit.Planned, ""
		if s.rec.Retry {
			s.kind = visit.Retry
		}
		s.at = p.midWindow(s, s.rec.Instants[0], now)
		found = true
	}
	if !s.polled(now) && s.rec.Used < s.limit() {
		for _, want := range []func(*sensor, time.Time) (time.Time, string, bool){
			p.nextProbe, p.edgeLook} {
			at, why, ok := want(s, now)
			if at = later(p.spaced(s, at), s.rec.Broke); ok && (!found || at.Before(s.at)) {
				s.at, s.kind, s.why, found = at, visit.Probe, why, true
			}
		}
	}
	if !found {
		return
	}
	if s.at.Before(s.rec.NotBefore) {
		s.at = s.rec.NotBefore
	}
	p.enqueue(s)
}

// enqueue makes the sensor wait for the instant of its next visit.
func (p *Planner) enqueue(s *sensor) {
	s.rec.Next = s.at
	p.wait.put(s)
	for _, r := range s.groups {
		r.dirty = true
	}
}

// firstLook spreads the very first visits to sensors of unknown sleep plan:
// hundredths of a second for each, so that a short list is seen at once and a
// long one without a burst.
const firstLook = 10 * time.Millisecond

// nextPoll is the next visit to a sensor that no crawl plan holds. The least gap and
// the sensor's cap hold on every path.
func (p *Planner) nextPoll(s *sensor, now time.Time) (time.Time, visit.Kind, string) {
	at, kind, why := p.wanted(s, now)
	if p.rec.Stretch > 1.005 && s.rec.Visits > 0 {
		why = fmt.Sprintf("budget: gaps x%.2f; %s", p.rec.Stretch, why)
	}
	at = p.spaced(s, at)
	// A sensor that does not answer but has a sleep plan is looked for when the
	// plan says that it is awake; nothing else would be evidence.
	if w, ok := s.Plan.NextWindow(at); ok && s.rec.Unreachable && w.Start.After(at) {
		at = w.Start.Add(w.Duration() / 2)
	}
	if s.rec.Used >= s.limit() && at.Before(p.end()) {
		at, why = p.end(), fmt.Sprintf("cap %d: next range", s.limit())
	}
	return at, kind, why
}

// wanted is what tracker and learner want, whichever comes first: one follows what the
// sensor publishes, the other finds out when it is awake. A sensor that is out of reach
// although its plan is listed is searched for.
func (p *Planner) wanted(s *sensor, now time.Time) (at time.Time, kind visit.Kind, why string) {
	stretch := max(p.rec.Stretch, 1)
	probe, reason, ok := p.nextProbe(s, now)
	switch {
	case s.rec.Visits == 0:
		spread := min(p.polling(s).Bootstrap, firstLook*time.Duration(len(p.sensors)))
		at = s.rec.Since.Add(time.Duration(float64(spread) * float64(s.seed()>>11) / (1 << 53)))
		return at, visit.Probe, "learner: never asked before"
	case ok:
		if s.rec.Tracker != nil {
			at, why = p.ownPoll(s, now, stretch)
		}
		if s.rec.Tracker == nil || probe.Before(at) {
			return probe, visit.Probe, reason
		}
		return at, visit.Poll, why
	}
	if s.rec.Search == nil {
		s.rec.Search = dpt.NewSearch(p.polling(s), now, s.seed())
	}
	at, why = s.rec.Search.Next(now, stretch)
	return at, visit.Probe, why
}
