package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/sim"
)

// caseFlags are what the case study can be told.
type caseFlags struct {
	events, from, picture string
	study                 sim.CaseStudy
	days                  int
}

func casestudyCommand() *cobra.Command {
	var f caseFlags
	cmd := &cobra.Command{
		Use:   "casestudy --events FILE",
		Short: "Crawl sensors that log real events: section VI of the EasiCrawl paper",
		Long: `Casestudy crawls sensors whose descriptions log real events, one time range of a
day after another. The planner knows when they are awake and learns their rates
from the logs it has crawled; crawld's own plans are compared with EasiCrawl's,
with even crawls and with RandomCrawl.

FILE is CSV or gzipped CSV with the columns stream, t_event and, optionally,
value; t_event are Unix seconds, ascending within a stream. An example is
docs/data/easicrawl_events.csv. Streams whose times overlap are one site, and
each site is crawled by itself.

--output table, json and csv give the latencies, svg a picture of some days with
events, planned and actual crawls; --timeline writes that picture to a file
beside.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return casestudy(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.events, "events", "", "file of events (needed)")
	flags.IntVar(&f.study.Theta, "theta-per-stream", 2, "crawls per stream and day, at least 1")
	flags.StringSliceVar(&f.study.Night, "night", []string{"temp", "rh", "humid"},
		"streams with a word that begins so are awake from 18:00 to 09:00 UTC only")
	flags.BoolVar(&f.study.Together, "together", false,
		"shift all sites to begin on the same day, as one fleet with one budget")
	flags.Uint64Var(&f.study.Seed, "seed", 1, "of RandomCrawl")
	flags.IntVar(&f.study.Runs, "runs", 20, "runs of RandomCrawl, with one seed after the other")
	flags.StringVar(&f.from, "from", "",
		"first day of the picture, such as 2004-11-17 (default: where most streams have events)")
	flags.IntVar(&f.days, "days", 4, "days of the picture")
	flags.StringVar(&f.picture, "timeline", "",
		"file that the picture is written to as SVG, beside the result")
	outputFlag(cmd, figure.Formats()...)
	return cmd
}

func casestudy(cmd *cobra.Command, f *caseFlags) error {
	from, err := f.check()
	if err != nil {
		return err
	}
	if f.study.Streams, err = readEvents(f.events); err != nil {
		return invalid(err)
	}
	res, err := f.study.Run()
	if err != nil {
		return invalid(fmt.Errorf("%s: %w", f.events, err))
	}
	if output(cmd) == "svg" || f.picture != "" {
		picture, err := res.Timeline(from, f.days)
		if err != nil {
			return usage(err)
		}
		if f.picture != "" {
			if err := writePicture(f.picture, picture); err != nil {
				return err
			}
		}
		if output(cmd) == "svg" {
			return picture.Write(cmd.OutOrStdout(), "svg")
		}
	}
	if err := res.DrawHours(); err != nil {
		return err
	}
	return res.Figure().Write(cmd.OutOrStdout(), output(cmd))
}

// check tells what is wrong with the flags and reads the first day of the picture.
func (f *caseFlags) check() (from time.Time, err error) {
	switch {
	case f.events == "":
		return from, usage(errors.New("--events: name a file of events, " +
			"such as docs/data/easicrawl_events.csv"))
	case f.study.Theta < 1 || f.study.Theta > 1000:
		return from, usage(fmt.Errorf("--theta-per-stream %d: must be 1 to 1000", f.study.Theta))
	case f.study.Runs < 1:
		return from, usage(fmt.Errorf("--runs %d: must be at least 1", f.study.Runs))
	case f.days < 1 || f.days > sim.MaxTimelineDays:
		return from, usage(fmt.Errorf("--days %d: must be 1 to %d", f.days, sim.MaxTimelineDays))
	}
	if f.from != "" {
		if from, err = time.Parse(time.DateOnly, f.from); err != nil {
			return from, usage(fmt.Errorf("--from %q: expected a day, such as 2004-11-17", f.from))
		}
	}
	return from, nil
}

func readEvents(path string) ([]sim.Stream, error) {
	file, err := os.Open(path)
	if err != nil {
		var p *os.PathError
		if errors.As(err, &p) {
			err = p.Err
		}
		return nil, fmt.Errorf("%s: cannot be read: %w", path, err)
	}
	defer file.Close()
	return sim.ReadEvents(path, file)
}

// writePicture makes the picture before it touches the file.
func writePicture(path string, t *figure.Timeline) error {
	var picture bytes.Buffer
	if err := t.Write(&picture, "svg"); err != nil {
		return err
	}
	return os.WriteFile(path, picture.Bytes(), 0o644)
}
