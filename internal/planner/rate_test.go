package planner

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rateEvidence is all that was seen of one sensor, each visit by itself.
type rateEvidence struct {
	prior     float64
	logged    float64
	quiet     float64
	changed   []float64
	unchanged []float64
}

// density is the log posterior density of log lambda, from the single visits.
func (e rateEvidence) density(lambda float64) float64 {
	sum := (e.logged+priorEvents)*math.Log(lambda) - lambda*(e.quiet+priorEvents/e.prior)
	for _, i := range e.changed {
		sum += math.Log(-math.Expm1(-lambda * i))
	}
	for _, i := range e.unchanged {
		sum -= lambda * i
	}
	return sum
}

// mode is the twin of Rate.Mean: the best of a grid over sixteen decades, refined by
// finer grids around the best.
func (e rateEvidence) mode() float64 {
	lo, hi := math.Log(1e-9), math.Log(1e7)
	for hi-lo > 1e-7 {
		const n = 40
		best, at := math.Inf(-1), 0
		for k := range n + 1 {
			if d := e.density(math.Exp(lo + (hi-lo)*float64(k)/n)); d > best {
				best, at = d, k
			}
		}
		step := (hi - lo) / n
		lo, hi = lo+step*float64(max(at-1, 0)), lo+step*float64(min(at+1, n))
	}
	return math.Exp((lo + hi) / 2)
}

func (e rateEvidence) rate() Rate {
	r := NewRate(e.prior, false)
	r.Events(int(e.logged), e.quiet)
	for _, i := range e.changed {
		r.Visit(true, i)
	}
	for _, i := range e.unchanged {
		r.Visit(false, i)
	}
	return r
}

// watchRate makes one-bit visits of a Poisson process at intervals that draw chooses.
func watchRate(rng *rand.Rand, lambda float64, visits int, draw func() float64) rateEvidence {
	e := rateEvidence{prior: lambda}
	for range visits {
		i := draw()
		if rng.Float64() < -math.Expm1(-lambda*i) {
			e.changed = append(e.changed, i)
		} else {
			e.unchanged = append(e.unchanged, i)
		}
	}
	return e
}

// poissonCount is the number of events of a Poisson process in i seconds.
func poissonCount(rng *rand.Rand, lambda, i float64) int {
	n := 0
	for t := rng.ExpFloat64(); t < lambda*i; t += rng.ExpFloat64() {
		n++
	}
	return n
}

// tellRate reports n events in i seconds, as a count or as a single bit.
func tellRate(r *Rate, single bool, n int, i float64) {
	if single {
		r.Visit(n > 0, i)
	} else {
		r.Events(n, i)
	}
}

// Intervals of every shape over four decades of lambda*I, priors up to a thousand times
// off: bins against single intervals.
func TestRateAgainstGrid(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	worst, sum, runs := 0.0, 0.0, trials(300, 4000)
	for range runs {
		lambda := math.Exp(rng.Float64()*12 - 12)
		mean := math.Exp(rng.Float64()*9-6) / lambda
		draw := []func() float64{
			func() float64 { return mean },
			func() float64 { return mean * rng.ExpFloat64() },
			func() float64 { return mean * math.Exp(rng.NormFloat64()) },
			func() float64 { return 2 * mean * rng.Float64() },
		}[rng.IntN(4)]
		e := watchRate(rng, lambda, 1+rng.IntN(200), func() float64 {
			return min(max(draw(), 2*shortestBit), memoryExposure/1000)
		})
		e.prior = lambda * math.Exp(7*(2*rng.Float64()-1))
		if rng.IntN(3) == 0 {
			e.logged, e.quiet = float64(rng.IntN(20)), 20*rng.Float64()/lambda
		}
		r := e.rate()
		if r.Exposure() >= memoryExposure*0.99 {
			continue // forgetting is another test
		}
		off := math.Abs(r.Mean()/e.mode() - 1)
		worst, sum = max(worst, off), sum+off
	}
	t.Logf("%d cases: bins against grid: mean error %.4f %%, worst %.3f %%", runs,
		100*sum/float64(runs), 100*worst)
	if worst > 0.02 {
		t.Errorf("worst error %.3f %%", 100*worst)
	}
}

// The worst that a half octave can do: its visits at either end of it, beside quiet
// times and priors of every size. Coarser bins (the negative control: all changed visits
// in one) fail this.
func TestRateBinError(t *testing.T) {
	halves, sds, coarse := 0.0, 0.0, 0.0
	for x := 0.01; x < 100; x *= 2.6 {
		for k := range 20 {
			quiet := []float64{0, 10 * x, 100 * x, 1000 * x}[k/5]
			prior := math.Pow(10, 2*float64(k%5)-4) / x
			e := rateEvidence{prior: prior, quiet: quiet}
			wide := e
			for n := range 100 {
				e.changed = append(e.changed, math.Ldexp([]float64{1.0001, 1.4141}[min(n%3, 1)],
					math.Ilogb(x)))
				wide.changed = append(wide.changed, x*[]float64{1, 30}[n%2])
			}
			r := e.rate()
			if len(r.Changed) != 1 {
				t.Fatalf("%d bins", len(r.Changed))
			}
			off := math.Abs(r.Mean() - e.mode())
			halves, sds = max(halves, off/e.mode()), max(sds, off/r.Sd())
			w := wide.rate()
			w.Changed = []oneBit{{0, 100, 50 * 31 * x}}
			coarse = max(coarse, math.Abs(w.Mean()/wide.mode()-1))
		}
	}
	t.Logf("worst error: half octave %.2f %% or %.2f standard errors, one bin for a factor 30 %.0f %%",
		100*halves, sds, 100*coarse)
	if halves > 0.04 || sds > 0.2 || coarse < 0.2 {
		t.Errorf("worst error %.2f %%, %.2f standard errors", 100*halves, sds)
	}
}

// Estimates of simulated sensors lie within three standard errors of the truth, as
// often as they should, for logs and for single bits, at irregular awake intervals.
func TestRateIsConsistent(t *testing.T) {
	for _, single := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(2, 2))
		outside, sum, squares, runs := 0, 0.0, 0.0, trials(400, 5000)
		for range runs {
			lambda := math.Exp(rng.Float64()*6 - 9)
			r := NewRate(lambda*math.Exp(rng.NormFloat64()/2), false)
			for range 400 {
				i := rng.ExpFloat64() / lambda
				tellRate(&r, single, poissonCount(rng, lambda, i), i)
			}
			z := (r.Mean() - lambda) / r.Sd()
			sum, squares = sum+z, squares+z*z
			if math.Abs(z) > 3 {
				outside++
			}
		}
		mean, variance := sum/float64(runs), squares/float64(runs)
		t.Logf("one bit %v: z mean %.3f variance %.3f, %d of %d outside 3 s.e.", single, mean,
			variance, outside, runs)
		if outside > runs/100 || math.Abs(mean) > 0.25 || variance < 0.5 || variance > 1.3 {
			t.Errorf("one bit %v: z mean %.3f variance %.3f, %d outside", single, mean, variance,
				outside)
		}
	}
}

// For regular intervals Cho and Garcia-Molina give -log((n-X+.5)/(n+.5))/I in closed
// form (X of n visits found a change); both agree where neither prior nor their bias
// correction matters.
func TestRateAgainstChoGarciaMolina(t *testing.T) {
	const n, interval = 300, 120.0
	for x := 10; x <= 290; x += 20 {
		want := -math.Log((n-float64(x)+0.5)/(n+0.5)) / interval
		r := NewRate(want, false)
		for k := range n {
			r.Visit(k < x, interval)
		}
		if off := r.Mean()/want - 1; math.Abs(off) > 0.03 || math.Abs(off) > 0.5*r.Sd()/want {
			t.Errorf("X = %d of %d: %.6f/s, closed form %.6f/s", x, n, r.Mean(), want)
		}
	}
}

func TestRateLoggedIsGamma(t *testing.T) {
	r := NewRate(0.01, false)
	if sd := 0.01 / math.Sqrt(priorEvents); math.Abs(r.Mean()-0.01) > 1e-15 || r.Sd() != sd {
		t.Errorf("prior alone: %v +- %v", r.Mean(), r.Sd())
	}
	r.Events(3, 500)
	r.Events(0, 400)
	if m, want := r.Mean(), (3+priorEvents)/(900+priorEvents*100.0); math.Abs(m-want) > 1e-15 || r.Exposure() != 900 {
		t.Errorf("mean %v, want %v; exposure %v", m, want, r.Exposure())
	}
	if sd, want := r.Sd(), math.Sqrt(3+priorEvents)/(900+priorEvents*100.0); math.Abs(sd-want) > 1e-15 {
		t.Errorf("sd %v, want %v", sd, want)
	}
	fixed := NewRate(0.01, true)
	fixed.Events(100, 1)
	fixed.Visit(true, 1)
	if fixed.Mean() != 0.01 || fixed.Sd() != 0 || fixed.Moved(0.01) {
		t.Errorf("fixed: %v +- %v", fixed.Mean(), fixed.Sd())
	}
}

// A changed visit raises the estimate, an unchanged one lowers it, more of the same
// awake time without an event lowers it more; within what the bins cost.
func TestRateIsMonotone(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	for range trials(300, 3000) {
		lambda := math.Exp(rng.Float64()*8 - 9)
		e := watchRate(rng, lambda, rng.IntN(100), func() float64 { return rng.ExpFloat64() / lambda })
		e.prior *= math.Exp(2 * rng.NormFloat64())
		i := rng.ExpFloat64() / lambda
		base, up, down, more, events := e.rate(), e.rate(), e.rate(), e.rate(), e.rate()
		up.Visit(true, i)
		down.Visit(false, i)
		more.Visit(false, 2*i)
		events.Events(2, 0)
		m := base.Mean()
		const eps = 1e-3
		if up.Mean() < m*(1-eps) || down.Mean() > m*(1+eps) || more.Mean() > down.Mean()*(1+eps) ||
			events.Mean() <= m || base.Exposure() > down.Exposure() {
			t.Fatalf("base %v, changed %v, unchanged %v, longer %v, events %v", m, up.Mean(),
				down.Mean(), more.Mean(), events.Mean())
		}
	}
}

// A rate that grows or falls tenfold is followed, however wrong the prior; a
// sensor that goes silent keeps a rate above zero.
func TestRateFollowsDrift(t *testing.T) {
	for _, single := range []bool{false, true} {
		rng := rand.New(rand.NewPCG(4, 4))
		r := NewRate(1e-6, false)
		for _, lambda := range []float64{0.001, 0.01, 0.1, 0.01} {
			for range 6000 {
				i := rng.ExpFloat64() / lambda
				tellRate(&r, single, poissonCount(rng, lambda, i), i)
			}
			if math.Abs(r.Mean()/lambda-1) > 0.15 {
				t.Errorf("one bit %v: rate %v, estimate %v", single, lambda, r.Mean())
			}
			if !r.Moved(lambda*2) || !r.Moved(lambda/2) || r.Moved(lambda*1.1) {
				t.Errorf("rate %v, estimate %v: moved from what it is, or not", lambda, r.Mean())
			}
		}
		for range 1000 {
			r.Visit(false, 1e6)
		}
		if m := r.Mean(); m <= 0 || m > 3e-7 {
			t.Errorf("after 30 years of silence: %v", m)
		}
	}
}

func TestRateZeroPrior(t *testing.T) {
	r := NewRate(0, false)
	r.Visit(false, 5000)
	if r.Mean() != 0 || r.Sd() != 0 || r.Moved(0) {
		t.Errorf("no event, no prior: %v", r.Mean())
	}
	r.Visit(true, 1000)
	if m := r.Mean(); m < 1.0/6000/2 || m > 2.0/6000 || !r.Moved(0) {
		t.Errorf("one event in 6000 s: %v", m)
	}
}

// Whatever is told, the estimate is a positive finite number and the state small.
func TestRateIsSafe(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	exposures := []float64{0, -1, math.NaN(), math.Inf(1), math.Inf(-1), 1e-300, 1e-3, 1, 1e7, 1e300}
	counts := []int{0, 1, -5, math.MaxInt, math.MinInt, 1000}
	for range trials(200, 2000) {
		r := NewRate(math.Exp(rng.Float64()*40-26), false)
		for range 100 {
			exposure := exposures[rng.IntN(len(exposures))] * rng.Float64()
			if rng.IntN(2) == 0 {
				r.Visit(rng.IntN(2) == 0, exposure)
			} else {
				r.Events(counts[rng.IntN(len(counts))], exposure)
			}
			m, sd := r.Mean(), r.Sd()
			if !(m > 0 && m < 1e15 && sd > 0 && sd < 1e15) {
				t.Fatalf("mean %v sd %v of %+v", m, sd, r)
			}
		}
		if len(r.Changed) > 68 {
			t.Fatalf("%d bins", len(r.Changed))
		}
	}
}

func TestRateStored(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	r := watchRate(rng, 0.01, 100, func() float64 { return 50 * rng.ExpFloat64() }).rate()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes: %s", len(data), data)
	var back Rate
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(r, back); d != "" {
		t.Errorf("stored and read (-want +got):\n%s", d)
	}
	saved, mean := r, r.Mean()
	r.Visit(true, 50)
	r.Visit(true, 50000)
	if saved.Mean() != mean || saved.clone().Mean() != mean {
		t.Errorf("a copy changed from %v to %v", mean, saved.Mean())
	}
}
