package repository

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/crawld/crawld/internal/powercut"
)

// filmOf is what a child does that creates a data file and stores in it.
func filmOf(t *testing.T) *powercut.Film {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("skipped: strace, which shows what is written when, is not installed")
	}
	if out, err := exec.Command(strace, "-qq", "-o", os.DevNull, "true").CombinedOutput(); err != nil {
		t.Skipf("skipped: strace may not trace here: %v\n%s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, trace := t.TempDir(), filepath.Join(t.TempDir(), "trace")
	args := powercut.Command(trace, self, filepath.Join(dir, "crawld.db"), "0")
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), childEnv+"=film")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	f, err := os.Open(trace)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	film, err := powercut.Read(f, dir)
	if err != nil {
		t.Fatal(err)
	}
	return film
}

// acknowledged are the writes that a child said were stored, in lines that it ended.
func acknowledged(t *testing.T, said []byte) (acked []int64) {
	t.Helper()
	for line := range strings.Lines(string(said)) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		n, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		acked = append(acked, n)
	}
	return acked
}

// after starts on what a power cut left, as the daemon would, and says what is wrong.
func after(t *testing.T, files map[string][]byte, acked []int64) error {
	t.Helper()
	dir, err := os.MkdirTemp("", "crawld-cut-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return err
		}
	}
	path := filepath.Join(dir, "crawld.db")
	r, err := Open(path, Options{})
	if err != nil {
		return err
	}
	if err := r.Close(); err != nil {
		return err
	}
	report, err := Check(path, Options{})
	if err != nil {
		return err
	}
	if len(report.Problems) > 0 {
		return fmt.Errorf("check: %v", report.Problems)
	}
	if missing := lost(t, path, acked); len(missing) > 0 {
		return fmt.Errorf("%d of %d acknowledged writes are lost: %v", len(missing), len(acked), missing)
	}
	return nil
}

// cutAt looks at a number of images, the seed's, and returns what is wrong with the first
// bad one.
func cutAt(t *testing.T, film *powercut.Film, images int, seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 5))
	instants := make([]int, images)
	for i := range instants {
		instants[i] = rng.IntN(film.Cuts())
	}
	slices.Sort(instants)
	return film.Cut(instants, func(cut int, d *powercut.Disk, said []byte) error {
		if err := after(t, d.Image(rng), acknowledged(t, said)); err != nil {
			return fmt.Errorf("seed %d, cut %d of %d: %w", seed, cut, film.Cuts(), err)
		}
		return nil
	})
}

// Whatever part of the unsynced writes a power cut leaves, what was acknowledged is
// there, and nothing is there by half.
func TestPowerCut(t *testing.T) {
	t.Parallel()
	film := filmOf(t)
	images := rounds(200, 2000)
	if n, err := strconv.Atoi(os.Getenv("CRAWLD_IMAGES")); err == nil {
		images = n
	}
	seed, err := strconv.ParseUint(os.Getenv("CRAWLD_SEED"), 10, 64)
	if err != nil {
		seed = 1
	}
	if err := cutAt(t, film, images, seed); err != nil {
		t.Error(err)
	}
	t.Logf("%d images of %d instants", images, film.Cuts())
}
