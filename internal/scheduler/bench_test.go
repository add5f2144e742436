package scheduler

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// benchProblem has 100 candidates per sensor: 50 windows of random length, each
// giving its first and its last instant.
func benchProblem(n int, rng *rand.Rand) *Problem {
	const windows, cycle = 50, 80
	p := &Problem{
		Tick: time.Second, Length: windows * cycle, End: Carry, Candidates: Ends, Budget: 5 * n,
		Demands: make([]Demand, n),
	}
	spans := make([]sleepplan.Span, 0, n*windows)
	coef, awake := make([]float64, n), make([]int64, n)
	for i := range n {
		first := len(spans)
		for k := range int32(windows) {
			s := k*cycle + rng.Int32N(20)
			e := s + 5 + rng.Int32N(30)
			spans = append(spans, sleepplan.Span{Start: s, End: e})
			awake[i] += int64(e - s)
		}
		coef[i] = rng.Float64()
		p.Demands[i] = Demand{
			Coef: coef[i], Cap: -1, Spans: spans[first:len(spans):len(spans)], Known: math.MaxInt64,
		}
	}
	gaps, _ := Gaps(p.Length, p.Budget, coef, awake)
	for i := range gaps {
		p.Demands[i].Gap = max(gaps[i], 400)
	}
	return p
}

// plainPass is the work that any planner has: build the candidates, and (W) from
// each to the next. Building is Solve's own: read a sensor's spans, sum up the masses
// and moments of its windows, and place the nodes. The pass searches and keeps nothing.
func plainPass(p *Problem, g *graph) (sum int64, candidates int) {
	for i := range p.Demands {
		g.build(p, &p.Demands[i], 0, false)
		for j := 1; j < len(g.nodes); j++ {
			sum += cost(g.nodes[j-1], g.nodes[j])
		}
		candidates += len(g.nodes) - 2
	}
	return sum, candidates
}

func BenchmarkPlan(b *testing.B) {
	sizes := []int{1e3, 1e4, 1e5}
	if os.Getenv("CRAWLD_CI") != "" {
		sizes = append(sizes, 1e6)
	}
	perCandidate := map[int]float64{}
	for _, n := range sizes {
		b.Run(fmt.Sprintf("sensors=%d", n), func(b *testing.B) {
			p := benchProblem(n, rand.New(rand.NewPCG(1, uint64(n))))
			var g graph
			plainPass(p, &g)
			var plain time.Duration
			candidates, probes := 0, 0
			rounds := max(1, 100000/n)
			measure := func() {
				start := time.Now()
				for range rounds {
					_, candidates = plainPass(p, &g)
				}
				plain += time.Since(start) / time.Duration(2*rounds)
			}
			measure() // before and after, because other work disturbs both alike
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			b.ResetTimer()
			for b.Loop() {
				s, err := Solve(p, 1)
				if err != nil {
					b.Fatal(err)
				}
				probes = s.Probes
			}
			runtime.ReadMemStats(&after)
			measure()
			each := float64(b.Elapsed()) / float64(b.N) / float64(candidates)
			perCandidate[n] = each
			b.ReportMetric(each, "ns/candidate")
			b.ReportMetric(float64(candidates)/float64(n), "candidates/sensor")
			b.ReportMetric(each/(float64(plain)/float64(candidates)), "x-plain-pass")
			b.ReportMetric(float64(probes)/float64(n), "passes/sensor")
			b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N)/float64(n), "B/sensor")
			if base := perCandidate[1e4]; base > 0 {
				b.ReportMetric(each/base, "x-sensors=1e4")
			}
		})
	}
}

// BenchmarkAllocate compares what it takes to share the budget out: curves, arrangement
// and plans. Pairwise looks at all pairs for each exchange, and both their number and that
// of the exchanges grow with the fleet: a thousand times the work for ten times the
// sensors, so it stops at 1000.
func BenchmarkAllocate(b *testing.B) {
	sizes := []int{10, 100, 1e3, 1e4}
	if os.Getenv("CRAWLD_CI") != "" {
		sizes = append(sizes, 1e5)
	}
	for _, c := range []struct {
		name  string
		solve Algorithm
		most  int
	}{{"oneprice", OnePrice, 1e5}, {"fox", FoxGreedy, 1e5}, {"pairwise", Pairwise, 1e3}} {
		for _, n := range sizes {
			if n > c.most {
				continue
			}
			b.Run(fmt.Sprintf("%s/sensors=%d", c.name, n), func(b *testing.B) {
				p := benchProblem(n, rand.New(rand.NewPCG(1, uint64(n))))
				var sol *Solution
				for b.Loop() {
					var err error
					if sol, err = c.solve(p, nil); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(sol.Work)/float64(n), "work/sensor")
				b.ReportMetric(float64(sol.Iterations), "exchanges")
				b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/float64(n), "us/sensor")
			})
		}
	}
}

// paperScale is a fleet of the size that the EasiCrawl paper's evaluation has: 10 sensors,
// 500 time units, a step of one, 100 crawls, the last instant always crawled.
func paperScale() *Problem {
	p := family(seeded(1), 10, 500, [2]int32{5, 20}, [2]int32{5, 20})
	p.End, p.Candidates, p.Budget = Fixed, Grid, 100
	return p
}

// BenchmarkPaperScale compares the paper's Algorithms 1 and 2 as they are written, which
// plan two sensors anew for each pair; the same with each sensor's table made once; and
// one price. All end at the same value. The ratios need all three in one run.
func BenchmarkPaperScale(b *testing.B) {
	p := paperScale()
	want, err := OnePrice(p, nil)
	if err != nil {
		b.Fatal(err)
	}
	var base float64
	for _, c := range []struct {
		name  string
		solve Algorithm
	}{{"oneprice", OnePrice}, {"memoised", flatPairwise}, {"paper", literal}} {
		b.Run(c.name, func(b *testing.B) {
			var sol *Solution
			for b.Loop() {
				if sol, err = c.solve(p, nil); err != nil {
					b.Fatal(err)
				}
			}
			if math.Abs(sol.Objective-want.Objective) > 1e-9*want.Objective {
				b.Fatalf("objective %v, want %v", sol.Objective, want.Objective)
			}
			each := float64(b.Elapsed()) / float64(b.N)
			if c.name == "oneprice" {
				base = each
			}
			if base > 0 {
				b.ReportMetric(each/base, "x-oneprice")
			}
			b.ReportMetric(float64(sol.Work), "work")
			b.ReportMetric(float64(sol.Iterations), "exchanges")
		})
	}
}
