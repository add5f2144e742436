package sessionfile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var (
	now     = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	theCred = sha256.Sum256([]byte("credential"))
)

func state(text string) State {
	return State{Kind: Association, Credential: theCred, Expires: now.Add(time.Hour),
		Secret: []byte(text)}
}

func open(t testing.TB, path string) (*File, []string) {
	t.Helper()
	f, warnings, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, warnings
}

func put(t testing.TB, f *File, sensor, text string) {
	t.Helper()
	if err := f.Put(KeyOf(sensor, "coaps://h"), state(text)); err != nil {
		t.Fatal(err)
	}
}

func take(t testing.TB, f *File, sensor string) string {
	t.Helper()
	s, ok, err := f.Take(KeyOf(sensor, "coaps://h"), theCred, now)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		return ""
	}
	if diff := cmp.Diff(state(string(s.Secret)), s); diff != "" {
		t.Errorf("(-put +taken)\n%s", diff)
	}
	return string(s.Secret)
}

func TestTakeIsOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	f, warnings := open(t, path)
	put(t, f, "a", "1")
	put(t, f, "b", "2")
	if got := take(t, f, "a") + take(t, f, "a"); got != "1" || warnings != nil {
		t.Errorf("took %q, %v", got, warnings)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f, warnings = open(t, path)
	if got := take(t, f, "a") + take(t, f, "b") + take(t, f, "b"); got != "2" || warnings != nil {
		t.Errorf("took %q, %v", got, warnings)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestTakeRefuses(t *testing.T) {
	f, _ := open(t, filepath.Join(t.TempDir(), "s"))
	key := KeyOf("a", "coaps://h")
	put(t, f, "a", "1")
	if _, ok, err := f.Take(key, sha256.Sum256(nil), now); ok || err != nil {
		t.Errorf("under another credential: %v %v", ok, err)
	}
	put(t, f, "a", "1")
	if _, ok, err := f.Take(key, theCred, now.Add(time.Hour)); ok || err != nil {
		t.Errorf("expired: %v %v", ok, err)
	}
	if f.Len() != 0 || KeyOf("a", "coaps://i") == key || KeyOf("ac", "oaps://h") == key {
		t.Error("a state is left, or keys collide")
	}
	if err := f.Put(key, state(strings.Repeat("x", slotSize))); !errors.Is(err, ErrTooLarge) {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Put(key, state("1")); err == nil {
		t.Error("put into a closed file")
	}
}

// What cannot be removed is not handed out.
func TestTakeFromABrokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	f, _ := open(t, path)
	put(t, f, "a", "1")
	readOnly, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.f.Close()
	f.f = readOnly
	if s, ok, err := f.Take(KeyOf("a", "coaps://h"), theCred, now); ok || err == nil {
		t.Errorf("handed out %v, %v", s, err)
	}
}

func TestOpenThrowsAway(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct {
		damage func(path string) error
		want   string
	}{
		"wide":    {func(p string) error { return os.Chmod(p, 0o640) }, "others could read it (mode 0640)"},
		"version": {func(p string) error { return os.WriteFile(p, []byte("crawld sessions 2\n"), 0o600) }, "is no file of sessions of this version"},
		"other":   {func(p string) error { return os.WriteFile(p, []byte{1}, 0o600) }, "is no file of sessions"},
		"byte": {func(p string) error {
			b, err := os.ReadFile(p)
			b[slotSize+100] ^= 1
			return errors.Join(err, os.WriteFile(p, b, 0o600))
		}, "1 states are damaged"},
		"copied": {func(p string) error { // one state twice: neither is used
			b, err := os.ReadFile(p)
			return errors.Join(err, os.WriteFile(p, append(b, b[slotSize:]...), 0o600))
		}, "2 states are damaged"},
	} {
		path := filepath.Join(dir, name)
		f, _ := open(t, path)
		put(t, f, "a", "1")
		if err := errors.Join(f.Close(), test.damage(path)); err != nil {
			t.Fatal(err)
		}
		f, warnings := open(t, path)
		if len(warnings) != 1 || !strings.Contains(warnings[0], test.want) || f.Len() != 0 {
			t.Errorf("%s: %v, %d states", name, warnings, f.Len())
		}
		put(t, f, "a", "2")
		if got := take(t, f, "a"); got != "2" {
			t.Errorf("%s: then took %q", name, got)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v %v", name, info.Mode(), err)
		}
	}
	if _, _, err := Open(dir); err == nil {
		t.Error("a folder was opened")
	}
}

// replay puts and takes, and now and then crashes, which leaves any mix of what was not
// synced. It returns the states that were handed out twice, the takes, and the states that
// survived a crash. Without syncs it is as if Take had not synced.
func replay(t *testing.T, rng *rand.Rand, steps int, syncs bool) (twice, taken, kept int) {
	path := filepath.Join(t.TempDir(), "s")
	f, _ := open(t, path)
	seen := map[string]bool{}
	for step := range steps {
		sensor := fmt.Sprint(rng.IntN(4))
		synced, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if rng.IntN(2) == 0 {
			put(t, f, sensor, fmt.Sprint(step))
		} else if text := take(t, f, sensor); text != "" {
			if seen[text] {
				twice++
			}
			taken++
			seen[text] = true
			if now, err := os.ReadFile(path); err != nil {
				t.Fatal(err)
			} else if syncs {
				synced = now
			}
		}
		if rng.IntN(3) > 0 {
			continue
		}
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		if err := os.WriteFile(path, crashed(rng, synced, now), 0o600); err != nil {
			t.Fatal(err)
		}
		f, _ = open(t, path)
		kept += f.Len()
	}
	return twice, taken, kept
}

// crashed mixes what was synced with what was written since, by sectors, and may cut the end
// off.
func crashed(rng *rand.Rand, synced, written []byte) []byte {
	const sector = 512
	out := bytes.Clone(written)
	for at := 0; at < len(out); at += sector {
		if rng.IntN(2) == 0 && at < len(synced) {
			copy(out[at:min(at+sector, len(out))], synced[at:])
		} else if rng.IntN(4) == 0 && at >= len(synced) {
			clear(out[at:min(at+sector, len(out))])
		}
	}
	if rng.IntN(4) == 0 {
		out = out[:rng.IntN(len(out)+1)]
	}
	return out
}

func TestNoCrashBringsAStateBack(t *testing.T) {
	runs := 30
	if os.Getenv("CRAWLD_CI") != "" {
		runs = 1000
	}
	rng := rand.New(rand.NewPCG(1, 2))
	taken, kept := 0, 0
	for range runs {
		twice, n, k := replay(t, rng, 60, true)
		if twice > 0 {
			t.Fatalf("%d states were handed out twice", twice)
		}
		taken, kept = taken+n, kept+k
	}
	if taken < 5*runs || kept < 10*runs {
		t.Errorf("only %d taken, %d survived: too few to mean anything", taken, kept)
	}
}

// Control: a Take that does not sync is caught.
func TestCrashesCatchAMissingSync(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		if twice, _, _ := replay(t, rng, 60, false); twice > 0 {
			return
		}
	}
	t.Error("6000 steps without sync, and no state came twice")
}

const victimEnv = "CRAWLD_SESSIONFILE_VICTIM"

func TestMain(m *testing.M) {
	if path := os.Getenv(victimEnv); path != "" {
		f, _, err := Open(path)
		if err != nil {
			panic(err)
		}
		if _, ok, err := f.Take(KeyOf("a", "coaps://h"), theCred, now); !ok || err != nil {
			panic(fmt.Sprint(ok, err))
		}
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
	os.Exit(m.Run())
}

// A kill between removal and use costs the state, and only that one.
func TestKillBetweenRemovalAndUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	f, _ := open(t, path)
	put(t, f, "a", "1")
	put(t, f, "b", "2")
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	victim := exec.Command(os.Args[0])
	victim.Env = append(os.Environ(), victimEnv+"="+path)
	out, err := victim.CombinedOutput()
	if !strings.Contains(fmt.Sprint(err), "killed") {
		t.Fatalf("%v\n%s", err, out)
	}
	f, warnings := open(t, path)
	if got := take(t, f, "a") + take(t, f, "b"); got != "2" || warnings != nil {
		t.Errorf("took %q, %v", got, warnings)
	}
}

func FuzzOpen(f *testing.F) {
	path := filepath.Join(f.TempDir(), "s")
	s, _ := open(f, path)
	put(f, s, "a", "1")
	put(f, s, "b", "2")
	_ = s.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:slotSize+50])
	f.Add([]byte(magic))
	f.Add(append(bytes.Clone(whole[:slotSize]), bytes.Repeat([]byte{0xff}, slotSize)...))
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "s")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, _, err := Open(path)
		if err != nil {
			return
		}
		defer s.Close()
		if n := s.Len(); n > len(data)/slotSize {
			t.Fatalf("%d states in %d bytes", n, len(data))
		}
		for _, sensor := range []string{"a", "b"} {
			_ = take(t, s, sensor)
			if again := take(t, s, sensor); again != "" {
				t.Fatalf("%q twice", again)
			}
			put(t, s, sensor, "3")
			if got := take(t, s, sensor); got != "3" {
				t.Fatalf("put 3, took %q", got)
			}
		}
	})
}
