package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/sim"
)

// easicrawlFlags are what the paper's simulations can be told.
type easicrawlFlags struct {
	simulation
	figure    string
	family    string
	sensors   int
	objective string
	timed     bool
}

func easicrawlCommand() *cobra.Command {
	var f easicrawlFlags
	cmd := &cobra.Command{
		Use:   "easicrawl --figure NAME",
		Short: "The figures of the EasiCrawl paper: its method, crawld's and simple rivals",
		Long: `Easicrawl makes a figure of the paper "EasiCrawl: A Sleep-aware Schedule Method for
Crawling IoT Sensors" by the planner that the daemon runs:

  4  expected latency by number of sensors, for three budgets
  5  expected latency by total crawls
  6  expected latency and work by discretisation step
  7  expected latency and work by time range
  8  expected latency by plan method
  9  iterations to convergence
  expectation  what a crawl at t costs, by the papers' formulas and in truth
  cost  effort of planning by sensors, instants and crawls, for every algorithm

Compared are EasiCrawl as in the paper, crawld, RandomCrawl, even crawls, and even
crawls moved back to where the sensor was last awake. The paper does not tell how its
sensors sleep, so there are four families to choose from, awake and asleep for
minutes: short 2-10 and 5-25, half 5-20 and 5-20, long 20-60 and 10-40, tiny 1-3
and 10-40.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().StringVar(&f.figure, "figure", "",
		"which one: "+strings.Join(sim.EasiCrawlFigures(), ", "))
	cmd.Flags().StringVar(&f.family, "family", "half",
		"how sensors sleep: "+strings.Join(familyNames(), ", "))
	cmd.Flags().IntVar(&f.sensors, "sensors", 0, "number of sensors (default as in the paper)")
	cmd.Flags().StringVar(&f.objective, "objective", "exact",
		"what EasiCrawl in paper mode minimises: exact, paper (its equation 5)")
	cmd.Flags().BoolVar(&f.timed, "time", false,
		"figures 6, 7 and cost: measure the time of planning too, one simulation at a time")
	f.flags(cmd)
	return cmd
}

func familyNames() []string {
	var names []string
	for _, f := range sim.Families() {
		names = append(names, f.Name)
	}
	return names
}

func (f *easicrawlFlags) run(cmd *cobra.Command) error {
	e, err := f.study()
	if err != nil {
		return err
	}
	var done func()
	e.Progress, done = f.progress(cmd)
	fig, err := e.Figure(f.figure)
	done()
	if err != nil {
		return err
	}
	return f.show(cmd, fig)
}

// study checks the flags.
func (f *easicrawlFlags) study() (sim.EasiCrawl, error) {
	e := sim.EasiCrawl{Sensors: f.sensors, Runs: f.runs, Seed: f.seed, Workers: runtime.GOMAXPROCS(0)}
	if err := f.check(); err != nil {
		return e, err
	}
	if names := sim.EasiCrawlFigures(); !slices.Contains(names, f.figure) {
		return e, usage(fmt.Errorf("--figure %q: must be one of %s", f.figure, strings.Join(names, ", ")))
	}
	if f.sensors < 0 {
		return e, usage(fmt.Errorf("--sensors %d: must not be negative", f.sensors))
	}
	if f.sensors > 1 && f.figure == "expectation" {
		return e, usage(fmt.Errorf("--sensors %d: figure expectation is of one sensor", f.sensors))
	}
	if f.timed && !slices.Contains([]string{"6", "7", "cost"}, f.figure) {
		return e, usage(errors.New("--time: only figures 6, 7 and cost show it"))
	}
	var err error
	if e.Family, err = sim.FamilyNamed(f.family); err != nil {
		return e, usage(fmt.Errorf("--family %q: must be one of %s", f.family,
			strings.Join(familyNames(), ", ")))
	}
	if err := e.Objective.UnmarshalText([]byte(f.objective)); err != nil {
		return e, usage(fmt.Errorf("--objective %q: must be one of %v, %v", f.objective,
			scheduler.Exact, scheduler.Paper))
	}
	if f.timed {
		e.Clock, e.Workers = time.Now, 1 // simulations beside it would be measured too
	}
	return e, nil
}
