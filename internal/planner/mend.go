package planner

import (
	"math"
	"time"
)

// drift is how far a running plan has been left behind since it was solved.
//
// A rate that moves by a factor r makes its sensor worth sqrt(r) times the crawls
// (square-root rule). Where the arrangement stays, the objective is above its optimum
// by a quarter of the variance of ln r over the sensors, weighted by their shares of
// the objective: sums are enough to know it. It is second-order, and the sensors
// that moved by more than a third have been planned anew at the old price already,
// so that this is an upper bound on what is at stake.
//
// Crawls that re-plans took or gave are exchanged one by one for the least valuable
// ones, which is exact for a price that stays; many of them move it.
type drift struct {
	since  time.Time // of the last solve
	shares float64   // of the objective, weighted latency seconds
	first  float64   // sum of share times ln r
	second float64   // sum of share times (ln r)^2
	crawls int       // taken or given since
	spilt  int       // found no second in that solve: giving them to others is no news
}

// stake is the share of the objective that a solve could win back.
func (d drift) stake() float64 {
	if d.shares <= 0 {
		return 0
	}
	mean := d.first / d.shares
	return max(0, (d.second/d.shares-mean*mean)/4)
}

// When a solve of the rest of a range pays: a fiftieth of the rest's latency at stake,
// or a tenth of the plan's crawls exchanged; not twice within a twentieth of the range.
const (
	stakeToMend  = 0.02
	crawlsToMend = 0.1
	mendsPerSpan = 20
)

// drifted tells whether the rest of the running range should be solved anew. It is
// not once the next range's problem has been handed out: that one knows it all.
func (p *Planner) drifted(now time.Time) bool {
	if p.par.Algorithm != nil || !p.solved || p.mending || p.asked.Equal(p.end()) ||
		now.Sub(p.drift.since) < p.par.Range/mendsPerSpan {
		return false
	}
	rest := float64(p.end().Sub(now)) / float64(p.par.Range)
	if p.drift.stake()*rest > stakeToMend {
		return true
	}
	return float64(p.drift.crawls-p.drift.spilt) > max(1, crawlsToMend*float64(p.rec.Planned))
}

// settled starts the account of a sensor that a solve has planned with that rate and
// that expected weighted latency.
func (p *Planner) settled(s *sensor, rate, latency float64) {
	s.base, s.share, s.moved = rate, latency, 0
	p.drift.shares += latency
	p.restake(s) // the rate may have moved since the problem was taken
}

// restake takes what a sensor's rate is now into the account.
func (p *Planner) restake(s *sensor) {
	now := s.rec.Rate.Mean()
	if !(s.base > 0) || !(now > 0) || s.share == 0 {
		return
	}
	moved := math.Log(now / s.base)
	p.drift.first += s.share * (moved - s.moved)
	p.drift.second += s.share * (moved*moved - s.moved*s.moved)
	s.moved = moved
}

// exchanged notes crawls that a re-plan took or gave.
func (p *Planner) exchanged(crawls int) {
	p.drift.crawls += max(crawls, -crawls)
}

// nextVersion numbers a problem. The numbers rise even while a plan is still being
// made, so that no two plans share one.
func (p *Planner) nextVersion() uint64 {
	p.issued = max(p.issued, p.rec.Version) + 1
	return p.issued
}

// snapshotRest is the problem of what is left of the running range, with what is left
// of the budget. A visit that is under way is assumed to succeed.
func (p *Planner) snapshotRest(now time.Time) *Snapshot {
	n := &Snapshot{Start: p.rec.Range, rest: now, version: p.nextVersion(), par: p.par, rec: p.rec}
	n.left = max(0, p.rec.Theta-p.spent-p.kept-p.retriesLeft(now))
	for _, s := range p.sensors {
		if s.polled(now) {
			continue
		}
		source := s.rec.Source
		if s.inflight {
			source = s.issued
		}
		a := p.ask(s, source, later(p.earliest(s, now), now))
		a.visits = s.attempts()
		if a.cap >= 0 {
			a.cap = max(0, a.cap-s.rec.Used)
		}
		n.asks = append(n.asks, a)
	}
	return n
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// attempts counts visits, one under way included.
func (s *sensor) attempts() int {
	if s.inflight {
		return s.rec.Visits + 1
	}
	return s.rec.Visits
}

// retriesLeft is the part of the retry reserve that the rest of the range may need.
func (p *Planner) retriesLeft(now time.Time) int {
	rest := float64(p.end().Sub(now)) / float64(p.par.Range)
	return int(math.Ceil(float64(p.rec.Retries) * rest))
}

// mend takes a plan of the rest of the running range. The range's counters and what
// was expected of it at its start stay. A sensor that has been visited since the
// problem was taken, or whose visit then under way has failed, is planned at its
// new price instead.
func (p *Planner) mend(plan *Plan, now time.Time) {
	if !plan.Start.Equal(p.rec.Range) || !p.mending || !p.solved || !now.Before(p.end()) {
		return
	}
	p.mending = false
	p.rec.Price, p.rec.Version, p.rec.Extra = plan.rec.Price, plan.version, plan.rec.Extra
	p.rec.Mended++
	p.drift = drift{since: now, spilt: plan.rec.Spilled}
	for i, a := range plan.asks {
		j, ok := p.fleet.Find(a.id)
		if !ok || p.sensors[j].polled(now) {
			continue
		}
		s, sp := p.sensors[j], plan.Solution.Sensors[i]
		s.rec.Mult, s.rec.Lose, s.rec.Gain, s.rec.Gap = sp.Mult, sp.Lose, sp.Gain, plan.gaps[i]
		s.rec.Version, s.rec.Planned = p.rec.Version, a.rate
		s.rec.PlanGuard = a.guard
		p.settled(s, a.rate, a.coef*plan.waits[i])
		at := p.instants(sp)
		if s.gen != a.gen || s.attempts() != a.visits || !p.asAssumed(s, a) || !p.keeps(s, at) {
			p.replan(s, now)
			continue
		}
		p.setInstants(s, at)
	}
	p.drift.crawls = 0
	p.balance(now)
	for _, s := range p.sensors {
		p.schedule(s, now)
	}
}

// memoryTries is how many planned attempts a sensor's failure share remembers.
const memoryTries = 100

// yield is the share of a sensor's planned attempts that succeed: its own, and the
// fleet's with the weight of retryPrior attempts. An attempt at a sensor that often
// fails buys less, so it has to be worth more.
func (p *Planner) yield(s *sensor) float64 {
	if p.par.Algorithm != nil {
		return 1
	}
	own := (s.rec.Lost + retryPrior*p.rec.Share) / (s.rec.Tried + retryPrior)
	return max(leastYield, 1-own)
}

// leastYield bounds what failures take from a sensor's worth: one that answers again
// should be noticed.
const leastYield = 0.1
