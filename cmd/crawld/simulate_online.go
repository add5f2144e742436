package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/sim"
)

// onlineExperiments are the values of --what.
var onlineExperiments = []struct {
	name   string
	figure func(sim.Online) (*figure.Figure, error)
}{
	{"all", sim.Online.All},
	{"failures", sim.Online.Failures},
	{"rates", sim.Online.Rates},
	{"guard", sim.Online.Guard},
	{"peak", sim.Online.Peak},
}

func onlineCommand() *cobra.Command {
	var what, family string
	var c sim.Online
	cmd := &cobra.Command{
		Use:   "online",
		Short: "Show what the planner does with what no plan foresees",
		Long: `Online lets visits fail, rates change and clocks run off, and lets the windows of a
whole fleet end in the same second, and says what each costs: failures, rates,
guard and peak. The EasiCrawl paper leaves scheduling online as future work.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if c.Family, err = sim.FamilyNamed(family); err != nil {
				return usage(fmt.Errorf("--family: %w", err))
			}
			if c.Sensors < 0 {
				return usage(fmt.Errorf("--sensors %d: must not be negative", c.Sensors))
			}
			if c.Runs < 1 {
				return usage(fmt.Errorf("--runs %d: must be at least 1", c.Runs))
			}
			i := slices.Index(experimentNames(), what)
			if i < 0 {
				return usage(fmt.Errorf("--what %q: must be one of %s", what,
					strings.Join(experimentNames(), ", ")))
			}
			f, err := onlineExperiments[i].figure(c)
			if err != nil {
				return err
			}
			return f.Write(cmd.OutOrStdout(), output(cmd))
		},
	}
	cmd.Flags().StringVar(&what, "what", onlineExperiments[0].name,
		"experiment: "+strings.Join(experimentNames(), ", "))
	cmd.Flags().StringVar(&family, "family", "half",
		"sensors of failures and rates: short, half, long or tiny")
	cmd.Flags().IntVar(&c.Sensors, "sensors", 0,
		"number of sensors (default as each experiment needs)")
	cmd.Flags().IntVar(&c.Runs, "runs", 3, "fleets to draw")
	cmd.Flags().Uint64Var(&c.Seed, "seed", 1, "of the first fleet; each run adds one")
	outputFlag(cmd, "table", "json", "csv", "svg")
	return cmd
}

func experimentNames() []string {
	var names []string
	for _, e := range onlineExperiments {
		names = append(names, e.name)
	}
	return names
}
