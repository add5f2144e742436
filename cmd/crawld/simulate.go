package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/crawld/crawld/internal/figure"
)

// simulation are the flags that all simulations share.
type simulation struct {
	seed uint64
	runs int
}

func simulateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "simulate",
		Short: "Simulate crawling in virtual time, to compare policies in numbers and pictures",
		Long: `Simulate drives the planner that the daemon runs through virtual time, against
sensors that sleep, capture events and answer or do not. The same flags give the
same output on any machine.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(easicrawlCommand(), casestudyCommand(), rollingCommand(), onlineCommand(),
		pollingCommand(), discoveryCommand())
	return cmd
}

func (s *simulation) flags(cmd *cobra.Command) {
	cmd.Flags().Uint64Var(&s.seed, "seed", 1, "of everything that is drawn")
	cmd.Flags().IntVar(&s.runs, "runs", 0, "simulations per setting (default depends on the figure)")
	outputFlag(cmd, figure.Formats()...)
}

// check reports the first flag that makes no simulation.
func (s *simulation) check() error {
	if s.runs < 0 {
		return usage(fmt.Errorf("--runs %d: must not be negative", s.runs))
	}
	return nil
}

// picture is a figure or a timeline.
type picture interface {
	Write(w io.Writer, format string) error
}

// show writes a picture to stdout in the form that was asked for.
func (s *simulation) show(cmd *cobra.Command, p picture) error {
	return p.Write(cmd.OutOrStdout(), output(cmd))
}

// barAfter is how long a simulation runs before it shows how far it is.
const barAfter = time.Second

// progress shows on a terminal how far a long simulation is; done takes it away. On
// anything else stderr stays empty.
func (s *simulation) progress(cmd *cobra.Command) (tell func(done, total int), done func()) {
	errs, is := cmd.ErrOrStderr().(*os.File)
	if !is || !term.IsTerminal(int(errs.Fd())) {
		return nil, func() {}
	}
	var bar *progressbar.ProgressBar
	began := time.Now()
	tell = func(done, total int) {
		if bar == nil && time.Since(began) < barAfter {
			return
		}
		if bar == nil || bar.GetMax() != total {
			bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(errs),
				progressbar.OptionSetDescription("simulating"), progressbar.OptionClearOnFinish(),
				progressbar.OptionThrottle(barAfter/10), progressbar.OptionShowCount(),
				progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false))
		}
		_ = bar.Set(done) // nothing depends on the bar
	}
	return tell, func() {
		if bar != nil {
			_ = bar.Clear()
		}
	}
}
