package dpt

import (
	"math/rand/v2"
	"testing"
)

// BenchmarkHZPlan is what is computed after a hit.
func BenchmarkHZPlan(b *testing.B) {
	lossy := hzLossy
	lossy.pss, lossy.pfs = .4, .4
	for _, c := range []struct {
		name  string
		items func(*rand.Rand, int) []int64
		price float64 // periods
	}{
		{"usual", hzDelay.publications, .03},
		{"lossy", lossy.publications, .03},
		{"skipping", hzDelay.publications, 3},
		{"renewal", irregularSources[0].publications, .03},
	} {
		b.Run(c.name, func(b *testing.B) {
			items := c.items(rand.New(rand.NewPCG(1, 1)), 300)
			p := hzTestParams(300_000)
			p.Price = int64(c.price * 300_000)
			h := newHZ(p, 0)
			hzFollow(h, items, 0)
			b.ReportAllocs()
			for b.Loop() {
				h.replan()
			}
			b.ReportMetric(float64(len(h.Looks)), "looks")
		})
	}
}
