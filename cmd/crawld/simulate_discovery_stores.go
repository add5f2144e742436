package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/rival"
	"github.com/crawld/crawld/internal/sim"
)

// discoveryHere lets crawld take part, with a repository in a new folder below dir. end
// removes it.
func discoveryHere(dir string, d *sim.Discovery) (end func() error, err error) {
	if dir, err = os.MkdirTemp(dir, "crawld-discovery-"); err != nil {
		return nil, fmt.Errorf("--dir: %w", err)
	}
	r, err := repository.Open(filepath.Join(dir, "crawld.db"), repository.Options{})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	overHTTP, stop, err := discoveryHTTP(r, slices.Max(d.Clients))
	if err != nil {
		return nil, errors.Join(err, r.Close(), os.RemoveAll(dir))
	}
	find := func(ctx context.Context, object string) ([]discovery.Traced, error) {
		a, err := discovery.Trace(ctx, r, discovery.Query{Object: object, From: discovery.Beginning,
			To: discovery.Forever})
		if err == nil && len(a.Warnings) > 0 {
			err = fmt.Errorf("%s: %s", a.Warnings[0].Code, a.Warnings[0].EventID)
		}
		return a.Events, err
	}
	d.Stores = append(d.Stores, sim.DiscoveryStore{
		Name: sim.DiscoveryOurs,
		Load: func(ctx context.Context, records []discovery.Record) error {
			return publishAll(ctx, r, records)
		},
		Size: func(context.Context) (int64, error) { return r.Stats().FileBytes, nil },
	})
	d.Tracers = append(d.Tracers, tracer(sim.DiscoveryOurs, find), overHTTP)
	d.Publishers = append(d.Publishers, sim.DiscoveryPublisher{
		Name: sim.DiscoveryOurs,
		Publish: func(ctx context.Context, record discovery.Record) error {
			return publishAll(ctx, r, []discovery.Record{record})
		},
	})
	return func() error { return errors.Join(stop(), r.Close(), os.RemoveAll(dir)) }, nil
}

// publishAll is an error also where an event was there before: then less was written than
// is counted.
func publishAll(ctx context.Context, s discovery.Store, records []discovery.Record) error {
	stored, err := s.Publish(ctx, records)
	if err == nil && slices.Contains(stored, false) {
		err = errors.New("an event was published before")
	}
	return err
}

// finder answers with the trace of an object.
type finder func(ctx context.Context, object string) ([]discovery.Traced, error)

// tracer times what it finds.
func tracer(name string, find finder) sim.DiscoveryTracer {
	return sim.DiscoveryTracer{Name: name, Found: find,
		Trace: func(ctx context.Context, object string) error {
			_, err := find(ctx, object)
			return err
		}}
}

// mode1Timeout ends a trace of the paper's Mode 1, which reads whole tables.
const mode1Timeout = 10 * time.Second

// discoveryPostgres lets PostgreSQL take part. end drops what was made.
func discoveryPostgres(ctx context.Context, url, dir string, d *sim.Discovery) (
	end func() error, err error) {
	stop := func() error { return nil }
	if url == "private" {
		cluster, err := rival.StartCluster(ctx, dir)
		if err != nil {
			return nil, err
		}
		url, stop = cluster.URL(), cluster.Stop
	}
	db, err := rival.Open(ctx, url, slices.Max(d.Clients))
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	end = func() error { return errors.Join(db.Close(ctx), stop()) }
	settings, err := db.Settings(ctx)
	if err != nil {
		return nil, errors.Join(err, end())
	}
	d.Notes = append(d.Notes, settings,
		fmt.Sprintf("%s has B-trees on record numbers alone, as in the paper; a trace is given %v.",
			sim.DiscoveryMode1, mode1Timeout),
		"MySQL 5.5 cannot recurse: the paper's Mode 2 must have asked query by query.",
		sim.DiscoveryMode2+" is as fast as we know to make it: a B-tree on object and time that covers "+
			"the table of objects, statistics and visibility maps up to date, prepared statements, no "+
			"planning or compiling at each query.")
	enter(db, d)
	return end, nil
}

func enter(db *rival.DB, d *sim.Discovery) {
	d.Stores = append(d.Stores,
		sim.DiscoveryStore{Name: sim.DiscoveryMode2, Load: db.Load, Settle: db.Settle,
			Size: db.SizeMode2},
		sim.DiscoveryStore{Name: sim.DiscoveryMode1, Size: db.SizeMode1})
	scan := tracer(sim.DiscoveryMode1,
		func(ctx context.Context, object string) ([]discovery.Traced, error) {
			found, err := db.TraceMode1(ctx, object, mode1Timeout)
			if errors.Is(err, rival.ErrTimeout) {
				err = fmt.Errorf("%w: %w", sim.ErrTooSlow, err)
			}
			return found, err
		})
	scan.Alone = true
	d.Tracers = append(d.Tracers, tracer(sim.DiscoveryStatement, db.Trace),
		tracer(sim.DiscoveryChatty, db.TraceChatty), scan)
	d.Publishers = append(d.Publishers,
		sim.DiscoveryPublisher{Name: sim.DiscoveryArrays, Publish: db.Publish},
		sim.DiscoveryPublisher{Name: sim.DiscoveryRows, Publish: db.PublishRows})
}
