package repository

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
)

// bbolt trusts its pages: a damaged one makes it panic, read outside of its
// map or recurse for ever, in part on goroutines of its own where nothing can
// be caught. So the structure is verified here, through plain reads with every
// bound checked, before bbolt follows it.

// Layout of bbolt's file format version 2, in the byte order of the machine.
const (
	headerLen    = 16 // page: id u64, flags u16, count u16, overflow u32
	elementLen   = 16 // branch: pos u32, ksize u32, id u64; leaf: flags, pos, ksize, vsize u32
	metaLen      = 64 // magic, version, page size, flags u32; root, seq, freelist, high, txid, sum u64
	bucketLen    = 16 // root u64, sequence u64; root 0 = the page follows inline
	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagFreelist = 0x10
	boltMagic    = 0xED0CDAED
	boltVersion  = 2
	noFreelist   = 1<<64 - 1
	maxDepth     = 64 // a tree with the least fan-out has a page number for every atom by then
)

var order = binary.NativeEndian

// layout is a file's newest commit as one of its two meta pages tells it.
type layout struct {
	src      io.ReaderAt
	pageSize uint64
	root     uint64
	freelist uint64
	high     uint64 // pages at and above it are not in use
	txid     uint64
	seen     bitmap
	deep     bool // leaves are read too
}

type bitmap []uint64

// add reports whether i was new.
func (b bitmap) add(i uint64) bool {
	old := b[i/64]
	b[i/64] |= 1 << (i % 64)
	return b[i/64] != old
}

// readLayout finds the newest valid meta page. The size is asked for after the
// meta pages have been read: a file that its owner is growing meanwhile is
// never taken for a truncated one, so no lock is needed.
func readLayout(src io.ReaderAt, size func() (int64, error)) (*layout, error) {
	l, ok := readMeta(src, 0)
	for at := uint64(1024); !ok && at <= 1<<16; at *= 2 {
		l, ok = readMeta(src, at)
		ok = ok && l.pageSize == at
	}
	if !ok {
		return nil, fmt.Errorf("not a bbolt file, or both of its meta pages are damaged: %w", ErrCorrupt)
	}
	pageSize := l.pageSize // bbolt takes the first one's for both
	if second, ok := readMeta(src, pageSize); ok && second.txid > l.txid {
		l = second
	}
	n, err := size()
	if err != nil {
		return nil, err
	}
	if pageSize < 1024 || pageSize > 1<<16 || pageSize&(pageSize-1) != 0 || l.pageSize != pageSize ||
		l.high < 4 || l.high > 1<<47 || l.root >= l.high {
		return nil, fmt.Errorf("meta page of commit %d makes no sense: %w", l.txid, ErrCorrupt)
	}
	if need := l.high * l.pageSize; uint64(n) < need {
		return nil, fmt.Errorf("truncated: %d bytes are there, commit %d needs %d: %w",
			n, l.txid, need, ErrCorrupt)
	}
	return l, nil
}

func readMeta(src io.ReaderAt, at uint64) (*layout, bool) {
	var b [headerLen + metaLen]byte
	if _, err := src.ReadAt(b[:], int64(at)); err != nil {
		return nil, false
	}
	m := b[headerLen:]
	sum := fnv.New64a()
	sum.Write(m[:metaLen-8])
	l := &layout{
		src:      src,
		pageSize: uint64(order.Uint32(m[8:])),
		root:     order.Uint64(m[16:]),
		freelist: order.Uint64(m[32:]),
		high:     order.Uint64(m[40:]),
		txid:     order.Uint64(m[48:]),
	}
	ok := order.Uint32(m) == boltMagic && order.Uint32(m[4:]) == boltVersion &&
		order.Uint64(m[56:]) == sum.Sum64()
	return l, ok
}

// verify walks the trees. Deep reads every page that is in use. Otherwise only
// branch pages are read and leaves are taken as such by their depth, which
// costs a hundredth: enough to know that every descent ends inside the file, on the one leaf
// that may have the key.
func (l *layout) verify(deep bool) error {
	l.deep = deep
	l.seen = make(bitmap, l.high/64+1)
	l.seen.add(0)
	l.seen.add(1)
	if err := l.tree(l.root, true, 0, keys{}); err != nil {
		return fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	if err := l.free(); err != nil {
		return fmt.Errorf("%w: %w", err, ErrCorrupt)
	}
	return nil
}

// page reads a page with its overflow, the first time it is asked for.
func (l *layout) page(id uint64) ([]byte, error) {
	if id >= l.high {
		return nil, fmt.Errorf("page %d is referred to, the file has %d", id, l.high)
	}
	if !l.seen.add(id) {
		return nil, fmt.Errorf("page %d is referred to twice", id)
	}
	var head [headerLen]byte
	if _, err := l.src.ReadAt(head[:], int64(id*l.pageSize)); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	more := uint64(order.Uint32(head[12:]))
	if got := order.Uint64(head[:]); got != id || more >= l.high-id {
		return nil, fmt.Errorf("page %d calls itself page %d with %d more", id, got, more)
	}
	for i := range more {
		if !l.seen.add(id + 1 + i) {
			return nil, fmt.Errorf("page %d is referred to twice", id+1+i)
		}
	}
	b := make([]byte, (more+1)*l.pageSize)
	if _, err := l.src.ReadAt(b, int64(id*l.pageSize)); err != nil {
		return nil, fmt.Errorf("page %d: %w", id, err)
	}
	return b, nil
}

// keys is where those of a page or of all pages under it lie: at least at from, below until.
// nil is no bound. Where they are out of order bbolt finds some of its rows in one search, and
// others in the next.
type keys struct{ from, until []byte }

// take reports whether the key of element i may come next. It is the bound of those after it.
func (k *keys) take(key []byte, i uint64) bool {
	after := bytes.Compare(key, k.from)
	ok := (after > 0 || after == 0 && i == 0) &&
		(k.until == nil || bytes.Compare(key, k.until) < 0)
	k.from = key
	return ok
}

// tree verifies the tree under a page. The top tree holds the buckets.
func (l *layout) tree(id uint64, top bool, depth int, in keys) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d: the tree is more than %d pages deep", id, maxDepth)
	}
	p, err := l.page(id)
	if err != nil {
		return err
	}
	switch flags := order.Uint16(p[8:]); flags {
	case flagLeaf:
		return l.leaf(id, p, top, in)
	case flagBranch:
		return l.branch(id, p, top, depth, in)
	default:
		return fmt.Errorf("page %d is in a tree, but is of type %#x", id, flags)
	}
}

func (l *layout) branch(id uint64, p []byte, top bool, depth int, in keys) error {
	n := uint64(order.Uint16(p[10:]))
	if n == 0 || headerLen+n*elementLen > uint64(len(p)) {
		return fmt.Errorf("branch page %d has %d elements", id, n)
	}
	for i := range n {
		key, ok := branchKey(p, i)
		if !ok {
			return fmt.Errorf("branch page %d: key %d lies outside", id, i)
		}
		if !in.take(key, i) {
			return fmt.Errorf("branch page %d: key %d is out of order", id, i)
		}
	}
	leaves := !l.deep && !top && l.isLeaf(order.Uint64(p[headerLen+8:]))
	for i := range n {
		child := order.Uint64(p[headerLen+i*elementLen+8:])
		if leaves && child < l.high && l.seen.add(child) {
			continue
		}
		under := keys{until: in.until}
		under.from, _ = branchKey(p, i)
		if i+1 < n {
			under.until, _ = branchKey(p, i+1)
		}
		if err := l.tree(child, top, depth+1, under); err != nil {
			return err
		}
	}
	return nil
}

// branchKey is the key of element i, false if it lies outside of the page.
func branchKey(p []byte, i uint64) ([]byte, bool) {
	at := headerLen + i*elementLen
	from := at + uint64(order.Uint32(p[at:]))
	end := from + uint64(order.Uint32(p[at+4:]))
	if end > uint64(len(p)) {
		return nil, false
	}
	return p[from:end], true
}

// isLeaf looks at the type of a page. All leaves of a tree have one depth.
func (l *layout) isLeaf(id uint64) bool {
	var head [headerLen]byte
	if id >= l.high {
		return false
	}
	_, err := l.src.ReadAt(head[:], int64(id*l.pageSize))
	return err == nil && order.Uint64(head[:]) == id && order.Uint16(head[8:]) == flagLeaf
}

func (l *layout) leaf(id uint64, p []byte, top bool, in keys) error {
	n := uint64(order.Uint16(p[10:]))
	if headerLen+n*elementLen > uint64(len(p)) {
		return fmt.Errorf("leaf page %d has %d elements", id, n)
	}
	for i := range n {
		at := headerLen + i*elementLen
		e := p[at:]
		key := at + uint64(order.Uint32(e[4:]))
		value := key + uint64(order.Uint32(e[8:]))
		end := value + uint64(order.Uint32(e[12:]))
		if end > uint64(len(p)) {
			return fmt.Errorf("leaf page %d: row %d lies outside", id, i)
		}
		if !in.take(p[key:value], i) {
			return fmt.Errorf("leaf page %d: row %d is out of order", id, i)
		}
		if isBucket := order.Uint32(e)&1 != 0; isBucket != top {
			return fmt.Errorf("leaf page %d: row %d: a bucket among rows or a row among buckets", id, i)
		}
		if top {
			if err := l.bucket(id, p[value:end]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (l *layout) bucket(id uint64, value []byte) error {
	if len(value) < bucketLen {
		return fmt.Errorf("leaf page %d: a bucket of %d bytes", id, len(value))
	}
	if root := order.Uint64(value); root != 0 {
		return l.tree(root, false, 0, keys{})
	}
	inline := value[bucketLen:]
	if len(inline) < headerLen || order.Uint16(inline[8:]) != flagLeaf {
		return fmt.Errorf("leaf page %d: an inline bucket without its page", id)
	}
	return l.leaf(id, inline, false, keys{})
}

// free verifies the free list: what is listed would be overwritten next.
func (l *layout) free() error {
	if l.freelist == noFreelist {
		return fmt.Errorf("it has no free list, so it was last written by another program")
	}
	p, err := l.page(l.freelist)
	if err != nil {
		return fmt.Errorf("free list: %w", err)
	}
	ids, n := p[headerLen:], uint64(order.Uint16(p[10:]))
	if n == 0xFFFF {
		n, ids = order.Uint64(ids), ids[8:]
	}
	if flags := order.Uint16(p[8:]); flags != flagFreelist || n > uint64(len(ids)/8) {
		return fmt.Errorf("free list on page %d of type %#x with %d entries", l.freelist, flags, n)
	}
	free := slices.Clone(l.seen)
	for i := range n {
		if id := order.Uint64(ids[8*i:]); id >= l.high || !free.add(id) {
			return fmt.Errorf("page %d is listed as free, but is in use, listed twice or not there", id)
		}
	}
	return nil
}
