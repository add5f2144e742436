package repository

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// holder says who has the file locked, as far as the system tells: Linux lists
// flock(2) locks with their owners in /proc/locks. The inode is taken for the
// file: device numbers there are those of the superblock, which some file
// systems hide from stat(2).
func holder(path string) string {
	const unknown = "another process"
	info, err := os.Stat(path)
	if err != nil {
		return unknown
	}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return unknown
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// 1: FLOCK  ADVISORY  WRITE 9732 fe:00:9978017 0 EOF
		v := strings.Fields(lines.Text())
		if len(v) < 6 || v[1] != "FLOCK" || v[4] == "0" || !strings.HasSuffix(v[5], inode(info)) {
			continue
		}
		name, _ := os.ReadFile("/proc/" + v[4] + "/comm")
		return strings.TrimSpace(fmt.Sprintf("process %s %s", v[4], name))
	}
	return unknown
}
