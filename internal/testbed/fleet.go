package testbed

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// fleetSpan is how far from now Fleet writes windows that do not repeat.
const fleetSpan = 30 * time.Minute

// Fleet returns the Specs of the demo: n sensors (40 or more show every kind)
// whose plans begin around now. Names tell the kind. Of 20 sensors
//
//	4 always    on
//	6 cycle     duty-cycled: awake 10 .. 40 % of a period of 4 .. 20 s
//	3 weekly    windows of 8 .. 20 s after gaps of 30 .. 60 s, as entries in UTC
//	3 irregular windows of 3 .. 30 s after gaps of 5 .. 90 s, listed one by one
//	3 hidden    duty-cycled, awake 30 .. 60 %; the operator does not know it
//	1 hidden    irregular ones, likewise
//
// Weekly and irregular windows are written for the next 30 minutes; after them
// these sensors sleep. Across the kinds every 4th sensor loses 10 .. 20 % of its
// datagrams, every 5th answers separately, and every 6th serves 300 to 700 bytes
// in blocks of 64. The last one is dead. Rates are spread evenly over the
// logarithm of 0.02/s .. 0.5/s of awake time. The same arguments give the same
// Specs.
func Fleet(seed uint64, n int, now time.Time) []Spec {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	now = now.Round(0).Truncate(time.Second)
	specs := make([]Spec, 0, max(n, 0))
	for i := range n {
		s := planned(rng, i, now)
		s.Rate = math.Round(1e4*0.02*math.Pow(25, rng.Float64())) / 1e4
		if i%4 == 1 {
			s.Loss = between(rng, 0.1, 0.2)
		}
		s.Separate = i%5 == 2
		if i%6 == 3 {
			s.Block, s.Size = 64, 300+rng.IntN(400)
		}
		if i == n-1 {
			s.Name, s.Fault = fmt.Sprintf("dead-%02d", n), FaultDead
		}
		specs = append(specs, s)
	}
	return specs
}

// planned is the i-th sensor's name and plan.
func planned(rng *rand.Rand, i int, now time.Time) Spec {
	kind, plan, hidden := "always", sleepplan.AlwaysOn(), false
	switch k := i % 20; {
	case k < 4:
	case k < 10:
		kind, plan = "cycle", cycle(rng, 0.1, 0.4, now)
	case k < 13:
		kind, plan = "weekly", weekly(rng, now)
	case k < 16:
		kind, plan = "irregular", irregular(rng, now)
	case k < 19:
		kind, plan, hidden = "hidden", cycle(rng, 0.3, 0.6, now), true
	default:
		kind, plan, hidden = "hidden", irregular(rng, now), true
	}
	return Spec{Name: fmt.Sprintf("%s-%02d", kind, i+1), Plan: plan, Hidden: hidden}
}

func cycle(rng *rand.Rand, least, most float64, now time.Time) sleepplan.Plan {
	period := seconds(rng, 4, 20)
	awake := time.Duration(between(rng, least, most) * float64(period)).Truncate(time.Millisecond)
	return must(sleepplan.Cycle(period, awake, now.Add(-seconds(rng, 0, 20))))
}

func weekly(rng *rand.Rand, now time.Time) sleepplan.Plan {
	var entries []string
	for _, w := range windows(rng, now.UTC(), [4]float64{8, 20, 30, 60}, time.Second) {
		day := strings.ToLower(w.Start.Weekday().String()[:3])
		entries = append(entries, fmt.Sprintf("%s %s-%s",
			day, w.Start.Format(time.TimeOnly), w.End.Format(time.TimeOnly)))
	}
	return must(sleepplan.Weekly(entries, "UTC", nil))
}

func irregular(rng *rand.Rand, now time.Time) sleepplan.Plan {
	ws := windows(rng, now, [4]float64{3, 30, 5, 90}, time.Millisecond)
	return must(sleepplan.Explicit(ws))
}

// windows draws awake times and gaps from now to the end of fleetSpan. spread
// holds the least and most seconds awake, and those of a gap.
func windows(
	rng *rand.Rand, now time.Time, spread [4]float64, grain time.Duration,
) []sleepplan.Window {
	var ws []sleepplan.Window
	at := now
	for at.Before(now.Add(fleetSpan)) {
		end := at.Add(seconds(rng, spread[0], spread[1]).Truncate(grain))
		ws = append(ws, sleepplan.Window{Start: at, End: end})
		at = end.Add(seconds(rng, spread[2], spread[3]).Truncate(grain))
	}
	return ws
}

func seconds(rng *rand.Rand, least, most float64) time.Duration {
	s := time.Duration(between(rng, least, most) * float64(time.Second))
	return s.Truncate(time.Millisecond)
}

func between(rng *rand.Rand, least, most float64) float64 {
	return least + (most-least)*rng.Float64()
}

// must is for plans whose parts are drawn within what the constructors take.
func must(p sleepplan.Plan, err error) sleepplan.Plan {
	if err != nil {
		panic(fmt.Sprintf("testbed: plan of the demo: %v", err))
	}
	return p
}
