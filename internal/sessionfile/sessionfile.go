// Package sessionfile keeps what lets a later visit to a secure sensor do without a
// handshake: one state per sensor, in one file that only its owner may read.
//
// A state that holds record sequence numbers may be used once. To use it twice would
// encrypt two records under one nonce, which gives both away (RFC 5288 section 4, RFC 6655
// section 3). So Take removes it from the disk before it returns it, and what becomes of it
// is put back when the visit is over. Whatever happens in between, a kill or a power cut,
// costs a handshake and nothing else:
//
//	file:  header | slot | slot | ...                 each slotSize bytes
//	slot:  length (4) | SHA-256 of the record (32) | record (CBOR) | zeros
//
//	Put:   one write into a free slot; not synced, a torn one fails its hash
//	Take:  zeros over the slot, sync, and only then the state is handed out
//
// A slot is never in use under two states, and a freed one is zeroed and synced before it
// is used again: so no part of the file that is lost, cut off or damaged can bring back a
// state that has been taken.
package sessionfile

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// Key names a sensor.
type Key [sha256.Size]byte

// KeyOf is the key of a sensor under one URI.
func KeyOf(sensor, uri string) Key { return sha256.Sum256([]byte(sensor + "\x00" + uri)) }

// Kind says what a State is good for.
type Kind uint8

// The kinds.
const (
	Association Kind = 1 // a DTLS association that goes on under its Connection ID (RFC 9146)
	Resumption  Kind = 2 // a session that a short handshake resumes (RFC 5246 section 7.3)
)

// State is what is kept of one sensor.
type State struct {
	Kind       Kind              `cbor:"1,keyasint"`
	Credential [sha256.Size]byte `cbor:"2,keyasint"` // fingerprint of what it was made under
	Expires    time.Time         `cbor:"3,keyasint"` // whole seconds; not used at or after
	Secret     []byte            `cbor:"4,keyasint"`
}

// record is what a slot holds.
type record struct {
	Key   Key   `cbor:"0,keyasint"`
	State State `cbor:"5,keyasint"`
}

const (
	magic     = "crawld sessions 1\n"
	slotSize  = 1024
	prefix    = 4 + sha256.Size
	maxRecord = slotSize - prefix
	maxSlots  = 1 << 20 // a million sensors, 1 GiB
)

// ErrTooLarge is returned by Put for a state that does not fit into a slot.
var ErrTooLarge = errors.New("sessionfile: the state does not fit into a slot")

// decoding takes nothing that Put would not write.
var decoding = func() cbor.DecMode {
	m, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF,
		IndefLength: cbor.IndefLengthForbidden, MaxNestedLevels: 4,
		ExtraReturnErrors: cbor.ExtraDecErrorUnknownField}.DecMode()
	if err != nil {
		panic(err) // the options are constant
	}
	return m
}()

// File is an open file of states. It is safe for concurrent use; one process may have it
// open at a time.
type File struct {
	mu    sync.Mutex // guards all below
	f     *os.File
	slots map[Key]uint32 // of a state -> its slot, from 1
	free  []uint32
	count uint32 // slots in the file
}

// Open opens the file or makes it. Warnings say what of it was thrown away and why: damage,
// another version, or permissions by which others could have read it. An error means that
// nothing can be kept there at all.
func Open(path string) (_ *File, warnings []string, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("sessionfile: %w", err)
	}
	s := &File{f: f, slots: map[Key]uint32{}}
	warnings, err = s.open()
	if err != nil {
		return nil, nil, fmt.Errorf("sessionfile: %w", errors.Join(err, f.Close()))
	}
	return s, warnings, nil
}

func (s *File) open() (warnings []string, err error) {
	info, err := s.f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no ordinary file", s.f.Name())
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		warnings = append(warnings, fmt.Sprintf("%s: others could read it (mode %04o); its states "+
			"are thrown away", s.f.Name(), mode))
		if err := s.f.Chmod(0o600); err != nil {
			return nil, err
		}
		return warnings, s.reset()
	}
	if info.Size() == 0 {
		return nil, s.reset()
	}
	head := make([]byte, len(magic))
	if _, err := s.f.ReadAt(head, 0); err != nil && err != io.EOF {
		return nil, err
	}
	if string(head) != magic || info.Size() > (maxSlots+1)*slotSize {
		warnings = append(warnings, s.f.Name()+": is no file of sessions of this version; "+
			"its states are thrown away")
		return warnings, s.reset()
	}
	damaged, err := s.load(uint32(max(info.Size()/slotSize, 1) - 1))
	if damaged > 0 {
		warnings = append(warnings, fmt.Sprintf("%s: %d states are damaged and thrown away",
			s.f.Name(), damaged))
	}
	return warnings, err
}

// reset makes an empty file of it.
func (s *File) reset() error {
	if err := s.f.Truncate(0); err != nil {
		return err
	}
	header := make([]byte, slotSize)
	copy(header, magic)
	if _, err := s.f.WriteAt(header, 0); err != nil {
		return err
	}
	return s.f.Sync()
}

// load notes which sensors have a state, and clears what is damaged.
func (s *File) load(count uint32) (damaged int, err error) {
	s.count = count
	twice := map[Key]bool{}
	for slot := uint32(1); slot <= count; slot++ {
		r, used, err := s.read(slot)
		if err != nil {
			return damaged, err
		}
		_, known := s.slots[r.Key]
		switch {
		case !used:
			s.free = append(s.free, slot)
			continue
		case r.State.Kind == 0:
		case known: // not ours: which of the two is newer cannot be told
			twice[r.Key] = true
		default:
			s.slots[r.Key] = slot
			continue
		}
		damaged++
		if err := s.clear(slot); err != nil {
			return damaged, err
		}
	}
	for key := range twice {
		damaged++
		if err := s.clear(s.slots[key]); err != nil {
			return damaged, err
		}
		delete(s.slots, key)
	}
	if damaged > 0 {
		err = s.f.Sync()
	}
	return damaged, err
}

// read reads a slot; a damaged record is one of kind 0.
func (s *File) read(slot uint32) (r record, used bool, err error) {
	b := make([]byte, slotSize)
	if _, err := s.f.ReadAt(b, int64(slot)*slotSize); err != nil {
		return r, false, err
	}
	n := binary.BigEndian.Uint32(b)
	if n == 0 {
		for _, x := range b {
			if x != 0 {
				return r, true, nil // half cleared
			}
		}
		return r, false, nil
	}
	if n > maxRecord {
		return r, true, nil
	}
	data := b[prefix : prefix+n]
	if sha256.Sum256(data) != [sha256.Size]byte(b[4:prefix]) {
		return r, true, nil
	}
	if err := decoding.Unmarshal(data, &r); err != nil {
		return record{}, true, nil
	}
	return r, true, nil
}

// clear writes zeros over a slot and frees it.
func (s *File) clear(slot uint32) error {
	if err := s.wipe(slot); err != nil {
		return err
	}
	s.free = append(s.free, slot)
	return nil
}

// Take removes the sensor's state from the disk and returns it. There is none for a sensor
// that is unknown, for a state made under another credential, and for one that has expired
// by now; those are removed too. On an error nothing may be used.
func (s *File) Take(key Key, credential [sha256.Size]byte, now time.Time) (State, bool, error) {
	s.mu.Lock()
	slot, ok := s.slots[key]
	if !ok {
		s.mu.Unlock()
		return State{}, false, nil
	}
	delete(s.slots, key)
	r, _, err := s.read(slot)
	if err == nil {
		err = s.wipe(slot)
	}
	s.mu.Unlock()
	if err == nil {
		err = s.f.Sync() // beside others: the slot is not free before
	}
	if err != nil {
		return State{}, false, fmt.Errorf("sessionfile: take: %w", err)
	}
	s.mu.Lock()
	s.free = append(s.free, slot)
	s.mu.Unlock()
	fits := r.State.Kind != 0 && r.Key == key && r.State.Credential == credential &&
		now.Before(r.State.Expires)
	if !fits {
		return State{}, false, nil
	}
	return r.State, true, nil
}

func (s *File) wipe(slot uint32) error {
	_, err := s.f.WriteAt(make([]byte, slotSize), int64(slot)*slotSize)
	return err
}

// Put keeps a state, in place of one that the sensor may have. It is not synced: a loss
// costs a handshake.
func (s *File) Put(key Key, state State) error {
	data, err := cbor.Marshal(record{key, state})
	if err != nil {
		return fmt.Errorf("sessionfile: put: %w", err)
	}
	if len(data) > maxRecord {
		return fmt.Errorf("%w: it has %d bytes, %d do", ErrTooLarge, len(data), maxRecord)
	}
	b := make([]byte, slotSize)
	binary.BigEndian.PutUint32(b, uint32(len(data)))
	sum := sha256.Sum256(data)
	copy(b[4:], sum[:])
	copy(b[prefix:], data)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, known := s.slots[key]; known { // two visits at once do not happen; a leftover may
		delete(s.slots, key)
		if err := errors.Join(s.clear(old), s.f.Sync()); err != nil {
			return fmt.Errorf("sessionfile: put: %w", err)
		}
	}
	var slot uint32
	switch n := len(s.free); {
	case n > 0:
		slot, s.free = s.free[n-1], s.free[:n-1]
	case s.count == maxSlots:
		return fmt.Errorf("sessionfile: put: the file has %d states, no more fit", maxSlots)
	default:
		s.count++
		slot = s.count
	}
	if _, err := s.f.WriteAt(b, int64(slot)*slotSize); err != nil {
		return fmt.Errorf("sessionfile: put: %w", err) // what is half written fails its hash
	}
	s.slots[key] = slot
	return nil
}

// Len is the number of states.
func (s *File) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slots)
}

// Close writes what is not on the disk yet.
func (s *File) Close() error {
	err := errors.Join(s.f.Sync(), s.f.Close())
	if errors.Is(err, fs.ErrClosed) {
		return nil
	}
	return err
}
