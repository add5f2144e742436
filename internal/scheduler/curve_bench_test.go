package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// BenchmarkCurve finds e(0..n) on one sensor of m candidates by hulls in layers, by
// divide and conquer and by the paper's programme. A candidate in a layer is what all
// of them share; x-hull is the time as a multiple of the first one's, which runs in the
// same run. The graph is built beforehand, memory is warm.
func BenchmarkCurve(b *testing.B) {
	methods := []struct {
		name string
		fill func(t *tables[int64], g *graph, n int) int64
	}{{"hull", fillings["layers"]}, {"dc", fillings["divide"]}, {"paper", fillings["dynamic"]}}
	hull := map[[2]int]float64{}
	for _, method := range methods {
		for _, m := range []int{100, 400} {
			for _, n := range []int{10, 40} {
				b.Run(fmt.Sprintf("%s/m=%d/n=%d", method.name, m, n), func(b *testing.B) {
					g := benchGraph(m)
					var tab tables[int64]
					work := method.fill(&tab, g, n)
					for b.Loop() {
						method.fill(&tab, g, n)
					}
					each := float64(b.Elapsed()) / float64(b.N)
					if method.name == "hull" {
						hull[[2]int{m, n}] = each
					}
					b.ReportMetric(each/float64(m*n), "ns/candidate-layer")
					b.ReportMetric(float64(work)/float64(m*n), "evaluations/candidate-layer")
					if base := hull[[2]int{m, n}]; base > 0 {
						b.ReportMetric(each/base, "x-hull")
					}
				})
			}
		}
	}
}

// benchGraph has m candidates, the first and the last instants of windows.
func benchGraph(m int) *graph {
	rng := seeded(m)
	d := Demand{Coef: 1, Cap: -1, Gap: 1e5}
	p := &Problem{Tick: time.Second, Length: int64(m) * 40, End: Carry}
	for k := range int32(m / 2) {
		s := k*80 + rng.Int32N(20)
		d.Spans = append(d.Spans, sleepplan.Span{Start: s, End: s + 5 + rng.Int32N(30)})
	}
	var g graph
	g.build(p, &d, 0, false)
	return &g
}
