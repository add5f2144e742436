package repository

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

// The end of a row's key: which event it is about and whether it is the event or says that
// it is in error.
const (
	idLen       = 16
	seqEvent    = 0
	seqDeclared = 1
	cellTail    = timeLen + idLen + 1
)

// gs1 begins the canonical form of GS1 identifiers; behind it comes a digit, which begins no
// URI, so that it can be left out.
const gs1 = "https://id.gs1.org/"

// plainObject marks an object that would be read as a short GS1 identifier, or as marked.
const plainObject = 2

// shortObject is an object as rows have it.
func shortObject(object string) string {
	if rest, is := strings.CutPrefix(object, gs1); is && beginsWithDigit(rest) {
		return rest
	}
	if beginsWithDigit(object) || strings.HasPrefix(object, string(rune(plainObject))) {
		return string(rune(plainObject)) + object
	}
	return object
}

func longObject(short string) string {
	if beginsWithDigit(short) {
		return gs1 + short
	}
	return strings.TrimPrefix(short, string(rune(plainObject)))
}

func beginsWithDigit(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// objectKey is the first part of the keys of an object's row.
func objectKey(object string) []byte { return sensorKey(shortObject(object)) }

// familyKey is the part that the cells of a family share, with room for the rest.
func familyKey(object string, f discovery.Family) []byte {
	short := shortObject(object)
	key := make([]byte, 0, len(short)+2+1+cellTail)
	key = appendEscaped(key, short)
	return append(key, byte(f))
}

func cellKey(c *discovery.Cell, seq byte) []byte {
	key := appendTime(familyKey(c.Object, c.Family), c.Time)
	return append(append(key, c.ID16[:]...), seq)
}

// cutCell reads the end of a key that begins with what familyKey gave.
func cutCell(c *discovery.Cell, tail []byte) (seq byte, err error) {
	if len(tail) != cellTail {
		return 0, fmt.Errorf("%d bytes behind the family, want %d: %w", len(tail), cellTail, ErrCorrupt)
	}
	c.Time = keyMicros(tail)
	c.ID16 = [idLen]byte(tail[timeLen:])
	if seq = tail[cellTail-1]; seq > seqDeclared {
		return 0, fmt.Errorf("sequence %d: %w", seq, ErrCorrupt)
	}
	return seq, nil
}

// How a row has an event ID.
const (
	idHash   = iota // CBV hash: 16 bytes in the key, the others here
	idUUID          // urn:uuid: 16 bytes
	idText          // length and text
	idBody          // hash of a body, as idHash
	idForms         // how many there are
	idBits   = 2    // their shift, above the action
	kindBits = 4    // shift of the kind, above the role
)

// encodeCell writes a row of cells; object, family, instant and identity are in its key.
//
//	role | kind << 4        the highest bit is 0 in this format
//	action | id form << 2
//	rest of the event ID
//	business step           word (words.go)
//	information service     name (names.go)
//	container               of Join, Seen, Leave: length and short object
func encodeCell(c *discovery.Cell, n *names) []byte {
	row := append(make([]byte, 0, 64), byte(c.Role)|byte(c.Kind)<<kindBits)
	form, id := cutEventID(c)
	row = append(append(row, byte(c.Action)|form<<idBits), id...)
	row = appendWord(row, c.BizStep)
	row = n.append(row, c.Source)
	if inContainer(c.Role) {
		row = appendBytes(row, []byte(shortObject(c.Parent)))
	}
	return row
}

func inContainer(r discovery.Role) bool {
	return r == discovery.Join || r == discovery.Seen || r == discovery.Leave
}

func decodeCell(c *discovery.Cell, row []byte, n *names) error {
	f := fields{rest: row}
	if head := f.take(2); len(head) == 2 {
		c.Role, c.Kind = discovery.Role(head[0]&(1<<kindBits-1)), epcis.Kind(head[0]>>kindBits)
		c.Action = epcis.Action(head[1] & (1<<idBits - 1))
		c.EventID = f.eventID(head[1]>>idBits, c.ID16)
	}
	c.BizStep = f.word()
	c.Source = f.name(n)
	if inContainer(c.Role) {
		c.Parent = longObject(string(f.take(f.uvarint())))
	}
	if f.bad || len(f.rest) > 0 || c.Role < discovery.Plain || c.Role > discovery.Container ||
		c.Kind > epcis.Association {
		return fmt.Errorf("its value cannot be read: %w", ErrCorrupt)
	}
	return nil
}

const (
	hashURI    = "ni:///sha-256;"
	hashURIEnd = "?ver=CBV2.0"
	uuidURI    = "urn:uuid:"
)

// bodyEventID names the event that a description was crawled.
func bodyEventID(sum [32]byte) string { return hashURI + hex.EncodeToString(sum[:]) }

// cutEventID is the short form of a cell's event ID and what of it the row has.
func cutEventID(c *discovery.Cell) (form byte, rest []byte) {
	text, cbv := strings.CutSuffix(c.EventID, hashURIEnd)
	if sum, is := parseHashURI(text); is && [idLen]byte(sum[:]) == c.ID16 {
		if cbv {
			return idHash, sum[idLen:]
		}
		return idBody, sum[idLen:]
	}
	if id, is := parseUUID(c.EventID); is {
		return idUUID, id
	}
	return idText, appendBytes(nil, []byte(c.EventID))
}

// parseHashURI reads what bodyEventID writes.
func parseHashURI(text string) (sum [32]byte, is bool) {
	digits, is := strings.CutPrefix(text, hashURI)
	if !is || len(digits) != 2*len(sum) {
		return sum, false
	}
	_, err := hex.Decode(sum[:], []byte(digits))
	return sum, err == nil && strings.ToLower(digits) == digits
}

func (f *fields) eventID(form byte, id [idLen]byte) string {
	switch form {
	case idHash, idBody:
		rest := f.take(32 - idLen)
		text := make([]byte, 0, len(hashURI)+64+len(hashURIEnd))
		text = append(text, hashURI...)
		text = hex.AppendEncode(hex.AppendEncode(text, id[:]), rest)
		if form == idHash {
			text = append(text, hashURIEnd...)
		}
		return string(text)
	case idUUID:
		return formatUUID(f.take(16))
	case idText:
		return string(f.take(f.uvarint()))
	}
	f.bad = true
	return ""
}

// parseUUID reads a urn:uuid (RFC 9562 section 4) that formatUUID writes the same.
func parseUUID(text string) ([]byte, bool) {
	if len(text) != len(uuidURI)+36 || !strings.HasPrefix(text, uuidURI) {
		return nil, false
	}
	id, err := hex.DecodeString(strings.ReplaceAll(text[len(uuidURI):], "-", ""))
	return id, err == nil && len(id) == 16 && formatUUID(id) == text
}

func formatUUID(id []byte) string {
	if len(id) != 16 {
		return ""
	}
	text := append(make([]byte, 0, len(uuidURI)+36), uuidURI...)
	for i, end := range []int{4, 6, 8, 10, 16} {
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, id[[]int{0, 4, 6, 8, 10}[i]:end])
	}
	return string(text)
}

// Read returns cells of a row: see discovery.Store. What cannot be read is an error that
// names the key.
func (r *Repository) Read(object string, f discovery.Family, from, to int64, limit int) (
	page []discovery.Cell, err error) {
	if from > to || limit < 1 {
		return nil, nil
	}
	prefix := familyKey(object, f)
	err = r.view(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("cells"))
		if b == nil {
			return nil
		}
		n := r.names.Load()
		c := b.Cursor()
		k, v := c.Seek(appendTime(prefix, to))
		for ; bytes.HasPrefix(k, prefix); k, v = c.Next() {
			cell := discovery.Cell{Object: object, Family: f}
			seq, err := cutCell(&cell, k[len(prefix):])
			last := len(page) - 1
			switch {
			case err != nil:
				return inBucket("cells", k, err)
			case cell.Time < from || last+1 >= limit && cell.Time != page[last].Time ||
				last+1 >= limit+discovery.MaxCells:
				return nil
			case seq == seqDeclared:
				if last < 0 || page[last].ID16 != cell.ID16 || page[last].Time != cell.Time {
					return inBucket("cells", k, fmt.Errorf("no cell is before it: %w", ErrCorrupt))
				}
				page[last].Erased = true
				continue
			}
			if n, err = decodeNamed(tx, &cell, v, n); err != nil {
				return inBucket("cells", k, err)
			}
			if page == nil {
				page = make([]discovery.Cell, 0, min(limit, 8))
			}
			page = append(page, cell)
		}
		return nil
	})
	return page, err
}

// decodeNamed decodes a cell, where its transaction has later names with those.
func decodeNamed(tx *bbolt.Tx, c *discovery.Cell, row []byte, n *names) (*names, error) {
	err := decodeCell(c, row, n)
	if err == nil {
		return n, nil
	}
	later, bad := readNames(tx)
	if bad != nil || len(later.texts) == len(n.texts) {
		return n, err
	}
	return later, decodeCell(c, row, later)
}

func inBucket(name string, key []byte, err error) error {
	return fmt.Errorf("bucket %s, key %x: %w", name, key, err)
}
