package dpt

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// enough is 18 of 20.
func enough(n int) int { return (18*n + 19) / 20 }

func middleOf(xs []float64) float64 {
	slices.Sort(xs)
	return xs[(len(xs)-1)/2]
}

// freshSeeds begin where those end on which the learner's constants were chosen.
const freshSeeds = 1000

// outcomes of many seeds.
type learnedRow struct {
	claimed, inside, right, kept, guarded int
	probes, days                          []float64 // +Inf where nothing was claimed
}

func rowOf(tr truth, loss, keep float64, seeds int) learnedRow {
	var row learnedRow
	for seed := range uint64(seeds) {
		r := study(tr, freshSeeds+seed, loss, keep)
		if !r.claimed {
			r.probes, r.days = math.MaxInt32, math.Inf(1)
		}
		row.probes = append(row.probes, float64(r.probes))
		row.days = append(row.days, r.days)
		for n, ok := range map[*int]bool{&row.claimed: r.claimed,
			&row.inside:  r.claimed && r.inside >= 0.95,
			&row.guarded: r.claimed && r.guarded >= 0.95,
			&row.right:   r.claimed && r.period <= 1e-3,
			&row.kept:    r.claimed && r.revoked == 0} {
			if ok {
				*n++
			}
		}
	}
	return row
}

// Sensors that wake regularly are found out, within the probes and days that users may
// expect, and what is claimed stays true for a month.
func TestLearnerClaimsRegularSleepers(t *testing.T) {
	seeds := trials(2, 20)
	least := enough(seeds)
	for _, tr := range truths {
		for _, loss := range []float64{0, 0.1} {
			t.Run(tr.name, func(t *testing.T) {
				t.Parallel()
				row := rowOf(tr, loss, 30, seeds)
				probes, days := middleOf(row.probes), middleOf(row.days)
				t.Logf("loss %.1f: claimed %d of %d, inside %d, period %d, kept %d, guard %d; "+
					"median %v probes, %.2f days", loss, row.claimed, seeds, row.inside,
					row.right, row.kept, row.guarded, probes, days)
				if min(row.claimed, row.inside, row.right, row.kept) < least {
					t.Errorf("less than %d of %d", least, seeds)
				}
				longest := 14.0
				if tr.name == "office" {
					longest = 21
				}
				if seeds == 20 && (probes > tr.probes || days > longest) {
					t.Errorf("at most %v probes and %v days", tr.probes, longest)
				}
			})
		}
	}
}

// A sensor that is rarely awake is found out with little more than it takes to find it.
func TestLearnerFindsRareWindows(t *testing.T) {
	seeds := longTrials(3, 6, 20)
	for _, loss := range []float64{0, 0.1} {
		row := rowOf(rare, loss, 0, seeds)
		t.Logf("loss %.1f: claimed %d of %d, period %d; probes %v", loss, row.claimed, seeds, row.right,
			row.probes)
		if row.right < row.claimed || row.claimed < (3*seeds+3)/4 {
			t.Errorf("claimed %d, rightly %d of %d", row.claimed, row.right, seeds)
		}
		if median := middleOf(row.probes); seeds == 20 && median > rare.probes {
			t.Errorf("median of %v probes, at most %v", median, rare.probes)
		}
	}
}

// What cannot be claimed is not, however often it answers.
func TestLearnerClaimsNothingIrregular(t *testing.T) {
	coin := func(s *sleeper, _ time.Time, _ float64) { s.coin = 0.1 }
	days := float64(longTrials(6, 20, 45))
	for _, tr := range []truth{
		{"irregular", 0, days, 0, irregularSleeper(270, 30)},
		{"coin", 0, days, 0, coin},
		{"off", 0, days, 0, func(*sleeper, time.Time, float64) {}},
	} {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(longTrials(2, 2, 20)) {
				for _, loss := range []float64{0, 0.1} {
					if r := study(tr, seed, loss, 0); r.claimed {
						t.Errorf("seed %d, loss %v: claimed %v awake of %v after %d probes", seed, loss,
							r.claim.Awake, r.claim.Period, r.probes)
					}
				}
			}
		})
	}
}

// alternating sleeps for one gap and the other in turn: its period is their sum, with two
// windows in it, which no claim can say.
func alternating(awake, one, other float64) func(*sleeper, time.Time, float64) {
	return func(s *sleeper, from time.Time, days float64) {
		at := -s.rng.Float64() * (one + other)
		for at < days*day {
			s.add(from, at, at+awake)
			s.add(from, at+one, at+one+awake)
			at += one + other
		}
	}
}

// Sleepers that come near to a plan: a claim, if any, must be true.
func TestLearnerNearlyPlans(t *testing.T) {
	invert := func(s *sleeper, from time.Time, days float64) {
		cycleOf(300, 30, 0, 0)(s, from, days)
		s.invert = true // asleep for 30 s in 5 minutes
	}
	for _, tr := range []truth{
		{"two gaps", 0, 30, 0, alternating(30, 200, 400)},
		{"a multiple", 0, 30, 0, alternating(30, 300, 900)},
		{"inverted", 300, 30, 0, invert},
	} {
		t.Run(tr.name, func(t *testing.T) {
			t.Parallel()
			claims, awake, n := 0, 0, longTrials(2, 4, 20)
			for seed := range uint64(n) {
				r := study(tr, seed, 0.1, 0)
				if r.claimed {
					claims++
				}
				if r.claim.Plan.Kind() == sleepplan.KindAlwaysOn {
					awake++
					continue // asleep for a tenth of the time looks like loss
				}
				if r.claimed && (r.inside < 0.95 || r.period > 1e-3) {
					t.Errorf("seed %d: %v awake of %v, inside %.2f", seed, r.claim.Awake, r.claim.Period,
						r.inside)
				}
			}
			t.Logf("%d of %d claimed, %d of them as never asleep", claims, n, awake)
		})
	}
}

// The judge of claims catches wrong ones: the double period, and the right period half a
// period late.
func TestJudgeCatchesWrongClaims(t *testing.T) {
	s, from := newSleeper(truths[0], 1, 0)
	first := s.windows[0].Start
	for _, c := range []struct {
		period, shift time.Duration
		inside        bool
	}{
		{5 * time.Minute, 0, true}, {10 * time.Minute, 0, true},
		{5 * time.Minute, 150 * time.Second, false},
	} {
		plan, err := sleepplan.Cycle(c.period, 30*time.Second, first.Add(c.shift))
		if err != nil {
			t.Fatal(err)
		}
		r := learned{claim: Claim{Plan: plan, Period: c.period, Awake: 30 * time.Second}}
		r.judge(truths[0], s, from)
		if (r.inside >= 0.95) != c.inside || (r.period > 1e-3) != (c.period > 5*time.Minute) {
			t.Errorf("%+v: inside %v, period off by %v", c, r.inside, r.period)
		}
	}
}

// A sensor that wakes every day is never claimed to leave out days, whatever answers get lost.
func TestLearnerDailyHasNoMask(t *testing.T) {
	claims, seeds := 0, longTrials(4, 12, 40)
	for seed := range uint64(seeds) {
		tr := truth{"daily", day, 60, 0, planOf("daily 18:00-09:00")}
		if seed%2 == 1 {
			tr.build = planOf("daily 08:00-14:00")
		}
		s, from := newSleeper(tr, seed, 0.1+0.1*float64(seed%4)/3)
		l, now := NewLearner(testLearner(), from, seed), from
		claimed := false
		for now.Sub(from) < 60*24*time.Hour {
			at, _ := l.Next(now, 1)
			o := s.probe(at)
			l.Observe(o)
			now = o.Ended
			c, ok := l.Claim()
			if len(c.Weekdays) > 0 {
				t.Fatalf("seed %d, loss %.2f: claimed awake on %v alone after %.1f days", seed, s.loss,
					c.Weekdays, now.Sub(from).Hours()/24)
			}
			claimed = claimed || ok
		}
		if claimed {
			claims++
		}
	}
	if t.Logf("%d of %d claimed", claims, seeds); claims < seeds*3/4 {
		t.Errorf("only %d of %d claimed", claims, seeds)
	}
}

// A sensor that never sleeps is recognised.
func TestLearnerAlwaysAwake(t *testing.T) {
	for seed := range uint64(trials(3, 20)) {
		for _, loss := range []float64{0, 0.1, 0.2} {
			rng := rand.New(rand.NewPCG(seed, 77))
			s := &sleeper{always: true, loss: loss, rng: rng}
			l, now := NewLearner(testLearner(), epoch0, seed), epoch0
			for range 160 {
				at, _ := l.Next(now, 1)
				o := s.probe(at)
				l.Observe(o)
				now = o.Ended
			}
			if c, ok := l.Claim(); !ok || c.Plan.Kind() != sleepplan.KindAlwaysOn {
				name, _, _ := l.State()
				t.Errorf("seed %d, loss %v: %v %s", seed, loss, ok, name)
			}
		}
	}
}

// Confidence is the chance that the period is right times the share of the next windows
// that is where the plan says: among claims with .9 or more it is at least that often so.
func TestLearnerConfidence(t *testing.T) {
	sure, right := 0, 0.0
	for _, tr := range truths[:4] {
		for seed := range uint64(trials(3, 20)) {
			r := study(tr, 100+seed, 0.05, 0)
			if !r.claimed || r.claim.Confidence < 0.9 {
				continue
			}
			sure++
			if r.period <= 1e-3 {
				right += r.inside
			}
		}
	}
	t.Logf("%.1f of %d claims", right, sure)
	if sure < trials(4, 20) || right < 0.9*float64(sure) {
		t.Errorf("%.1f right among %d claims of confidence .9", right, sure)
	}
}

// A claim ends with Revoke and comes back when the sensor is learned again.
func TestLearnerRevoke(t *testing.T) {
	s, from := newSleeper(truths[0], 2, 0)
	l, now := NewLearner(testLearner(), from, 2), from
	learn := func() bool {
		for range 400 {
			if _, ok := l.Claim(); ok {
				return true
			}
			at, _ := l.Next(now, 1)
			o := s.probe(at)
			l.Observe(o)
			now = o.Ended
		}
		return false
	}
	if !learn() {
		t.Fatal("no claim")
	}
	l.Revoke(now)
	if _, ok := l.Claim(); ok {
		t.Fatal("claimed after it was revoked")
	}
	for i := range s.windows { // the sensor has started anew
		s.windows[i].Start = s.windows[i].Start.Add(100 * time.Second)
		s.windows[i].End = s.windows[i].End.Add(100 * time.Second)
	}
	if !learn() {
		t.Fatal("not claimed again")
	}
	c, _ := l.Claim()
	w, _ := c.Plan.NextWindow(now)
	if !s.awake(w.Start.Add(w.Duration() / 2)) {
		t.Errorf("claims %v, which was the old plan", w)
	}
}

// BenchmarkLearnerVisit is the mean cost of a visit over a month of a sensor's life, the
// learning and the upkeep beside six planned crawls a day: of a learner that weighs only what
// it did not expect, and how many times that is if it weighs every visit.
func BenchmarkLearnerVisit(b *testing.B) {
	var visits [2]int
	var spent [2]time.Duration
	for seed := uint64(0); b.Loop(); seed++ {
		for i := range 2 {
			start := time.Now()
			visits[i] += month(i == 1, seed)
			spent[i] += time.Since(start)
		}
	}
	cost := func(i int) float64 { return spent[i].Seconds() * 1e6 / float64(visits[i]) }
	b.ReportMetric(cost(0), "us/visit")
	b.ReportMetric(cost(1)/cost(0), "weighed/believed")
}

// month lets a sensor be visited for 30 days; always weighs all after every visit.
func month(always bool, seed uint64) (visits int) {
	s, from := newSleeper(truths[seed%4], seed, 0.05)
	l, now := NewLearner(testLearner(), from, seed), from
	crawl := from
	for now.Sub(from) < 30*24*time.Hour {
		at, _ := l.Next(now, 1)
		o := visit.Outcome{}
		if c, ok := l.Claim(); ok && crawl.Before(at) {
			w, _ := c.Plan.NextWindow(crawl.Add(c.Period))
			o = s.confirmable(w.Start.Add(w.Duration() / 2))
		} else {
			o = s.probe(at)
		}
		before := l.s.Stage
		l.Observe(o)
		if always && (before == stageClaimed || before == stageIrregular) {
			l.learn(o.Contact)
		}
		if o.Ended.After(now) {
			now = o.Ended
		}
		crawl = now.Add(4 * time.Hour)
		visits++
	}
	return visits
}
