package sim

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/sleepplan"
)

// The sensor of Fig. 3 of the second draft, in Units, and how many of its windows are
// drawn.
const (
	draftRate    = 0.5
	draftAwake   = 5
	draftAsleep  = 10
	draftWindows = 5
)

// draftCurves are what the papers print for E_h(t), and what it stands for.
var draftCurves = []struct {
	name string
	at   func(rate, t, awake, asleep float64) float64
}{
	{"exact", scheduler.PoissonLatency},
	{"equation (5) in (6), first line, and (8)", scheduler.PaperSleepingLatency},
	{"second line of (6), as printed", scheduler.PrintedSleepingLatency},
	{"equation (10)", scheduler.FluidLatency},
}

// expectation is the drafts' curve E_h(t): what a first crawl at t costs.
func (e EasiCrawl) expectation() (*figure.Figure, error) {
	if e.Sensors > 1 {
		return nil, fmt.Errorf("sim: %d sensors: the curve is that of one", e.Sensors)
	}
	panel := figure.Panel{X: figure.Axis{Label: "crawl at t", Unit: "min"}, Y: latencyAxis}
	for _, c := range draftCurves {
		s := figure.Series{Name: c.name}
		for t := range draftWindows * (draftAwake + draftAsleep) {
			if t%(draftAwake+draftAsleep) <= draftAwake {
				cost := c.at(draftRate, float64(t), draftAwake, draftAsleep)
				s.Points = append(s.Points, figure.At(float64(t), cost))
			}
		}
		panel.Series = append(panel.Series, s)
	}
	drawn, err := e.monteCarlo()
	if err != nil {
		return nil, err
	}
	panel.Series = append(panel.Series, drawn)
	return &figure.Figure{
		Title:  "Expected latency of a first crawl at t: rate 1/2, awake 5, asleep 10",
		Source: "Crawling Low Power Devices (draft), Fig. 3",
		Panels: []figure.Panel{panel},
		Facts:  lastRatios(panel.Series),
		Notes: []string{
			"Equation (5) takes each event's time as that of the first one, and equations (6), (8) and " +
				"(10) build on it: with many events they come to twice the latency.",
			"The second line of (6) loses a term besides; (10) leaves out where in its cycle t stands.",
			"While the sensor sleeps, from 5 to 15 and so on, no crawl is possible, and lines only join " +
				"what is around. The drafts set 0 there, which as a weight makes such crawls free.",
			fmt.Sprintf("Monte Carlo: the mean over %d runs of the simulator's own events, with bars of "+
				"two standard errors instead of extremes.", e.Runs),
		},
	}, nil
}

// lastRatios are the last points of series in that of the first one.
func lastRatios(all []figure.Series) []figure.Fact {
	last := func(s figure.Series) figure.Point { return s.Points[len(s.Points)-1] }
	var facts []figure.Fact
	for _, s := range all[1:] {
		facts = append(facts, figure.Fact{
			Name:  fmt.Sprintf("%s / %s, t = %g", s.Name, all[0].Name, last(s).X),
			Value: last(s).Mean / last(all[0]).Mean})
	}
	return facts
}

// monteCarlo draws events as the simulator's sensors do, and adds up what they wait
// for a crawl within and at the end of each awake window.
func (e EasiCrawl) monteCarlo() (figure.Series, error) {
	plan, err := sleepplan.Cycle((draftAwake+draftAsleep)*Unit, draftAwake*Unit, Epoch)
	if err != nil {
		return figure.Series{}, err
	}
	var instants []float64
	for k := range draftWindows {
		start := float64(k * (draftAwake + draftAsleep))
		instants = append(instants, start+draftAwake-3, start+draftAwake)
	}
	waits := make([][]float64, len(instants))
	end := Epoch.Add(draftWindows * (draftAwake + draftAsleep) * Unit)
	for run := range e.Runs {
		s := &sensor{Sensor: &Sensor{Plan: plan, Rate: draftRate / Unit.Seconds()},
			rng: rand.New(rand.NewPCG(e.Seed, uint64(run)+1))}
		sums := make([]float64, len(instants))
		for at := s.after(Epoch, end); !at.IsZero(); at = s.after(at, end) {
			for k, t := range instants {
				sums[k] += max(0, t-float64(at.Sub(Epoch))/float64(Unit))
			}
		}
		for k, sum := range sums {
			waits[k] = append(waits[k], sum)
		}
	}
	s := figure.Series{Name: "Monte Carlo", Style: figure.Points}
	for k, t := range instants {
		mean, sd := moments(waits[k])
		bar := 2 * sd / math.Sqrt(float64(e.Runs))
		s.Points = append(s.Points, figure.Point{X: t, Mean: mean, Min: mean - bar, Max: mean + bar,
			N: e.Runs})
	}
	return s, nil
}
