package repository

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"
)

// sample is a closed file with a few sensors, and its bytes.
func sample(t testing.TB) (path string, content []byte) {
	t.Helper()
	path = dataFile(t)
	r, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	store(t, r, described("a", strings.Repeat("</temperature>;rt=\"t\",", 9), epoch),
		described("b", "</b>", epoch), described("b", "</c>", epoch.Add(time.Hour)))
	if err := r.PutPlan(t.Context(), epoch, bytes.Repeat([]byte("plan"), 3000)); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	return path, readFile(t, path)
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

func TestCreate(t *testing.T) {
	path := dataFile(t)
	r := open(t, path, Options{})
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
	if names := entries(t, filepath.Dir(path)); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
	store(t, r, described("a", "</a>", epoch))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	report := sound(t, path)
	if len(report.Instance) != 32 || report.SchemaVersion != 1 || report.Sensors != 1 ||
		report.Versions != 1 || report.Bodies != 1 || report.Visits != 1 || report.Bytes == 0 {
		t.Errorf("report %+v", report)
	}
	if err := r.Store(t.Context(), described("a", "</a>", epoch)); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("store after close: %v", err)
	}
	if _, _, err := r.Latest("a"); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("latest after close: %v", err)
	}
}

// Files that cannot be opened get an error that says so, and stay as they are.
func TestOpenRefuses(t *testing.T) {
	path, good := sample(t)
	edited := func(edit func(*bbolt.Tx) error) []byte {
		db, err := bbolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Update(edit), db.Close()); err != nil {
			t.Fatal(err)
		}
		return readFile(t, path)
	}
	zeroed := bytes.Clone(good)
	clear(zeroed[:2*os.Getpagesize()])
	for name, c := range map[string]struct {
		content []byte
		want    error
		says    string
	}{
		"empty":            {nil, ErrCorrupt, "not a bbolt file"},
		"text":             {bytes.Repeat([]byte("sensors:\n"), 9999), ErrCorrupt, "not a bbolt file"},
		"zeros":            {make([]byte, len(good)), ErrCorrupt, "not a bbolt file"},
		"meta pages zero":  {zeroed, ErrCorrupt, "meta pages are damaged"},
		"two pages":        {good[:2*os.Getpagesize()], ErrCorrupt, "truncated"},
		"half":             {good[:len(good)/4], ErrCorrupt, "truncated"},
		"half a meta page": {good[:40], ErrCorrupt, "not a bbolt file"},
		"version 2": {edited(func(tx *bbolt.Tx) error {
			return tx.Bucket([]byte("meta")).Put([]byte("schema"), []byte("2"))
		}), ErrVersion, "version 2, this program reads and writes 1"},
		"another program": {edited(func(tx *bbolt.Tx) error {
			return tx.DeleteBucket([]byte("meta"))
		}), ErrCorrupt, "not one of crawld"},
	} {
		t.Run(name, func(t *testing.T) {
			path := dataFile(t)
			if err := os.WriteFile(path, c.content, 0o600); err != nil {
				t.Fatal(err)
			}
			for _, o := range []Options{{}, {ReadOnly: true}} {
				_, err := Open(path, o)
				if !errors.Is(err, c.want) {
					t.Fatalf("got %v, want %v", err, c.want)
				}
				if text := err.Error(); !strings.Contains(text, c.says) || !strings.Contains(text, path) {
					t.Errorf("%q does not say %q and the path", text, c.says)
				}
			}
			report, err := Check(path, Options{})
			if c.want == ErrCorrupt && (err != nil || len(report.Problems) == 0) ||
				c.want == ErrVersion && !errors.Is(err, ErrVersion) {
				t.Errorf("check: %+v, %v", report, err)
			}
			if !bytes.Equal(readFile(t, path), c.content) {
				t.Error("the file was changed")
			}
			if names := entries(t, filepath.Dir(path)); len(names) != 1 {
				t.Errorf("there are now %v", names)
			}
		})
	}
}

func TestOpenCreatesNothingElsewhere(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		path string
		o    Options
		says string
	}{
		"read-only":    {filepath.Join(dir, "a.db"), Options{ReadOnly: true}, "no such file"},
		"no directory": {filepath.Join(dir, "none", "a.db"), Options{}, "there is no directory"},
		"a directory":  {dir, Options{}, "not a regular file"},
	} {
		_, err := Open(c.path, c.o)
		if text := fmt.Sprint(err); !strings.Contains(text, c.says) || !strings.Contains(text, c.path) {
			t.Errorf("%s: got %v, want %q and the path", name, err, c.says)
		}
	}
	if _, err := Check(filepath.Join(dir, "a.db"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("check: %v", err)
	}
	if names := entries(t, dir); len(names) != 0 {
		t.Errorf("created: %v", names)
	}
}

func TestUnwritableDirectory(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root may write everywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	_, err := Open(filepath.Join(dir, "crawld.db"), Options{})
	if err == nil || !strings.Contains(err.Error(), "is not writable for user id") {
		t.Errorf("got %v", err)
	}
}

func TestLockedInProcess(t *testing.T) {
	path := dataFile(t)
	r := open(t, path, Options{})
	store(t, r, described("a", "</a>", epoch))
	before := readFile(t, path)
	for _, o := range []Options{{}, {ReadOnly: true}} {
		o.Timeout = 60 * time.Millisecond
		if _, err := Open(path, o); !errors.Is(err, ErrLocked) {
			t.Errorf("got %v, want ErrLocked", err)
		}
	}
	if !bytes.Equal(before, readFile(t, path)) {
		t.Error("the file was changed")
	}
	store(t, r, described("a", "</b>", epoch))
}

func TestReadOnly(t *testing.T) {
	path, before := sample(t)
	r := open(t, path, Options{ReadOnly: true})
	second := open(t, path, Options{ReadOnly: true})
	if v, ok, err := second.Latest("b"); err != nil || !ok || v.Hash != hashOf("</c>") {
		t.Errorf("latest: %+v %v %v", v, ok, err)
	}
	err := r.Store(t.Context(), described("a", "</a>", epoch))
	if err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("store: got %v", err)
	}
	if !bytes.Equal(before, readFile(t, path)) {
		t.Error("the file was changed")
	}
}
