package repository

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
)

// compactBatch is what a compaction writes in one transaction, bytes: it is held in
// memory.
const compactBatch = 16 << 20

// Compaction is what Compact did.
type Compaction struct {
	Path   string `json:"path"`
	Before int64  `json:"bytes_before"`
	After  int64  `json:"bytes_after"`
	Kept   string `json:"kept,omitempty"` // the file as it was, if it was to be kept
}

// Compact writes the rows of a file that nobody has open into a new one, without the
// pages that are free, and puts it in the old one's place once every row has been read
// back. With keep the old file stays beside it as path + ".bak", which must not exist.
//
// The file is locked all the while (else ErrLocked). Whatever goes wrong, also a crash or
// a power cut, the old file or the whole new one is there under its name. The folder must
// have room for both.
func Compact(path string, o Options, keep bool) (c Compaction, err error) {
	o = o.withDefaults()
	o.ReadOnly = false
	c.Path = path
	src, err := openBolt(path, o, true)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, src.close()) }()
	if c.Before, err = src.size(); err != nil {
		return c, err
	}
	temp, err := compacted(path, src.db)
	if err != nil {
		return c, fmt.Errorf("compact %s: %w; the file is as it was", path, err)
	}
	defer os.Remove(temp)
	if info, err := os.Stat(temp); err == nil {
		c.After = info.Size()
	}
	if keep {
		c.Kept = path + ".bak"
		if err := os.Link(path, c.Kept); err != nil {
			return c, fmt.Errorf("compact %s: keep the old file: %w; the file is as it was", path, err)
		}
	}
	return c, errors.Join(os.Rename(temp, path), syncDir(filepath.Dir(path)))
}

// compacted is the path of a synced copy whose rows are those of src.
func compacted(path string, src *bbolt.DB) (temp string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".compact-*")
	if err != nil {
		return "", err
	}
	temp = f.Name()
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(temp))
		}
	}()
	if err := f.Close(); err != nil {
		return temp, err
	}
	dst, err := bbolt.Open(temp, 0o600, &bbolt.Options{FreelistType: bbolt.FreelistMapType})
	if err != nil {
		return temp, err
	}
	err = guarded(func() error {
		if err := bbolt.Compact(dst, src, compactBatch); err != nil {
			return err
		}
		return sameRows(src, dst)
	})
	return temp, errors.Join(err, dst.Close())
}

// sameRows compares two databases row by row.
func sameRows(a, b *bbolt.DB) error {
	return a.View(func(ta *bbolt.Tx) error {
		return b.View(func(tb *bbolt.Tx) error {
			n := 0
			err := ta.ForEach(func(name []byte, ba *bbolt.Bucket) error {
				n++
				bb := tb.Bucket(name)
				if bb == nil {
					return fmt.Errorf("the copy lacks bucket %s", name)
				}
				return sameBucket(string(name), ba, bb)
			})
			if err != nil {
				return err
			}
			return tb.ForEach(func(name []byte, _ *bbolt.Bucket) error {
				if n--; n < 0 {
					return fmt.Errorf("the copy has bucket %s besides", name)
				}
				return nil
			})
		})
	})
}

func sameBucket(name string, a, b *bbolt.Bucket) error {
	ca, cb := a.Cursor(), b.Cursor()
	ka, va := ca.First()
	kb, vb := cb.First()
	for ; ka != nil || kb != nil; ka, va = ca.Next() {
		if !bytes.Equal(ka, kb) || !bytes.Equal(va, vb) {
			return fmt.Errorf("the copy differs in %s, at key %x", name, ka)
		}
		kb, vb = cb.Next()
	}
	return nil
}

// replaced reports that the file which was opened is not the one that has its name now:
// it was compacted while its lock was waited for.
func (b bolt) replaced(path string) error {
	now, err := os.Stat(path)
	if err != nil {
		return err
	}
	opened, err := b.file.Stat()
	if err != nil {
		return err
	}
	if !os.SameFile(now, opened) {
		return fmt.Errorf("%w until now by a compaction, which put another file in its place; "+
			"try again", ErrLocked)
	}
	return nil
}
