// Command crawld-soak runs the tests that guard crawld's promises again and again, with
// other seeds and larger counts than a test run has time for, and writes what they went
// through into the track record. It runs in a checkout, with go in the PATH.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], invariants, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main without the process around it: 0 if every invariant held, 1 if one did not,
// 2 for arguments that mean nothing.
func run(ctx context.Context, args []string, table []invariant, out, errs io.Writer) int {
	flags := flag.NewFlagSet("crawld-soak", flag.ContinueOnError)
	flags.SetOutput(errs)
	hours := flags.Float64("hours", 1, "how long; the first round and a test that has begun are ended")
	seed := flags.Uint64("seed", 1, "of the first round; each further one adds 1")
	short := flags.Bool("short", false, "one round with the short counts")
	only := flags.String("only", "", "comma-separated `IDS`, such as T2,T5; all of them if empty")
	record := flags.String("record", "",
		"`FILE` whose figures are replaced, such as docs/track-record.md")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	table, err := chosen(table, *only)
	if err != nil || flags.NArg() > 0 || !(*hours >= 0) {
		fmt.Fprintln(errs, "crawld-soak: want --hours of at least 0 and no arguments:", flags.Args(), err)
		return 2
	}
	s := &soak{out: out, errs: errs, seed: *seed, short: *short, table: table,
		length: time.Duration(*hours * float64(time.Hour)), tallies: make([]tally, len(table))}
	if err := s.run(ctx); err != nil {
		fmt.Fprintln(errs, "crawld-soak:", err)
		return 1
	}
	if *record != "" {
		if err := s.writeRecord(*record); err != nil {
			fmt.Fprintln(errs, "crawld-soak:", err)
			return 1
		}
	}
	return s.code()
}

// chosen are the rows with those ids.
func chosen(table []invariant, ids string) ([]invariant, error) {
	if ids == "" {
		return table, nil
	}
	var rows []invariant
	for id := range strings.SplitSeq(ids, ",") {
		before := len(rows)
		for _, inv := range table {
			if inv.id == id {
				rows = append(rows, inv)
			}
		}
		if len(rows) == before {
			return nil, fmt.Errorf("there is no %q", id)
		}
	}
	return rows, nil
}
