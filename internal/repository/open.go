package repository

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

// Errors to be told apart with errors.Is. The text around them names the file
// and says what to do.
var (
	// ErrLocked: another process has the file open.
	ErrLocked = errors.New("locked")
	// ErrVersion: the file has another schema version than this program.
	ErrVersion = errors.New("other schema version")
	// ErrCorrupt: the file, or a row of it, is not what crawld wrote.
	ErrCorrupt = errors.New("corrupt")
	// ErrHash: a stored body is not the one its hash names. It is not served.
	ErrHash = errors.New("body does not match its hash")
	// ErrNotFound: no body with that hash is stored.
	ErrNotFound = errors.New("not found")
	// ErrCursor: what a listing was asked to go on after is not what it returned before.
	ErrCursor = errors.New("not a cursor of this listing")
	// ErrFull: MaxSize or the disk is reached. Nothing was written, reads go
	// on, and a later write may succeed.
	ErrFull = errors.New("no space left for the data file")
	// ErrBroken: an earlier write failed in a way that leaves open what is on
	// disk. No write is tried again until the file has been reopened.
	ErrBroken = errors.New("an earlier write failed; reopen the data file and check it")
)

// Options are how a data file is opened. The zero value is ready for use.
type Options struct {
	Timeout    time.Duration // how long to wait for the file's lock; default 2 s
	ReadOnly   bool          // shared lock, creates and writes nothing
	KeepVisits int           // visits kept per sensor, default 50
	MaxSize    int64         // bytes the file may grow to; 0 = no limit
	// Ballast is the size of a file beside the data file, made by Survey when there is
	// ample space and given up when there is none, bytes; 0 = none.
	Ballast   int64
	FreeSpace FreeSpace // nil: as the system tells
	// OnRepublish is called after the commit, on the goroutine that writes: it must be
	// quick and must not wait for a commit. nil: nobody is told.
	OnRepublish func(Republication)
}

const (
	defaultTimeout    = 2 * time.Second
	defaultKeepVisits = 50
)

// deepBelow is the size up to which every page is read at Open: tenths of a
// second that are worth it.
const deepBelow = 256 << 20

func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.KeepVisits <= 0 {
		o.KeepVisits = defaultKeepVisits
	}
	if o.FreeSpace == nil {
		o.FreeSpace = statFreeSpace
	}
	return o
}

// Repository is an open data file. Its methods are safe for concurrent use.
type Repository struct {
	path string
	opts Options
	bolt // replaced by the writer, under using
	codec

	using sync.RWMutex // held for reading while bbolt is asked by others than the writer

	queue   queue
	stopped chan struct{} // closed when the writer has ended
	closing sync.Once
	closed  error // of Close; read behind closing

	// Owned by the writer.
	broken error // why no further write is tried
	length int64 // of the file after the last commit: it never shrinks

	// stuck: bbolt panicked where it may hold a lock of its own, so it is not
	// called again, not even to close.
	stuck atomic.Bool
	stats counters

	space      spaceWatch
	quarantine quarantine

	known atomic.Pointer[counts] // as committed

	groups atomic.Pointer[grouping] // never nil
	names  atomic.Pointer[names]    // as committed; never nil

	indexed   int   // descriptions that Open has put into the index
	unindexed error // why there is no index
}

// bolt is an open bbolt file together with its handle, through which structure
// and size are looked at beside bbolt.
type bolt struct {
	db      *bbolt.DB
	file    *os.File
	minSize int64 // two meta pages: below that bbolt faults with its locks held
}

// Open opens the data file; unless ReadOnly, a file that is not there is
// created. What exists is never overwritten: a file that is locked (ErrLocked),
// of another schema version (ErrVersion), truncated, damaged or no data file at
// all (ErrCorrupt) is left as it is.
//
// Opening verifies bbolt's structure, so that what it follows ends inside the
// file and its keys are in order: all pages of a file up to 256 MB, of a larger one the meta pages, the free
// list and the branch pages, about a hundredth. Values are verified when read.
//
// A file without the index of searches, or with one that is behind because an older
// release has written to the file, is indexed before Open returns; see Indexed.
func Open(path string, o Options) (*Repository, error) {
	o = o.withDefaults()
	b, err := openBolt(path, o, false)
	if errors.Is(err, fs.ErrNotExist) && !o.ReadOnly {
		if err = create(path); err == nil {
			b, err = openBolt(path, o, false)
		}
	}
	if err != nil {
		return nil, err
	}
	r := &Repository{path: path, opts: o, bolt: b, stopped: make(chan struct{})}
	r.queue.init()
	r.groups.Store(&grouping{})
	r.space.last.Store(&Space{QuotaFree: -1})
	if r.codec, err = newCodec(); err == nil {
		err = r.load(r.view)
	}
	if err == nil {
		r.length, err = r.size()
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	if o.ReadOnly {
		r.queue.close(errors.New("opened read-only"))
	}
	go r.write()
	if err := r.backfill(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	if !o.ReadOnly {
		r.completeIndex()
	}
	return r, nil
}

// load reads what is kept in memory.
func (r *Repository) load(view func(func(*bbolt.Tx) error) error) error {
	if err := view(r.loadCounts); err != nil {
		return err
	}
	// A damaged row of names is told where a row needs it.
	if err := view(r.loadNames); err != nil && !errors.Is(err, ErrCorrupt) {
		return err
	}
	return view(r.loadQuarantine)
}

// Close commits what is queued, waits for the reads that are running and
// releases the file. Further calls return the same.
func (r *Repository) Close() error {
	r.closing.Do(func() {
		r.queue.close(fs.ErrClosed)
		<-r.stopped
		if r.stuck.Load() {
			// bbolt's own Close might wait for ever. Closing the handle gives
			// up the lock; the map goes with the process.
			r.closed = r.file.Close()
		} else {
			r.closed = r.close()
		}
		r.dec.Close()
	})
	return r.closed
}

func (b bolt) close() error {
	return guarded(b.db.Close)
}

// openBolt opens an existing file. Its structure is verified under a shared
// lock, which is then given up for the exclusive one where it is to be written:
// who gets in between is another crawld, and leaves a sound file.
func openBolt(path string, o Options, deep bool) (bolt, error) {
	shared := o
	shared.ReadOnly = true
	b, err := mapFile(path, shared)
	if err != nil {
		return bolt{}, err
	}
	l, err := readLayout(b.file, b.size)
	if err == nil {
		err = l.verify(deep || l.high*l.pageSize <= deepBelow)
	}
	if err == nil {
		err = guarded(func() error { return b.db.View(checkSchema) })
	}
	if err != nil {
		return bolt{}, errors.Join(fmt.Errorf("data file %s: %w", path, err), b.close())
	}
	if o.ReadOnly {
		return b, nil
	}
	if err := b.close(); err != nil {
		return bolt{}, err
	}
	return mapFile(path, o)
}

// mapFile has bbolt lock and map a file that looks like one of its own.
func mapFile(path string, o Options) (b bolt, err error) {
	opts := &bbolt.Options{
		Timeout:      o.Timeout,
		ReadOnly:     o.ReadOnly,
		MaxSize:      int(o.MaxSize),
		FreelistType: bbolt.FreelistMapType,
		OpenFile: func(name string, flag int, mode fs.FileMode) (file *os.File, err error) {
			// bbolt would create what is not there and make an empty file its
			// own, before anything is known of it.
			b.file, b.minSize, err = openExisting(name, flag&^os.O_CREATE, mode)
			return b.file, err
		},
	}
	err = guarded(func() (err error) {
		b.db, err = bbolt.Open(path, 0o600, opts)
		return err
	})
	if err == nil {
		if err = b.replaced(path); err == nil {
			return b, nil
		}
		return bolt{}, errors.Join(fmt.Errorf("data file %s: %w", path, err), b.close())
	}
	if b.file != nil {
		_ = b.file.Close() // bbolt closed it, unless it panicked
	}
	if errors.Is(err, berrors.ErrTimeout) {
		return bolt{}, fmt.Errorf("data file %s: %w by %s; waited %v: stop it or ask it over its API",
			path, ErrLocked, holder(path), o.Timeout)
	}
	return bolt{}, fmt.Errorf("data file %s: %w", path, err)
}

func openExisting(name string, flag int, mode fs.FileMode) (*os.File, int64, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("not a regular file (%v): %w", info.Mode().Type(), ErrCorrupt)
	}
	f, err := os.OpenFile(name, flag, mode)
	if err != nil {
		return nil, 0, err
	}
	l, err := readLayout(f, bolt{file: f}.size)
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, int64(2 * l.pageSize), nil
}

func (b bolt) size() (int64, error) {
	info, err := b.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// guarded runs what reads bbolt's memory map. A page that is gone, because the
// file was truncated under the map or its disk fails, raises a fault: it and
// the assertions of bbolt become an error of this one call instead of the end
// of the process.
func guarded(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: reading a page of it failed: %v", ErrCorrupt, p)
		}
	}()
	return fn()
}

// view runs fn in a read transaction. An open one keeps its pages from being
// used again and can block the writer, so fn copies what it needs and returns:
// it never calls back or writes to anything slow.
func (r *Repository) view(fn func(*bbolt.Tx) error) error {
	r.using.RLock()
	defer r.using.RUnlock()
	if err := r.usable(); err != nil {
		return err
	}
	began := false
	err := guarded(func() error {
		err := r.db.View(func(tx *bbolt.Tx) error {
			began = true
			return fn(tx)
		})
		// Reached without a panic: beginning failed in an orderly way.
		began = true
		return err
	})
	if !began {
		r.stuck.Store(true)
	}
	return r.named(err)
}

// usable is asked before bbolt is: it locks its meta pages to read them, and a
// fault there would leave them locked.
func (r *Repository) usable() error {
	n, err := r.size()
	switch {
	case err != nil:
		return r.named(err)
	case n < r.minSize || r.stuck.Load():
		return r.named(fmt.Errorf("it was truncated while open: %w", ErrCorrupt))
	}
	return nil
}

// named adds the file's name to an error.
func (r *Repository) named(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, berrors.ErrDatabaseNotOpen):
		err = fs.ErrClosed
	}
	return fmt.Errorf("data file %s: %w", r.path, err)
}
