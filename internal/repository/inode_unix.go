//go:build unix

package repository

import (
	"io/fs"
	"strconv"
	"syscall"
)

// inode is the end of the device:inode column of /proc/locks.
func inode(info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return ":" + strconv.FormatUint(uint64(st.Ino), 10)
	}
	return "none"
}
