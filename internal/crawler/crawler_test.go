package crawler

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a crawler in a bubble of virtual time over a real repository; only the
// wire is replaced, at the fetcher seam.
type rig struct {
	t       *testing.T
	repo    *repository.Repository
	crawler *Crawler
	reg     *prometheus.Registry
	asked   sync.Map // sensor to *atomic.Int64
	running atomic.Int64
	peak    atomic.Int64
	refuse  atomic.Bool // the store fails
	saves   atomic.Int64
	answer  func(v visit.Visit) visit.Outcome
}

func plans(n int, plan func(i int) sleepplan.Plan) []fleet.Sensor {
	list := make([]fleet.Sensor, n)
	for i := range list {
		list[i] = fleet.Sensor{ID: fmt.Sprintf("s%03d", i), URI: fmt.Sprintf("coap://192.0.2.%d/", i%250+1),
			Weight: 1, MaxCrawls: fleet.NoCap, Rate: 1.0 / 300, Plan: plan(i)}
	}
	return list
}

func newRig(t *testing.T, list []fleet.Sensor, slots int, tune ...func(*planner.Parameters)) *rig {
	t.Helper()
	f, err := fleet.New(list)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, reg: prometheus.NewRegistry()}
	r.repo, err = repository.Open(filepath.Join(t.TempDir(), "crawld.db"), repository.Options{})
	if err != nil {
		t.Fatal(err)
	}
	par := planner.Parameters{Range: 10 * time.Minute, Tick: 100 * time.Millisecond, Step: 1,
		GuardAuto: true, PerSensor: 3, Polling: dpt.Params{Policy: dpt.DPTN, Bootstrap: time.Minute,
			MinGap: 5 * time.Second, MaxGap: 10 * time.Minute}}
	for _, turn := range tune {
		turn(&par)
	}
	p, err := planner.New(f, par, planner.Saved{}, time.Now().Round(0))
	if err != nil {
		t.Fatal(err)
	}
	r.crawler = New(p, Options{Fetch: r.fetch, Store: r.store, SaveRange: r.save, Log: zap.NewNop(),
		Metrics: r.reg, Slots: slots, Capacity: 500})
	return r
}

// fetch answers after 50 ms, or as the test says.
func (r *rig) fetch(ctx context.Context, v visit.Visit) visit.Outcome {
	r.peak.Store(max(r.peak.Load(), r.running.Add(1)))
	defer r.running.Add(-1)
	n, _ := r.asked.LoadOrStore(v.Sensor, new(atomic.Int64))
	seq := n.(*atomic.Int64).Add(1)
	o := visit.Outcome{Visit: v, Result: visit.Described, Contact: true, Started: time.Now().Round(0),
		Body: fmt.Appendf(nil, "</%d>", seq), Verdict: "valid"}
	if r.answer != nil {
		o = r.answer(v)
		o.Started = time.Now().Round(0)
	}
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
		o.Result, o.Reason, o.Body = visit.Failed, "cancelled", nil
	}
	o.Ended = time.Now().Round(0)
	return o
}

func (r *rig) store(o visit.Outcome, record []byte, done func(error)) {
	if r.refuse.Load() {
		done(errors.New("disk full"))
		return
	}
	r.repo.StoreAsync(repository.Write{Outcome: o, Record: record}, done)
}

func (r *rig) save(start time.Time, fleetRecord, plan []byte) error {
	r.saves.Add(1)
	var row *repository.PlanRow
	if plan != nil {
		row = &repository.PlanRow{Start: start, Plan: plan}
	}
	return r.repo.Save(context.Background(), fleetRecord, row, nil)
}

// run lets the crawler work for a while of virtual time.
func (r *rig) run(d time.Duration) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	if err := r.crawler.Run(ctx); err != nil {
		r.t.Error(err)
	}
	if err := r.repo.Close(); err != nil {
		r.t.Error(err)
	}
}

func (r *rig) count(sensor string) int64 {
	n, ok := r.asked.Load(sensor)
	if !ok {
		return 0
	}
	return n.(*atomic.Int64).Load()
}

func (r *rig) metric(name, label, value string) float64 {
	r.t.Helper()
	families, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == value) {
				return m.GetCounter().GetValue()
			}
		}
	}
	return -1
}

func TestCrawlsStoresAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cycle := func(i int) sleepplan.Plan {
			p, err := sleepplan.Cycle(time.Minute, 20*time.Second, time.Now().Add(time.Duration(i)*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			return p
		}
		r := newRig(t, plans(20, cycle), 0)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := r.crawler.Run(ctx); err != nil {
			t.Fatal(err)
		}
		visits, err := r.repo.Visits("s007", 100)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(visits)) != r.count("s007") || len(visits) < 6 {
			t.Errorf("%d visits stored, %d made", len(visits), r.count("s007"))
		}
		for _, v := range visits {
			if !cycle(7).Awake(v.Started) || v.Lateness() > time.Second {
				t.Errorf("visit at %v, planned %v", v.Started, v.At)
			}
		}
		described := r.metric("crawld_crawls_total", "outcome", "described")
		var total int64
		r.asked.Range(func(_, n any) bool { total += n.(*atomic.Int64).Load(); return true })
		if described != float64(total) {
			t.Errorf("crawld_crawls_total{outcome=described} %v, made %d", described, total)
		}
		if _, plan, ok, err := r.repo.Plan(); err != nil || !ok || len(plan) == 0 || r.saves.Load() < 6 {
			t.Errorf("plan saved: %v %v, %d saves", ok, err, r.saves.Load())
		}
		if err := r.repo.Close(); err != nil {
			t.Error(err)
		}
	})
}

// What could not be stored is not believed: the source stays, the sensor is
// asked again, and once the store works everything is as it should be.
func TestStoreFailureIsNoSuccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, plans(1, func(int) sleepplan.Plan { return sleepplan.AlwaysOn() }), 0)
		r.refuse.Store(true)
		go func() {
			<-r.crawler.Ready()
			time.Sleep(9 * time.Minute)
			err := r.crawler.Do(context.Background(), func(p *planner.Planner, now time.Time) {
				if rec := p.Record("s000"); !rec.Source.IsZero() || rec.Known != "" {
					t.Errorf("source moved to %v without a commit", rec.Source)
				}
			})
			if err != nil {
				t.Error(err)
			}
			r.refuse.Store(false)
		}()
		r.run(30 * time.Minute)
		if n := r.metric("crawld_store_failures_total", "", ""); n < 2 {
			t.Errorf("%v store failures counted", n)
		}
	})
}

// The bound on visits at once holds, and what cannot be started in its window
// is missed, not silently dropped.
func TestSlotsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		anchor := time.Now()
		r := newRig(t, plans(50, func(int) sleepplan.Plan {
			p, err := sleepplan.Cycle(10*time.Minute, 3*time.Second, anchor)
			if err != nil {
				t.Fatal(err)
			}
			return p
		}), 2)
		r.answer = func(v visit.Visit) visit.Outcome {
			time.Sleep(time.Second)
			return visit.Outcome{Visit: v, Result: visit.Unchanged, Contact: true}
		}
		r.run(time.Hour)
		if r.peak.Load() > 2 {
			t.Errorf("%d visits at once, 2 slots", r.peak.Load())
		}
		if n := r.metric("crawld_crawls_total", "outcome", "missed"); n < 50 {
			t.Errorf("%v visits missed, want the ones whose window closed", n)
		}
	})
}

// The pace is one of starts: turns of the loop that start nothing leave it alone.
func TestPaceCountsStartsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, plans(1, func(int) sleepplan.Plan { return sleepplan.AlwaysOn() }), 0)
		r.crawler.o.Capacity = 1.0 / 60
		r.crawler.limit = rate.NewLimiter(rate.Limit(r.crawler.o.Capacity), 1)
		go func() {
			for r.crawler.Do(context.Background(), func(*planner.Planner, time.Time) {}) == nil {
				select { // a scrape makes the loop turn
				case <-time.After(time.Second):
				case <-r.crawler.stopped:
				}
			}
		}()
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := r.crawler.Run(ctx); err != nil {
			t.Fatal(err)
		}
		visits, err := r.repo.Visits("s000", 100)
		if err != nil || len(visits) < 12 {
			t.Errorf("%d visits, %v", len(visits), err)
		}
		for _, v := range visits { // minutes apart: a start is always to be had
			if v.Lateness() > time.Second {
				t.Errorf("visit of %v started %v late", v.At, v.Lateness())
			}
		}
		if err := r.repo.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A fetcher that never got to send gives its slot back.
func TestUnsentVisitsFreeTheirSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, plans(5, func(int) sleepplan.Plan { return sleepplan.AlwaysOn() }), 1)
		r.answer = func(v visit.Visit) visit.Outcome {
			return visit.Outcome{Visit: v, Result: visit.Missed, Reason: "deadline"}
		}
		r.run(20 * time.Minute)
		if n := r.metric("crawld_crawls_total", "outcome", "missed"); n < 20 {
			t.Errorf("%v visits", n)
		}
	})
}

// The end rule fixed can ask for more crawls than the budget has; the range is
// then planned all the same, within the budget.
func TestFixedBeyondTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, plans(5, func(int) sleepplan.Plan { return sleepplan.AlwaysOn() }), 0,
			func(par *planner.Parameters) { par.End, par.Budget = scheduler.Fixed, 3 })
		r.run(61 * time.Minute)
		described := r.metric("crawld_crawls_total", "outcome", "described")
		if described < 15 || described > 7*3 {
			t.Errorf("%v crawls in 6 ranges of 3", described)
		}
	})
}

// Do ends when the loop does; a drained loop has observed all it started.
func TestStopsCleanly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, plans(10, func(int) sleepplan.Plan { return sleepplan.AlwaysOn() }), 0)
		var started atomic.Int64
		r.answer = func(v visit.Visit) visit.Outcome {
			started.Add(1)
			return visit.Outcome{Visit: v, Result: visit.Described, Contact: true, Body: []byte("<x>")}
		}
		r.run(20 * time.Minute)
		err := r.crawler.Do(context.Background(), func(*planner.Planner, time.Time) {})
		if !errors.Is(err, ErrStopped) {
			t.Errorf("Do after the end: %v", err)
		}
		if r.running.Load() != 0 {
			t.Errorf("%d visits still run", r.running.Load())
		}
		seen := 0.0
		for _, res := range visit.Results() {
			seen += r.metric("crawld_crawls_total", "outcome", res.String())
		}
		if seen != float64(started.Load()) {
			t.Errorf("%v outcomes of %d visits", seen, started.Load())
		}
	})
}

func TestMetricsAreWellFormed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, plans(3, func(int) sleepplan.Plan { return sleepplan.Unknown() }), 0)
		go func() {
			<-r.crawler.Ready()
			problems, err := testutil.GatherAndLint(r.reg)
			if err != nil {
				t.Error(err)
			}
			for _, p := range problems {
				t.Errorf("%s: %s", p.Metric, p.Text)
			}
		}()
		r.run(5 * time.Minute)
	})
}
