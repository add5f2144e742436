package repository

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/visit"
)

// edit changes rows of a closed file behind the repository's back.
func edit(t *testing.T, path, bucket string, row func(b *bbolt.Bucket) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return row(tx.Bucket([]byte(bucket))) })
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestBodiesAreStoredOnce(t *testing.T) {
	path := dataFile(t)
	r := open(t, path, Options{})
	for i := range 20 {
		store(t, r, described(fmt.Sprint(i), "</same>", epoch))
	}
	if s := r.Stats(); s.Bodies != 1 || s.Versions != 20 || s.Sensors != 20 || s.Writes != 20 {
		t.Errorf("stats %+v", s)
	}
	store(t, r, described("0", "</other>", epoch), described("0", "</other>", epoch.Add(1e9)))
	versions, err := r.Versions("0", time.Time{}, 0)
	if err != nil || len(versions) != 2 {
		t.Errorf("a visit that changed nothing made a version: %v %v", versions, err)
	}
	if l, _, _ := r.Latest("0"); !l.Verified.Equal(epoch.Add(1e9)) || !l.At.Equal(epoch.Add(1000)) {
		t.Errorf("latest %+v", l)
	}
	if _, err := r.Body(hashOf("none")); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
}

// A body whose bytes were flipped is counted, reported, not served, and healed
// by fetching it again.
func TestFlippedBody(t *testing.T) {
	for name, flip := range map[string]func(row []byte){
		"last byte":  func(row []byte) { row[len(row)-1] ^= 1 },
		"hash":       func(row []byte) { row[0] ^= 1 },
		"first byte": func(row []byte) { row[32-hashLen] ^= 4 },
	} {
		path, _ := sample(t)
		sum := sha256.Sum256([]byte("</c>"))
		edit(t, path, "bodies", func(b *bbolt.Bucket) error {
			row := bytes.Clone(b.Get(sum[:hashLen]))
			flip(row)
			return b.Put(sum[:hashLen], row)
		})
		if report, err := Check(path, Options{}); err != nil || len(report.Problems) == 0 {
			t.Errorf("%s: check found nothing, %v", name, err)
		}
		r := open(t, path, Options{})
		if body, err := r.Body(hashOf("</c>")); !errors.Is(err, ErrHash) || body != nil {
			t.Errorf("%s: got %q, %v, want ErrHash", name, body, err)
		}
		if r.Stats().HashMismatches != 1 {
			t.Errorf("%s: stats %+v", name, r.Stats())
		}
		w := described("b", "</c>", epoch.Add(2*time.Hour))
		w.Outcome.Result = visit.Unchanged // as one fetched in full with the stored hash
		store(t, r, w)
		if body, err := r.Body(hashOf("</c>")); err != nil || string(body) != "</c>" {
			t.Errorf("%s: after a refetch: %q, %v", name, body, err)
		}
	}
}

// Rows of the repository's own that cannot be read are errors when read, and
// the next outcome puts new ones in their place.
func TestDamagedRows(t *testing.T) {
	for _, bucket := range []string{"latest", "state"} {
		path, _ := sample(t)
		edit(t, path, bucket, func(b *bbolt.Bucket) error { return b.Put(sensorKey("b"), []byte{9}) })
		if report, _ := Check(path, Options{}); len(report.Problems) == 0 {
			t.Errorf("%s: check found nothing", bucket)
		}
		r := open(t, path, Options{KeepVisits: 2})
		if _, _, err := r.Latest("b"); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", bucket, err)
		}
		store(t, r, described("b", "</c>", epoch.Add(2*time.Hour)))
		if l, ok, err := r.Latest("b"); err != nil || !ok || l.Hash != hashOf("</c>") {
			t.Errorf("%s: %+v %v %v", bucket, l, ok, err)
		}
		if r.Stats().UnreadableRows != 1 {
			t.Errorf("%s: stats %+v", bucket, r.Stats())
		}
	}
}

func TestStoreRefuses(t *testing.T) {
	r := open(t, dataFile(t), Options{})
	wrong := described("a", "</a>", epoch)
	wrong.Outcome.Hash = hashOf("</b>")
	nan := described("a", "</a>", epoch)
	nan.Outcome.Value /= 0
	for says, w := range map[string]Write{
		"has the SHA-256":        wrong,
		"sensor id of 0 bytes":   described("", "</a>", epoch),
		"sensor id of 513 bytes": described(strings.Repeat("a", 513), "</a>", epoch),
		"more than the 16777216": described("a", strings.Repeat("a", maxRaw+1), epoch),
		"unsupported value":      nan,
	} {
		if err := r.Store(t.Context(), w); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
		async := make(chan error)
		r.StoreAsync(w, func(err error) { async <- err })
		if err := <-async; err == nil {
			t.Errorf("%q: stored", says)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Store(ctx, described("a", "</a>", epoch)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if r.Sensors() != 0 {
		t.Errorf("%d sensors are stored", r.Sensors())
	}
}

// Close commits what is queued.
func TestCloseFlushes(t *testing.T) {
	path := dataFile(t)
	r := open(t, path, Options{})
	const n = 3000
	results := make(chan error, n)
	for i := range n {
		r.StoreAsync(described(fmt.Sprint(i), "</a>", epoch), func(err error) { results <- err })
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	for range n {
		if err := <-results; err != nil {
			t.Fatal(err)
		}
	}
	if s := r.Stats(); s.Sensors != n || s.LargestGroup > maxGroup || s.Commits >= n {
		t.Errorf("stats %+v", s)
	}
	if report := sound(t, path); report.Sensors != n {
		t.Errorf("report %+v", report)
	}
	late := make(chan error)
	r.StoreAsync(described("a", "</a>", epoch), func(err error) { late <- err })
	if err := <-late; !errors.Is(err, fs.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// More sensors than one transaction takes, and pages of reading.
func TestSaveManySensors(t *testing.T) {
	r := open(t, dataFile(t), Options{})
	sensors := map[string][]byte{}
	for i := range saveChunk + 1 {
		sensors[fmt.Sprint(i)] = fmt.Append(nil, "record ", i)
	}
	if err := r.Save(t.Context(), []byte("f"), &PlanRow{epoch, []byte("p")}, sensors); err != nil {
		t.Fatal(err)
	}
	n := 0
	err := r.States(func(id string, record []byte) error {
		if n++; string(record) != "record "+id {
			return fmt.Errorf("sensor %s has %s", id, record)
		}
		if n == maxPage/2 { // no transaction is open here
			return r.PutFleet(t.Context(), []byte("g"))
		}
		return nil
	})
	if err != nil || n != len(sensors) || r.Sensors() != n {
		t.Errorf("read %d of %d: %v", n, len(sensors), err)
	}
	if s := r.Stats(); s.Commits != 3 {
		t.Errorf("stats %+v", s)
	}
	stop := errors.New("stop")
	if err := r.States(func(string, []byte) error { return stop }); err != stop {
		t.Errorf("got %v", err)
	}
}

// A quota that is reached fails writes, leaves reads alone, and is over when
// the file may grow again.
func TestFull(t *testing.T) {
	path := dataFile(t)
	r := open(t, path, Options{MaxSize: 1 << 18})
	rnd := rand.New(rand.NewPCG(1, 1))
	noise := func() string {
		b := make([]byte, 20000)
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		return string(b)
	}
	var err error
	for n := 0; err == nil && n < 100; n++ {
		err = r.Store(t.Context(), described("a", noise(), epoch))
	}
	if !errors.Is(err, ErrFull) || errors.Is(err, ErrBroken) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	l, ok, err := r.Latest("a")
	if err != nil || !ok {
		t.Fatal(err)
	}
	if _, err := r.Body(l.Hash); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = open(t, path, Options{})
	store(t, r, described("a", noise(), epoch))
}

func everyRow(tx *bbolt.Tx) error {
	for _, name := range buckets {
		err := tx.Bucket([]byte(name)).ForEach(func(_, v []byte) error {
			_ = bytes.Clone(v)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func TestOutOfSpace(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&fs.PathError{Op: "write", Path: "f", Err: syscall.ENOSPC}, true},
		{&fs.PathError{Op: "write", Path: "f", Err: syscall.EIO}, false},
		{fmt.Errorf("file resize error: %s", syscall.ENOSPC), true},
		{fmt.Errorf("file sync error: %s", syscall.ENOSPC), false},
		{syscall.ENOSPC, false}, // as fdatasync returns it
		{syscall.EIO, false},
	} {
		if got := outOfSpace(c.err); got != c.want {
			t.Errorf("%v: got %v", c.err, got)
		}
	}
}

// A file cut under the open map: reads and writes fail, nothing crashes, nothing
// hangs, and Close ends.
func TestTruncatedWhileOpen(t *testing.T) {
	for _, size := range []int64{0, 1, 4, 6} {
		path, _ := sample(t)
		r, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, size*int64(os.Getpagesize())); err != nil {
			t.Fatal(err)
		}
		failed := 0
		for _, id := range []string{"a", "b"} {
			if _, _, err := r.Latest(id); err != nil {
				failed++
			}
		}
		if err := r.Store(t.Context(), described("a", "</new>", epoch)); !errors.Is(err, ErrBroken) {
			t.Errorf("%d pages: store: %v", size, err)
		}
		// Past the check of the size: the fault itself.
		if size > 1 {
			err := guarded(func() error { return r.db.View(everyRow) })
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%d pages: got %v, a fault was expected", size, err)
			}
		} else if failed != 2 {
			t.Errorf("%d pages: %d of 2 reads failed", size, failed)
		}
		done := make(chan error)
		go func() { done <- r.Close() }()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%d pages: Close hangs", size)
		}
	}
}
