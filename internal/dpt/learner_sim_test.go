package dpt

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// trials is the number of random instances, larger where time is set aside.
func trials(quick, full int) int {
	if os.Getenv("CRAWLD_CI") != "" {
		return full
	}
	return quick
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
	name         string
	period       float64 // s; 0 = none to learn
	duty         float64
	days         float64 // virtual days at most
	build        func(s *sleeper, from time.Time, days float64)
	claim, cheap bool
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

var truths = []truth{
	{"30s/5m", 300, 0.1, 60, cycleOf(300, 30, 0, 0), true, true},
	{"30s/301.3s", 301.3, 0.1, 60, cycleOf(301.3, 30, 0, 0.02), true, true},
	{"30s/437s", 437, 0.07, 60, cycleOf(437, 30, 0, 0), true, true},
	{"60s/15m", 900, 0.067, 60, cycleOf(900, 60, 0, 0), true, true},
	{"office", day, 0.24, 70, planOf("mon-fri 09:00-17:00"), true, true},
	{"daily", day, 0.62, 60, planOf("daily 18:00-09:00"), true, true},
	{"10s/1h", 3600, 0.0028, 90, cycleOf(3600, 10, 0, 0), true, false},
	{"2s/30s", 30, 0.067, 30, cycleOf(30, 2, 0, 0), true, false},
	{"30s/5m j2", 300, 0.1, 60, cycleOf(300, 30, 2, 0), true, false},
	{"5m/day", day, 0.0035, 120, cycleOf(day, 300, 0, 0), true, false},
	{"200s/5m", 300, 0.67, 60, cycleOf(300, 200, 0, 0), true, false},
	{"irregularSleeper", 0, 0.1, 45, irregularSleeper(270, 30), false, true},
	{"always", 0, 1, 30, func(s *sleeper, _ time.Time, _ float64) { s.always = true }, true, true},
	{"off", 0, 0, 45, func(*sleeper, time.Time, float64) {}, false, true},
}

func testLearner() LearnerParams {
	return LearnerParams{Bootstrap: 5 * time.Minute, MinGap: time.Second, MaxGap: time.Hour}
}

// learned is what a run came to.
type learned struct {
	claimed  bool
	probes   int
	days     float64
	inside   float64 // share of the next 60 mid-window instants in a true window
	guarded  float64 // share of the next 60 shrunk windows that lie in true windows
	overlap  float64 // intersection over union of the next 60 windows
	period   float64 // relative error
	revoked  int     // within 30 days after the claim
	after    int     // probes of these days
	claim    Claim
	sequence []time.Time
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
		r.sequence = append(r.sequence, at)
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
			r.inside, r.guarded, r.overlap = 1, 1, 1
		}
		return
	}
	if tr.period > 0 {
		r.period = math.Abs(r.claim.Period.Seconds()/tr.period - 1)
	}
	w, _ := r.claim.Plan.NextWindow(now)
	var both, either time.Duration
	until := now
	for range 60 {
		if s.awake(w.Start.Add(w.Duration() / 2)) {
			r.inside += 1. / 60
		}
		g := r.claim.Guard
		if s.awake(w.Start.Add(g)) && s.awake(w.End.Add(-g)) {
			r.guarded += 1. / 60
		}
		until = w.End
		w, _ = r.claim.Plan.NextWindow(w.End)
	}
	steps := 20000
	for i := range steps {
		t := now.Add(time.Duration(float64(until.Sub(now)) * (float64(i) + .5) / float64(steps)))
		a, b := s.awake(t), r.claim.Plan.Awake(t)
		if a && b {
			both++
		}
		if a || b {
			either++
		}
	}
	r.overlap = float64(both) / float64(either)
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
		if os.Getenv("LIVE") != "" {
			b := l.belief()
			f := &fit{}
			if len(b.fits) > 0 {
				f = b.fits[0]
			}
			fmt.Println(now.Sub(end)/time.Hour, o.Contact, o.Retransmissions, s.awake(t), l.s.Mass, f.Period, f.Step, f.start, f.end, f.logw, b.single.logw, len(l.s.Cells), len(l.s.Seen), l.s.Loss, l.s.Scale, c.Guard)
		}
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

func median(xs []float64, q float64) float64 {
	slices.Sort(xs)
	if len(xs) == 0 {
		return math.NaN()
	}
	return xs[min(int(q*float64(len(xs))), len(xs)-1)]
}

// table is one row of figures.
func row(tr truth, loss float64, rs []learned) string {
	var probes, days, overlap, period, after []float64
	claimed, inside, guarded, right, kept := 0, 0, 0, 0, 0
	for _, r := range rs {
		if !r.claimed {
			continue
		}
		claimed++
		probes = append(probes, float64(r.probes))
		days = append(days, r.days)
		overlap = append(overlap, r.overlap)
		period = append(period, r.period)
		after = append(after, float64(r.after))
		if r.inside >= 0.95 {
			inside++
		}
		if r.guarded >= 0.95 {
			guarded++
		}
		if r.period <= 1e-3 {
			right++
		}
		if r.revoked == 0 {
			kept++
		}
	}
	return fmt.Sprintf("%-12s loss %.2f claimed %2d/%d probes %5.0f/%5.0f days %6.2f/%6.2f inside %2d guarded %2d iou %.2f period %2d (%.1e) kept %2d +%.0f",
		tr.name, loss, claimed, len(rs), median(probes, .5), median(probes, .9), median(days, .5),
		median(days, .9), inside, guarded, median(overlap, .5), right, median(period, .9), kept, median(after, .5))
}

func TestLearnerTable(t *testing.T) {
	for _, tr := range truths {
		if f := os.Getenv("TRUTH"); f != "" && f != tr.name {
			continue
		}
		for _, loss := range []float64{0, 0.1} {
			var rs []learned
			begin := time.Now()
			for seed := range uint64(trials(8, 20)) {
				rs = append(rs, study(tr, seed, loss, cmp.Or(0., 30.)))
			}
			t.Log(row(tr, loss, rs), time.Since(begin).Round(time.Millisecond))
		}
	}
}
