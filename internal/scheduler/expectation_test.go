package scheduler

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// sampled is the mean and the standard error of a draw.
func sampled(n int, draw func() float64) (mean, sd float64) {
	var sum, squares float64
	for range n {
		v := draw()
		sum += v
		squares += v * v
	}
	mean = sum / float64(n)
	return mean, math.Sqrt((squares/float64(n) - mean*mean) / float64(n))
}

// waits adds up t-u over the events u of a Poisson process in 0..t that fall into an
// awake window.
func waits(rng *rand.Rand, rate, t, awake, asleep float64) (sum float64) {
	for u := rng.ExpFloat64() / rate; u < t; u += rng.ExpFloat64() / rate {
		if math.Mod(u, awake+asleep) < awake {
			sum += t - u
		}
	}
	return sum
}

// TestEquation5 simulates events: their latency is PoissonLatency, while equation (5)
// is the number of events times the age of the first one. Each is the other's control.
func TestEquation5(t *testing.T) {
	draws := trials(100000, 1000000)
	far := 0
	for i, rate := range []float64{0.01, 0.1, 0.5, 1, 5} {
		rng := seeded(i)
		const at = 10.0
		exact, paper := PoissonLatency(rate, at, 1, 0), PaperLatency(rate, at)
		mean, sd := sampled(draws, func() float64 { return waits(rng, rate, at, at, 0) })
		age, ageSD := sampled(draws, func() float64 {
			return rate * at * max(0, at-rng.ExpFloat64()/rate)
		})
		t.Logf("rate %v: simulated %.3f, exact %.3f, equation (5) %.3f", rate, mean, exact, paper)
		if math.Abs(mean-exact) > 4*sd || math.Abs(exact-rate*at*at/2) > 1e-12*exact {
			t.Errorf("rate %v: latency %v, simulated %v +- %v", rate, exact, mean, sd)
		}
		if math.Abs(age-paper) > 4*ageSD {
			t.Errorf("rate %v: equation (5) is %v, simulated %v +- %v", rate, paper, age, ageSD)
		}
		if math.Abs(mean-paper) > 4*sd {
			far++
		}
	}
	if far != 5 {
		t.Errorf("equation (5) passes for the latency at %d rates of 5", 5-far)
	}
}

func TestShareOfEquation5(t *testing.T) {
	last := 0.0
	for x := 1e-9; x < 1e9; x *= 1.3 {
		share := PaperLatency(x, 1) / PoissonLatency(x, 1, 1, 0)
		if want := 2 * (math.Exp(-x) - 1 + x) / x; x > 0.1 && math.Abs(share-want) > 1e-12 {
			t.Fatalf("x = %v: %v of the latency, want %v", x, share, want)
		}
		if share < last {
			t.Fatalf("x = %v: the share falls from %v to %v", x, last, share)
		}
		last = share
	}
	if first := PaperLatency(1e-9, 1) / PoissonLatency(1e-9, 1, 1, 0); first > 1e-8 || last < 2-1e-8 {
		t.Errorf("the share goes from %v to %v, not from 0 to 2", first, last)
	}
	// The series and the difference meet.
	const x = 1.0 / 64
	if a, b := beyondLine(math.Nextafter(x, 0)), beyondLine(x); math.Abs(a-b) > 1e-13*b {
		t.Errorf("%v below 1/64, %v from there on", a, b)
	}
}

// TestSleepingLatency holds the curves of a sensor with rate 1/2, awake 5 s and
// asleep 10 s, against simulation and against each other.
func TestSleepingLatency(t *testing.T) {
	const rate, awake, asleep = 0.5, 5.0, 10.0
	far := 0
	for i, at := range []float64{3, 5, 9, 17, 20, 33, 48} {
		rng := seeded(i)
		exact := PoissonLatency(rate, at, awake, asleep)
		mean, sd := sampled(trials(40000, 400000), func() float64 {
			return waits(rng, rate, at, awake, asleep)
		})
		if math.Abs(mean-exact) > 4*sd {
			t.Errorf("t = %v: latency %v, simulated %v +- %v", at, exact, mean, sd)
		}
		paper := PaperSleepingLatency(rate, at, awake, asleep)
		if math.Abs(mean-paper) > 4*sd {
			far++
		}
		printed := PrintedSleepingLatency(rate, at, awake, asleep)
		// What the print forgets: 2 T^L(K-i) T^w of each cycle before.
		k := math.Floor(at / 15)
		lost := rate * awake * 15 * k * (k - 1)
		if at <= 15*k+5 && math.Abs(printed-lost-2*exact) > 1e-9*exact {
			t.Errorf("t = %v: printed %v less %v is not twice %v", at, printed, lost, exact)
		}
		t.Logf("t = %v: exact %.2f, (6) %.2f, printed %.2f, fluid %.2f", at, exact, paper, printed,
			FluidLatency(rate, at, awake, asleep))
	}
	if far < 6 {
		t.Errorf("equation (6) passes for the latency at %d instants of 7", 7-far)
	}
	if got := FluidLatency(1, 30, 5, 15); got != PaperLatency(1, 30)/4 {
		t.Errorf("fluid %v of %v", got, PaperLatency(1, 30))
	}
}

// TestSleepingLatencyIsAnEdge compares the curve with the weights plans are made with.
func TestSleepingLatencyIsAnEdge(t *testing.T) {
	p, d := periodic(5, 10, 8)
	p.Tick, p.Objective, d.Rate, d.Coef = time.Second, Paper, 0.5, 0.5
	var w worker
	w.build(p, d, 0, false)
	weights := w.penalty.weights(&w.graph, p, d, 0)
	for j := 1; j <= w.counted; j++ {
		at := float64(w.nodes[j].x / 4)
		want := PaperSleepingLatency(0.5, at, 5, 10)
		if got := weights.between(0, j); math.Abs(got-want) > 1e-12*want {
			t.Errorf("t = %v: weight %v, curve %v", at, got, want)
		}
	}
}
