package discovery

import "slices"

// holding finds where an object was when a window opened. Of each family it reads backward
// only until no older cell can change that: of its life one instant, and of its stays by a
// relation until an instant after which it was in one container, or until that of its life.
type holding struct {
	*tracer
	object string
	before int64 // when the window opened
	since  int64 // instant of its last birth or end, Beginning if there is none
}

// read appends to t.past what matters of a family. Life comes before stays.
func (h *holding) read(f Family) error {
	if h.before == Beginning || f != Life && f != Aggregated && f != Associated {
		return nil
	}
	h.rows.Scan(h.object, f, h.since, h.before-1)
	at := len(h.past) // where the instant begins that is being read
	for {
		cells, is, err := h.next(h.past)
		if h.past = cells; err != nil || !is {
			return err
		}
		last := len(cells) - 1
		if cells[last].Time == cells[at].Time {
			if f == Life {
				h.since = cells[at].Time
			}
			continue
		}
		if f == Life || decides(cells[at:last]) {
			h.past = cells[:last]
			return nil
		}
		at = last
	}
}

// decides tells whether the object is in one container after the cells of an instant,
// wherever it was before.
func decides(cells []Cell) bool {
	joined := ""
	for i := range cells {
		c := &cells[i]
		switch {
		case c.Role == Leave:
		case joined != "" && joined != c.Parent:
			return false // which of them was last depends on where it was
		default:
			joined = c.Parent
		}
	}
	left := func(c Cell) bool { return c.Role == Leave && c.Parent == joined }
	return joined != "" && !slices.ContainsFunc(cells, left)
}

// hold is where the object was when the window opened, and whether its life had ended: what
// was read of the past played by rank, without looking at the containers. A container that
// released the object before a has lost it.
func (t *tracer) hold(a int64) (s state, finished bool, err error) {
	sortCells(t.past)
	for cells := range instants(t.past) {
		n := newInstant(cells)
		for c := n.next(&s); c != nil; c = n.next(&s) {
			finished = s.pass(c, finished)
		}
	}
	for k := range relations {
		if s[k].parent == "" || err != nil {
			continue
		}
		var gone bool
		if gone, err = t.released(s[k].parent, k, s[k].since, a-1); gone {
			s[k] = stay{}
		}
		s[k].clear = a - 1
	}
	return s, finished, err
}

// pass is what a cell from before the window does. Whether a container released its contents
// meanwhile makes no difference to who is in it after a cell that says so; since is then the
// last such cell, before which nothing can have been released that still counts.
func (s *state) pass(c *Cell, finished bool) bool {
	k, child := relationOf(c)
	switch {
	case c.Role == Birth:
		*s = state{}
		return false
	case c.Role == End:
		*s = state{}
		return true
	case child && c.Role != Leave:
		s[k] = stay{c.Parent, c.Time, c.Time}
	case child && s[k].parent == c.Parent:
		s[k] = stay{}
	}
	return finished
}
