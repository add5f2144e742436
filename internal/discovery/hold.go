package discovery

import "slices"

// past is what a row has from before a window.
type past struct {
	reader
	cells []Cell // that were read with the window, the newest first
}

// hold is where the object was when the window opened and, where life is asked for, whether
// its life had ended. It reads backward only until no older cell can change that: a birth or an end decides all, and
// a relation is decided by an instant in which the object joined one container and did not
// leave it. What follows is played by rank, without looking at the containers; a container
// that released the object before a has lost it.
func (t *tracer) hold(p past, a int64, life bool) (s state, finished bool, err error) {
	if a == Beginning {
		return s, false, nil
	}
	var cells []Cell // the newest first
	d := decided{askLife: life}
	for page := p.cells; !d.all(); {
		cells = append(cells, d.read(t, page)...)
		if d.all() || p.ended || t.stopped {
			break
		}
		if page, err = p.next(); err != nil {
			return s, false, err
		}
	}
	sortCells(cells)
	err = instants(cells, func(cells []Cell) (bool, error) {
		n := newInstant(cells)
		for c := n.next(&s); c != nil; c = n.next(&s) {
			finished = s.pass(c, finished)
		}
		return true, nil
	})
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

// decided is what of the state is known, going backward.
type decided struct {
	askLife bool // it matters whether the object's life had ended
	life    bool
	known   [relations]bool
}

func (d *decided) all() bool {
	return d.life || !d.askLife && d.known[aggregation] && d.known[association]
}

// read takes the instants of a page, the newest first, until all is decided.
func (d *decided) read(t *tracer, page []Cell) []Cell {
	var kept []Cell
	for len(page) > 0 && !d.all() {
		n := 1
		for n < len(page) && page[n].Time == page[0].Time {
			n++
		}
		at := len(kept)
		for i := range page[:n] {
			c := &page[i]
			_, child := relationOf(c)
			if t.takesPart(c) && (child || c.Role == Birth || c.Role == End) {
				kept = append(kept, *c)
			}
		}
		d.by(kept[at:])
		page = page[n:]
	}
	return kept
}

// by learns from the cells of one instant.
func (d *decided) by(cells []Cell) {
	for k := range relations {
		joined, clear := "", true
		for i := range cells {
			c := &cells[i]
			of, child := relationOf(c)
			switch {
			case !child:
				d.life = true
			case of != k || c.Role == Leave:
			case joined != "" && joined != c.Parent:
				clear = false // which of them was last depends on where it was
			default:
				joined = c.Parent
			}
		}
		left := func(c Cell) bool {
			of, child := relationOf(&c)
			return child && of == k && c.Role == Leave && c.Parent == joined
		}
		if joined != "" && clear && !slices.ContainsFunc(cells, left) {
			d.known[k] = true
		}
	}
}
