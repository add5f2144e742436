package sim

import (
	"fmt"
	"slices"

	"github.com/crawld/crawld/internal/figure"
)

// thetas are the budgets of figure 4 in crawls per sensor.
var thetas = []int{2, 5, 10}

// twice is the paper's claim of figure 4.
const twice = "2 times"

// sensorScale is figure 4: N from 10 to 200, T = 200, a step of 2, one panel for each
// budget per sensor.
func (e EasiCrawl) sensorScale() (*figure.Figure, error) {
	scales := []int{10, 20, 50, 100, 150, 200}
	if e.Sensors > 0 {
		scales = []int{e.Sensors}
	}
	var settings []setting
	for _, theta := range thetas {
		for _, n := range scales {
			settings = append(settings,
				setting{x: float64(n), sensors: n, theta: theta * n, length: 200, step: paperStep})
		}
	}
	r, err := e.sweep(settings, e.policies())
	if err != nil {
		return nil, err
	}
	f := &figure.Figure{Title: "Expected latency by number of sensors, family " + e.Family.Name}
	shown := max(0, slices.Index(scales, 50))
	for i, theta := range thetas {
		from := i * len(scales)
		f.Panels = append(f.Panels, figure.Panel{
			Title:  fmt.Sprintf("%d crawls per sensor (theta = %dN)", theta, theta),
			X:      figure.Axis{Label: "sensors N"},
			Y:      latencyAxis,
			Series: r.all(usual, from, from+len(scales), expected),
		})
		at := fmt.Sprintf("theta = %dN, N = %d", theta, scales[shown])
		f.Facts = append(f.Facts, r.ratios(from+shown, at, twice)...)
	}
	f.Facts = append(f.Facts, r.never(), r.luck(paperMode), r.luck(daemon))
	f.Notes = e.gridNotes()
	return f, nil
}

// ratios are the rivals' latencies of one setting in that of paper mode.
func (r *results) ratios(k int, at, paper string) []figure.Fact {
	var facts []figure.Fact
	for _, p := range r.policies {
		if p.name == paperMode {
			continue
		}
		f := figure.Fact{Name: fmt.Sprintf("%s / paper mode, %s", p.name, at),
			Value: r.ratio(k, p.name, paperMode)}
		if p.name == randomCrawl {
			f.Paper = paper
		}
		facts = append(facts, f)
	}
	return facts
}

// never says that crawld is at most as late as paper mode in every single run.
func (r *results) never() figure.Fact {
	return figure.Fact{Name: daemon + " / paper mode, greatest of all runs",
		Value: r.worst(daemon, paperMode)}
}

// budget is figure 5: 10 to 50 crawls for 10 sensors, T = 200, a step of 2.
func (e EasiCrawl) budget() (*figure.Figure, error) {
	n := e.sensors(10)
	var settings []setting
	for k := range 41 {
		theta := n + 4*n*k/40
		settings = append(settings,
			setting{x: float64(theta), sensors: n, theta: theta, length: 200, step: paperStep})
	}
	settings = slices.CompactFunc(settings, func(a, b setting) bool { return a.theta == b.theta })
	r, err := e.sweep(settings, e.policies())
	if err != nil {
		return nil, err
	}
	axis := figure.Axis{Label: "total crawls theta"}
	f := &figure.Figure{
		Title: fmt.Sprintf("Expected latency by total crawls, %d sensors, family %s", n, e.Family.Name),
		Panels: []figure.Panel{{
			Title: "Latency", X: axis, Y: latencyAxis,
			Series: r.all(usual[:3], 0, len(settings), expected),
		}, {
			Title: "Latency in that of " + paperMode, X: axis, Y: figure.Axis{Label: "ratio, run by run"},
			Series: r.against(paperMode, usual[1:]),
		}},
		Notes: append(e.gridNotes(), "At theta = N the end rule leaves nothing to decide: all policies "+
			"make the same crawls."),
	}
	for _, name := range []string{randomCrawl, daemon} {
		for mult := 1; mult <= 5; mult++ {
			k := slices.IndexFunc(settings, func(s setting) bool { return s.theta == mult*n })
			f.Facts = append(f.Facts, figure.Fact{
				Name:  fmt.Sprintf("%s / paper mode, theta = %d", name, mult*n),
				Value: r.ratio(k, name, paperMode),
			})
		}
	}
	f.Facts = append(f.Facts, r.returns(n)...)
	f.Facts = append(f.Facts, r.never(), r.luck(paperMode), r.luck(daemon))
	return f, nil
}

// returns is what each N crawls more save in paper mode.
func (r *results) returns(n int) []figure.Fact {
	var facts []figure.Fact
	last := 0
	for k, s := range r.settings {
		if k == 0 || s.theta%n != 0 {
			continue
		}
		facts = append(facts, figure.Fact{
			Name:  fmt.Sprintf("saved by crawls %d to %d", r.settings[last].theta+1, s.theta),
			Value: r.mean(last, paperMode, expected) - r.mean(k, paperMode, expected), Unit: "min",
		})
		last = k
	}
	facts[0].Paper = "the gain pays less when limits grow larger"
	return facts
}
