package testbed

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

func testProcess(seed uint64, s Spec, start time.Time) *process {
	return newProcess(rand.New(rand.NewPCG(seed, 0)), s, start)
}

func TestEventsDoNotDependOnReading(t *testing.T) {
	plan := must(sleepplan.Cycle(7*time.Second, 3*time.Second, epoch.Add(time.Second)))
	spec := Spec{Rate: 0.5, Plan: plan, Drift: 700 * time.Millisecond}
	once := testProcess(1, spec, epoch)
	once.advance(at(1000))
	if len(once.times) < 150 {
		t.Fatalf("%d events, want about 214", len(once.times))
	}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 20 {
		often := testProcess(1, spec, epoch)
		for now := epoch; now.Before(at(1000)); {
			now = now.Add(time.Duration(rng.ExpFloat64() * float64(5*time.Second)))
			often.advance(now)
			often.advance(now.Add(-time.Second)) // a clock set back changes nothing
		}
		if n := len(once.times); !slices.Equal(once.times, often.times[:n]) {
			t.Fatal("events differ when they are read in steps")
		}
	}
	other := testProcess(2, spec, epoch)
	other.advance(at(1000))
	if slices.Equal(once.times, other.times) {
		t.Error("another seed gives the same events")
	}
}

func TestEventsAreRelativeToStart(t *testing.T) {
	spec := Spec{Rate: 2, Plan: sleepplan.AlwaysOn()}
	a, b := testProcess(1, spec, epoch), testProcess(1, spec, at(12345.678))
	a.advance(at(100))
	b.advance(at(12345.678 + 100))
	if len(a.times) != len(b.times) || len(a.times) == 0 {
		t.Fatalf("%d and %d events", len(a.times), len(b.times))
	}
	for i := range a.times {
		if a.times[i].Sub(epoch) != b.times[i].Sub(at(12345.678)) {
			t.Fatalf("event %d comes at another time after the start", i+1)
		}
	}
}

func TestEventsComeAwakeOnlyAtTheirRate(t *testing.T) {
	plan := must(sleepplan.Cycle(10*time.Second, 2*time.Second, epoch))
	p := testProcess(9, Spec{Rate: 0.5, Plan: plan, Drift: 3 * time.Second}, epoch)
	p.advance(at(100_000)) // 20 000 s awake: 10 000 events expected
	if n := float64(len(p.times)); math.Abs(n-10_000) > 4*100 {
		t.Errorf("%v events, want 10000 within four standard deviations", n)
	}
	for _, e := range p.times {
		offset := e.Sub(epoch) % (10 * time.Second)
		if offset < 3*time.Second || offset >= 5*time.Second {
			t.Fatalf("event at %v of the cycle, awake is 3s .. 5s", offset)
		}
		if !p.awake(e) {
			t.Fatalf("event at %v, asleep", e)
		}
	}
	if p.awake(at(2.9)) || !p.awake(at(3)) || p.awake(at(5)) {
		t.Error("drift does not shift the windows by 3 s")
	}
}

func TestStaticSensorHasNoEvents(t *testing.T) {
	p := testProcess(1, Spec{Plan: sleepplan.AlwaysOn()}, epoch)
	p.advance(at(1e9))
	p.advance(at(2e9))
	if len(p.times) != 0 {
		t.Errorf("%d events at rate 0", len(p.times))
	}
	if got := p.publish(at(1)); !got.Equal(at(2e9)) {
		t.Errorf("an event published after the clock was set back is at %v", got)
	}
}

func TestSetPlanChangesTheTruthNotTheListing(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{Plan: asleep(t)})
	if s.Awake() {
		t.Error("awake an hour too early")
	}
	s.SetPlan(sleepplan.AlwaysOn())
	if !s.Awake() || s.Listing().Plan.Equal(sleepplan.AlwaysOn()) {
		t.Error("SetPlan must change the true plan only")
	}
}

// Pages of the event log, read while events are published, add up to the log.
func TestEventPages(t *testing.T) {
	b := newBed(t)
	var wg sync.WaitGroup
	for range 3 {
		s := add(t, b, Spec{Rate: 1000})
		wg.Go(func() {
			for range 200 {
				s.Publish()
			}
		})
	}
	var pages []Event
	for range 50 {
		pages = append(pages, b.EventsSince(len(pages))...)
	}
	wg.Wait()
	pages = append(pages, b.EventsSince(len(pages))...)
	if len(pages) < 600 || !slices.Equal(pages, b.Events()[:len(pages)]) {
		t.Fatalf("the pages hold %d events and are not the log", len(pages))
	}
	next := map[string]int{}
	for i, e := range pages {
		next[e.Sensor]++
		if e.Seq != next[e.Sensor] || i > 0 && e.At.Before(pages[i-1].At) {
			t.Fatalf("event %d of the log is out of order: %+v", i, e)
		}
	}
	if len(b.EventsSince(1<<30)) > 0 || len(b.EventsSince(-1)) < 600 {
		t.Error("a page from beyond the log must be empty, one from before it the log")
	}
}
