package coapclient

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// header is the fixed part of a message, all that the reader needs to decide
// whose datagram it is.
type header struct {
	typ   message.Type
	tkl   int
	code  codes.Code
	mid   uint16
	token uint64 // 0 unless tkl is 8, as in every request of ours
}

// parseHeader is false for what is no CoAP message (RFC 7252 section 3).
func parseHeader(b []byte) (h header, ok bool) {
	if len(b) < 4 || b[0]>>6 != 1 {
		return h, false
	}
	h = header{
		typ:  message.Type(b[0] >> 4 & 3),
		tkl:  int(b[0] & 15),
		code: codes.Code(b[1]),
		mid:  binary.BigEndian.Uint16(b[2:]),
	}
	if h.code == codes.Empty && (h.tkl != 0 || len(b) != 4) {
		return h, false
	}
	if h.tkl > 8 || len(b) < 4+h.tkl {
		return h, false
	}
	if h.tkl == 8 {
		h.token = binary.BigEndian.Uint64(b[4:])
	}
	return h, true
}

// isRequest tells what asks something of us: a method, or an empty CON, which
// is a ping (RFC 7252 section 4.3).
func (h header) isRequest() bool {
	return h.code>>5 == 0 && (h.code != codes.Empty || h.typ == message.Confirmable)
}

// isResponse is true for classes 2, 4 and 5; the others are reserved.
func (h header) isResponse() bool {
	class := h.code >> 5
	return (class == 2 || class == 4 || class == 5) && h.typ != message.Reset
}

// response is a decoded response; its slices point into the datagram.
type response struct {
	header
	etag      []byte // nil = none
	echo      []byte // nil = none
	format    int    // Content-Format, -1 = none
	maxAge    uint32
	hasMaxAge bool
	size2     int64 // -1 = none
	block     block
	hasBlock  bool
	critical  message.OptionID // an option that must not be ignored and that we do not know
	payload   []byte
}

var errMarker = errors.New("payload marker without payload")

// decode reads the options and payload that follow a valid header. opts is
// scratch; its capacity bounds how many options are accepted.
//
// The codec is given no option definitions: with them it drops options of a
// wrong length, critical ones too, which RFC 7252 section 5.4.3 forbids.
func decode(h header, b []byte, opts *message.Options) (response, error) {
	r := response{header: h, format: -1, size2: -1}
	rest := b[4+h.tkl:]
	*opts = (*opts)[:0]
	n, err := opts.Unmarshal(rest, nil)
	if err != nil {
		return r, err
	}
	r.payload = rest[n:]
	if len(r.payload) == 0 && n > 0 && rest[n-1] == 0xff && !endsInValue(*opts, rest) {
		return r, errMarker
	}
	var last message.OptionID
	for _, o := range *opts {
		r.option(o, o.ID == last)
		last = o.ID
	}
	return r, nil
}

// endsInValue tells whether the last byte belongs to the last option's value.
func endsInValue(opts message.Options, rest []byte) bool {
	if len(opts) == 0 {
		return false
	}
	v := opts[len(opts)-1].Value
	return len(v) > 0 && &v[len(v)-1] == &rest[len(rest)-1]
}

// option notes one option. One with a wrong length, or again where it may occur
// once, counts as unknown (RFC 7252 sections 5.4.3 and 5.4.5): elective ones
// are ignored, critical ones (odd numbers) reject the response.
func (r *response) option(o message.Option, again bool) {
	known := !again
	n := len(o.Value)
	v, _, _ := message.DecodeUint32(o.Value) // never fails
	switch {
	case again:
	case o.ID == message.ETag && n >= 1 && n <= 8:
		r.etag = o.Value
	case o.ID == message.ContentFormat && n <= 2:
		r.format = int(v)
	case o.ID == message.MaxAge && n <= 4:
		r.maxAge, r.hasMaxAge = v, true
	case o.ID == message.Size2 && n <= 4:
		r.size2 = int64(v)
	case o.ID == message.Block2 && n <= 3:
		r.block, r.hasBlock = blockOf(v), true
	case o.ID == optionEcho && n >= 1 && n <= 40:
		r.echo = o.Value
	default:
		known = false
	}
	if !known && o.ID&1 == 1 && r.critical == 0 {
		r.critical = o.ID
	}
}

// dotted writes a code the way people know it, such as "4.04".
func dotted(c codes.Code) string {
	if c == codes.Content { // of nearly every visit
		return "2.05"
	}
	return fmt.Sprintf("%d.%02d", c>>5, c&31)
}
