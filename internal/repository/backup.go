package repository

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// Backup copies the file as of the last commit, while writes go on, into a new file
// beside it that has no name: what the caller reads from the start and closes. Read as
// slowly as need be, it keeps no page of the data file from being used again. The context
// bounds the copying. ErrFull: the disk has no room for a copy.
func (r *Repository) Backup(ctx context.Context) (*os.File, error) {
	dir := filepath.Dir(r.path)
	size, err := r.fileSize()
	if err != nil {
		return nil, r.named(err)
	}
	if free, total, known := r.opts.FreeSpace(dir); known && roomOn(free-size, total) == Critical {
		return nil, fmt.Errorf("backup: a copy of %d bytes would leave %d of %d bytes free in %s: %w",
			size, free-size, free, dir, ErrFull)
	}
	f, err := os.CreateTemp(dir, "."+filepath.Base(r.path)+".backup-*")
	if err != nil {
		return nil, fmt.Errorf("backup: %w", err)
	}
	err = os.Remove(f.Name())
	if err == nil {
		err = r.view(func(tx *bbolt.Tx) error {
			_, err := tx.WriteTo(whileWell{func() error {
				if r.stats.broken.Load() {
					return ErrBroken // Reopen waits for this transaction, and all reads for Reopen
				}
				return ctx.Err()
			}, f})
			return err
		})
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if ctx.Err() != nil { // bbolt tells its text only
		err = fmt.Errorf("backup: %w", ctx.Err())
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// whileWell is a writer that fails once its check does.
type whileWell struct {
	check func() error
	w     io.Writer
}

func (u whileWell) Write(p []byte) (int, error) {
	if err := u.check(); err != nil {
		return 0, err
	}
	return u.w.Write(p)
}

// CopyTo is Backup of a file that no daemon has open: it is locked against writers
// meanwhile. It returns the bytes written.
func CopyTo(w io.Writer, path string, o Options) (n int64, err error) {
	o = o.withDefaults()
	o.ReadOnly = true
	b, err := openBolt(path, o, false)
	if err != nil {
		return 0, err
	}
	err = guarded(func() error {
		return b.db.View(func(tx *bbolt.Tx) (err error) {
			n, err = tx.WriteTo(w)
			return err
		})
	})
	return n, errors.Join(err, b.close())
}
