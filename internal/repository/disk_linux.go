package repository

import (
	"os"

	"golang.org/x/sys/unix"
)

// reserve gives a file blocks without writing them.
func reserve(f *os.File, size int64) error {
	return unix.Fallocate(int(f.Fd()), 0, 0, size)
}

// forget has the kernel read a file from the disk again. After a sync that failed its
// cache may hold, marked clean, what never reached the disk.
func forget(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}
