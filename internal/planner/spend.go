package planner

import (
	"math"
	"time"

	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/visit"
)

// spendSteps is how often in a range the budget that polls and retries have not
// needed so far is given to planned crawls.
const spendSteps = 20

// nextSpend is the first of the range's instants for that after now.
func (p *Planner) nextSpend(now time.Time) time.Time {
	step := p.par.Range / spendSteps
	if step <= 0 {
		return p.end()
	}
	return p.rec.Range.Add((now.Sub(p.rec.Range)/step + 1) * step)
}

// balance holds the budget after a re-plan: while more is planned than is left
// of theta, the sensor whose last crawl is worth least gives it up.
func (p *Planner) balance(now time.Time) {
	for p.left > 0 && p.spent+p.left+p.kept > p.rec.Theta {
		s := p.losers.items[0]
		p.dropped++
		p.drift.crawls++
		want := len(s.rec.Instants) - 1
		from := p.earliest(s, now)
		sp, err := scheduler.Count(p.running(), p.demandFrom(s, from), want)
		if want == 0 || err != nil || len(sp.Ticks) > want {
			p.setInstants(s, s.rec.Instants[:want])
		} else {
			p.takePlan(s, sp, from)
		}
		p.schedule(s, now)
	}
}

// spendRest gives what is left of the budget to the sensors that gain most by
// one more crawl. Kept back are the polls still expected and the share of the
// retries that the rest of the range may need.
func (p *Planner) spendRest(now time.Time) {
	if p.par.Algorithm != nil || !p.solved {
		return
	}
	polls := 0.0
	for _, s := range p.sensors {
		if s.polled(now) {
			polls += p.expectedPolls(s, now, p.end())
		} else {
			polls += p.upkeep(s, now, p.end())
		}
	}
	p.kept = min(p.kept, int(math.Ceil(polls)))
	for free := p.rec.Theta - p.spent - p.left - p.kept - p.retriesLeft(now); free > 0; {
		if p.gainers.len() == 0 {
			return
		}
		s := p.gainers.items[0]
		if p.oneMore(s, now) {
			free--
			p.drift.crawls++
		} else {
			p.gainers.remove(s)
		}
	}
}

// oneMore plans one crawl more for the sensor if there is one of any value.
func (p *Planner) oneMore(s *sensor, now time.Time) bool {
	want := len(s.rec.Instants) + 1
	from := p.earliest(s, now)
	if s.inflight || s.polled(now) || s.rec.Used+want > s.limit() || !from.Before(p.end()) {
		return false
	}
	sp, err := scheduler.Count(p.running(), p.demandFrom(s, from), want)
	if err != nil || len(sp.Ticks) != want || sp.Lose <= 0 {
		return false
	}
	p.takePlan(s, sp, from)
	p.schedule(s, now)
	return true
}

// takePlan makes a plan of the rest of the range, from an instant on, the sensor's own.
func (p *Planner) takePlan(s *sensor, sp scheduler.SensorPlan, from time.Time) {
	s.rec.Version = p.rec.Version
	s.rec.Lose, s.rec.Gain, s.rec.PlanGuard = sp.Lose, sp.Gain, p.par.guard(s.rec, s.edge)
	p.setInstants(s, p.spread(s, p.instants(sp), from))
}

// setInstants replaces what is still planned for the sensor and keeps the sums.
func (p *Planner) setInstants(s *sensor, at []time.Time) {
	p.left += len(at) - len(s.rec.Instants)
	p.load.move(s.rec.Instants, at)
	s.rec.Instants = at
	if len(at) > 0 {
		p.losers.put(s)
	} else {
		p.losers.remove(s)
	}
	if s.rec.Gain > 0 {
		p.gainers.put(s)
	} else {
		p.gainers.remove(s)
	}
}

// pollTaken uses up what is kept for polls.
func (p *Planner) pollTaken(kind visit.Kind) {
	if kind == visit.Poll || kind == visit.Probe {
		p.kept = max(0, p.kept-1)
	}
}
