package sim

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/sleepplan"
)

// Unit is the time unit of the EasiCrawl paper's simulations, and Tick how finely
// they are planned here.
const (
	Unit = time.Minute
	Tick = Unit / 100
)

// Epoch is when simulations of a time range start.
var Epoch = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// Family draws sensors with awake and asleep lengths uniform between bounds in
// Units. The EasiCrawl paper does not give its generator, so each of its figures
// is made for four families that bracket it.
type Family struct {
	Name          string
	Awake, Asleep [2]float64
}

// Families are the four.
func Families() []Family {
	return []Family{
		{"short", [2]float64{2, 10}, [2]float64{5, 25}},
		{"half", [2]float64{5, 20}, [2]float64{5, 20}},
		{"long", [2]float64{20, 60}, [2]float64{10, 40}},
		{"tiny", [2]float64{1, 3}, [2]float64{10, 40}},
	}
}

// FamilyNamed finds a family.
func FamilyNamed(name string) (Family, error) {
	for _, f := range Families() {
		if f.Name == name {
			return f, nil
		}
	}
	return Family{}, fmt.Errorf("sim: no family %q: there are short, half, long and tiny", name)
}

// Fleet draws n sensors of weight 1, without cap, with event rates uniform in
// [0,1) per Unit that the planner knows, and sleep plans for length from Epoch.
func (f Family) Fleet(rng *rand.Rand, n int, length time.Duration) ([]Sensor, error) {
	sensors := make([]Sensor, n)
	for i := range sensors {
		plan, err := sleepplan.Explicit(f.windows(rng, length))
		if err != nil {
			return nil, fmt.Errorf("sim: sensor %d: %w", i, err)
		}
		rate := rng.Float64() / Unit.Seconds()
		sensors[i] = Sensor{Plan: plan, Rate: rate, Listed: fleet.Sensor{
			ID: fmt.Sprintf("s%06d", i), URI: fmt.Sprintf("coap://s%06d.example", i), Plan: plan,
			Weight: 1, MaxCrawls: fleet.NoCap, Rate: rate, RateFixed: true}}
	}
	return sensors, nil
}

// windows begins anywhere in a cycle, and goes on for twice the length so that a
// range may look ahead.
func (f Family) windows(rng *rand.Rand, length time.Duration) []sleepplan.Window {
	between := func(b [2]float64) time.Duration {
		d := b[0] + (b[1]-b[0])*rng.Float64()
		return (time.Duration(d * float64(Unit))).Round(Tick)
	}
	var windows []sleepplan.Window
	at := Epoch.Add(-time.Duration(rng.Float64() * (f.Awake[1] + f.Asleep[1]) * float64(Unit)).Round(Tick))
	for at.Before(Epoch.Add(2*length + Unit)) {
		end := at.Add(max(Tick, between(f.Awake)))
		if end.After(Epoch) {
			windows = append(windows, sleepplan.Window{Start: later(at, Epoch), End: end})
		}
		at = end.Add(max(Tick, between(f.Asleep)))
	}
	return windows
}

// OneRange are the planner's parameters for a single range of the papers' kind:
// no guard, no limit on starts, the whole budget for planned crawls.
func OneRange(length time.Duration, theta int) planner.Parameters {
	return planner.Parameters{Range: length, Tick: Tick, Step: 1, Budget: theta,
		Lead: Tick, Polling: polling()}
}

// polling is what the planner wants to know about sensors without sleep plan; the
// papers' simulations have none.
func polling() dpt.Params {
	return dpt.Params{Policy: dpt.DPTN, Bootstrap: 5 * Unit, MinGap: Tick, MaxGap: 60 * Unit}
}
