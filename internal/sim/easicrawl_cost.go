package sim

import (
	"fmt"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/scheduler"
)

// rivals are the algorithms whose effort figure cost compares. On the paper's grid all
// find plans of the same value.
var rivals = []policy{
	{"Algorithms 1 and 2", scheduler.Pairwise, false},
	{"Algorithm 2 and Fox", scheduler.Dynamic, false},
	{"divide and conquer and Fox", scheduler.DivideAndConquer, false},
	{"line hull and Fox", scheduler.Layered, false},
	{"chords and Fox", scheduler.FoxGreedy, false},
	{onePrice, scheduler.OnePrice, false},
}

const onePrice = "one price"

// cost is what planning costs by N, by the number m of candidates per sensor, which is
// about T awake over the step, and by theta.
func (e EasiCrawl) cost() (*figure.Figure, error) {
	n := e.sensors(10)
	settings, byStep, byBudget := costSettings(n)
	r, err := e.sweep(settings, rivals)
	if err != nil {
		return nil, err
	}
	f := &figure.Figure{
		Title:  fmt.Sprintf("Effort of planning a range, family %s", e.Family.Name),
		Source: "EasiCrawl, section IV: O(m^2 n) for one sensor",
		Notes: append(e.notes(), "On the grid all of these find plans of the same expected latency; "+
			"\"one price\" is what crawld runs, which then moves crawls to where they are best."),
	}
	panels := []struct {
		title    string
		x        figure.Axis
		from, to int
	}{
		{"by sensors, 5 crawls each, T = 200, step 2", figure.Axis{Label: "sensors N", Log: true}, 0, byStep},
		{fmt.Sprintf("by instants of the grid, N = %d, T = 500, 10 crawls each", n),
			figure.Axis{Label: "instants T / epsilon", Log: true}, byStep, byBudget},
		{fmt.Sprintf("by budget, N = %d, T = 500, step 2", n), figure.Axis{Label: "crawls theta", Log: true},
			byBudget, len(settings)},
	}
	names := make([]string, len(rivals))
	for i, p := range rivals {
		names[i] = p.name
	}
	for _, p := range panels {
		f.Panels = append(f.Panels, figure.Panel{Title: "Work " + p.title, X: p.x, Y: workAxis,
			Series: r.all(names, p.from, p.to, work)})
		if e.Clock != nil {
			f.Panels = append(f.Panels, figure.Panel{Title: "Time " + p.title, X: p.x, Y: timeAxis,
				Series: r.all(names, p.from, p.to, seconds)})
		}
	}
	for _, name := range names[:len(names)-1] {
		for _, at := range []struct {
			k    int
			what string
		}{{byStep - 1, fmt.Sprintf("N = %.0f", settings[byStep-1].x)}, {byBudget - 1, "step 1"}} {
			f.Facts = append(f.Facts, figure.Fact{
				Name:  fmt.Sprintf("work of %s / of one price, %s", name, at.what),
				Value: r.mean(at.k, name, work) / r.mean(at.k, onePrice, work)})
		}
	}
	f.Facts = append(f.Facts, figure.Fact{Name: "greatest difference in latency between any two, share",
		Value: r.spread(names)})
	return f, nil
}

// costSettings are the ranges of figure cost: by sensors, from byStep on by step, from
// byBudget on by budget.
func costSettings(n int) (settings []setting, byStep, byBudget int) {
	for _, times := range []int{1, 2, 5, 10, 20} {
		settings = append(settings, setting{x: float64(n * times), sensors: n * times,
			theta: 5 * n * times, length: 200, step: paperStep})
	}
	byStep = len(settings)
	for _, eps := range []int{20, 10, 5, 2, 1} {
		settings = append(settings,
			setting{x: 500 / float64(eps), sensors: n, theta: 10 * n, length: 500, step: eps})
	}
	byBudget = len(settings)
	for _, per := range []int{2, 5, 10, 20, 40} {
		settings = append(settings,
			setting{x: float64(n * per), sensors: n, theta: n * per, length: 500, step: paperStep})
	}
	return settings, byStep, byBudget
}

// spread is by how much the policies' latencies of one run differ at most.
func (r *results) spread(names []string) float64 {
	worst := 0.0
	for k := range r.settings {
		for run := range r.samples[k][0] {
			least, most := r.samples[k][r.of(names[0])][run].expected, 0.0
			for _, name := range names {
				got := r.samples[k][r.of(name)][run].expected
				least, most = min(least, got), max(most, got)
			}
			worst = max(worst, most/least-1)
		}
	}
	return worst
}
