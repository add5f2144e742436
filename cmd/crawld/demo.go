package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/crawld/crawld/internal/app"
	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/crawler"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/testbed"
	"github.com/crawld/crawld/internal/visit"
)

// demoFlags are what the demo can be told.
type demoFlags struct {
	lasts   time.Duration
	listen  string
	data    string
	seed    uint64
	sensors int
}

// Short ranges, so that a visitor sees several of them in a minute.
const (
	demoRange   = 10 * time.Second
	demoBudget  = 3 // crawls per sensor and range
	leastDemo   = 40
	demoBoot    = 2 * time.Second
	demoMinGap  = 500 * time.Millisecond
	demoAck     = 250 * time.Millisecond // RFC 7252's 2 s are a fifth of a range
	demoLogFile = "crawld.log"
)

func demoCommand() *cobra.Command {
	var f demoFlags
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Crawl a fleet of sleeping CoAP sensors on loopback and show what comes of it",
		Long: `Demo starts a testbed of sleeping CoAP sensors on UDP ports of 127.0.0.1 and the
daemon that crawls them: nothing is simulated but the sensors. It prints a line
for each time range and, with --for, a summary at the end.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.sensors < leastDemo {
				return usage(fmt.Errorf("--sensors %d: at least %d show every kind", f.sensors, leastDemo))
			}
			if f.lasts < 0 {
				return usage(fmt.Errorf("--for %v: must not be negative", f.lasts))
			}
			return demo(cmd, f)
		},
	}
	cmd.Flags().DurationVar(&f.lasts, "for", 0, "end by itself after this long (default: at Ctrl-C)")
	cmd.Flags().StringVar(&f.listen, "listen", "127.0.0.1:9683", "HTTP address")
	cmd.Flags().StringVar(&f.data, "data", "", "database file (default: in a new temporary folder)")
	cmd.Flags().Uint64Var(&f.seed, "seed", 1, "of the sensors' plans, events and losses")
	cmd.Flags().IntVar(&f.sensors, "sensors", leastDemo, "number of sensors")
	outputFlag(cmd, "table", "json")
	return cmd
}

// demoRun is a demo under way.
type demoRun struct {
	flags   demoFlags
	bed     *testbed.Bed
	specs   map[string]testbed.Spec
	config  config.Config
	started time.Time
	ranges  chan crawler.RangeSummary
	out     io.Writer
	report  demoReport
}

func demo(cmd *cobra.Command, f demoFlags) (err error) {
	d := &demoRun{flags: f, bed: testbed.New(f.seed), specs: map[string]testbed.Spec{},
		ranges: make(chan crawler.RangeSummary, 64), out: cmd.OutOrStdout()}
	if output(cmd) == "json" {
		d.out = cmd.ErrOrStderr() // the lines of the ranges make way for the result
	}
	defer func() { err = errors.Join(err, d.bed.Close()) }()
	listed, err := d.build()
	if err != nil {
		return err
	}
	log, closeLog, err := d.log()
	if err != nil {
		return err
	}
	defer closeLog()
	a, err := app.New(app.Options{Config: d.config, Fleet: listed, Log: log,
		Version: versionText(), OnRange: func(s crawler.RangeSummary) { d.ranges <- s }})
	if err != nil {
		return err
	}
	fmt.Fprintf(d.out, "%d sleeping CoAP sensors on 127.0.0.1, data in %s\nserving http://%s/\n",
		listed.Len(), d.config.Data, a.Addr())
	ctx, cancel := context.WithCancel(cmd.Context())
	defer cancel()
	if f.lasts > 0 {
		ctx, cancel = context.WithTimeout(ctx, f.lasts)
		defer cancel()
	}
	if err := d.run(ctx, a); err != nil || f.lasts == 0 || cmd.Context().Err() != nil {
		return err
	}
	if d.report.Ranges == 0 {
		_, err := fmt.Fprintf(d.out, "no time range of %v has ended: nothing to sum up\n", demoRange)
		return err
	}
	if err := d.summarise(); err != nil {
		return err
	}
	if output(cmd) == "json" {
		return printJSON(cmd.OutOrStdout(), d.report)
	}
	return d.report.print(d.out)
}

// build opens the sensors and says how the daemon is to crawl them.
func (d *demoRun) build() (*fleet.Fleet, error) {
	d.started = time.Now().Round(0)
	var listed []fleet.Sensor
	for _, spec := range testbed.Fleet(d.flags.seed, d.flags.sensors, d.started) {
		spec.AckTimeout = demoAck
		s, err := d.bed.Add(spec)
		if err != nil {
			return nil, err
		}
		d.specs[s.Name()] = spec
		l := s.Listing()
		l.AckTimeout = demoAck
		listed = append(listed, l)
	}
	c := config.Default()
	c.Store.Ballast = 0 // the database goes with the demo
	c.Data = d.flags.data
	if c.Data == "" {
		dir, err := os.MkdirTemp("", "crawld-demo-")
		if err != nil {
			return nil, err
		}
		c.Data = filepath.Join(dir, "crawld.db")
	}
	c.Web.Listen = []string{d.flags.listen}
	c.Planner.Range, c.Planner.Budget = demoRange, demoBudget
	c.Polling = config.Polling{Policy: config.PolicyDPTN, Bootstrap: demoBoot,
		MinGap: demoMinGap, MaxGap: demoRange}
	d.config = c
	return fleet.New(listed)
}

// log writes beside the data: stdout belongs to the lines of the ranges.
func (d *demoRun) log() (*zap.Logger, func(), error) {
	path := filepath.Join(filepath.Dir(d.config.Data), demoLogFile)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, err
	}
	log, _, err := newLogger(f, config.Log{Level: "debug", Format: "json"})
	return log, func() { f.Close() }, err
}

// run lets the daemon work and prints a line whenever a range has ended.
func (d *demoRun) run(ctx context.Context, a *app.App) error {
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	d.heading()
	for {
		select {
		case s := <-d.ranges:
			d.line(s)
		case err := <-done:
			for len(d.ranges) > 0 {
				d.line(<-d.ranges)
			}
			return err
		}
	}
}

func (d *demoRun) heading() {
	fmt.Fprintf(d.out, "%-8s  %7s  %9s  %9s  %9s  %6s  %7s  %6s  %11s  %8s  %8s\n", "range", "planned",
		"attempts", "described", "unchanged", "asleep", "refused", "failed", "budget", "expected",
		"measured")
}

// line tells of one range. Expected and measured are the mean seconds that an
// event of a sensor with a known sleep plan waits: the plan's promise, and what
// the testbed's own log of events and answers says.
func (d *demoRun) line(s crawler.RangeSummary) {
	measured := d.measure(s.Range, s.End)
	d.report.add(s, measured)
	fmt.Fprintf(d.out, "%s  %7d  %9d  %9d  %9d  %6d  %7d  %6d  %5d of %3d  %7.2fs  %7.2fs\n",
		s.Range.Format(time.TimeOnly), s.Planned, s.Attempts, s.Results[visit.Described],
		s.Results[visit.Unchanged], s.Results[visit.Asleep], s.Results[visit.Refused],
		s.Results[visit.Failed], s.Spent(), s.Theta, mean(s.Wait, s.Events), measured.mean())
}

// waits is latency added up over events.
type waits struct {
	seconds float64
	events  int
}

func (w waits) mean() float64 { return mean(w.seconds, float64(w.events)) }

func mean(sum, n float64) float64 {
	if n <= 0 {
		return 0
	}
	return sum / n
}

// measure is what all unseen events waited within [from, to), as the difference
// of what they had waited by then, over the events captured meanwhile.
func (d *demoRun) measure(from, to time.Time) waits {
	before := d.bed.Latency(d.started, from, d.planned)
	after := d.bed.Latency(d.started, to, d.planned)
	return waits{(after.Sum - before.Sum).Seconds(),
		after.Captured + after.Unseen - before.Captured - before.Unseen}
}

// planned tells the sensors that the plan's expectation speaks of.
func (d *demoRun) planned(name string) bool { return !d.specs[name].Hidden }
