package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/scheduler"
)

// EasiCrawl are the settings of the simulations of section V of the EasiCrawl paper.
type EasiCrawl struct {
	Family    Family
	Sensors   int // N; 0 = as in the paper
	Runs      int // per setting, each with sensors of its own; 0 = RunsOf the figure
	Seed      uint64
	Objective scheduler.Objective // what paper mode minimises; what is paid is exact
	Workers   int                 // simulations at a time; 0 = 1

	// Clock times the planning of figures 6, 7 and cost, which then are not the same from
	// run to run; nil: they show the work alone.
	Clock func() time.Time
	// Progress is told how many simulations of how many are done; nil if nobody looks.
	Progress func(done, total int)
}

// easiFigure is one figure of the paper.
type easiFigure struct {
	name string
	runs int
	make func(e EasiCrawl) (*figure.Figure, error)
}

// easiFigures have the paper's number of runs where it gives one.
func easiFigures() []easiFigure {
	return []easiFigure{
		{"4", 5, EasiCrawl.sensorScale},
		{"5", 5, EasiCrawl.budget},
		{"6", 5, EasiCrawl.step},
		{"7", 5, EasiCrawl.timeRange},
		{"8", 5, EasiCrawl.planMethods},
		{"9", 300, EasiCrawl.convergence},
		{"expectation", 200, EasiCrawl.expectation},
		{"cost", 3, EasiCrawl.cost},
	}
}

// EasiCrawlFigures are the names that EasiCrawl.Figure knows: the paper's numbers,
// "expectation", which is Fig. 3 of its second draft, and "cost", which compares the
// effort of its algorithms.
func EasiCrawlFigures() []string {
	var names []string
	for _, f := range easiFigures() {
		names = append(names, f.name)
	}
	return names
}

// Figure makes one of EasiCrawlFigures. The error names a figure that is none of them,
// or is one of the simulator's.
func (e EasiCrawl) Figure(name string) (*figure.Figure, error) {
	all := easiFigures()
	k := slices.IndexFunc(all, func(f easiFigure) bool { return f.name == name })
	switch {
	case k < 0:
		return nil, fmt.Errorf("sim: no figure %q: there are %s", name,
			strings.Join(EasiCrawlFigures(), ", "))
	case e.Sensors < 0 || e.Runs < 0:
		return nil, fmt.Errorf("sim: figure %s: %d sensors, %d runs: must not be negative", name,
			e.Sensors, e.Runs)
	case e.Family.Name == "":
		return nil, fmt.Errorf("sim: figure %s: no family of sensors is given", name)
	}
	if e.Runs == 0 {
		e.Runs = all[k].runs
	}
	f, err := all[k].make(e)
	if err != nil {
		return nil, fmt.Errorf("figure %s: %w", name, err)
	}
	f.ID = "easicrawl-" + name
	if f.Source == "" {
		f.Source = "EasiCrawl, Fig. " + name
	}
	return f, nil
}

// sensors is N of a figure whose N in the paper is usual.
func (e EasiCrawl) sensors(usual int) int {
	if e.Sensors > 0 {
		return e.Sensors
	}
	return usual
}

// notes are what is to be said of every figure that compares policies.
func (e EasiCrawl) notes() []string {
	notes := []string{
		fmt.Sprintf("Sensors of the family %s: awake for %g to %g min and asleep for %g to %g min in "+
			"turn, up to one event per awake minute, all of weight 1 and without cap.", e.Family.Name,
			e.Family.Awake[0], e.Family.Awake[1], e.Family.Asleep[0], e.Family.Asleep[1]),
		"The paper does not publish its generator of sensors, so its absolute values cannot be " +
			"matched; ratios and shapes can.",
		"All policies end the range as the paper does: every sensor is crawled at its last awake " +
			"instant, and nothing is paid beyond the range.",
	}
	if e.Objective == scheduler.Paper {
		notes = append(notes, "EasiCrawl in paper mode minimises equation (5) of the paper; what is "+
			"shown is the exact expectation for all.")
	}
	return notes
}

// gridNotes are those of figures whose paper mode is on the paper's grid.
func (e EasiCrawl) gridNotes() []string {
	return append(e.notes(), "Paper mode and RandomCrawl crawl on the paper's grid; where it has no "+
		"more instants than there are crawls, they do the same.")
}

// latencyAxis is the paper's metric.
var latencyAxis = figure.Axis{Label: "expected latency, summed over events", Unit: "min"}

// workAxis is effort that no machine changes.
var workAxis = figure.Axis{Label: "evaluations of candidates and pairs", Log: true}
