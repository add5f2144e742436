package repository

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// A full disk leaves a copy-on-write file no way to be pruned or to take in what is under
// way: every commit needs new pages. So some space is kept by a file that can be given up.
//
// ballastShare bounds it on small disks: no more than that part of one.
const ballastShare = 16

func (r *Repository) ballastPath() string { return r.path + ".ballast" }

// keepBallast makes the ballast when there is ample space without it, and removes one that
// is not wanted.
func (r *Repository) keepBallast(s Space) {
	if r.opts.ReadOnly {
		return
	}
	r.space.ballast.Lock()
	defer r.space.ballast.Unlock()
	info, err := os.Stat(r.ballastPath())
	want := r.opts.Ballast
	if s.Total > 0 {
		want = min(want, s.Total/ballastShare)
	}
	switch {
	case err == nil && info.Size() != want:
		_ = os.Remove(r.ballastPath()) // of another size or cut by a crash: made anew below
	case err == nil || !errors.Is(err, os.ErrNotExist):
		return
	}
	known := s.Total > 0
	if want > 0 && known && s.Room == Ample && roomOn(s.Free-want, s.Total) == Ample &&
		!r.space.full.Load() {
		// Failing is no trouble: it is tried again at the next survey.
		_ = makeBallast(r.ballastPath(), want)
	}
}

// giveUpBallast tells whether there was one.
func (r *Repository) giveUpBallast() bool {
	r.space.ballast.Lock()
	defer r.space.ballast.Unlock()
	return os.Remove(r.ballastPath()) == nil
}

// makeBallast makes a file that has its blocks. It gets its name when it has them all.
func makeBallast(path string, size int64) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // once renamed there is none
	if err = reserve(f, size); err != nil {
		// Noise: file systems that cannot reserve may compress.
		noise := rand.NewChaCha8([32]byte{})
		_, err = io.CopyN(f, noise, size)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
