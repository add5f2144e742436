package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// Learning lets the daemon's learner find out when a simulated sensor sleeps, which tells
// it nothing but whether a probe was answered. Exactly one of the ways to sleep is set.
type Learning struct {
	Period, Awake time.Duration // awake for Awake in every Period, at a drawn phase
	Weekly        []string      // windows of a week, as sleepplan.Weekly reads them, UTC
	Irregular     time.Duration // mean distance of windows, which last a tenth of it

	Jitter time.Duration // of the start of each window, standard deviation, Laplace
	Loss   float64       // probability that an answer does not arrive, 0 .. < 1
	Days   float64       // after which a learner that claims nothing is given up
	Seed   uint64
}

// Learned is what became of it.
type Learned struct {
	Claimed bool    `json:"claimed"`
	State   string  `json:"state"`  // of the learner, in one word
	Probes  int     `json:"probes"` // until the claim, or in all
	Days    float64 `json:"days"`   // the same
	Period  float64 `json:"period_seconds"`
	Awake   float64 `json:"awake_seconds"`
	// Confidence is the learner's own, see dpt.Claim.
	Confidence float64 `json:"confidence"`
	// Inside is the share of the next 60 instants in the middle of windows claimed at
	// which the sensor is awake.
	Inside float64 `json:"inside_true_window"`
	// Overlap is the time in both the windows claimed and the true ones, in the time in
	// either, as long as these 60 windows last and for a day at least.
	Overlap float64 `json:"overlap"`
}

const (
	judgedDays   = 100 // hold that many windows of any plan
	judgedCycles = 60
	mostDays     = 400 // of learning
	// learningPeriod bounds the number of windows.
	learningPeriod = 10 * time.Second
	// silentProbe and quickProbe are how long probes take.
	silentProbe = 10 * time.Second
	quickProbe  = 80 * time.Millisecond
)

// Validate reports the first value that makes no sensor.
func (c Learning) Validate() error {
	ways := 0
	for _, set := range []bool{c.Period != 0 || c.Awake != 0, c.Weekly != nil, c.Irregular != 0} {
		if set {
			ways++
		}
	}
	period := c.Period + c.Irregular // one of them is not set
	switch {
	case ways != 1:
		return errors.New("learning: set one of a cycle, a weekly plan and irregular windows")
	case c.Weekly == nil && c.Irregular == 0 && (c.Awake <= 0 || c.Awake >= c.Period):
		return fmt.Errorf("cycle %v/%v: must be awake for some of the period", c.Awake, c.Period)
	case c.Weekly == nil && (period < learningPeriod || period > 7*day):
		return fmt.Errorf("period %v: must lie in %v .. %v", period, learningPeriod, 7*day)
	case !(c.Loss >= 0 && c.Loss < 1):
		return fmt.Errorf("loss %v: must lie in 0 .. < 1", c.Loss)
	case !(c.Days > 0 && c.Days <= mostDays):
		return fmt.Errorf("days %v: must lie in 0 .. %d", c.Days, mostDays)
	case c.Jitter < 0 || c.Jitter > day:
		return fmt.Errorf("jitter %v: must lie in 0 .. %v", c.Jitter, day)
	}
	return nil
}

// LearningRun is a run of Learning: what it came to and all that is needed to draw it.
type LearningRun struct {
	Learned
	of       Learning
	from, at time.Time // begin and end of learning
	probes   []visit.Outcome
	truth    []sleepplan.Window
	claim    dpt.Claim
}

// Run lets it learn until it claims a plan, but for Days at most.
func (c Learning) Run() (LearningRun, error) {
	run := LearningRun{of: c}
	if err := c.Validate(); err != nil {
		return run, err
	}
	rng := rand.New(rand.NewPCG(c.Seed, 0x6c6561726e000000))
	run.from = Epoch.Add(time.Duration(rng.Float64() * float64(7*day)))
	until := run.from.Add(fromSeconds(c.Days * day.Seconds()))
	var err error
	if run.truth, err = c.windows(rng, run.from, until.Add(judgedDays*day)); err != nil {
		return run, err
	}
	run.learn(dozer{run.truth, c.Loss, rng}, until)
	return run, nil
}

// learn probes the sensor as the learner asks for, until it claims a plan.
func (r *LearningRun) learn(s dozer, until time.Time) {
	l := dpt.NewLearner(dpt.LearnerParams{Bootstrap: 5 * time.Minute, MinGap: time.Second,
		MaxGap: time.Hour}, r.from, r.of.Seed)
	r.at = r.from
	for !r.Claimed {
		at, _ := l.Next(r.at, 1)
		if at.After(until) {
			break
		}
		o := s.probe(at)
		l.Observe(o)
		r.probes, r.at = append(r.probes, o), o.Ended
		r.claim, r.Claimed = l.Claim()
	}
	r.Days = r.at.Sub(r.from).Hours() / 24
	r.State, _, r.Probes = l.State()
	if r.Claimed {
		r.Period, r.Awake = r.claim.Period.Seconds(), r.claim.Awake.Seconds()
		r.Confidence = r.claim.Confidence
		r.judge(r.claim.Plan, s, r.at)
	}
}

// windows of the sensor in [from, to), ascending; jitter does not let them overlap.
func (c Learning) windows(rng *rand.Rand, from, to time.Time) ([]sleepplan.Window, error) {
	var list []sleepplan.Window
	if c.Irregular > 0 {
		awake := c.Irregular / 10
		for at := from; at.Before(to); {
			start := at.Add(time.Duration(rng.ExpFloat64() * float64(c.Irregular-awake)))
			at = start.Add(awake)
			list = append(list, sleepplan.Window{Start: start, End: at})
		}
		return list, nil
	}
	var plan sleepplan.Plan
	var err error
	if c.Weekly != nil {
		plan, err = sleepplan.Weekly(c.Weekly, "", nil)
	} else {
		phase := time.Duration(rng.Float64() * float64(c.Period))
		plan, err = sleepplan.Cycle(c.Period, c.Awake, from.Add(phase))
	}
	if err != nil {
		return nil, fmt.Errorf("learning: %w", err)
	}
	list = plan.Windows(from, to)
	if c.Jitter == 0 {
		return list, nil
	}
	end := from
	for i, w := range list {
		shift := fromSeconds(drawLaplace(rng, c.Jitter.Seconds()))
		w.Start, w.End = w.Start.Add(shift), w.End.Add(shift)
		if w.Start.Before(end) {
			w.Start = end
		}
		if w.End.Before(w.Start) {
			w.End = w.Start
		}
		list[i], end = w, w.End
	}
	return list, nil
}

// judge holds the plan claimed against the truth after now.
func (l *Learned) judge(plan sleepplan.Plan, s dozer, now time.Time) {
	if plan.Kind() == sleepplan.KindAlwaysOn {
		l.Overlap = share(s.windows, []sleepplan.Window{{Start: now, End: now.Add(day)}})
		l.Inside = l.Overlap
		return
	}
	until := now
	inside := 0.0
	for range judgedCycles {
		w, ok := plan.NextWindow(until)
		if !ok {
			return
		}
		if s.awake(w.Start.Add(w.Duration() / 2)) {
			inside++
		}
		until = w.End
	}
	l.Inside = inside / judgedCycles
	if least := now.Add(day); until.Before(least) {
		until = least
	}
	l.Overlap = share(clipped(s.windows, now, until), plan.Windows(now, until))
}

// clipped are the parts of windows within [from, to).
func clipped(windows []sleepplan.Window, from, to time.Time) []sleepplan.Window {
	var list []sleepplan.Window
	for _, w := range windows {
		if w.Start.Before(from) {
			w.Start = from
		}
		if w.End.After(to) {
			w.End = to
		}
		if w.Start.Before(w.End) {
			list = append(list, w)
		}
	}
	return list
}

// share is the time in both of two ascending lists of windows, in the time in either.
func share(a, b []sleepplan.Window) float64 {
	var both, either time.Duration
	for _, w := range slices.Concat(a, b) {
		either += w.Duration()
	}
	for len(a) > 0 && len(b) > 0 {
		start, end := a[0].Start, a[0].End
		if b[0].Start.After(start) {
			start = b[0].Start
		}
		if b[0].End.Before(end) {
			end = b[0].End
			b = b[1:]
		} else {
			a = a[1:]
		}
		both += max(0, end.Sub(start))
	}
	if either -= both; either <= 0 {
		return 0
	}
	return both.Seconds() / either.Seconds()
}

// dozer is a sensor that answers in its windows, unless the answer is lost.
type dozer struct {
	windows []sleepplan.Window
	loss    float64
	rng     *rand.Rand
}

func (s dozer) awake(t time.Time) bool {
	i, found := slices.BinarySearchFunc(s.windows, t,
		func(w sleepplan.Window, t time.Time) int { return w.Start.Compare(t) })
	if found {
		return s.windows[i].Contains(t)
	}
	return i > 0 && s.windows[i-1].Contains(t)
}

// probe is a non-confirmable request, sent once.
func (s dozer) probe(at time.Time) visit.Outcome {
	o := visit.Outcome{Visit: visit.Visit{At: at, Kind: visit.Probe, NON: true}, Started: at,
		Result: visit.Asleep, Ended: at.Add(silentProbe)}
	if s.awake(at) && s.rng.Float64() >= s.loss {
		o.Result, o.Contact, o.Ended = visit.Unchanged, true, at.Add(quickProbe)
	}
	return o
}
