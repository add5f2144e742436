package planner

import (
	"fmt"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// State is how a sensor stands, for people and for metrics.
type State string

// A sensor asleep by its own plan never alerts; unreachable means that it did
// not answer inside its own awake windows.
const (
	Fresh       State = "fresh"       // crawled, awake, next visit not yet due
	Due         State = "due"         // its next visit is due or under way
	Overdue     State = "overdue"     // due for more than overdueAfter
	Asleep      State = "asleep"      // its sleep plan says so
	Unreachable State = "unreachable" // silent in the middle of two awake windows
	Learning    State = "learning"    // sleep plan unknown, has answered
	Unknown     State = "unknown"     // sleep plan unknown, has never answered
)

// States lists every State, for metrics that must exist from the start.
func States() []State {
	return []State{Fresh, Due, Overdue, Asleep, Unreachable, Learning, Unknown}
}

// overdueAfter is how late a due visit may be before that is worth a name.
const overdueAfter = time.Minute

// Explanation is everything that is believed and intended of one sensor.
type Explanation struct {
	ID           string            `json:"id"`
	URI          string            `json:"uri"`
	State        State             `json:"state"`
	Labels       map[string]string `json:"labels"`
	SleepPlan    string            `json:"sleep_plan"`
	Contradicted bool              `json:"contradicted"` // silent although its plan says awake
	Weight       float64           `json:"weight"`
	Cap          *int              `json:"max_crawls"` // null: none
	Used         int               `json:"used"`       // attempts in the running range

	Next      *time.Time `json:"next_visit"` // null: none in this range
	NextKind  string     `json:"next_kind"`
	Why       string     `json:"why"`
	Value     float64    `json:"value"` // marginal value of the next visit, weighted latency seconds
	Price     float64    `json:"price"` // of a crawl, weighted latency seconds
	Remaining int        `json:"remaining"`
	InFlight  bool       `json:"in_flight"`

	Rate         float64     `json:"rate_per_second"` // posterior mean, per awake second
	RatePrior    float64     `json:"rate_prior_per_second"`
	LastSuccess  *time.Time  `json:"last_success"`
	LastAttempt  *time.Time  `json:"last_attempt"`
	LastOutcome  string      `json:"last_outcome"`
	LastReason   string      `json:"last_reason"`
	Failures     int         `json:"failures_in_a_row"`
	ObservedUp   []time.Time `json:"observed_awake"` // newest contacts
	Publications string      `json:"publications"`   // what the tracker believes

	Guard       float64 `json:"guard_seconds"`        // kept before the ends of its windows
	ClockSpread float64 `json:"clock_spread_seconds"` // standard deviation of its window ends, as learned
	FailShare   float64 `json:"failure_share"`        // of its planned attempts

	Learner *Learned `json:"learner"` // null: its sleep plan is listed
}

// Explain tells about one sensor; false if it is not in the fleet.
func (p *Planner) Explain(id string, now time.Time) (Explanation, bool) {
	i, ok := p.fleet.Find(id)
	if !ok {
		return Explanation{}, false
	}
	return p.explain(p.sensors[i], now), true
}

// ExplainAll tells about up to limit sensors with ids from the given one on, in
// order of their ids.
func (p *Planner) ExplainAll(from string, limit int, now time.Time) []Explanation {
	i, _ := p.fleet.Find(from)
	var all []Explanation
	for ; i < len(p.sensors) && len(all) < limit; i++ {
		all = append(all, p.explain(p.sensors[i], now))
	}
	return all
}

func (p *Planner) explain(s *sensor, now time.Time) Explanation {
	e := Explanation{ID: s.ID, URI: s.URI, State: p.state(s, now), Labels: s.Labels,
		SleepPlan: s.Plan.String(), Weight: s.Weight, Used: s.rec.Used, Price: p.rec.Price,
		Remaining: len(s.rec.Instants), InFlight: s.inflight, Rate: s.rec.Rate.Mean(),
		RatePrior: s.Rate, Failures: s.rec.Failures, ObservedUp: s.rec.Contacts,
		LastReason: s.rec.LastReason, LastSuccess: instant(s.rec.Source),
		LastAttempt: instant(s.rec.LastAttempt)}
	e.Guard, e.FailShare = p.par.guard(s.rec, s.edge).Seconds(), 1-p.yield(s)
	_, sigma := s.rec.Margins.Guard(s.rec.Collected, p.typical)
	e.ClockSpread = sigma.Seconds()
	e.Learner = s.learned(now)
	_, limited := s.Plan.KnownUntil()
	e.Contradicted = s.rec.Unreachable && !limited
	if s.rec.Visits > 0 {
		e.LastOutcome = s.rec.Last.String()
	}
	if s.MaxCrawls >= 0 {
		e.Cap = &s.MaxCrawls
	}
	if s.rec.Tracker != nil {
		median, sd, hits, mode := s.rec.Tracker.Stats()
		e.Publications = fmt.Sprintf("%s: %d seen", mode, hits)
		if median > 0 {
			e.Publications += fmt.Sprintf(", one every %v, sd %v", median, sd)
		}
	}
	switch {
	case s.inflight:
		e.Why = "under way"
	case s.pos[0] == absent && s.pos[1] == absent:
		e.Why = p.whyNot(s)
	default:
		e.Next, e.NextKind = instant(s.at), s.kind.String()
		e.Why, e.Value = s.whyNow(p, s.at), p.value(s)
	}
	return e
}

func instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// whyNow names what binds the instant of the next visit, with its number.
func (s *sensor) whyNow(p *Planner, at time.Time) string {
	if s.why != "" {
		return s.why
	}
	if at.Equal(s.rec.NotBefore) {
		return "retry-after: the sensor asked for rest until " + clock(at)
	}
	w, awake := s.Plan.Window(at)
	if !awake {
		return "sleep-unaware instant"
	}
	if s.rec.Mid && len(s.rec.Instants) > 0 && !at.Equal(s.rec.Instants[0]) {
		return fmt.Sprintf("mid-window check after silence, %d of %d", s.rec.Silent, maxSilent)
	}
	why := fmt.Sprintf("worth %.3g against price %.3g", s.rec.Lose, p.rec.Price)
	if s.MaxCrawls >= 0 && s.rec.Used+len(s.rec.Instants) >= s.MaxCrawls {
		why = fmt.Sprintf("worth %.3g, cap %d", s.rec.Lose, s.MaxCrawls)
	}
	if s.kind == visit.Retry {
		why = "retry after " + s.rec.Last.String() + ", " + why
	}
	switch guard := p.windowGuard(s, w.Duration()); {
	case at.Equal(w.Start):
		return fmt.Sprintf("window start %s; %s", clock(w.Start), why)
	case w.End.Sub(at) <= guard+2*p.par.Tick:
		return fmt.Sprintf("window end %s less guard %v; %s", clock(w.End), guard, why)
	case w.Duration() > 2*p.par.Range:
		return "always on: balanced between its neighbours; " + why
	}
	return fmt.Sprintf("inside window %s-%s; %s", clock(w.Start), clock(w.End), why)
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.0Z") }

// windowGuard is the guard that the sensor was planned with in a window of that length.
func (p *Planner) windowGuard(s *sensor, length time.Duration) time.Duration {
	guard := time.Duration(p.par.guardTicks(s.rec.PlanGuard)) * p.par.Tick
	if p.par.GuardAuto {
		guard = min(guard, length/2)
	}
	return guard
}

// whyNot tells why a sensor has no visit in the running range.
func (p *Planner) whyNot(s *sensor) string {
	w, awake := s.Plan.NextWindow(p.rec.Range)
	switch {
	case !p.solved && p.rec.Version == 0:
		return "the first plan is being made"
	case s.coef() == 0:
		return "weight or rate is 0: nothing to gain"
	case s.rec.Used >= s.limit():
		return fmt.Sprintf("cap %d is used up until %s", s.MaxCrawls, clock(p.end()))
	case !awake || !w.Start.Before(p.end()):
		return "asleep until after " + clock(p.end())
	case p.spent >= p.rec.Theta:
		return fmt.Sprintf("budget %d is spent until %s", p.rec.Theta, clock(p.end()))
	}
	return fmt.Sprintf("price: one more crawl would be worth %.3g, less than %.3g",
		s.rec.Gain, p.rec.Price)
}

func (p *Planner) state(s *sensor, now time.Time) State {
	waiting := s.pos[0] != absent || s.pos[1] != absent
	switch {
	case s.rec.Unreachable:
		return Unreachable
	case s.polled(now) && s.rec.Tracker == nil:
		return Unknown
	case s.polled(now):
		return Learning
	case waiting && now.Sub(s.at) > overdueAfter:
		return Overdue
	case s.inflight || waiting && !s.at.After(now):
		return Due
	case !s.Plan.Awake(now):
		return Asleep
	case s.rec.Source.IsZero():
		return Due
	}
	return Fresh
}

// Status is how the running range stands.
type Status struct {
	FleetRecord
	End       time.Time      `json:"end"`
	Solved    bool           `json:"solved"` // false: on old prices until the plan is there
	Sensors   int            `json:"sensors"`
	Used      map[string]int `json:"used"`  // attempts by visit.Kind
	Spent     int            `json:"spent"` // of theta
	Remaining int            `json:"remaining"`
	InFlight  int            `json:"in_flight"`
	States    map[State]int  `json:"states"`
	Replans   uint64         `json:"replans"`
	Dropped   uint64         `json:"dropped"` // crawls given up because the budget was needed elsewhere
	LatePlans uint64         `json:"late_plans"`
	Learners  map[string]int `json:"learners"`      // sensors that hide their sleep plan, by LearnerStates
	Claims    uint64         `json:"plans_claimed"` // sleep plans learned since the start
	Revoked   uint64         `json:"plans_revoked"` // of them taken back
}

// Status counts the fleet by state: O(sensors).
func (p *Planner) Status(now time.Time) Status {
	st := Status{FleetRecord: p.rec, End: p.end(), Solved: p.solved, Sensors: len(p.sensors),
		Used: map[string]int{}, Spent: p.spent, Remaining: p.left, States: map[State]int{},
		Replans: p.replans, Dropped: p.dropped, LatePlans: p.overlate,
		Learners: map[string]int{}, Claims: p.claims, Revoked: p.revoked}
	for _, k := range visit.Kinds() {
		st.Used[k.String()] = p.used[k]
	}
	for _, state := range States() {
		st.States[state] = 0
	}
	for _, state := range LearnerStates() {
		st.Learners[state] = 0
	}
	for _, s := range p.sensors {
		st.States[p.state(s, now)]++
		if s.rec.Learner != nil && s.hidden(now) {
			state, _, _ := s.rec.Learner.State()
			st.Learners[state]++
		}
		if s.inflight {
			st.InFlight++
		}
	}
	return st
}

// Upcoming is a crawl that is planned in the running range.
type Upcoming struct {
	At     time.Time  `json:"at"`
	Sensor string     `json:"sensor"`
	Kind   visit.Kind `json:"kind"`
}

// Upcoming lists all visits that are still to come as now intended, unsorted.
func (p *Planner) Upcoming() []Upcoming {
	var all []Upcoming
	for _, s := range p.sensors {
		for i, at := range s.rec.Instants {
			if i == 0 && !s.inflight && s.kind != visit.Announced {
				at = s.at
			}
			all = append(all, Upcoming{at, s.ID, visit.Planned})
		}
		if len(s.rec.Instants) == 0 && s.pos[0] != absent {
			all = append(all, Upcoming{s.at, s.ID, s.kind})
		}
	}
	return all
}

// FleetRecord is the range's own record for storing.
func (p *Planner) FleetRecord() []byte {
	return encodeJSON(savedFleet{p.rec, p.par.Polling, p.pool, p.jumps})
}

// Record returns a sensor's record for storing; nil if it is not in the fleet.
func (p *Planner) Record(id string) *Record {
	if i, ok := p.fleet.Find(id); ok {
		return p.sensors[i].rec
	}
	return nil
}

// SleepPlan is the plan that a sensor is visited by: the listed one or, where that hides it,
// the one that was learned; unknown if it is not in the fleet.
func (p *Planner) SleepPlan(id string) sleepplan.Plan {
	if i, ok := p.fleet.Find(id); ok {
		return p.sensors[i].Plan
	}
	return sleepplan.Unknown()
}

// Running is the record of the running range.
func (p *Planner) Running() FleetRecord { return p.rec }
