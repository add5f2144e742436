package planner

import "time"

// slots counts the crawls planned per second, by Unix time, where the server's starts
// per second are limited; nil otherwise.
type slots map[int64]int32

// move takes a sensor's old instants out and puts its new ones in.
func (l slots) move(old, now []time.Time) {
	if l == nil {
		return
	}
	for _, at := range old {
		if l[at.Unix()]--; l[at.Unix()] == 0 {
			delete(l, at.Unix())
		}
	}
	for _, at := range now {
		l[at.Unix()]++
	}
}

// spread moves the instants of a sensor that was planned alone out of full seconds:
// each to the end of the nearest earlier second of its window that has room. Where
// there is none it stays, and the crawler's pace decides. None is moved before the instant
// from which the sensor was planned: it would be due at once, again. The fleet's plan has
// been spread by the scheduler.
func (p *Planner) spread(s *sensor, at []time.Time, from time.Time) []time.Time {
	if p.load == nil {
		return at
	}
	p.load.move(s.rec.Instants, nil)
	for k := range at {
		first := later(p.rec.Range, from)
		if k > 0 {
			first = at[k-1].Add(p.par.Tick)
		}
		if w, awake := s.Plan.Window(at[k]); awake {
			first = later(first, w.Start)
		}
		at[k] = p.room(at[k], first)
	}
	p.load.move(nil, s.rec.Instants)
	return at
}

// room is the latest instant up to at, and not before first, whose second has room; at
// itself if there is none.
func (p *Planner) room(at, first time.Time) time.Time {
	for t := at; !t.Before(first); {
		if int(p.load[t.Unix()]) < p.par.Capacity {
			return t
		}
		ticks := t.Sub(p.rec.Range) / p.par.Tick
		begin := t.Truncate(time.Second)
		for !t.Before(begin) {
			ticks--
			t = p.rec.Range.Add(ticks * p.par.Tick)
		}
	}
	return at
}
