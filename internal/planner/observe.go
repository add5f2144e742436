package planner

import (
	"slices"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/visit"
)

// NotStored is the Reason of an outcome that is observed again because the
// repository could not commit it.
const NotStored = "not-stored"

// maxSilent is how many unanswered confirmable mid-window visits, in different
// windows, make a sensor unreachable.
const maxSilent = 2

// alwaysOnApart is what stands for "different windows" where a sensor has only
// one.
const alwaysOnApart = time.Minute

// Observe takes in what became of a visit and returns the sensor's new record,
// to be stored in one transaction with the outcome. If that fails, the outcome
// is observed again as failed with Reason NotStored: the source then goes back.
// It returns nil for a sensor that has left the fleet.
func (p *Planner) Observe(o visit.Outcome, now time.Time) *Record {
	i, ok := p.fleet.Find(o.Sensor)
	if !ok {
		return nil
	}
	s := p.sensors[i]
	if o.Reason == NotStored {
		p.takeBack(s, now)
	} else {
		s.inflight = false
	}
	if o.Result == visit.Missed {
		p.refund(s, o)
		s.rec.Last, s.rec.LastReason = o.Result, o.Reason
		p.looked(s, o, now)
		p.afterMiss(s, now)
		return s.rec
	}
	s.counted = false
	p.note(s, o)
	if o.Result.Success() {
		s.undo = s.rec.clone()
		p.succeed(s, o)
	}
	p.learnGuard(s, o)
	p.restake(s)
	wasPolled := s.polled(now)
	p.track(s, o, now)
	moved := p.learn(s, o, now)
	p.evidence(s, o, now)
	p.react(s, o, wasPolled || moved, now)
	p.looked(s, o, now)
	p.schedule(s, now)
	return s.rec
}

// refund takes a visit off the counters that was counted when it was handed out
// but never reached the wire.
func (p *Planner) refund(s *sensor, o visit.Outcome) {
	if !s.counted {
		return
	}
	s.counted = false
	s.rec.LastAttempt = o.Ended // what kept it from being sent may last
	p.spend(s, o.Kind, -1)
}

// takeBack undoes a success whose outcome was not stored. What the repository
// holds of the sensor is no longer sure, least of all when a later success has
// been observed meanwhile: the next visit fetches in full.
func (p *Planner) takeBack(s *sensor, now time.Time) {
	s.rec.ETag, s.rec.Known = nil, ""
	if s.undo != nil {
		duty := s.rec.Duty
		s.rec.Source, s.rec.Rate, s.rec.Duty = s.undo.Source, s.undo.Rate, s.undo.Duty
		s.recount(duty)
		s.rec.Fresh, s.rec.Completed = s.undo.Fresh, s.undo.Completed
		s.undo = nil
		for _, r := range s.groups {
			r.restore(p, now)
		}
	}
}

// note keeps what every attempt leaves behind.
func (p *Planner) note(s *sensor, o visit.Outcome) {
	s.rec.Visits++
	s.rec.Last, s.rec.LastReason, s.rec.LastAttempt = o.Result, o.Reason, o.Started
	if o.Kind == visit.Planned || o.Kind == visit.Retry {
		p.rec.Attempts++
		s.rec.Tried++
		if !o.Result.Success() {
			p.rec.Failed++
			s.rec.Lost++
		}
		if s.rec.Tried > memoryTries {
			s.rec.Tried /= 2
			s.rec.Lost /= 2
		}
	}
	if o.Result.Success() {
		s.rec.Failures = 0
	} else {
		s.rec.Failures++
	}
	if o.RetryAfter > 0 {
		s.rec.NotBefore = o.Ended.Add(o.RetryAfter)
	}
	if o.Contact {
		s.heard(o.Ended)
	}
	s.undo = nil
}

// succeed moves the source and learns the rate. The first description ever is
// no event: nothing is known of when it came to be. Neither is anything learned of a
// time in which the clock has jumped: a year that never was would look like one without
// an event.
func (p *Planner) succeed(s *sensor, o visit.Outcome) {
	if !s.rec.Source.IsZero() && !s.jumped {
		exposure := p.exposure(s, s.rec.Source, o.Started)
		s.collect(exposure)
		logged := 0
		for _, t := range o.PublishedAt {
			if t.After(s.rec.Source) && !t.After(o.Ended) {
				logged++
			}
		}
		if logged > 0 {
			s.rec.Rate.Events(logged, exposure)
		} else {
			s.rec.Rate.Visit(o.Result == visit.Described, exposure)
		}
	}
	s.rec.Source, s.jumped = o.Started, false
	if len(o.NewETag) > 0 || o.Code != "2.03" { // a 2.03 need not repeat the ETag it confirms
		s.rec.ETag = o.NewETag
	}
	if o.Hash != "" {
		s.rec.Known = o.Hash
	}
}

// exposure is the awake time between two successes in seconds. Where the sleep
// plan is unknown all time counts: the rate then is one per second of life.
func (p *Planner) exposure(s *sensor, from, to time.Time) float64 {
	if !to.After(from) {
		return 0
	}
	if until, limited := s.Plan.KnownUntil(); limited && until.Before(to) {
		return to.Sub(from).Seconds()
	}
	var awake time.Duration
	for _, w := range s.Plan.Windows(from, to) {
		awake += w.Duration()
	}
	return awake.Seconds()
}

// maxUnanswered is how many polls in a row may stay unanswered before a sensor
// without sleep plan is searched for again instead of tracked: a tracker knows
// when something is published, not when the sensor can be reached.
const maxUnanswered = 8

// track feeds tracker and search of a polled sensor. The first contact ends the
// search; what the tracker has learned survives a silence.
func (p *Planner) track(s *sensor, o visit.Outcome, now time.Time) {
	if !s.polled(now) {
		return
	}
	if s.rec.Tracker != nil {
		s.rec.Tracker.Observe(o)
	}
	if s.rec.Search != nil {
		s.rec.Search.Observe(o)
	}
	switch {
	case o.Contact:
		s.rec.Search = nil
		if s.rec.Tracker == nil && !s.rec.Unreachable {
			s.rec.Tracker = dpt.NewTracker(p.polling(s), o.Started)
			s.rec.Tracker.Observe(o)
		}
	case s.rec.Search == nil && s.rec.Failures >= maxUnanswered && !s.hidden(now):
		s.rec.Search = dpt.NewSearch(p.polling(s), o.Ended, s.seed())
	}
}

// evidence applies the one revocation rule: two unanswered confirmable visits
// in the middle of different windows make a sensor unreachable, any contact
// makes it reachable again. Its declared plan is kept, a learned one is revoked.
func (p *Planner) evidence(s *sensor, o visit.Outcome, now time.Time) {
	if o.Contact {
		s.rec.Mid, s.rec.Silent, s.rec.Unreachable = false, 0, false
		s.rec.SilentAt = time.Time{}
		return
	}
	w, awake := s.Plan.Window(o.Started)
	if o.Result != visit.Asleep || o.NON || !awake || s.rec.Unreachable {
		return
	}
	at := w.Start
	quarter := w.Duration() / 4
	if w.Duration() > 2*p.par.Range { // as good as always on
		if !s.rec.SilentAt.IsZero() && o.Started.Sub(s.rec.SilentAt) < alwaysOnApart {
			return
		}
		at = o.Started
	} else if o.Started.Before(w.Start.Add(quarter)) || o.Started.After(w.End.Add(-quarter)) {
		s.rec.Mid = true
		return
	} else if s.rec.SilentAt.Equal(at) {
		return
	}
	s.rec.Silent, s.rec.SilentAt = s.rec.Silent+1, at
	s.rec.Mid = true
	if s.rec.Silent >= maxSilent && !p.revoke(s, now) {
		s.rec.Unreachable = true
		s.rec.Search = dpt.NewSearch(p.polling(s), o.Ended, s.seed())
	}
}

// react plans on: at once after a failure, at the sensor's wish after a refusal,
// and when the rate or, with moved, the sleep plan is no longer what it was.
func (p *Planner) react(s *sensor, o visit.Outcome, moved bool, now time.Time) {
	if s.polled(now) {
		p.setInstants(s, nil)
		return
	}
	if o.Kind != visit.Probe {
		s.rec.Retry = false
	}
	switch {
	case p.par.Algorithm != nil || !p.planned(s):
	case o.Result == visit.Refused && o.RetryAfter == 0:
		p.afterRefusal(s, o)
	case o.Kind == visit.Probe && !o.Result.Success() && !moved:
		// It was sent once to learn from, and moves no plan.
	case !o.Result.Success():
		p.replan(s, now)
		s.rec.Retry = len(s.rec.Instants) > 0 && o.Kind != visit.Probe
	case moved || o.Kind == visit.Probe || o.Kind == visit.Announced:
		p.replan(s, now) // back from being unreachable, a plan learned, or seen out of turn
	case s.rec.Rate.Moved(s.rec.Planned):
		s.rec.Mult = 0
		p.replan(s, now)
	}
}

// planned tells whether the running range has a price to plan at.
func (p *Planner) planned(s *sensor) bool { return p.rec.Version > 0 && s.coef() > 0 }

// afterRefusal gives up what is left of the window: the answer was final for it.
func (p *Planner) afterRefusal(s *sensor, o visit.Outcome) {
	w, ok := s.Plan.Window(o.Started)
	if !ok || w.Duration() > 2*p.par.Range {
		return
	}
	s.rec.NotBefore = w.End
	keep := s.rec.Instants
	for len(keep) > 0 && keep[0].Before(w.End) {
		keep = keep[1:]
	}
	p.setInstants(s, slices.Clone(keep))
}

// afterMiss plans a sensor on whose window closed before its turn came. What
// is still planned for it stays where a later instant has already come.
func (p *Planner) afterMiss(s *sensor, now time.Time) {
	if len(s.rec.Instants) == 0 || s.rec.Instants[0].After(now) {
		if !s.polled(now) && p.par.Algorithm == nil && p.planned(s) {
			p.replan(s, now)
			s.rec.Retry = len(s.rec.Instants) > 0
		}
	}
	p.schedule(s, now)
}
