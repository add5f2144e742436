package repository

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// Write is what became of a visit and what the planner made of it. Outcome.Body
// and Record must not be changed before the write is acknowledged.
type Write struct {
	Outcome visit.Outcome
	Record  []byte // the planner's record of that sensor, opaque; nil = leave as it is
}

// PlanRow is a crawl plan under the start of its time range.
type PlanRow struct {
	Start time.Time
	Plan  []byte // opaque
}

// Save puts at most so many sensors into one transaction: a million at once
// would hold gigabytes and keep outcomes waiting for seconds.
const saveChunk = 20000

// Store writes an outcome and returns when it is COMMITTED, that is synced.
// Outcomes that are stored at the same time share a transaction.
//
// A success with a body stores the body, once for all sensors that have it. If
// it differs from the version in force it becomes the next one. A success moves
// Latest.Verified, unless it confirms a hash that is not the one in force. Every
// outcome goes to the visits. All of it, the record, and the snapshots of groups whose
// condition a new version completes, is one transaction.
//
// The instant of all rows is Outcome.Ended, where that is zero Started, else At.
// A second row of a sensor in one microsecond moves to the next free one.
//
// An error means that nothing of it was stored, but for a context that ended
// while the commit was running, which leaves that open. See ErrFull, ErrBroken.
func (r *Repository) Store(ctx context.Context, w Write) error {
	return r.wait(ctx, r.outcome(w))
}

// StoreAsync is Store without waiting: done is called with the result after the
// commit, on the goroutine that writes. It must be quick and must not call a
// method that waits for a commit, nor Close. StoreAsync never blocks on the disk:
// where maxQueue writes wait already, done gets an error.
func (r *Repository) StoreAsync(w Write, done func(error)) {
	o := r.outcome(w)
	o.done = done
	if err := r.queue.push(o); err != nil {
		go done(r.named(err))
	}
}

// PutPlan stores the crawl plan of the range that begins at start. Of the plans
// the last few by start are kept, and this one.
func (r *Repository) PutPlan(ctx context.Context, start time.Time, plan []byte) error {
	row := PlanRow{start, bytes.Clone(plan)}
	return r.wait(ctx, &op{apply: func(t *transaction) error { return t.putPlan(row) }})
}

// PutFleet stores the planner's record of the whole fleet, opaque.
func (r *Repository) PutFleet(ctx context.Context, record []byte) error {
	record = bytes.Clone(record)
	return r.wait(ctx, &op{apply: func(t *transaction) error { return t.putFleet(record) }})
}

// Save stores what changes with a range's start: the fleet record (nil = leave),
// the plan (nil = none) and the records of sensors. Up to 20 000 sensors are ONE
// transaction. More are several, in order of their ids, and the last one brings
// fleet record and plan: whoever reads the plan finds all records that belong to
// it. Writes that are queued after Save take effect after all of it.
func (r *Repository) Save(ctx context.Context, fleet []byte, plan *PlanRow,
	sensors map[string][]byte) error {
	rows := make([]recordRow, 0, len(sensors))
	for _, id := range slices.Sorted(maps.Keys(sensors)) {
		if err := checkSensor(id); err != nil {
			return r.named(err)
		}
		rows = append(rows, recordRow{id, sensors[id]})
	}
	var ops []*op
	for len(rows) > saveChunk {
		ops = append(ops, saveOp(nil, nil, rows[:saveChunk]))
		rows = rows[saveChunk:]
	}
	return r.wait(ctx, append(ops, saveOp(fleet, plan, rows))...)
}

type recordRow struct {
	sensor string
	record []byte
}

func saveOp(fleet []byte, plan *PlanRow, rows []recordRow) *op {
	return &op{solo: true, apply: func(t *transaction) error {
		for _, row := range rows {
			if err := t.putRecord(row.sensor, row.record); err != nil {
				return err
			}
		}
		if fleet != nil {
			if err := t.putFleet(fleet); err != nil {
				return err
			}
		}
		if plan != nil {
			return t.putPlan(*plan)
		}
		return nil
	}}
}

// wait queues the operations together and waits for their commits.
func (r *Repository) wait(ctx context.Context, ops ...*op) error {
	if err := ctx.Err(); err != nil {
		return r.named(err)
	}
	results := make(chan error, len(ops)) // never blocks the writer
	for _, o := range ops {
		o.done = func(err error) { results <- err }
	}
	if err := r.queue.push(ops...); err != nil {
		return r.named(err)
	}
	var failed error
	for range ops {
		select {
		case err := <-results:
			if failed == nil {
				failed = err
			}
		case <-ctx.Done():
			return r.named(fmt.Errorf("gave up waiting, the write may yet be committed: %w", ctx.Err()))
		}
	}
	return failed
}

// outcome prepares a write on the caller's goroutine: hashing, packing and
// encoding run in parallel, the writer is left with the trees alone.
func (r *Repository) outcome(w Write) *op {
	row, err := r.prepare(w)
	if err != nil {
		err = fmt.Errorf("sensor %q: cannot store its outcome: %w", w.Outcome.Sensor, err)
		return &op{err: err}
	}
	return &op{key: row.key, apply: row.apply}
}

func checkSensor(id string) error {
	if id == "" || len(id) > maxSensor {
		return fmt.Errorf("sensor id of %d bytes: want 1 to %d", len(id), maxSensor)
	}
	return nil
}

// outcomeRow is a Write as its rows.
type outcomeRow struct {
	sensor    string
	key       []byte // sensor
	object    string // of the Discovery Service, "" = none
	at        int64  // microseconds
	published int64  // the newest publish time it tells, microseconds; never = none
	success   bool
	result    visit.Result
	sum       [32]byte
	body      []byte // row of bodies; nil = the outcome brings none
	named     bool   // sum is set: by the body, or by what was confirmed
	etag      []byte
	version   []byte // row of versions; nil = the outcome brings no body
	visit     []byte // row of visits
	record    []byte
}

func (r *Repository) prepare(w Write) (*outcomeRow, error) {
	o := w.Outcome
	if err := checkSensor(o.Sensor); err != nil {
		return nil, err
	}
	row := &outcomeRow{sensor: o.Sensor, key: sensorKey(o.Sensor),
		object: ObjectOf(o.Sensor, o.URI), at: instant(o).UnixMicro(),
		published: never, result: o.Result, success: o.Result.Success(), etag: o.NewETag,
		record: w.Record}
	for _, at := range o.PublishedAt {
		row.published = max(row.published, at.UnixMicro())
	}
	if err := r.prepareBody(row, &o); err != nil {
		return nil, err
	}
	record, err := o.Encode()
	if err != nil {
		return nil, err
	}
	if row.visit, err = pack(r.visits, nil, record); err != nil {
		return nil, err
	}
	return row, nil
}

func (r *Repository) prepareBody(row *outcomeRow, o *visit.Outcome) (err error) {
	if !row.success {
		return nil
	}
	if o.Hash != "" {
		row.named = true
		if row.sum, err = parseHash(o.Hash); err != nil {
			return err
		}
	}
	if o.Body == nil && o.Result != visit.Described {
		return nil
	}
	sum := sha256.Sum256(o.Body)
	if row.named && sum != row.sum {
		return fmt.Errorf("its body has the SHA-256 %x, not %s as the outcome says", sum, o.Hash)
	}
	row.sum, row.named = sum, true
	o.Hash = hex.EncodeToString(sum[:])
	row.version = encodeVersion(Version{Size: len(o.Body), Format: o.Format, ETag: o.NewETag,
		Verdict: o.Verdict, Links: o.Links}, sum)
	row.body, err = pack(r.enc, append([]byte(nil), sum[hashLen:]...), o.Body)
	return err
}

// instant is when an outcome came about.
func instant(o visit.Outcome) time.Time {
	switch {
	case !o.Ended.IsZero():
		return o.Ended
	case !o.Started.IsZero():
		return o.Started
	}
	return o.At
}
