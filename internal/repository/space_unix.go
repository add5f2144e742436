//go:build linux || darwin

package repository

import "golang.org/x/sys/unix"

func statFreeSpace(dir string) (free, total int64, known bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, 0, false
	}
	// What is reserved for root is no space of ours.
	size := int64(s.Bsize)
	return int64(s.Bavail) * size, int64(s.Blocks-s.Bfree+s.Bavail) * size, true
}
