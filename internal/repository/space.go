package repository

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"
)

// Room is how much space there is to write to.
type Room uint8

// Critical leaves enough for what is under way to be stored and for records of the planner;
// nothing that could wait should be begun.
const (
	Ample    Room = iota
	Low           // worth a warning
	Critical      // no crawls, no publications; reads go on
)

// Space is how much room there is, in bytes, and of what.
type Space struct {
	Room  Room
	Why   string // what is short, for people; "" = nothing
	Free  int64  // of the disk, for ordinary users
	Total int64  // of the disk; 0 = not known
	// QuotaFree is what MaxSize still leaves, half of the file's free pages included; -1 =
	// no MaxSize.
	QuotaFree int64
}

// FreeSpace tells how much of a folder's disk an ordinary user may still write, and its
// size, in bytes. Where it is not known only failed writes tell.
type FreeSpace func(dir string) (free, total int64, known bool)

// leastFree is the space below which a disk is in trouble whatever its size, bytes; of a
// disk that has less than four times that, a quarter.
const leastFree = 256 << 20

// mostFree is what a large disk must have, bytes: a twentieth of one that is shared may be
// more than the daemon writes in its life.
const mostFree = 4 << 30

// roomOn judges a disk: below a twentieth, within leastFree and mostFree, it is Critical,
// below twice that share, or half as much again as leastFree, Low.
func roomOn(free, total int64) Room {
	least := min(max(total/20, min(leastFree, total/4)), mostFree)
	switch {
	case free < least:
		return Critical
	case free < min(max(total/10, least+least/2), 2*mostFree):
		return Low
	}
	return Ample
}

// roomIn judges what a quota leaves: it is the daemon's alone, so shares are enough.
func roomIn(free, quota int64) Room {
	switch {
	case free < quota/20:
		return Critical
	case free < quota/10:
		return Low
	}
	return Ample
}

// bbolt maps a file up to growStep in powers of two. Beyond, it allocates a page only
// where growStep behind it would still be within MaxSize.
const growStep = 16 << 20

// usableOf is up to where pages are allocated in a file of MaxSize bytes.
func usableOf(maxSize int64) int64 {
	if maxSize > 2*growStep {
		return maxSize - growStep
	}
	usable := int64(growStep)
	for usable > maxSize {
		usable /= 2
	}
	return usable
}

// spaceWatch is what Survey has found and the writer has met.
type spaceWatch struct {
	last    atomic.Pointer[Space] // never nil
	full    atomic.Bool           // the last commit failed for want of space
	ballast sync.Mutex            // over making and giving up the ballast
}

// Space is what the last Survey has found, but for a disk that has turned out to be full
// since.
func (r *Repository) Space() Space {
	s := *r.space.last.Load()
	if r.space.full.Load() {
		s.Room, s.Why = Critical, "the last write found no space; "+s.figures()
	}
	return s
}

// Survey looks how much space there is, keeps the ballast, and after a write that found
// none tries whether there is some again; it counts what is in quarantine. It is to be called
// every few seconds.
func (r *Repository) Survey(ctx context.Context) Space {
	s := r.measure()
	r.space.last.Store(&s)
	if r.space.full.Load() && s.Room != Critical && !r.stats.broken.Load() {
		r.tryRoom(ctx)
	}
	r.keepBallast(s)
	r.countDamaged()
	return r.Space()
}

func (r *Repository) measure() Space {
	s := Space{QuotaFree: -1}
	known := false
	if s.Free, s.Total, known = r.opts.FreeSpace(filepath.Dir(r.path)); known && s.Total > 0 {
		s.Room = roomOn(s.Free, s.Total)
	} else {
		s.Free, s.Total = 0, 0
	}
	if r.opts.MaxSize > 0 {
		usable := usableOf(r.opts.MaxSize)
		if used, err := r.used(); err == nil {
			s.QuotaFree = max(0, usable-used)
			s.Room = max(s.Room, roomIn(s.QuotaFree, usable))
		}
	}
	if s.Room != Ample {
		s.Why = s.figures()
	}
	return s
}

// figures tells people what there is.
func (s Space) figures() string {
	text := "how much of the disk is free is not known"
	if s.Total > 0 {
		text = fmt.Sprintf("%d of the disk's %d MB are free", s.Free>>20, s.Total>>20)
	}
	if s.QuotaFree >= 0 {
		text += fmt.Sprintf(", %d KB of the quota", s.QuotaFree>>10)
	}
	return text
}

// used is what the pages in use take, and half of the free ones: those are in pieces, and
// longer rows need some in a row.
func (r *Repository) used() (bytes int64, err error) {
	var high int64
	err = r.view(func(tx *bbolt.Tx) error {
		high = tx.Size()
		return nil
	})
	return high - r.freePages()/2, err
}

// probeBytes is what has to fit before writes are said to go on. The pages stay in the
// file as free ones, so that the first outcomes have theirs.
const probeBytes = 1 << 20

// tryRoom writes a row of probeBytes and takes it away again. The commits clear full; if
// the second one fails the next try takes the row away.
func (r *Repository) tryRoom(ctx context.Context) {
	err := r.wait(ctx, &op{solo: true, apply: func(t *transaction) error {
		return t.meta.Put([]byte("room"), make([]byte, probeBytes))
	}})
	if err == nil {
		_ = r.wait(ctx, &op{solo: true, apply: func(t *transaction) error {
			return t.meta.Delete([]byte("room"))
		}})
	}
}

// Refuses is why nothing should be begun that has to be stored: ErrFull, ErrBroken, or nil.
func (r *Repository) Refuses() error {
	if r.stats.broken.Load() {
		return ErrBroken
	}
	if s := r.Space(); s.Room == Critical {
		return r.named(fmt.Errorf("%w: %s", ErrFull, s.Why))
	}
	return nil
}

// Reasons of troubles, for programs.
const (
	TroubleBroken     = "broken"     // no write is accepted
	TroubleFull       = "full"       // Room is Critical
	TroubleLow        = "low"        // Room is Low
	TroubleQuarantine = "quarantine" // stored bodies in force are damaged
)

// Reasons lists every reason of a Trouble, for metrics that must exist from the start.
func Reasons() []string {
	return []string{TroubleBroken, TroubleFull, TroubleLow, TroubleQuarantine}
}

// Trouble is something that an operator should know of.
type Trouble struct {
	Reason string `json:"reason"`
	Text   string `json:"text"`
}

// Troubles are those of now, the worst first.
func (r *Repository) Troubles() []Trouble {
	list := []Trouble{}
	if r.stats.broken.Load() {
		list = append(list, Trouble{TroubleBroken, "the store takes no writes and crawling waits: " +
			"an earlier write failed; the data file is being reopened and checked"})
	}
	switch s := r.Space(); s.Room {
	case Critical:
		list = append(list, Trouble{TroubleFull, "crawling waits and publications are refused " +
			"until there is space: " + s.Why})
	case Low:
		list = append(list, Trouble{TroubleLow, "space is running out: " + s.Why})
	}
	if n := r.quarantine.inForce.Load(); n > 0 {
		list = append(list, Trouble{TroubleQuarantine, fmt.Sprintf("the stored descriptions of %d "+
			"sensors are damaged and not served; they are fetched in full at their next visits", n)})
	}
	return list
}

// noteSpace remembers what the last commit met.
func (r *Repository) noteSpace(err error) {
	if full := errors.Is(err, ErrFull); full || err == nil {
		r.space.full.Store(full)
	}
}
