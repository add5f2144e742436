package repository

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

func command(t *testing.T, mode, path string, from int64) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, path, strconv.FormatInt(from, 10))
	cmd.Env = append(os.Environ(), childEnv+"="+mode)
	cmd.Stderr = os.Stderr
	return cmd
}

// killed runs a child that stores, kills it after so many acknowledgements and
// returns all that it gave.
func killed(t *testing.T, mode, path string, from int64, after int) (acked []int64) {
	t.Helper()
	cmd := command(t, mode, path, from)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break // what came of a line without its end was not said
		}
		n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		acked = append(acked, n)
		if len(acked) == after {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Wait(); len(acked) < after {
		t.Fatalf("the child ended by itself after %d acknowledgements: %v", len(acked), err)
	}
	return acked
}

// left opens the file that a child left, which must be sound.
func left(t *testing.T, path string) *Repository {
	t.Helper()
	sound(t, path)
	r, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lost looks for what was acknowledged and is not there whole.
func lost(t *testing.T, path string, acked []int64) (missing []string) {
	t.Helper()
	r := left(t, path)
	defer r.Close()
	have := map[string]bool{}
	for i := range 16 {
		sensor := fmt.Sprintf("urn:dev:%d", i)
		var before time.Time
		for {
			versions, err := r.Versions(sensor, before, 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(versions) == 0 {
				break
			}
			for _, v := range versions {
				have[fmt.Sprint(v.Sensor, v.At, v.Hash)] = true
				before = v.At
			}
		}
	}
	for _, n := range acked {
		o := numbered(n).Outcome
		body, err := r.Body(o.Hash)
		if err != nil || string(body) != string(o.Body) || !have[fmt.Sprint(o.Sensor, o.Ended, o.Hash)] {
			missing = append(missing, fmt.Sprintf("%d (%v)", n, err))
		}
	}
	return missing
}

// lostAfterKills kills so many children of a mode, each after at most so many
// acknowledgements, and returns what is missing after one of them.
func lostAfterKills(t *testing.T, mode string, kills, most int,
	lost func(t *testing.T, path string, acked []int64) []string) (missing []string) {
	path := dataFile(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	var acked []int64
	for i := range int64(kills) {
		acked = append(acked, killed(t, mode, path, i*1_000_000, 1+rnd.IntN(most))...)
		if missing = lost(t, path, acked); len(missing) > 0 {
			break
		}
	}
	t.Logf("%d writes acknowledged, %d lost", len(acked), len(missing))
	return missing
}

func TestKillLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	if missing := lostAfterKills(t, "store", rounds(8, 25), 300, lost); len(missing) > 0 {
		t.Fatalf("acknowledged, but lost: %v", missing)
	}
}

// The control: a child that acknowledges before it stores must be caught.
func TestKillCatchesEarlyAcknowledgement(t *testing.T) {
	t.Parallel()
	if len(lostAfterKills(t, "early", 8, 100, lost)) == 0 {
		t.Error("eight kills did not show that writes were acknowledged before their commit")
	}
}

func TestLockedByAnotherProcess(t *testing.T) {
	t.Parallel()
	path := dataFile(t)
	cmd := command(t, "hold", path, 0)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(line, err)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	for _, o := range []Options{{}, {ReadOnly: true}} {
		o.Timeout = 60 * time.Millisecond
		_, err := Open(path, o)
		if !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) {
			t.Errorf("got %v, want ErrLocked with the path", err)
		}
		if _, e := os.Stat("/proc/locks"); e == nil && !strings.Contains(err.Error(), pid) {
			t.Errorf("%v does not name process %s", err, pid)
		}
	}
	if _, err := Check(path, Options{Timeout: 60 * time.Millisecond}); !errors.Is(err, ErrLocked) {
		t.Errorf("check: got %v, want ErrLocked", err)
	}
	if err := errors.Join(in.Close(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	sound(t, path)
}
