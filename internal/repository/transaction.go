package repository

import (
	"bytes"
	"fmt"
	"math"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/visit"
)

// keepPlans is how many plans stay: the running one and three to look back at.
const keepPlans = 4

// latestLen is the length of a row of latest: time | hash16.
const latestLen = timeLen + hashLen

// transaction is one write transaction. What it counts is published when it
// has been committed.
type transaction struct {
	meta, latest, versions, bodies *bbolt.Bucket
	state, visits, plans           *bbolt.Bucket
	keep                           int
	counts                         counts
	unreadable                     uint64 // rows that were damaged and have been replaced

	shelf
	groups      *grouping
	due         map[int]occasion // groups to look at, by index
	republished []Republication
	quarantine  *quarantine
	damaged     func(hash []byte) // tells of a body that was left out of a snapshot
	healed      [][]byte          // hash16 of bodies that leave the quarantine
	replaced    bool              // a version was made in place of a damaged one

	opened shelves   // once they are needed
	cells  []cellRow // to be put
	late   bool      // an event was published that is older than a stored one

	index indexed
}

func (r *Repository) transaction(tx *bbolt.Tx) *transaction {
	b := func(name string) *bbolt.Bucket { return tx.Bucket([]byte(name)) }
	return &transaction{
		meta: b("meta"), latest: b("latest"), versions: b("versions"), bodies: b("bodies"),
		state: b("state"), visits: b("visits"), plans: b("plans"),
		keep: r.opts.KeepVisits, counts: *r.known.Load(),
		shelf: shelf{r.codec, tx}, groups: r.groups.Load(), due: map[int]occasion{},
		index: indexOf(tx), quarantine: &r.quarantine, damaged: r.quarantineBody,
	}
}

// apply stores an outcome.
func (o *outcomeRow) apply(t *transaction) error {
	s := t.stateOf(o.key)
	if o.success {
		confirmed, changed, err := t.success(o)
		if err != nil {
			return err
		}
		if changed {
			t.touched(false, o.sensor, o.occasion(s.verified))
		}
		if confirmed {
			s.verified = o.at
			// Servers may change the ETag of a body that stays the same: 2.05
			// without one has none, 2.03 without one leaves what it confirmed.
			if o.etag != nil || o.result == visit.Described {
				s.etag = o.etag
			}
		}
	}
	at, err := putFree(t.visits, o.key, o.at, o.visit)
	if err != nil {
		return err
	}
	s.visits++
	if err := t.prune(o.key, rowKey(o.key, at), &s); err != nil {
		return err
	}
	if o.record != nil {
		s.record = o.record
	}
	return t.state.Put(o.key, s.encode())
}

// occasion is when a new version was made and when the event behind it was: at the
// newest publish time it tells, if that is later than the last success, which did not show
// it, else at its own instant.
func (o *outcomeRow) occasion(verified int64) occasion {
	if verified == never || o.published <= verified || o.published > o.at {
		return occasion{o.at, o.at}
	}
	return occasion{o.at, o.published}
}

// success stores what a success brings and reports whether it confirms the
// version in force, and whether it made that version.
func (t *transaction) success(o *outcomeRow) (confirmed, changed bool, err error) {
	inForce, known := t.hashInForce(o.key)
	same := known && bytes.Equal(inForce, o.sum[:hashLen])
	if t.quarantine.has(inForce) {
		t.replaced = true // it may be in force no more
	}
	if o.body == nil {
		return known && (same || !o.named), false, nil
	}
	if err := t.putBody(o); err != nil || same {
		return same, false, err
	}
	at, err := putFree(t.versions, o.key, o.at, o.version)
	if err != nil {
		return false, false, err
	}
	t.counts.versions++
	if err := t.describe(o.object, at, o.sum); err != nil {
		return false, false, err
	}
	if err := t.reindex(o); err != nil {
		return false, false, err
	}
	row := append(appendTime(make([]byte, 0, latestLen), at), o.sum[:hashLen]...)
	return true, true, t.latest.Put(o.key, row)
}

// putBody stores a body unless it is there. A row under its hash that is not
// the same is a damaged one: this is how a refetch heals it.
func (t *transaction) putBody(o *outcomeRow) error {
	key := o.sum[:hashLen]
	if err := t.heal(key); err != nil {
		return err
	}
	switch have := t.bodies.Get(key); {
	case have == nil:
		t.counts.bodies++
	case bytes.Equal(have, o.body):
		return nil
	}
	return t.bodies.Put(key, o.body)
}

// hashInForce is the hash16 of the sensor's latest version. A row that cannot
// be read is none: the next body replaces it.
func (t *transaction) hashInForce(sensor []byte) ([]byte, bool) {
	row := t.latest.Get(sensor)
	if row == nil {
		return nil, false
	}
	if len(row) != latestLen {
		t.unreadable++
		return nil, false
	}
	return row[timeLen:], true
}

// stateOf reads the sensor's state for writing it back. One that is not there
// or cannot be read starts anew.
func (t *transaction) stateOf(sensor []byte) stateRow {
	row := t.state.Get(sensor)
	if row == nil {
		t.counts.sensors++
		return stateRow{verified: never}
	}
	s, err := decodeState(row)
	if err == nil {
		return s
	}
	t.unreadable++
	s = stateRow{verified: never}
	c := t.visits.Cursor()
	for k, _ := c.Seek(sensor); bytes.HasPrefix(k, sensor); k, _ = c.Next() {
		s.visits++
	}
	return s
}

// prune removes the sensor's oldest visits beyond the number to keep. The one
// just written stays even where the clock has been set back and it sorts last.
func (t *transaction) prune(sensor, written []byte, s *stateRow) error {
	for ; s.visits > t.keep; s.visits-- {
		k := t.oldestVisit(sensor, written)
		if k == nil {
			t.unreadable++ // the count was wrong
			s.visits = 1
			return nil
		}
		if err := t.visits.Delete(bytes.Clone(k)); err != nil {
			return err
		}
	}
	return nil
}

// oldestVisit is the last key of the sensor's visits but for one. It is looked
// for backwards, which reads one page instead of all that hold the visits. Where
// an earlier deletion of the transaction emptied a page bbolt's Prev ends
// there, while its Next goes on.
func (t *transaction) oldestVisit(sensor, but []byte) []byte {
	c := t.visits.Cursor()
	k, _ := c.Seek(append(bytes.Clone(sensor), bytes.Repeat([]byte{0xFF}, timeLen+1)...))
	if k == nil {
		k, _ = c.Last()
	} else {
		k, _ = c.Prev()
	}
	if bytes.Equal(k, but) {
		k, _ = c.Prev()
	}
	if bytes.HasPrefix(k, sensor) {
		return k
	}
	var oldest []byte
	for k, _ := c.Seek(sensor); bytes.HasPrefix(k, sensor); k, _ = c.Next() {
		if !bytes.Equal(k, but) {
			oldest = k
		}
	}
	return oldest
}

func (t *transaction) putRecord(sensor string, record []byte) error {
	key := sensorKey(sensor)
	s := t.stateOf(key)
	s.record = record
	return t.state.Put(key, s.encode())
}

func (t *transaction) putFleet(record []byte) error { return t.meta.Put([]byte("fleet"), record) }

// putPlan stores the plan of the running range. One that starts later was made before the
// clock was set back; left there, it would be taken for the newest one.
func (t *transaction) putPlan(p PlanRow) error {
	key := appendTime(nil, p.Start.UnixMicro())
	if err := t.plans.Put(key, p.Plan); err != nil {
		return err
	}
	var old [][]byte
	c, n := t.plans.Cursor(), 0
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		later := bytes.Compare(k, key) < 0
		if n++; later || n > keepPlans && !bytes.Equal(k, key) {
			old = append(old, bytes.Clone(k))
		}
	}
	for _, k := range old {
		if err := t.plans.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

// putCounts writes the counts if the transaction changed them.
func (t *transaction) putCounts(before counts) error {
	if t.counts == before {
		return nil
	}
	if err := t.meta.Put([]byte("counts"), t.counts.encode()); err != nil {
		return err
	}
	return t.putMark()
}

// putFree puts a row at the first microsecond from at on that the sensor has
// free in the bucket, so that none is overwritten.
func putFree(b *bbolt.Bucket, sensor []byte, at int64, row []byte) (int64, error) {
	for ; at < math.MaxInt64; at++ {
		if key := rowKey(sensor, at); b.Get(key) == nil {
			return at, b.Put(key, row)
		}
	}
	return 0, fmt.Errorf("no microsecond is left at the end of time")
}
