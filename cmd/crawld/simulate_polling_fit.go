package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/sim"
)

func pollingFitCommand() *cobra.Command {
	var seed uint64
	cmd := &cobra.Command{
		Use:   "fit FILE",
		Short: "Fit the traffic model of the DPT paper to a trace, with the paper's tests",
		Long: `Fit estimates the traffic model in section 5 of the paper "Data Publication Tracking"
from a file of publications: period, chance of success after success and after failure,
jitter, pacing, outages. It tests three models of failures in a row by chi-squared and
two of jitter by Kolmogorov and Smirnov, at 0.05.

FILE is CSV, plain or gzip, the first column Unix seconds.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			t, err := readTrace(args[0], seed)
			if err != nil {
				return err
			}
			fit, err := sim.FitTraffic(t)
			if err != nil {
				return invalid(err)
			}
			if output(cmd) == "json" {
				return printJSON(cmd.OutOrStdout(), fit)
			}
			return fitTable(cmd.OutOrStdout(), fit)
		},
	}
	cmd.Flags().Uint64Var(&seed, "seed", 1, "of the parts of seconds that whole-second stamps lack")
	outputFlag(cmd, "table", "json")
	return cmd
}

func fitTable(w io.Writer, f sim.TrafficFit) error {
	return table(w, func(row func(...any)) {
		row("trace", f.Trace)
		row("publications", f.Publications, fmt.Sprintf("%d duplicates dropped", f.Duplicates))
		row("days", fmt.Sprintf("%.4g", f.Days))
		row("whole seconds", f.WholeSeconds)
		estimate := func(name string, e sim.Estimate, unit string) {
			row(name, fmt.Sprintf("%.6g%s", e.Value, unit), fmt.Sprintf("+- %.2g", e.SE))
		}
		estimate("period", f.Period, "s")
		estimate("p_ss", f.PSS, "")
		estimate("p_fs", f.PFS, "")
		estimate("jitter sd", f.Jitter, "s")
		row("pacing", f.Pacing, fmt.Sprintf("correlation of neighbours %.2f", f.Correlation))
		row("early intervals", f.Early)
		o := f.Outages
		row("outages", o.Number, fmt.Sprintf("median %.4gs, mean %.4gs, longest %.4gs", o.Median,
			o.Mean, o.Max))
		row("intervals with 0 .. 5 failures", fmt.Sprint(f.Failures))
		for _, m := range f.Models {
			row("failures, "+m.Model, fmt.Sprintf("error %.4g", m.Error), chiSquaredText(m.Test))
		}
		for _, m := range f.Jitters {
			of := fmt.Sprintf("jitter, %.0f periods", m.Periods)
			if m.Periods == 0 {
				of = "jitter, grid"
			}
			row(of+", normal", fmt.Sprintf("K-S %.4f", m.Normal.Distance), goodnessText(m.Normal))
			row(of+", Laplace", fmt.Sprintf("K-S %.4f", m.Laplace.Distance), goodnessText(m.Laplace))
		}
	})
}

func chiSquaredText(t sim.ChiSquared) string {
	if t.Untested {
		return "too few failures to test"
	}
	return fmt.Sprintf("chi-squared %.4g, %d degrees of freedom, p %.2g%s", t.Statistic, t.DF, t.P,
		rejectedText(t.Rejected))
}

func goodnessText(g sim.Goodness) string {
	return fmt.Sprintf("sd %.4gs, p %.2g%s", g.SD, g.P, rejectedText(g.Rejected))
}

func rejectedText(rejected bool) string {
	if rejected {
		return ", rejected"
	}
	return ""
}
