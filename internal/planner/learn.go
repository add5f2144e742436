package planner

import (
	"fmt"
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

// takeClaim makes what has been learned the sensor's sleep plan, or takes it back, and
// tells whether that changed anything. From a claim on rates are per awake second; until
// then they are per second of life.
func (p *Planner) takeClaim(s *sensor, now time.Time) (changed bool) {
	plan, guard := s.Sensor.Plan, time.Duration(0)
	if s.rec.Learner != nil && s.hidden(now) {
		if c, ok := s.rec.Learner.Claim(); ok {
			plan, guard = c.Plan, c.Guard
		}
	}
	s.edge = guard
	if plan.Equal(s.Plan) {
		return false
	}
	was, is := duty(s.Plan, now), duty(plan, now)
	if s.rec.Duty > 0 {
		was = s.rec.Duty
	}
	s.rec.Rate.rescale(is / was)
	s.rec.Duty = is
	s.Plan = plan
	return true
}

// dutySpan is long enough to hold every day of the week alike.
const dutySpan = 28 * 24 * time.Hour

// duty is the share of time that a plan has the sensor awake, 1 where it does not know.
func duty(plan sleepplan.Plan, now time.Time) float64 {
	if _, limited := plan.KnownUntil(); limited {
		return 1
	}
	var awake time.Duration
	for _, w := range plan.Windows(now, now.Add(dutySpan)) {
		awake += w.Duration()
	}
	return max(float64(awake)/float64(dutySpan), 1e-6)
}

// learn lets the learner see a visit, whoever made it.
func (p *Planner) learn(s *sensor, o visit.Outcome, now time.Time) (changed bool) {
	if !s.hidden(now) {
		return false
	}
	p.learner(s, now).Observe(o)
	return p.takeClaim(s, now)
}

// probe is the learner's next one; ok is false for a sensor whose plan is listed.
func (p *Planner) probe(s *sensor, now time.Time) (at time.Time, why string, ok bool) {
	if !s.hidden(now) || s.rec.Unreachable {
		return at, "", false
	}
	at, why = p.learner(s, now).Next(now, max(p.rec.Stretch, 1))
	return p.spaced(s, at), "learner: " + why, true
}

// spaced holds the least gap after the last attempt.
func (p *Planner) spaced(s *sensor, at time.Time) time.Time {
	if s.rec.LastAttempt.IsZero() {
		return at
	}
	return later(at, s.rec.LastAttempt.Add(p.polling(s).MinGap))
}

// revoke takes a learned plan back after silence in the middle of two of its windows;
// false for a plan that is listed.
func (p *Planner) revoke(s *sensor, now time.Time) bool {
	if s.rec.Learner == nil || !s.hidden(now) {
		return false
	}
	if _, claimed := s.rec.Learner.Claim(); !claimed {
		return false
	}
	s.rec.Learner.Revoke(now)
	s.rec.Silent, s.rec.Mid, s.rec.SilentAt = 0, false, time.Time{}
	p.takeClaim(s, now)
	p.revoked++
	return true
}

// learningState is what is told of a sensor whose plan is learned.
func (s *sensor) learningState() string {
	if s.rec.Learner == nil {
		return ""
	}
	state, confidence, probes := s.rec.Learner.State()
	return fmt.Sprintf("%s, confidence %.2f, %d probes", state, confidence, probes)
}
