package sim

import (
	"fmt"
	"math"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/scheduler"
)

// The groups of figure 8.
const (
	allDP      = "EasiCrawl, all DP"
	halfGreedy = "EasiCrawl, half greedy"
	allGreedy  = "EasiCrawl, all greedy"
)

var methods = []string{allDP, daemon, randomCrawl, even, evenSnapped, halfGreedy, allGreedy}

// planMethods is figure 8: N from 10 to 100, T = 200, 5 crawls per sensor. Algorithm 3
// crawls at window ends, which the paper's grid does not have, so that all may stand
// there.
func (e EasiCrawl) planMethods() (*figure.Figure, error) {
	scales := []int{10, 20, 30, 40, 50, 60, 70, 80, 90, 100}
	if e.Sensors > 0 {
		scales = []int{e.Sensors}
	}
	var settings []setting
	for _, n := range scales {
		settings = append(settings,
			setting{x: float64(n), sensors: n, theta: 5 * n, length: 200, step: paperStep})
	}
	policies := []policy{
		{allDP, e.underObjective(scheduler.Pairwise), true},
		{daemon, nil, true},
		{randomCrawl, scheduler.RandomCrawl, true},
		{even, scheduler.Even, true},
		{evenSnapped, scheduler.EvenSnapped, true},
		{halfGreedy, e.underObjective(scheduler.HalfGreedy), true},
		{allGreedy, e.underObjective(scheduler.FastGreedy), true},
	}
	r, err := e.sweep(settings, policies)
	if err != nil {
		return nil, err
	}
	f := &figure.Figure{
		Title: "Expected latency by plan method, family " + e.Family.Name,
		Panels: []figure.Panel{{
			X: figure.Axis{Label: "sensors N"}, Y: latencyAxis,
			Series: r.all(methods, 0, len(settings), expected),
		}},
		Notes: append(e.notes(), "Algorithm 3 is the intended one, crawl k of n at the end of the "+
			"window number ceil(kC/n) of C; as printed it does not make n crawls.",
			"All plans are on crawld's candidates and polished alike, because the paper's grid misses the "+
				"window ends that Algorithm 3 crawls at."),
	}
	for _, name := range methods[1:] {
		least, most := math.Inf(1), 0.0
		for k := range settings {
			ratio := r.ratio(k, name, allDP)
			least, most = min(least, ratio), max(most, ratio)
		}
		f.Facts = append(f.Facts,
			figure.Fact{Name: fmt.Sprintf("%s / all DP, least of all N", name), Value: least},
			figure.Fact{Name: fmt.Sprintf("%s / all DP, greatest of all N", name), Value: most})
	}
	f.Facts = append(f.Facts, r.luck(allDP), r.luck(allGreedy))
	return f, nil
}

// convergence is figure 9: the exchanges that Algorithm 1 makes before none gains, T =
// 400, 10 sensors, a step of 2, 50 and 100 crawls.
func (e EasiCrawl) convergence() (*figure.Figure, error) {
	n := e.sensors(10)
	settings := []setting{
		{sensors: n, theta: 5 * n, length: 400, step: paperStep},
		{sensors: n, theta: 10 * n, length: 400, step: paperStep},
	}
	r, err := e.sweep(settings, []policy{e.paperMode()})
	if err != nil {
		return nil, err
	}
	panel := figure.Panel{X: figure.Axis{Label: "iterations to convergence"},
		Y: figure.Axis{Label: "runs"}}
	f := &figure.Figure{
		Title: fmt.Sprintf("Speed of convergence, %d sensors, family %s", n, e.Family.Name),
		Notes: append(e.notes(), "An iteration is one exchange of a crawl between two sensors, from the "+
			"initial arrangement in proportion to weight times awake time."),
	}
	for k, s := range settings {
		runs := values(r.samples[k][0], func(s sample) float64 { return float64(s.iterations) })
		name := fmt.Sprintf("theta = %d", s.theta)
		panel.Series = append(panel.Series, histogram(name, runs))
		mean, sd := moments(runs)
		f.Facts = append(f.Facts,
			figure.Fact{Name: "mean of iterations, " + name, Value: mean},
			figure.Fact{Name: "standard deviation, " + name, Value: sd})
	}
	f.Facts[2].Paper = "a larger mean when the number of total crawls grows bigger"
	f.Panels = []figure.Panel{panel}
	return f, nil
}

// histogram counts runs by value, each whole value from the least to the greatest.
func histogram(name string, runs []float64) figure.Series {
	s := figure.Series{Name: name, Style: figure.Bars}
	over := figure.Over(0, runs)
	for x := over.Min; x <= over.Max; x++ {
		count := 0.0
		for _, v := range runs {
			if v == x {
				count++
			}
		}
		s.Points = append(s.Points, figure.At(x, count))
	}
	return s
}

// moments are the mean and the standard deviation of a sample.
func moments(runs []float64) (mean, sd float64) {
	for _, v := range runs {
		mean += v / float64(len(runs))
	}
	for _, v := range runs {
		sd += (v - mean) * (v - mean) / float64(max(1, len(runs)-1))
	}
	return mean, math.Sqrt(sd)
}
