package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/sim"
)

func rollingCommand() *cobra.Command {
	var family string
	var c sim.Rolling
	cmd := &cobra.Command{
		Use:   "rolling",
		Short: "Compare what may be done at the end of a time range, over many ranges",
		Long: `Rolling plans many time ranges in a row, each with one of four rules for its end, and
compares the expected latency with that of one plan for all of them, made in
advance: fixed crawls every sensor at the end of each range, as the EasiCrawl paper
does; carry hands on what is left; half a gap lets it wait for half the time
between two crawls; look-ahead plans the next range along. All of it goes through
the planner that the daemon runs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, f := range []struct {
				name  string
				value int
			}{{"sensors", c.Sensors}, {"ranges", c.Ranges}, {"runs", c.Runs}} {
				if f.value < 1 {
					return usage(fmt.Errorf("--%s %d: must be at least 1", f.name, f.value))
				}
			}
			c.Families = sim.Families()
			if family != "" {
				one, err := sim.FamilyNamed(family)
				if err != nil {
					return usage(fmt.Errorf("--family: %w", err))
				}
				c.Families = []sim.Family{one}
			}
			f, err := c.Figure()
			if err != nil {
				return err
			}
			return f.Write(cmd.OutOrStdout(), output(cmd))
		},
	}
	cmd.Flags().StringVar(&family, "family", "", "short, half, long or tiny (default all of them)")
	cmd.Flags().IntVar(&c.Sensors, "sensors", 40, "number of sensors")
	cmd.Flags().IntVar(&c.Ranges, "ranges", 20, "time ranges in a row")
	cmd.Flags().IntVar(&c.Runs, "runs", 5, "fleets to draw")
	cmd.Flags().Uint64Var(&c.Seed, "seed", 1, "of the first fleet; each run adds one")
	outputFlag(cmd, "table", "json", "csv", "svg")
	return cmd
}
