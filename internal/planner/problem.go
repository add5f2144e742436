package planner

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/sleepplan"
)

// maxCarry bounds the awake time that a crawl may find unseen, in range
// lengths. Beyond it the next crawl is overdue by any measure, and a larger
// backlog would only eat into the optimiser's number range.
const maxCarry = 4

// Snapshot is what a range, or the rest of one, asks of the scheduler: immutable, so
// it can be solved off the loop.
type Snapshot struct {
	Start   time.Time // of the range
	rest    time.Time // not zero: only from here on
	left    int       // of theta, for the rest
	version uint64
	par     Parameters
	rec     FleetRecord // of the range to be planned
	asks    []ask       // one per planned sensor, by id
}

// ask is one sensor's part of a snapshot.
type ask struct {
	id      string
	plan    sleepplan.Plan
	gen     uint32
	coef    float64
	rate    float64
	yield   float64 // share of its attempts that succeed
	guard   time.Duration
	cap     int
	source  time.Time // zero: never crawled
	phantom bool      // never crawled: a backlog is assumed, see demand
	latest  time.Time // no start before it (the sensor asked for rest)
	visits  int       // attempts so far, those under way included
}

// Plan is a solved Snapshot.
type Plan struct {
	*Snapshot
	Solution *scheduler.Solution
	gaps     []float64
	waits    []float64          // see wait
	problem  *scheduler.Problem // as solved, for Advise and BudgetCurve
}

// snapshotAt is the fixed instant at which the problem of the next range is
// taken, or of the running range while it has no plan.
func (p *Planner) snapshotAt() (at, start time.Time) {
	if !p.solved {
		return p.rec.Range, p.rec.Range
	}
	return p.end().Add(-p.par.lead()), p.end()
}

// Problem returns the snapshot of the next range once its instant has come,
// each one once. Crawls that are still planned before the range are assumed to
// succeed; Adopt mends what came out differently.
func (p *Planner) Problem(now time.Time) (*Snapshot, bool) {
	p.roll(now)
	at, start := p.snapshotAt()
	if !p.astray && !now.Before(at) && !p.asked.Equal(start) {
		p.asked = start
		return p.snapshot(start), true
	}
	if p.astray || p.drifted(now) {
		p.mending, p.astray = true, false
		return p.snapshotRest(now), true
	}
	return nil, false
}

func (p *Planner) snapshot(start time.Time) *Snapshot {
	n := &Snapshot{Start: start, version: p.nextVersion(), par: p.par}
	n.rec = FleetRecord{Range: start, Version: n.version, Price: p.rec.Price,
		Theta: p.par.Theta(p.fleet.Len()), Attempts: p.rec.Attempts, Failed: p.rec.Failed}
	polls, upkeep, unknown := 0.0, 0.0, 0
	for _, s := range p.sensors {
		if s.polled(start) {
			unknown++
			polls += p.expectedPolls(s, start, start.Add(p.par.Range))
			continue
		}
		upkeep += p.upkeep(s, start, start.Add(p.par.Range))
		n.asks = append(n.asks, p.ask(s, p.assumedSource(s), s.rec.NotBefore))
	}
	n.reserve(polls, unknown, len(p.sensors))
	n.rec.Reserved = min(n.rec.Reserved+int(math.Ceil(upkeep)), n.rec.Theta)
	return n
}

// ask is what a sensor asks of a range before which it is last crawled at source, and
// in which not before latest.
func (p *Planner) ask(s *sensor, source, latest time.Time) ask {
	a := ask{id: s.ID, plan: s.Plan, gen: s.gen, coef: s.coef(), rate: s.rec.Rate.Mean(),
		yield: p.yield(s), guard: p.par.guard(s.rec, s.edge), cap: s.MaxCrawls, source: source,
		latest: latest, phantom: source.IsZero()}
	if a.phantom {
		a.source = s.rec.Since
	}
	return a
}

// assumedSource is the last success as it will be at the range's start if all
// that is planned or in flight until then succeeds.
func (p *Planner) assumedSource(s *sensor) time.Time {
	if k := len(s.rec.Instants); k > 0 {
		return s.rec.Instants[k-1]
	}
	if s.inflight {
		return s.issued
	}
	return s.rec.Source
}

func (p *Planner) expectedPolls(s *sensor, start, end time.Time) float64 {
	var polls float64
	switch {
	case s.rec.Search != nil:
		polls = s.rec.Search.Expected(start, end)
	case s.rec.Tracker != nil:
		polls = s.rec.Tracker.Expected(start, end)
	}
	if s.rec.Learner != nil && s.hidden(start) && !s.rec.Unreachable {
		polls += s.rec.Learner.Expected(start, end)
	}
	return min(polls, float64(max(0, s.limit())))
}

// Preview is the problem of a range that starts at the given instant with every
// sensor just crawled: no history, no failures. It is what `crawld plan` shows.
func Preview(f *fleet.Fleet, par Parameters, at time.Time) (*Snapshot, error) {
	p, err := New(f, par, Saved{}, at)
	if err != nil {
		return nil, err
	}
	for _, s := range p.sensors {
		s.rec.Source = at
	}
	return p.snapshot(at), nil
}

// Promise is what a plan holds for one sensor.
type Promise struct {
	ID      string
	Crawls  []time.Time
	Latency float64 // seconds summed over its expected events, unweighted
}

// Promises lists the planned sensors in the order of their ids.
func (pl *Plan) Promises() []Promise {
	all := make([]Promise, len(pl.asks))
	for i, a := range pl.asks {
		all[i] = Promise{ID: a.id, Latency: a.rate * pl.waits[i]}
		for _, t := range pl.Solution.Sensors[i].Ticks {
			at := pl.Start.Add(time.Duration(t) * pl.par.Tick)
			all[i].Crawls = append(all[i].Crawls, at)
		}
	}
	return all
}

// Record is what the plan makes the range's record.
func (pl *Plan) Record() FleetRecord { return pl.rec }

// reserve takes the polls out of theta: at most the unknown sensors' share,
// beyond it all their gaps are stretched by one factor. Where every sensor is
// unknown the whole budget is theirs.
func (n *Snapshot) reserve(polls float64, unknown, all int) {
	n.rec.Stretch = 1
	if unknown == 0 {
		return
	}
	share := math.Floor(float64(n.rec.Theta) * float64(unknown) / float64(all))
	if polls > share && share > 0 {
		n.rec.Stretch = polls / share
	}
	n.rec.Reserved = int(min(math.Ceil(polls), share))
}

// budget is theta for the solver: what polls and, by the failure share learned
// lately, retries leave of it. The retries are rounded: a share that is halved from range to
// range never comes to nothing, and one visit that failed once would cost the fleet a
// crawl of every range.
func (n *Snapshot) budget() int {
	theta := n.rec.Theta
	retries := 0.0
	if n.par.Algorithm == nil && n.rec.Attempts > 0 {
		retries = float64(theta-n.rec.Reserved) * n.rec.Failed / (n.rec.Attempts + retryPrior)
	}
	if !n.rest.IsZero() {
		return n.left
	}
	left := max(min(theta, 1), theta-n.rec.Reserved-int(math.Round(retries)))
	n.rec.Retries = max(0, theta-n.rec.Reserved-left)
	return left
}

// retryPrior is how many attempts without failure are assumed before any was
// made: one failure in a small fleet must not reserve half of the budget.
const retryPrior = 20

// Carry is the snapshot under the end rule carry, for a range in which fixed asks
// for more crawls than the budget has.
func (n *Snapshot) Carry() *Snapshot {
	c := *n
	c.par.End = scheduler.Carry
	return &c
}

// problem spells the snapshot out in ticks.
func (n *Snapshot) problem() (*scheduler.Problem, []float64) {
	pr := &scheduler.Problem{
		Tick: n.par.Tick, Length: n.par.length(), End: n.par.End, Candidates: n.par.Candidates,
		Objective: n.par.Objective, Step: n.par.Step, Budget: n.budget(), Price: n.rec.Price, Capacity: n.par.Capacity,
		Demands: make([]scheduler.Demand, len(n.asks)),
	}
	from := int64(0)
	if !n.rest.IsZero() {
		from = min(ticksUp(n.rest.Sub(n.Start), n.par.Tick), pr.Length-1)
	}
	coef := make([]float64, len(n.asks))
	awake := make([]int64, len(n.asks))
	for i, a := range n.asks {
		pr.Demands[i].Spans = n.par.spans(a, n.Start, pr.Length)
		coef[i], awake[i] = a.coef, sleepplan.Mass(pr.Demands[i].Spans, from, pr.Length)
	}
	gaps, mean := scheduler.Gaps(pr.Length-from, pr.Budget, coef, awake)
	if n.par.End == scheduler.Lookahead {
		pr.Extra = scheduler.Extra(pr.Length, mean)
	}
	n.rec.Extra = pr.Extra
	for i, a := range n.asks {
		d := &pr.Demands[i]
		if pr.Extra > 0 {
			d.Spans = n.par.spans(a, n.Start, pr.Length+pr.Extra)
		}
		n.par.demand(d, a, n.Start, gaps[i])
	}
	return pr, gaps
}

// spans are the awake ticks of [start, start+length) with the true ends of the
// windows that straddle the borders, as far as a guard can reach.
func (p Parameters) spans(a ask, start time.Time, length int64) []sleepplan.Span {
	pad := 2*p.guardTicks(a.guard) + 2
	lo := start.Add(-time.Duration(pad) * p.Tick)
	hi := start.Add(time.Duration(length+pad) * p.Tick)
	return sleepplan.Ticks(nil, a.plan.Windows(lo, hi), start, p.Tick)
}

// demand fills in what does not depend on the fleet. A sensor that was never
// crawled is treated as if its last crawl lay one range back, or where it joined the
// fleet if that is longer ago: nothing is known of it, so its first crawl shall not wait
// for an event to become likely, and the longer it waits the more it is worth.
func (p Parameters) demand(d *scheduler.Demand, a ask, start time.Time, gap float64) {
	d.Coef, d.Rate, d.Yield, d.Cap, d.Gap = a.coef, a.rate, a.yield, a.cap, gap
	d.Guard, d.GuardHalf = p.guardTicks(a.guard), p.GuardAuto
	d.From = max(0, ticksUp(a.latest.Sub(start), p.Tick))
	if a.latest.IsZero() {
		d.From = 0
	}
	d.Known = math.MaxInt64
	if until, limited := a.plan.KnownUntil(); limited {
		d.Known = ticksUp(until.Sub(start), p.Tick)
	}
	source := a.source
	if a.phantom {
		source = earlier(source, start.Add(-p.Range))
	}
	if source.After(start) {
		d.Source = min(int64(source.Sub(start)/p.Tick), d.From)
		return
	}
	d.Backlog = p.awakeTicks(a.plan, source, start)
}

// awakeTicks is the awake time of [from, to) in whole ticks, at most maxCarry
// ranges.
func (p Parameters) awakeTicks(plan sleepplan.Plan, from, to time.Time) int64 {
	if oldest := to.Add(-maxCarry * p.Range * 4); from.Before(oldest) {
		from = oldest
	}
	var awake time.Duration
	for _, w := range plan.Windows(from, to) {
		awake += w.Duration()
	}
	return min(int64(awake/p.Tick), maxCarry*p.length())
}

func ticksUp(d, tick time.Duration) int64 {
	if d <= 0 {
		return -int64(-d / tick)
	}
	return int64((d + tick - 1) / tick)
}

// Solve works the snapshot out with that many workers. It touches nothing of
// the Planner and may run beside it. The error is one of package scheduler's,
// with the id of the sensor that it names.
func (n *Snapshot) Solve(workers int) (*Plan, error) {
	solved := *n // its record becomes the plan's
	n = &solved
	pr, gaps := n.problem()
	var sol *scheduler.Solution
	var err error
	if n.par.Algorithm != nil {
		rng := rand.New(rand.NewPCG(n.par.Seed, uint64(n.Start.UnixNano())))
		sol, err = n.par.Algorithm(pr, rng)
	} else {
		sol, err = scheduler.Solve(pr, workers)
	}
	if err != nil {
		return nil, fmt.Errorf("plan of the range from %s: %w", n.Start.Format(time.RFC3339), err)
	}
	n.rec.Price, n.rec.Expected, n.rec.End = sol.Price, 0, n.par.End
	n.rec.Spilled, n.rec.SpillLoss = sol.Dropped, sol.SpillLoss
	plan := &Plan{Snapshot: n, Solution: sol, gaps: gaps, problem: pr}
	plan.expect(pr)
	return plan, nil
}

// expect sums what the plan promises. The backlog assumed of sensors never
// crawled is taken out again: no event of theirs is known.
func (pl *Plan) expect(pr *scheduler.Problem) {
	tick := pr.Tick.Seconds()
	pl.waits = make([]float64, len(pl.asks))
	for i, a := range pl.asks {
		wait := pl.wait(i, pr)
		pl.waits[i] = wait
		pl.rec.Planned += len(pl.Solution.Sensors[i].Ticks)
		pl.rec.Expected += a.coef * wait
		pl.rec.Wait += a.rate * wait
		pl.rec.Events += a.rate * tick * float64(sleepplan.Mass(pr.Demands[i].Spans, 0, pr.Length))
	}
}

// wait is what the plan makes one sensor's events wait per unit of rate, in
// seconds squared, without the backlog assumed of a sensor never crawled.
func (pl *Plan) wait(i int, pr *scheduler.Problem) float64 {
	sp := pl.Solution.Sensors[i]
	wait := sp.Wait
	if pl.asks[i].phantom {
		first := float64(pr.Length)
		if len(sp.Ticks) > 0 {
			first = float64(sp.Ticks[0])
		}
		tick := pr.Tick.Seconds()
		wait -= float64(pr.Demands[i].Backlog) * tick * first * tick
	}
	return max(wait, 0)
}

// planRow is one sensor's part of an encoded plan.
type planRow struct {
	ID   string  `json:"id"`
	At   []int32 `json:"at"` // ticks from the range's start
	Mult int64   `json:"m"`
	Lose float64 `json:"lose"`
	Gain float64 `json:"gain"`
	Gap  float64 `json:"gap"`
}

type encodedPlan struct {
	Start   time.Time     `json:"start"`
	Tick    time.Duration `json:"tick"`
	Version uint64        `json:"version"`
	Sensors []planRow     `json:"sensors"`
}

// Encode is the form in which the repository keeps a plan, so that a restart
// resumes it.
func (pl *Plan) Encode() ([]byte, error) {
	e := encodedPlan{Start: pl.Start, Tick: pl.par.Tick, Version: pl.version,
		Sensors: make([]planRow, len(pl.asks))}
	for i, a := range pl.asks {
		sp := pl.Solution.Sensors[i]
		e.Sensors[i] = planRow{a.id, sp.Ticks, sp.Mult, sp.Lose, sp.Gain, pl.gaps[i]}
	}
	return json.Marshal(e)
}

func decodePlan(data []byte) (*encodedPlan, error) {
	var e encodedPlan
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("planner: decode plan: %w", err)
	}
	for _, row := range e.Sensors {
		for k, t := range row.At {
			if t < 0 || k > 0 && t <= row.At[k-1] {
				return nil, fmt.Errorf("planner: decode plan: sensor %q: tick %d out of order", row.ID, t)
			}
		}
	}
	if e.Tick <= 0 {
		return nil, fmt.Errorf("planner: decode plan: tick %v must be positive", e.Tick)
	}
	return &e, nil
}

func (row planRow) apply(rec *Record, e *encodedPlan) {
	rec.Version, rec.Instants = e.Version, nil
	rec.Mult, rec.Lose, rec.Gain, rec.Gap = row.Mult, row.Lose, row.Gain, row.Gap
	for _, t := range row.At {
		rec.Instants = append(rec.Instants, e.Start.Add(time.Duration(t)*e.Tick))
	}
}

// Version numbers the plans of a repository in the order in which they were
// asked for.
func (n *Snapshot) Version() uint64 { return n.version }
