package discovery

import (
	"cmp"
	"slices"
)

// The first page of a row is that long, each further one twice as long as the one before:
// most rows are short, and what decides where an object was is mostly among its last cells.
const (
	firstPage = 8
	longPage  = 512
)

// reader reads a row backward in pages.
type reader struct {
	t        *tracer
	object   string
	family   Family
	from, to int64 // what is left to read
	limit    int
	ended    bool
}

func (t *tracer) reader(object string, f Family, from, to int64) reader {
	return reader{t: t, object: object, family: f, from: from, to: to, limit: firstPage,
		ended: from > to}
}

// next is the next page, all of its instants whole, the newest first; none at the end or
// where the trace is stopped.
func (r *reader) next() ([]Cell, error) {
	if r.ended || r.t.stopped {
		return nil, nil
	}
	if err := r.t.ctx.Err(); err != nil {
		return nil, err
	}
	page, err := r.t.store.Read(r.object, r.family, r.from, r.to, r.limit)
	if err != nil {
		return nil, err
	}
	if r.t.cells += len(page); r.t.cells > MaxCells {
		r.t.stop()
	}
	oldest := Beginning
	if len(page) > 0 {
		oldest = page[len(page)-1].Time
	}
	if r.ended = len(page) < r.limit || oldest <= r.from; !r.ended {
		r.to = oldest - 1
	}
	r.limit = min(2*r.limit, longPage)
	return page, nil
}

// window reads what belongs to a <= Time <= b of an object at a level, by time and event ID,
// and leaves in past what is older: cells that came with a page, and the reader.
func (t *tracer) window(object string, level int, a, b int64) (row []Cell, past past, err error) {
	past.reader = t.reader(object, Movement, Beginning, b)
	for {
		page, err := past.next()
		if err != nil {
			return nil, past, err
		}
		if past.cells = nil; len(page) == 0 {
			break
		}
		n := len(page)
		if page[n-1].Time < a {
			n = slices.IndexFunc(page, func(c Cell) bool { return c.Time < a })
		}
		if row == nil {
			row = page[:n:n]
		} else {
			row = append(row, page[:n]...)
		}
		if n < len(page) {
			past.cells = page[n:]
			break
		}
	}
	families := []Family{Descriptions, Contents}
	if level > 0 { // what else a container contains is no matter
		families = families[:1]
	}
	for _, f := range families {
		for r := t.reader(object, f, a, b); !r.ended && !t.stopped; {
			page, err := r.next()
			if err != nil {
				return nil, past, err
			}
			row = append(row, page...)
		}
	}
	row = slices.DeleteFunc(row, func(c Cell) bool { return !t.takesPart(&c) })
	sortCells(row)
	return row, past, nil
}

// sortCells orders cells by time, those of one instant by event ID.
func sortCells(cells []Cell) {
	slices.Reverse(cells)
	order := func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.Time, b.Time), cmp.Compare(a.EventID, b.EventID),
			cmp.Compare(a.Family, b.Family), slices.Compare(a.ID16[:], b.ID16[:]))
	}
	if !slices.IsSortedFunc(cells, order) {
		slices.SortFunc(cells, order)
	}
}

// instants calls play for the cells of each instant, until it is told to stop.
func instants(cells []Cell, play func(cells []Cell) (goOn bool, err error)) error {
	for len(cells) > 0 {
		n := 1
		for n < len(cells) && cells[n].Time == cells[0].Time {
			n++
		}
		if goOn, err := play(cells[:n]); err != nil || !goOn {
			return err
		}
		cells = cells[n:]
	}
	return nil
}

// releases tells whether an event of the row of a container lets go all that is in it by
// that kind.
func releases(c *Cell, k relation) bool {
	return c.Role == End || c.Role == AllLeave && c.Kind == k.kind()
}

// released tells whether a container let go a kind in after < t <= to.
func (t *tracer) released(container string, k relation, after, to int64) (bool, error) {
	if after == Forever {
		return false, nil
	}
	for r := t.reader(container, Movement, after+1, to); !r.ended && !t.stopped; {
		page, err := r.next()
		if err != nil {
			return false, err
		}
		for i := range page {
			if t.takesPart(&page[i]) && releases(&page[i], k) {
				return true, nil
			}
		}
	}
	return false, nil
}
