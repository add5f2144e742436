package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/testbed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bound is a generous time-out for things that take moments.
const bound = 30 * time.Second

// options describe a daemon in a folder of its own that crawls the listed URIs.
func options(t *testing.T, uris ...string) Options {
	t.Helper()
	dir := t.TempDir()
	list := filepath.Join(dir, "list.txt")
	write(t, list, uris...)
	c := config.Default()
	c.Data, c.Web.Listen = filepath.Join(dir, "crawld.db"), []string{"127.0.0.1:0"}
	c.Planner.Range = 5 * time.Second
	c.Polling.Bootstrap, c.Polling.MinGap, c.Polling.MaxGap = time.Second, 50*time.Millisecond, 2*time.Second
	return Options{Config: c, Patterns: []string{list}, Log: zap.NewNop(), Level: zap.NewAtomicLevel()}
}

func write(t *testing.T, list string, uris ...string) {
	t.Helper()
	if err := os.WriteFile(list, []byte(strings.Join(uris, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func sensor(t *testing.T, bed *testbed.Bed, name string) *testbed.Sensor {
	t.Helper()
	s, err := bed.Add(testbed.Spec{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// states records what the supervisor is told.
type states struct {
	mu  sync.Mutex
	all []string
}

func (s *states) note(state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, _, _ := strings.Cut(state, "\n")
	s.all = append(s.all, first)
}

// pair is two sensors that serve until the test ends.
func pair(t *testing.T) (one, two *testbed.Sensor) {
	t.Helper()
	bed := testbed.New(1)
	t.Cleanup(func() { _ = bed.Close() })
	return sensor(t, bed, "one"), sensor(t, bed, "two")
}

// supervised are options for one sensor under a supervisor.
func supervised(t *testing.T, s *testbed.Sensor) (Options, *states) {
	t.Helper()
	o, told := options(t, s.URI()), &states{}
	o.Notify = told.note
	return o, told
}

// start runs the app and returns how to end it.
func start(t *testing.T, o Options) (*App, func()) {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	select {
	case <-a.Crawler().Ready():
	case <-time.After(bound):
		t.Fatal("not ready")
	}
	return a, sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(bound):
			t.Error("does not end")
		}
	})
}

// await asks the loop until the condition holds.
func await(t *testing.T, a *App, what string, holds func(p *planner.Planner, now time.Time) bool) {
	t.Helper()
	deadline := time.After(bound)
	for {
		ok := false
		err := a.Crawler().Do(context.Background(), func(p *planner.Planner, now time.Time) {
			ok = holds(p, now)
		})
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("waited %v for %s", bound, what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func TestCrawlsReloadsAndStops(t *testing.T) {
	one, two := pair(t)
	o, told := supervised(t, one)
	a, stop := start(t, o)
	defer stop()
	seen := func(uri string) func(*planner.Planner, time.Time) bool {
		return func(p *planner.Planner, now time.Time) bool {
			e, ok := p.Explain(uri, now)
			return ok && e.LastSuccess != nil
		}
	}
	await(t, a, "a description of the first sensor", seen(one.URI()))
	if _, err := a.Beat(context.Background()); err != nil {
		t.Error(err)
	}
	write(t, o.Patterns[0], one.URI(), two.URI())
	if err := a.Reload(context.Background()); err != nil {
		t.Fatal(err)
	}
	await(t, a, "a description of the second sensor", seen(two.URI()))
	write(t, o.Patterns[0], one.URI(), "nonsense")
	if err := a.Reload(context.Background()); err == nil {
		t.Error("a bad list was taken")
	}
	await(t, a, "the old list", seen(two.URI()))
	stop()
	if got := fmt.Sprint(told.all); got != "[READY=1 RELOADING=1 READY=1 RELOADING=1 READY=1 STOPPING=1]" {
		t.Errorf("supervisor was told %s", got)
	}
	repo, err := repository.Open(o.Config.Data, repository.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer repo.Close()
	for _, s := range []*testbed.Sensor{one, two} {
		latest, ok, err := repo.Latest(s.URI())
		if err != nil || !ok {
			t.Fatalf("%s: %v %v", s.Name(), ok, err)
		}
		if body, err := repo.Body(latest.Hash); err != nil || string(body) != string(s.Body()) {
			t.Errorf("%s: stored %q, serves %q: %v", s.Name(), body, s.Body(), err)
		}
	}
}

// A list that changes is read without being asked for, a bad one is kept out,
// and what did not change is not read again.
func TestListsAreWatched(t *testing.T) {
	one, two := pair(t)
	o, told := supervised(t, one)
	a, stop := start(t, o)
	defer stop()
	listed := func(uri string) func(*planner.Planner, time.Time) bool {
		return func(p *planner.Planner, now time.Time) bool {
			_, ok := p.Explain(uri, now)
			return ok
		}
	}
	list := o.Patterns[0]
	write(t, list+".new", one.URI(), two.URI())
	if err := os.Rename(list+".new", list); err != nil {
		t.Fatal(err)
	}
	await(t, a, "the second sensor", listed(two.URI()))
	write(t, list, "nonsense")
	deadline := time.After(bound)
	for ok := 1.0; ok != 0; ok = reloadOK(t, a) {
		select {
		case <-deadline:
			t.Fatal("a bad list went unnoticed")
		case <-time.After(5 * time.Millisecond):
		}
	}
	await(t, a, "the old list", listed(two.URI()))
	write(t, list, two.URI())
	await(t, a, "the corrected list", func(p *planner.Planner, now time.Time) bool {
		_, ok := p.Explain(one.URI(), now)
		return !ok
	})
	if ok := reloadOK(t, a); ok != 1 {
		t.Error("the metric of the last reload did not recover")
	}
	stop()
	told.mu.Lock()
	defer told.mu.Unlock()
	reloads := 0
	for _, state := range told.all {
		if state == "RELOADING=1" {
			reloads++
		}
	}
	if reloads != 3 {
		t.Errorf("%d reloads for 3 changes: %v", reloads, told.all)
	}
}

func reloadOK(t *testing.T, a *App) float64 {
	t.Helper()
	families, err := a.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "crawld_config_last_reload_successful" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatal("no metric of the last reload")
	return 0
}

// What cannot start says why, and leaves nothing open behind it.
func TestNewFailsCleanly(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	o := options(t, "coap://192.0.2.1/")
	o.Config.Web.Listen = []string{taken.Addr().String()}
	if _, err := New(o); err == nil || !strings.Contains(err.Error(), "web.listen") {
		t.Fatalf("port taken: %v", err)
	}
	repo, err := repository.Open(o.Config.Data, repository.Options{})
	if err != nil {
		t.Fatalf("the database stayed locked: %v", err)
	}
	defer repo.Close()
	o.Config.Web.Listen = []string{"127.0.0.1:0"}
	if _, err := New(o); !errors.Is(err, repository.ErrLocked) {
		t.Errorf("database in use: %v", err)
	}
	o.Patterns = []string{filepath.Join(t.TempDir(), "missing.txt")}
	var errs config.Errors
	if _, err := New(o); !errors.As(err, &errs) {
		t.Errorf("list missing: %v", err)
	}
}

// Records that cannot be read cost a sensor its history and the range its plan,
// not the daemon its start.
func TestDamagedRecords(t *testing.T) {
	o := options(t, "coap://127.0.0.1:9/")
	repo, err := repository.Open(o.Config.Data, repository.Options{})
	if err != nil {
		t.Fatal(err)
	}
	id := "coap://127.0.0.1:9/.well-known/core"
	err = repo.Save(context.Background(), []byte("{broken"), nil, map[string][]byte{id: []byte("{broken"), "gone": []byte("?")})
	if err != nil {
		t.Fatal(err)
	}
	if err := repo.Close(); err != nil {
		t.Fatal(err)
	}
	a, stop := start(t, o)
	defer stop()
	await(t, a, "the sensor's first visit", func(p *planner.Planner, now time.Time) bool {
		for _, e := range p.ExplainAll("", 10, now) {
			if e.LastAttempt != nil {
				return true
			}
		}
		return false
	})
}
