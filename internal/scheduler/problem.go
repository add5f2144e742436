package scheduler

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// EndRule says what happens at the end of a range.
type EndRule uint8

// The end rules. Under each the events that no crawl has seen are paid for up
// to a sink.
const (
	// Lookahead plans Extra ticks more at the last price and counts only the
	// crawls of the range. The sink stands half a gap after the look-ahead, or
	// half a gap after the range when the sleep plan is not known that far.
	Lookahead EndRule = iota
	// Carry puts the sink at the range's end; the next range takes over what
	// is left.
	Carry
	// Fixed crawls every sensor at its last legal instant of the range, as the
	// EasiCrawl paper does (section IV-B). It needs a crawl per awake sensor.
	Fixed
)

var endRuleNames = [...]string{"lookahead", "carry", "fixed"}

// String is the rule's name in configuration files.
func (r EndRule) String() string { return ruleName("EndRule", endRuleNames[:], uint8(r)) }

// MarshalText writes the rule's name.
func (r EndRule) MarshalText() ([]byte, error) {
	return marshalRule("end rule", endRuleNames[:], uint8(r))
}

// UnmarshalText reads one of "lookahead", "carry" and "fixed".
func (r *EndRule) UnmarshalText(text []byte) error {
	v, err := parseRule("end rule", endRuleNames[:], string(text))
	*r = EndRule(v)
	return err
}

// CandidateRule says at which instants a crawl may be planned.
type CandidateRule uint8

// The candidate rules.
const (
	// Ends takes, per window, its first and last legal instant and interior
	// points a tenth of the expected crawl gap apart. The chosen ones are then
	// polished on single ticks.
	Ends CandidateRule = iota
	// Grid takes every legal multiple of Step and the last legal instant of the
	// range, as the EasiCrawl paper does (section III-B), without polish.
	Grid
)

var candidateRuleNames = [...]string{"ends", "grid"}

// String is the rule's name in configuration files.
func (r CandidateRule) String() string {
	return ruleName("CandidateRule", candidateRuleNames[:], uint8(r))
}

// MarshalText writes the rule's name.
func (r CandidateRule) MarshalText() ([]byte, error) {
	return marshalRule("candidate rule", candidateRuleNames[:], uint8(r))
}

// UnmarshalText reads one of "ends" and "grid".
func (r *CandidateRule) UnmarshalText(text []byte) error {
	v, err := parseRule("candidate rule", candidateRuleNames[:], string(text))
	*r = CandidateRule(v)
	return err
}

func ruleName(kind string, names []string, v uint8) string {
	if int(v) < len(names) {
		return names[v]
	}
	return fmt.Sprintf("%s(%d)", kind, v)
}

func marshalRule(kind string, names []string, v uint8) ([]byte, error) {
	if int(v) >= len(names) {
		return nil, fmt.Errorf("scheduler: no %s has number %d", kind, v)
	}
	return []byte(names[v]), nil
}

func parseRule(kind string, names []string, text string) (uint8, error) {
	for v, name := range names {
		if text == name {
			return uint8(v), nil
		}
	}
	return 0, fmt.Errorf("scheduler: unknown %s %q, use one of %q", kind, text, names)
}

// Objective says what a crawl is taken to cost when a plan is made. What a
// Solution reports is always the exact cost (W).
type Objective uint8

// The objectives.
const (
	// Exact is (W), the expected latency of a Poisson process.
	Exact Objective = iota
	// Paper is equation (5) of the EasiCrawl paper, applied to sleeping sensors by
	// its equations (6) and (8) as they are meant. It serves comparison only, and
	// needs Demand.Rate.
	Paper
)

var objectiveNames = [...]string{"exact", "paper"}

// String is the objective's name in configuration files.
func (o Objective) String() string { return ruleName("Objective", objectiveNames[:], uint8(o)) }

// MarshalText writes the objective's name.
func (o Objective) MarshalText() ([]byte, error) {
	return marshalRule("objective", objectiveNames[:], uint8(o))
}

// UnmarshalText reads "exact" or "paper".
func (o *Objective) UnmarshalText(text []byte) error {
	v, err := parseRule("objective", objectiveNames[:], string(text))
	*o = Objective(v)
	return err
}

// Demand is what one sensor asks of a range. Ticks count from the range's start.
type Demand struct {
	// Coef is c = omega lambda, weighted events per awake second, >= 0. A sensor
	// with 0 is never crawled.
	Coef float64
	// Rate is lambda, events per awake second. Only the Paper objective reads it:
	// there it must be > 0 where Coef is.
	Rate float64
	// Yield is the share of attempts that succeed, in (0, 1]; 0 stands for 1. An
	// attempt at this sensor then costs mu / Yield per success.
	Yield float64
	// Cap is gamma, the most crawls in the range; negative means none is set.
	Cap int
	// Spans are the awake windows, sorted and disjoint, up to the known horizon.
	// Ticks before Source are ignored, so sensors may share a slice; it is never
	// written. Touching spans are one window.
	Spans []sleepplan.Span
	// Source is the tick of the last successful crawl: <= 0, or <= From in a
	// re-plan.
	Source int64
	// Backlog is the number of awake ticks after Source that Spans leaves out
	// because they are long past. They count as waiting since tick 0 (or since
	// Source, where that is later): what they waited before is sunk and changes
	// no decision.
	Backlog int64
	// From is the first legal instant, >= 0; in a re-plan, now.
	From int64
	// Guard ticks before a window's last tick no crawl starts: the last legal
	// instant is max(Start, End-1-Guard).
	Guard int64
	// GuardHalf limits the guard of each window to half the window's length.
	GuardHalf bool
	// Gap is the expected time between crawls in ticks, see Gaps. It spaces
	// interior candidates (Ends) and places the sink (Lookahead); > 0 there.
	Gap float64
	// Known is the tick up to which the sleep plan is known, math.MaxInt64 for
	// ever. Short of Length+Extra there is no look-ahead for this sensor.
	Known int64
}

// Problem is one range's question: N sensors, one budget.
type Problem struct {
	Tick       time.Duration // length of a tick, > 0
	Length     int64         // T in ticks, >= 1
	Extra      int64         // look-ahead in ticks, see Extra; used under Lookahead only
	End        EndRule
	Objective  Objective
	Candidates CandidateRule
	Step       int64   // step of Grid in ticks, >= 1 there
	Budget     int     // theta, most crawls of the range, >= 0
	Price      float64 // mu of the last range, weighted latency seconds per crawl; 0 = none yet
	Capacity   int     // starts per second the server can make, 0 = no limit
	Demands    []Demand
}

// Arrangement is the number of crawls of each sensor.
type Arrangement []int32

// Crawl is one planned crawl.
type Crawl struct {
	Tick   int64
	Sensor int32
	Value  float64 // weighted latency seconds lost if this crawl alone is dropped
}

// CrawlPlan is a range's crawls, sorted by (Tick, Sensor).
type CrawlPlan []Crawl

// SensorPlan is one sensor's part of a Solution.
type SensorPlan struct {
	// Ticks are the instants, strictly increasing, legal, in [From, Length).
	Ticks []int32
	// Mult is the sensor's own price: an odd number of U, square ticks times 4.
	// PENAL at Mult returns this plan, or its upper neighbour of equal value.
	Mult int64
	// Lose is the marginal value of the last crawl and Gain that of one more, on
	// the candidate set, in weighted latency seconds times Yield; 0 where there is
	// none. A capped sensor has no Gain.
	Lose, Gain float64
	// Wait is the expected latency per unit of event rate in square seconds:
	// (W)/c over [Source, Length], what no crawl has seen being paid up to Length.
	Wait float64

	next int64 // tick of the first look-ahead crawl or of the sink
}

// Solution is an arrangement with its crawl plans.
type Solution struct {
	// Price is the marginal value per attempt of the best crawl that was not made, in
	// weighted latency seconds; 0 where the budget does not bind.
	Price       float64
	Arrangement Arrangement
	Sensors     []SensorPlan
	// Objective is what was minimised: weighted latency seconds up to the sink,
	// look-ahead crawls and their prices included. All algorithms compute it
	// alike, so it compares them on the same problem.
	Objective float64
	// Expected is the sum of Coef times Wait.
	Expected float64
	// Dropped counts crawls lost to Capacity, SpillLoss is what Capacity cost in
	// Objective.
	Dropped   int
	SpillLoss float64
	// Probes counts passes over one sensor's candidates.
	Probes int
	// Work counts evaluations of one candidate or, where an algorithm looks at
	// pairs, of one pair: a measure of effort that no machine changes.
	Work int64
	// Iterations counts the exchanges that Pairwise made.
	Iterations int

	problem *Problem
}

// Algorithm is any way to solve a Problem. Only some draw from rng.
type Algorithm func(p *Problem, rng *rand.Rand) (*Solution, error)
