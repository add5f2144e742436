package planner

import (
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// hidden tells whether the sensor's listing leaves open when it is awake from then on:
// then its sleep plan is learned.
func (s *sensor) hidden(now time.Time) bool {
	until, limited := s.Sensor.Plan.KnownUntil()
	return limited && !until.After(now)
}

// learner is the one of a sensor that hides its sleep plan, made when it is first asked
// for.
func (p *Planner) learner(s *sensor, now time.Time) *dpt.Learner {
	if s.rec.Learner == nil {
		s.rec.Learner = dpt.NewLearner(learningParams(p.polling(s)), now, s.seed())
	}
	return s.rec.Learner
}

// claim is the plan that was learned of a sensor that hides it. One that never sleeps and
// publishes regularly stays with its tracker, which knows when there is something new; a
// crawl plan would know no better than its rate.
func (s *sensor) claim(now time.Time) (c dpt.Claim, ok bool) {
	if s.rec.Learner == nil || !s.hidden(now) {
		return c, false
	}
	c, ok = s.rec.Learner.Claim()
	return c, ok && (c.Period > 0 || !s.regular())
}

// A publisher is regular if enough of it was seen and its instants scatter by no more than
// that share of its period; at random they would by 1/sqrt(12).
const (
	regularHits   = 8
	regularSpread = 0.15
)

func (s *sensor) regular() bool {
	if s.rec.Tracker == nil {
		return false
	}
	median, sd, hits, _ := s.rec.Tracker.Stats()
	return hits >= regularHits && median > 0 && sd.Seconds() <= regularSpread*median.Seconds()
}

// takeClaim makes what has been learned the sensor's sleep plan; without a claim, or where
// the listing knows, the listed plan holds. It follows from the record and the listing
// alone, so that a restart finds the same plan.
func (p *Planner) takeClaim(s *sensor, now time.Time) {
	s.Plan, s.edge = s.Sensor.Plan, 0
	share := 0.0
	if s.hidden(now) {
		share = 1
	}
	if c, ok := s.claim(now); ok {
		s.Plan, s.edge, share = c.Plan, c.Guard, claimDuty(c)
	}
	s.recount(share)
}

// recount makes what was watched of the sensor's events count by another clock: by the
// awake time of a plan that has it awake for that share of all time, by all time (1), or
// (0) by the awake time of the listed plan.
func (s *sensor) recount(share float64) {
	was, is := s.rec.Duty, share
	if was == is {
		return
	}
	if was == 0 {
		was = duty(s.Sensor.Plan)
	}
	if is == 0 {
		is = duty(s.Sensor.Plan)
	}
	s.rec.Rate.rescale(is / was)
	s.rec.Duty = share
}

// claimDuty is the share of time that a claim has the sensor awake.
func claimDuty(c dpt.Claim) float64 {
	if c.Period <= 0 {
		return 1
	}
	share := c.Awake.Seconds() / c.Period.Seconds()
	if c.Weekdays != nil {
		share *= float64(len(c.Weekdays)) / 7
	}
	return min(max(share, leastDuty), 1)
}

// dutyDays are long enough to hold every day of the week alike.
const dutyDays = 28

// leastDuty bounds the shares of time: a sensor that has been met is awake at times.
const leastDuty = 1e-6

// duty is the share of time that a listed plan has the sensor awake, 1 where it does not
// say. It depends on the plan alone.
func duty(plan sleepplan.Plan) float64 {
	from := time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC) // a Monday
	to := from.AddDate(0, 0, dutyDays)
	if until, limited := plan.KnownUntil(); limited {
		first, ok := plan.NextWindow(until.AddDate(0, 0, -dutyDays))
		if !ok {
			return 1
		}
		from, to = first.Start, until
	}
	var awake time.Duration
	for day := from; day.Before(to); day = day.AddDate(0, 0, 1) {
		for _, w := range plan.Windows(day, earlier(day.AddDate(0, 0, 1), to)) {
			awake += w.Duration()
		}
	}
	return max(float64(awake)/float64(to.Sub(from)), leastDuty)
}

// learn lets the learner see a visit, whoever made it. It tells whether the sensor has to
// be planned anew: it has a sleep plan now, or another one than its crawls were planned by.
func (p *Planner) learn(s *sensor, o visit.Outcome, now time.Time) (moved bool) {
	if !s.hidden(now) || o.Reason == NotStored {
		return false // what was not stored has been seen already
	}
	_, had := s.claim(now)
	p.learner(s, now).Observe(o)
	s.probe = probe{}
	p.takeClaim(s, now)
	_, has := s.claim(now)
	if had == has {
		return !p.keeps(s, s.rec.Instants)
	}
	s.rec.Mult = 0
	if has {
		p.claims++
	}
	return true
}

// keeps tells whether a sensor whose sleep plan is learned can be crawled at instants that
// an earlier belief has planned: not outside the windows, and not so near their end that
// half of the guard is gone.
func (p *Planner) keeps(s *sensor, at []time.Time) bool {
	if s.rec.Learner == nil {
		return true
	}
	for _, t := range at {
		w, awake := s.Plan.Window(t)
		if !awake || w.End.Sub(t) < p.windowGuard(s, w.Duration())/2 {
			return false
		}
	}
	return true
}

// probe is a visit that the learner wants.
type probe struct {
	at      time.Time // zero: it has not been asked since its last outcome
	why     string
	stretch float64
}

// nextProbe is the learner's next visit; false for a sensor whose plan is listed. Gaps are
// stretched as those of polls, but not for a plan that is only to be kept up.
func (p *Planner) nextProbe(s *sensor, now time.Time) (at time.Time, why string, ok bool) {
	if !s.hidden(now) || s.rec.Unreachable {
		return at, "", false
	}
	stretch := max(p.rec.Stretch, 1)
	if !s.polled(now) {
		stretch = 1
	}
	if s.probe.stretch != stretch || !s.probe.at.After(now) {
		at, why = p.learner(s, now).Next(now, stretch)
		s.probe = probe{at, "learner: " + why, stretch}
	}
	return p.spaced(s, s.probe.at), s.probe.why, true
}

// spaced holds the least gap after the last attempt.
func (p *Planner) spaced(s *sensor, at time.Time) time.Time {
	if s.rec.LastAttempt.IsZero() {
		return at
	}
	return later(at, s.rec.LastAttempt.Add(p.polling(s).MinGap))
}

// revoke takes a learned plan back after silence in the middle of two of its windows;
// false for a plan that is listed. What its window ends have shown goes with it.
func (p *Planner) revoke(s *sensor, now time.Time) bool {
	if _, claimed := s.claim(now); !claimed {
		return false
	}
	s.rec.Learner.Revoke(now)
	s.probe = probe{}
	s.rec.Silent, s.rec.Mid, s.rec.SilentAt = 0, false, time.Time{}
	s.rec.Margins, s.rec.Guard, s.rec.Collected = nil, 0, 0
	s.base, s.rec.Mult = 0, 0
	p.takeClaim(s, now)
	p.revoked++
	return true
}

// Learned is how far the sleep plan of a sensor that hides it has been found out.
type Learned struct {
	State      string  `json:"state"`          // one of LearnerStates
	Confidence float64 `json:"confidence"`     // of the period it believes in, or of the claim
	Probes     int     `json:"probes"`         // spent so far
	Period     float64 `json:"period_seconds"` // of the claimed plan; 0: none, or never asleep
	Awake      float64 `json:"awake_seconds"`  // length of its windows
}

// LearnerStates lists what learners do, for metrics that must exist from the start.
func LearnerStates() []string {
	return []string{"search", "follow", "gap", "period", "validate", "claimed", "awake", "irregular"}
}

// learned is nil for a sensor whose plan is listed.
func (s *sensor) learned(now time.Time) *Learned {
	if s.rec.Learner == nil || !s.hidden(now) {
		return nil
	}
	var l Learned
	l.State, l.Confidence, l.Probes = s.rec.Learner.State()
	if c, ok := s.claim(now); ok {
		l.Period, l.Awake = c.Period.Seconds(), c.Awake.Seconds()
	}
	return &l
}
