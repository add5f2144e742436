package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/visit"
)

// The fleet of Peak is awake for a minute every ten, for an hour.
const (
	peakPeriod = 10 * time.Minute
	peakAwake  = time.Minute
	peakRange  = time.Hour
	peakCrawls = 3 // theta/N
	// peakRounds bring the dual bound within a tenth of a percent of where it ends.
	peakRounds = 300
)

var peakCapacities = []int{30, 15, 8, 5} // starts per second

// peakFleets are how many of its sensors wake at the same time.
var peakFleets = []struct {
	name  string
	every int // one in so many
}{{"all aligned", 1}, {"half aligned", 2}}

// Peak limits the starts per second of a fleet whose windows end all at once, and
// compares what that costs with what it costs at least.
func (c Online) Peak() (*figure.Figure, error) {
	n := cmp.Or(c.Sensors, 300)
	var latency, largest, dropped curves
	for run := range c.Runs {
		for _, fleet := range peakFleets {
			cfg, err := c.aligned(run, n, fleet.every)
			if err != nil {
				return nil, err
			}
			free, err := crowd(cfg)
			if err != nil {
				return nil, err
			}
			for _, capacity := range peakCapacities {
				x := float64(capacity)
				cfg.Parameters.Capacity = capacity
				got, err := crowd(cfg)
				if err != nil {
					return nil, err
				}
				bound, err := scheduler.PeakBound(got.problem, peakRounds)
				if err != nil {
					return nil, err
				}
				latency.add(fleet.name+", spill-back", x, got.expected/free.expected)
				latency.add(fleet.name+", at least", x, bound/free.expected)
				largest.add(fleet.name, x, float64(got.largest))
				largest.add(fleet.name+", no limit", x, float64(free.largest))
				dropped.add(fleet.name, x, float64(got.dropped))
			}
		}
	}
	x := figure.Axis{Label: "capacity", Unit: "starts/s", Log: true}
	f := &figure.Figure{ID: "online-peak", Title: fmt.Sprintf("Coinciding window ends, "+
		"N = %d, theta = %dN", n, peakCrawls),
		Panels: []figure.Panel{
			{Title: "latency at a capacity", X: x, Y: figure.Axis{Label: "latency / no limit"},
				Series: latency.series()},
			{Title: "starts in the busiest second", X: x, Y: figure.Axis{Label: "starts", Log: true},
				Series: largest.series()},
		},
		Notes: []string{"At least: no plan within budget and capacity can cost less (a dual bound)."},
	}
	for _, name := range dropped.names {
		for _, capacity := range peakCapacities {
			f.Facts = append(f.Facts, figure.Fact{Value: dropped.mean(name, float64(capacity)),
				Name: fmt.Sprintf("%s, %d starts/s, crawls dropped", name, capacity)})
		}
	}
	return f, nil
}

// crowded is what came of a range with a capacity.
type crowded struct {
	problem  *scheduler.Problem // as the planner posed it
	expected float64
	largest  int // starts in one second
	dropped  int
}

// crowd runs a single range and keeps the problem that was solved in it.
func crowd(c Config) (crowded, error) {
	var got crowded
	c.Parameters.Algorithm = func(p *scheduler.Problem, _ *rand.Rand) (*scheduler.Solution, error) {
		got.problem = p
		return scheduler.Solve(p, 1)
	}
	c.Planned = func(plan *planner.Plan) { got.dropped = plan.Solution.Dropped }
	starts := make([]int, c.Duration/time.Second)
	c.Watch = func(_ visit.Visit, now time.Time) { starts[now.Sub(c.Start)/time.Second]++ }
	res, err := Run(c)
	got.expected, got.largest = res.Expected, slices.Max(starts)
	return got, err
}

// aligned is a fleet of which one sensor in every is awake in the middle of the periods,
// the others at a phase of their own.
func (c Online) aligned(run, n, every int) (Config, error) {
	rng := rand.New(rand.NewPCG(c.Seed+uint64(run), uint64(every)))
	cfg := Config{Start: Epoch, Duration: peakRange, Seed: c.Seed + uint64(run), Crawled: true,
		Parameters: planner.Parameters{Range: peakRange, Tick: time.Second, Step: 1,
			End: scheduler.Carry, Budget: peakCrawls * n, Polling: polling()}}
	for i := range n {
		phase := time.Duration(rng.Int64N(int64(peakPeriod/time.Second))) * time.Second
		if i%every == 0 {
			phase = (peakPeriod - peakAwake) / 2
		}
		s, err := cycling(i, peakPeriod, peakAwake, phase, rng.Float64()/Unit.Seconds())
		if err != nil {
			return Config{}, err
		}
		cfg.Sensors = append(cfg.Sensors, s)
	}
	return cfg, nil
}
