package api

import (
	"context"
	"errors"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/crawld/crawld/internal/planner"
)

func TestHealthy(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	w := d.request("GET", "/-/healthy", "192.0.2.9:1")
	if w.Code != 200 || w.Body.String() != "ok\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	d.o.Do = func(context.Context, func(*planner.Planner, time.Time)) error {
		return errors.New("the loop has ended")
	}
	d.handler = New(d.o)
	w = d.request("GET", "/-/healthy", "@")
	if w.Code != 503 || !contains(w.Body.String(), "loop does not answer: the loop has ended") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	d.o.Do = d.do
	d.handler = New(d.o)
	if err := d.repo.Close(); err != nil {
		t.Fatal(err)
	}
	w = d.request("GET", "/-/healthy", "@")
	if w.Code != 503 || !contains(w.Body.String(), "the store cannot be read") {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

func TestReady(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	ready := false
	d.o.Ready = func() bool { return ready }
	d.handler = New(d.o)
	if w := d.request("GET", "/-/ready", "@"); w.Code != 503 {
		t.Errorf("%d %q", w.Code, w.Body)
	}
	ready = true
	if w := d.request("GET", "/-/ready", "@"); w.Code != 200 {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// A loop that hangs, in a bubble whose clock runs when all else waits: every
// answer comes, and the bounds are the documented ones.
func TestLoopHangs(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.o.Do = func(ctx context.Context, _ func(*planner.Planner, time.Time)) error {
		<-ctx.Done()
		return ctx.Err()
	}
	synctest.Test(t, func(t *testing.T) {
		d.handler = New(d.o)
		for target, bound := range map[string]time.Duration{"/-/healthy": healthPatience,
			"/": patience, "/api/v1/sensors": patience, "/api/v1/sensors/x": patience,
			"/api/v1/plan": patience, "/api/v1/status": patience, "/sensors/x": patience} {
			began := time.Now()
			w := d.request("GET", target, "@")
			if took := time.Since(began); w.Code != http.StatusServiceUnavailable || took != bound {
				t.Errorf("%s: %d after %v: %s", target, w.Code, took, w.Body)
			}
		}
	})
}

// Few requests at a time may cost the loop time in proportion to the fleet.
func TestFleetwideRequestsAreBounded(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	var inside atomic.Int32
	synctest.Test(t, func(t *testing.T) {
		d.o.Do = func(ctx context.Context, _ func(*planner.Planner, time.Time)) error {
			inside.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}
		d.handler = New(d.o)
		for range 3 * maxFleetwide {
			go d.request("GET", "/api/v1/status", "@")
			synctest.Wait()
		}
		if inside.Load() != maxFleetwide {
			t.Errorf("%d requests are inside, expected %d", inside.Load(), maxFleetwide)
		}
		time.Sleep(patience)
		synctest.Wait()
	})
}

func TestMetricsAndConfig(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	w := d.request("GET", "/metrics", "@")
	if w.Code != 200 || !contains(w.Body.String(), "crawld_test 1") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = d.request("GET", "/config", "@")
	if w.Code != 200 || w.Body.String() != "data: x\n" ||
		w.Header().Get("Content-Type") != "text/yaml; charset=utf-8" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
