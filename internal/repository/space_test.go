package repository

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/crawld/crawld/internal/visit"
)

const (
	mb = int64(1) << 20
	gb = int64(1) << 30
)

func TestRoomOn(t *testing.T) {
	for _, c := range []struct {
		free, total int64
		want        Room
	}{
		{6 * gb, 50 * gb, Ample}, {5*gb - 1, 50 * gb, Low}, {5 * gb / 2, 50 * gb, Low},
		{5*gb/2 - 1, 50 * gb, Critical}, {0, 50 * gb, Critical},
		{8 * gb, 2048 * gb, Ample}, {8*gb - 1, 2048 * gb, Low}, {4*gb - 1, 2048 * gb, Critical},
		{400 * mb, 2 * gb, Ample}, {383 * mb, 2 * gb, Low}, {256 * mb, 2 * gb, Low},
		{255 * mb, 2 * gb, Critical},
		{60 * mb, 128 * mb, Ample}, {47 * mb, 128 * mb, Low}, {31 * mb, 128 * mb, Critical},
	} {
		if got := roomOn(c.free, c.total); got != c.want {
			t.Errorf("%d of %d MB: %v, want %v", c.free/mb, c.total/mb, got, c.want)
		}
	}
}

// disk is what the system would tell of a disk, in MB.
type disk struct{ free, total atomic.Int64 }

func (d *disk) space(string) (free, total int64, known bool) {
	return d.free.Load() * mb, d.total.Load() * mb, d.total.Load() > 0
}

func TestSurvey(t *testing.T) {
	var d disk
	path := dataFile(t)
	r := open(t, path, Options{FreeSpace: d.space, Ballast: 4 * mb})
	ballast := func() (n int64) {
		if info, err := os.Stat(path + ".ballast"); err == nil {
			n = info.Size()
		}
		return n
	}
	for i, c := range []struct {
		free, total int64
		want        Room
		refuses     bool
		ballast     int64
	}{
		{0, 0, Ample, false, 0}, // not known
		{1200, 10000, Ample, false, 4 * mb},
		{900, 10000, Low, false, 4 * mb},
		{400, 10000, Critical, true, 4 * mb}, // it is for commits, not for figures
		{2000, 10000, Ample, false, 4 * mb},
	} {
		d.free.Store(c.free)
		d.total.Store(c.total)
		s := r.Survey(t.Context())
		if s.Room != c.want || r.Space() != s || errors.Is(r.Refuses(), ErrFull) != c.refuses ||
			(s.Why == "") != (c.want == Ample) || ballast() != c.ballast {
			t.Errorf("%d: %+v, refuses %v, ballast of %d", i, s, r.Refuses(), ballast())
		}
		if n := len(r.Troubles()); n != min(1, int(c.want)) {
			t.Errorf("%d: troubles %v", i, r.Troubles())
		}
	}
	d.total.Store(32) // a small disk
	d.free.Store(32)
	if r.Survey(t.Context()); ballast() != 2*mb {
		t.Errorf("ballast of %d on a disk of 32 MB", ballast())
	}
	if left := entries(t, filepath.Dir(path)); len(left) != 2 {
		t.Errorf("left behind: %v", left)
	}
	r.opts.Ballast = 0
	if r.Survey(t.Context()); ballast() != 0 {
		t.Error("a ballast that is not wanted stays")
	}
}

// noise is a description that cannot be compressed.
func noise(rnd *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rnd.Uint32())
	}
	return string(b)
}

// A quota is told to be short before a write fails for it. Where descriptions are short
// crawling ends before, too; where they are long at the latest with the write.
func TestQuota(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct{ quota, body int64 }{
		{3 << 20, 4 << 10}, {20 << 20, 64 << 10}, {40 << 20, 64 << 10},
	} {
		r := open(t, dataFile(t), Options{MaxSize: c.quota})
		var warned, refused Space
		n := 0
		for ; ; n++ {
			s := r.Survey(t.Context())
			if s.Room >= Low && warned.Room == Ample {
				warned = s
			}
			if s.Room == Critical && refused.Room == Ample {
				refused = s
			}
			err := r.Store(t.Context(), described("a", noise(rnd, int(c.body)), epoch))
			if errors.Is(err, ErrFull) {
				break
			}
			if err != nil || n > 5000 {
				t.Fatalf("%d KB: write %d: %v", c.quota>>10, n, err)
			}
		}
		usable, left := usableOf(c.quota), r.measure().QuotaFree
		if warned.Room != Low || n < 3 || left > usable/10 ||
			c.body < 16<<10 && refused.Room != Critical {
			t.Errorf("%d KB: warned at %+v, refused at %+v, failed at %d of %d bytes after %d writes",
				c.quota>>10, warned, refused, left, usable, n)
		}
		if s := r.Space(); s.Room != Critical {
			t.Errorf("after a write that failed: %+v", s)
		}
	}
}

// A disk that is full to the writer although its figures are good: known at once, tried at
// every survey, over when a write fits.
func TestFullWithoutFigures(t *testing.T) {
	var d disk
	d.free.Store(90)
	d.total.Store(100)
	r := open(t, dataFile(t), Options{FreeSpace: d.space})
	store(t, r, described("a", "</a>", epoch))
	r.db.MaxSize = 1 // bbolt's; the repository knows of no quota
	w := described("b", noise(rand.New(rand.NewPCG(1, 2)), 1<<16), epoch)
	if err := r.Store(t.Context(), w); !errors.Is(err, ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	for range 3 {
		if s := r.Survey(t.Context()); s.Room != Critical || !errors.Is(r.Refuses(), ErrFull) {
			t.Errorf("%+v", s)
		}
	}
	r.db.MaxSize = 0
	if s := r.Survey(t.Context()); s.Room != Ample || r.Refuses() != nil {
		t.Errorf("when there is space again: %+v", s)
	}
	store(t, r, w)
}

func sensorOf(n int) string { return fmt.Sprintf("s%d", n) }

// fillers are rows of every kind of write, so that a second try of any is seen.
func fillers(r *Repository, n int) error {
	ctx := context.Background()
	rnd := rand.New(rand.NewPCG(3, uint64(n)))
	w := described(sensorOf(n), noise(rnd, 200<<10), epoch)
	w.Record = []byte("record")
	if n%3 == 2 {
		w.Outcome.Result, w.Outcome.Body = visit.Asleep, nil
	}
	return errors.Join(r.Store(ctx, w), r.PutFleet(ctx, fmt.Append(nil, n)))
}
