package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/sim"
)

// discoveryFlags are what the comparison of Discovery Services can be told.
type discoveryFlags struct {
	simulation
	objects, clients string
	postgres         string
	dir              string
}

const (
	fewestObjects, mostObjects = 1000, 10_000_000
	mostClients                = 1000
	// discoveryBlock is long enough for a hundred durable commits.
	discoveryBlock = 300 * time.Millisecond
)

func discoveryCommand() *cobra.Command {
	var f discoveryFlags
	cmd := &cobra.Command{
		Use:   "discovery",
		Short: "Trace articles through the factory of the Discovery Service paper, fast or not",
		Long: `Discovery makes the data set of the paper "A Scalable and High-efficiency Discovery
Service In IoT Using a New Storage Schema", publishes it, and measures what the paper
does: the time of a trace and the size of the store as the objects grow, traces per
second with several clients, in process and over HTTP, and durable publishes of 20
objects per second.

--postgres lets PostgreSQL take part, by the schemas that the paper calls Mode 1 and
Mode 2, in turns with crawld: the URL of a database, in which a schema is made and
dropped at the end, or "private" for a cluster that is made for the run.

What is measured depends on the machine. The events do not: they follow from --seed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.objects, "objects", "10000..1000000",
		"how many are traced: a list, or first..last with 1 and 3 of every decade between them")
	flags.StringVar(&f.clients, "clients", "1,10,50,100,200,400", "how many at a time: a list")
	flags.StringVar(&f.postgres, "postgres", "",
		"URL of a database to compare with, or private: a cluster of its own")
	flags.StringVar(&f.dir, "dir", "",
		"where the stores are until the end (default where the system has temporary files)")
	f.flags(cmd)
	return cmd
}

func (f *discoveryFlags) run(cmd *cobra.Command) (err error) {
	d, err := f.experiment()
	if err != nil {
		return err
	}
	ctx := cmd.Context()
	end, err := discoveryHere(f.dir, &d)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	if f.postgres != "" {
		end, err := discoveryPostgres(ctx, f.postgres, f.dir, &d)
		if err != nil {
			return fmt.Errorf("--postgres: %w", err)
		}
		defer func() { err = errors.Join(err, end()) }()
	}
	var done func()
	d.Progress, done = f.progress(cmd)
	fig, err := d.Run(ctx)
	done()
	if err != nil {
		return err
	}
	return f.show(cmd, fig)
}

// experiment checks the flags.
func (f *discoveryFlags) experiment() (sim.Discovery, error) {
	d := sim.Discovery{Seed: f.seed, Runs: f.runs, Block: discoveryBlock, Clock: time.Now}
	if err := f.check(); err != nil {
		return d, err
	}
	if f.runs == 0 {
		d.Runs = 5
	}
	var err error
	if d.Objects, err = parseObjects(f.objects); err != nil {
		return d, usage(fmt.Errorf("--objects %q: %w", f.objects, err))
	}
	if d.Clients, err = parseCounts(f.clients, 1, mostClients); err != nil {
		return d, usage(fmt.Errorf("--clients %q: %w", f.clients, err))
	}
	return d, nil
}

// parseObjects reads a list, or first..last.
func parseObjects(text string) ([]int, error) {
	first, last, is := strings.Cut(text, "..")
	if !is {
		return parseCounts(text, fewestObjects, mostObjects)
	}
	ends, err := parseCounts(first+","+last, fewestObjects, mostObjects)
	if err != nil {
		return nil, err
	}
	all := []int{ends[0]}
	for decade := 1; decade < ends[1]; decade *= 10 {
		for _, n := range []int{decade, 3 * decade} {
			if n >= 2*ends[0] && 2*n <= ends[1] { // next to an end it would say nothing new
				all = append(all, n)
			}
		}
	}
	return append(all, ends[1]), nil
}

// parseCounts reads a list of rising numbers.
func parseCounts(text string, least, most int) ([]int, error) {
	var all []int
	for _, part := range strings.Split(text, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(part))
		if err != nil {
			return nil, fmt.Errorf("%q is no whole number", part)
		}
		if n < least || n > most {
			return nil, fmt.Errorf("%d: must be %d to %d", n, least, most)
		}
		if len(all) > 0 && n <= all[len(all)-1] {
			return nil, fmt.Errorf("%d after %d: must rise", n, all[len(all)-1])
		}
		all = append(all, n)
	}
	return all, nil
}
