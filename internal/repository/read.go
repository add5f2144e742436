package repository

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/visit"
)

// maxPage is the most rows that one read transaction copies.
const maxPage = 1000

// Version is a description that a sensor served, without its body.
type Version struct {
	Sensor  string
	At      time.Time // when it was first seen; microseconds, UTC
	Hash    string    // hex SHA-256 of the body
	Size    int       // bytes of the body
	Format  int       // Content-Format number, -1 = none given
	ETag    []byte    // nil = none
	Verdict string    // link format: valid, recovered, invalid; "" = other format
	Links   int       // links that were read
	Damaged bool      // its body is in quarantine
}

// Latest is the version in force. Its ETag is that of the last success, which
// may be newer than the version.
type Latest struct {
	Version
	Verified time.Time // last success of any kind; microseconds, UTC
}

// Stats tell how the repository does. Counts run from Open.
type Stats struct {
	FileBytes, FreeBytes      int64 // of the file; of it in pages that can be used again
	Sensors, Versions, Bodies int
	Commits, Writes           uint64 // Writes / Commits is the mean group
	LargestGroup              int
	HashMismatches            uint64 // bodies that were not served
	UnreadableRows            uint64 // damaged rows that a write has replaced
	Quarantined               int    // bodies found damaged that have not come again
	Broken                    bool   // no write is accepted until reopened
}

func (r *Repository) loadCounts(tx *bbolt.Tx) error {
	c, err := decodeCounts(tx.Bucket([]byte("meta")).Get([]byte("counts")))
	r.known.Store(&c)
	return err
}

// Sensors is how many sensors have left a row, listed today or not.
func (r *Repository) Sensors() int { return r.known.Load().sensors }

// Stats are cheap: no row is read.
func (r *Repository) Stats() Stats {
	c := r.known.Load()
	s := Stats{
		Quarantined: r.quarantine.size(),
		Sensors:     c.sensors, Versions: c.versions, Bodies: c.bodies,
		FreeBytes:      r.freePages(),
		Commits:        r.stats.commits.Load(),
		Writes:         r.stats.writes.Load(),
		LargestGroup:   int(r.stats.largest.Load()),
		HashMismatches: r.stats.mismatches.Load(),
		UnreadableRows: r.stats.unreadable.Load(),
		Broken:         r.stats.broken.Load(),
	}
	s.FileBytes, _ = r.fileSize() // 0 once closed
	return s
}

// freePages is what the file has in pages that can be used again, bytes.
func (r *Repository) freePages() int64 {
	r.using.RLock()
	defer r.using.RUnlock()
	return int64(r.db.Stats().FreeAlloc)
}

func (r *Repository) fileSize() (int64, error) {
	r.using.RLock()
	defer r.using.RUnlock()
	return r.size()
}

// Fleet returns the planner's fleet record, nil if there is none.
func (r *Repository) Fleet() (record []byte, err error) {
	err = r.view(func(tx *bbolt.Tx) error {
		record = bytes.Clone(tx.Bucket([]byte("meta")).Get([]byte("fleet")))
		return nil
	})
	return record, err
}

// Plan returns the stored plan with the latest start; ok is false if there is
// none.
func (r *Repository) Plan() (start time.Time, plan []byte, ok bool, err error) {
	err = r.view(func(tx *bbolt.Tx) error {
		k, v := tx.Bucket([]byte("plans")).Cursor().First()
		if k == nil {
			return nil
		}
		if len(k) != timeLen {
			return fmt.Errorf("key %x of plans is no instant: %w", k, ErrCorrupt)
		}
		start, plan, ok = keyTime(k), bytes.Clone(v), true
		return nil
	})
	return start, plan, ok, err
}

// States yields the planner's record of every sensor that has one, by sensor
// id. Rows are copied in pages, so that the caller may take its time and write
// meanwhile; what is written then may or may not be seen. An error of yield
// ends it and is returned.
func (r *Repository) States(yield func(sensor string, record []byte) error) error {
	var page []recordRow
	var next []byte
	for more := true; more; {
		page = page[:0]
		err := r.view(func(tx *bbolt.Tx) error {
			c := tx.Bucket([]byte("state")).Cursor()
			k, v := c.Seek(next)
			for ; k != nil && len(page) < maxPage; k, v = c.Next() {
				id, _, err := cutSensor(k)
				if err != nil {
					return err
				}
				s, err := decodeState(v)
				if err != nil {
					return fmt.Errorf("sensor %q: %w", id, err)
				}
				page = append(page, recordRow{id, s.record})
			}
			next, more = bytes.Clone(k), k != nil
			return nil
		})
		if err != nil {
			return err
		}
		for _, row := range page {
			if len(row.record) == 0 {
				continue
			}
			if err := yield(row.sensor, row.record); err != nil {
				return err
			}
		}
	}
	return nil
}

// Latest returns the version of a sensor that is in force; false if it was
// never described.
func (r *Repository) Latest(sensor string) (latest Latest, ok bool, err error) {
	key := sensorKey(sensor)
	err = r.view(func(tx *bbolt.Tx) error {
		row := tx.Bucket([]byte("latest")).Get(key)
		if row == nil {
			return nil
		}
		if len(row) != latestLen {
			return fmt.Errorf("sensor %q: row of latest has %d bytes: %w", sensor, len(row), ErrCorrupt)
		}
		versionKey := append(bytes.Clone(key), row[:timeLen]...)
		v, err := decodeVersion(sensor, keyTime(row), tx.Bucket([]byte("versions")).Get(versionKey))
		if err != nil {
			return fmt.Errorf("sensor %q: version in force: %w", sensor, err)
		}
		s, err := decodeState(tx.Bucket([]byte("state")).Get(key))
		if err != nil {
			return fmt.Errorf("sensor %q: %w", sensor, err)
		}
		v.ETag = s.etag
		v.Damaged = r.Damaged(v.Hash)
		latest, ok = Latest{v, time.UnixMicro(s.verified).UTC()}, true
		return nil
	})
	return latest, ok, err
}

// page calls row for the sensor's rows of a bucket that are older than before
// (zero = all), newest first, at most limit of them; limits outside of 1 .. 1000
// mean 1000.
func (r *Repository) page(bucket, sensor string, before time.Time, limit int,
	row func(at time.Time, value []byte) error) error {
	if limit < 1 || limit > maxPage {
		limit = maxPage
	}
	prefix := sensorKey(sensor)
	return r.view(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(bucket))
		if b == nil {
			return nil // snapshots, before the first one
		}
		c := b.Cursor()
		k, v := c.Seek(olderThan(prefix, before))
		for n := 0; n < limit && bytes.HasPrefix(k, prefix); n++ {
			_, at, err := cutSensorTime(k)
			if err == nil {
				err = row(at, v)
			}
			if err != nil {
				return fmt.Errorf("sensor %q, %s at %v: %w", sensor, bucket, at, err)
			}
			k, v = c.Next()
		}
		return nil
	})
}

// Versions returns the sensor's versions from before an instant (zero = all),
// newest first, at most limit (1 .. 1000; else 1000) of them. The next page
// begins before the last one's At.
func (r *Repository) Versions(sensor string, before time.Time, limit int) ([]Version, error) {
	var list []Version
	err := r.page("versions", sensor, before, limit, func(at time.Time, value []byte) error {
		v, err := decodeVersion(sensor, at, value)
		v.Damaged = r.Damaged(v.Hash)
		list = append(list, v)
		return err
	})
	return list, err
}

// Visits returns what became of the sensor's last visits, newest first, at most
// limit (1 .. 1000; else 1000) of them, without bodies.
func (r *Repository) Visits(sensor string, limit int) ([]visit.Outcome, error) {
	var list []visit.Outcome
	err := r.page("visits", sensor, time.Time{}, limit, func(_ time.Time, value []byte) error {
		o, err := r.visit(value)
		o.Sensor = sensor // JSON holds an id that is not UTF-8 in another spelling
		list = append(list, o)
		return err
	})
	return list, err
}

func (c codec) visit(row []byte) (visit.Outcome, error) {
	record, err := c.unpack(row)
	if err != nil {
		return visit.Outcome{}, err
	}
	return visit.Decode(record)
}

// Body returns the raw body with that hex SHA-256. What is stored is hashed at
// every read; what does not match is counted, put into quarantine and never returned:
// ErrHash. The next Store of that body replaces it. ErrNotFound: none is stored.
func (r *Repository) Body(hash string) (body []byte, err error) {
	sum, err := parseHash(hash)
	if err != nil {
		return nil, err
	}
	err = r.view(func(tx *bbolt.Tx) error {
		row := tx.Bucket([]byte("bodies")).Get(sum[:hashLen])
		if row == nil {
			return fmt.Errorf("body %s: %w", hash, ErrNotFound)
		}
		got, raw, err := r.body(row)
		if err != nil || got != sum {
			r.quarantineBody(sum[:])
			return fmt.Errorf("body %s: %w", hash, ErrHash)
		}
		body = raw
		return nil
	})
	return body, err
}

// body reads a row of bodies and hashes what it holds.
func (c codec) body(row []byte) (sum [32]byte, raw []byte, err error) {
	if len(row) < 32-hashLen {
		return sum, nil, fmt.Errorf("a row of bodies has %d bytes: %w", len(row), ErrCorrupt)
	}
	raw, err = c.unpack(row[32-hashLen:])
	if err != nil {
		return sum, nil, err
	}
	sum = sha256.Sum256(raw)
	if !bytes.Equal(sum[hashLen:], row[:32-hashLen]) {
		return sum, nil, fmt.Errorf("%w: it has %s", ErrHash, hex.EncodeToString(sum[:]))
	}
	return sum, raw, nil
}
