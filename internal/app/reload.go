package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
)

// reloadMetrics recover by themselves: a good reload after a bad one clears
// the alert.
type reloadMetrics struct {
	ok   prometheus.Gauge
	last prometheus.Gauge
}

func (m *reloadMetrics) register(reg prometheus.Registerer) {
	m.ok = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "crawld_config_last_reload_successful",
		Help: "1 if the newest reload, or the start, took the lists; else 0."})
	m.last = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "crawld_config_last_reload_success_timestamp_seconds",
		Help: "When lists were last taken."})
	reg.MustRegister(m.ok, m.last)
	m.ok.Set(1)
	m.last.SetToCurrentTime()
}

// Reload reads configuration and sensor lists again, all or nothing: on an error
// the running fleet, its groups, its credentials and the publishers stay as they are.
// Unchanged sensors keep plan, budget and tracker. Of the configuration only the sensor
// lists, the groups, credentials, publishers and readers, whose files are read again, and
// the log's level take effect; a change of any other key is said to need a restart.
func (a *App) Reload(ctx context.Context) error {
	a.reload.Lock()
	defer a.reload.Unlock()
	return a.reloadLocked(ctx)
}

func (a *App) reloadLocked(ctx context.Context) error {
	a.notifyReloading()
	defer a.o.Notify("READY=1")
	diff, err := a.replaceFleet(ctx)
	if err != nil {
		a.reloads.ok.Set(0)
		a.o.Log.Error("reload failed, the old lists stay", zap.Error(err))
		return err
	}
	a.reloads.ok.Set(1)
	a.reloads.last.SetToCurrentTime()
	a.o.Log.Info("reloaded", zap.Int("added", len(diff.Added)), zap.Int("removed", len(diff.Removed)),
		zap.Int("changed", len(diff.Changed)), zap.Int("unchanged", diff.Unchanged))
	return nil
}

func (a *App) replaceFleet(ctx context.Context) (fleet.Diff, error) {
	if a.o.Fleet != nil {
		return fleet.Diff{}, fmt.Errorf("the fleet is fixed: nothing to reload")
	}
	var changed *config.Config // nil: crawld was started with lists alone
	if a.o.Config.Path != "" {
		c, err := config.Load(a.o.Config.Path)
		if err != nil {
			return fleet.Diff{}, err
		}
		a.warnOfChanges(c)
		changed = c
	}
	patterns, gate, c := a.patterns(changed), a.gate.Load(), changed
	if c == nil {
		c = &a.o.Config
	} else {
		var err error
		if gate, err = a.newGate(*c); err != nil {
			return fleet.Diff{}, err
		}
	}
	a.tried = fingerprint(patterns)
	next, err := a.load(c, patterns)
	if err != nil {
		return fleet.Diff{}, err
	}
	diff := fleet.Compare(a.listed.Load(), next.fleet)
	if err := a.replace(ctx, next); err != nil {
		return fleet.Diff{}, err
	}
	a.o.Patterns = patterns
	a.gate.Store(gate)
	if changed != nil {
		if level, err := zapcore.ParseLevel(changed.Log.Level); err == nil {
			a.o.Level.SetLevel(level)
		}
	}
	return diff, nil
}

// replace puts fleet and groups into force, or neither.
func (a *App) replace(ctx context.Context, next listed) error {
	all, err := a.joined(next.fleet)
	if err != nil {
		return err
	}
	before := a.repo.Groups()
	if err := a.setGroups(next.republished()); err != nil {
		return err
	}
	var refused error
	err = a.crawler.Do(ctx, func(p *planner.Planner, now time.Time) {
		if refused = p.Regroup(timed(next.groups), now); refused == nil {
			p.Replace(all, now)
		}
	})
	if err = errors.Join(err, refused); err != nil {
		return errors.Join(err, a.setGroups(before))
	}
	a.listed.Store(next.fleet)
	a.fleet.Store(all)
	a.client.SetCredentials(next.credentials)
	return nil
}

// patterns are the lists to read: a flag wins over the configuration's.
func (a *App) patterns(c *config.Config) []string {
	if c == nil || a.flagged {
		return a.o.Patterns
	}
	return c.SensorFiles
}

// warnOfChanges says which part of a changed configuration waits for a restart.
func (a *App) warnOfChanges(c *config.Config) {
	running, written := a.o.Config, *c
	running.SensorFiles, written.SensorFiles = nil, nil
	running.Data = written.Data // a flag may have overridden it
	running.Web = written.Web
	running.Log.Level = written.Log.Level // it takes effect
	running.Groups = written.Groups       // they do too
	running.Publishers, running.Readers = written.Publishers, written.Readers
	running.SensorCredentials = written.SensorCredentials
	if running.YAML() != written.YAML() {
		a.o.Log.Warn("only sensor lists, groups, credentials, publishers, readers and log.level are reloaded; " +
			"other changed keys need a restart")
	}
}
