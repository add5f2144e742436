package app

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/testbed"
	"github.com/crawld/crawld/internal/visit"
)

// eventually polls until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.After(bound); !holds(); {
		select {
		case <-deadline:
			t.Fatalf("waited in vain for %s", what)
		case <-tick.C:
		}
	}
}

func degraded(t *testing.T, a *App, reason string) bool {
	t.Helper()
	families, err := a.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "crawld_store_degraded" && m.GetLabel()[0].GetValue() == reason {
				return m.GetGauge().GetValue() == 1
			}
		}
	}
	t.Fatalf("no metric of reason %s", reason)
	return false
}

func (s *states) has(part string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.all, func(s string) bool { return strings.Contains(s, part) })
}

// While the disk has too little space no sensor is asked, and all tell why; they are asked
// again when it has, without a restart.
func TestNoSpaceHoldsCrawls(t *testing.T) {
	bed := testbed.New(1)
	defer bed.Close()
	var uris []string
	for _, name := range []string{"one", "two", "three"} {
		uris = append(uris, sensor(t, bed, name).URI())
	}
	o := options(t, uris...)
	// So often that a survey without a visit shows that they are held.
	o.Config.Planner.Budget, o.Config.Polling.Policy = 1000, config.PolicyFixed
	o.Config.Polling.Bootstrap, o.Config.Polling.MaxGap = 200*time.Millisecond, 200*time.Millisecond
	var told states
	o.Notify = told.note
	var free, surveys atomic.Int64
	free.Store(50)
	o.FreeSpace = func(string) (int64, int64, bool) {
		surveys.Add(1)
		return free.Load() << 30, 100 << 30, true
	}
	a, stop := start(t, o)
	defer stop()
	survey := func() {
		until := surveys.Load() + 1
		eventually(t, "a survey", func() bool { return surveys.Load() >= until })
	}
	rounds := 1
	if os.Getenv("CRAWLD_CI") != "" {
		rounds = 2
	}
	for round := range rounds {
		before := len(bed.Requests())
		eventually(t, "crawls", func() bool { return len(bed.Requests()) > before+5 })
		free.Store(3)
		began := time.Now()
		eventually(t, "the metric", func() bool { return degraded(t, a, repository.TroubleFull) })
		t.Logf("round %d: told after %v", round, time.Since(began).Round(time.Millisecond))
		survey() // what was under way has ended
		held := len(bed.Requests())
		survey()
		if now := len(bed.Requests()); now != held {
			t.Errorf("round %d: %d sensors were asked although it cannot be kept", round, now-held)
		}
		if status, err := a.Beat(context.Background()); err != nil ||
			!strings.Contains(status, "crawling waits") || !told.has("STATUS=crawling waits") {
			t.Errorf("round %d: status %q, %v", round, status, err)
		}
		if code := get(t, a, "/-/healthy"); code != http.StatusOK {
			t.Errorf("round %d: a restart is asked for: %d", round, code)
		}
		free.Store(50)
		began = time.Now()
		eventually(t, "crawls", func() bool { return len(bed.Requests()) > held })
		t.Logf("round %d: crawling again after %v", round, time.Since(began).Round(time.Millisecond))
		eventually(t, "the end of it", func() bool { return told.has("STATUS=all is well again") })
	}
}

func get(t *testing.T, a *App, path string) int {
	t.Helper()
	resp, err := http.Get("http://" + a.Addr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer http.DefaultClient.CloseIdleConnections()
	defer resp.Body.Close()
	return resp.StatusCode
}

// A sensor whose stored body turns out to be damaged is asked for all of it at its next
// visit, although its ETag is unchanged, and then served again.
func TestDamagedBodyIsFetched(t *testing.T) {
	bed := testbed.New(1)
	defer bed.Close()
	s := sensor(t, bed, "one") // publishes nothing: its body and its ETag stay
	o := options(t, s.URI())
	a, stop := start(t, o)
	eventually(t, "a description", func() bool { return a.repo.Stats().Bodies == 1 })
	stop()
	db, err := bbolt.Open(o.Config.Data, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		bodies := tx.Bucket([]byte("bodies"))
		k, v := bodies.Cursor().First()
		bad := slices.Clone(v)
		bad[len(bad)-1] ^= 1
		return bodies.Put(slices.Clone(k), bad)
	})
	if err = errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	a, stop = start(t, o)
	defer stop()
	latest, ok, err := a.repo.Latest(s.URI())
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	found := time.Now()
	if code := get(t, a, "/api/v1/body?id="+s.URI()); code != http.StatusServiceUnavailable {
		t.Errorf("served, or not known to come: %d", code)
	}
	since := func() []visit.Outcome { // visits made after the damage was found
		visits, err := a.repo.Visits(s.URI(), 100)
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(visits, func(v visit.Outcome) bool { return v.Started.Before(found) })
	}
	eventually(t, "the body, or visits that do not bring it", func() bool {
		return !a.repo.Damaged(latest.Hash) || len(since()) > 3
	})
	if body, err := a.repo.Body(latest.Hash); err != nil || string(body) != string(s.Body()) {
		t.Errorf("%q, %v", body, err)
	}
	visits, after := since(), 0
	for _, v := range slices.Backward(visits) {
		if after++; v.Full && v.Blocks > 0 {
			break
		}
	}
	if after < 1 || after > 2 { // one may have been under way
		t.Errorf("of %d visits since, number %d was in full", len(visits), after)
	}
}
