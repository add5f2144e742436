package planner

import (
	"fmt"
	"math"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/scheduler"
)

// DefaultGuard stands before a window's end until a sensor's own spread is
// known: two seconds absorb ordinary clock skew, and cost little in any window
// that is long enough to be crawled at all.
const DefaultGuard = 2 * time.Second

// maxExchange bounds a visit: MAX_TRANSMIT_WAIT of RFC 7252 section 4.8.2, after
// which no answer to a confirmable request can be expected any more.
const maxExchange = 93 * time.Second

// probeWait bounds a non-confirmable probe: it is sent once, so all that is
// waited for is one round trip and the sensor's time to think.
const probeWait = 10 * time.Second

// fullEvery makes every n-th visit fetch the body without an ETag, because an
// ETag is not content identity on every server.
const fullEvery = 24

// Parameters are what the operator turns. They hold for the whole fleet.
type Parameters struct {
	Range      time.Duration // T, the time range that is planned at once
	Tick       time.Duration // resolution of instants
	Step       int64         // step of the grid in ticks, >= 1
	End        scheduler.EndRule
	Candidates scheduler.CandidateRule
	Objective  scheduler.Objective
	Guard      time.Duration // before a window's end no start is planned
	GuardAuto  bool          // Guard is learned per sensor, never over half a window
	Budget     int           // theta per range; 0 = PerSensor times the fleet's size
	PerSensor  float64       // crawls per sensor and range, when Budget is 0
	Capacity   int           // starts per second; 0 = no limit
	Lead       time.Duration // how long before a range its problem is taken; 0 = Range/20
	Polling    dpt.Params    // for sensors whose sleep plan is unknown
	Groups     []Group       // whose members are polled together; a sensor's first one times it

	// Algorithm replaces the one-price solver. The simulator's baselines use
	// it; with it set, a failed crawl is lost instead of re-planned, as the
	// baselines of the EasiCrawl paper have it.
	Algorithm scheduler.Algorithm
	Seed      uint64 // for Algorithms that draw
}

// Theta is the budget of a range for a fleet of that many sensors, at least 1.
func (p Parameters) Theta(sensors int) int {
	if p.Budget > 0 {
		return p.Budget
	}
	theta := math.Floor(p.PerSensor*float64(sensors) + 1e-9)
	return int(min(max(theta, 1), math.MaxInt32))
}

func (p Parameters) lead() time.Duration {
	if p.Lead > 0 {
		return min(p.Lead, p.Range)
	}
	return p.Range / 20
}

// guard is what stands before the ends of a sensor's windows: what the operator
// set, or what its own visits have shown to cost least.
// A learned plan's edges are known only so well, and edge is what that asks for.
func (p Parameters) guard(r *Record, edge time.Duration) time.Duration {
	switch {
	case !p.GuardAuto:
		return max(p.Guard, edge)
	case len(r.Margins) == 0:
		return max(DefaultGuard, edge)
	}
	return max(r.Guard, edge)
}

// guardTicks rounds up: a guard may be longer than asked for, never shorter.
func (p Parameters) guardTicks(guard time.Duration) int64 {
	return int64((guard + p.Tick - 1) / p.Tick)
}

func (p Parameters) length() int64 { return int64(p.Range / p.Tick) }

// Validate reports the first parameter that no plan can be made with.
func (p Parameters) Validate() error {
	switch {
	case p.Tick <= 0:
		return fmt.Errorf("planner: tick %v must be positive", p.Tick)
	case p.length() < 1:
		return fmt.Errorf("planner: range %v is shorter than a tick of %v", p.Range, p.Tick)
	case p.Step < 1:
		return fmt.Errorf("planner: step of %d ticks must be at least 1", p.Step)
	case p.Budget < 0 || p.Budget == 0 && !(p.PerSensor > 0):
		return fmt.Errorf("planner: the budget must be positive")
	case p.Guard < 0:
		return fmt.Errorf("planner: guard %v must not be negative", p.Guard)
	}
	if err := checkGroups(p.Groups); err != nil {
		return err
	}
	return p.Polling.Validate()
}
