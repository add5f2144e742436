package repository

import (
	"bytes"
	"encoding/hex"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"
)

// quarantine is the bodies that were found damaged and have not come again, by hash16. It
// is kept in memory for those who ask at every visit and every row, and in a bucket of the
// same name across restarts.
type quarantine struct {
	mu     sync.RWMutex
	bodies map[[hashLen]byte]bool

	// inForce is how many sensors have such a body now, when last counted; moved says
	// that it may be another number since.
	inForce atomic.Int64
	moved   atomic.Bool
}

// maxQuarantine bounds the memory of a file that is damaged all over: what is beyond is
// found again when it is read.
const maxQuarantine = 100_000

func (q *quarantine) size() int {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return len(q.bodies)
}

func (q *quarantine) has(key []byte) bool {
	q.mu.RLock()
	defer q.mu.RUnlock()
	return len(q.bodies) > 0 && len(key) >= hashLen && q.bodies[[hashLen]byte(key)]
}

// add reports whether the body is new here.
func (q *quarantine) add(key []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	k := [hashLen]byte(key)
	if q.bodies[k] || len(q.bodies) >= maxQuarantine {
		return false
	}
	if q.bodies == nil {
		q.bodies = map[[hashLen]byte]bool{}
	}
	q.bodies[k] = true
	q.moved.Store(true)
	return true
}

func (q *quarantine) remove(keys [][]byte) {
	if len(keys) == 0 {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.moved.Store(true)
	for _, key := range keys {
		delete(q.bodies, [hashLen]byte(key))
	}
}

// Quarantined are the bodies, by the hex digits of the first 16 bytes of their hashes and
// in that order, that were found damaged and have not been fetched again since.
func (r *Repository) Quarantined() []string {
	r.quarantine.mu.RLock()
	defer r.quarantine.mu.RUnlock()
	list := make([]string, 0, len(r.quarantine.bodies))
	for key := range maps.Keys(r.quarantine.bodies) {
		list = append(list, hex.EncodeToString(key[:]))
	}
	slices.Sort(list)
	return list
}

// Damaged tells whether the body with that hex SHA-256 was found damaged and has not been
// fetched again since. A visit to a sensor that has it must not be content with a
// confirmation of its ETag.
func (r *Repository) Damaged(hash string) bool {
	if r.quarantine.size() == 0 {
		return false
	}
	sum, err := parseHash(hash)
	return err == nil && r.quarantine.has(sum[:hashLen])
}

// quarantineBody counts a body that does not match its hash and, the first time, puts it on
// record. It does not wait: while the record cannot be written memory has to do. It may be
// called within a transaction.
func (r *Repository) quarantineBody(key []byte) {
	r.stats.mismatches.Add(1)
	key = bytes.Clone(key[:hashLen])
	if !r.quarantine.add(key) {
		return
	}
	_ = r.queue.push(&op{key: key, done: func(error) {}, apply: func(t *transaction) error {
		row := t.bodies.Get(key)
		if sum, _, err := t.body(row); err == nil && bytes.Equal(sum[:hashLen], key) {
			return nil // it came again meanwhile
		}
		b, err := t.tx.CreateBucketIfNotExists([]byte("quarantine"))
		if err != nil {
			return err
		}
		// The damaged bytes are kept, too: what comes again takes their place, and they
		// may tell the cause.
		return b.Put(key, bytes.Clone(row))
	}})
}

// heal takes a body that has come again out of quarantine.
func (t *transaction) heal(key []byte) error {
	if !t.quarantine.has(key) {
		return nil
	}
	t.healed = append(t.healed, bytes.Clone(key))
	if b := t.tx.Bucket([]byte("quarantine")); b != nil {
		return b.Delete(key)
	}
	return nil
}

// countDamaged counts the sensors whose version in force is in quarantine, where that may
// have changed. It reads a page of rows at a time.
func (r *Repository) countDamaged() {
	q := &r.quarantine
	if !q.moved.Swap(false) {
		return
	}
	n := int64(0)
	for next, more := []byte(nil), q.size() > 0; more; {
		err := r.view(func(tx *bbolt.Tx) error {
			c := tx.Bucket([]byte("latest")).Cursor()
			k, v := c.Seek(next)
			for range maxPage {
				if k == nil {
					break
				}
				if len(v) == latestLen && q.has(v[timeLen:]) {
					n++
				}
				k, v = c.Next()
			}
			next, more = bytes.Clone(k), k != nil
			return nil
		})
		if err != nil {
			q.moved.Store(true)
			return
		}
	}
	q.inForce.Store(n)
}

func (r *Repository) loadQuarantine(tx *bbolt.Tx) error {
	b := tx.Bucket([]byte("quarantine"))
	if b == nil {
		return nil
	}
	c := b.Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		if len(k) == hashLen {
			r.quarantine.add(k)
		}
	}
	return nil
}
