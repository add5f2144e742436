package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/sim"
)

// learningFlags describe the sensor whose sleep plan is learned.
type learningFlags struct {
	learn, office bool
	cycle, daily  string
	learning      sim.Learning
}

// learningNames are the flags that go with --learn alone.
var learningNames = strings.Fields("cycle office daily irregular loss jitter days")

func (f *learningFlags) flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.BoolVar(&f.learn, "learn", false, "learn the sleep plan of a sensor")
	flags.StringVar(&f.cycle, "cycle", "", "awake for AWAKE in every PERIOD, such as 30s/5m")
	flags.BoolVar(&f.office, "office", false, "awake Monday to Friday from 9 to 17, UTC")
	flags.StringVar(&f.daily, "daily", "", "awake every day, such as 18:00-09:00, UTC")
	flags.DurationVar(&f.learning.Irregular, "irregular", 0,
		"mean distance of windows that come at random and last a tenth of it")
	flags.Float64Var(&f.learning.Loss, "loss", 0, "chance that an answer is lost")
	flags.DurationVar(&f.learning.Jitter, "jitter", 0,
		"standard deviation of the windows' starts, Laplace")
	flags.Float64Var(&f.learning.Days, "days", 60, "after which learning is given up")
}

// run lets a sensor of the flags be learned and shows what came of it.
func (f *learningFlags) run(cmd *cobra.Command, seed uint64) error {
	c, err := f.sensor()
	if err != nil {
		return usage(err)
	}
	c.Seed = seed
	if err := c.Validate(); err != nil {
		return usage(err)
	}
	study, err := c.Run()
	if err != nil {
		return invalid(err)
	}
	switch form := output(cmd); form {
	case "json":
		return printJSON(cmd.OutOrStdout(), study.Learned)
	case "table":
		return learnedTable(cmd.OutOrStdout(), study.Learned)
	default:
		return study.Figure().Write(cmd.OutOrStdout(), form)
	}
}

// sensor reads what its flags say.
func (f *learningFlags) sensor() (sim.Learning, error) {
	c := f.learning
	ways := 0
	for _, set := range []bool{f.cycle != "", f.office, f.daily != "", c.Irregular != 0} {
		if set {
			ways++
		}
	}
	if ways != 1 {
		return c, errors.New("--learn: set one of --cycle, --office, --daily, --irregular")
	}
	switch {
	case f.office:
		c.Weekly = []string{"mon-fri 09:00-17:00"}
	case f.daily != "":
		c.Weekly = []string{"daily " + f.daily}
	case f.cycle != "":
		awake, period, _ := strings.Cut(f.cycle, "/")
		var errAwake, errPeriod error
		c.Awake, errAwake = time.ParseDuration(awake)
		c.Period, errPeriod = time.ParseDuration(period)
		if err := errors.Join(errAwake, errPeriod); err != nil {
			return c, fmt.Errorf("--cycle %q: must be AWAKE/PERIOD, such as 30s/5m", f.cycle)
		}
	}
	return c, nil
}

func learnedTable(w io.Writer, l sim.Learned) error {
	return table(w, func(row func(...any)) {
		row("claimed", l.Claimed)
		row("state", l.State)
		row("probes", l.Probes)
		row("days", fmt.Sprintf("%.2f", l.Days))
		if !l.Claimed {
			return
		}
		row("period", secondsText(l.Period))
		row("awake", secondsText(l.Awake))
		row("confidence", fmt.Sprintf("%.3f", l.Confidence))
		row("inside true window", fmt.Sprintf("%.3f", l.Inside))
		row("overlap", fmt.Sprintf("%.3f", l.Overlap))
	})
}
