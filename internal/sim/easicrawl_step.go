package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/scheduler"
)

// Policies of figure 6 beside the usual ones.
const (
	pointsApart = "ends, points a step apart, polish"
	everyTick   = "optimum on every tick"
)

// step is figure 6: steps of 1 to 20, 10 sensors, T = 500, 100 crawls.
func (e EasiCrawl) step() (*figure.Figure, error) {
	n := e.sensors(10)
	var settings []setting
	for eps := 1; eps <= 20; eps++ {
		settings = append(settings,
			setting{x: float64(eps), sensors: n, theta: 10 * n, length: 500, step: eps})
	}
	r, err := e.steps(settings)
	if err != nil {
		return nil, err
	}
	f := &figure.Figure{
		Title: fmt.Sprintf("Expected latency by discretisation step, %d sensors, family %s", n,
			e.Family.Name),
		Panels: []figure.Panel{{
			Title: "Latency", X: stepAxis, Y: latencyAxis,
			Series: r.all(usual, 0, len(settings), expected),
		}, {
			Title: "Latency in that of the optimum on every tick", X: stepAxis,
			Y:      figure.Axis{Label: "ratio, run by run"},
			Series: r.against(everyTick, []string{paperMode, daemon, pointsApart}),
		}},
		Facts: r.stepFacts(),
		Notes: append(e.gridNotes(), "crawld has no step: it takes every window's first and last instant "+
			"and points a tenth of the expected gap between crawls apart, and then moves the chosen ones "+
			"tick by tick. Nor have even, even snapped and the optimum.", "\""+pointsApart+"\" does "+
			"the same with points a step apart."),
	}
	f.Panels = append(f.Panels, e.effort(r, stepAxis)...)
	return f, nil
}

// steps are results of figure 6. What does not depend on the step is simulated once.
func (e EasiCrawl) steps(settings []setting) (*results, error) {
	var moving, still []policy
	for _, p := range append(e.policies(), policy{pointsApart, onPointsApart, true},
		policy{everyTick, onEveryTick, false}) {
		if slices.Contains([]string{paperMode, randomCrawl, pointsApart}, p.name) {
			moving = append(moving, p)
		} else {
			still = append(still, p)
		}
	}
	r, err := e.sweep(settings, moving)
	if err != nil {
		return nil, err
	}
	once, err := e.sweep(settings[:1], still)
	if err != nil {
		return nil, err
	}
	r.policies = append(r.policies, still...)
	for k := range r.samples {
		r.samples[k] = append(r.samples[k], once.samples[0]...)
	}
	return r, nil
}

// effort are the panels of what planning costs: work, and time if there is a clock.
func (e EasiCrawl) effort(r *results, x figure.Axis) []figure.Panel {
	names := []string{paperMode, daemon}
	panels := []figure.Panel{{Title: "Work of planning", X: x, Y: workAxis,
		Series: r.all(names, 0, len(r.settings), work)}}
	if e.Clock != nil {
		panels = append(panels, figure.Panel{Title: "Time of planning", X: x, Y: timeAxis,
			Series: r.all(names, 0, len(r.settings), seconds)})
	}
	return panels
}

var (
	stepAxis = figure.Axis{Label: "step epsilon", Unit: "min"}
	timeAxis = figure.Axis{Label: "time to plan a range", Unit: "s", Log: true}
)

// onEveryTick is the optimum if every legal tick is a candidate.
func onEveryTick(p *scheduler.Problem, rng *rand.Rand) (*scheduler.Solution, error) {
	q := *p
	q.Step = 1
	return scheduler.OnePrice(&q, rng)
}

// onPointsApart spaces interior candidates by the step instead of by the expected gap,
// of which the scheduler takes a tenth. The end rule Fixed does not ask for gaps.
func onPointsApart(p *scheduler.Problem, rng *rand.Rand) (*scheduler.Solution, error) {
	q := *p
	q.Demands = slices.Clone(p.Demands)
	for i := range q.Demands {
		q.Demands[i].Gap = 10 * float64(p.Step)
	}
	return scheduler.OnePrice(&q, rng)
}

// stepFacts say how far above the optimum on every tick plans are.
func (r *results) stepFacts() []figure.Fact {
	above := func(k int, name, what string) figure.Fact {
		return figure.Fact{Name: "above the optimum, " + what,
			Value: 100 * (r.ratio(k, name, everyTick) - 1), Unit: "%"}
	}
	var facts []figure.Fact
	for _, name := range []string{paperMode, pointsApart} {
		for k, s := range r.settings {
			if slices.Contains([]int{1, 2, 5, 10, 20}, s.step) {
				facts = append(facts, above(k, name, fmt.Sprintf("%s, epsilon = %d", name, s.step)))
			}
		}
	}
	last := len(r.settings) - 1
	return append(facts,
		above(0, daemon, daemon),
		figure.Fact{Name: "rise of paper mode from epsilon = 1 to 20", Unit: "min",
			Value: r.mean(last, paperMode, expected) - r.mean(0, paperMode, expected),
			Paper: "about 400 units"},
		figure.Fact{Name: "work of paper mode at epsilon = 1 / at 20",
			Value: r.mean(0, paperMode, work) / r.mean(last, paperMode, work),
			Paper: "1 s to below 0.1 s"},
		figure.Fact{Name: "work of paper mode at epsilon = 1 / work of " + daemon,
			Value: r.mean(0, paperMode, work) / r.mean(0, daemon, work)},
		r.never(), r.luck(paperMode), r.luck(daemon))
}

// timeRange is figure 7: T from 50 to 1000, 10 sensors, 30 crawls, a step of 2.
func (e EasiCrawl) timeRange() (*figure.Figure, error) {
	n := e.sensors(10)
	const longest = 1000
	var settings []setting
	for length := 50; length <= longest; length += 50 {
		settings = append(settings, setting{x: float64(length), sensors: n, theta: 3 * n,
			length: length, step: paperStep, drawn: longest})
	}
	r, err := e.sweep(settings, e.policies())
	if err != nil {
		return nil, err
	}
	axis := figure.Axis{Label: "time range T", Unit: "min"}
	f := &figure.Figure{
		Title: fmt.Sprintf("Expected latency by time range, %d sensors, family %s", n, e.Family.Name),
		Panels: []figure.Panel{{Title: "Latency", X: axis, Y: latencyAxis,
			Series: r.all(usual, 0, len(settings), expected)}},
		Facts: append(r.powers(), r.ratios(len(settings)-1, fmt.Sprintf("T = %d", longest), "")...),
		Notes: append(e.gridNotes(), "A run's sensors are drawn once for the longest range, of which the "+
			"others are the beginning; the paper draws new ones for each."),
	}
	f.Panels = append(f.Panels, e.effort(r, axis)...)
	for k, s := range settings {
		if s.length == 50 || s.length == 200 || s.length == longest {
			f.Facts = append(f.Facts, figure.Fact{
				Name:  fmt.Sprintf("work of paper mode / work of %s, T = %d", daemon, s.length),
				Value: r.mean(k, paperMode, work) / r.mean(k, daemon, work)})
		}
	}
	f.Facts = append(f.Facts, r.never(), r.luck(paperMode), r.luck(daemon))
	return f, nil
}

// powers are the exponents of T with which latency and work grow, by least squares in
// logarithms from T = 200 on: below, many sensors have but a window or two.
func (r *results) powers() []figure.Fact {
	from := slices.IndexFunc(r.settings, func(s setting) bool { return s.length >= 200 })
	power := func(name string, value func(sample) float64) float64 {
		var n, sx, sy, sxx, sxy float64
		for k := from; k < len(r.settings); k++ {
			x, y := math.Log(r.settings[k].x), math.Log(r.mean(k, name, value))
			n, sx, sy, sxx, sxy = n+1, sx+x, sy+y, sxx+x*x, sxy+x*y
		}
		return (n*sxy - sx*sy) / (n*sxx - sx*sx)
	}
	const paper = "quadratic"
	return []figure.Fact{
		{Name: "latency of paper mode grows with T to the power of",
			Value: power(paperMode, expected), Paper: paper},
		{Name: "work of paper mode grows with T to the power of",
			Value: power(paperMode, work), Paper: paper},
		{Name: "work of " + daemon + " grows with T to the power of", Value: power(daemon, work)},
	}
}
