package repository

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk is a folder on a disk of that many bytes of its own.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// fill takes what is free on a disk but for some bytes.
func fill(t *testing.T, dir string, but int64) {
	t.Helper()
	free, _, known := statFreeSpace(dir)
	f, err := os.Create(filepath.Join(dir, "others"))
	if err == nil && known {
		err = unix.Fallocate(int(f.Fd()), 0, 0, free-but)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A real disk that others fill: the ballast takes in what is under way, publishers and
// crawls are refused, reads go on, nothing acknowledged is lost, and when there is space
// again writes go on and the ballast comes back, all without a restart.
func TestFullDisk(t *testing.T) {
	dir := smallDisk(t, "64m")
	path := filepath.Join(dir, "crawld.db")
	r := open(t, path, Options{Ballast: 4 << 20})
	ballast := func() bool {
		_, err := os.Stat(path + ".ballast")
		return err == nil
	}
	if s := r.Survey(t.Context()); s.Room != Ample || !ballast() {
		t.Fatalf("at first: %+v, ballast %v", s, ballast())
	}
	store(t, r, described("first", "</first>", epoch))
	fill(t, dir, 1<<20)
	stored, survived := 0, false
	for ; stored < 200; stored++ {
		if err := fillers(r, stored); err != nil {
			if !errors.Is(err, ErrFull) || errors.Is(err, ErrBroken) {
				t.Fatal(err)
			}
			break
		}
		if !ballast() && !survived {
			survived = true
			if s := r.Survey(t.Context()); s.Room != Critical || !errors.Is(r.Refuses(), ErrFull) {
				t.Errorf("when the ballast is gone: %+v", s)
			}
		}
	}
	if !survived || stored < 10 {
		t.Errorf("ballast given up: %v, %d stored", survived, stored)
	}
	if body, err := r.Body(hashOf("</first>")); err != nil || string(body) != "</first>" {
		t.Errorf("reads: %q, %v", body, err)
	}
	for range 3 {
		if s := r.Survey(t.Context()); s.Room != Critical || ballast() {
			t.Errorf("full: %+v, ballast %v", s, ballast())
		}
	}
	if err := os.Remove(filepath.Join(dir, "others")); err != nil {
		t.Fatal(err)
	}
	r.Survey(t.Context()) // measures, and tries
	if s := r.Survey(t.Context()); s.Room != Ample || r.Refuses() != nil || !ballast() {
		t.Errorf("with space again: %+v, %v, ballast %v", s, r.Refuses(), ballast())
	}
	store(t, r, described("last", "</last>", epoch))
	for i := range stored {
		if v, err := r.Visits(sensorOf(i), 0); err != nil || len(v) != 1 {
			t.Errorf("%s: %v %v", sensorOf(i), v, err)
		}
	}
	t.Logf("%d outcomes stored until the disk and its ballast were full", stored)
}

// A sync that fails: no write is accepted, and after Reopen all that was acknowledged is
// there and writes go on. What could not be synced is not there by half.
func TestReopen(t *testing.T) {
	path, _ := sample(t)
	r := open(t, path, Options{})
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for round := range 3 {
		// Within the transaction, so that its writes go nowhere and its sync is refused.
		err := r.wait(t.Context(), &op{apply: func(t *transaction) error {
			if err := t.putFleet([]byte("lost")); err != nil {
				return err
			}
			return syscall.Dup3(int(null.Fd()), int(r.file.Fd()), syscall.O_CLOEXEC)
		}})
		if !errors.Is(err, ErrBroken) || !errors.Is(r.Refuses(), ErrBroken) || !r.Stats().Broken {
			t.Fatalf("%d: %v, refuses %v", round, err, r.Refuses())
		}
		if err := r.Store(t.Context(), described("a", "</new>", epoch)); !errors.Is(err, ErrBroken) {
			t.Fatalf("%d: tried again: %v", round, err)
		}
		var readers sync.WaitGroup
		stop := make(chan struct{})
		for range 4 {
			readers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_, _, _ = r.Latest("b")
						_ = r.Stats()
					}
				}
			})
		}
		err = r.Reopen(t.Context())
		close(stop)
		readers.Wait()
		if err != nil || r.Refuses() != nil || r.Stats().Broken {
			t.Fatalf("%d: reopen: %v, %+v", round, err, r.Stats())
		}
		if fleet, err := r.Fleet(); err != nil || string(fleet) == "lost" {
			t.Errorf("%d: %q, %v", round, fleet, err)
		}
		if body, err := r.Body(hashOf("</c>")); err != nil || string(body) != "</c>" {
			t.Errorf("%d: %q, %v", round, body, err)
		}
		store(t, r, described("b", "</c>", epoch))
	}
	if err := r.Reopen(t.Context()); err != nil {
		t.Errorf("one that is well: %v", err)
	}
}

// A file that cannot be opened again is told, and Close ends.
func TestReopenFails(t *testing.T) {
	path, file := sample(t)
	r, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(len(file)/4)); err != nil {
		t.Fatal(err)
	}
	if err := r.Store(t.Context(), described("a", "</new>", epoch)); !errors.Is(err, ErrBroken) {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Reopen(t.Context()); !errors.Is(err, ErrBroken) || !errors.Is(err, ErrCorrupt) {
			t.Errorf("got %v, want ErrBroken and ErrCorrupt", err)
		}
		if _, _, err := r.Latest("a"); err == nil {
			t.Error("a closed file is read")
		}
		if err := r.Store(t.Context(), described("a", "</a>", epoch)); !errors.Is(err, ErrBroken) {
			t.Errorf("got %v, want ErrBroken", err)
		}
	}
	_ = r.Stats()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}
