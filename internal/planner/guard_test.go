package planner

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// seen is a visit as the twin keeps it: every margin by itself.
type seenVisit struct {
	before float64 // seconds
	met    bool
}

// posteriorGuard is the slow twin: it integrates over sigma and the background on a
// fine grid, without bins, and tries every tenth of a second for a guard.
func posteriorGuard(visits []seenVisit, collected, median float64) (guard, sigma float64) {
	phi := func(x float64) float64 { return 0.5 * math.Erfc(-x/math.Sqrt2) }
	const steps = 60
	sig, weight := make([]float64, steps), make([]float64, steps)
	most := math.Inf(-1)
	logs := make([][]float64, steps)
	for k := range sig {
		sig[k] = 0.05 * math.Pow(2, 11*float64(k)/(steps-1))
		z := math.Log(sig[k]/median) / priorSpread
		for _, q := range background {
			l := math.Log(q[1]) - z*z/2
			for _, v := range visits {
				p := q[0] + (1-q[0])*(1-phi(v.before/sig[k]))
				if v.met {
					p = 1 - p
				}
				l += math.Log(p)
			}
			logs[k] = append(logs[k], l)
			most = max(most, l)
		}
	}
	var sum float64
	for k := range sig {
		for _, l := range logs[k] {
			weight[k] += math.Exp(l - most)
		}
		sum += weight[k]
	}
	least := collected / 2
	for g := 0.1; g < 120; g += 0.1 {
		cost := g
		for k := range sig {
			cost += collected * weight[k] / sum * (1 - phi(g/sig[k]))
		}
		if cost < least {
			guard, least = g, cost
		}
	}
	for k := range sig {
		sigma += weight[k] / sum * sig[k]
	}
	return guard, sigma
}

func TestGuardAgainstTwin(t *testing.T) {
	var worst float64
	high := 0
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 3))
		truth := 0.1 * math.Pow(100, rng.Float64())
		lost := 0.1 * rng.Float64()
		collected := 30 * math.Pow(60, rng.Float64())
		var m Margins
		var visits []seenVisit
		for range rng.IntN(60) {
			v := seenVisit{before: truth * 4 * rng.Float64()}
			if rng.IntN(4) == 0 {
				v.before = collected / 2
			}
			v.met = rng.Float64() > lost && rng.NormFloat64()*truth < v.before
			visits = append(visits, v)
			m.Note(seconds(v.before), v.met)
		}
		got, sigma := m.Guard(seconds(collected), priorSigma)
		guard, mean := posteriorGuard(visits, collected, priorSigma)
		// What counts is what a guard costs; by guards this one is a fifth of an octave,
		// by margins half an octave, coarse.
		off := math.Abs(math.Log((got.Seconds() + 0.1) / (guard + 0.1)))
		worst = max(worst, off)
		if off > math.Log(1.6) || math.Abs(math.Log(sigma.Seconds()/mean)) > math.Log(1.5) {
			t.Errorf("seed %d: guard %v sigma %v after %d visits, want %.2f and %.2f s", seed, got,
				sigma, len(visits), guard, mean)
		}
		if guard > 3 {
			high++
		}
	}
	t.Logf("guards within a factor of %.2f of the twin's; %d above 3 s", math.Exp(worst), high)
	if high < 10 {
		t.Errorf("only %d guards are long", high)
	}
}

// For a clock that is known the guard is the closed form, and none where a crawl
// collects less than the clock scatters.
func TestGuardOfAKnownClock(t *testing.T) {
	for _, sigma := range []float64{0.3, 1, 3} {
		var m Margins
		rng := rand.New(rand.NewPCG(1, 1))
		for range 5000 {
			x := 3 * sigma * rng.Float64()
			m.Note(seconds(x), rng.NormFloat64()*sigma < x)
		}
		for _, w := range []float64{60, 300, 3600} {
			want := sigma * math.Sqrt(2*math.Log(w/(sigma*math.Sqrt(2*math.Pi))))
			got, _ := m.Guard(seconds(w), sigma)
			if r := got.Seconds() / want; r < 0.8 || r > 1.45 {
				t.Errorf("sigma %v, W %v s: guard %v, closed form %.2f s", sigma, w, got, want)
			}
		}
		if got, _ := m.Guard(seconds(sigma), sigma); got != 0 {
			t.Errorf("sigma %v: guard %v where a crawl collects no more than that", sigma, got)
		}
	}
}

// Evidence fades, so that a clock that gets worse is followed.
func TestMarginsForget(t *testing.T) {
	var m Margins
	for range 3000 {
		m.Note(2*time.Second, true)
	}
	before, _ := m.Guard(5*time.Minute, priorSigma)
	for range memoryVisits / 2 {
		m.Note(2*time.Second, false)
		m.Note(2*time.Minute, true)
	}
	after, _ := m.Guard(5*time.Minute, priorSigma)
	if after < 2*before || after < 3*time.Second {
		t.Errorf("guard %v, then %v after failures at 2 s", before, after)
	}
	if !m.sane() || len(m) != 2 {
		t.Errorf("margins %v", m)
	}
	for _, bad := range []Margins{{{Half: 99}}, {{Half: 1}, {Half: 1}}, {{Half: 1, Hit: -1}},
		{{Half: 0, Miss: math.NaN()}}} {
		if bad.sane() {
			t.Errorf("%v is taken for ours", bad)
		}
	}
}

// One sensor's bad clock teaches the fleet what to expect of the next one.
func TestTypicalClock(t *testing.T) {
	var good, bad Margins
	for range 50 {
		good.Note(2*time.Second, true)
		bad.Note(2*time.Second, false)
		bad.Note(30*time.Second, true)
	}
	if g, b := good.typical(), bad.typical(); g > priorSigma || b < 2 {
		t.Errorf("typical sigma %.2f s of punctual sensors, %.2f s of others", g, b)
	}
	var fresh Margins
	a, _ := fresh.Guard(5*time.Minute, good.typical())
	b, _ := fresh.Guard(5*time.Minute, bad.typical())
	if a >= b {
		t.Errorf("a new sensor's guard is %v among punctual sensors, %v among others", a, b)
	}
}
