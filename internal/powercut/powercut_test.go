package powercut

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// hex writes a string as strace -xx does.
func hex(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		fmt.Fprintf(&b, `\x%02x`, s[i])
	}
	b.WriteByte('"')
	return b.String()
}

// filmed reads a trace in which {text} stands for a string.
func filmed(t *testing.T, lines ...string) *Film {
	t.Helper()
	trace := strings.Join(lines, "\n") + "\n"
	for {
		before, rest, found := strings.Cut(trace, "{")
		if !found {
			break
		}
		s, after, _ := strings.Cut(rest, "}")
		trace = before + hex(s) + after
	}
	f, err := Read(strings.NewReader(trace), "/d")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// images lists the different disks that a cut can leave, as name=content, and what had
// been said.
func images(t *testing.T, f *Film, cut int) (list []string, said string) {
	t.Helper()
	seen := map[string]bool{}
	rng := rand.New(rand.NewPCG(1, 1))
	err := f.Cut([]int{cut}, func(_ int, d *Disk, out []byte) error {
		said = string(out)
		for range 400 {
			var files []string
			for name, data := range d.Image(rng) {
				files = append(files, name+"="+string(data))
			}
			slices.Sort(files)
			seen[strings.Join(files, " ")] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Sorted(maps.Keys(seen)), said
}

var creation = []string{
	`7 openat(AT_FDCWD, {/d/new}, O_RDWR|O_CREAT|O_EXCL|O_CLOEXEC, 0600) = 3`,
	`7 pwrite64(3, {ab}, 2, 0) = 2`,
	`7 fdatasync(3 <unfinished ...>`,
	`8 pwrite64(3, {cd}, 2, 2) = 2`,
	`7 <... fdatasync resumed>) = 0`,
	`7 renameat(AT_FDCWD, {/d/new}, AT_FDCWD, {/d/db}) = 0`,
	`7 openat(AT_FDCWD, {/d}, O_RDONLY|O_CLOEXEC) = 4`,
	`7 fsync(4) = 0`,
	`7 write(1, {1` + "\x0a" + `}, 2) = 2`,
	`7 unlinkat(AT_FDCWD, {/d/db}, 0) = 0`,
	`7 openat(AT_FDCWD, {/elsewhere/x}, O_RDWR|O_CREAT, 0600) = 5`,
	`7 pwrite64(5, {zz}, 2, 0) = 2`,
}

func TestImages(t *testing.T) {
	f := filmed(t, creation...)
	for cut, want := range [][]string{
		{"", "new=", "new=ab"},                               // written
		{"", "new=", "new=ab"},                               // a sync has begun
		{"", "new=", "new=ab", "new=abcd", "new=\x00\x00cd"}, // another thread writes
		{"", "new=ab", "new=abcd"},                           // the sync has ended
		{"", "db=ab", "db=abcd", "db=ab new=ab", "db=abcd new=abcd", "new=ab", "new=abcd"},
		{"db=ab", "db=abcd"}, // the folder is synced
		{"db=ab", "db=abcd"}, // and said so
		{"", "db=ab", "db=abcd"},
		{"", "db=ab", "db=abcd"},
	} {
		got, said := images(t, f, cut)
		extra := func(s string) bool { return !slices.Contains(want, s) }
		if slices.ContainsFunc(got, extra) {
			t.Errorf("cut %d: %q, want of %q", cut, got, want)
		}
		if ok := cut < 6 && said == "" || cut >= 6 && said == "1\n"; !ok {
			t.Errorf("cut %d: said %q", cut, said)
		}
	}
	if n := f.Cuts(); n != 9 {
		t.Errorf("%d cuts, want 9", n)
	}
}

// A torn write leaves whole sectors, by their place on the disk.
func TestTorn(t *testing.T) {
	data := strings.Repeat("x", 1300)
	f := filmed(t, `7 openat(AT_FDCWD, {/d/db}, O_RDWR|O_CREAT, 0600) = 3`,
		`7 openat(AT_FDCWD, {/d}, O_RDONLY) = 4`, `7 fsync(4) = 0`,
		`7 pwrite64(3, {`+data+`}, 1300, 300) = 1300`)
	got, _ := images(t, f, 1)
	torn := 0
	for _, image := range got {
		b := strings.TrimPrefix(image, "db=")
		for at := 300; at < len(b); {
			end := min(len(b), 1600, (at/sector+1)*sector)
			if part := b[at:end]; strings.Trim(part, "x") != "" && strings.Trim(part, "\x00") != "" {
				t.Fatalf("sector at %d is mixed", at)
			}
			at = end
		}
		if b != "" && strings.Count(b, "x") < 1300 {
			torn++
		}
	}
	if torn < 5 {
		t.Errorf("%d torn images of %d", torn, len(got))
	}
}

func TestReadRefuses(t *testing.T) {
	for line, want := range map[string]string{
		`7 <... fdatasync resumed>) = 0`:                     "line 1: thread 7 resumes fdatasync",
		`7 openat(AT_FDCWD, "\x2f"..., O_RDWR) = 3`:          "not a whole string",
		`7 openat(AT_FDCWD, {/d/x}, O_WRONLY|O_APPEND) = 3`:  "O_APPEND is not modelled",
		`7 renameat(AT_FDCWD, {/d/x}, AT_FDCWD, {/e/x}) = 0`: "across folders",
		`7 fallocate(3, 0, 0, 4096) = 0`:                     "not modelled",
		`7 openat(AT_FDCWD, "\xzz", O_RDWR) = 3`:             "is not a byte",
	} {
		for i := strings.IndexByte(line, '{'); i >= 0; i = strings.IndexByte(line, '{') {
			j := strings.IndexByte(line, '}')
			line = line[:i] + hex(line[i+1:j]) + line[j+1:]
		}
		_, err := Read(strings.NewReader(line+"\n"), "/d")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}
