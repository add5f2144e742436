package dpt

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// trials is a number of random instances, items or seeds, larger where time is set aside.
func trials(quick, full int) int {
	if os.Getenv("CRAWLD_CI") != "" {
		return full
	}
	return quick
}

// longTrials is trials for what takes minutes at full count: the soak has time for that.
func longTrials(quick, full, soak int) int {
	if os.Getenv("CRAWLD_SOAK") != "" {
		return soak
	}
	return trials(quick, full)
}

// sleeper is a simulated sensor: windows sorted, and a chance that a visit is lost.
type sleeper struct {
	windows []sleepplan.Window
	always  bool
	invert  bool
	coin    float64 // > 0: answers with this chance whatever the time
	loss    float64
	rng     *rand.Rand
}

func (s *sleeper) awake(t time.Time) bool {
	if s.always {
		return true
	}
	i, found := slices.BinarySearchFunc(s.windows, t, func(w sleepplan.Window, t time.Time) int {
		return w.Start.Compare(t)
	})
	if found {
		return true
	}
	return i > 0 && s.windows[i-1].Contains(t)
}

// probeWait is how long a silent probe takes.
const probeWait = 10 * time.Second

// try answers one datagram.
func (s *sleeper) try(t time.Time) bool {
	if s.coin > 0 {
		return s.rng.Float64() < s.coin
	}
	return s.awake(t) != s.invert && s.rng.Float64() >= s.loss
}

// probe is a non-confirmable visit sent once.
func (s *sleeper) probe(t time.Time) visit.Outcome {
	o := visit.Outcome{Visit: visit.Visit{At: t, Kind: visit.Probe, NON: true}, Started: t}
	o.Result, o.Ended = visit.Asleep, t.Add(probeWait)
	if s.try(t) {
		o.Result, o.Contact, o.Ended = visit.Unchanged, true, t.Add(80*time.Millisecond)
	}
	return o
}

// confirmable is a CON visit with MAX_RETRANSMIT 4.
func (s *sleeper) confirmable(t time.Time) visit.Outcome {
	o := visit.Outcome{Visit: visit.Visit{At: t, Kind: visit.Planned, Retrans: 4}, Started: t}
	wait := time.Duration((2 + s.rng.Float64()) * float64(time.Second))
	for at := t; o.Retransmissions <= 4; wait *= 2 {
		if s.try(at) {
			o.Result, o.Contact, o.Ended = visit.Unchanged, true, at.Add(80*time.Millisecond)
			return o
		}
		at = at.Add(wait)
		o.Retransmissions++
		o.Ended = at
	}
	o.Result, o.Retransmissions = visit.Asleep, 4
	return o
}

// truth makes a sensor for a seed.
type truth struct {
	name   string
	period float64 // s; 0 = none to learn
	days   float64 // virtual days at most
	probes float64 // the median may come to, by loss 0 and .1
	build  func(s *sleeper, from time.Time, days float64)
}

// cycleOf wakes every period s for awake s; the start jitters by +-jitter s, and each
// period is lengthened by normal noise, which adds up (delay pacing).
func cycleOf(period, awake, jitter, noise float64) func(*sleeper, time.Time, float64) {
	return func(s *sleeper, from time.Time, days float64) {
		at := -s.rng.Float64() * period
		for at < days*day {
			start := at + jitter*(2*s.rng.Float64()-1)
			s.add(from, start, start+awake)
			at += period + noise*s.rng.NormFloat64()
		}
	}
}

func (s *sleeper) add(from time.Time, start, end float64) {
	a, b := from.Add(nanos(start)), from.Add(nanos(end))
	if n := len(s.windows); n > 0 && a.Before(s.windows[n-1].End) {
		a = s.windows[n-1].End
	}
	s.windows = append(s.windows, sleepplan.Window{Start: a, End: b})
}

func planOf(entries ...string) func(*sleeper, time.Time, float64) {
	return func(s *sleeper, from time.Time, days float64) {
		p, err := sleepplan.Weekly(entries, "", nil)
		if err != nil {
			panic(err)
		}
		s.windows = p.Windows(from.Add(-24*time.Hour), from.Add(nanos(days*day)))
	}
}

func irregularSleeper(gap, awake float64) func(*sleeper, time.Time, float64) {
	return func(s *sleeper, from time.Time, days float64) {
		at := 0.0
		for at < days*day {
			at += gap * s.rng.ExpFloat64()
			s.add(from, at, at+awake)
			at += awake
		}
	}
}

// The first are those whose plans have to be claimed.
var truths = []truth{
	{"30s/5m", 300, 60, 90, cycleOf(300, 30, 0, 0)},
	{"30s/301.3s", 301.3, 60, 90, cycleOf(301.3, 30, 0, 0.02)},
	{"30s/437s", 437, 60, 90, cycleOf(437, 30, 0, 0)},
	{"60s/15m", 900, 60, 90, cycleOf(900, 60, 0, 0)},
	{"office", day, 70, 90, planOf("mon-fri 09:00-17:00")},
	{"daily", day, 60, 90, planOf("daily 18:00-09:00")},
	{"30s/5m, jitter 2s", 300, 60, 90, cycleOf(300, 30, 2, 0)},
}

// rare is awake for so little of the time that to find it at all takes 250 probes.
var rare = truth{"10s/1h", 3600, 90, 320, cycleOf(3600, 10, 0, 0)}

func testLearner() LearnerParams {
	return LearnerParams{Bootstrap: 5 * time.Minute, MinGap: time.Second, MaxGap: time.Hour}
}

// learned is what a run came to.
type learned struct {
	claimed bool
	probes  int
	days    float64
	inside  float64 // share of the next 60 mid-window instants in a true window
	guarded float64 // share of the next 60 shrunk windows that lie in true windows
	period  float64 // relative error
	revoked int     // within 30 days after the claim
	after   int     // probes of these days
	claim   Claim
}

func newSleeper(tr truth, seed uint64, loss float64) (*sleeper, time.Time) {
	rng := rand.New(rand.NewPCG(seed, math.Float64bits(loss)))
	from := epoch0.Add(nanos(rng.Float64() * week))
	s := &sleeper{loss: loss, rng: rng}
	tr.build(s, from, tr.days+100)
	return s, from
}

// study lets a learner learn and judges its claim; then it lives on for keep days.
func study(tr truth, seed uint64, loss, keep float64) learned {
	s, from := newSleeper(tr, seed, loss)
	l := NewLearner(testLearner(), from, seed)
	now := from
	var r learned
	for now.Sub(from).Hours() < tr.days*24 {
		at, _ := l.Next(now, 1)
		o := s.probe(at)
		l.Observe(o)
		now = o.Ended
		if c, ok := l.Claim(); ok {
			r.claimed, r.claim = true, c
			break
		}
	}
	_, _, r.probes = l.State()
	r.days = now.Sub(from).Hours() / 24
	if !r.claimed {
		return r
	}
	r.judge(tr, s, now)
	if keep > 0 {
		r.live(l, s, now, keep)
	}
	return r
}

func (r *learned) judge(tr truth, s *sleeper, now time.Time) {
	if s.always {
		if r.claim.Plan.Kind() == sleepplan.KindAlwaysOn {
			r.inside, r.guarded = 1, 1
		}
		return
	}
	if tr.period > 0 {
		r.period = math.Abs(r.claim.Period.Seconds()/tr.period - 1)
	}
	w, _ := r.claim.Plan.NextWindow(now)
	for range 60 {
		if s.awake(w.Start.Add(w.Duration() / 2)) {
			r.inside += 1. / 60
		}
		g := r.claim.Guard
		if s.awake(w.Start.Add(g)) && s.awake(w.End.Add(-g)) {
			r.guarded += 1. / 60
		}
		w, _ = r.claim.Plan.NextWindow(w.End)
	}
}

// live visits a random instant of the shrunk window every few hours with a confirmable
// request, obeys the learner's probes, and revokes after two silent windows in a row.
func (r *learned) live(l *Learner, s *sleeper, now time.Time, days float64) {
	end := now.Add(nanos(days * day))
	silent := 0
	visitAt := now.Add(time.Hour)
	for now.Before(end) {
		c, ok := l.Claim()
		if !ok {
			break
		}
		if at, _ := l.Next(now, 1); at.Before(visitAt) {
			o := s.probe(at)
			r.after++
			l.Observe(o)
			now = o.Ended
			continue
		}
		w, _ := c.Plan.NextWindow(visitAt)
		if w.Start.Before(visitAt) && w.End.Sub(visitAt) < w.Duration()*6/10 {
			w, _ = c.Plan.NextWindow(w.End)
		}
		t := w.Start.Add(w.Duration() / 2)
		if t.Before(now) {
			t = now
		}
		o := s.confirmable(t)
		l.Observe(o)
		now = o.Ended
		if silent++; o.Contact {
			silent = 0
		}
		if silent == 2 {
			r.revoked++
			l.Revoke(now)
		}
		visitAt = now.Add(4 * time.Hour)
	}
}
