package sim

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Parameters are found again within three standard errors: in nearly all seeds, and on
// the average without a bias.
func TestParametersAreFoundAgain(t *testing.T) {
	const n = 3000
	seeds := seedsOf(60, 1000)
	for _, c := range []struct {
		pss, pfs float64
		jitter   time.Duration
	}{{0.95, 0.8, 10 * time.Second}, {0.8, 0.6, 5 * time.Second}, {0.4, 0.6, 10 * time.Second},
		{0.95, 0.4, time.Second}} {
		for _, pacing := range []Pacing{DelayPacing, WallClockPacing} {
			m := fiveMinutes(c.pss, c.pfs, c.jitter, pacing)
			outside := map[string]int{}
			bias := map[string]float64{}
			for seed := range seeds {
				f := fitted(t, m, seed, n)
				if f.Pacing != pacing {
					outside["pacing"]++
				}
				for name, e := range map[string][2]float64{
					"period": {(f.Period.Value - 300), f.Period.SE},
					"p_ss":   {f.PSS.Value - c.pss, f.PSS.SE},
					"p_fs":   {f.PFS.Value - c.pfs, f.PFS.SE},
					"jitter": {f.Jitter.Value - c.jitter.Seconds(), f.Jitter.SE},
				} {
					z := e[0] / e[1]
					bias[name] += z / float64(seeds)
					if !(math.Abs(z) <= 3) {
						outside[name]++
					}
				}
			}
			t.Logf("%v %v %v %s: beyond 3 standard errors %v of %d, mean of the errors %v", c.pss,
				c.pfs, c.jitter, pacing, outside, seeds, bias)
			for name, k := range outside {
				if float64(k) > 2+0.015*float64(seeds) {
					t.Errorf("%v %s: %s off in %d of %d seeds", c, pacing, name, k, seeds)
				}
			}
			for name, z := range bias {
				if math.Abs(z) > 0.5 {
					t.Errorf("%v %s: %s is biased by %.2f standard errors", c, pacing, name, z)
				}
			}
		}
	}
}

// rejections is by model how often the chi-square test rejects, and cannot test.
func rejections(t *testing.T, m Traffic, n int, seeds uint64) (rejected,
	untested map[string]float64) {
	rejected, untested = map[string]float64{}, map[string]float64{}
	for seed := range seeds {
		for _, model := range fitted(t, m, seed, n).Models {
			if model.Test.Rejected {
				rejected[model.Model]++
			}
			if model.Test.Untested {
				untested[model.Model]++
			}
		}
	}
	for _, counts := range []map[string]float64{rejected, untested} {
		for model := range counts {
			counts[model] /= float64(seeds)
		}
	}
	t.Logf("p_ss %.2f p_fs %.2f: rejected %v, untested %v", m.PSS, m.PFS, rejected, untested)
	return rejected, untested
}

// The chi-square test rejects the right failure model about as often as it says, and
// the wrong ones nearly always.
func TestFailureModels(t *testing.T) {
	seeds := seedsOf(300, 3000)
	nominal := func(model string, rate float64) {
		margin := 3 * math.Sqrt(Significance*(1-Significance)/float64(seeds))
		if math.Abs(rate-Significance) > margin+0.01 {
			t.Errorf("%s is right and was rejected in %.3f of the seeds", model, rate)
		}
	}
	m := fiveMinutes(0.9, 0.5, 10*time.Second, DelayPacing)
	rejected, untested := rejections(t, m, 1500, seeds)
	nominal("two-state", rejected["two-state"])
	if rejected["geometric"] < 0.99 || rejected["none"] != 1 || len(untested) > 0 {
		t.Errorf("wrong models: rejected %v, untested %v", rejected, untested)
	}

	m = fiveMinutes(0.7, 0.7, 10*time.Second, WallClockPacing) // independent failures
	rejected, _ = rejections(t, m, 1500, seeds)
	nominal("geometric", rejected["geometric"])
	nominal("two-state", rejected["two-state"]) // has independence as a case
	if rejected["none"] != 1 {
		t.Errorf("no failures: rejected %v", rejected)
	}

	m = fiveMinutes(1, 1, 10*time.Second, DelayPacing)
	if rejected, untested = rejections(t, m, 1500, 10); len(rejected) > 0 || untested["none"] < 0.99 {
		t.Errorf("without failures: rejected %v, untested %v", rejected, untested)
	}
}

// Failures with a length of their own, here three always, are none of the models.
func TestFailureModelsAreRejected(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	var instants []time.Time
	at := Epoch
	for range 2000 {
		at = at.Add(5 * time.Minute)
		if rng.Float64() < 0.05 {
			at = at.Add(15 * time.Minute)
		}
		instants = append(instants, at.Add(fromSeconds(drawLaplace(rng, 5))))
	}
	f, err := FitTraffic(Trace{Name: "threes", Instants: instants})
	if err != nil {
		t.Fatal(err)
	}
	for _, model := range f.Models {
		if !model.Test.Rejected || model.ErrorP > Significance {
			t.Errorf("%s: %+v, error %v", model.Model, model.Test, model.Error)
		}
	}
}

// Kolmogorov-Smirnov with fitted parameters: the right distribution is rejected about as
// often as it says, the other one nearly always. Kolmogorov's own distribution, which
// does not know that parameters were fitted, would hardly ever reject.
func TestJitterModels(t *testing.T) {
	seeds := seedsOf(500, 5000)
	for _, n := range []int{100, 600} {
		var wrong, right [2]float64
		naive := 0.0
		for seed := range seeds {
			rng := rand.New(rand.NewPCG(seed, uint64(n)))
			laplace, normal := make([]float64, n), make([]float64, n)
			for i := range n {
				laplace[i], normal[i] = 3+drawLaplace(rng, 7), 3+7*rng.NormFloat64()
			}
			one := 1 / float64(seeds)
			count := func(to *float64, g Goodness) {
				if g.Rejected {
					*to += one
				}
			}
			l, m := jitterModel(1, laplace), jitterModel(1, normal)
			count(&right[0], l.Laplace)
			count(&right[1], m.Normal)
			count(&wrong[0], l.Normal)
			count(&wrong[1], m.Laplace)
			if l.Laplace.Distance*math.Sqrt(float64(n)) > 1.358 {
				naive += one
			}
		}
		t.Logf("%d residuals: right ones rejected %.3f, wrong ones %.3f, Kolmogorov's level %.3f", n,
			right, wrong, naive)
		margin := 0.01 + 3*math.Sqrt(Significance*(1-Significance)/float64(seeds))
		for i := range right {
			if math.Abs(right[i]-Significance) > margin {
				t.Errorf("%d: the right distribution was rejected in %.3f", n, right[i])
			}
			if least := map[int]float64{100: 0.3, 600: 0.98}[n]; wrong[i] < least {
				t.Errorf("%d: the wrong distribution was rejected in %.3f", n, wrong[i])
			}
		}
		if naive > 0.02 {
			t.Errorf("%d: Kolmogorov's level rejects %.3f", n, naive)
		}
	}
}

// The jitter of generated traffic is told as Laplace, whatever the pacing.
func TestGeneratedJitterIsLaplace(t *testing.T) {
	seeds := seedsOf(100, 1000)
	for _, pacing := range []Pacing{DelayPacing, WallClockPacing} {
		laplace, normal := 0, 0
		for seed := range seeds {
			f := fitted(t, fiveMinutes(0.95, 0.8, 10*time.Second, pacing), seed, 1500)
			last := f.Jitters[0]
			if pacing == WallClockPacing {
				last = f.Jitters[len(f.Jitters)-1]
			}
			if last.Laplace.Rejected {
				laplace++
			}
			if last.Normal.Rejected {
				normal++
			}
		}
		t.Logf("%s: Laplace rejected %d, normal %d of %d", pacing, laplace, normal, seeds)
		if float64(laplace) > 0.12*float64(seeds) || float64(normal) < 0.98*float64(seeds) {
			t.Errorf("%s: Laplace rejected in %d, normal in %d of %d", pacing, laplace, normal, seeds)
		}
	}
}

func TestFitRefuses(t *testing.T) {
	short := Trace{Name: "short", Instants: []time.Time{Epoch, Epoch.Add(1)}}
	if _, err := FitTraffic(short); err == nil || !strings.Contains(err.Error(), "short: 2 pub") {
		t.Errorf("got %v", err)
	}
}

// What the shipped traces come out as.
func TestShippedTraces(t *testing.T) {
	for name, want := range map[string]struct {
		publications, outages int
		period, jitter        float64
	}{
		"uci_occ_detection":  {20560, 2, 60, 0.54},
		"uci_occ_estimation": {10123, 4, 30.635, 0.41},
		"uci_airquality":     {9357, 0, 3600, 0.29},
	} {
		f, err := FitTraffic(shipped(t, name))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s", text)
		if f.Publications != want.publications || f.Outages.Number != want.outages ||
			math.Abs(f.Period.Value/want.period-1) > 1e-4 ||
			math.Abs(f.Jitter.Value-want.jitter) > 0.01 || f.Pacing != WallClockPacing ||
			!f.WholeSeconds {
			t.Errorf("%s: %+v", name, f)
		}
	}
}
