package discovery

import "slices"

// walk is one row being played in one window.
type walk struct {
	*tracer
	path     []string // from the object asked for to that of the row
	via      stay     // how the one before on the path is in it; below level 0
	kind     relation // by which relation
	a, b     int64
	state    state
	finished bool
	released bool // below level 0: it let go what was followed to it, and the walk stopped
}

// walked is what a walk leads to.
type walked struct {
	released, finished bool
	inside             []string
}

// walk plays the row of the last object on the path from a to b, both included. via and
// kind tell how and since when the one before it on the path is in it.
func (t *tracer) walk(path []string, via stay, kind relation, a, b int64) (walked, error) {
	w := &walk{tracer: t, path: path, via: via, kind: kind, a: a, b: b}
	first := len(t.row)
	row, err := w.window()
	if err != nil {
		return walked{}, err
	}
	if w.state, w.finished, err = t.hold(a); err != nil {
		return walked{}, err
	}
	for cells := range instants(row) {
		if goOn, err := w.instant(cells); err != nil {
			return walked{}, err
		} else if !goOn {
			break
		}
	}
	inside, err := w.still()
	t.row = t.row[:first] // the rows of walks lie on each other
	return walked{w.released, w.finished, inside}, err
}

func (w *walk) object() string { return w.path[len(w.path)-1] }
func (w *walk) level() int     { return len(w.path) - 1 }

// concerns tells which all-leaves are of the walk: they stand among the contents as well, and
// of a container only the one matters that lets go what was followed to it.
func (w *walk) concerns(c *Cell) bool {
	return w.level() > 0 && c.Kind == w.kind.kind() && c.Time > w.via.since
}

func (w *walk) instant(cells []Cell) (goOn bool, err error) {
	if len(cells) == 1 {
		err := w.play(&cells[0])
		return err == nil && !w.released && !w.stopped, err
	}
	n := newInstant(cells)
	for c := n.next(&w.state); c != nil; c = n.next(&w.state) {
		if err := w.play(c); err != nil || w.released || w.stopped {
			return false, err
		}
	}
	return true, nil
}

func (w *walk) play(c *Cell) error {
	k, _ := relationOf(c)
	switch c.Role {
	case Leave:
		return w.leaves(c, k)
	case Join, Seen:
		return w.joins(c, k)
	case AllLeave:
		w.emit(c, w.path)
		w.released, w.b = true, c.Time
		return nil
	case End:
		return w.ends(c)
	case Birth:
		return w.begins(c)
	}
	w.emit(c, w.path)
	return nil
}

func (w *walk) leaves(c *Cell, k relation) error {
	if w.state[k].parent == c.Parent {
		if _, err := w.leave(k, c.Time); err != nil {
			return err
		}
	} else {
		w.warn(Warning{Code: "unmatched_delete", Object: w.object(), EventID: c.EventID})
	}
	w.emit(c, w.path)
	return nil
}

func (w *walk) joins(c *Cell, k relation) error {
	s := &w.state[k]
	if s.parent == c.Parent {
		gone, err := w.tracer.released(s.parent, k, s.clear, c.Time)
		if err != nil {
			return err
		}
		if !gone {
			s.clear = c.Time
			if c.Role == Join {
				w.warn(Warning{Code: "double_add", Object: w.object(), EventID: c.EventID})
			}
			w.emit(c, w.path)
			return nil
		}
	}
	if err := w.leaveOr("lost_delete", k, c.Time); err != nil {
		return err
	}
	if c.Role == Seen {
		w.warn(Warning{Code: "lost_add", Object: w.object(), EventID: c.EventID})
	}
	w.emit(c, w.path)
	w.state[k] = stay{c.Parent, c.Time, c.Time}
	return nil
}

func (w *walk) ends(c *Cell) error {
	for k := range relations {
		if _, err := w.leave(k, c.Time); err != nil {
			return err
		}
	}
	w.emit(c, w.path)
	w.finished = true
	if w.level() > 0 {
		w.released, w.b = true, c.Time
	}
	return nil
}

func (w *walk) begins(c *Cell) error {
	for k := range relations {
		if err := w.leaveOr("commissioned_inside", k, c.Time); err != nil {
			return err
		}
	}
	w.emit(c, w.path)
	w.finished = false
	return nil
}

// leaveOr leaves a container that has not released the object with a warning.
func (w *walk) leaveOr(code string, k relation, at int64) error {
	p := w.state[k].parent
	if p == "" {
		return nil
	}
	up, err := w.leave(k, at)
	if err == nil && !up.released {
		w.warn(Warning{Code: code, Object: w.object(), Container: p})
	}
	return err
}

// leave ends the stay by a relation at an instant: only now is it known for how long the
// container's events are the object's.
func (w *walk) leave(k relation, at int64) (up walked, err error) {
	s := w.state[k]
	if s.parent == "" || w.stopped {
		return walked{}, nil
	}
	w.state[k] = stay{}
	if slices.Contains(w.path, s.parent) {
		w.warn(Warning{Code: "cycle", Object: w.object(), Container: s.parent})
		return walked{}, nil
	}
	if w.level() == MaxDepth {
		w.answer.Truncated = true
		return walked{}, nil
	}
	path := append(slices.Clip(w.path), s.parent)
	up, err = w.walk(path, s, k, max(s.since, w.a), at)
	if !up.released {
		up.inside = append([]string{s.parent}, up.inside...)
	}
	return up, err
}

// still leaves what the object is in at the end of the window, and tells it.
func (w *walk) still() (inside []string, err error) {
	for k := range relations {
		up, err := w.leave(k, w.b)
		if err != nil {
			return nil, err
		}
		if !up.released {
			inside = append(inside, up.inside...)
		}
	}
	return inside, nil
}
