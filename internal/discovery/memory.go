package discovery

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Memory is a Store that keeps everything in memory, for a document that is read and traced
// by one process. It may be used concurrently.
type Memory struct {
	mu           sync.Mutex
	events       map[[16]byte]Record
	declarations map[declaration]Record
	rows         map[memoryRow]*memoryCells
}

// declaration says that a publisher's event is in error.
type declaration struct {
	id        [16]byte
	publisher string
}

type memoryRow struct {
	object string
	family Family
}

// memoryCells are sorted, oldest first, when they are read.
type memoryCells struct {
	cells  []Cell
	sorted bool
}

// NewMemory is an empty Memory.
func NewMemory() *Memory {
	return &Memory{events: map[[16]byte]Record{}, declarations: map[declaration]Record{},
		rows: map[memoryRow]*memoryCells{}}
}

// Publish is of Store.
func (m *Memory) Publish(_ context.Context, records []Record) ([]bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.conflict(records); err != nil {
		return nil, err
	}
	stored := make([]bool, len(records))
	for i := range records {
		r := &records[i]
		id := Identity(r.Publisher, &r.Event)
		if r.Event.Error != nil {
			d := declaration{id, r.Publisher}
			if _, known := m.declarations[d]; !known {
				m.declarations[d], stored[i] = *r, true
			}
			continue
		}
		if _, known := m.events[id]; known {
			continue
		}
		m.events[id], stored[i] = *r, true
		for _, c := range Cells(r) {
			row := memoryRow{c.Object, c.Family}
			if m.rows[row] == nil {
				m.rows[row] = &memoryCells{}
			}
			m.rows[row].cells, m.rows[row].sorted = append(m.rows[row].cells, c), false
		}
	}
	return stored, nil
}

// conflict finds two events of one identity, stored or among the records.
func (m *Memory) conflict(records []Record) error {
	hashes := map[[16]byte][32]byte{}
	for i := range records {
		e := &records[i].Event
		if e.Error != nil {
			continue
		}
		id := Identity(records[i].Publisher, e)
		have, known := hashes[id]
		if r, stored := m.events[id]; stored {
			have, known = r.Event.Hash, true
		}
		if known && have != e.Hash {
			return fmt.Errorf("%s: %w", e.EventID(), ErrConflict)
		}
		hashes[id] = e.Hash
	}
	return nil
}

// Read is of Store.
func (m *Memory) Read(fn func(Rows) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return fn(&memoryRows{Memory: m})
}

// memoryRows reads a Memory that is locked.
type memoryRows struct {
	*Memory
	left []Cell // of the row, the oldest first
}

// Scan is of Rows.
func (r *memoryRows) Scan(object string, f Family, from, to int64) {
	r.left = nil
	row := r.rows[memoryRow{object, f}]
	if row == nil || from > to {
		return
	}
	if !row.sorted {
		slices.SortFunc(row.cells, func(a, b Cell) int {
			return cmp.Or(cmp.Compare(a.Time, b.Time), bytes.Compare(a.ID16[:], b.ID16[:]))
		})
		row.sorted = true
	}
	at := func(c Cell, t int64) int { return cmp.Compare(c.Time, t) }
	first, _ := slices.BinarySearchFunc(row.cells, from, at)
	end := len(row.cells)
	if to != Forever {
		end, _ = slices.BinarySearchFunc(row.cells, to+1, at)
	}
	r.left = row.cells[first:end]
}

// Next is of Rows.
func (r *memoryRows) Next(c *Cell) (is bool, err error) {
	last := len(r.left) - 1
	if last < 0 {
		return false, nil
	}
	*c, r.left = r.left[last], r.left[:last]
	_, c.Erased = r.declarations[declaration{c.ID16, r.events[c.ID16].Publisher}]
	return true, nil
}

// Events is of Store. A cursor is the place of the last record of the page before.
func (m *Memory) Events(from, to int64, cursor string, limit int) ([]Record, string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	type placed struct {
		place string
		Record
	}
	var all []placed
	for r := range m.all() {
		at := r.Event.Time.UnixMicro()
		if place := recordPlace(&r); at >= from && at < to && place > cursor {
			all = append(all, placed{place, r})
		}
	}
	slices.SortFunc(all, func(a, b placed) int { return strings.Compare(a.place, b.place) })
	var page []Record
	for i, p := range all {
		if i == limit {
			return page, all[i-1].place, nil
		}
		page = append(page, p.Record)
	}
	return page, "", nil
}

// recordPlace orders records, the newest first.
func recordPlace(r *Record) string {
	id := Identity(r.Publisher, &r.Event)
	newest := ^(uint64(r.Event.Time.UnixMicro()) ^ 1<<63)
	place := fmt.Sprintf("%016x.%s", newest, hex.EncodeToString(id[:]))
	if r.Event.Error != nil {
		place += "." + r.Publisher
	}
	return place
}

// all are events and declarations, in no order.
func (m *Memory) all() func(yield func(Record) bool) {
	return func(yield func(Record) bool) {
		for _, r := range m.events {
			if !yield(r) {
				return
			}
		}
		for _, r := range m.declarations {
			if !yield(r) {
				return
			}
		}
	}
}

// Record is of Store.
func (m *Memory) Record(eventID string) (records []Record, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for r := range m.all() {
		if r.Event.EventID() == eventID {
			records = append(records, r)
		}
	}
	slices.SortFunc(records, func(a, b Record) int {
		return strings.Compare(recordPlace(&a), recordPlace(&b))
	})
	return records, nil
}
