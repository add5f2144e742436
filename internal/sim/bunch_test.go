package sim

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// alike are sensors that are always awake, with one event an hour, of which the planner
// knows. The last dead of them never answer.
func alike(n, dead int) []Sensor {
	out := make([]Sensor, n)
	for i := range out {
		out[i] = Sensor{Plan: sleepplan.AlwaysOn(), Rate: 1.0 / 3600, Listed: fleet.Sensor{
			ID: fmt.Sprintf("s%05d", i), URI: fmt.Sprintf("coap://s%05d.example", i), Weight: 1,
			MaxCrawls: fleet.NoCap, Rate: 1.0 / 3600, RateFixed: true, Plan: sleepplan.AlwaysOn()}}
		if i >= n-dead {
			out[i].Out, out[i].Uncounted = 1, true
		}
	}
	return out
}

// crowding is what a fleet of sensors alike made of some ranges.
type crowding struct {
	spent int     // visits
	last  float64 // the largest share of a range's visits in its last twentieth
	worth float64 // expected latency over that of even gaps
}

// crowdOf runs a fleet behind a server that makes capacity starts per second, one after
// another, and has one crawl a range for each sensor. told is the capacity that the planner
// knows of.
func crowdOf(t *testing.T, sensors []Sensor, length time.Duration, capacity, told, ranges int) (
	c crowding) {
	t.Helper()
	par := dayParameters()
	par.Range, par.PerSensor, par.Capacity = length, 1, told
	par.Polling.MinGap = time.Second // of re-plans too, and below the shortest range
	daemon := newBadClock(t, sensors, par, 1, dayStart.Add(time.Duration(ranges)*length))
	daemon.pace = newPace(capacity)
	counted := 0.0
	for i := range sensors {
		daemon.run.order = append(daemon.run.order, daemon.run.sensors[sensors[i].Listed.ID])
		if !sensors[i].Uncounted {
			counted++
		}
	}
	const parts = 20
	starts := make([][parts]int, ranges)
	daemon.watch = func(_ visit.Visit, real, _ time.Time) {
		into := real.Sub(dayStart)
		starts[into/length][into%length*parts/length]++
		c.spent++
	}
	daemon.live()
	daemon.run.p = daemon.p
	daemon.run.finish()
	for k := range starts {
		c.last = max(c.last, float64(starts[k][parts-1])/float64(len(sensors)))
	}
	even := counted * float64(ranges) * sensors[0].Rate * length.Seconds() * length.Seconds() / 2
	c.worth = daemon.run.res.Expected / even
	t.Logf("starts of the last range, by its twentieths: %v", starts[ranges-1])
	return c
}

// Sensors that are awake always and alike have the same best instants, and the price by
// which a range looks ahead may put all of them at its end: a gap of one range is the same
// everywhere. There the server has no time to start them but what the plan leaves it. So all
// visits are made and latency is that of even gaps, also where a sensor is dead. A planner
// that does not know the server's capacity loses visits and freshness.
func TestSensorsAlikeAreNotLateForTheirRange(t *testing.T) {
	t.Parallel()
	const n, ranges = 1000, 40
	ends := 0.0
	for _, c := range []struct {
		dead, told int
		length     time.Duration
		wrong      bool
	}{
		{0, 500, time.Hour, false},
		{1, 500, time.Hour, false},
		{10, 500, time.Hour, false},
		{1, 500, time.Minute, false},
		{1, 500, 4 * time.Second, false},
		{1, 0, time.Hour, true},
	} {
		got := crowdOf(t, alike(n, c.dead), c.length, 500, c.told, ranges)
		t.Logf("%d dead, capacity %d, %v: %d visits of %d, at most %.3f of a range's in its last "+
			"twentieth, %.4f of the latency of even gaps", c.dead, c.told, c.length, got.spent,
			ranges*n, got.last, got.worth)
		unused := ranges * (2*c.dead + 1) // by the dead ones and for their retries
		if fine := got.spent >= ranges*n-unused && got.worth < 1.02; fine == c.wrong {
			t.Errorf("passes: %v", fine)
		}
		ends = max(ends, got.last)
	}
	if ends < 0.9 {
		t.Errorf("no fleet came to the end of a range, at most %.3f of one", ends)
	}
}

// least is the least latency of n sensors alike, always awake and crawled at 0, over some
// ranges of so many ticks with theta crawls in each, in square ticks: over every way to
// share the budgets and every set of instants. What no crawl has seen waits to the end.
func least(n, theta, ranges int, ticks int) float64 {
	ways := 1 // to share a sensor's crawls out over the ranges, 0..2 in each
	for range ranges {
		ways *= 3
	}
	counts := func(way int) []int {
		c := make([]int, ranges)
		for k := range c {
			c[k], way = way%3, way/3
		}
		return c
	}
	alone := make([]float64, ways)
	for way := range ways {
		alone[way] = cheapest(counts(way), ticks)
	}
	// best[way]: the sensors so far, of which the budgets used are way's digits in base
	// theta+1.
	best := map[string]float64{string(make([]byte, ranges)): 0}
	for range n {
		next := map[string]float64{}
		for used, sum := range best {
			for way := range ways {
				if key, fits := together(used, counts(way), theta); fits {
					if was, seen := next[key]; !seen || sum+alone[way] < was {
						next[key] = sum + alone[way]
					}
				}
			}
		}
		best = next
	}
	all := math.Inf(1)
	for _, sum := range best {
		all = min(all, sum)
	}
	return all
}

// together adds a sensor's crawls to those of others, range by range.
func together(used string, counts []int, theta int) (key string, fits bool) {
	sum := []byte(used)
	for k, c := range counts {
		if sum[k] += byte(c); int(sum[k]) > theta {
			return "", false
		}
	}
	return string(sum), true
}

// cheapest is the least latency of one sensor with so many crawls in each range: over the
// instant of the last crawl, range by range.
func cheapest(counts []int, ticks int) float64 {
	half := func(gap int) float64 { return float64(gap*gap) / 2 }
	at := map[int]float64{0: 0} // least latency up to a last crawl
	for k, c := range counts {
		for range c {
			next := map[int]float64{}
			for last, sum := range at {
				for t := max(last+1, k*ticks); t < (k+1)*ticks; t++ {
					if was, seen := next[t]; !seen || sum+half(t-last) < was {
						next[t] = sum + half(t-last)
					}
				}
			}
			at = next
		}
	}
	all := math.Inf(1)
	for last, sum := range at {
		all = min(all, sum+half(len(counts)*ticks-last))
	}
	return all
}

// Against every way to crawl a few sensors alike over five ranges: plans made one range
// after another, that do not know the others, come near the best, crawls at the ends of
// ranges or not. Plans that do not look ahead are caught.
func TestSensorsAlikeAgainstAllPlans(t *testing.T) {
	const ranges, ticks = 5, 8
	ends := 0
	for n := 2; n <= 3; n++ {
		for theta := n - 1; theta <= n+1; theta++ {
			want := least(n, theta, ranges, ticks)
			run := func(end scheduler.EndRule, watch func(visit.Visit, time.Time)) float64 {
				par := OneRange(ticks*Tick, theta)
				par.End = end
				sensors := alike(n, 0)
				res, err := Run(Config{Sensors: sensors, Parameters: par, Start: Epoch, Crawled: true,
					Duration: ranges * ticks * Tick, Watch: watch})
				if err != nil {
					t.Fatal(err)
				}
				return res.Expected / sensors[0].Rate / Tick.Seconds() / Tick.Seconds() / want
			}
			last := 0
			got := run(scheduler.Lookahead, func(_ visit.Visit, now time.Time) {
				if now.Sub(Epoch)/Tick%ticks == ticks-1 {
					last++
				}
			})
			blind := run(scheduler.Carry, nil)
			t.Logf("%d sensors, %d crawls a range: %.4f of the least latency, %d crawls in last ticks; "+
				"without look-ahead %.4f", n, theta, got, last, blind)
			if got < 1-1e-9 || got > 1.03 || blind < 1.03 {
				t.Errorf("%.4f of the least latency, without look-ahead %.4f", got, blind)
			}
			ends += last
		}
	}
	if ends < 5 {
		t.Errorf("only %d crawls in last ticks", ends)
	}
}
