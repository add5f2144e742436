package testbed

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// representation is the description after seq events.
type representation struct {
	seq  int
	body []byte
}

// transfer is a block-wise transfer under way: its blocks all come from one
// representation. A client keeps its token through a transfer, as a rule.
type transfer struct {
	peer  netip.AddrPort
	token string
	representation
}

// keptTransfers bounds what a sensor remembers of transfers.
const keptTransfers = 64

// block is the value of a Block2 option (RFC 7959 2.2).
type block struct {
	num  int
	more bool
	size int // bytes
}

func parseBlock(v uint32) block {
	return block{num: int(v >> 4), more: v&8 != 0, size: 16 << min(v&7, 6)}
}

func (b block) value() uint32 {
	v := uint32(b.num) << 4
	if b.more {
		v |= 8
	}
	for size := 16; size < b.size; size *= 2 {
		v++
	}
	return v
}

// respond makes the response to a request: code, options and payload. What the
// log wants to know of it goes to answer.
func (e *endpoint) respond(a ask, answer *Request, now time.Time) message.Message {
	spec := &e.s.spec
	switch {
	case spec.Fault == FaultUnavailable:
		return message.Message{Code: codes.ServiceUnavailable, Options: e.maxAge()}
	case spec.Fault == FaultNotFound:
		return message.Message{Code: codes.NotFound}
	case a.bad:
		return message.Message{Code: codes.BadOption}
	case a.code != codes.GET:
		return message.Message{Code: codes.MethodNotAllowed}
	case a.path != strings.TrimSuffix(spec.Path, "/"):
		return message.Message{Code: codes.NotFound}
	case a.accept >= 0 && spec.Format != NoFormat && a.accept != spec.Format:
		return message.Message{Code: codes.NotAcceptable}
	}
	return e.content(a, answer, now)
}

// content answers with the representation, a block of it, or 2.03.
func (e *endpoint) content(a ask, answer *Request, now time.Time) message.Message {
	r := e.represent(a, now)
	answer.Seq = r.seq
	options := e.maxAge()
	if !e.s.spec.NoETag {
		tag := e.s.etag(r.seq)
		if e.s.spec.Fault == FaultFlip {
			e.flips++
			tag = e.s.etag(-e.flips)
		}
		options = append(options, message.Option{ID: message.ETag, Value: tag})
		same := func(t []byte) bool { return bytes.Equal(t, tag) }
		if a.block.num == 0 && slices.ContainsFunc(a.etags, same) {
			answer.Complete = true
			return message.Message{Code: codes.Valid, Options: options}
		}
	}
	if f := e.s.spec.Format; f != NoFormat {
		options = append(options, number(message.ContentFormat, uint32(f)))
	}
	b, payload, ok := e.slice(a, r.body)
	if !ok {
		return message.Message{Code: codes.BadRequest}
	}
	if b.size > 0 {
		options = append(options, number(message.Block2, b.value()))
		options = append(options, e.size2(b, len(r.body))...)
	}
	answer.Complete = !b.more
	if b.more && b.num == 0 {
		e.keep(a, r)
	}
	return message.Message{Code: codes.Content, Options: options, Payload: payload}
}

// represent finds the representation that a request is about: of its transfer if
// it asks for a later block, else a new one. A client that changes its token
// between blocks gets its newest transfer.
func (e *endpoint) represent(a ask, now time.Time) representation {
	if a.block.num > 0 {
		for _, sameToken := range []bool{true, false} {
			for _, t := range slices.Backward(e.transfers) {
				if t.peer == a.peer && (t.token == a.token || !sameToken) {
					return t.representation
				}
			}
		}
	}
	seq := e.s.seq(now)
	return representation{seq, e.s.body(seq)}
}

// keep remembers the representation of a transfer that has begun.
func (e *endpoint) keep(a ask, r representation) {
	if len(e.transfers) == keptTransfers {
		e.transfers = e.transfers[1:]
	}
	e.transfers = append(e.transfers, transfer{a.peer, a.token, r})
}

// slice cuts the block that was asked for. The smaller of the two sizes wins
// (RFC 7959 2.4); the client's tells where it begins. A block without size means
// the body goes whole.
func (e *endpoint) slice(a ask, body []byte) (b block, payload []byte, ok bool) {
	b = block{size: e.s.spec.Block}
	blockwise := e.blockFault()
	if b.size == 0 && blockwise {
		b.size = 64
	}
	offset := 0
	if a.asked {
		offset = a.block.num * a.block.size
		if b.size == 0 || a.block.size < b.size {
			b.size = a.block.size
		}
	}
	if b.size == 0 {
		return b, body, true
	}
	b.num = offset / b.size
	if blockwise {
		return e.misnumber(b)
	}
	if offset > 0 && offset >= len(body) {
		return b, nil, false
	}
	end := min(offset+b.size, len(body))
	b.more = end < len(body)
	return b, body[offset:end], true
}

func (e *endpoint) blockFault() bool {
	return slices.Contains([]Fault{FaultEndless, FaultOversize, FaultStuck, FaultJump}, e.s.spec.Fault)
}

// misnumber is a block of a transfer that never ends.
func (e *endpoint) misnumber(b block) (block, []byte, bool) {
	b.more = true
	switch {
	case e.s.spec.Fault == FaultStuck:
		b.num = 0
	case e.s.spec.Fault == FaultJump && b.num > 0:
		b.num++
	}
	// A Block2 option holds 20 bits of number.
	b.num &= 1<<20 - 1
	return b, bytes.Repeat([]byte{'x'}, b.size), true
}

// size2 announces the size of the body beside its first block (RFC 7959 4).
func (e *endpoint) size2(b block, size int) message.Options {
	switch {
	case e.s.spec.Fault == FaultOversize:
		size = 16 << 20
	case b.num > 0 || !b.more || e.blockFault():
		return nil
	}
	return message.Options{number(message.Size2, uint32(size))}
}

func (e *endpoint) maxAge() message.Options {
	if e.s.spec.MaxAge == 0 {
		return nil
	}
	return message.Options{number(message.MaxAge, uint32(e.s.spec.MaxAge))}
}

// number is an option of uint format.
func number(id message.OptionID, v uint32) message.Option {
	value := make([]byte, 4)
	n, err := message.EncodeUint32(value, v)
	if err != nil {
		panic(err) // four bytes hold every uint32
	}
	return message.Option{ID: id, Value: value[:n]}
}
