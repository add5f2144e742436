package repository

import (
	"bytes"
	"errors"
	"os"
	"syscall"
	"testing"
)

// After a failed write that is not for want of space none is tried again.
func TestBroken(t *testing.T) {
	path, before := sample(t)
	r, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	// Every write to the file and every sync of it fails from here on.
	readOnly, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Dup3(int(readOnly.Fd()), int(r.file.Fd()), syscall.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Store(t.Context(), described("a", "</new>", epoch)); !errors.Is(err, ErrBroken) {
			t.Fatalf("got %v, want ErrBroken", err)
		}
	}
	if s := r.Stats(); !s.Broken || s.Commits != 0 {
		t.Errorf("stats %+v", s)
	}
	if body, err := r.Body(hashOf("</b>")); err != nil || string(body) != "</b>" {
		t.Errorf("reads should go on: %q, %v", body, err)
	}
	if err := errors.Join(r.Close(), readOnly.Close()); err != nil {
		t.Error(err)
	}
	if !bytes.Equal(before, readFile(t, path)) {
		t.Error("the file was changed")
	}
	store(t, open(t, path, Options{}), described("a", "</new>", epoch))
}
