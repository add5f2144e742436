package testbed

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/udp/coder"
)

// maxRetransmit is MAX_RETRANSMIT of the sensor's own CONs (RFC 7252 4.8).
const maxRetransmit = 4

// ask is a message as read; it shares no memory with the datagram.
type ask struct {
	peer   netip.AddrPort
	typ    message.Type
	code   codes.Code
	mid    uint16
	token  string
	path   string
	etags  [][]byte
	accept int // -1 = none
	block  block
	asked  bool // a Block2 option came
	bad    bool // a critical option that the sensor does not know came
}

func parse(m message.Message, from netip.AddrPort) ask {
	a := ask{
		peer: from, typ: m.Type, code: m.Code,
		mid: uint16(m.MessageID), token: string(m.Token), accept: -1,
	}
	for _, o := range m.Options {
		number, _, _ := message.DecodeUint32(o.Value)
		switch o.ID {
		case message.URIPath:
			a.path += "/" + string(o.Value)
		case message.ETag:
			a.etags = append(a.etags, bytes.Clone(o.Value))
		case message.Accept:
			a.accept = int(number)
		case message.Block2:
			a.block, a.asked = parseBlock(number), true
		case message.URIHost, message.URIPort, message.URIQuery:
		default:
			a.bad = a.bad || o.ID%2 == 1 // odd numbers are critical (RFC 7252 5.4.6)
		}
	}
	return a
}

func (a ask) kind() string {
	switch {
	case a.typ == message.Acknowledgement && a.code == codes.Empty:
		return KindAck
	case a.typ == message.Reset:
		return KindReset
	case a.code != codes.GET || a.typ == message.Acknowledgement:
		return KindOther
	case a.block.num > 0:
		return KindBlock
	}
	return KindGet
}

// reply is what became of one request; a duplicate of it gets the same again.
type reply struct {
	key      exchange
	entry    Request // what is known of the request from its arrival
	settled  bool    // entry is in the log
	datagram []byte  // nil while the sensor thinks
	void     bool    // the datagram is nothing that a client could accept
	answer   Request // Code, Seq and Complete of the datagram

	acked   bool // an empty ACK came first
	confirm bool // the datagram is a CON of ours with this Message ID:
	mid     uint16
	tries   int
	timeout time.Duration // before the next try
}

// log is the entry of a request that met its fate.
func (r *reply) log(entry, fate Request) Request {
	entry.Dropped = fate.Dropped
	if fate.Answered && !r.void {
		entry.Answered, entry.Sent = true, clock()
		entry.Code, entry.Seq, entry.Complete = fate.Code, fate.Seq, fate.Complete
	}
	return entry
}

func (e *endpoint) remember(key exchange, entry Request) *reply {
	r := &reply{key: key, entry: entry}
	e.exchanges[key] = r
	e.ageing = append(e.ageing, r)
	return r
}

// begin takes a new request: at once, or after the think time.
func (e *endpoint) begin(a ask, key exchange, entry Request, now time.Time) {
	r := e.remember(key, entry)
	r.acked = e.ackFirst(a)
	if r.acked {
		e.acknowledge(key)
	}
	if e.s.spec.Delay == 0 {
		e.think(r, a, now)
		return
	}
	e.later(now.Add(e.s.spec.Delay), func(now time.Time) { e.think(r, a, now) })
}

// ackFirst reports whether the answer comes separately from the ACK.
func (e *endpoint) ackFirst(a ask) bool {
	return e.s.spec.Separate && a.typ == message.Confirmable && e.s.spec.Fault != FaultReset
}

// acknowledge sends the empty ACK of a separate answer and reports whether it
// arrives.
func (e *endpoint) acknowledge(key exchange) bool {
	if e.s.spec.LoseAck {
		e.count(Traffic{Out: 1, BytesOut: 4})
		return false
	}
	return e.send(bare(message.Acknowledgement, key.mid), key.peer)
}

// think makes the answer and sends it.
func (e *endpoint) think(r *reply, a ask, now time.Time) {
	switch e.s.spec.Fault {
	case FaultReset:
		r.datagram, r.answer.Code = bare(message.Reset, a.mid), "0.00"
	case FaultGarbage:
		r.datagram, r.void = e.garbage(), true
	default:
		r.void = e.s.spec.Fault == FaultStranger
		m := e.respond(a, &r.answer, now)
		r.answer.Code = fmt.Sprintf("%d.%02d", m.Code>>5, m.Code&31)
		e.address(&m, a, r)
		r.datagram = encode(m)
	}
	if e.s.spec.Fault == FaultNoise {
		e.send(e.garbage(), r.key.peer)
	}
	e.transmit(r, now)
}

// address sets type, Message ID and token: piggybacked on the ACK, or a message
// of its own (RFC 7252 5.2).
func (e *endpoint) address(m *message.Message, a ask, r *reply) {
	m.Token = []byte(a.token)
	switch {
	case a.typ == message.NonConfirmable || e.s.spec.NON:
		m.Type, m.MessageID = message.NonConfirmable, int32(e.mid())
	case r.acked:
		r.confirm, r.mid, r.timeout = true, e.mid(), e.s.spec.AckTimeout
		// ACK_RANDOM_FACTOR 1.5 (RFC 7252 4.2)
		r.timeout += time.Duration(e.s.loss.Float64() * float64(r.timeout) / 2)
		e.separate[exchange{r.key.peer, r.mid}] = r
		m.Type, m.MessageID = message.Confirmable, int32(r.mid)
	default:
		m.Type, m.MessageID = message.Acknowledgement, int32(a.mid)
	}
}

func (e *endpoint) mid() uint16 {
	e.nextMID++
	return e.nextMID
}

// transmit sends an answer, and sends a CON again until it is acknowledged. The
// request is logged with the first copy that is not lost, or with the last one.
func (e *endpoint) transmit(r *reply, now time.Time) {
	last := !r.confirm || r.tries == maxRetransmit
	e.s.bed.recordAfter(func() (Request, bool) {
		fate := e.deliver(r, now)
		if r.settled || !fate.Answered && !last {
			return Request{}, false
		}
		r.settled = true
		return r.log(r.entry, fate), true
	})
	if last {
		if r.confirm {
			delete(e.separate, exchange{r.key.peer, r.mid})
		}
		return
	}
	r.tries++
	e.later(now.Add(r.timeout), func(now time.Time) {
		if e.separate[exchange{r.key.peer, r.mid}] == r {
			e.transmit(r, now)
		}
	})
	r.timeout *= 2
}

// deliver sends the datagram of r once and says what became of it.
func (e *endpoint) deliver(r *reply, now time.Time) Request {
	fate := r.answer
	switch {
	case !e.s.awake(now):
		fate.Dropped = DroppedAsleep
	case e.send(r.datagram, r.key.peer):
		fate.Answered = true
	default:
		fate.Dropped = DroppedLoss
	}
	return fate
}

// repeat answers a duplicate as its original was, without thinking again
// (RFC 7252 4.5). A separate answer is repeated by its own retransmission only.
func (e *endpoint) repeat(r *reply, entry Request, now time.Time) {
	e.s.bed.recordAfter(func() (Request, bool) {
		switch {
		case r.confirm || r.datagram == nil && r.acked:
			fate := Request{Code: "0.00", Answered: e.acknowledge(r.key)}
			if !fate.Answered {
				fate.Dropped = DroppedLoss
			}
			return r.log(entry, fate), true
		case r.datagram == nil: // nothing is due yet
			return entry, true
		}
		return r.log(entry, e.deliver(r, now)), true
	})
}

// bare is an empty ACK or RST.
func bare(t message.Type, mid uint16) []byte {
	return encode(message.Message{Type: t, Code: codes.Empty, MessageID: int32(mid)})
}

func encode(m message.Message) []byte {
	slices.SortStableFunc(m.Options, func(a, b message.Option) int { return int(a.ID) - int(b.ID) })
	size, err := coder.DefaultCoder.Size(m)
	if err != nil {
		panic(fmt.Sprintf("testbed: size of an answer: %v", err))
	}
	datagram := make([]byte, size)
	if _, err := coder.DefaultCoder.Encode(m, datagram); err != nil {
		panic(fmt.Sprintf("testbed: encode an answer: %v", err))
	}
	return datagram
}

// garbage alternates between a cut header and an unknown version.
func (e *endpoint) garbage() []byte {
	if e.s.loss.IntN(2) == 0 {
		return []byte{0x60, 0x45}
	}
	return []byte(strings.Repeat("\xff", 1+e.s.loss.IntN(64)))
}
