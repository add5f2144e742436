package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/docs/data/traces"
	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/sim"
)

// pollingFlags are what the simulations of sensors of unknown sleep plan can be told.
type pollingFlags struct {
	simulation
	figure, times    string
	traces, policies []string
	polling          sim.Polling
	learning         learningFlags
}

func pollingCommand() *cobra.Command {
	var f pollingFlags
	cmd := &cobra.Command{
		Use:   "polling --figure NUMBER | --trace FILE --policy NAME | --learn --cycle AWAKE/PERIOD",
		Short: "Poll sensors whose sleep plan is unknown: Data Publication Tracking and beyond",
		Long: `Polling lets the trackers that the daemon runs poll simulated sensors:

  --figure NUMBER  a figure of the paper "Data Publication Tracking" (Park and Heidemann,
                   ISI-TR-660b): ` + strings.Join(sim.PollingFigures(), " ") + `
  --trace FILE     the publications in a file: what each --policy costs and gives; CSV,
                   plain or gzip, the first column Unix seconds
  --learn          how a sensor's sleep plan is learned from which probes it answers; the
                   sensor is one of --cycle, --office, --daily, --irregular

The paper's traces are not published. Figures 8 to 11, 14 to 18, 21 and 24 show those
that are shipped with crawld, or those of --trace.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.traceFlags(cmd)
	f.learning.flags(cmd)
	f.simulation.flags(cmd)
	cmd.AddCommand(pollingFitCommand())
	return cmd
}

func (f *pollingFlags) traceFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.figure, "figure", "", "which one: "+strings.Join(sim.PollingFigures(), ", "))
	flags.StringSliceVar(&f.traces, "trace", nil, "files of publications")
	flags.StringSliceVar(&f.policies, "policy", nil, "how to poll: "+policyNames())
	flags.Float64Var(&f.polling.PPE, "ppe", 0, "polls per publication that hz aims at")
	flags.DurationVar(&f.polling.Price, "price", 0,
		"latency that a poll of hz is worth (default 3 % of the period)")
	flags.StringVar(&f.times, "publish-times", "true",
		"whether answers show when things were published: true, false; hz needs it")
	flags.DurationVar(&f.polling.Period, "period", 0,
		"interval of fixed, and five times the first one of the others (default that of the trace)")
	flags.DurationVar(&f.polling.MaxGap, "max-gap", 0,
		"largest time between two polls (default 4h, or four periods if that is more)")
}

func policyNames() string {
	var names []string
	for _, p := range dpt.Policies() {
		names = append(names, string(p))
	}
	return strings.Join(names, ", ")
}

func (f *pollingFlags) run(cmd *cobra.Command) error {
	if err := f.check(); err != nil {
		return err
	}
	if err := f.one(cmd); err != nil {
		return err
	}
	switch {
	case f.learning.learn:
		return f.learning.run(cmd, f.seed)
	case f.figure != "":
		return f.draw(cmd)
	case len(f.policies) == 0:
		return usage(errors.New("--policy: name one of " + policyNames()))
	}
	return f.replay(cmd)
}

// one reports flags of what is not asked for.
func (f *pollingFlags) one(cmd *cobra.Command) error {
	polls := []string{"policy", "ppe", "price", "publish-times", "period", "max-gap"}
	foreign, asked := append([]string{"learn", "runs"}, learningNames...), "--trace"
	switch {
	case f.figure != "":
		asked = "--figure"
		foreign = slices.Concat([]string{"learn"}, learningNames, polls)
	case f.learning.learn:
		asked = "--learn"
		foreign = append([]string{"trace", "runs"}, polls...)
	case len(f.traces) == 0:
		return usage(errors.New("set one of --figure, --trace, --learn"))
	}
	for _, name := range foreign {
		if cmd.Flags().Changed(name) {
			return usage(fmt.Errorf("--%s: does not go with %s", name, asked))
		}
	}
	return nil
}

func (f *pollingFlags) draw(cmd *cobra.Command) error {
	if names := sim.PollingFigures(); !slices.Contains(names, f.figure) {
		return usage(fmt.Errorf("--figure %q: must be one of %s", f.figure, strings.Join(names, ", ")))
	}
	if len(f.traces) > 0 && !sim.PollingNeedsTraces(f.figure) {
		return usage(fmt.Errorf("--trace: figure %s shows none", f.figure))
	}
	s := sim.PollingStudy{Runs: f.runs, Seed: f.seed, Workers: runtime.GOMAXPROCS(0)}
	if sim.PollingNeedsTraces(f.figure) {
		var err error
		if s.Traces, err = f.read(); err != nil {
			return err
		}
	}
	var done func()
	s.Progress, done = f.progress(cmd)
	fig, err := s.Figure(f.figure)
	done()
	if err != nil {
		return invalid(err)
	}
	return f.show(cmd, fig)
}

// shippedTraces in the order in which figures show them: a steady sensor, one that is
// less so, and one whose clock is exact.
var shippedTraces = []string{"uci_occ_detection", "uci_occ_estimation", "uci_airquality"}

// read is what --trace names or, without it, what is shipped.
func (f *pollingFlags) read() ([]sim.Trace, error) {
	var all []sim.Trace
	for _, name := range f.traces {
		t, err := readTrace(name, f.seed)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	if len(f.traces) > 0 {
		return all, nil
	}
	for _, name := range shippedTraces {
		file, err := traces.Files.Open(name + ".csv.gz")
		if err != nil {
			return nil, err
		}
		defer file.Close()
		t, err := sim.ReadTrace(name, file, f.seed)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}

// readTrace names the trace by its file, without folder and endings.
func readTrace(name string, seed uint64) (sim.Trace, error) {
	file, err := os.Open(name)
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return sim.Trace{}, invalid(fmt.Errorf("trace %s: cannot be read: %w", name, err))
	}
	defer file.Close()
	t, err := sim.ReadTrace(name, file, seed)
	if err != nil {
		return t, invalid(err)
	}
	t.Name = strings.TrimSuffix(strings.TrimSuffix(path.Base(name), ".gz"), ".csv")
	return t, nil
}

// replay polls every trace by every policy.
func (f *pollingFlags) replay(cmd *cobra.Command) error {
	policies, err := f.checkPolling()
	if err != nil {
		return err
	}
	read, err := f.read()
	if err != nil {
		return err
	}
	var results []sim.PollingResult
	for _, t := range read {
		for _, policy := range policies {
			p := f.polling
			p.Policy = policy
			if policy != dpt.HZ {
				p.PPE, p.Price = 0, 0
			}
			res, err := p.Replay(t.Name, t.Instants)
			if err != nil {
				return invalid(err)
			}
			results = append(results, res)
		}
	}
	switch form := output(cmd); form {
	case "json":
		return printJSON(cmd.OutOrStdout(), results)
	case "table":
		return pollingTable(cmd.OutOrStdout(), results)
	default:
		return sim.PollingFigure(results).Write(cmd.OutOrStdout(), form)
	}
}

// checkPolling tells what is wrong with the flags of --trace.
func (f *pollingFlags) checkPolling() ([]dpt.Policy, error) {
	var policies []dpt.Policy
	for _, name := range f.policies {
		p, err := dpt.ParsePolicy(name)
		if err != nil {
			return nil, usage(fmt.Errorf("--policy: %w", err))
		}
		if !slices.Contains(policies, p) {
			policies = append(policies, p)
		}
	}
	p := &f.polling
	switch {
	case f.times != "true" && f.times != "false":
		return nil, usage(fmt.Errorf("--publish-times %q: must be true or false", f.times))
	case p.PPE != 0 && p.Price != 0:
		return nil, usage(errors.New("--ppe and --price exclude each other"))
	case (p.PPE != 0 || p.Price != 0) && !slices.Contains(policies, dpt.HZ):
		return nil, usage(errors.New("--ppe and --price: only --policy hz has a price"))
	case p.Price < 0:
		return nil, usage(fmt.Errorf("--price %v: must not be negative", p.Price))
	case p.PPE != 0 && !(p.PPE >= 0.05 && p.PPE <= 100):
		return nil, usage(fmt.Errorf("--ppe %v: must lie in 0.05 .. 100", p.PPE))
	case p.Period < 0:
		return nil, usage(fmt.Errorf("--period %v: must not be negative", p.Period))
	case p.MaxGap < 0:
		return nil, usage(fmt.Errorf("--max-gap %v: must not be negative", p.MaxGap))
	}
	p.Hidden = f.times == "false"
	return policies, nil
}

func pollingTable(w io.Writer, results []sim.PollingResult) error {
	return table(w, func(row func(...any)) {
		row("SOURCE", "POLICY", "PUBLICATIONS", "POLLS", "HITS", "PER PUBLICATION", "MEDIAN", "MEAN",
			"P95", "SD", "")
		for _, r := range results {
			l := r.Latency
			row(r.Source, r.Policy, r.Publications, r.Polls, r.Hits, fmt.Sprintf("%.3f", r.PPE),
				secondsText(l.Median), secondsText(l.Mean), secondsText(l.P95), secondsText(l.SD),
				r.Fallback)
		}
	})
}

func secondsText(s float64) string { return fmt.Sprintf("%.4gs", s) }
