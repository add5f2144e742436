package dpt

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// A Learner finds out when a sensor sleeps from nothing but which visits it answers.
//
// It looks for the sensor at golden-ratio spacing and then evenly over the phases of likely
// periods (search), follows the first window to its end (follow), looks for the next one
// (gap), and from then on weighs every period that the contacts allow with all answers and
// silences there ever were, at an unknown loss (period). The next probe goes where the
// believed periods and edges disagree most. When one period is left and its edges are
// known, windows not looked at before must be met (validate) before the plan is claimed. A
// claim is kept up by a few probes a day and by every other visit, and ends only with
// Revoke. A sensor that was taken for irregular is looked at closely again after a while.
//
// A plan is one window per period, or one window a day on some days of the week. Days
// are those of UTC: the time zone of a sensor that follows a wall clock is unknown. When
// its clock changes for summer time the windows move by an hour; the claim follows, or is
// revoked and learned anew. Sensors that do not wake regularly are never claimed.
//
// Probes have to be sent non-confirmable and once: a retransmitted request is several
// probes of which one is known to be answered.
type Learner struct {
	s learnerState
}

// LearnerParams are the operator's choices. Durations count in whole milliseconds.
type LearnerParams struct {
	Bootstrap time.Duration // first gap between probes of a sensor that never answered
	MinGap    time.Duration // least time from the end of a visit to the next probe, >= 1ms
	MaxGap    time.Duration // largest gap while searching, at most 366 days
	MaxPerDay int           // probes in any 24 hours, 1 .. 1000; 0 = no limit
}

// Validate reports every value out of range, each with its name and bounds.
func (p LearnerParams) Validate() error {
	gaps := Params{Policy: Fixed, Bootstrap: p.Bootstrap, MinGap: p.MinGap, MaxGap: p.MaxGap}
	err := gaps.Validate()
	if p.MaxPerDay < 0 || p.MaxPerDay > 1000 {
		return errors.Join(err, fmt.Errorf("probes per day %d: must lie in 0 .. 1000", p.MaxPerDay))
	}
	return err
}

// A Claim is a sleep plan that was learned.
type Claim struct {
	Plan   sleepplan.Plan
	Period time.Duration // 0 for a sensor that never sleeps
	Awake  time.Duration // length of a window
	// Weekdays are the UTC days on which windows start; nil = every period has one.
	Weekdays []time.Weekday
	// Confidence is the chance that the period is right times the share of the next
	// windows that is expected to be where the plan says.
	Confidence float64
	// Guard is what to leave out at either end of a window, so that what is left is awake
	// with probability .95 until the claim is looked after again.
	Guard  time.Duration
	Since  time.Time // first claimed, or claimed again after a revocation
	Probes int       // spent until then
}

// NewLearner begins at now. seed decides where the first probe falls, so that a fleet is
// not probed all at once. p is as Validate accepts it.
func NewLearner(p LearnerParams, now time.Time, seed uint64) *Learner {
	at := ceilMilli(now)
	l := &Learner{learnerState{Limits: learnerLimits(p), PerDay: p.MaxPerDay, Seed: mix(seed),
		Last: at, End: at, Loss: initialLoss}}
	l.plan(nil)
	return l
}

// Configure adopts changed parameters; what was learned is kept.
func (l *Learner) Configure(p LearnerParams) {
	l.s.Limits, l.s.PerDay = learnerLimits(p), p.MaxPerDay
	l.plan(l.belief())
}

// Next is the instant of the next probe and its reason. It is after now, at least
// MinGap after the end of the last visit unless the clock was set back, and at most
// MaxGap*stretch after now, but for probes that wait for a window that is predicted: at
// most eight days, times stretch. stretch >= 1 lengthens the gap from the last visit; a
// probe that belongs into a window moves to a later one.
//
// Next changes nothing: the answer moves only when an outcome is observed or when it is
// overdue, so keep it rather than asking again until it is due.
func (l *Learner) Next(now time.Time, stretch float64) (time.Time, string) {
	s := &l.s
	if !(stretch >= 1) {
		stretch = 1
	}
	stretch = min(stretch, maxStretch)
	at, why, ms := s.Due, s.Why, now.UnixMilli()
	if stretch > 1 {
		gap := min(float64(max(at-s.Last, 0))*stretch, float64(farAway))
		at, why = l.later(max(ms, s.Last+int64(gap)-1))
	}
	if at <= ms {
		at, why = l.later(ms)
	}
	next := time.UnixMilli(max(at, ms+1))
	longest := float64(max(s.Limits.MaxGap, longestWait.Milliseconds())) * stretch
	if latest := now.Add(span(int64(min(longest, float64(farAway/4))))); next.After(latest) {
		next = latest
	}
	return next.UTC(), why
}

// later is the next probe after now where the one that was planned does not suit. A claim
// needs no new belief for that: the same look some periods later tells as much.
func (l *Learner) later(now int64) (int64, string) {
	s := &l.s
	switch s.Stage {
	case stageClaimed:
		cycle := s.Claimed.cycle()
		at, from := seconds(s.Due-s.Claimed.Ref), seconds(s.earliest(now)-s.Claimed.Ref)
		if from > at {
			at += math.Ceil((from-at)/cycle) * cycle
		}
		return s.Claimed.Ref + int64(math.Ceil(at*1000)), s.Why
	case stagePeriod, stageValidate:
		return l.choose(l.belief(), now)
	}
	if e, ok := s.evidence(); ok {
		return l.choose(&belief{evidence: e}, now)
	}
	return l.choose(nil, now)
}

// longestWait is for a window of a weekly period.
const longestWait = 8 * 24 * time.Hour

// Observe takes what became of a visit, whoever asked for it.
func (l *Learner) Observe(o visit.Outcome) {
	s := &l.s
	start, end := instants(o)
	if o.Result == visit.Missed {
		s.End = max(s.End, end)
		l.plan(l.belief())
		return
	}
	s.Last, s.End = start, end
	if o.Kind == visit.Probe {
		s.spend(start)
	}
	at, awake, ok := seen(o)
	if !ok {
		l.plan(l.belief())
		return
	}
	s.remember(at, awake)
	if s.expected(at, awake, o.Kind == visit.Probe) {
		l.wait()
		return
	}
	l.learn(awake)
}

// expected reports whether a look is what was believed anyway, so that nothing has to be
// weighed: it agrees with the claim, or the sensor is irregular and this is one answer
// more of many.
func (s *learnerState) expected(at int64, awake, probe bool) bool {
	switch {
	case s.Stage == stageIrregular:
		return !awake || s.Contacts <= s.Weighed+s.Weighed/12
	case s.Claimed == nil:
		return false
	case s.Claimed.Always:
		return awake
	}
	t := seconds(at - s.Claimed.Ref)
	if !probe {
		return s.Claimed.agrees(t, awake)
	}
	s.Upkeep++
	return s.Upkeep < together && !s.Claimed.agrees(t, !awake)
}

// together is how many probes of a claim are weighed at once: each alone moves its edges by
// little. One that contradicts the claim is weighed at once.
const together = 4

// wait plans the next probe without weighing anything.
func (l *Learner) wait() {
	s := &l.s
	if from := s.earliest(max(s.End, s.Last)); s.Stage == stageClaimed {
		if s.Due <= s.Spent {
			s.Due, s.Why = s.upkeep(from)
		}
		s.Due = max(s.Due, from)
	} else {
		s.Due, s.Why = l.choose(nil, max(s.End, s.Last))
	}
}

// learn weighs the history, moves the claim and plans the next probe.
func (l *Learner) learn(awake bool) {
	s := &l.s
	e, ok := s.evidence()
	if !ok {
		l.plan(nil)
		return
	}
	over := s.over(e, awake)
	if !over && !awake && (s.Stage == stageFollow || s.Stage == stageGap) {
		l.plan(&belief{evidence: e}) // a silence more brings no second window
		return
	}
	s.Weighed, s.Upkeep = s.Contacts, 0
	b := &bench{}
	switch {
	case s.claimedPeriod() > 0:
		if len(s.Cells) == 0 {
			s.Cells = around(s.Claimed.Period)
		}
	case over || awake && s.stale(e):
		s.Cells = added(s.Cells, e.seeds(2*seconds(s.Limits.MinGap), b))
	}
	nice, best := e.nice(b, s.claimedPeriod())
	fits := e.sharpen(s.Cells, best, b)
	s.Cells = ranges(fits)
	bel := e.conclude(append(fits, nice...), s.claimedPeriod(), b)
	s.settle(bel)
	s.judge(bel)
	l.plan(bel)
}

// overContacts is up to when periods are sought anew whenever a window ends.
const overContacts = 40

// over reports whether this silence ends a window after the first: now its length is known,
// and with it how far apart windows are.
func (s *learnerState) over(e *evidence, awake bool) bool {
	return !awake && s.Stage == stageFollow && s.Contacts < overContacts && len(e.meetings()) > 1 &&
		!(&belief{evidence: e}).following(s)
}

// Periods are sought anew after some contacts more: after afresh in any case, after retry
// if none explains the answers.
const (
	afresh = 6
	retry  = 2
)

// stale reports whether the ranges of periods should be sought anew: two meetings are
// nearer to each other than those that the ranges come from, or there were more contacts
// since. To seek costs far more than to weigh, so it gets rarer with their number.
func (s *learnerState) stale(e *evidence) bool {
	lags := e.lags()
	if len(lags) == 0 {
		return false
	}
	if s.Mass >= sure && !s.Poor && s.Loss < suspicious {
		return false
	}
	wait := afresh
	if s.Contacts < overContacts && (len(s.Cells) == 0 || s.Mass == 0 || s.Poor) {
		wait = retry
	}
	shorter := s.Lag == 0 || lags[0].most < 0.8*s.Lag
	if !shorter && s.Contacts < s.Sought+max(wait, s.Sought/8) {
		return false
	}
	s.Lag, s.Sought = lags[0].most, s.Contacts
	return true
}

// poorOdds is the log of the odds for a sensor that wakes at random at which the periods
// believed in are given up.
const poorOdds = 2

// sure is the mass of a period that is no longer sought, unless it takes a loss that is
// suspicious to believe in it.
const (
	sure       = 0.9
	suspicious = 0.2
)

// belief is what the stored state implies; nil without contact.
func (l *Learner) belief() *belief {
	e, ok := l.s.evidence()
	if !ok {
		return nil
	}
	return e.believe(l.s.Cells, l.s.claimedPeriod())
}

// claimedPeriod is 0 where none is claimed.
func (s *learnerState) claimedPeriod() float64 {
	if s.Claimed == nil {
		return 0
	}
	return s.Claimed.Period
}

// settle takes from the belief what the next weighing starts from.
func (s *learnerState) settle(b *belief) {
	s.Mass = 0
	if !b.periodic() {
		s.Settled, s.Poor, s.Scale = 0, false, 0
		return
	}
	s.Mass, s.Period = b.mass, b.fits[0].Period
	s.Poor = b.evidenceLog < b.random()-poorOdds
	f := b.fits[0]
	if s.Scale = 0; b.mass >= sure && !s.Poor {
		s.Scale = math.Max(f.end-f.start, 0.1)
	}
	switch {
	case b.mass < sure/2:
		s.Settled = 0
	case b.mass >= sure && s.Settled == 0:
		s.Settled = s.Last
	}
	if b.mass >= sure && s.Claimed == nil && !s.Poor {
		s.Loss = b.losses(f)
	}
}

// losses estimates the loss from the looks well inside windows, with a prior of two losses
// in twenty looks.
func (b *belief) losses(f *fit) float64 {
	lost, all := 2.0, 20.0
	for _, l := range b.looks {
		if f.core(l.at) && f.awake(l.at) > 0.95 {
			all += l.trust
			if !l.awake {
				lost += l.trust
			}
		}
	}
	return min(max(lost/all, leastLoss), mostLoss)
}

// core reports whether t lies in the middle half of a window.
func (f *fit) core(t float64) bool {
	mid := (f.start + f.end) / 2
	return math.Abs(t-mid-f.cycle(t)*f.Period) <= (f.end-f.start)/4
}

// Revoke withdraws the claim: two confirmable visits in the middle of different windows
// were not answered. The history is kept and is where belief starts from again, but what
// is seen from now on counts more.
func (l *Learner) Revoke(now time.Time) {
	s := &l.s
	s.Claimed = nil
	s.Revoked = now.UnixMilli()
	s.Mass, s.Settled, s.Base = 0, 0, s.Probes
	l.plan(l.belief())
}

// State is what the learner is doing (search, follow, gap, period, validate, claimed,
// awake, irregular), how sure it is of the period it believes in, and the probes spent.
func (l *Learner) State() (name string, confidence float64, probes int) {
	s := &l.s
	if s.Claimed != nil {
		return s.Stage, s.Claimed.Confidence, s.Probes
	}
	return s.Stage, s.Mass, s.Probes
}
