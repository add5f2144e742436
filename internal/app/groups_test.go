package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/testbed"
	"github.com/crawld/crawld/internal/visit"
)

// series are the values of all metrics as name{label="value"} -> value, histograms as
// their counts.
func series(t *testing.T, reg prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			value := m.GetCounter().GetValue()
			if h := m.GetHistogram(); h != nil {
				value = float64(h.GetSampleCount())
			}
			name := strings.TrimPrefix(f.GetName(), "crawld_group_")
			all[name+"{"+strings.Join(labels, ",")+"}"] = value
		}
	}
	return all
}

func numbered(from, to int) (groups []repository.Group) {
	for i := from; i < to; i++ {
		groups = append(groups, repository.Group{ID: fmt.Sprintf("g%d", i), AtLeast: 1,
			Members: []repository.Member{{ID: "s"}, {ID: "h", Group: true}}})
	}
	return groups
}

// Groups beyond the fiftieth share a label; those that go make room, those that stay keep
// what they counted.
func TestGroupLabelsAreCapped(t *testing.T) {
	reg := prometheus.NewRegistry()
	var m groupMetrics
	m.register(reg)
	m.relabel(numbered(0, 60))
	snapshot := func(id string) {
		m.republished(repository.Republication{Snapshot: repository.Snapshot{
			Version: repository.Version{Sensor: id}, Event: time.Unix(1, 0)}}, time.Unix(5, 0))
	}
	for i := range 60 {
		snapshot(fmt.Sprintf("g%d", i))
	}
	m.visited(visit.Outcome{Visit: visit.Visit{Sensor: "s"}, Result: visit.Described})
	m.visited(visit.Outcome{Visit: visit.Visit{Sensor: "s"}, Result: visit.Asleep})
	m.visited(visit.Outcome{Visit: visit.Visit{Sensor: "s"}, Result: visit.Missed})
	m.visited(visit.Outcome{Visit: visit.Visit{Sensor: "h"}, Result: visit.Described})
	got := series(t, reg)
	if len(got) != 51*6 {
		t.Errorf("%d series, want 6 for each of 51 labels", len(got))
	}
	for name, want := range map[string]float64{
		"snapshots_total{group=g49}": 1, "snapshots_total{group=(other)}": 10,
		"snapshot_latency_seconds{group=(other)}":           10,
		"member_visits_total{group=g7,outcome=new}":         1,
		"member_visits_total{group=g7,outcome=unchanged}":   0,
		"member_visits_total{group=(other),outcome=none}":   10,
		"snapshot_failures_total{group=g0}":                 0,
		"member_visits_total{group=(other),outcome=unused}": 0,
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	m.relabel(numbered(40, 60))
	m.republished(repository.Republication{Err: errors.New("large"), Snapshot: repository.Snapshot{
		Version: repository.Version{Sensor: "g59"}}}, time.Now())
	got = series(t, reg)
	if got["snapshots_total{group=g49}"] != 1 || got["snapshot_failures_total{group=g59}"] != 1 {
		t.Errorf("%v", got)
	}
	if _, kept := got["snapshots_total{group=g0}"]; kept {
		t.Error("a group that is gone has a series")
	}
}

// grouped is a daemon with three sensors in a list and a group of them.
func grouped(t *testing.T, atLeast int) (Options, *testbed.Bed) {
	t.Helper()
	bed := testbed.New(1)
	t.Cleanup(func() { _ = bed.Close() })
	var uris []string
	for _, name := range []string{"one", "two", "three"} {
		uris = append(uris, sensor(t, bed, name).URI())
	}
	o := options(t, uris...)
	o.Config.Groups = []config.Group{{ID: "house", Members: uris, AtLeast: atLeast}}
	return o, bed
}

// A reload that cannot replace the fleet leaves groups and series as they are.
func TestReloadOfGroupsIsAllOrNothing(t *testing.T) {
	o, _ := grouped(t, 3)
	a, err := New(o) // its loop does not run: the fleet cannot be replaced
	if err != nil {
		t.Fatal(err)
	}
	defer a.close()
	other := config.Group{ID: "other", Members: []string{"house"}, AtLeast: 1}
	changed := o.Config
	changed.Groups = []config.Group{other}
	if next, err := a.load(&changed, o.Patterns); err == nil {
		t.Fatalf("a group without its member is taken: %+v", next)
	}
	changed.Groups[0].Members = o.Config.Groups[0].Members[:1]
	next, err := a.load(&changed, o.Patterns)
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.replace(over, next); err == nil {
		t.Error("a reload whose time is over went through")
	}
	if after := a.repo.Groups(); len(after) != 1 || after[0].ID != "house" {
		t.Errorf("%+v", after)
	}
	got := series(t, a.registry)
	if _, stays := got["snapshots_total{group=house}"]; !stays {
		t.Errorf("%v", got)
	}
	if _, came := got["snapshots_total{group=other}"]; came {
		t.Errorf("%v", got)
	}
}

// A start makes the snapshot that a change of the groups has made due.
func TestStartRepublishes(t *testing.T) {
	o, bed := grouped(t, 3)
	groups := o.Config.Groups
	o.Config.Groups = nil
	a, stop := start(t, o)
	for _, s := range bed.Sensors() {
		awaitStored(t, a, s.URI())
	}
	stop()
	o.Config.Groups = groups
	a, stop = start(t, o)
	defer stop()
	status, ok, err := a.repo.Group("house")
	if err != nil || !ok || status.Last == nil || len(status.Last.Parts) != 3 {
		t.Errorf("%+v %v %v", status, ok, err)
	}
}

func awaitStored(t *testing.T, a *App, id string) {
	t.Helper()
	for deadline := time.Now().Add(bound); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if _, ok, err := a.repo.Latest(id); err != nil {
			t.Fatal(err)
		} else if ok {
			return
		}
	}
	t.Fatalf("%s is not stored", id)
}
