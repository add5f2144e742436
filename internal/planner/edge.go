package planner

import (
	"fmt"
	"time"
)

// edgeLook is a look between the last crawl of a learned window and where its end is taken
// to be. The learner knows an edge to a share of the window, and the crawls keep its guard:
// where a long sleep follows, what is captured in between waits through it. Looks go half
// the way to the end each, as long as one is worth its price with even odds that the sensor
// is still awake. They are answered or not, and both tell the learner where the end is.
func (p *Planner) edgeLook(s *sensor, now time.Time) (at time.Time, why string, ok bool) {
	if s.edge <= 0 || !p.planned(s) || p.par.Algorithm != nil {
		return at, "", false
	}
	w, awake := s.Plan.NextWindow(now)
	if !awake {
		return at, "", false
	}
	next, awake := s.Plan.NextWindow(w.End)
	if !awake {
		return at, "", false
	}
	last := later(w.Start, s.rec.Source)
	for _, t := range s.rec.Instants {
		if t.Before(w.End) {
			last = later(last, t)
		}
	}
	worth := s.coef() * p.yield(s) / 2 * next.Start.Sub(w.End).Seconds() // per second gained
	for _, step := range []time.Duration{w.End.Sub(last) / 2, w.End.Sub(last)} {
		if value := worth * step.Seconds(); value > p.rec.Price {
			return last.Add(step), fmt.Sprintf("end of a learned window, about %s: worth %.3g against "+
				"price %.3g", clock(w.End), value, p.rec.Price), true
		}
	}
	return at, "", false
}

// maxEdgeLooks is what a window end is expected to take at most.
const maxEdgeLooks = 4

// upkeep is the number of probes that a learned plan takes in [from, to), those at window
// ends included.
func (p *Planner) upkeep(s *sensor, from, to time.Time) float64 {
	if s.rec.Learner == nil || !s.hidden(from) || s.polled(from) {
		return 0
	}
	probes := s.rec.Learner.Expected(from, to)
	w, awake := s.Plan.NextWindow(from)
	if s.edge <= 0 || !awake || !w.End.Before(to) {
		return probes
	}
	next, awake := s.Plan.NextWindow(w.End)
	if !awake {
		return probes
	}
	worth := s.coef() * p.yield(s) / 2 * next.Start.Sub(w.End).Seconds()
	looks, gap := 0.0, s.edge
	for ; looks < maxEdgeLooks && worth*gap.Seconds() > p.rec.Price; gap /= 2 {
		looks++
	}
	ends := max(1, float64(to.Sub(w.End)/next.Start.Sub(w.Start)))
	return probes + looks*ends
}
