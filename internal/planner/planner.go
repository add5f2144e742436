package planner

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// Planner is the state of all decisions. See the package comment for who may
// call it.
type Planner struct {
	par     Parameters
	fleet   *fleet.Fleet
	sensors []*sensor // in the order of fleet
	groups  []*group

	rec      FleetRecord
	retuned  bool          // saved trackers were made with other parameters
	solved   bool          // the running range has an adopted plan
	lost     []visit.Visit // passed while the daemon was down, to be told as missed
	asked    time.Time     // start of the range whose Problem was handed out
	mending  bool          // a Problem of the rest of the running range was handed out
	astray   bool          // the clock has jumped: the rest of the range has no plan
	jumps    jumps         // in the running range
	issued   uint64        // newest version of a Problem
	drift    drift         // how far the running plan has been left behind
	load     slots         // crawls planned per second
	pool     Margins       // of all sensors together
	pooled   int           // visits that went into it since New
	typical  float64       // sigma that it shows, seconds
	pending  *Plan         // solved, waits for its range
	used     kindCounts    // attempts of the running range by visit.Kind
	spent    int           // of them against theta
	left     int           // crawls still planned in the running range
	wait     queue         // by next instant
	due      queue         // instant reached, by value
	kept     int           // of theta kept back for polls
	losers   queue         // has planned crawls, by marginal value of the last
	gainers  queue         // by marginal value of one more
	spendAt  time.Time     // when unused budget is given out next
	replans  uint64        // re-plans of one sensor since New
	claims   uint64        // sleep plans learned since New
	revoked  uint64        // of them taken back
	dropped  uint64        // crawls dropped because the budget was spent elsewhere
	overlate uint64        // plans that came after their range had begun
}

// sensor is the planner's view of one fleet.Sensor.
type sensor struct {
	*fleet.Sensor
	Plan     sleepplan.Plan // the listed one or, where that hides it, the one learned
	edge     time.Duration  // guard that the learner wants before the ends of its windows
	probe    probe          // what the learner wants next, while that stays
	groups   []rendezvous   // that it is a member of; the first one times it
	look     look           // what that group wants, while it does
	asked    bool           // a look at it is under way that the group waits for
	rec      *Record
	undo     *Record // before the last success, until the next outcome
	gen      uint32  // counts changes of listed parameters
	base     float64 // rate that the fleet was last solved with
	share    float64 // expected latency that it then had, weighted
	moved    float64 // ln of the rate over base, as it stands in the drift
	at       time.Time
	kind     visit.Kind
	why      string // of polls; planned crawls are explained on demand
	inflight bool
	issued   time.Time // planned instant of the visit in flight
	counted  bool      // the visit in flight counts against theta and gamma
	jumped   bool      // the clock has: the age of the last success is not known

	announced time.Time // when it said that it is awake; zero: no visit waits for that
	pos       [4]int    // in wait, due, losers, gainers
}

// limit is gamma as a number to compare with.
func (s *sensor) limit() int {
	if s.MaxCrawls < 0 {
		return math.MaxInt32
	}
	return s.MaxCrawls
}

// New makes a planner for the fleet. What was saved of sensors that are still
// listed is taken over, the rest dropped; a sensor without record starts with
// priors. A saved range that is still running goes on with its plan and its
// attempts; otherwise a new range starts now.
//
// The error names parameters that no plan can be made with, or a saved record
// that cannot be read.
func New(f *fleet.Fleet, par Parameters, saved Saved, now time.Time) (*Planner, error) {
	if err := par.Validate(); err != nil {
		return nil, err
	}
	p := &Planner{par: par, fleet: f, drift: drift{since: now}}
	if par.Capacity > 0 {
		p.load = slots{}
	}
	p.wait = queue{slot: 0, less: sooner}
	p.due = queue{slot: 1, less: func(a, b *sensor) bool {
		if first := a.kind == visit.Announced; first != (b.kind == visit.Announced) {
			return first
		}
		if va, vb := p.value(a), p.value(b); va != vb {
			return va > vb
		}
		return sooner(a, b)
	}}
	p.losers = queue{slot: 2, less: func(a, b *sensor) bool {
		if a.rec.Lose != b.rec.Lose {
			return a.rec.Lose < b.rec.Lose
		}
		return a.ID > b.ID
	}}
	p.gainers = queue{slot: 3, less: func(a, b *sensor) bool {
		if a.rec.Gain != b.rec.Gain {
			return a.rec.Gain > b.rec.Gain
		}
		return a.ID < b.ID
	}}
	resumed, err := p.restoreFleet(saved, now)
	if err != nil {
		return nil, err
	}
	for _, s := range f.All() {
		var rec *Record
		if data := saved.Sensors[s.ID]; len(data) > 0 {
			if rec, err = decodeRecord(data); err != nil {
				return nil, fmt.Errorf("sensor %q: %w", s.ID, err)
			}
		}
		p.join(s, rec, now)
	}
	p.kept = max(0, p.rec.Reserved-p.used[visit.Poll]-p.used[visit.Probe])
	p.spendAt = p.nextSpend(now)
	if resumed {
		if err := p.restorePlan(saved.Plan, now); err != nil {
			return nil, err
		}
	}
	p.meet(now)
	for _, s := range p.sensors {
		p.schedule(s, now)
	}
	return p, nil
}

func sooner(a, b *sensor) bool {
	if c := a.at.Compare(b.at); c != 0 {
		return c < 0
	}
	return a.ID < b.ID
}

// restoreFleet takes over the saved range if it is still running, and of one
// that is over what outlives it.
func (p *Planner) restoreFleet(saved Saved, now time.Time) (resumed bool, err error) {
	var was savedFleet
	if len(saved.Fleet) > 0 {
		if err := json.Unmarshal(saved.Fleet, &was); err != nil {
			return false, fmt.Errorf("planner: decode fleet record: %w", err)
		}
		p.retuned = was.Polling != p.par.Polling
		if !was.Margins.sane() {
			return false, fmt.Errorf("planner: decode fleet record: inconsistent margins")
		}
	}
	p.pool, p.typical = was.Margins, was.Margins.typical()
	p.rec = was.FleetRecord
	if !p.rec.sane() {
		return false, fmt.Errorf("planner: decode fleet record: inconsistent values")
	}
	p.rec.Theta = p.par.Theta(p.fleet.Len()) // lists and budget may have changed meanwhile
	if !p.rec.Range.IsZero() && !now.Before(p.rec.Range) && now.Before(p.end()) {
		p.jumps = was.Jumps
		return true, nil
	}
	p.rec = FleetRecord{Range: now, Price: was.Price, Version: was.Version, End: was.End, Stretch: 1,
		Attempts: was.Attempts, Failed: was.Failed, Theta: p.rec.Theta}
	return false, nil
}

// join adds one sensor, with its saved record or, if that is nil, with priors.
func (p *Planner) join(fs *fleet.Sensor, rec *Record, now time.Time) {
	s := &sensor{Sensor: fs, Plan: fs.Plan, rec: rec, pos: [4]int{absent, absent, absent, absent}}
	if rec != nil {
		rec.notAfter(now)
		rec.Broke = earlier(rec.Broke, p.end())
		if p.retuned || rec.Polling != fs.Polling {
			p.configure(s)
		}
		s.relist(fs.URI != rec.URI, fs.Rate != rec.Rate.Prior || fs.RateFixed != rec.Rate.Fixed)
	} else {
		s.rec = &Record{URI: fs.URI, Since: now, Rate: NewRate(fs.Rate, fs.RateFixed), Planned: fs.Rate,
			Polling: fs.Polling}
	}
	if !s.rec.Range.Equal(p.origin()) {
		s.rec.Used, s.rec.Kinds, s.rec.Instants, s.rec.Range = 0, kindCounts{}, nil, p.origin()
	}
	p.takeClaim(s, now)
	p.spent += s.rec.Used
	for k, n := range s.rec.Kinds {
		p.used[k] += n
	}
	p.sensors = append(p.sensors, s)
}

// configure lets a tracker go on with parameters that have changed since it was made;
// with unchanged ones it goes on exactly as before.
func (p *Planner) configure(s *sensor) {
	s.rec.Polling = s.Polling
	if s.rec.Tracker != nil {
		s.rec.Tracker.Configure(p.polling(s))
	}
	if s.rec.Search != nil {
		s.rec.Search.Configure(p.polling(s))
	}
	if s.rec.Learner != nil {
		s.rec.Learner.Configure(learningParams(p.polling(s)))
	}
}

// restorePlan gives every sensor what is left of the saved plan. An instant
// that has passed without an outcome may have been in flight when the process
// died: it counts as spent, so that theta and gamma hold over a crash too.
func (p *Planner) restorePlan(saved []byte, now time.Time) error {
	if len(saved) > 0 {
		plan, err := decodePlan(saved)
		if err != nil {
			return err
		}
		p.solved = plan.Start.Equal(p.rec.Range) && plan.Version == p.rec.Version
		for _, row := range plan.Sensors {
			i, ok := p.fleet.Find(row.ID)
			if ok && p.solved && p.sensors[i].rec.Version != plan.Version {
				row.apply(p.sensors[i].rec, plan)
			}
		}
	}
	for _, s := range p.sensors {
		if p.jumps.Count > 0 && (!p.solved || s.rec.Version != p.rec.Version) {
			s.rec.Instants = nil // of the clock before it jumped
		}
		p.resume(s, now)
	}
	for _, s := range p.sensors {
		if p.solved && p.par.Algorithm == nil && !s.polled(now) && !p.legal(s) {
			p.replan(s, now)
		}
	}
	// Lists may be shorter now, and the budget with them. What is kept for polls takes no
	// crawl that was planned.
	p.kept = min(p.kept, max(0, p.rec.Theta-p.spent-p.left))
	p.balance(now)
	return nil
}

// resume keeps what is still to come of a sensor's instants.
func (p *Planner) resume(s *sensor, now time.Time) {
	passed := 0
	for passed < len(s.rec.Instants) && s.rec.Instants[passed].Before(now) {
		passed++
	}
	if next := s.rec.Next; !next.Before(p.rec.Range) && next.Before(now) {
		switch planned := slices.ContainsFunc(s.rec.Instants[:passed], next.Equal); {
		case s.polled(now):
			p.spend(s, visit.Poll, 1)
		case !planned && s.rec.Learner != nil:
			p.spend(s, visit.Probe, 1)
		}
	}
	p.spend(s, visit.Planned, passed)
	for _, at := range s.rec.Instants[:passed] {
		p.lost = append(p.lost, visit.Visit{Sensor: s.ID, URI: s.URI, At: at, Deadline: at,
			Kind: visit.Planned, Why: "its instant passed while the daemon was down"})
	}
	keep := slices.Clone(s.rec.Instants[passed:])
	s.rec.Instants = nil
	if s.polled(now) {
		keep = nil
	}
	p.setInstants(s, keep)
}

// legal tells whether a restored sensor can go on as planned: its listing may
// have changed while the daemon was down, and a sensor may be new.
func (p *Planner) legal(s *sensor) bool {
	for _, at := range s.rec.Instants {
		if !s.Plan.Awake(at) || !at.Before(p.end()) {
			return false
		}
	}
	return s.rec.Version == p.rec.Version && s.rec.Used+len(s.rec.Instants) <= s.limit()
}

// spend counts attempts against the sensor's cap and the budget. A negative
// number gives them back.
func (p *Planner) spend(s *sensor, kind visit.Kind, attempts int) {
	s.rec.Used += attempts
	s.rec.Kinds[kind] += attempts
	p.used[kind] += attempts
	p.spent += attempts
}

// end is the first instant of the next range.
func (p *Planner) end() time.Time { return p.rec.Range.Add(p.par.Range) }

// value orders what is due: planned crawls by their marginal value, polls by
// the fleet's price, since what they would bring is unknown.
func (p *Planner) value(s *sensor) float64 {
	if s.kind == visit.Planned || s.kind == visit.Retry {
		return s.rec.Lose
	}
	return p.rec.Price
}

// polled tells whether a tracker or a search decides about the sensor instead
// of the crawl plan, and holds from then on.
func (s *sensor) polled(now time.Time) bool {
	if s.rec.Unreachable {
		return true
	}
	until, limited := s.Plan.KnownUntil()
	return limited && !until.After(now)
}

// seed makes the search of every sensor start at another phase.
func (s *sensor) seed() uint64 {
	h := fnv.New64a()
	h.Write([]byte(s.ID))
	return h.Sum64()
}

// midWindow moves a planned instant to the middle of its window after silence
// at a window's end: only there is silence evidence about the sleep plan.
func (p *Planner) midWindow(s *sensor, at, now time.Time) time.Time {
	if !s.rec.Mid {
		return at
	}
	w, ok := s.Plan.Window(at)
	if !ok {
		return at
	}
	mid := w.Start.Add(w.Duration() / 2).Truncate(p.par.Tick)
	if mid.Before(now) || mid.Before(w.Start) || mid.After(at) {
		return at
	}
	return mid
}

// multiplier is the odd price m_i of a sensor that no solve has seen yet.
func (p *Planner) multiplier(s *sensor) int64 {
	if s.rec.Mult != 0 {
		return s.rec.Mult
	}
	return scheduler.Multiplier(p.rec.Price, s.coef()*p.yield(s), p.par.Tick)
}

// coef is c = omega * lambda, weighted events per awake second.
func (s *sensor) coef() float64 { return s.Weight * s.rec.Rate.Mean() }
