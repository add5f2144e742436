package repository

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"time"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/linkformat"
)

// maxSnapshot bounds the body of a snapshot, and before it is made what it is made of: the
// one goroutine that writes makes it.
const maxSnapshot = 4 << 20

// linkFormat is the Content-Format of application/link-format (RFC 7252 section 12.3).
const linkFormat = 40

// occasion is why a group is looked at in a transaction: the instants, in microseconds, of
// the newest outcome that touched it and of the newest event behind it (never = none).
type occasion struct{ at, event int64 }

func (o occasion) and(p occasion) occasion {
	return occasion{max(o.at, p.at), max(o.event, p.event)}
}

// touched notes that a member has another newest description.
func (t *transaction) touched(group bool, id string, o occasion) {
	for _, i := range t.groups.of[memberKey{group, id}] {
		if before, known := t.due[i]; known {
			t.due[i] = o.and(before)
		} else {
			t.due[i] = o
		}
	}
}

// republish makes the snapshots that are due, once for a group however many of its members
// the transaction has touched, members before the groups they are in.
func (t *transaction) republish() error {
	for _, i := range t.groups.order {
		o, due := t.due[i]
		if !due {
			continue
		}
		s, made, err := t.snapshot(t.groups.groups[i], o)
		if made || err != nil {
			t.republished = append(t.republished, Republication{s, err})
		}
		switch {
		case err != nil && !errors.Is(err, errNoSnapshot):
			return err
		case made:
			t.touched(true, s.Sensor, o)
		}
	}
	return nil
}

// errNoSnapshot: the group cannot be republished, which is no fault of the outcomes.
var errNoSnapshot = errors.New("not republished")

// snapshot makes the next snapshot of a group if its condition holds.
func (t *transaction) snapshot(g Group, o occasion) (s Snapshot, made bool, err error) {
	last, found, err := t.newest(g.ID)
	if err != nil {
		t.unreadable++ // the next one has all members anew
		last.Parts = nil
	}
	members := t.members(g, last.Parts)
	if fresh(members) < g.AtLeast {
		return s, false, nil
	}
	s.Sensor = g.ID
	body, err := t.compose(&s, members)
	if err != nil || fresh(members) < g.AtLeast {
		return s, false, err
	}
	at := o.at
	if found { // the newest one stays the first by time, and none is before its parts
		at = max(at, last.At.UnixMicro()+1)
	}
	for _, p := range s.Parts {
		if p.Group {
			at = max(at, p.At.UnixMicro())
		}
	}
	s.At, s.Event = time.UnixMicro(at).UTC(), time.Time{}
	if o.event != never {
		s.Event = time.UnixMicro(min(o.event, at)).UTC()
	}
	return s, true, t.putSnapshot(&s, body)
}

func (t *transaction) putSnapshot(s *Snapshot, body []byte) error {
	sum := sha256.Sum256(body)
	s.Hash, s.Size, s.Format, s.Verdict = hex.EncodeToString(sum[:]), len(body), linkFormat,
		string(linkformat.Valid)
	packed, err := pack(t.enc, bytes.Clone(sum[hashLen:]), body)
	if err != nil {
		return err
	}
	if err := t.putBody(&outcomeRow{sum: sum, body: packed}); err != nil {
		return err
	}
	bucket, err := t.tx.CreateBucketIfNotExists([]byte("snapshots"))
	if err != nil {
		return err
	}
	return bucket.Put(rowKey(sensorKey(s.Sensor), s.At.UnixMicro()), encodeSnapshot(*s, sum))
}

// compose makes the body: the links of every member that is described, in the order of the
// members, absolute. A description that is not in link format is one link, to itself. One
// whose body is damaged is none, and members then says so.
func (t *transaction) compose(s *Snapshot, members []MemberStatus) ([]byte, error) {
	var body []byte
	total := 0
	for i, m := range members {
		if !m.Described {
			continue
		}
		v, raw, err := t.description(m.Member)
		if err != nil {
			t.left(v.Hash)
			members[i] = MemberStatus{Member: m.Member}
			continue
		}
		if total += v.Size; total > maxSnapshot || len(body) > maxSnapshot {
			return nil, fmt.Errorf("group %q: its members' descriptions have more than %d bytes: %w",
				s.Sensor, maxSnapshot, errNoSnapshot)
		}
		text, links := composed(m.Member, v, raw)
		if len(body) > 0 && len(text) > 0 {
			body = append(body, ',')
		}
		body = append(body, text...)
		s.Links += links
		s.Parts = append(s.Parts, Part{m.ID, m.Group, m.At, m.Hash})
	}
	return body, nil
}

// left counts a body that was left out because it is damaged.
func (t *transaction) left(hash string) {
	if sum, err := parseHash(hash); err == nil {
		t.damaged(sum[:])
	}
}

// composed is what one description becomes in a snapshot.
func composed(m Member, v Version, raw []byte) (text []byte, links int) {
	if m.Group {
		return raw, v.Links // absolute already
	}
	var list []linkformat.Link
	parsed := linkformat.Parse(raw)
	switch {
	case v.Format == linkFormat && parsed.Verdict != linkformat.Invalid:
		list = parsed.Links
	default:
		list = []linkformat.Link{{Target: m.URI, Attrs: []linkformat.Attr{
			{Name: "sz", Value: strconv.Itoa(v.Size), HasValue: true}}}}
		if v.Format >= 0 {
			ct := linkformat.Attr{Name: "ct", Value: strconv.Itoa(v.Format), HasValue: true}
			list[0].Attrs = append(list[0].Attrs, ct)
		}
	}
	for i, l := range list {
		list[i] = l.Absolute(m.URI)
	}
	return linkformat.Format(list), len(list)
}

// shelf reads what groups are made of in a transaction of either kind.
type shelf struct {
	codec
	tx *bbolt.Tx
}

func (s shelf) bucket(name string) *bbolt.Bucket { return s.tx.Bucket([]byte(name)) }

// newest is a group's last snapshot. It has an instant even where the row cannot be read.
func (s shelf) newest(group string) (last Snapshot, found bool, err error) {
	b := s.bucket("snapshots")
	if b == nil {
		return last, false, nil
	}
	prefix := sensorKey(group)
	k, v := b.Cursor().Seek(prefix)
	if !bytes.HasPrefix(k, prefix) || len(k) != len(prefix)+timeLen {
		return last, false, nil
	}
	last, err = decodeSnapshot(group, keyTime(k[len(prefix):]), v)
	return last, true, err
}

// members are a group's with their newest descriptions, held against the parts of its last
// snapshot. A row that cannot be read is no description.
func (s shelf) members(g Group, parts []Part) (list []MemberStatus) {
	had := make(map[memberKey]Part, len(parts))
	for _, p := range parts {
		had[memberKey{p.Group, p.ID}] = p
	}
	for _, m := range g.Members {
		status := MemberStatus{Member: m}
		if v, ok := s.version(m); ok {
			status.Described, status.At, status.Hash = true, v.At, v.Hash
			status.New = had[memberKey{m.Group, m.ID}] != Part{m.ID, m.Group, v.At, v.Hash}
		}
		list = append(list, status)
	}
	return list
}

func fresh(members []MemberStatus) (n int) {
	for _, m := range members {
		if m.New {
			n++
		}
	}
	return n
}

// version is the one of a member that is in force.
func (s shelf) version(m Member) (Version, bool) {
	if m.Group {
		last, found, err := s.newest(m.ID)
		return last.Version, found && err == nil
	}
	key := sensorKey(m.ID)
	row := s.bucket("latest").Get(key)
	if len(row) != latestLen {
		return Version{}, false
	}
	value := s.bucket("versions").Get(append(key, row[:timeLen]...))
	v, err := decodeVersion(m.ID, keyTime(row), value)
	return v, err == nil
}

// description is the member's version in force with its body, which is what its hash says.
func (s shelf) description(m Member) (Version, []byte, error) {
	v, _ := s.version(m)
	want, err := parseHash(v.Hash)
	if err != nil {
		return v, nil, err
	}
	sum, raw, err := s.body(s.bucket("bodies").Get(want[:hashLen]))
	if err == nil && sum != want {
		err = ErrHash
	}
	return v, raw, err
}

// encodeSnapshot writes a row of snapshots; group and instant are in its key.
func encodeSnapshot(s Snapshot, sum [32]byte) []byte {
	event := int64(never)
	if !s.Event.IsZero() {
		event = s.Event.UnixMicro()
	}
	row := appendBytes([]byte{rowFormat}, encodeVersion(s.Version, sum))
	row = binary.BigEndian.AppendUint64(row, uint64(event))
	row = binary.AppendUvarint(row, uint64(len(s.Parts)))
	for _, p := range s.Parts {
		kind := byte(0)
		if p.Group {
			kind = 1
		}
		hash, _ := parseHash(p.Hash) // of a version that was decoded
		row = appendBytes(append(row, kind), []byte(p.ID))
		row = append(appendTime(row, p.At.UnixMicro()), hash[:]...)
	}
	return row
}

func decodeSnapshot(group string, at time.Time, row []byte) (Snapshot, error) {
	f := fields{rest: row}
	f.open()
	v, err := decodeVersion(group, at, f.take(f.uvarint()))
	s := Snapshot{Version: v}
	if b := f.take(8); len(b) == 8 && int64(binary.BigEndian.Uint64(b)) != never {
		s.Event = time.UnixMicro(int64(binary.BigEndian.Uint64(b))).UTC()
	}
	for range f.count() {
		var p Part
		if kind := f.take(1); len(kind) == 1 {
			p.Group = kind[0] == 1
		}
		p.ID = string(f.take(f.uvarint()))
		if b := f.take(timeLen); len(b) == timeLen {
			p.At = keyTime(b)
		}
		p.Hash = hex.EncodeToString(f.take(32))
		if f.bad {
			break
		}
		s.Parts = append(s.Parts, p)
	}
	f.bad = f.bad || err != nil || len(f.rest) > 0
	return s, f.err("snapshots")
}
