package dpt

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// locked is how many publications h needs until its period stays within 5 % of that of
// the items, which follow its last publication.
func locked(h *hz, items []int64, period float64) int {
	from, last := h.Last, 0
	for i, x := range items {
		h.hit(from+x+50, []int64{from + x}, true)
		if math.Abs(h.Lambda/period-1) > .05 {
			last = i + 1
		}
	}
	return last
}

// TestHZPeriodChange: 300 s, 600 s, 300 s, each found within 25 publications, however
// many of them are lost. (A gap beyond maxEpochs old periods begins the count anew; this
// happens to less than one change in a hundred.)
func TestHZPeriodChange(t *testing.T) {
	changes, late := 0, 0
	for _, pss := range []float64{1, .95, .6, .4} {
		for _, wall := range []bool{false, true} {
			for seed := range uint64(trials(2, 12)) {
				m := hzSource{period: 300_000, sd: 5000, pss: pss, pfs: max(pss, .6), wall: wall}
				h := trained(hzTestParams(m.period), m, seed, 150)
				rng := rand.New(rand.NewPCG(seed, 5))
				for _, m.period = range []float64{600_000, 300_000} {
					if n := locked(h, m.publications(rng, 60), m.period); n > 25 {
						t.Logf("p_ss %.2f, wall %v, seed %d: %.0f s found after %d publications", pss,
							wall, seed, m.period/1000, n)
						late++
					}
					changes++
				}
			}
		}
	}
	if changes < 32 || late > changes/100 {
		t.Errorf("%d of %d changes found late", late, changes)
	}
}

// TestHZPhaseJump: a sensor restarts and publishes at another phase.
func TestHZPhaseJump(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 6))
		h := trained(hzTestParams(300_000), hzWall, seed, 150)
		jump := 90_000 + rng.Int64N(120_000)
		from := h.Last + jump
		items := hzWall.publications(rng, 50)
		for i, x := range items {
			h.hit(from+x+50, []int64{from + x}, true)
			off := math.Mod(h.Filters.base()+float64(x)-float64(items[0])+450_000, 300_000) - 150_000
			if i >= 25 && (math.Abs(off) > 50_000 || math.Abs(h.Lambda/300_000-1) > .02) {
				t.Errorf("seed %d, jump %d: %d publications later off by %.0f ms, period %.0f", seed,
					jump, i, off, h.Lambda)
				break
			}
		}
	}
}

// TestHZHarmonics: the period is neither a multiple nor a part of the true one while up
// to 60 % are lost, nor when a sensor catches up with bursts of data a second apart.
func TestHZHarmonics(t *testing.T) {
	for _, c := range []struct {
		pss, pfs float64
		burst    int // per hundred publications
	}{{.95, .8, 0}, {.6, .6, 0}, {.4, .4, 0}, {.4, .8, 0}, {.95, .8, 3}, {.95, .8, 20}, {.6, .6, 8}} {
		for _, wall := range []bool{false, true} {
			m := hzSource{period: 300_000, sd: 5000, pss: c.pss, pfs: c.pfs, wall: wall}
			items := m.publications(rand.New(rand.NewPCG(1, 3)), trials(600, 4000))
			for i := 100; i+100 < len(items); i += 100 {
				for j := range c.burst {
					items = append(items, items[i]+int64(j+1)*1000)
				}
			}
			slices.Sort(items)
			h := newHZ(hzTestParams(m.period), 0)
			wrong := 0
			for i, x := range items {
				h.hit(x+50, []int64{x}, true)
				if i > 100 && math.Abs(h.Lambda/m.period-1) > .02 {
					wrong++
				}
			}
			if h.Renewal || wrong > len(items)/100 {
				t.Errorf("%+v, wall %v: period wrong after %d of %d publications, renewal %v", c, wall,
					wrong, len(items), h.Renewal)
			}
		}
	}
}

// TestHZLockAfterOutages: a period that is much longer than the first one is found.
func TestHZLockAfterOutages(t *testing.T) {
	m := hzSource{period: 1000, sd: 10, pss: 1, pfs: 1}
	h := trained(hzTestParams(300_000), m, 1, 50)
	rng := rand.New(rand.NewPCG(1, 5))
	m.period, m.sd = 3600_000, 1000
	if n := locked(h, m.publications(rng, 30), m.period); n > 8 {
		t.Errorf("found after %d publications", n)
	}
}

// TestHZFirstLock: a wrong first lock does not stay.
func TestHZFirstLock(t *testing.T) {
	const sources = 200
	for _, c := range []struct {
		pss, pfs float64
		most     int // wrong after 75 publications
	}{{.95, .8, 0}, {.6, .6, 0}, {.4, .6, 2}, {.4, .4, 8}} {
		wrong := 0
		for seed := range uint64(sources) {
			m := hzSource{period: 300_000, sd: 10_000, pss: c.pss, pfs: c.pfs, wall: seed%2 == 0}
			h := newHZ(hzTestParams(m.period), 0)
			for _, x := range m.publications(rand.New(rand.NewPCG(seed, 3)), 75) {
				h.publication(x, false)
			}
			if math.Abs(h.Lambda/m.period-1) > .05 {
				wrong++
			}
		}
		if wrong > c.most {
			t.Errorf("p_ss %.2f, p_fs %.2f: period of %d sources of %d wrong", c.pss, c.pfs, wrong, sources)
		}
	}
}
