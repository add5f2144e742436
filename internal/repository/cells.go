package repository

import (
	"encoding/hex"
	"fmt"
	"strings"

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

func beginsWithDigit(s string) bool { return s != "" && isDigit(s[0]) }

func isDigit(b byte) bool { return b >= '0' && b <= '9' }

// familyKey is the part that the cells of a family share, with room for the rest.
func familyKey(object string, f discovery.Family) []byte {
	short := shortObject(object)
	key := make([]byte, 0, len(short)+2+1+cellTail)
	key = appendPart(key, short)
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

func decodeCell(c *discovery.Cell, row []byte, n *names, t *texts) error {
	f := fields{rest: row}
	if head := f.take(2); len(head) == 2 {
		c.Role, c.Kind = discovery.Role(head[0]&(1<<kindBits-1)), epcis.Kind(head[0]>>kindBits)
		c.Action = epcis.Action(head[1] & (1<<idBits - 1))
		c.EventID = f.eventID(head[1]>>idBits, c.ID16, t)
	}
	c.BizStep = f.word()
	c.Source = f.name(n)
	if inContainer(c.Role) {
		c.Parent = t.parent(f.take(f.uvarint()))
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

func (f *fields) eventID(form byte, id [idLen]byte, t *texts) string {
	var buf [len(hashURI) + 64 + len(hashURIEnd)]byte
	text := buf[:0]
	switch form {
	case idHash, idBody:
		rest := f.take(32 - idLen)
		text = hex.AppendEncode(hex.AppendEncode(append(text, hashURI...), id[:]), rest)
		if form == idHash {
			text = append(text, hashURIEnd...)
		}
	case idUUID:
		text = appendUUID(text, f.take(16))
	case idText:
		text = f.take(f.uvarint())
	default:
		f.bad = true
	}
	return t.keep(text)
}

// parseUUID reads a urn:uuid (RFC 9562 section 4) that formatUUID writes the same.
func parseUUID(text string) ([]byte, bool) {
	if len(text) != len(uuidURI)+36 || !strings.HasPrefix(text, uuidURI) {
		return nil, false
	}
	id, err := hex.DecodeString(strings.ReplaceAll(text[len(uuidURI):], "-", ""))
	return id, err == nil && len(id) == 16 && formatUUID(id) == text
}

func formatUUID(id []byte) string { return string(appendUUID(nil, id)) }

func appendUUID(text, id []byte) []byte {
	if len(id) != 16 {
		return text
	}
	text = append(text, uuidURI...)
	for i, end := range [...]int{4, 6, 8, 10, 16} {
		if i > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, id[[...]int{0, 4, 6, 8, 10}[i]:end])
	}
	return text
}

func inBucket(name string, key []byte, err error) error {
	return fmt.Errorf("bucket %s, key %x: %w", name, key, err)
}
