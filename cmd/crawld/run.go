package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/crawld/crawld/internal/app"
	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/crawler"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/visit"
)

// stopGrace is how long visits under way may go on after SIGTERM.
const stopGrace = 2 * time.Second

func runCommand() *cobra.Command {
	var s sources
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Crawl, store and serve until told to stop",
		Long: `Run crawls the listed sensors and serves what they said. It needs --config FILE
or, for a first try, nothing but --sensors LIST with a coap:// URI a line.
SIGHUP reads the lists again, SIGTERM and Ctrl-C end it.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, patterns, err := s.load()
			if err != nil {
				return err
			}
			log, level, err := newLogger(cmd.ErrOrStderr(), c.Log)
			if err != nil {
				return err
			}
			return daemonise(cmd.Context(), app.Options{Config: c, Patterns: patterns, Log: log,
				Level: level, Version: versionText(), Notify: notify(log), Grace: stopGrace,
				OnRange: rangePrinter(cmd)})
		},
	}
	outputFlag(cmd, "none", "table", "json")
	s.flags(cmd)
	cmd.Flags().StringVar(&s.data, "data", "", "database file, wins over the key data")
	s.webFlags(cmd)
	return cmd
}

// rangePrinter writes a line for each time range that has ended to stdout, if
// asked to. The log has the same in any case.
func rangePrinter(cmd *cobra.Command) func(crawler.RangeSummary) {
	out := cmd.OutOrStdout()
	switch output(cmd) {
	case "json":
		enc := json.NewEncoder(out)
		return func(s crawler.RangeSummary) { _ = enc.Encode(newRangeReport(s)) }
	case "table":
		fmt.Fprintf(out, "%-20s  %7s  %8s  %11s\n", "range", "planned", "attempts", "budget")
		return func(s crawler.RangeSummary) {
			fmt.Fprintf(out, "%-20s  %7d  %8d  %5d of %d\n", s.Range.Format(time.RFC3339), s.Planned,
				s.Attempts, s.Spent(), s.Theta)
		}
	}
	return nil
}

// rangeReport is a line of run --output json.
type rangeReport struct {
	Start    time.Time      `json:"start"`
	End      time.Time      `json:"end"`
	Budget   int            `json:"budget"`
	Used     int            `json:"budget_used"`
	Planned  int            `json:"planned"`
	Attempts int            `json:"attempts"`
	Price    float64        `json:"price"`
	Expected float64        `json:"expected_latency_seconds"`
	Outcomes map[string]int `json:"outcomes"`
}

func newRangeReport(s crawler.RangeSummary) rangeReport {
	r := rangeReport{Start: s.Range, End: s.End, Budget: s.Theta, Used: s.Spent(), Planned: s.Planned,
		Attempts: s.Attempts, Price: s.Price, Expected: s.Expected, Outcomes: map[string]int{}}
	for _, res := range visit.Results() {
		r.Outcomes[res.String()] = s.Results[res]
	}
	return r
}

// daemonise runs the app and reloads it on SIGHUP.
func daemonise(ctx context.Context, o app.Options) error {
	hup := make(chan os.Signal, 1) // before anything takes time: SIGHUP's default is death
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	a, err := app.New(o)
	if err != nil {
		if errs := (config.Errors{}); errors.As(err, &errs) {
			return invalid(err)
		}
		return ofStore(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for {
			select {
			case <-hup:
				_ = a.Reload(ctx) // logged and counted there
			case <-ctx.Done():
				return
			}
		}
	}()
	return ofStore(a.Run(ctx))
}

// ofStore gives what is wrong with the data file a code of its own: starting again
// mends nothing.
func ofStore(err error) error {
	if errors.Is(err, repository.ErrCorrupt) || errors.Is(err, repository.ErrBroken) {
		return unhealthy(err)
	}
	return err
}

// notify tells the service manager, over one socket that is opened at once: a process that
// runs out of descriptors must still feed its watchdog, or it is killed for being busy.
func notify(log *zap.Logger) func(string) {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return func(string) {}
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		log.Warn("service manager is not told", zap.Error(err))
		return func(string) {}
	}
	return func(state string) {
		if _, err := io.WriteString(conn, state); err != nil {
			log.Warn("service manager not told", zap.Error(err))
		}
	}
}

// newLogger writes JSON, or lines for people on a terminal; under journald each
// line begins with its priority.
// The level can be changed while it runs.
func newLogger(w io.Writer, c config.Log) (*zap.Logger, zap.AtomicLevel, error) {
	level, err := zap.ParseAtomicLevel(c.Level)
	if err != nil {
		return nil, level, invalid(fmt.Errorf("log.level: %w", err))
	}
	ec := zap.NewProductionEncoderConfig()
	ec.TimeKey, ec.EncodeTime = "time", zapcore.RFC3339NanoTimeEncoder
	ec.EncodeDuration = zapcore.StringDurationEncoder
	f, isFile := w.(*os.File)
	console := c.Format == "console" ||
		c.Format == "auto" && isFile && term.IsTerminal(int(f.Fd()))
	encoder := zapcore.NewJSONEncoder(ec)
	if console {
		ec.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		ec.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(ec)
	}
	if os.Getenv("JOURNAL_STREAM") != "" {
		encoder = journalEncoder{encoder}
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(w)), level)), level, nil
}
