package planner

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// Why an announcement leads to no visit of its own. The text around them has the number
// that binds.
var (
	// ErrUnlisted: no sensor of that id is in the fleet.
	ErrUnlisted = errors.New("not in the fleet")
	// ErrUnderWay: a visit to the sensor runs at this moment.
	ErrUnderWay = errors.New("a visit is under way")
	// ErrGap: the last visit is less than the minimum gap ago, or the sensor asked for rest.
	ErrGap = errors.New("asked too short a time ago")
	// ErrCap: the sensor's cap of the running range is used up.
	ErrCap = errors.New("the sensor's cap is used up")
	// ErrBudget: what is left of the running range's budget is meant for other sensors.
	ErrBudget = errors.New("the budget is spent")
)

// Contact takes in that the sensor has been heard of at this instant: a proof that it is
// awake, as authentic as an answer. An unreachable sensor is reachable again. It reports
// whether the sensor is in the fleet.
func (p *Planner) Contact(id string, now time.Time) bool {
	i, ok := p.fleet.Find(id)
	if !ok {
		return false
	}
	s := p.sensors[i]
	wasPolled := s.polled(now)
	s.heard(now)
	o := visit.Outcome{Visit: visit.Visit{Sensor: id, At: now, Kind: visit.Announced},
		Result: visit.Unchanged, Contact: true, Started: now, Ended: now}
	moved := p.learn(s, o, now)
	p.evidence(s, o, now)
	if (moved || wasPolled) && !s.polled(now) && p.par.Algorithm == nil && p.planned(s) {
		p.replan(s, now)
	}
	p.schedule(s, now)
	return true
}

// heard notes an instant at which the sensor was awake for certain.
func (s *sensor) heard(at time.Time) {
	s.rec.Contacts = append(s.rec.Contacts, at)
	if extra := len(s.rec.Contacts) - maxContacts; extra > 0 {
		s.rec.Contacts = slices.Delete(s.rec.Contacts, 0, extra)
	}
}

// Announce takes in that the sensor said it is awake, and makes a visit due at once, before
// all others. The visit counts against theta and gamma like any other and keeps the minimum
// gap. Where they leave no room for one more, it takes the place of the sensor's own next
// planned crawl. The error tells why no visit was queued; the contact counts all the same.
func (p *Planner) Announce(id string, now time.Time) error {
	p.roll(now)
	if !p.Contact(id, now) {
		return fmt.Errorf("sensor %q: %w", id, ErrUnlisted)
	}
	i, _ := p.fleet.Find(id)
	s := p.sensors[i]
	if err := p.welcome(s, now); err != nil {
		return fmt.Errorf("sensor %q: %w", id, err)
	}
	if s.announced.IsZero() {
		s.announced = now
	}
	p.schedule(s, now)
	return nil
}

// welcome tells whether the rules allow a visit to the sensor now.
func (p *Planner) welcome(s *sensor, now time.Time) error {
	from := p.earliest(s, now)
	switch {
	case s.inflight:
		return ErrUnderWay
	case from.After(now):
		return fmt.Errorf("%w: not before %s", ErrGap, clock(from))
	case s.rec.Used >= s.limit():
		return fmt.Errorf("%w: %d until %s", ErrCap, s.MaxCrawls, clock(p.end()))
	case p.spent >= p.rec.Theta || p.spent+p.left >= p.rec.Theta && len(s.rec.Instants) == 0:
		return fmt.Errorf("%w: %d until %s", ErrBudget, p.rec.Theta, clock(p.end()))
	}
	return nil
}

// makeRoom gives up the sensor's next planned crawl where its cap or the budget has no room
// for an announced visit beside it.
func (p *Planner) makeRoom(s *sensor) {
	if n := len(s.rec.Instants); n > 0 &&
		(s.rec.Used+n >= s.limit() || p.spent+p.left >= p.rec.Theta) {
		p.setInstants(s, slices.Clone(s.rec.Instants[1:]))
	}
}

// announcedDeadline ends the exchange with the awake window, where one is known; a sensor
// that is up outside of its plan gets the time of one exchange.
func (p *Planner) announcedDeadline(s *sensor, v *visit.Visit, now time.Time) {
	if w, awake := s.Plan.Window(now); awake && w.End.Before(v.Deadline) {
		v.Deadline = w.End
	}
	if v.At.Before(now.Add(-maxExchange)) { // the loop stood still: it will be asleep again
		v.Deadline = v.At
	}
}
