package dpt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// foldedLook is a look at a phase of the period.
type foldedLook struct {
	phase  float64
	weight float64
}

// foldedLooks are those within reach by phase, and what the stray ones add to every window.
func foldedLooks(e *evidence, f *fit) (looks []foldedLook, stray float64) {
	for _, l := range e.looks {
		if math.Abs(l.at) > e.reach(f.hypothesis) {
			continue
		}
		if l.awake {
			stray += l.trust * e.stray
		}
		looks = append(looks, foldedLook{wrap(l.at-f.cut, f.Period), l.weight})
	}
	slices.SortStableFunc(looks, func(a, b foldedLook) int {
		if a.phase < b.phase {
			return -1
		}
		return 1
	})
	return looks, stray
}

// likeliest is the first and the last look in the window of most weight; sum has the
// weights of the looks before each one.
func likeliest(looks []foldedLook) (sum []float64, best float64, from, to int) {
	best = math.Inf(-1)
	sum = make([]float64, len(looks)+1)
	for i, l := range looks {
		sum[i+1] = sum[i] + l.weight
	}
	for i := range sum {
		for j := i + 1; j < len(sum); j++ {
			if sum[j]-sum[i] > best {
				best, from, to = sum[j]-sum[i], i, j-1
			}
		}
	}
	return sum, best, from, to
}

// edgeDensity is how likely an edge lies between lo and hi, where edges get less likely
// outside of first .. last.
func edgeDensity(lo, hi, first, last, width float64, thin bool) float64 {
	var near, far float64
	switch {
	case thin && hi <= first:
		near, far = first-hi, first-lo
	case thin && lo >= last:
		near, far = lo-last, hi-last
	default:
		return hi - lo + instant
	}
	return (hi - lo + instant) * thinned(near, far, width)
}

// slowFit is the marginal likelihood as the comment on fit has it: every pair of gaps in
// which a window may start and end, one after another.
func slowFit(e *evidence, f *fit, thin bool) float64 {
	looks, base := foldedLooks(e, f)
	n := len(looks)
	sum, best, from, to := likeliest(looks)
	edge := func(g int) float64 { // lower end of gap g
		switch {
		case g == 0:
			return 0
		case g > n:
			return f.Period
		}
		return looks[g-1].phase
	}
	first, last := looks[from].phase, looks[to].phase
	width := max(last-first, e.scale)
	z := 0.0
	for i := range n + 1 {
		for j := i; j <= n; j++ {
			in := edgeDensity(edge(i), edge(i+1), first, math.Inf(1), width, thin)
			out := edgeDensity(edge(j), edge(j+1), math.Inf(-1), last, width, thin)
			share := 1.0
			if i == j {
				share = 0.5
			}
			z += share * in * out * math.Exp(sum[j]-sum[i]-best)
		}
	}
	long := max(f.end-f.start, 1e-3)
	return base + best + math.Log(z) - math.Log(f.Period*long)
}

// randomEvidence is what a random sensor might have shown.
func randomEvidence(rng *rand.Rand) (*evidence, bool) {
	s := learnerState{Loss: 0.03 + 0.2*rng.Float64()}
	at := int64(rng.IntN(1e6)) + 1e12
	period, awake := 50e3+rng.Float64()*5e6, 0.02+0.4*rng.Float64()
	for range 4 + rng.IntN(60) {
		at += 1 + int64(rng.ExpFloat64()*float64(1000+rng.IntN(1e6)))
		inside := math.Mod(float64(at), period) < awake*period
		s.remember(at, inside != (rng.IntN(12) == 0))
	}
	return s.evidence()
}

// The fast weighing of a period is that of every pair of gaps.
func TestFitAgainstEveryWindow(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	compared, caught := 0, 0
	for range trials(1500, 8000) {
		e, ok := randomEvidence(rng)
		if !ok {
			continue
		}
		h := hypothesis{Period: 20 + rng.Float64()*5000}
		if rng.IntN(3) == 0 {
			h.Step = h.Period * rng.Float64() / 50
		}
		f := e.fit(h, &bench{}, true)
		if math.IsInf(f.logw, -1) {
			continue
		}
		compared++
		want := slowFit(e, f, true)
		if math.Abs(f.likelihood-want) > 1e-5*(1+math.Abs(want)) {
			t.Fatalf("%+v: %v, pair by pair %v", h, f.likelihood, want)
		}
		if math.Abs(f.likelihood-slowFit(e, f, false)) > 1e-2 {
			caught++
		}
	}
	if compared < 500 || caught < compared/4 {
		t.Errorf("%d compared, %d of a wrong prior caught", compared, caught)
	}
}

// The chance of being awake lies in 0 .. 1 wherever it is asked for.
func TestAwakeIsAProbability(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 9))
	for range trials(300, 1500) {
		e, ok := randomEvidence(rng)
		if !ok {
			continue
		}
		f := e.fit(hypothesis{Period: 20 + rng.Float64()*5000}, &bench{}, true)
		if math.IsInf(f.logw, -1) {
			continue
		}
		for range 50 {
			x := (rng.Float64() - 0.5) * 1e5
			if p := f.awake(x); !(p >= 0 && p <= 1+1e-9) {
				t.Fatalf("awake %v at %v", p, x)
			}
		}
	}
}

// weighAlways is the learner's slow twin: it weighs all there is after every look.
func weighAlways(l *Learner, s *sleeper, at time.Time) time.Time {
	o := s.probe(at)
	before := l.s.Stage
	l.Observe(o)
	if before == stageIrregular || before == stageClaimed || before == stageAwake {
		l.learn(o.Contact)
	}
	return o.Ended
}

// Looks that agree with what is believed are not weighed; that changes no verdict.
func TestVerdictsWithoutWeighing(t *testing.T) {
	same, claims := 0, 0
	n := uint64(trials(6, 60))
	for seed := range n {
		tr := truths[seed%6]
		var verdicts [2]string
		for i := range verdicts {
			s, from := newSleeper(tr, seed, 0.05)
			l, now := NewLearner(testLearner(), from, seed), from
			for now.Sub(from) < 25*24*time.Hour {
				at, _ := l.Next(now, 1)
				if i == 0 {
					o := s.probe(at)
					l.Observe(o)
					now = o.Ended
				} else {
					now = weighAlways(l, s, at)
				}
			}
			c, ok := l.Claim()
			verdicts[i] = fmt.Sprint(ok, c.Period.Round(time.Second), len(c.Weekdays))
			if ok && i == 0 {
				claims++
			}
		}
		if verdicts[0] == verdicts[1] {
			same++
		} else {
			t.Logf("%s seed %d: %v", tr.name, seed, verdicts)
		}
	}
	if claims < int(n)*8/10 || same < int(n)*9/10 {
		t.Errorf("%d of %d claimed, %d alike", claims, n, same)
	}
}
