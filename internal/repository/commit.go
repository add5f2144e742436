package repository

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync/atomic"
	"syscall"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// counters are read by Stats while the writer and readers move them.
type counters struct {
	commits, writes, largest atomic.Uint64
	mismatches, unreadable   atomic.Uint64
	broken                   atomic.Bool
}

// write is the only goroutine that writes. It ends when the queue is closed
// and drained. Nobody is told of a success before its commit.
func (r *Repository) write() {
	defer close(r.stopped)
	for {
		group := r.queue.take()
		if len(group) == 0 {
			return
		}
		var todo []*op
		for _, o := range group {
			if o.err == nil {
				todo = append(todo, o)
			}
		}
		var err error
		if len(todo) > 0 {
			err = r.named(r.carryOut(inOrder(todo)))
		}
		for _, o := range group {
			if o.err != nil {
				o.done(o.err)
			} else {
				o.done(err)
			}
		}
	}
}

// carryOut commits a group. Where the disk is full it gives up the ballast and tries once
// more: what sensors have been asked for already is kept.
func (r *Repository) carryOut(group []*op) error {
	if group[0].instead != nil {
		return group[0].instead()
	}
	err := r.commit(group)
	if errors.Is(err, ErrFull) && !errors.Is(err, berrors.ErrMaxSizeReached) && r.giveUpBallast() {
		again := r.commit(group)
		if again == nil {
			r.space.full.Store(true) // it was, and the ballast is gone
		}
		return again
	}
	return err
}

// commit writes a group in one transaction; it fails as a whole.
func (r *Repository) commit(group []*op) error {
	if r.broken != nil {
		return fmt.Errorf("%w: %w", ErrBroken, r.broken)
	}
	if err := r.shrunk(); err != nil {
		return r.fail(err)
	}
	var t *transaction
	err := r.update(func(tx *bbolt.Tx) error {
		t = r.transaction(tx)
		for _, o := range group {
			if err := o.apply(t); err != nil {
				return err
			}
		}
		if err := t.putCells(); err != nil {
			return err
		}
		if err := t.republish(); err != nil {
			return err
		}
		return t.putCounts(*r.known.Load())
	})
	r.noteSpace(err)
	if err != nil {
		return err
	}
	r.quarantine.remove(t.healed)
	if t.replaced {
		r.quarantine.moved.Store(true)
	}
	r.known.Store(&t.counts)
	r.groups.Store(t.groups)
	r.stats.commits.Add(1)
	r.stats.writes.Add(uint64(len(group)))
	r.stats.unreadable.Add(t.unreadable)
	r.stats.largest.Store(max(r.stats.largest.Load(), uint64(len(group))))
	if r.opts.OnRepublish != nil {
		for _, p := range t.republished {
			r.opts.OnRepublish(p)
		}
	}
	return nil
}

// shrunk notices that someone cut the file under the map.
func (r *Repository) shrunk() error {
	n, err := r.size()
	if err == nil && n < max(r.length, r.minSize) {
		err = fmt.Errorf("its size fell from %d to %d bytes while open: %w", r.length, n, ErrCorrupt)
	}
	r.length = n
	return err
}

// fail marks the repository broken and returns the cause.
func (r *Repository) fail(err error) error {
	r.broken = err
	r.stats.broken.Store(true)
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// update is bbolt's Update, but for what follows a failure. bbolt's rollback
// there reads pages again and may fault again, with locks held. Rolling back by
// hand reads none.
func (r *Repository) update(fn func(*bbolt.Tx) error) error {
	var tx *bbolt.Tx
	err := guarded(func() (err error) {
		tx, err = r.db.Begin(true)
		return err
	})
	if err != nil {
		if errors.Is(err, ErrCorrupt) {
			r.stuck.Store(true)
		}
		return r.fail(err)
	}
	applied := false
	err = guarded(func() error {
		if err := fn(tx); err != nil {
			return err
		}
		applied = true
		return tx.Commit()
	})
	if err == nil {
		return nil
	}
	// A commit that failed in an orderly way has rolled back.
	if rb := guarded(tx.Rollback); rb != nil && !errors.Is(rb, berrors.ErrTxClosed) {
		r.stuck.Store(true)
	}
	switch {
	case outOfSpace(err):
		return fmt.Errorf("%w: %w", ErrFull, err)
	case !applied && !errors.Is(err, ErrCorrupt):
		return err // refused before anything was written
	}
	return r.fail(err)
}

// outOfSpace tells the one failure of a commit after which trying again is
// sound: a write, or the growing of the file, refused for want of space. The
// meta page in force still names the old pages, all of which are synced.
//
// A failed sync is never tried again, whatever its error number, ENOSPC
// included: the kernel may have dropped the dirty pages and marked them clean,
// so that a second sync would succeed without them (the fsync failure that
// PostgreSQL met in 2018). bbolt returns a sync's error bare and a write's in an
// fs.PathError; that of growing is text alone.
func outOfSpace(err error) bool {
	if errors.Is(err, berrors.ErrMaxSizeReached) {
		return true
	}
	if text := err.Error(); strings.HasPrefix(text, "file resize error: ") {
		return strings.HasSuffix(text, syscall.ENOSPC.Error()) ||
			strings.HasSuffix(text, syscall.EFBIG.Error())
	}
	var path *fs.PathError
	if !errors.As(err, &path) || path.Op != "write" {
		return false
	}
	return errors.Is(path, syscall.ENOSPC) || errors.Is(path, syscall.EDQUOT) ||
		errors.Is(path, syscall.EFBIG)
}
