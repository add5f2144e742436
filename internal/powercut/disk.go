package powercut

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// sector is what a disk writes whole or not at all, bytes.
const sector = 512

// A Disk is one folder's files: as the program sees them, and what of that is durable.
//
// Durable is what had been written to a file when a sync of it began that has ended, and
// what had been done in the folder when a sync of the folder began that has ended. A
// power cut leaves that, each later change of the folder up to a random one, and of each
// file that is still named any subset of the later writes, some of them torn.
type Disk struct {
	dir     string
	entries map[string]*inode // as the program sees them
	durable map[string]*inode
	changes []change // of the folder, since durable
	files   map[int64]*handle
	syncs   map[int64]int // changes or writes when the sync of a descriptor began

	said []byte // what the program wrote to standard output
}

// inode is a file, whatever its name.
type inode struct {
	durable []byte
	writes  []write // since then
}

// write of data at an offset, or with data == nil a new size.
type write struct {
	at   int64
	data []byte
}

// change names an inode, or with a nil one takes a name away.
type change struct {
	name string
	node *inode
}

type handle struct {
	node   *inode
	folder bool
	at     int64 // of the next write without an offset
}

// newDisk begins with an empty folder.
func newDisk(dir string) *Disk {
	return &Disk{dir: filepath.Clean(dir), entries: map[string]*inode{}, durable: map[string]*inode{},
		files: map[int64]*handle{}, syncs: map[int64]int{}}
}

// play takes the next call.
func (d *Disk) play(c call) error {
	switch c.name {
	case "openat":
		if c.ended && c.value >= 0 {
			return d.open(c)
		}
		return nil
	case "close":
		if c.begun {
			return d.withFile(c, func(fd int64, _ *handle) error { delete(d.files, fd); return nil })
		}
		return nil
	case "write", "pwrite64":
		if c.begun && (!c.ended || c.value > 0) {
			return d.write(c)
		}
		return nil
	case "ftruncate":
		if c.begun && (!c.ended || c.value == 0) {
			return d.withFile(c, func(_ int64, f *handle) error { return f.resize(c.args[1]) })
		}
		return nil
	case "fsync", "fdatasync":
		return d.sync(c)
	}
	if c.begun && (!c.ended || c.value == 0) {
		return d.rename(c)
	}
	return nil
}

// withFile calls fn for the open file of the first argument if it is one of the folder.
func (d *Disk) withFile(c call, fn func(fd int64, f *handle) error) error {
	fd, err := number(c.args[0])
	if err != nil {
		return fmt.Errorf("%s: descriptor: %w", c.name, err)
	}
	if f, ok := d.files[fd]; ok {
		return fn(fd, f)
	}
	return nil
}

func (f *handle) resize(arg string) error {
	size, err := number(arg)
	if err == nil {
		f.node.writes = append(f.node.writes, write{at: size})
	}
	return err
}

func (d *Disk) write(c call) error {
	if c.args[0] == "1" {
		data, err := text(c.args[1])
		d.said = append(d.said, data...)
		return err
	}
	return d.withFile(c, func(_ int64, f *handle) error {
		data, err := text(c.args[1])
		if err != nil {
			return err
		}
		at := f.at
		if c.name == "pwrite64" {
			if at, err = number(c.args[3]); err != nil {
				return err
			}
		} else {
			f.at += int64(len(data))
		}
		f.node.writes = append(f.node.writes, write{at, data})
		return nil
	})
}

// sync makes durable what was there when it began, once it has ended well.
func (d *Disk) sync(c call) error {
	return d.withFile(c, func(fd int64, f *handle) error {
		if c.begun {
			d.syncs[fd] = len(d.changes)
			if !f.folder {
				d.syncs[fd] = len(f.node.writes)
			}
		}
		if !c.ended || c.value != 0 {
			return nil
		}
		n := d.syncs[fd]
		if !f.folder {
			for _, w := range f.node.writes[:n] {
				f.node.durable = w.apply(f.node.durable)
			}
			f.node.writes = f.node.writes[n:]
			return nil
		}
		for _, ch := range d.changes[:n] {
			ch.apply(d.durable)
		}
		d.changes = d.changes[n:]
		return nil
	})
}

func (w write) apply(b []byte) []byte {
	if w.data == nil {
		return resized(b, w.at)
	}
	b = resized(b, max(int64(len(b)), w.at+int64(len(w.data))))
	copy(b[w.at:], w.data)
	return b
}

func resized(b []byte, size int64) []byte {
	if size <= int64(len(b)) {
		return b[:size:size]
	}
	return append(b, make([]byte, size-int64(len(b)))...)
}

func (ch change) apply(entries map[string]*inode) {
	if ch.node == nil {
		delete(entries, ch.name)
	} else {
		entries[ch.name] = ch.node
	}
}

// change is seen by the program at once.
func (d *Disk) change(name string, node *inode) {
	ch := change{name, node}
	ch.apply(d.entries)
	d.changes = append(d.changes, ch)
}

// Image is a disk that a power cut at this instant could leave: the files by name.
func (d *Disk) Image(rng *rand.Rand) map[string][]byte {
	entries := maps.Clone(d.durable)
	for _, ch := range d.changes[:rng.IntN(len(d.changes)+1)] {
		ch.apply(entries)
	}
	files, done := map[string][]byte{}, map[*inode][]byte{}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		node := entries[name]
		if _, ok := done[node]; !ok {
			done[node] = node.image(rng)
		}
		files[name] = done[node]
	}
	return files
}

// image drops, keeps or tears each write since the last sync. In a third of the images
// all are kept up to a random one, as by a disk that keeps the order.
func (n *inode) image(rng *rand.Rand) []byte {
	b := append([]byte(nil), n.durable...)
	if rng.IntN(3) == 0 {
		for _, w := range n.writes[:rng.IntN(len(n.writes)+1)] {
			b = w.apply(b)
		}
		return b
	}
	for _, w := range n.writes {
		switch fate := rng.IntN(3); {
		case fate == 0:
		case fate == 1 || w.data == nil:
			b = w.apply(b)
		default:
			b = w.torn(b, rng)
		}
	}
	return b
}

// torn applies a random half of the sectors.
func (w write) torn(b []byte, rng *rand.Rand) []byte {
	for at := 0; at < len(w.data); {
		end := min(len(w.data), at+sector-int((w.at+int64(at))%sector))
		if rng.IntN(2) == 0 {
			b = write{w.at + int64(at), w.data[at:end]}.apply(b)
		}
		at = end
	}
	return b
}
