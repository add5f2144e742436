package discovery

import "fmt"

// follow walks what the object was made into or made of, and what that was, each from or up
// to the transformation. The walks add to the list of those that are looked at.
func (t *tracer) follow(q Query, to int64) error {
	walked := map[place]bool{}
	for i := 0; i < len(t.turns) && !t.stopped; i++ {
		c := t.turns[i]
		objects, err := t.otherSide(&c, q.Follow)
		if err != nil {
			return err
		}
		a, b := q.From, c.Time
		if q.Follow == Forward {
			a, b = c.Time, to
		}
		for _, o := range objects {
			at := place{id: c.ID16, object: o}
			if walked[at] || t.stopped {
				continue
			}
			walked[at] = true
			if t.cells++; t.cells > MaxCells { // an empty row costs too
				t.stop()
			}
			if _, err := t.top(o, a, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// otherSide is what a transformation made, or what it was made of.
func (t *tracer) otherSide(c *Cell, f Follow) ([]string, error) {
	records, err := t.store.Record(c.EventID)
	if err != nil {
		return nil, err
	}
	for i := range records {
		e := &records[i].Event
		if e.Error != nil || Identity(records[i].Publisher, e) != c.ID16 {
			continue
		}
		if f == Forward {
			return e.EPCs, nil
		}
		return e.Inputs, nil
	}
	return nil, fmt.Errorf("object %q: the record of its event %q is missing", c.Object, c.EventID)
}
