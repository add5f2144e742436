package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/sleepplan"
)

// The fleet of Guard wakes guardWindows times in a range, every guardPeriod, and is
// crawled in two windows of three.
const (
	guardRanges  = 8
	guardWindows = 18
	guardCrawls  = 12
	guardPeriod  = 20 * time.Minute
	guardTick    = 100 * time.Millisecond
)

var (
	guards     = []int{0, 1, 2, 3, 5, 10, 20, 45} // seconds
	guardAwake = []int{60, 300, 900}              // seconds per window
	guardSkews = []float64{0, 1, 3, 10}           // seconds
)

// Guard moves the last legal start of every window ahead of its end, for sensors whose
// clocks are right and for those whose clocks are off, and compares with a guard of 0
// where clocks are right.
func (c Online) Guard() (*figure.Figure, error) {
	n := cmp.Or(c.Sensors, 30)
	f := &figure.Figure{ID: "online-guard", Title: fmt.Sprintf("Guard before a window's end, "+
		"%d crawls in %d windows, N = %d", guardCrawls, guardWindows, n), Notes: []string{
		"Skew is the standard deviation of a window's true ends from the listed ones.",
		fmt.Sprintf("Every window is %v from the next; ranges %d to %d of %d are counted.",
			guardPeriod, guardRanges/2+1, guardRanges, guardRanges)}}
	auto := curves{}
	for _, awake := range guardAwake {
		fixed, err := c.sweep(&auto, n, awake)
		if err != nil {
			return nil, err
		}
		f.Panels = append(f.Panels, figure.Panel{Title: fmt.Sprintf("windows of %d s", awake),
			X:      figure.Axis{Label: "guard", Unit: "s"},
			Y:      figure.Axis{Label: "latency / no guard, no skew"},
			Series: fixed.series()})
		for _, skew := range guardSkews {
			best := bestGuard(fixed, skew)
			for _, latency := range fixed.runs[skewName(skew)][float64(best)] {
				auto.add(fmt.Sprintf("best fixed, windows of %d s", awake), skew, latency)
			}
			f.Facts = append(f.Facts, figure.Fact{Unit: "s", Value: float64(best),
				Name: fmt.Sprintf("best guard, windows of %d s, skew %v s", awake, skew)})
		}
	}
	f.Panels = append(f.Panels, figure.Panel{Title: "best fixed guard and the automatic one",
		X:      figure.Axis{Label: "skew", Unit: "s"},
		Y:      figure.Axis{Label: "latency / no guard, no skew"},
		Series: auto.series()})
	return f, nil
}

// bestGuard is the one of guards with the least latency on the average of all runs.
func bestGuard(fixed *curves, skew float64) int {
	return slices.MinFunc(guards, func(a, b int) int {
		return cmp.Compare(fixed.mean(skewName(skew), float64(a)),
			fixed.mean(skewName(skew), float64(b)))
	})
}

func skewName(skew float64) string { return fmt.Sprintf("skew %v s", skew) }

// sweep runs all guards at all skews for one length of windows, and adds what the
// automatic guard gives to auto.
func (c Online) sweep(auto *curves, n, awake int) (*curves, error) {
	var fixed curves
	for run := range c.Runs {
		cfg, err := c.guarded(run, n, awake)
		if err != nil {
			return nil, err
		}
		base, err := laterHalf(cfg)
		if err != nil {
			return nil, err
		}
		for _, skew := range guardSkews {
			for i := range cfg.Sensors {
				cfg.Sensors[i].Skew = time.Duration(skew * float64(time.Second))
			}
			for _, g := range guards {
				cfg.Parameters.Guard = time.Duration(g) * time.Second
				wait, err := laterHalf(cfg)
				if err != nil {
					return nil, err
				}
				fixed.add(skewName(skew), float64(g), wait/base)
			}
			cfg.Parameters.Guard, cfg.Parameters.GuardAuto = 0, true
			wait, err := laterHalf(cfg)
			if err != nil {
				return nil, err
			}
			cfg.Parameters.GuardAuto = false
			auto.add(fmt.Sprintf("automatic, windows of %d s", awake), skew, wait/base)
		}
	}
	return &fixed, nil
}

// guarded is a fleet of equal duty cycles and rates, each at its own phase.
func (c Online) guarded(run, n, awake int) (Config, error) {
	rng := rand.New(rand.NewPCG(c.Seed+uint64(run), uint64(awake)))
	length := guardWindows * guardPeriod
	cfg := Config{Start: Epoch, Duration: guardRanges * length, Seed: c.Seed + uint64(run),
		Crawled: true, Parameters: planner.Parameters{Range: length, Tick: guardTick, Step: 1,
			Budget: guardCrawls * n, Polling: polling()}}
	for i := range n {
		phase := time.Duration(rng.Int64N(int64(guardPeriod/guardTick))) * guardTick
		s, err := cycling(i, guardPeriod, time.Duration(awake)*time.Second, phase, 1/Unit.Seconds())
		if err != nil {
			return Config{}, err
		}
		cfg.Sensors = append(cfg.Sensors, s)
	}
	return cfg, nil
}

// cycling is a sensor with a duty cycle, of weight 1 and without cap.
func cycling(i int, period, awake, phase time.Duration, rate float64) (Sensor, error) {
	plan, err := sleepplan.Cycle(period, awake, Epoch.Add(phase))
	if err != nil {
		return Sensor{}, fmt.Errorf("sim: sensor %d: %w", i, err)
	}
	return Sensor{Plan: plan, Rate: rate, Listed: fleet.Sensor{
		ID: fmt.Sprintf("s%06d", i), URI: fmt.Sprintf("coap://s%06d.example", i), Plan: plan,
		Weight: 1, MaxCrawls: fleet.NoCap, Rate: rate, RateFixed: true}}, nil
}
