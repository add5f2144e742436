package repository

import (
	"bytes"
	"fmt"

	"github.com/crawld/crawld/internal/discovery"
)

// checkDiscovery verifies that events, cells and what they need lead to each other.
func (k *checker) checkDiscovery() {
	var err error
	if k.names, err = readNames(k.tx); err != nil {
		k.problem("%v", err)
	}
	k.shelves = shelves{cells: k.bucket("cells"), events: k.bucket("events"),
		ids: k.bucket("eventids"), documents: k.bucket("documents")}
	k.report.Cells = k.each("cells", k.cell)
	k.report.Events = k.each("events", k.event)
	k.each("eventids", k.eventID)
	k.report.Documents = k.each("documents", func(key, value []byte) error {
		_, err := k.decodeDocument(key, value)
		return err
	})
}

// cell verifies that a cell can be read and that what it tells of is stored.
func (k *checker) cell(key, value []byte) error {
	short, rest, err := cutSensor(key)
	if err != nil {
		return err
	}
	if len(rest) == 0 {
		return fmt.Errorf("no family: %w", ErrCorrupt)
	}
	c := discovery.Cell{Object: longObject(short), Family: discovery.Family(rest[0])}
	seq, err := cutCell(&c, rest[1:])
	if err != nil {
		return err
	}
	if seq == seqDeclared {
		before := bytes.Clone(key)
		before[len(key)-1] = seqEvent
		if k.cells.Get(before) == nil || len(value) > 0 {
			return fmt.Errorf("a declaration without its cell: %w", ErrCorrupt)
		}
		return nil
	}
	if err := decodeCell(&c, value, k.names, nil); err != nil {
		return err
	}
	if !bytes.Equal(cellKey(&c, seqEvent), key) {
		return fmt.Errorf("object %q is written otherwise: %w", c.Object, ErrCorrupt)
	}
	switch c.Family {
	case discovery.Descriptions:
		if k.bucket("bodies").Get(c.ID16[:]) == nil {
			return fmt.Errorf("object %q: body %s is not stored", c.Object, c.EventID)
		}
	case discovery.Contents, discovery.Emptied, discovery.Life, discovery.Aggregated,
		discovery.Associated, discovery.Observed:
		if k.events == nil || k.events.Get(eventKey(c.Time, c.ID16, seqEvent)) == nil {
			return fmt.Errorf("object %q: event %q is not stored", c.Object, c.EventID)
		}
	default:
		return fmt.Errorf("object %q: family %q: %w", c.Object, byte(c.Family), ErrCorrupt)
	}
	return nil
}

// event verifies that an event can be read, stands under its identity, is found by its ID,
// and that its cells are there, marked if it was declared an error.
func (k *checker) event(key, value []byte) error {
	e, err := decodeEvent(k.codec, key, value, k.names)
	if err != nil {
		return err
	}
	r := &e.record
	id := r.Event.EventID()
	switch {
	case !bytes.Equal(recordKey(r), key):
		return fmt.Errorf("event %q is of another identity: %w", id, ErrCorrupt)
	case k.ids == nil || k.ids.Get(eventIDKey(&r.Event, key)) == nil:
		return fmt.Errorf("event %q is not in eventids", id)
	case e.signed && (k.documents == nil || k.documents.Get(e.document[:]) == nil):
		return fmt.Errorf("event %q: its document %x is not stored", id, e.document)
	}
	return k.cellsOf(r)
}

func (k *checker) cellsOf(r *discovery.Record) error {
	declared := false
	wanted := declarationID(r.Publisher, discovery.Identity(r.Publisher, &r.Event))
	err := k.named(r.Event.ID, r.Event.Hash, func(key []byte) error {
		declared = declared || key[eventKeyLen-1] == seqDeclared && [idLen]byte(key[timeLen:]) == wanted
		return nil
	})
	if err != nil {
		return err
	}
	cells := discovery.Cells(r)
	for i := range cells {
		c := &cells[i]
		if k.cells == nil || k.cells.Get(cellKey(c, seqEvent)) == nil {
			return fmt.Errorf("event %q: its cell of %q is not stored", c.EventID, c.Object)
		}
		if marked := k.cells.Get(cellKey(c, seqDeclared)) != nil; marked != declared {
			return fmt.Errorf("event %q: its cell of %q is marked as an error: %v; it is one: %v",
				c.EventID, c.Object, marked, declared)
		}
	}
	return nil
}

// eventID verifies that an event ID leads to a record.
func (k *checker) eventID(key, _ []byte) error {
	prefix, seq, err := eventPrefix(key)
	if err != nil {
		return err
	}
	if k.events != nil {
		c := k.events.Cursor()
		for e, v := c.Seek(prefix); bytes.HasPrefix(e, prefix); e, v = c.Next() {
			row, err := decodeEvent(k.codec, e, v, k.names)
			if err == nil && e[eventKeyLen-1] == seq && bytes.Equal(eventIDKey(&row.record.Event, e), key) {
				return nil
			}
		}
	}
	return fmt.Errorf("leads to no event")
}
