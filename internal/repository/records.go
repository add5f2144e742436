package repository

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/discovery"
)

// ErrCursor is wrapped by the error of Events for a cursor that it did not give.
var ErrCursor = errors.New("not a cursor of this listing")

// maxPageBytes ends a page of records early: a document may have 256 KiB.
const maxPageBytes = 16 << 20

// recordReader turns rows of events into records within one transaction.
type recordReader struct {
	codec
	tx    *bbolt.Tx
	names *names
	docs  map[[hashLen]byte]*signedDocument
	bytes int // of what was read
}

func (r *Repository) recordReader(tx *bbolt.Tx) (*recordReader, error) {
	n := r.names.Load()
	if b := tx.Bucket([]byte("names")); b != nil {
		if k, _ := b.Cursor().Last(); len(k) == 4 && int(binary.BigEndian.Uint32(k)) >= len(n.texts) {
			later, err := readNames(tx)
			if err != nil {
				return nil, err
			}
			n = later
		}
	}
	return &recordReader{r.codec, tx, n, map[[hashLen]byte]*signedDocument{}, 0}, nil
}

func (r *recordReader) record(key, row []byte) (discovery.Record, error) {
	e, err := decodeEvent(r.codec, key, row, r.names)
	if err != nil {
		return e.record, inBucket("events", key, err)
	}
	r.bytes += len(row) + len(e.record.Event.Raw)
	if !e.signed {
		return e.record, nil
	}
	d := r.docs[e.document]
	if d == nil {
		if d, err = r.document(r.tx, e.document); err != nil {
			return e.record, inBucket("events", key, err)
		}
		r.docs[e.document] = d
		r.bytes += 2 * len(d.jws)
	}
	e.record.Signature = d.jws
	if e.raw == rawDocument {
		if e.place >= len(d.events) {
			return e.record, inBucket("events", key, fmt.Errorf("event %d of %d in its document: %w",
				e.place, len(d.events), ErrCorrupt))
		}
		e.record.Event.Raw = d.events[e.place]
	}
	return e.record, nil
}

// Record returns the records with that event ID: see discovery.Store.
func (r *Repository) Record(eventID string) (records []discovery.Record, err error) {
	err = r.view(func(tx *bbolt.Tx) error {
		read, err := r.recordReader(tx)
		if err != nil {
			return err
		}
		s := shelves{events: tx.Bucket([]byte("events")), ids: tx.Bucket([]byte("eventids"))}
		found := func(key []byte) error {
			record, err := read.record(key, s.events.Get(key))
			if err == nil && record.Event.EventID() == eventID {
				records = append(records, record)
			}
			return err
		}
		text, cbv := strings.CutSuffix(eventID, hashURIEnd)
		if hash, is := parseHashURI(text); is && cbv {
			if err := s.named("", hash, found); err != nil {
				return err
			}
		}
		return s.named(eventID, [32]byte{}, found)
	})
	return records, err
}

// Events returns records by event time: see discovery.Store. At most 1000 rows and some
// 16 MB make a page.
func (r *Repository) Events(from, to int64, cursor string, limit int) (
	records []discovery.Record, next string, err error) {
	if limit < 1 || limit > maxPage {
		limit = maxPage
	}
	before := appendForward(nil, to)
	if cursor != "" {
		at, err := base64.RawURLEncoding.DecodeString(cursor)
		if err != nil || len(at) != eventKeyLen {
			return nil, "", r.named(fmt.Errorf("%q: %w", cursor, ErrCursor))
		}
		if bytes.Compare(at, before) < 0 {
			before = at
		}
	}
	err = r.view(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("events"))
		if b == nil {
			return nil
		}
		read, err := r.recordReader(tx)
		if err != nil {
			return err
		}
		c := b.Cursor()
		k, v := c.Seek(before)
		if k == nil {
			k, v = c.Last()
		}
		if k != nil && bytes.Compare(k, before) >= 0 {
			k, v = c.Prev()
		}
		for ; k != nil; k, v = c.Prev() {
			if len(k) == eventKeyLen && forwardMicros(k) < from {
				return nil
			}
			if len(records) == limit || read.bytes > maxPageBytes {
				last := records[len(records)-1]
				next = base64.RawURLEncoding.EncodeToString(recordKey(&last))
				return nil
			}
			record, err := read.record(k, v)
			if err != nil {
				return err
			}
			records = append(records, record)
		}
		return nil
	})
	return records, next, err
}

// recordKey is where a record is kept.
func recordKey(r *discovery.Record) []byte {
	id, seq := discovery.Identity(r.Publisher, &r.Event), byte(seqEvent)
	if r.Event.Error != nil {
		id, seq = declarationID(r.Publisher, id), seqDeclared
	}
	return eventKey(r.Event.Time.UnixMicro(), id, seq)
}
