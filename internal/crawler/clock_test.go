package crawler

import (
	"context"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/crawld/crawld/internal/mutant"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// badClock names the environment variable with which TestUnderBadClock is a test.
const badClock = "CRAWLD_BAD_CLOCK"

// wallOff is how far the wall clock of skewed is from that of the bubble, whole seconds.
var wallOff atomic.Int64

// skewed is time.Now under a wall clock that somebody has set, while monotonic time goes
// on as the bubble's does. No function of package time makes such an instant, so that this
// writes it in place.
func skewed() time.Time {
	now := time.Now()
	t := now
	layout := (*struct {
		wall uint64 // 1 bit: there is monotonic time, 33 bits: seconds since 1885, 30 bits: ns
		ext  int64  // monotonic time, ns
		loc  *time.Location
	})(unsafe.Pointer(&t))
	seconds := now.Unix() + wallOff.Load() - time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	layout.wall = 1<<63 | uint64(seconds)<<30 | uint64(now.Nanosecond())
	layout.ext = now.UnixNano()
	return t
}

// The loop is built with a clock that a test sets, which no bubble of virtual time can.
func TestFollowsTheWallClock(t *testing.T) {
	overlay, err := mutant.Overlay(t.TempDir(), "loop.go", mutant.Change{
		Old: "	read := time.Now()\n	by :=", New: "	read := skewed()\n	by :="})
	if err != nil {
		t.Fatal(err)
	}
	run := func(overlay string) (string, error) {
		cmd := exec.Command("go", "test", "-overlay", overlay, "-count=1", "-v",
			"-run", "^TestUnderBadClock$", ".")
		cmd.Env = append(os.Environ(), badClock+"=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run(overlay); err != nil || !strings.Contains(out, "--- PASS") {
		t.Fatalf("%v\n%s", err, out)
	}
	deaf, err := mutant.Overlay(t.TempDir(), "loop.go", mutant.Change{
		Old: "	read := time.Now()\n	by :=", New: "	read := skewed()\n	by :="},
		mutant.Change{Old: "	c.p.Jump(by, wall(read))\n", New: ""})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := run(deaf); err == nil || !strings.Contains(out, "--- FAIL: TestUnderBadClock") {
		t.Errorf("a loop that tells the planner of no jump passes: %v\n%s", err, out)
	}
}

// However the wall clock is set, visits start in their windows by it, outcomes are stored
// as of the clock that then holds, and the budget is one of time as it passes.
func TestUnderBadClock(t *testing.T) {
	if os.Getenv(badClock) == "" {
		t.Skip("run by TestFollowsTheWallClock with a clock that can be set")
	}
	synctest.Test(t, func(t *testing.T) {
		start := skewed()
		wallOff.Store(3600)
		if took := skewed().Sub(start); took != 0 || !wall(skewed()).Equal(wall(start).Add(time.Hour)) {
			t.Fatalf("an hour's jump looks like %v, %v", took, skewed())
		}
		wallOff.Store(0)
		list := plans(20, func(i int) sleepplan.Plan {
			p, err := sleepplan.Cycle(time.Minute, 20*time.Second, start.Add(time.Duration(i)*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			return p
		})
		listed := map[string]sleepplan.Plan{}
		for _, s := range list {
			listed[s.ID] = s.Plan
		}
		r := newRig(t, list, 0)
		r.crawler.base = skewed()
		var attempts atomic.Int64
		var ahead sync.Map // sensor -> its outcome was told in the future
		r.crawler.o.Fetch = func(ctx context.Context, v visit.Visit) visit.Outcome {
			attempts.Add(1)
			o := visit.Outcome{Visit: v, Result: visit.Unchanged, Contact: true, Started: skewed()}
			if !listed[v.Sensor].Awake(wall(o.Started)) {
				t.Errorf("%s asked at %v, asleep", v.Sensor, wall(o.Started))
			}
			time.Sleep(time.Second)
			o.Ended = skewed()
			return o
		}
		r.crawler.o.Store = func(o visit.Outcome, _ []byte, done func(error)) {
			if age := wall(skewed()).Sub(o.Ended); age < 0 || age > time.Minute+maxJump {
				ahead.Store(o.Sensor, age)
			}
			done(nil)
		}
		jumps := setClock(t, r)
		r.run(10 * time.Hour)
		ahead.Range(func(sensor, age any) bool {
			t.Errorf("%v: an outcome was stored as %v old", sensor, age)
			return true
		})
		if n := attempts.Load(); n < 60*60/2 || n > 61*60 { // 60 ranges of 20 times 3
			t.Errorf("%d attempts in 60 ranges of 60", n)
		}
		if n := r.metric("crawld_clock_jumps_total", "", ""); n < float64(jumps.Load())/2 {
			t.Errorf("%v jumps noticed of %d", n, jumps.Load())
		}
	})
}

// setClock sets the clock again and again, in the midst of visits too, while the crawler
// runs.
func setClock(t *testing.T, r *rig) (jumps *atomic.Int64) {
	jumps = &atomic.Int64{}
	rng := rand.New(rand.NewPCG(1, 2))
	go func() {
		for {
			select {
			case <-time.After(time.Duration(rng.IntN(600)) * 500 * time.Millisecond):
			case <-r.crawler.stopped:
				return
			}
			synctest.Wait() // what the loop has read must not be old before it is used
			wallOff.Store([]int64{0, 1, -1, 3600, -3600, 365 * 86400, -365 * 86400, 90}[rng.IntN(8)])
			jumps.Add(1)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			_ = r.crawler.Do(ctx, func(p *planner.Planner, now time.Time) {
				if rec := p.Record("s000"); rec.LastAttempt.After(now.Add(maxJump)) {
					t.Errorf("last attempt %v after now", rec.LastAttempt.Sub(now))
				}
			})
			cancel()
		}
	}()
	return jumps
}
