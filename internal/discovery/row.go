package discovery

import (
	"cmp"
	"slices"
)

// checkEvery is after how many cells it is looked whether somebody still waits.
const checkEvery = 512

// next appends the next cell of the row that was scanned last which takes part; none at its
// end or where the trace is stopped.
func (t *tracer) next(cells []Cell) (longer []Cell, is bool, err error) {
	for !t.stopped {
		at := len(cells)
		cells = append(cells, Cell{})
		if is, err := t.rows.Next(&cells[at]); err != nil || !is {
			return cells[:at], false, err
		}
		if t.cells++; t.cells > MaxCells {
			t.stop()
		}
		if t.cells%checkEvery == 0 && t.ctx.Err() != nil {
			return cells[:at], false, t.ctx.Err()
		}
		if t.takesPart(&cells[at]) {
			return cells, true, nil
		}
		cells = cells[:at]
	}
	return cells, false, nil
}

// rest appends what is left of the row.
func (t *tracer) rest(cells []Cell) ([]Cell, error) {
	for {
		longer, is, err := t.next(cells)
		if cells = longer; err != nil || !is {
			return cells, err
		}
	}
}

// window reads what belongs to a <= Time <= b of the walk's object onto t.row, and what is
// older onto t.past where it tells where the object was at a. Families are read in their
// order, and of each what is older at once.
func (w *walk) window() (row []Cell, err error) {
	t := w.tracer
	if err := t.ctx.Err(); err != nil {
		return nil, err
	}
	first := len(t.row)
	t.past = t.past[:0]
	h := holding{tracer: t, object: w.object(), before: w.a, since: Beginning}
	families := [...]Family{Contents, Descriptions, Emptied, Life, Aggregated, Associated, Observed}
	for _, f := range families {
		if f == Contents && w.level() > 0 { // what else a container contains is no matter
			continue
		}
		t.rows.Scan(h.object, f, w.a, w.b)
		from := len(t.row)
		if t.row, err = t.rest(t.row); err != nil {
			return nil, err
		}
		if f == Emptied {
			kept := slices.DeleteFunc(t.row[from:], func(c Cell) bool { return !w.concerns(&c) })
			t.row = t.row[:from+len(kept)]
		}
		if err := h.read(f); err != nil {
			return nil, err
		}
	}
	row = t.row[first:]
	sortCells(row)
	return row, nil
}

// sortCells orders cells that are mostly newest first by time, those of one instant by event
// ID.
func sortCells(cells []Cell) {
	slices.Reverse(cells)
	if !slices.IsSortedFunc(cells, earlier) {
		slices.SortFunc(cells, earlier)
	}
}

func earlier(a, b Cell) int {
	if a.Time != b.Time {
		return cmp.Compare(a.Time, b.Time)
	}
	return cmp.Or(cmp.Compare(a.EventID, b.EventID), cmp.Compare(a.Family, b.Family),
		slices.Compare(a.ID16[:], b.ID16[:]))
}

// instants splits cells by their times.
func instants(cells []Cell) func(yield func(cells []Cell) bool) {
	return func(yield func([]Cell) bool) {
		for len(cells) > 0 {
			n := 1
			for n < len(cells) && cells[n].Time == cells[0].Time {
				n++
			}
			if !yield(cells[:n]) {
				return
			}
			cells = cells[n:]
		}
	}
}

// released tells whether a container let go all that is in it by a kind in after < t <= to:
// when it was emptied, or by its own end.
func (t *tracer) released(container string, k relation, after, to int64) (bool, error) {
	if after >= to {
		return false, nil
	}
	for _, f := range []Family{Emptied, Life} {
		t.rows.Scan(container, f, after+1, to)
		for {
			cells, is, err := t.next(t.past[:0])
			if t.past = cells[:0]; err != nil {
				return false, err
			}
			if !is {
				break
			}
			if c := &cells[0]; c.Role == End || c.Role == AllLeave && c.Kind == k.kind() {
				return true, nil
			}
		}
	}
	return false, nil
}
