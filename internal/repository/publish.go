package repository

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/discovery"
)

// Publish stores events with their cells and returns when they are COMMITTED: see
// discovery.Store. Publishes at the same time share a transaction; one that is refused
// changes nothing of it, and one that is a replay writes nothing.
//
// An error means that nothing of it was stored, but for a context that ended while the
// commit was running, which leaves that open. See ErrFull, ErrBroken,
// discovery.ErrConflict.
func (r *Repository) Publish(ctx context.Context, records []discovery.Record) ([]bool, error) {
	if len(records) == 0 {
		return nil, nil
	}
	if err := r.number(ctx, records); err != nil {
		return nil, err
	}
	p, err := r.publication(records)
	if err != nil {
		return nil, r.named(err)
	}
	if again, err := p.replayed(); again || err != nil {
		return p.stored, err
	}
	// In the order of their times events fill the pages that they are appended to.
	first := &op{key: p.entries[0].key, apply: p.apply, rows: p.rows}
	if err := r.wait(ctx, first); err != nil {
		return nil, err
	}
	return p.stored, r.named(p.refused)
}

// replayed tells whether all of it is stored already, so that there is nothing to write. Why
// not is for the writer to say.
func (p *publication) replayed() (all bool, err error) {
	err = p.view(func(tx *bbolt.Tx) error {
		s := shelves{events: tx.Bucket([]byte("events")), ids: tx.Bucket([]byte("eventids"))}
		for i := range p.entries {
			if known, err := p.known(s, &p.entries[i]); !known || err != nil {
				return nil
			}
		}
		all = true
		return nil
	})
	return all, err
}

// number sees to it that publishers and sources have their numbers before a row needs them.
func (r *Repository) number(ctx context.Context, records []discovery.Record) error {
	var unknown []string
	n := r.names.Load()
	for i := range records {
		for _, text := range []string{records[i].Publisher, records[i].Event.Source} {
			_, known := n.numbers[text]
			if !known && text != "" && len(text) <= maxName && !slices.Contains(unknown, text) &&
				len(n.texts)+len(unknown) < maxNames {
				unknown = append(unknown, text)
			}
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	err := r.wait(ctx, &op{apply: func(t *transaction) error { return t.addNames(unknown) }})
	if err != nil {
		return err
	}
	return r.view(r.loadNames)
}

// publication is one Publish as its rows, made on the caller's goroutine.
type publication struct {
	*Repository
	entries   []publishedEvent
	documents map[[hashLen]byte][]byte // rows
	rows      int

	stored  []bool
	refused error // nothing of it was written; the transaction goes on
}

// publishedEvent is one record as its rows.
type publishedEvent struct {
	record   *discovery.Record
	identity [idLen]byte // of the event, also where this declares its error
	declared [idLen]byte // identity of the declaration
	seq      byte
	key      []byte // in events
	row      []byte
	document [hashLen]byte
	cells    []cellRow
}

type cellRow struct{ key, value []byte }

func (r *Repository) publication(records []discovery.Record) (*publication, error) {
	p := &publication{Repository: r, stored: make([]bool, len(records)),
		entries: make([]publishedEvent, len(records)), documents: map[[hashLen]byte][]byte{}}
	docs := map[*byte]*preparedDocument{}
	for i := range records {
		if err := p.prepare(&p.entries[i], &records[i], docs); err != nil {
			return nil, fmt.Errorf("record %d, event %q: %w", i, records[i].Event.EventID(), err)
		}
		p.rows += 3 + len(p.entries[i].cells)
	}
	return p, nil
}

// preparedDocument is a signature that was met before.
type preparedDocument struct {
	key    [hashLen]byte
	places map[string]int // of events, by their compact JSON
}

func (p *publication) prepare(e *publishedEvent, r *discovery.Record,
	docs map[*byte]*preparedDocument) (err error) {
	if fault := firstFault(r); fault != "" {
		return fmt.Errorf("%s: cannot be stored", fault)
	}
	e.record, e.identity = r, discovery.Identity(r.Publisher, &r.Event)
	e.declared = declarationID(r.Publisher, e.identity)
	id := e.identity
	if r.Event.Error != nil {
		e.seq, id = seqDeclared, e.declared
	}
	e.key = eventKey(r.Event.Time.UnixMicro(), id, e.seq)
	row := eventRow{record: *r}
	if len(r.Event.Raw) > 0 {
		row.raw = rawPacked
	}
	if len(r.Signature) > 0 {
		d, err := p.document(r.Signature, docs)
		if err != nil {
			return err
		}
		row.signed, row.document, e.document = true, d.key, d.key
		if at, is := d.places[string(r.Event.Raw)]; is {
			row.raw, row.place = rawDocument, at
		}
	}
	if e.row, err = row.encode(p.codec, p.names.Load()); err != nil {
		return err
	}
	cells := discovery.Cells(r)
	for i := range cells {
		c := &cells[i]
		e.cells = append(e.cells, cellRow{cellKey(c, seqEvent), encodeCell(c, p.names.Load())})
	}
	return nil
}

func (p *publication) document(jws []byte, docs map[*byte]*preparedDocument) (*preparedDocument,
	error) {
	if d := docs[&jws[0]]; d != nil {
		return d, nil
	}
	sum := sha256.Sum256(jws)
	row, err := encodeDocument(p.codec, jws, sum)
	if err != nil {
		return nil, fmt.Errorf("its signature: %w", err)
	}
	d := &preparedDocument{key: [hashLen]byte(sum[:]), places: map[string]int{}}
	if parts, err := jwsParts(jws); err == nil {
		for i, event := range eventList(parts[1]) {
			d.places[string(event)] = i
		}
	}
	docs[&jws[0]], p.documents[d.key] = d, row
	p.rows++
	return d, nil
}

// shelves are the buckets of the Discovery Service in a write transaction.
type shelves struct{ cells, events, ids, documents *bbolt.Bucket }

func (t *transaction) shelves() (s shelves, err error) {
	if t.opened.cells != nil {
		return t.opened, nil
	}
	bucket := func(name string) *bbolt.Bucket {
		b, failed := t.tx.CreateBucketIfNotExists([]byte(name))
		err = errors.Join(err, failed)
		return b
	}
	s = shelves{bucket("cells"), bucket("events"), bucket("eventids"), bucket("documents")}
	if err == nil {
		t.opened = s
	}
	return s, err
}

// putCells writes the cells of all publications of the transaction. Nothing of it reads
// them, so they can wait for each other: in the order of their keys they go through the tree
// once, from neighbour to neighbour.
func (t *transaction) putCells() error {
	if len(t.cells) == 0 {
		return nil
	}
	t.opened.cells.FillPercent = cellFill
	slices.SortFunc(t.cells, func(a, b cellRow) int { return bytes.Compare(a.key, b.key) })
	for _, c := range t.cells {
		if err := t.opened.cells.Put(c.key, c.value); err != nil {
			return err
		}
	}
	return nil
}

// apply checks all events before it writes one.
func (p *publication) apply(t *transaction) error {
	s, err := t.shelves()
	if err != nil {
		return err
	}
	p.stored, p.refused = make([]bool, len(p.entries)), nil // it may be a second try
	batch := map[[idLen]byte]*publishedEvent{}
	for i := range p.entries {
		e := &p.entries[i]
		known, err := p.known(s, e)
		if err != nil {
			p.refused = fmt.Errorf("record %d, event %q: %w", i, e.record.Event.EventID(), err)
			p.stored = nil
			return nil
		}
		id := [idLen]byte(e.key[timeLen:])
		twin := batch[id]
		if twin != nil && e.seq == seqEvent && twin.record.Event.Hash != e.record.Event.Hash {
			p.refused = fmt.Errorf("record %d, event %q, twice in one publication: %w", i,
				e.record.Event.EventID(), discovery.ErrConflict)
			p.stored = nil
			return nil
		}
		if p.stored[i] = !known && twin == nil; p.stored[i] {
			batch[id] = e
		}
	}
	for i := range p.entries {
		if !p.stored[i] {
			continue
		}
		t.order(s, p.entries[i].key)
		if err := p.write(t, s, &p.entries[i]); err != nil {
			return err
		}
	}
	return nil
}

// cellFill is how far pages of cells are filled: objects come in the order of their serial
// numbers, and their rows grow later.
const cellFill = 0.65

// order fills the pages of events further while they come in the order of their times, which
// never writes to a page again: a late one in the transaction, and all pages are split in two.
func (t *transaction) order(s shelves, key []byte) {
	if last, _ := s.events.Cursor().Last(); bytes.Compare(key, last) < 0 {
		t.late = true
	}
	s.events.FillPercent = 0.9
	if t.late {
		s.events.FillPercent = bbolt.DefaultFillPercent
	}
}

// known tells whether a record is stored.
func (p *publication) known(s shelves, e *publishedEvent) (known bool, err error) {
	v := &e.record.Event
	err = s.named(v.ID, v.Hash, func(key []byte) error {
		switch {
		case key[eventKeyLen-1] != e.seq || !bytes.Equal(key[timeLen:], e.key[timeLen:]):
			return nil
		case e.seq == seqDeclared:
			known = true
			return nil
		}
		have, err := decodeEvent(p.codec, key, s.events.Get(key), p.names.Load())
		switch {
		case err != nil:
			return inBucket("events", key, err)
		case have.record.Event.Hash != v.Hash:
			return discovery.ErrConflict
		}
		known = true
		return nil
	})
	return known, err
}

// named calls found for the keys of all records to which eventids leads from an event's ID
// or hash. Others whose hash begins in the same way may be among them.
func (s shelves) named(id string, hash [32]byte, found func(key []byte) error) error {
	if s.ids == nil || s.events == nil {
		return nil
	}
	name := nameKey(id, hash)
	c := s.ids.Cursor()
	for k, _ := c.Seek(name); bytes.HasPrefix(k, name); k, _ = c.Next() {
		prefix, seq, err := eventPrefix(k)
		if err != nil {
			return inBucket("eventids", k, err)
		}
		e := s.events.Cursor()
		for key, _ := e.Seek(prefix); bytes.HasPrefix(key, prefix); key, _ = e.Next() {
			if len(key) != eventKeyLen {
				return inBucket("events", key, fmt.Errorf("not a key of events: %w", ErrCorrupt))
			}
			if key[eventKeyLen-1] != seq {
				continue
			}
			if err := found(key); err != nil {
				return err
			}
		}
	}
	return nil
}

// write puts the rows of a new record; those of its cells wait for putCells.
func (p *publication) write(t *transaction, s shelves, e *publishedEvent) error {
	v := &e.record.Event
	if row := p.documents[e.document]; row != nil {
		if err := s.documents.Put(e.document[:], row); err != nil {
			return err
		}
	}
	if err := s.events.Put(e.key, e.row); err != nil {
		return err
	}
	if err := s.ids.Put(eventIDKey(v, e.key), nil); err != nil {
		return err
	}
	t.cells = append(t.cells, e.cells...)
	return p.erase(t, s, e)
}

// erase marks the cells of an event that was declared an error: this one, if its declaration
// came before it, or the one that this declares.
func (p *publication) erase(t *transaction, s shelves, e *publishedEvent) error {
	var marked []cellRow
	wanted, seq := e.declared, byte(seqDeclared)
	if e.seq == seqDeclared {
		wanted, seq = e.identity, seqEvent
	}
	v := &e.record.Event
	err := s.named(v.ID, v.Hash, func(key []byte) error {
		if key[eventKeyLen-1] != seq || [idLen]byte(key[timeLen:]) != wanted {
			return nil
		}
		if e.seq == seqEvent {
			marked = e.cells
			return nil
		}
		have, err := decodeEvent(p.codec, key, s.events.Get(key), p.names.Load())
		if err != nil || have.record.Publisher != e.record.Publisher {
			return err
		}
		cells := discovery.Cells(&have.record)
		for i := range cells {
			marked = append(marked, cellRow{key: cellKey(&cells[i], seqEvent)})
		}
		return nil
	})
	for _, c := range marked {
		key := bytes.Clone(c.key)
		key[len(key)-1] = seqDeclared
		t.cells = append(t.cells, cellRow{key: key})
	}
	return err
}
