package planner

import (
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/visit"
)

// Adopt hands a solved plan back. It takes effect exactly at its range's start,
// or at once when that has passed (the solve came late, or it is the first). A
// plan of a range that is over is dropped, and so is one of a clock that no longer runs.
func (p *Planner) Adopt(plan *Plan, now time.Time) {
	if plan.Start.Before(p.rec.Range) || plan.par.Range != p.par.Range {
		return
	}
	if plan.Start.After(p.end()) {
		return // of a clock that has been set back since
	}
	if !plan.rest.IsZero() {
		p.mend(plan, now)
		return
	}
	p.pending = plan
	p.roll(now)
	if p.pending != nil && p.pending.Start.Equal(p.rec.Range) {
		if now.Sub(p.rec.Range) > p.par.lead() && p.rec.Version > 0 {
			p.overlate++
		}
		p.takeOver(now)
	}
}

// roll begins the next range when its start has come. Without a plan for it
// every sensor is planned at its old price until the plan is there.
func (p *Planner) roll(now time.Time) {
	for !now.Before(p.end()) {
		start := p.end()
		if gone := now.Sub(start) / p.par.Range; gone > 0 {
			start = start.Add(gone * p.par.Range) // ranges slept through
		}
		p.begin(start)
		if p.pending != nil && p.pending.Start.Equal(start) {
			p.takeOver(now)
			continue
		}
		for _, s := range p.sensors {
			if !s.polled(now) && p.rec.Version > 0 && p.par.Algorithm == nil {
				p.replan(s, now)
			}
			p.schedule(s, now)
		}
	}
}

// begin resets what belongs to a range.
func (p *Planner) begin(start time.Time) {
	theta := p.par.Theta(len(p.sensors))
	p.rec = FleetRecord{Range: start, Version: p.rec.Version, Price: p.rec.Price, Theta: theta,
		Reserved: min(p.rec.Reserved, theta), End: p.rec.End, Retries: p.rec.Retries,
		Stretch: p.rec.Stretch, Extra: p.rec.Extra,
		Attempts: p.rec.Attempts / 2, Failed: p.rec.Failed / 2}
	p.rec.Share = p.rec.failureShare()
	p.solved, p.spent, p.used, p.kept = false, 0, kindCounts{}, p.rec.Reserved
	p.mending, p.astray, p.jumps = false, false, jumps{}
	for _, s := range p.sensors {
		p.setInstants(s, nil)
		s.rec.Range, s.rec.Used, s.rec.Kinds, s.rec.Retry = start, 0, kindCounts{}, false
		if s.inflight && s.counted {
			// It was started in the range before and is paid there.
			s.counted = false
		}
	}
}

// takeOver makes the pending plan the running one. A sensor that came out of
// the range before differently than the plan assumed is probed again at its
// own price; so is one whose listing has changed.
func (p *Planner) takeOver(now time.Time) {
	plan := p.pending
	p.pending = nil
	attempts, failed := p.rec.Attempts, p.rec.Failed
	p.rec = plan.rec
	p.rec.Attempts, p.rec.Failed = attempts, failed
	p.rec.Share = p.rec.failureShare()
	p.solved, p.kept = true, max(0, p.rec.Reserved-p.used[visit.Poll]-p.used[visit.Probe])
	p.spendAt = p.nextSpend(now)
	p.drift = drift{since: now, spilt: plan.rec.Spilled}
	for i, a := range plan.asks {
		j, ok := p.fleet.Find(a.id)
		if !ok {
			continue
		}
		s := p.sensors[j]
		sp := plan.Solution.Sensors[i]
		s.rec.Mult, s.rec.Lose, s.rec.Gain, s.rec.Gap = sp.Mult, sp.Lose, sp.Gain, plan.gaps[i]
		s.rec.Version, s.rec.Planned, s.rec.Retry = p.rec.Version, a.rate, false
		s.rec.PlanGuard = a.guard
		p.settled(s, a.rate, a.coef*plan.waits[i])
		if s.polled(now) {
			p.setInstants(s, nil)
			continue
		}
		at := p.instants(sp)
		// A plan that comes late may find the sensor visited at the old prices already.
		held := s.rec.Used == 0 && p.asAssumed(s, a) && p.keeps(s, at)
		if s.gen != a.gen || !held && p.par.Algorithm == nil {
			p.replan(s, now)
			continue
		}
		p.setInstants(s, at)
	}
	p.replanLate(now)
	p.balance(now)
	for _, s := range p.sensors {
		p.schedule(s, now)
	}
}

// replanLate plans the sensors that have come to have a sleep plan, or back into reach,
// after the running plan's problem was taken.
func (p *Planner) replanLate(now time.Time) {
	for _, s := range p.sensors {
		if s.rec.Version != p.rec.Version && !s.polled(now) && p.par.Algorithm == nil {
			p.replan(s, now)
		}
	}
}

// asAssumed tells whether the sensor's source is where the snapshot took it to
// be: a crawl that was made a little late is no news, one that failed is.
func (p *Planner) asAssumed(s *sensor, a ask) bool {
	if a.phantom {
		return s.rec.Source.IsZero()
	}
	if s.inflight && s.issued.Equal(a.source) {
		return true
	}
	return !s.rec.Source.Before(a.source)
}

func (p *Planner) instants(sp scheduler.SensorPlan) []time.Time {
	if len(sp.Ticks) == 0 {
		return nil
	}
	at := make([]time.Time, len(sp.Ticks))
	for k, t := range sp.Ticks {
		at[k] = p.rec.Range.Add(time.Duration(t) * p.par.Tick)
	}
	return at
}

// running is the running range's problem without its demands.
func (p *Planner) running() *scheduler.Problem {
	return &scheduler.Problem{Tick: p.par.Tick, Length: p.par.length(), Extra: p.rec.Extra,
		End: p.rec.End, Candidates: p.par.Candidates, Step: p.par.Step,
		Budget: p.rec.Theta, Price: p.rec.Price}
}

// demandFrom is what one sensor asks of the rest of the running range.
func (p *Planner) demandFrom(s *sensor, from time.Time) *scheduler.Demand {
	start := p.rec.Range
	a := p.ask(s, s.rec.Source, from)
	gap := s.rec.Gap
	if gap <= 0 {
		gap = float64(p.par.length())
	}
	d := &scheduler.Demand{Spans: p.par.spans(a, start, p.par.length()+p.rec.Extra)}
	p.par.demand(d, a, start, gap)
	if s.MaxCrawls >= 0 {
		d.Cap = max(0, s.limit()-s.rec.Used)
	}
	return d
}

// earliest is the first instant at which the sensor may be asked again: not
// before the rest it asked for, nor within the minimum gap of the last attempt. From the
// second failure in a row on that gap doubles with each, up to the maximum: what nobody has
// seen of the sensor is worth ever more, but it must not take a retry every few seconds from
// the others.
func (p *Planner) earliest(s *sensor, now time.Time) time.Time {
	from := now
	if s.rec.NotBefore.After(from) {
		from = s.rec.NotBefore
	}
	if !s.rec.LastAttempt.IsZero() {
		if gap := s.rec.LastAttempt.Add(p.retryGap(s)); gap.After(from) {
			from = gap
		}
	}
	return from
}

// retryGap is the least time between a sensor's last attempt and one more.
func (p *Planner) retryGap(s *sensor) time.Duration {
	par := p.polling(s)
	gap := par.MinGap
	for k := 1; k < s.rec.Failures && gap < par.MaxGap; k++ {
		gap = min(2*gap, par.MaxGap)
	}
	return gap
}

// replan plans one sensor anew, from now to the range's end, at its current
// price, and lets the budget have the last word.
func (p *Planner) replan(s *sensor, now time.Time) {
	p.replans++
	from := p.earliest(s, now)
	if !from.Before(p.end()) {
		p.setInstants(s, nil)
		return
	}
	sp, err := scheduler.Replan(p.running(), p.demandFrom(s, from), p.multiplier(s))
	if err != nil {
		p.setInstants(s, nil) // nothing can be planned for it in this range
		return
	}
	s.rec.Planned = s.rec.Rate.Mean()
	before := len(s.rec.Instants)
	p.takePlan(s, sp, from)
	p.exchanged(len(s.rec.Instants) - before)
	p.balance(now)
}

// Replace takes a new fleet: unchanged sensors keep everything, changed ones
// their history, removed ones leave, new ones start with priors and the fleet's
// price.
func (p *Planner) Replace(f *fleet.Fleet, now time.Time) {
	p.roll(now)
	old := p.sensors
	oldFleet := p.fleet
	p.sensors, p.fleet = make([]*sensor, 0, f.Len()), f
	for _, fs := range f.All() {
		j, ok := oldFleet.Find(fs.ID)
		if !ok {
			p.join(fs, nil, now)
			continue
		}
		s := old[j]
		old[j] = nil
		p.sensors = append(p.sensors, s)
		if !s.Equal(fs) {
			p.change(s, fs, now)
		}
	}
	for _, s := range old {
		if s != nil {
			p.leave(s)
		}
	}
	p.rec.Theta = p.par.Theta(f.Len())
	p.meet(now)
	for _, s := range p.sensors {
		if p.solved && s.rec.Version == 0 && !s.polled(now) && p.par.Algorithm == nil {
			p.replan(s, now)
		}
	}
	p.balance(now)
	for _, s := range p.sensors {
		p.schedule(s, now)
	}
}

// change gives a sensor its new listing.
func (p *Planner) change(s *sensor, fs *fleet.Sensor, now time.Time) {
	moved := s.URI != fs.URI
	rates := s.Rate != fs.Rate || s.RateFixed != fs.RateFixed
	plans := !s.Sensor.Plan.Equal(fs.Plan)
	was := s.Sensor.Plan
	s.Sensor = fs
	if s.rec.Duty == 0 && s.hidden(now) {
		s.rec.Duty = duty(was)
	}
	s.gen++
	s.relist(moved, rates)
	if s.rec.Polling != fs.Polling {
		p.configure(s)
	}
	if plans {
		s.forgetSilence()
	}
	p.takeClaim(s, now)
	if s.polled(now) {
		p.setInstants(s, nil)
		return
	}
	s.rec.Mult, s.rec.Version = 0, 0
}

// relist drops what does not hold for the sensor as it is listed now. Another
// address is another device: what was learned of the old one's wire is void.
func (s *sensor) relist(moved, rates bool) {
	s.rec.URI = s.URI
	if rates {
		s.rec.Rate = NewRate(s.Rate, s.RateFixed)
	}
	if moved {
		s.rec.ETag, s.rec.NotBefore = nil, time.Time{}
		s.forgetSilence()
	}
}

// forgetSilence gives a sensor a fresh start with tracker and evidence.
func (s *sensor) forgetSilence() {
	s.rec.Unreachable, s.rec.Silent, s.rec.Mid = false, 0, false
	s.rec.Tracker, s.rec.Search, s.rec.Learner = nil, nil, nil
}

func (p *Planner) leave(s *sensor) {
	s.rec.Gain = 0
	p.setInstants(s, nil)
	p.wait.remove(s)
	p.due.remove(s)
	// What it spent stays spent: theta counts attempts, not sensors.
}
