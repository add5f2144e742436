package repository

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// Reopen is the way back from ErrBroken, where it is not too late for one: the file is
// closed, forgotten by the kernel's cache, verified as Open does, opened, and written to.
// Reads wait meanwhile. On an error no write is accepted as before, and reads may fail
// too: the process should end. A file that is not broken is left alone.
//
// A failed sync must not be tried again on the same pages (see outOfSpace). What the disk
// really holds is a whole commit, the last one or the one before: bbolt syncs the pages
// before it writes the meta page that leads to them.
func (r *Repository) Reopen(ctx context.Context) error {
	return r.wait(ctx, &op{solo: true, instead: r.reopen})
}

// reopen runs on the goroutine that writes.
func (r *Repository) reopen() error {
	if r.broken == nil {
		return nil
	}
	if r.stuck.Load() {
		return fmt.Errorf("%w: bbolt's locks are held since a page could not be read: %w", ErrBroken,
			r.broken)
	}
	if err := r.replaceBolt(); err != nil {
		return fmt.Errorf("%w: %w; it broke with: %w", ErrBroken, err, r.broken)
	}
	r.broken = nil
	err := r.update(func(tx *bbolt.Tx) error {
		meta := tx.Bucket([]byte("meta"))
		return meta.Put([]byte("schema"), append([]byte(nil), meta.Get([]byte("schema"))...))
	})
	r.noteSpace(err)
	if err != nil && !errors.Is(err, ErrFull) {
		return err
	}
	r.stats.broken.Store(false)
	return nil
}

// replaceBolt closes the file and opens it again, as nobody reads.
func (r *Repository) replaceBolt() error {
	r.using.Lock()
	defer r.using.Unlock()
	if err := r.close(); err != nil {
		return err
	}
	if err := forget(r.path); err != nil {
		return err
	}
	b, err := openBolt(r.path, r.opts, false)
	if err != nil {
		return err
	}
	r.bolt = b
	if r.length, err = r.size(); err != nil {
		return err
	}
	return r.load(func(fn func(*bbolt.Tx) error) error {
		return guarded(func() error { return b.db.View(fn) })
	})
}
