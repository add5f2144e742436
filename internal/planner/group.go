package planner

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/visit"
)

// Group is a set of sensors that are republished together as soon as AtLeast of them have
// something new (DPT paper, section 6.5). The polls of its members are timed by dpt.MDPT.
//
// A sensor that is a member of several groups is timed by the first of them; the others
// take it, like a sensor that is crawled by plan, as one that is looked at anyway. Groups
// that are members of groups are no sources: the outer group is republished when the store
// republishes the inner one, whose sensors count there only.
type Group struct {
	ID      string
	Members []string // ids of sensors; those that are not in the fleet do not count
	AtLeast int      // >= 1; more than there are members means all of them
	Spare   int      // members expected beyond AtLeast before any is looked at, >= 0
}

// checkGroups reports the first group that cannot be timed.
func checkGroups(groups []Group) error {
	for _, g := range groups {
		switch {
		case g.AtLeast < 1 || g.Spare < 0:
			return fmt.Errorf("planner: group %q: at least %d, spare %d", g.ID, g.AtLeast, g.Spare)
		case len(g.Members) > dpt.MaxSources:
			return fmt.Errorf("planner: group %q: %d members, more than %d", g.ID, len(g.Members),
				dpt.MaxSources)
		}
	}
	return nil
}

// group is a Group whose members are in the fleet.
type group struct {
	Group
	members []*sensor
	mdpt    *dpt.MDPT
	flight  int  // looks at members under way
	dirty   bool // what it wants next is to be worked out again
}

// rendezvous is a sensor's part in a group.
type rendezvous struct {
	*group
	source int
}

// look is when the group that times a sensor wants it to be looked at.
type look struct {
	at  time.Time // zero: only when MaxGap is over
	why string
}

// Regroup puts groups into force, as a reload does. What members have shown since their
// group was last republished is in their records. The error names a group that cannot be
// timed; the old ones then stay.
func (p *Planner) Regroup(groups []Group, now time.Time) error {
	if err := checkGroups(groups); err != nil {
		return err
	}
	p.par.Groups = slices.Clone(groups)
	before := p.groups
	p.meet(now)
	for _, g := range slices.Concat(before, p.groups) {
		for _, s := range g.members {
			p.schedule(s, now)
		}
	}
	return nil
}

// meet brings groups and fleet together.
func (p *Planner) meet(now time.Time) {
	for _, s := range p.sensors {
		s.groups, s.asked, s.look = nil, false, look{}
	}
	p.groups = nil
	for _, def := range p.par.Groups {
		g := &group{Group: def}
		for _, id := range def.Members {
			if i, listed := p.fleet.Find(id); listed {
				g.members = append(g.members, p.sensors[i])
			}
		}
		if len(g.members) == 0 {
			continue
		}
		for i, s := range g.members {
			s.groups = append(s.groups, rendezvous{g, i})
		}
		p.groups = append(p.groups, g)
		g.restore(p, now)
	}
}

// restore makes the group's state from its members' records: when each last had something
// new, and when one of them completed the group's condition.
func (g *group) restore(p *Planner, now time.Time) {
	var err error
	g.mdpt, err = dpt.NewMDPT(dpt.Condition{Sources: len(g.members),
		AtLeast: g.needs(), Spare: min(g.Spare, dpt.MaxSources),
		MinGap: p.par.Polling.MinGap, Floor: dpt.DefaultFloor})
	if err != nil { // checkGroups and Polling.Validate have seen to it
		panic(errors.Join(fmt.Errorf("planner: group %q", g.ID), err))
	}
	var last time.Time
	for _, s := range g.members {
		last = later(last, s.rec.Completed[g.ID])
	}
	g.flight, g.dirty = 0, true
	for i, s := range g.members {
		if s.rec.Fresh.After(last) {
			g.mdpt.Observe(i, s.rec.LastAttempt, true, dpt.Expected{})
		}
		if s.inflight && s.timedBy(g) && s.expecting(now) {
			g.begin(s, i)
		}
	}
	if g.mdpt.Ready() >= g.needs() { // it has been republished with what completed it
		g.mdpt.Republished()
	}
}

// needs is m.
func (g *group) needs() int { return min(g.AtLeast, len(g.members)) }

// begin notes that a look at a member that the group times is under way.
func (g *group) begin(s *sensor, source int) {
	s.asked = true
	g.flight++
	g.mdpt.Begin(source)
}

// asking tells the group that times a sensor of a visit that begins.
func (p *Planner) asking(s *sensor, now time.Time) {
	if s.expecting(now) {
		s.groups[0].begin(s, s.groups[0].source)
	}
}

// timedBy tells whether the group is the one that times the sensor: its first.
func (s *sensor) timedBy(g *group) bool { return len(s.groups) > 0 && s.groups[0].group == g }

// expecting tells whether the sensor's tracker knows when it publishes, so that its group
// can time it. Until then it is polled as any other.
func (s *sensor) expecting(now time.Time) bool {
	if len(s.groups) == 0 || s.rec.Tracker == nil || s.rec.Search != nil || !s.polled(now) {
		return false
	}
	median, _, _, _ := s.rec.Tracker.Stats()
	return median > 0
}

// ownPoll is what the sensor's tracker wants or, where it knows when the sensor publishes,
// the group that times it.
func (p *Planner) ownPoll(s *sensor, now time.Time, stretch float64) (time.Time, string) {
	if !s.expecting(now) {
		return s.rec.Tracker.Next(now, stretch)
	}
	// Whatever the group waits for, no sensor is left alone for longer than MaxGap.
	gap := time.Duration(float64(p.polling(s).MaxGap) * stretch)
	at := s.rec.LastAttempt.Add(gap)
	why := fmt.Sprintf("group %s: waits for others, max gap %v", s.groups[0].ID, gap)
	if !s.look.at.IsZero() && s.look.at.Before(at) {
		at, why = s.look.at, s.look.why
	}
	return later(later(at, now), s.rec.Broke), why
}

// timeGroups works out what groups want whose members' expectations have changed. While a
// look is under way a group wants nothing else.
func (p *Planner) timeGroups(now time.Time) {
	for _, g := range p.groups {
		if g.dirty && g.flight == 0 {
			p.timeGroup(g, now)
		}
	}
}

func (p *Planner) timeGroup(g *group, now time.Time) {
	g.dirty = false
	if !slices.ContainsFunc(g.members, func(s *sensor) bool { return s.expecting(now) }) {
		return // all go by their plans, or nothing is known of them yet
	}
	for i, s := range g.members {
		g.mdpt.Expect(i, p.expected(s, g, now))
	}
	step, wanted := g.mdpt.Next(now)
	for i, s := range g.members {
		if !s.timedBy(g) || !s.expecting(now) {
			continue
		}
		next := look{}
		if wanted && slices.Contains(step.Looks, i) {
			next = look{step.At, "group " + g.ID + ": " + step.Why}
		}
		if next != s.look {
			s.look = next
			p.schedule(s, now)
		}
	}
	g.dirty = false // that it was scheduled is this group's own doing
}

// expected is what a group may count on of a member. One that its tracker knows nothing of,
// that a plan crawls or that another group times is looked at whatever this group does.
func (p *Planner) expected(s *sensor, g *group, now time.Time) dpt.Expected {
	if !s.timedBy(g) || !s.expecting(now) {
		if s.pos[p.wait.slot] == absent && s.pos[p.due.slot] == absent {
			return dpt.Expected{}
		}
		return dpt.Expected{At: s.at, Planned: true}
	}
	// As asked at the last outcome: a source that was expected stays so while its group waits
	// for others.
	at, _ := s.rec.Tracker.Next(s.rec.LastAttempt, max(p.rec.Stretch, 1))
	at = later(later(p.spaced(s, at), s.rec.NotBefore), s.rec.Broke)
	if s.rec.Used >= s.limit() {
		at = later(at, p.end())
	}
	return dpt.Expected{At: at, Late: lateness(s.rec.Tracker)}
}

// lateness is how far behind a publication the tracker's looks are meant to be, made such
// that MDPT adds up to a tenth of a period of the source to it, dpt.DefaultFloor at most,
// and to policies that weigh lateness themselves nothing.
func lateness(t *dpt.Tracker) time.Duration {
	median, sd, _, _ := t.Stats()
	switch policy, _ := t.Policy(); policy {
	case dpt.DPTL, dpt.Bimodal:
	case dpt.DPTA, dpt.DPTN:
		sd = 0
	default:
		return dpt.DefaultFloor
	}
	return dpt.DefaultFloor - max(0, min(dpt.DefaultFloor, median/10)-sd)
}

// looked tells a sensor's groups what became of a visit, whoever wanted it.
func (p *Planner) looked(s *sensor, o visit.Outcome, now time.Time) {
	fresh := o.Result == visit.Described && o.Reason != NotStored
	s.look = look{}
	if fresh {
		s.rec.Fresh = now
	}
	if s.asked {
		s.asked = false
		s.groups[0].flight--
	}
	for _, r := range s.groups {
		r.mdpt.Observe(r.source, o.Started, fresh, dpt.Expected{})
		if r.mdpt.Ready() >= r.needs() { // the store republishes it with the outcome
			r.mdpt.Republished()
			s.rec.complete(r.ID, now)
		}
		r.dirty = true
	}
}

// complete notes that a visit to the sensor completed the condition of one of its groups.
func (r *Record) complete(group string, now time.Time) {
	done := maps.Clone(r.Completed) // a copy of the record may share the old one
	if done == nil {
		done = map[string]time.Time{}
	}
	done[group] = now
	r.Completed = done
}
