//go:build !unix

package repository

import "io/fs"

// inode matches nothing: there is no /proc/locks.
func inode(fs.FileInfo) string { return "none" }
