package repository

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"github.com/crawld/crawld/internal/visit"
)

const childEnv = "CRAWLD_REPOSITORY_CHILD"

func TestMain(m *testing.M) {
	if mode := os.Getenv(childEnv); mode != "" {
		if err := child(mode, os.Args[len(os.Args)-2], os.Args[len(os.Args)-1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child is this test binary as another process, ended by its parent.
func child(mode, path, from string) error {
	if mode == "film" {
		return act(path)
	}
	r, err := Open(path, Options{KeepVisits: 100000})
	if err != nil {
		return err
	}
	if mode == "hold" {
		fmt.Println("open")
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		return r.Close()
	}
	if mode == "groups" {
		if err := r.SetGroups(context.Background(), numberedGroups(), epoch); err != nil {
			return err
		}
	}
	first, err := strconv.ParseInt(from, 10, 64)
	if err != nil {
		return err
	}
	var seq atomic.Int64
	seq.Store(first)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				next := storeNext
				if strings.HasPrefix(mode, "publish") {
					next = publishNext
				}
				if err := next(r, mode, &seq); err != nil {
					fmt.Fprintln(os.Stderr, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return r.Close()
}

// act is what a filmed child does: it creates a data file, stores in it, compacts it and
// stores again, and says what it has stored.
func act(path string) error {
	var seq atomic.Int64
	for _, until := range []int64{80, 120} {
		r, err := Open(path, Options{})
		if err != nil {
			return err
		}
		if err := r.SetGroups(context.Background(), numberedGroups(), epoch); err != nil {
			return err
		}
		var wg errgroup.Group
		for range 8 {
			wg.Go(func() error {
				for seq.Load() < until {
					if err := storeNext(r, "store", &seq); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err := errors.Join(wg.Wait(), r.Close()); err != nil {
			return err
		}
		if _, err := Compact(path, Options{}, false); err != nil {
			return err
		}
	}
	return nil
}

// storeNext acknowledges on standard output what it has stored; as the mutant
// "early" it acknowledges a few before.
func storeNext(r *Repository, mode string, seq *atomic.Int64) error {
	const ahead = 8
	if mode != "early" {
		n := seq.Add(1)
		if err := r.Store(context.Background(), numbered(n)); err != nil {
			return err
		}
		_, err := fmt.Printf("%d\n", n)
		if mode == "late" {
			err = errors.Join(err, r.SetGroups(context.Background(), numberedGroups(), epoch),
				r.SetGroups(context.Background(), nil, epoch))
		}
		return err
	}
	last := seq.Add(ahead)
	for n := last - ahead + 1; n <= last; n++ {
		fmt.Printf("%d\n", n)
	}
	for n := last - ahead + 1; n <= last; n++ {
		if err := r.Store(context.Background(), numbered(n)); err != nil {
			return err
		}
	}
	return nil
}

var epoch = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// numbered is the n-th write of the kill test; body and instant tell its number.
func numbered(n int64) Write {
	w := described(fmt.Sprintf("urn:dev:%d", n%16), fmt.Sprintf("</n>;ct=%d", n),
		epoch.Add(time.Duration(n)*time.Microsecond))
	w.Record = fmt.Appendf(nil, "%d", n)
	return w
}

func described(sensor, body string, at time.Time) Write {
	return Write{Outcome: visit.Outcome{
		Visit:  visit.Visit{Sensor: sensor, URI: "coap://[2001:db8::1]/.well-known/core", At: at},
		Result: visit.Described, Contact: true, Code: "2.05", Body: []byte(body), Hash: hashOf(body),
		Format: 40, Verdict: "valid", Links: 1, Started: at, Ended: at,
	}}
}

func hashOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

// open is how every test opens a file: when the test ends the file is closed
// and must pass Check.
func open(t testing.TB, path string, o Options) *Repository {
	t.Helper()
	r, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		sound(t, path)
	})
	return r
}

func sound(t testing.TB, path string) Report {
	t.Helper()
	report, err := Check(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range report.Problems {
		t.Errorf("check: %s", p)
	}
	return report
}

func store(t testing.TB, r *Repository, writes ...Write) {
	t.Helper()
	for _, w := range writes {
		if err := r.Store(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
}

func dataFile(t testing.TB) string { return filepath.Join(t.TempDir(), "crawld.db") }

// rounds is n, or more where time is no matter: in CI, and three times that in a soak.
func rounds(n, ci int) int {
	if os.Getenv("CRAWLD_SOAK") != "" {
		return 3 * ci
	}
	if os.Getenv("CRAWLD_CI") != "" {
		return ci
	}
	return n
}
