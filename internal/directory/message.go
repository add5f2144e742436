package directory

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/udp/coder"
)

const (
	// optionEcho is Echo of RFC 9175 section 2.2.
	optionEcho message.OptionID = 252
	// linkFormat is the Content-Format of RFC 6690.
	linkFormat = 40
	// tooManyRequests is 4.29 of RFC 8516.
	tooManyRequests codes.Code = 4<<5 | 29
	// maxOptions bounds what one request may carry; a registration has some ten.
	maxOptions = 64
)

// param is one Uri-Query option, split at its first "=".
type param struct {
	name, value string
	hasValue    bool
}

// block is a Block1 or Block2 option (RFC 7959 section 2.2).
type block struct {
	num  int
	more bool
	szx  int // size is 16 << szx
}

func (b block) size() int { return 16 << b.szx }

func (b block) option() uint32 {
	v := uint32(b.num)<<4 | uint32(b.szx)
	if b.more {
		v |= 8
	}
	return v
}

// request is a message as read; it shares no memory with the datagram.
type request struct {
	length int // bytes of the datagram
	typ    message.Type
	code   codes.Code
	mid    uint16
	token  string

	path    string // "" or "/" and the segments
	params  []param
	raw     string // the queries as sent, to tell requests apart
	accept  int    // -1 = none
	format  int    // Content-Format, -1 = none
	echo    string
	block1  *block
	block2  *block
	payload []byte
	bad     string // why its options cannot be understood; "" = they can
	proxy   bool   // it is meant for another server
}

// empty tells a ping, an ACK or an RST.
func (r *request) empty() bool { return r.code == codes.Empty }

// readRequest is false for what is no CoAP message (RFC 7252 section 3). Options are read
// without definitions: the codec would drop those of a wrong length, critical ones too,
// which section 5.4.3 forbids.
func readRequest(datagram []byte) (*request, bool) {
	if len(datagram) < 4 || datagram[0]>>6 != 1 {
		return nil, false
	}
	r := &request{length: len(datagram), typ: message.Type(datagram[0] >> 4 & 3),
		code: codes.Code(datagram[1]), mid: binary.BigEndian.Uint16(datagram[2:]),
		accept: -1, format: -1}
	tkl := int(datagram[0] & 15)
	if tkl > 8 || len(datagram) < 4+tkl || r.empty() && len(datagram) != 4 {
		return nil, false
	}
	r.token = string(datagram[4 : 4+tkl])
	rest := datagram[4+tkl:]
	opts := make(message.Options, 0, maxOptions)
	n, err := opts.Unmarshal(rest, nil)
	if err != nil {
		return nil, false
	}
	r.payload = slices.Clone(rest[n:])
	last := message.OptionID(0)
	for _, o := range opts {
		r.option(o, o.ID == last)
		last = o.ID
	}
	return r, true
}

// option notes one option. One of a wrong length, or again where it may occur once, counts
// as unknown (RFC 7252 sections 5.4.3 and 5.4.5): elective ones are passed over.
func (r *request) option(o message.Option, again bool) {
	v, _, _ := message.DecodeUint32(o.Value) // never fails
	n := len(o.Value)
	switch {
	case o.ID == message.URIPath && n <= 255:
		r.path += "/" + string(o.Value)
	case o.ID == message.URIQuery && n <= 255:
		r.raw += string(o.Value) + "\x00"
		name, value, has := strings.Cut(string(o.Value), "=")
		r.params = append(r.params, param{name, value, has})
	case again:
		r.unknown(o.ID)
	case o.ID == message.URIHost || o.ID == message.URIPort:
	case o.ID == message.ProxyURI || o.ID == message.ProxyScheme:
		r.proxy = true
	case o.ID == message.Accept && n <= 2:
		r.accept = int(v)
	case o.ID == message.ContentFormat && n <= 2:
		r.format = int(v)
	case o.ID == optionEcho && n >= 1 && n <= 40:
		r.echo = string(o.Value)
	case o.ID == message.Block1 && n <= 3 && v&7 != 7:
		r.block1 = &block{int(v >> 4), v&8 != 0, int(v & 7)}
	case o.ID == message.Block2 && n <= 3 && v&7 != 7:
		r.block2 = &block{int(v >> 4), v&8 != 0, int(v & 7)}
	default:
		r.unknown(o.ID)
	}
}

func (r *request) unknown(id message.OptionID) {
	if id&1 == 1 && r.bad == "" { // critical (RFC 7252 section 5.4.6)
		r.bad = fmt.Sprintf("option %d is not understood here", id)
	}
}

// answer is a response without what the message layer adds.
type answer struct {
	code     codes.Code
	format   int // -1 = none
	body     []byte
	location []string // segments
	maxAge   int      // seconds, -1 = none
	echo     string
	block1   *block
	size1    int // 0 = none
}

// say is an answer for people: a code with a diagnostic payload (RFC 7252 section 5.5.2).
func say(code codes.Code, text string, args ...any) answer {
	return answer{code: code, format: -1, maxAge: -1, body: fmt.Appendf(nil, text, args...)}
}

// done is an answer without payload.
func done(code codes.Code) answer { return say(code, "") }

// links is a document in link format.
func links(body []byte) answer {
	return answer{code: codes.Content, format: linkFormat, maxAge: -1, body: body}
}

// datagram encodes the answer to r, piggybacked on the ACK of a confirmable request (RFC
// 7252 section 5.2.1). Of a body longer than one block it has the block that was asked for.
func (a answer) datagram(r *request, mid uint16) []byte {
	m := message.Message{Code: a.code, Token: []byte(r.token), Type: message.Acknowledgement,
		MessageID: int32(r.mid)}
	if r.typ == message.NonConfirmable {
		m.Type, m.MessageID = message.NonConfirmable, int32(mid)
	}
	add := func(id message.OptionID, value []byte) {
		m.Options = append(m.Options, message.Option{ID: id, Value: value})
	}
	for _, segment := range a.location {
		add(message.LocationPath, []byte(segment))
	}
	if a.format >= 0 {
		add(message.ContentFormat, number(uint32(a.format)))
	}
	if a.maxAge >= 0 {
		add(message.MaxAge, number(uint32(a.maxAge)))
	}
	if a.echo != "" {
		add(optionEcho, []byte(a.echo))
	}
	if a.block1 != nil {
		add(message.Block1, number(a.block1.option()))
	}
	if a.size1 > 0 {
		add(message.Size1, number(uint32(a.size1)))
	}
	m.Payload = a.body
	if part, b, whole := a.cut(r); !whole {
		tag := sha256.Sum256(a.body)
		add(message.ETag, tag[:8])
		add(message.Block2, number(b.option()))
		if b.num == 0 {
			add(message.Size2, number(uint32(len(a.body))))
		}
		m.Payload = part
	}
	return encode(m)
}

// largestSZX is that of blocks of 1024 bytes: with UDP and IPv6 they fit an Ethernet frame.
const largestSZX = 6

// cut is the block of the body that r asks for, or the first; whole if there is no need to.
func (a answer) cut(r *request) (part []byte, b block, whole bool) {
	b = block{szx: largestSZX}
	if r.block2 != nil {
		b = block{num: r.block2.num, szx: r.block2.szx}
	}
	if a.code != codes.Content || len(a.body) <= b.size() && b.num == 0 {
		return a.body, b, true
	}
	from := min(b.num*b.size(), len(a.body))
	to := min(from+b.size(), len(a.body))
	b.more = to < len(a.body)
	return a.body[from:to], b, false
}

// beyond tells that r asks for a block behind the end of the body.
func (a answer) beyond(r *request) bool {
	return a.code == codes.Content && r.block2 != nil && r.block2.num > 0 &&
		r.block2.num*r.block2.size() >= len(a.body)
}

// number is the shortest form of an unsigned integer (RFC 7252 section 3.2).
func number(v uint32) []byte {
	b := binary.BigEndian.AppendUint32(nil, v)
	for len(b) > 0 && b[0] == 0 {
		b = b[1:]
	}
	return b
}

// reset is the RST to a message.
func reset(mid uint16) []byte {
	return encode(message.Message{Type: message.Reset, Code: codes.Empty, MessageID: int32(mid)})
}

func encode(m message.Message) []byte {
	slices.SortStableFunc(m.Options, func(a, b message.Option) int { return int(a.ID) - int(b.ID) })
	size, err := coder.DefaultCoder.Size(m)
	if err != nil {
		panic(fmt.Sprintf("directory: size of an answer: %v", err)) // all of it is ours
	}
	datagram := make([]byte, size)
	if _, err := coder.DefaultCoder.Encode(m, datagram); err != nil {
		panic(fmt.Sprintf("directory: encode an answer: %v", err))
	}
	return datagram
}
