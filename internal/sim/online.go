package sim

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/crawld/crawld/internal/figure"
)

// Online shows what the planner does with what no plan foresees: visits that fail,
// rates that change, clocks that are off, and windows that end all at once. The
// EasiCrawl paper names online scheduling as future work (section VII).
type Online struct {
	Family  Family // of Failures and Rates
	Sensors int    // 0 = as many as an experiment needs for quiet curves
	Runs    int    // fleets drawn
	Seed    uint64
}

// All is every experiment in one figure.
func (c Online) All() (*figure.Figure, error) {
	all := &figure.Figure{ID: "online", Title: "What no plan foresees, " + c.Family.Name}
	for _, one := range []func() (*figure.Figure, error){c.Failures, c.Rates, c.Guard, c.Peak} {
		f, err := one()
		if err != nil {
			return nil, err
		}
		all.Panels = append(all.Panels, f.Panels...)
		all.Facts = append(all.Facts, f.Facts...)
		for _, note := range f.Notes {
			all.Notes = append(all.Notes, f.Title+": "+note)
		}
	}
	return all, nil
}

// futureWork is what the EasiCrawl paper says of all of this.
const futureWork = "future work (section VII)"

// onlineCrawls is theta/N of Failures and Rates.
const onlineCrawls = 4

// config is a run over some ranges of the paper's kind.
func (c Online) config(run, sensors, ranges int) (Config, error) {
	length := rangeUnits * Unit
	rng := rand.New(rand.NewPCG(c.Seed+uint64(run), uint64(sensors)))
	fleet, err := c.Family.Fleet(rng, sensors, length*time.Duration(ranges))
	return Config{Sensors: fleet, Parameters: OneRange(length, onlineCrawls*sensors),
		Start: Epoch, Duration: length * time.Duration(ranges), Seed: c.Seed + uint64(run),
		Crawled: true}, err
}

// prefixes runs a simulation for each of the rising durations. The planner does not
// know when a run ends, so each is the beginning of the next. Only the last, the
// longest, calls the hooks.
func prefixes(c Config, durations []time.Duration) ([]Result, error) {
	results := make([]Result, len(durations))
	faults := make([]error, len(durations))
	var group sync.WaitGroup
	for i, d := range durations {
		part := c
		part.Duration = d
		if i+1 < len(durations) {
			part.Watch, part.Outcome, part.Event, part.Planned = nil, nil, nil, nil
		}
		group.Go(func() { results[i], faults[i] = Run(part) })
	}
	group.Wait()
	for _, err := range faults {
		if err != nil {
			return nil, err
		}
	}
	return results, nil
}

// byRange is what events are expected to have waited in each range of a run. What
// waits over a border is paid on both sides of it.
func byRange(c Config) ([]float64, error) {
	var durations []time.Duration
	for d := c.Parameters.Range; d <= c.Duration; d += c.Parameters.Range {
		durations = append(durations, d)
	}
	results, err := prefixes(c, durations)
	if err != nil {
		return nil, err
	}
	waits := make([]float64, len(results))
	for i := range results {
		waits[i] = results[i].Expected
		if i > 0 {
			waits[i] -= results[i-1].Expected
		}
	}
	return waits, nil
}

// laterHalf is what events are expected to have waited in the second half of a run,
// when what there is to learn has been learned.
func laterHalf(c Config) (float64, error) {
	results, err := prefixes(c, []time.Duration{c.Duration / 2, c.Duration})
	if err != nil {
		return 0, err
	}
	return results[1].Expected - results[0].Expected, nil
}

// curves collects what several runs give for several policies.
type curves struct {
	names []string // in the order of the legend
	runs  map[string]map[float64][]float64
}

// add notes what one run of a policy gave at x.
func (k *curves) add(name string, x, y float64) {
	if k.runs == nil {
		k.runs = map[string]map[float64][]float64{}
	}
	if k.runs[name] == nil {
		k.runs[name] = map[float64][]float64{}
	}
	if !slices.Contains(k.names, name) {
		k.names = append(k.names, name)
	}
	k.runs[name][x] = append(k.runs[name][x], y)
}

// series are the policies that gave anything, as joined points.
func (k *curves) series() []figure.Series {
	var all []figure.Series
	for _, name := range k.names {
		s := figure.Series{Name: name}
		for _, x := range slices.Sorted(maps.Keys(k.runs[name])) {
			s.Points = append(s.Points, figure.Over(x, k.runs[name][x]))
		}
		if len(s.Points) > 0 {
			all = append(all, s)
		}
	}
	return all
}

// mean is the mean of all runs of a policy at x.
func (k *curves) mean(name string, x float64) float64 {
	return figure.Over(x, k.runs[name][x]).Mean
}
