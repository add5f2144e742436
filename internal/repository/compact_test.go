package repository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// roomy is a data file most of whose pages are free, and its visits.
func roomy(t *testing.T) (path string) {
	path = dataFile(t)
	r, err := Open(path, Options{KeepVisits: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		store(t, r, described(fmt.Sprintf("s%d", i%7), fmt.Sprintf("</%d>;title=\"%0512d\"", i, i),
			epoch.Add(time.Duration(i)*time.Second)))
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	edit(t, path, "plans", func(b *bbolt.Bucket) error {
		return b.Put(make([]byte, timeLen), make([]byte, 1<<20))
	})
	edit(t, path, "plans", func(b *bbolt.Bucket) error { return b.Delete(make([]byte, timeLen)) })
	return path
}

func TestCompact(t *testing.T) {
	for _, keep := range []bool{false, true} {
		path := roomy(t)
		before := readFile(t, path)
		c, err := Compact(path, Options{}, keep)
		if err != nil {
			t.Fatal(err)
		}
		if c.Before != int64(len(before)) || c.After != int64(len(readFile(t, path))) ||
			2*c.After > c.Before {
			t.Errorf("%+v of %d bytes", c, len(before))
		}
		if keep != (c.Kept != "") || keep && !bytes.Equal(before, readFile(t, c.Kept)) {
			t.Errorf("kept %q", c.Kept)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
		sound(t, path)
		r := open(t, path, Options{})
		if v, err := r.Versions("s3", time.Time{}, 1000); err != nil || len(v) != 43 {
			t.Errorf("%d versions, %v", len(v), err)
		}
		store(t, r, described("new", "</n>", epoch.Add(time.Hour)))
		_, err = Compact(path, Options{Timeout: 50 * time.Millisecond}, false)
		if !errors.Is(err, ErrLocked) {
			t.Errorf("while it is open: %v, want ErrLocked", err)
		}
	}
}

// What cannot be compacted stays as it is, to the byte.
func TestCompactRefuses(t *testing.T) {
	for name, prepare := range map[string]func(path string) error{
		"a kept file is in the way": func(path string) error {
			return os.WriteFile(path+".bak", nil, 0o600)
		},
		"damaged": func(path string) error {
			b, err := os.ReadFile(path)
			copy(b[2*4096:], bytes.Repeat([]byte{0xaa}, len(b)))
			return errors.Join(err, os.WriteFile(path, b, 0o600))
		},
		"truncated": func(path string) error { return os.Truncate(path, 3*4096) },
	} {
		path := roomy(t)
		if err := prepare(path); err != nil {
			t.Fatal(err)
		}
		before := readFile(t, path)
		if _, err := Compact(path, Options{}, true); err == nil {
			t.Errorf("%s: no error", name)
		}
		if !bytes.Equal(before, readFile(t, path)) {
			t.Errorf("%s: the file was changed", name)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
			t.Errorf("%s: left behind: %v", name, left)
		}
	}
	missing := dataFile(t)
	if _, err := Compact(missing, Options{}, false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
}

// A compaction that copies wrongly is noticed.
func TestSameRows(t *testing.T) {
	plans := func(tx *bbolt.Tx) *bbolt.Bucket { return tx.Bucket([]byte("plans")) }
	for name, change := range map[string]func(tx *bbolt.Tx) error{
		"value":        func(tx *bbolt.Tx) error { return plans(tx).Put([]byte("a"), []byte("2")) },
		"missing row":  func(tx *bbolt.Tx) error { return plans(tx).Delete([]byte("b")) },
		"another row":  func(tx *bbolt.Tx) error { return plans(tx).Put([]byte("c"), nil) },
		"no bucket":    func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("plans")) },
		"more buckets": func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("x")); return err },
		"":             func(*bbolt.Tx) error { return nil },
	} {
		var dbs [2]*bbolt.DB
		for i := range dbs {
			db, err := bbolt.Open(dataFile(t), 0o600, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			err = db.Update(func(tx *bbolt.Tx) error {
				b, err := tx.CreateBucket([]byte("plans"))
				return errors.Join(err, b.Put([]byte("a"), []byte("1")), b.Put([]byte("b"), nil))
			})
			if err != nil {
				t.Fatal(err)
			}
			dbs[i] = db
		}
		if err := dbs[1].Update(change); err != nil {
			t.Fatal(err)
		}
		if err := sameRows(dbs[0], dbs[1]); (err == nil) != (name == "") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// A backup is the state of one commit, whatever is written meanwhile and however slowly
// it is read; it does not make the file grow.
func TestBackup(t *testing.T) {
	path := roomy(t)
	r := open(t, path, Options{KeepVisits: 2})
	f, err := r.Backup(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for i := range 200 {
		store(t, r, described("later", fmt.Sprintf("</%d>", i), epoch.Add(time.Duration(i)*time.Hour)))
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	b, err := io.ReadAll(f)
	if err := errors.Join(err, os.WriteFile(copied, b, 0o600)); err != nil {
		t.Fatal(err)
	}
	if report := sound(t, copied); report.Sensors != 7 || report.Versions != 300 {
		t.Errorf("%+v", report)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Backup(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("after its time: %v", err)
	}
}

func TestCopyTo(t *testing.T) {
	path := roomy(t)
	copied := filepath.Join(t.TempDir(), "copy.db")
	f, err := os.Create(copied)
	if err != nil {
		t.Fatal(err)
	}
	n, err := CopyTo(f, path, Options{})
	if err := errors.Join(err, f.Close()); err != nil || n != int64(len(readFile(t, copied))) {
		t.Fatal(n, err)
	}
	if report := sound(t, copied); report.Versions != 300 {
		t.Errorf("%+v", report)
	}
	open(t, path, Options{})
	_, err = CopyTo(io.Discard, path, Options{Timeout: 50 * time.Millisecond})
	if !errors.Is(err, ErrLocked) {
		t.Errorf("of an open file: %v, want ErrLocked", err)
	}
}
