package dpt

import (
	"math"
	"math/rand/v2"
	"testing"
)

// irregularSource draws the gap after a publication, ms.
type irregularSource struct {
	name string
	gap  func(rng *rand.Rand, i int) float64
	// cost of the looks, in mean gaps per publication, at a price of .03, .3 and 2 mean
	// gaps: at most that share of the cost of the best fixed interval
	share [3]float64
}

var irregularSources = []irregularSource{
	{"poisson", func(rng *rand.Rand, _ int) float64 { return 300_000 * rng.ExpFloat64() },
		[3]float64{1.10, 1.06, 1.04}},
	{"gamma of shape 4", func(rng *rand.Rand, _ int) (t float64) {
		for range 4 {
			t += 75_000 * rng.ExpFloat64()
		}
		return t
	}, [3]float64{.98, 1, 1.03}},
	{"bursts of ten", func(rng *rand.Rand, _ int) float64 {
		if rng.Float64() < .1 {
			return 3600_000 * (.5 + rng.Float64())
		}
		return 1000 + 1000*rng.ExpFloat64()
	}, [3]float64{1.25, 1, 1}},
	{"pairs", func(rng *rand.Rand, i int) float64 {
		if i%2 == 0 {
			return 300_000 + 5000*rng.NormFloat64()
		}
		return 2000 + 1000*rng.ExpFloat64()
	}, [3]float64{.5, .45, .7}},
}

func (s irregularSource) publications(rng *rand.Rand, n int) []int64 {
	t := 0.0
	instants := make([]float64, 0, n)
	for i := range n {
		t += s.gap(rng, i)
		instants = append(instants, t)
	}
	return wholeMillis(instants)
}

// intervals is polling at a fixed interval.
type intervals struct{ interval, next float64 }

func (f *intervals) hit(int64, []int64, bool)          { f.next += f.interval }
func (f *intervals) miss(int64, int64)                 { f.next += f.interval }
func (f *intervals) due() int64                        { return int64(f.next) }
func (f *intervals) why() string                       { return "" }
func (f *intervals) pace() (float64, float64)          { return f.interval, 1 }
func (f *intervals) stats() (float64, float64, string) { return 0, 0, "" }

// TestHZRenewal compares with the best fixed interval, sqrt(2c*gap): nothing is better
// on a Poisson source, which tells nothing but its rate.
func TestHZRenewal(t *testing.T) {
	for _, s := range irregularSources {
		items := s.publications(rand.New(rand.NewPCG(1, 2)), trials(1000, 4000))
		mean := float64(items[len(items)-1]) / float64(len(items))
		for i, c := range []float64{.03, .3, 2}[:trials(2, 3)] {
			p := hzTestParams(300_000)
			p.Price, p.MaxGap = int64(c*mean), 48*3600_000
			cost := func(f hzFigures) float64 { return 1000*f.mean/mean + c*f.ppe }
			h := newHZ(p, 0)
			f := hzFollow(h, items, 100).figures()
			interval := math.Sqrt(2*c) * mean
			fixed := hzFollow(&intervals{interval, interval / 3}, items, 100).figures()
			_, _, mode := h.stats()
			t.Logf("%s, price %.2f: %v costs %.3f; fixed %v costs %.3f; share %.3f", s.name, c, f,
				cost(f), fixed, cost(fixed), cost(f)/cost(fixed))
			if !h.Renewal {
				t.Errorf("%s, price %.2f: mode %s", s.name, c, mode)
			}
			if cost(f) > s.share[i]*cost(fixed) {
				t.Errorf("%s, price %.2f: %v, fixed %v", s.name, c, f, fixed)
			}
		}
	}
}

// TestHZRenewalTarget wants the load met without epochs too.
func TestHZRenewalTarget(t *testing.T) {
	for _, s := range irregularSources {
		items := s.publications(rand.New(rand.NewPCG(1, 3)), trials(1100, 4000))
		for _, target := range []float64{.6, 1.2}[:trials(1, 2)] {
			p := targeted(target)
			p.MaxGap = 48 * 3600_000
			f := hzFollow(newHZ(p, 0), items, 500).figures()
			if math.Abs(f.ppe-target) > .1*target {
				t.Errorf("%s, target %.2f: %v", s.name, target, f)
			}
		}
	}
}

// TestHZLeavesRenewal follows a source that becomes regular and irregular again; one
// with jitter of 15 % of its period has epochs.
func TestHZLeavesRenewal(t *testing.T) {
	h := newHZ(hzTestParams(300_000), 0)
	rng := rand.New(rand.NewPCG(1, 4))
	rough := hzSource{period: 300_000, sd: 45_000, pss: .95, pfs: .8}
	for i, want := range []bool{true, false, true, false} {
		items := irregularSources[0].publications(rng, 300)
		if !want {
			items = rough.publications(rng, 300)
		}
		from := h.Last
		for _, x := range items {
			h.hit(from+x+50, []int64{from + x}, true)
		}
		if h.Renewal != want {
			t.Errorf("phase %d: renewal %v, spread %.2f of the period", i, h.Renewal,
				h.spread()/h.Lambda)
		}
	}
}

// TestRenewalsLater holds the renewal equation against drawn sequences.
func TestRenewalsLater(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 5))
	for _, s := range irregularSources[:3] {
		h := &hz{}
		for i := range memory - 1 {
			h.Gaps = append(h.Gaps, int64(s.gap(rng, i))+1)
		}
		reach := 5 * h.unitOfGaps()
		later := h.renewalsLater(reach)
		const runs = 4000
		for _, u := range []float64{.3 * reach, .7 * reach, reach} {
			wait, count := 0.0, 0.0
			for range runs {
				for t := float64(h.Gaps[rng.IntN(len(h.Gaps))]); t < u; {
					count, wait = count+1./runs, wait+(u-t)/runs
					t += float64(h.Gaps[rng.IntN(len(h.Gaps))])
				}
			}
			gotWait, gotCount := later(u)
			if math.Abs(gotWait/wait-1) > .1 || math.Abs(gotCount/count-1) > .1 {
				t.Errorf("%s, %.0f s: %.1f publications waiting %.0f s, drawn %.1f waiting %.0f s",
					s.name, u/1000, gotCount, gotWait/1000, count, wait/1000)
			}
		}
	}
}

func (h *hz) unitOfGaps() float64 {
	r := *h
	r.Renewal = true
	return r.unit()
}
