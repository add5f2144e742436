// Package powercut makes the disks that power cuts would leave behind. A program runs
// under strace(1); what it asked of the file system, in order, is played to a model in
// which nothing is durable before it has been synced. Only tests import it.
package powercut

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// Command is how a program is run so that Parse can read what strace writes to the file
// named trace. Strings are written in hexadecimal and whole.
func Command(trace string, program ...string) []string {
	return append([]string{"strace", "-f", "-qq", "-xx", "-s", "1048576", "-o", trace,
		"-e", "signal=none", "-e", "trace=openat,close,pwrite64,write,ftruncate,fallocate,fsync,fdatasync,linkat," +
			"unlinkat,rename,renameat,renameat2"}, program...)
}

// A call is one system call, at its beginning or, if it was interrupted by those of other
// threads, its beginning and its end.
type call struct {
	name  string
	args  []string
	begun bool // false: only its end, after a call that has begun and not ended
	ended bool
	value int64 // what it returned, if it has ended; below 0 it failed
}

var (
	whole   = regexp.MustCompile(`^(\d+) +(\w+)\((.*)\) += (-?\d+)`)
	begins  = regexp.MustCompile(`^(\d+) +(\w+)\((.*?),? *<unfinished \.\.\.>$`)
	resumes = regexp.MustCompile(`^(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (-?\d+)`)
)

// parse reads what strace wrote. Lines that are no calls, and calls that never returned
// because the program ended, are left out; of the latter the beginning is there.
func parse(r io.Reader) ([]call, error) {
	var calls []call
	open := map[string]call{} // by thread
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return calls, nil
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		line = strings.TrimRight(line, "\n")
		if m := whole.FindStringSubmatch(line); m != nil {
			c := call{name: m[2], args: arguments(m[3]), begun: true, ended: true}
			c.value, _ = strconv.ParseInt(m[4], 10, 64)
			calls = append(calls, c)
		} else if m := begins.FindStringSubmatch(line); m != nil {
			c := call{name: m[2], args: arguments(m[3]), begun: true}
			open[m[1]] = c
			calls = append(calls, c)
		} else if m := resumes.FindStringSubmatch(line); m != nil {
			c, ok := open[m[1]]
			if !ok || c.name != m[2] {
				return nil, fmt.Errorf("line %d: thread %s resumes %s, which it has not begun", n, m[1], m[2])
			}
			delete(open, m[1])
			c.begun, c.ended = false, true
			c.value, _ = strconv.ParseInt(m[4], 10, 64)
			calls = append(calls, c)
		}
	}
}

// arguments of a call. Strings are hexadecimal, so that no comma is inside one.
func arguments(s string) []string { return strings.Split(s, ", ") }

// text is a string argument.
func text(arg string) ([]byte, error) {
	hex, ok := strings.CutPrefix(arg, `"`)
	if ok {
		hex, ok = strings.CutSuffix(hex, `"`)
	}
	if !ok || len(hex)%4 != 0 {
		return nil, fmt.Errorf("%.40s...: not a whole string", arg)
	}
	out := make([]byte, 0, len(hex)/4)
	for i := 0; i < len(hex); i += 4 {
		b, err := strconv.ParseUint(hex[i+2:i+4], 16, 8)
		if err != nil || hex[i:i+2] != `\x` {
			return nil, fmt.Errorf("%q is not a byte", hex[i:i+4])
		}
		out = append(out, byte(b))
	}
	return out, nil
}

func number(arg string) (int64, error) { return strconv.ParseInt(arg, 0, 64) }
