//go:build linux || darwin

package repository

import "golang.org/x/sys/unix"

// freeSpace is what an ordinary user may still write in a folder, bytes.
func freeSpace(dir string) (bytes int64, known bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
