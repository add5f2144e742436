package app

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/crawld/crawld/internal/coapclient"
	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/visit"
)

// listed is what the lists and the configuration say together.
type listed struct {
	fleet       *fleet.Fleet
	refused     []config.Refusal
	groups      []config.Group
	credentials []coapclient.Credential
}

// load reads the lists, unless the fleet is fixed, and holds the groups of the configuration
// against them; it reads the files of secrets too. Sensors of transports that are not spoken
// are left out and named; the rest is crawled.
func (a *App) load(c *config.Config, patterns []string) (listed, error) {
	l := listed{fleet: a.o.Fleet, groups: c.Groups}
	var err error
	if l.fleet == nil {
		l.fleet, l.refused, err = c.LoadSensors(patterns)
	}
	if err == nil {
		err = config.CheckGroups(l.groups, l.fleet, l.refused)
	}
	var warnings []string
	if err == nil {
		l.credentials, warnings, err = Credentials(c)
	}
	if err == nil {
		var par planner.Parameters
		if par, err = Parameters(a.o.Config); err == nil {
			err = planner.CheckPolling(l.fleet, par.Polling)
		}
	}
	if err != nil {
		return listed{}, err
	}
	for _, w := range warnings {
		a.o.Log.Warn("credentials of sensors", zap.String("warning", w))
	}
	for _, r := range l.refused {
		a.o.Log.Warn("sensor refused", zap.String("uri", r.URI), zap.String("why", r.String()))
	}
	return l, nil
}

// republished are the groups as the repository wants them: with the addresses from which
// the links of their members start.
func (l listed) republished() []repository.Group {
	isGroup, refused := map[string]bool{}, map[string]string{}
	for _, g := range l.groups {
		isGroup[g.ID] = true
	}
	for _, r := range l.refused {
		refused[r.ID] = r.URI
	}
	var list []repository.Group
	for _, g := range l.groups {
		group := repository.Group{ID: g.ID, AtLeast: g.AtLeast}
		for _, id := range g.Members {
			m := repository.Member{ID: id, Group: isGroup[id], URI: refused[id]}
			if i, ok := l.fleet.Find(id); ok && !m.Group {
				m.URI = l.fleet.At(i).URI
			}
			group.Members = append(group.Members, m)
		}
		list = append(list, group)
	}
	return list
}

// timed are the groups as the planner wants them. Members that are groups are in no fleet
// and do not count there.
func timed(groups []config.Group) []planner.Group {
	var list []planner.Group
	for _, g := range groups {
		list = append(list, planner.Group{ID: g.ID, Members: g.Members, AtLeast: g.AtLeast,
			Spare: g.Spare})
	}
	return list
}

// setGroups puts groups into force, and their labels before the first snapshot. It waits
// for the commit: giving up would leave open which groups are in force.
func (a *App) setGroups(groups []repository.Group) error {
	before := a.repo.Groups()
	if len(groups) == 0 && len(before) == 0 {
		return nil // a full store can be started and reloaded
	}
	a.groups.relabel(groups)
	err := a.repo.SetGroups(context.Background(), groups, time.Now())
	if err != nil {
		a.groups.relabel(before)
	}
	return err
}

// republishedNow is told of snapshots by the goroutine that writes.
func (a *App) republishedNow(p repository.Republication) {
	if p.Err != nil {
		a.o.Log.Error("group is not republished", zap.String("group", p.Sensor), zap.Error(p.Err))
	} else {
		a.o.Log.Debug("republished", zap.String("group", p.Sensor), zap.String("hash", p.Hash),
			zap.Int("members", len(p.Parts)), zap.Int("links", p.Links))
	}
	a.groups.republished(p, time.Now())
}

const (
	// maxGroupLabels bounds the series: the groups beyond share one label.
	maxGroupLabels = 50
	// otherGroups is that label; no group can have it as its id.
	otherGroups = "(other)"
)

// groupMetrics count what becomes of groups. The hit ratio of the DPT paper (section 7.1) is
// the share of visits to members that found something new.
type groupMetrics struct {
	snapshots *prometheus.CounterVec
	failures  *prometheus.CounterVec
	latency   *prometheus.HistogramVec
	visits    *prometheus.CounterVec

	labels atomic.Pointer[groupLabels]
}

// groupLabels are not changed once made.
type groupLabels struct {
	own map[string]bool     // groups with a label of their own
	of  map[string][]string // labels of the groups that a sensor is a member of
}

// What visits to members of a group come to.
const (
	foundNew     = "new"
	foundNothing = "unchanged"
	noAnswer     = "none" // no description: asleep, refused or failed
)

func (m *groupMetrics) register(reg prometheus.Registerer) {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(
			prometheus.CounterOpts{Name: "crawld_group_" + name, Help: help}, labels)
	}
	m.snapshots = counter("snapshots_total", "Combined snapshots of a group's members.", "group")
	m.failures = counter("snapshot_failures_total",
		"Snapshots that were due and could not be made.", "group")
	m.visits = counter("member_visits_total",
		"Visits to a group's sensors; the hit ratio is the share of new.", "group", "outcome")
	m.latency = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "crawld_group_snapshot_latency_seconds",
		Help: "Snapshot after the newest event in it: its publication where the description " +
			"tells, else the end of the visit that found it.",
		Buckets:                     []float64{.01, .1, 1, 10, 60, 300, 900, 3600, 14400, 43200, 86400},
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 100}, []string{"group"})
	reg.MustRegister(m.snapshots, m.failures, m.visits, m.latency)
	m.labels.Store(&groupLabels{})
}

// relabel follows a change of the groups: those that stay keep their series, those that go
// lose them, and the first of those that come get what is free.
func (m *groupMetrics) relabel(groups []repository.Group) {
	before, now := m.labels.Load(), &groupLabels{map[string]bool{}, map[string][]string{}}
	for _, keep := range []bool{true, false} {
		for _, g := range groups {
			if before.own[g.ID] == keep && len(now.own) < maxGroupLabels {
				now.own[g.ID] = true
			}
		}
	}
	for id := range before.own {
		if !now.own[id] {
			m.forget(id)
		}
	}
	for _, g := range groups {
		label := now.label(g.ID)
		for _, member := range g.Members {
			if !member.Group {
				now.of[member.ID] = append(now.of[member.ID], label)
			}
		}
		m.snapshots.WithLabelValues(label)
		m.failures.WithLabelValues(label)
		m.latency.WithLabelValues(label)
		for _, found := range []string{foundNew, foundNothing, noAnswer} {
			m.visits.WithLabelValues(label, found)
		}
	}
	m.labels.Store(now)
}

func (m *groupMetrics) forget(id string) {
	gone := prometheus.Labels{"group": id}
	m.snapshots.DeletePartialMatch(gone)
	m.failures.DeletePartialMatch(gone)
	m.latency.DeletePartialMatch(gone)
	m.visits.DeletePartialMatch(gone)
}

func (l *groupLabels) label(group string) string {
	if l.own[group] {
		return group
	}
	return otherGroups
}

// visited counts a visit for the groups of its sensor.
func (m *groupMetrics) visited(o visit.Outcome) {
	if o.Result == visit.Missed {
		return
	}
	found := noAnswer
	switch o.Result {
	case visit.Described:
		found = foundNew
	case visit.Unchanged:
		found = foundNothing
	}
	for _, label := range m.labels.Load().of[o.Sensor] {
		m.visits.WithLabelValues(label, found).Inc()
	}
}

func (m *groupMetrics) republished(p repository.Republication, now time.Time) {
	label := m.labels.Load().label(p.Sensor)
	if p.Err != nil {
		m.failures.WithLabelValues(label).Inc()
		return
	}
	m.snapshots.WithLabelValues(label).Inc()
	if !p.Event.IsZero() {
		m.latency.WithLabelValues(label).Observe(max(0, now.Sub(p.Event).Seconds()))
	}
}
