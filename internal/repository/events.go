package repository

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

// eventKeyLen is the length of a key of events: time | id16 | seq, the oldest first, so that
// what is published in the order of its times is appended.
const eventKeyLen = timeLen + idLen + 1

// eventKey is where a record is kept under an identity of its own.
func eventKey(us int64, id [idLen]byte, seq byte) []byte {
	key := appendForward(make([]byte, 0, eventKeyLen), us)
	return append(append(key, id[:]...), seq)
}

// appendForward appends an instant so that earlier ones sort first.
func appendForward(key []byte, us int64) []byte {
	return binary.BigEndian.AppendUint64(key, uint64(us)^1<<63)
}

func forwardMicros(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }

// declarationID is the identity of what a publisher says of an event: nobody else's
// declaration can stand in its place.
func declarationID(publisher string, event [idLen]byte) [idLen]byte {
	sum := sha256.Sum256(append(append([]byte(publisher), 0), event[:]...))
	return [idLen]byte(sum[:])
}

// nameKey begins the keys of eventids: the CBV hash of an event that has no ID, else the
// hash of its ID.
func nameKey(id string, hash [32]byte) []byte {
	if id != "" {
		hash = sha256.Sum256([]byte(id))
	}
	return append(make([]byte, 0, nameKeyLen+timeLen+eventIDTail), hash[:nameKeyLen]...)
}

const (
	nameKeyLen  = 8
	eventIDTail = 8 + 1 // of the identity, and the sequence
)

// eventIDKey leads from an event ID to the record. That of an event without an ID ends with
// the instant: its identity begins with what the key begins with.
func eventIDKey(e *epcis.Event, event []byte) []byte {
	key := append(nameKey(e.ID, e.Hash), event[:timeLen]...)
	if e.ID == "" && event[eventKeyLen-1] == seqEvent {
		return key
	}
	key = append(key, event[timeLen:timeLen+eventIDTail-1]...)
	return append(key, event[eventKeyLen-1])
}

// eventPrefix is what the keys of events begin with to which a key of eventids may lead.
func eventPrefix(key []byte) (prefix []byte, seq byte, err error) {
	const short = nameKeyLen + timeLen
	switch len(key) {
	case short:
		return append(append([]byte(nil), key[nameKeyLen:]...), key[:nameKeyLen]...), seqEvent, nil
	case short + eventIDTail:
		return key[nameKeyLen : len(key)-1], key[len(key)-1], nil
	}
	return nil, 0, fmt.Errorf("a key of %d bytes: %w", len(key), ErrCorrupt)
}

// Where a row of events has the event as it was published.
const (
	rawNone     = iota // nowhere
	rawPacked          // here, packed
	rawDocument        // in its document
)

// The second byte of a row: the form of the event ID (idText, idUUID; idHash: none), and
const (
	hasError  = 1 << 2
	hasSigned = 1 << 3 // a document follows
)

// eventRow is a row of events as it stands there: what is in other rows is named.
type eventRow struct {
	record   discovery.Record // without Signature, and Raw only where it is rawPacked
	raw      byte
	document [hashLen]byte // of hasSigned
	signed   bool
	place    int // of the event in its document
}

// encode writes a row; its instant is in the key.
//
//	format | kind << 0, action << 3, raw << 5 | id form, flags
//	hash, event ID             without an ID: 16 bytes, the others are in the key
//	publisher, source          names
//	recorded - event time      varint
//	offset, step, disposition, container
//	objects, inputs            each as what it shares with the one before, and the rest
//	error declaration          if any: time, reason, corrective IDs
//	document, place            if signed
//	raw                        if packed
func (e *eventRow) encode(enc codec, n *names) ([]byte, error) {
	v := &e.record.Event
	form, id := byte(idHash), []byte(nil)
	if v.ID != "" {
		c := discovery.Cell{EventID: v.ID}
		if form, id = cutEventID(&c); form != idUUID {
			form, id = idText, appendBytes(nil, []byte(v.ID))
		}
	}
	flags := form
	if v.Error != nil {
		flags |= hasError
	}
	if e.signed {
		flags |= hasSigned
	}
	row := append(make([]byte, 0, 256), rowFormat, byte(v.Kind)|byte(v.Action)<<3|e.raw<<5, flags)
	row = append(row, v.Hash[e.hashFrom():]...)
	row = append(row, id...)
	row = n.append(n.append(row, e.record.Publisher), v.Source)
	row = binary.AppendVarint(row, e.record.Recorded.UnixMicro()-v.Time.UnixMicro())
	row = appendBytes(row, []byte(v.Offset))
	row = appendWord(appendWord(row, v.BizStep), v.Disposition)
	row = appendBytes(row, []byte(shortObject(v.Parent)))
	row = appendObjects(appendObjects(row, v.EPCs), v.Inputs)
	if d := v.Error; d != nil {
		row = binary.AppendVarint(row, d.Time.UnixMicro())
		row = appendBytes(row, []byte(d.Reason))
		row = binary.AppendUvarint(row, uint64(len(d.Corrective)))
		for _, id := range d.Corrective {
			row = appendBytes(row, []byte(id))
		}
	}
	if e.signed {
		row = binary.AppendUvarint(append(row, e.document[:]...), uint64(e.place))
	}
	if e.raw != rawPacked {
		return row, nil
	}
	return pack(enc.record, row, v.Raw)
}

// hashFrom is where the part of the hash begins that is not in the key.
func (e *eventRow) hashFrom() int {
	if e.record.Event.ID == "" && e.record.Event.Error == nil {
		return idLen
	}
	return 0
}

func decodeEvent(c codec, key, row []byte, n *names) (e eventRow, err error) {
	if len(key) != eventKeyLen || key[eventKeyLen-1] > seqDeclared {
		return e, fmt.Errorf("not a key of events: %w", ErrCorrupt)
	}
	f := fields{rest: row}
	f.open()
	v := &e.record.Event
	v.Time = time.UnixMicro(forwardMicros(key)).UTC()
	var form byte
	if head := f.take(2); len(head) == 2 {
		v.Kind, v.Action = epcis.Kind(head[0]&7), epcis.Action(head[0]>>3&3)
		e.raw, form = head[0]>>5, head[1]&3
		e.signed = head[1]&hasSigned != 0
		if head[1]&hasError != 0 {
			v.Error = &epcis.ErrorDeclaration{}
		}
		f.bad = f.bad || head[1] >= 2*hasSigned
	}
	if f.bad = f.bad || (v.Error != nil) != (key[eventKeyLen-1] == seqDeclared); f.bad {
		return e, f.err("events")
	}
	if form != idHash {
		v.ID = "?" // for hashFrom
	}
	from := e.hashFrom()
	copy(v.Hash[:], key[timeLen:timeLen+from])
	copy(v.Hash[from:], f.take(uint64(32-from)))
	if form != idHash {
		v.ID = f.eventID(form, [idLen]byte{}, nil)
		f.bad = f.bad || v.ID == "" // is written as idHash
	}
	f.event(&e, n)
	if e.raw == rawPacked && !f.bad {
		if v.Raw, err = c.unpack(f.rest); err != nil {
			return e, err
		}
		f.rest = nil
	}
	f.bad = f.bad || len(f.rest) > 0 || e.raw > rawDocument || e.raw == rawDocument && !e.signed ||
		form == idBody || v.Kind < epcis.Object || v.Kind > epcis.Association
	return e, f.err("events")
}

// event reads what stands behind the event ID.
func (f *fields) event(e *eventRow, n *names) {
	v := &e.record.Event
	e.record.Publisher, v.Source = f.name(n), f.name(n)
	e.record.Recorded = time.UnixMicro(v.Time.UnixMicro() + f.varint()).UTC()
	v.Offset = string(f.take(f.uvarint()))
	v.BizStep, v.Disposition = f.word(), f.word()
	v.Parent = longObject(string(f.take(f.uvarint())))
	v.EPCs, v.Inputs = f.objects(), f.objects()
	if v.Error != nil {
		v.Error.Time = time.UnixMicro(f.varint()).UTC()
		v.Error.Reason = string(f.take(f.uvarint()))
		for range f.count() {
			if f.bad {
				break
			}
			v.Error.Corrective = append(v.Error.Corrective, string(f.take(f.uvarint())))
		}
	}
	if e.signed {
		if b := f.take(hashLen); len(b) == hashLen {
			e.document = [hashLen]byte(b)
		}
		e.place = f.count()
	}
}

// varint reads a signed varint, which is a zigzagged unsigned one.
func (f *fields) varint() int64 {
	z := f.uvarint()
	return int64(z>>1) ^ -int64(z&1)
}

// appendObjects writes a list; serial numbers of one event differ in their last digits.
func appendObjects(row []byte, objects []string) []byte {
	row = binary.AppendUvarint(row, uint64(len(objects)))
	before := ""
	for _, o := range objects {
		short := shortObject(o)
		same := 0
		for same < min(len(short), len(before)) && short[same] == before[same] {
			same++
		}
		row = binary.AppendUvarint(row, uint64(same))
		row = appendBytes(row, []byte(short[same:]))
		before = short
	}
	return row
}

func (f *fields) objects() []string {
	n := f.count()
	if n == 0 || f.bad {
		return nil
	}
	list := make([]string, 0, min(n, len(f.rest)/2))
	before, total := "", 0
	for range n {
		same := f.uvarint()
		if same > uint64(len(before)) || total > maxRaw {
			f.bad = true
		}
		if f.bad {
			return nil
		}
		short := before[:same] + string(f.take(f.uvarint()))
		list = append(list, longObject(short))
		before, total = short, total+len(short)
	}
	return list
}

// firstFault is why an event cannot be stored, "" if it can.
func firstFault(r *discovery.Record) string {
	e := &r.Event
	if e.Kind < epcis.Object || e.Kind > epcis.Association || e.Action > epcis.Delete {
		return fmt.Sprintf("kind %d, action %d", e.Kind, e.Action)
	}
	for _, word := range [][2]string{{"eventID", e.ID}, {"publisher", r.Publisher},
		{"source", e.Source}, {"bizStep", e.BizStep}, {"disposition", e.Disposition},
		{"parentID", e.Parent}} {
		if n := len(word[1]); n > maxObject {
			return fmt.Sprintf("%s of %d bytes, at most %d", word[0], n, maxObject)
		}
	}
	for _, list := range [][]string{e.EPCs, e.Inputs} {
		for i, o := range list {
			if o == "" || len(o) > maxObject {
				return fmt.Sprintf("object %d of %d bytes, 1 to %d", i, len(o), maxObject)
			}
		}
	}
	if strings.Contains(r.Publisher, "\x00") {
		return fmt.Sprintf("publisher %q", r.Publisher)
	}
	return ""
}

// maxObject bounds an object and what else is a word of an event, in bytes; keys stay far
// below bbolt's limit of 32 KiB.
const maxObject = 1024
