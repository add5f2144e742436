package repository

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"testing"
)

// failpoints are the system calls through which a data file comes to be and is written, and
// how often one thread of the child makes them at most, about.
var failpoints = []struct {
	call string
	most int
}{{"pwrite64", 60}, {"fdatasync", 30}, {"fsync", 4}, {"ftruncate", 2}, {"linkat", 1},
	{"renameat", 1}}

// faults are what can become of a call: strace's words.
var faults = []string{"error=EIO", "error=ENOSPC", "signal=SIGKILL", "delay_enter=30ms"}

// faulty runs a child one of whose system calls goes wrong, and returns what it has
// acknowledged and whether it ended well.
func faulty(t *testing.T, mode, path, call, fault string) (acked []int64, well bool) {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("skipped: strace, which makes system calls fail, is not installed")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(strace, "-f", "-qq", "-o", os.DevNull, "-e", "trace="+call, "-e",
		"inject="+call+":"+fault, self, path, "0")
	cmd.Env = append(os.Environ(), childEnv+"="+mode)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	if bytes.Contains(errs.Bytes(), []byte("strace: ")) {
		t.Skipf("skipped: %s", errs.Bytes())
	}
	return acknowledged(t, out.Bytes()), err == nil
}

// Every system call of creating, storing and compacting fails, ends the process or takes
// long, at some instant: what is left is a whole file with all that was acknowledged, or
// none, if nothing was.
func TestFailpoints(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(6, 6))
	runs, hit, total := 0, map[string]int{}, 0
	for range rounds(1, 5) {
		for _, p := range failpoints {
			for _, fault := range faults {
				path := dataFile(t)
				at := fmt.Sprintf("%s:when=%d", fault, 1+rnd.IntN(p.most))
				acked, well := faulty(t, "film", path, p.call, at)
				runs++
				total += len(acked)
				if !well {
					hit[p.call]++
				}
				if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && len(acked) == 0 {
					continue
				}
				r, err := Open(path, Options{})
				if err != nil {
					t.Fatalf("%s:%s: %v", p.call, at, err)
				}
				if err := r.Close(); err != nil {
					t.Fatalf("%s:%s: %v", p.call, at, err)
				}
				if missing := lost(t, path, acked); len(missing) > 0 || t.Failed() {
					t.Fatalf("%s:%s: of %d acknowledged writes these are lost: %v", p.call, at, len(acked),
						missing)
				}
			}
		}
	}
	for _, p := range failpoints {
		if hit[p.call] == 0 {
			t.Errorf("%s never failed", p.call)
		}
	}
	t.Logf("%d children, ended badly by %v, %d writes acknowledged, none lost", runs, hit, total)
}

// The control: a child that acknowledges before it stores is caught by a sync that fails.
func TestFailpointsCatchEarlyAcknowledgement(t *testing.T) {
	t.Parallel()
	path := dataFile(t)
	acked, _ := faulty(t, "early", path, "fdatasync", "error=EIO:when=5+")
	missing := lost(t, path, acked)
	if len(missing) == 0 {
		t.Error("writes that were acknowledged too early are not missed")
	}
	t.Logf("%d of %d lost", len(missing), len(acked))
}
