package planner

import (
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// Next returns the visit that is due, or when to ask again. Of several that are
// due, the one worth most comes first, so that under overload the least
// valuable are the ones whose window closes before their turn.
//
// Taking a visit counts it against theta and gamma at once. A visit whose
// Deadline is not after now is too late: its window has closed, or a later
// instant of the same sensor has come. It was not counted and is to be observed
// as missed (see Missed) without asking the sensor.
func (p *Planner) Next(now time.Time) (v visit.Visit, ok bool, wake time.Time) {
	if len(p.lost) > 0 {
		v, p.lost = p.lost[0], p.lost[1:]
		return v, true, now
	}
	p.roll(now)
	if !now.Before(p.spendAt) {
		p.spendRest(now)
		p.spendAt = p.nextSpend(now)
	}
	p.timeGroups(now)
	for p.wait.len() > 0 && !p.wait.items[0].at.After(now) {
		s := p.wait.items[0]
		p.wait.remove(s)
		p.due.put(s)
	}
	for p.due.len() > 0 {
		s := p.due.items[0]
		p.due.remove(s)
		if v, ok := p.take(s, now); ok {
			return v, true, now
		}
	}
	wake = p.end()
	if p.spendAt.Before(wake) {
		wake = p.spendAt
	}
	if p.wait.len() > 0 && p.wait.items[0].at.Before(wake) {
		wake = p.wait.items[0].at
	}
	if at, start := p.snapshotAt(); !p.asked.Equal(start) && at.Before(wake) {
		wake = at
	}
	return visit.Visit{}, false, wake
}

// take issues the sensor's visit, or puts it off when the budget is spent.
func (p *Planner) take(s *sensor, now time.Time) (visit.Visit, bool) {
	if s.dormant(now) {
		p.schedule(s, now)
		return visit.Visit{}, false
	}
	v := p.visit(s, now)
	planned := v.Kind == visit.Planned || v.Kind == visit.Retry
	if planned {
		p.setInstants(s, s.rec.Instants[1:])
	}
	late := !v.Deadline.After(now)
	if v.Kind == visit.Announced {
		s.announced = time.Time{}
		if !late && p.welcome(s, now) != nil {
			p.schedule(s, now) // what was left has been spent since
			return visit.Visit{}, false
		}
		if !late {
			p.makeRoom(s)
		}
	}
	if !late && !p.affordable(s, planned) {
		p.putOff(s, now)
		return visit.Visit{}, false
	}
	s.inflight, s.issued, s.counted = true, v.At, !late
	if !late {
		p.spend(s, v.Kind, 1)
		p.pollTaken(v.Kind)
		p.asking(s, now)
		if v.Kind == visit.Announced && s.polled(now) {
			p.pollTaken(visit.Poll) // it saves one
		}
	}
	return v, true
}

// dormant tells of a sensor out of reach that its listing has asleep. When the budget or
// the pace allow to look for it need not be in a window.
func (s *sensor) dormant(now time.Time) bool {
	if !s.rec.Unreachable {
		return false
	}
	w, ok := s.Plan.NextWindow(now)
	return ok && w.Start.After(now)
}

// affordable holds the two hard counters. Polls may use what no planned crawl
// needs.
func (p *Planner) affordable(s *sensor, planned bool) bool {
	if s.rec.Used >= s.limit() || p.spent >= p.rec.Theta {
		return false
	}
	return planned || p.spent+p.left < p.rec.Theta
}

// putOff moves a visit that the budget does not allow: a planned crawl falls
// out of the range, a poll waits for the next one.
func (p *Planner) putOff(s *sensor, now time.Time) {
	p.dropped++
	if s.kind == visit.Probe && !s.polled(now) || s.kind == visit.Poll && len(s.groups) > 0 {
		s.rec.Broke = p.end()
	}
	p.schedule(s, now)
	if s.polled(now) && s.at.Before(p.end()) {
		s.at, s.why = p.end(), "budget: theta of this range is spent"
		s.rec.Next = s.at
		p.wait.put(s)
	}
}

// visit fills in everything the exchange layer needs to know.
func (p *Planner) visit(s *sensor, now time.Time) visit.Visit {
	v := visit.Visit{Sensor: s.ID, URI: s.URI, At: s.at, Kind: s.kind, Why: s.whyNow(p, s.at),
		Value: p.value(s), ETag: s.rec.ETag, Known: s.rec.Known, AckTimeout: s.AckTimeout,
		Retrans: retransmissions(s.MaxRetrans), Credential: s.Credential}
	v.Full = s.rec.Known == "" || (s.rec.Visits+1)%fullEvery == 0
	v.Deadline = now.Add(maxExchange)
	switch s.kind {
	case visit.Probe:
		v.NON, v.Retrans, v.Deadline = true, 0, now.Add(probeWait)
	case visit.Poll:
		v.Retrans = min(v.Retrans, pollRetrans)
	case visit.Announced:
		p.announcedDeadline(s, &v, now)
	case visit.Planned, visit.Retry:
		p.plannedDeadline(s, &v, now)
	}
	return v
}

// pollRetrans bounds the retransmissions of a poll: it repairs a lost datagram,
// but does not call after a sensor that has gone to sleep.
const pollRetrans = 2

// retransmissions maps the listing's 0 (default) and negative (none).
func retransmissions(listed int) int {
	switch {
	case listed == 0:
		return 4 // MAX_RETRANSMIT, RFC 7252 section 4.8
	case listed < 0:
		return 0
	}
	return listed
}

// plannedDeadline ends the exchange with the awake window. A window that has
// closed, or a later instant that has come too, makes the visit a missed one.
func (p *Planner) plannedDeadline(s *sensor, v *visit.Visit, now time.Time) {
	w, awake := s.Plan.Window(v.At)
	if awake && w.End.Before(v.Deadline) {
		v.Deadline = w.End
	}
	superseded := len(s.rec.Instants) > 1 && !s.rec.Instants[1].After(now)
	if superseded {
		v.Deadline = s.rec.Instants[1]
	}
	if !awake && now.Sub(v.At) > maxExchange { // a sleep-unaware baseline's instant
		v.Deadline = v.At
	}
}

// Missed is the outcome of a visit that came too late to be made.
func Missed(v visit.Visit, now time.Time) visit.Outcome {
	return visit.Outcome{Visit: v, Result: visit.Missed, Reason: "late",
		Error: "the window had closed before the visit could start", Started: now, Ended: now}
}
