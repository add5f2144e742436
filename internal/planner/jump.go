package planner

import (
	"maps"
	"time"
)

// Jump follows a wall clock that has come further by that much, or less far, than time
// itself. It is to be called before anything else is asked at an instant of the new clock.
//
// The running range keeps what is left of its length and of its budget and caps: a clock
// that is set to and fro buys no crawls, and starves nobody either. Instants of the old
// clock mean nothing in the new one, so that the rest of the range is solved anew.
func (p *Planner) Jump(by time.Duration, now time.Time) {
	p.rec.Range, p.jumps = p.rec.Range.Add(by), jumps{p.jumps.Count + 1, p.jumps.By + by}
	p.spendAt, p.drift.since = p.spendAt.Add(by), p.drift.since.Add(by)
	p.pending, p.asked = nil, time.Time{}
	p.mending, p.astray = false, p.solved
	for _, s := range p.sensors {
		p.setInstants(s, nil)
		s.shift(by, now)
		p.takeClaim(s, now)
	}
	p.meet(now)
	for _, s := range p.sensors {
		p.schedule(s, now)
	}
}

// shift moves what is known of a sensor to the new clock. Trackers and learners know only
// instants, and begin anew.
func (s *sensor) shift(by time.Duration, now time.Time) {
	s.jumped = true
	s.issued, s.probe = s.issued.Add(by), probe{}
	s.rec.Retry, s.rec.Contacts = false, nil
	s.rec.Tracker, s.rec.Search, s.rec.Learner = nil, nil, nil
	for _, r := range []*Record{s.rec, s.undo} {
		if r != nil {
			r.shift(by, now)
		}
	}
}

// shift moves the instants that the daemon took from its own clock. Whether a clock that
// leaps ahead was set, or the machine has slept, cannot be told: the last success is then
// taken to be as old as it looks. What lies ahead of a clock that was set back has been
// read off the old one.
func (r *Record) shift(by time.Duration, now time.Time) {
	for _, t := range []*time.Time{&r.LastAttempt, &r.NotBefore, &r.SilentAt, &r.Fresh, &r.Broke} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	for _, t := range []*time.Time{&r.Source, &r.Since} {
		if t.After(now) {
			*t = t.Add(by)
		}
	}
	r.Completed = maps.Clone(r.Completed) // a copy of the record may share it
	for id, at := range r.Completed {
		r.Completed[id] = at.Add(by)
	}
	r.notAfter(now)
}

// origin is where the running range began by the clock of then, whatever that has been set
// to since: the sensors' records know it by that.
func (p *Planner) origin() time.Time { return p.rec.Range.Add(-p.jumps.By) }
