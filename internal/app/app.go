// Package app builds the daemon's parts from a configuration, starts them in
// the order in which they need each other and stops them in reverse. It is the
// only package that knows all the others.
package app

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/crawld/crawld/internal/api"
	"github.com/crawld/crawld/internal/coapclient"
	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/crawler"
	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/sessionfile"
)

// Options say what to run. Config and Log are needed, either Patterns or Fleet,
// and Level with Patterns.
type Options struct {
	Config   config.Config
	Patterns []string     // sensor lists; a reload reads them again
	Fleet    *fleet.Fleet // a fixed fleet instead of Patterns
	Log      *zap.Logger
	Level    zap.AtomicLevel // of Log; a reload sets it
	Version  string
	Notify   func(state string)         // sd_notify; nil without a supervisor
	OnRange  func(crawler.RangeSummary) // called on the loop when a range has ended
	Grace    time.Duration              // running visits may go on that long at the end
	// FreeSpace is how much of the data file's disk is free; nil: as the system tells.
	FreeSpace repository.FreeSpace
}

// App is a daemon that is built but does not run yet.
type App struct {
	o        Options
	repo     *repository.Repository
	client   *coapclient.Client
	crawler  *crawler.Crawler
	registry *prometheus.Registry
	doors    []door
	public   net.Addr                    // of the first door that is not the control socket
	scheme   string                      // of it
	reload   sync.Mutex                  // one reload at a time; guards o.Patterns and tried
	tried    [sha256.Size]byte           // fingerprint of the lists that were read last, well or not
	flagged  bool                        // o.Patterns are not the configuration's
	listed   atomic.Pointer[fleet.Fleet] // what the lists say
	fleet    atomic.Pointer[fleet.Fleet] // what is crawled: the listed sensors and the registered
	rd       *rd                         // nil: there is no resource directory
	gate     atomic.Pointer[discovery.Gate]
	reloads  reloadMetrics
	groups   groupMetrics
	cleanups []cleanup
}

// cleanup is a named step of the way back.
type cleanup struct {
	name string
	run  func() error
}

// New builds everything and opens every file and socket, so that what cannot
// work is said before anything runs. On an error nothing stays open.
func New(o Options) (_ *App, err error) {
	a := &App{o: o, registry: prometheus.NewRegistry()}
	if a.o.Notify == nil {
		a.o.Notify = func(string) {}
	}
	defer func() {
		if err != nil {
			a.close()
		}
	}()
	a.flagged = !slices.Equal(o.Patterns, o.Config.SensorFiles)
	a.tried = fingerprint(o.Patterns)
	l, err := a.load(&o.Config, o.Patterns)
	if err != nil {
		return nil, err
	}
	if err = a.openGate(o.Config); err != nil {
		return nil, err
	}
	par, err := Parameters(o.Config)
	if err != nil {
		return nil, err
	}
	if err = a.openStore(); err != nil {
		return nil, err
	}
	if err := a.openDirectory(); err != nil {
		return nil, err
	}
	all, err := a.joined(l.fleet)
	if err != nil {
		return nil, err
	}
	a.listed.Store(l.fleet)
	a.fleet.Store(all)
	if a.client, err = newClient(o.Config, l.credentials, a.openSessions()); err != nil {
		return nil, err
	}
	a.defers("sockets", a.client.Close)
	p, err := a.newPlanner(all, par)
	if err != nil {
		return nil, err
	}
	a.crawler = crawler.New(p, crawler.Options{Fetch: a.fetch, Store: a.store,
		Hold:      func() bool { return a.repo.Refuses() != nil },
		SaveRange: a.saveRange, Log: o.Log, Metrics: a.registry, Grace: o.Grace,
		Capacity: o.Config.Planner.Capacity, Workers: runtime.GOMAXPROCS(0), OnRange: o.OnRange})
	a.register()
	if err := a.setGroups(l.republished()); err != nil {
		o.Log.Error("groups are not republished until the lists are reloaded", zap.Error(err))
	}
	return a, a.listen()
}

// newPlanner goes on from what is saved.
func (a *App) newPlanner(all *fleet.Fleet, par planner.Parameters) (*planner.Planner, error) {
	now := time.Now().Round(0).UTC()
	saved, err := a.restore(now)
	if err != nil {
		return nil, err
	}
	p, err := planner.New(all, par, saved, now)
	if err != nil { // the sensors' records have been checked one by one
		a.o.Log.Error("saved plan is unreadable, a new range starts", zap.Error(err))
		return planner.New(all, par, planner.Saved{Sensors: saved.Sensors}, now)
	}
	return p, nil
}

func (a *App) openStore() (err error) {
	store := a.o.Config.Store
	a.repo, err = repository.Open(a.o.Config.Data, repository.Options{
		OnRepublish: a.republishedNow, MaxSize: int64(store.MaxSize), Ballast: int64(store.Ballast),
		FreeSpace: a.o.FreeSpace})
	if errors.Is(err, repository.ErrCorrupt) {
		return fmt.Errorf("%w; nothing was changed: move the file aside to start anew, "+
			"or put a copy in its place", err)
	}
	if err != nil {
		return err
	}
	a.defers("database", a.repo.Close)
	a.repo.Survey(context.Background()) // before the first crawl
	a.tellIndex()
	return nil
}

func (a *App) defers(name string, run func() error) {
	a.cleanups = append(a.cleanups, cleanup{name, run})
}

// close takes everything down in reverse order.
func (a *App) close() {
	for i := len(a.cleanups) - 1; i >= 0; i-- {
		c := a.cleanups[i]
		if err := c.run(); err != nil {
			a.o.Log.Error("not closed cleanly", zap.String("part", c.name), zap.Error(err))
		}
	}
	a.cleanups = nil
}

func newClient(
	c config.Config, credentials []coapclient.Credential, sessions *sessionfile.File,
) (*coapclient.Client, error) {
	return coapclient.New(coapclient.Options{
		Credentials: credentials, Sessions: sessions,
		Limits: coapclient.Limits{Body: c.Limits.Body, Blocks: c.Limits.Blocks,
			MinBlock: c.Limits.BlockMin, Progress: c.Limits.Progress,
			PerHost: c.Limits.PerHost, PerSubnet: c.Limits.PerSubnet},
		Networks: coapclient.Networks{Allow: c.Networks.Allow, Deny: c.Networks.Deny},
	})
}

// Crawler is for those who watch the daemon from inside the process.
func (a *App) Crawler() *crawler.Crawler { return a.crawler }

// Run serves and crawls until ctx ends, then takes everything down: no new HTTP,
// no new crawl, running visits end, outcomes are flushed, the store closes last.
func (a *App) Run(ctx context.Context) error {
	defer a.close()
	serving, ctx := errgroup.WithContext(ctx)
	for _, d := range a.doors {
		serving.Go(func() error {
			if err := d.serve(); !errors.Is(err, http.ErrServerClosed) {
				return fmt.Errorf("http: %w", err)
			}
			return nil
		})
	}
	if a.rd != nil {
		serving.Go(func() error { return a.serveDirectory(ctx) })
	}
	serving.Go(func() error {
		a.announce(ctx)
		return nil
	})
	serving.Go(func() error {
		a.watch(ctx)
		return nil
	})
	serving.Go(func() error { return a.tend(ctx) })
	serving.Go(func() error {
		<-ctx.Done()
		a.o.Notify("STOPPING=1")
		return a.shutDoors(ctx)
	})
	crawling := a.crawler.Run(ctx)
	return errors.Join(crawling, serving.Wait())
}

func (a *App) register() {
	a.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "crawld_build_info",
		Help:        "1, with the version as a label.",
		ConstLabels: prometheus.Labels{"version": a.o.Version, "goversion": runtime.Version()}})
	build.Set(1)
	a.registry.MustRegister(build)
	a.reloads.register(a.registry)
	a.groups.register(a.registry)
	registerParts(a.registry, a.repo, a.client)
}

func (a *App) handler() http.Handler {
	return api.New(api.Options{Repo: a.repo, Do: a.crawler.Do, Reload: a.Reload,
		Config: a.o.Config.YAML, Fleet: a.fleet.Load, Expires: a.expires, Gate: a.gate.Load,
		Gatherer: a.registry, Metrics: a.registry, Version: a.o.Version, Log: a.o.Log,
		External: a.o.Config.Web.External(), Ready: func() bool {
			select {
			case <-a.crawler.Ready():
				return true
			default:
				return false
			}
		}})
}
