package coapclient

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/visit"
)

// datagramsPerBlock is what a transfer over a network that loses 30 % each way
// stays well below on average: two requests and two ACKs.
const datagramsPerBlock = 8

// maxOptions is how many options a response may have.
const maxOptions = 64

// failure ends a visit without a description.
type failure struct {
	reason string
	text   string
	again  again         // what could be done about it, once
	code   codes.Code    // of the response, 0 = none
	after  time.Duration // no crawl before, 0 = any time
}

// again says which remedy a failed transfer has. Each is tried once per visit.
type again uint8

const (
	noRemedy      again = iota
	withoutAccept       // 4.06, RFC 6690 section 4 makes Accept a wish
	withEcho            // 4.01 with Echo, RFC 9175 section 2.3
	fromStart           // the representation changed between two blocks
	numRemedies
)

func failf(reason, format string, args ...any) *failure {
	return &failure{reason: reason, text: fmt.Sprintf(format, args...)}
}

// stopped tells why a done context ended the visit.
func stopped(ctx context.Context) *failure {
	if ctx.Err() == context.Canceled {
		return failf(ReasonCancelled, "visit cancelled")
	}
	return failf(ReasonDeadline, "the caller's deadline passed")
}

func errClosed() *failure { return failf(ReasonCancelled, "client closed") }

// exchange is one running visit. Fields are the visit's goroutine's own, but
// for those guarded by Client.mu.
type exchange struct {
	client   *Client
	socket   *socket // nil with a connection of its own
	conn     *connection
	addr     netip.AddrPort
	target   target
	want     visit.Visit
	started  time.Time
	deadline time.Time
	timer    *time.Timer
	inbox    chan event

	// Guarded by Client.mu.
	token         uint64
	mid           uint16
	received      int
	receivedBytes int
	transcript    []visit.Line

	peer      peer
	opts      message.Options // scratch
	out       []byte          // the request being sent
	tokenWire [8]byte
	datagram  *buffer // what response points into
	response  response
	request   request
	document  document
	echo      []byte // from a 4.01, nil = none
	tried     [numRemedies]bool
	offset    int // bytes of the body held; separate responses below it are stale

	sent, sentBytes, retransmissions, blocks int
	fruitless                                int       // datagrams sent since the last new block
	progress                                 time.Time // first answer or last new block
	heard                                    bool      // anything since then
	stalls                                   int       // silences that outlasted the progress limit
	contact, acked                           bool
	rtt                                      time.Duration
	firstSent                                time.Time
	now                                      time.Time // of the last datagram either way
}

func newExchange(c *Client) *exchange {
	e := &exchange{
		client: c,
		inbox:  make(chan event, inboxSize),
		opts:   make(message.Options, 0, maxOptions),
		out:    make([]byte, 0, 256),
		timer:  time.NewTimer(time.Hour),
	}
	e.timer.Stop()
	return e
}

// begin puts an exchange into the table of running visits. The caller holds the
// sensor's seat.
func (c *Client) begin(
	p netip.AddrPort, t target, v visit.Visit, now, deadline time.Time,
) (*exchange, *failure) {
	if !now.Before(deadline) {
		return nil, failf(ReasonDeadline, "the deadline passed before the sensor was asked")
	}
	var s *socket
	if t.scheme == fleet.SchemeUDP {
		s = c.socketFor(p)
	}
	if s == nil && t.scheme == fleet.SchemeUDP {
		return nil, failf(ReasonNetwork, "no socket for the address family of %v", p)
	}
	e := c.exchanges.Get().(*exchange)
	e.socket, e.addr, e.target, e.want = s, p, t, v
	e.deadline, e.started, e.now = deadline, now, now
	if e.want.AckTimeout <= 0 {
		e.want.AckTimeout = ackTimeout
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var known bool
	if e.peer, known = c.peers[p]; !known {
		e.peer.next = uint16(randomUint64())
	}
	e.peer.late = 0
	c.active[p] = e
	return e, nil
}

// end takes the exchange out of the table; from then on no reader touches it.
func (c *Client) end(e *exchange) {
	c.mu.Lock()
	delete(c.active, e.addr)
	if e.sent > 0 {
		e.peer.token = e.token
		c.peers[e.addr] = e.peer
		c.armSweeper()
	}
	c.mu.Unlock()
	e.timer.Stop()
	e.forget()
	for len(e.inbox) > 0 {
		if ev := <-e.inbox; ev.datagram != nil {
			c.release(ev.datagram)
		}
	}
	clear(e.opts[:cap(e.opts)])
	*e = exchange{ // keeps what serves the next visit, and nothing of this one
		client: c, inbox: e.inbox, opts: e.opts[:0], out: e.out[:0], timer: e.timer,
	}
	c.exchanges.Put(e)
}

// account copies what the visit cost into the outcome.
func (e *exchange) account(out *visit.Outcome) {
	e.client.mu.Lock()
	out.DatagramsReceived, out.BytesReceived = e.received, e.receivedBytes
	out.Transcript = e.transcript
	e.client.mu.Unlock()
	out.DatagramsSent, out.BytesSent = e.sent, e.sentBytes
	if n := e.conn; n != nil { // with the handshake and all that is around the messages
		out.DatagramsSent, out.BytesSent = int(n.sent.Load()), int(n.sentBytes.Load())
		out.DatagramsReceived, out.BytesReceived = int(n.received.Load()), int(n.receivedBytes.Load())
	}
	out.Retransmissions, out.Blocks = e.retransmissions, e.blocks
	out.Contact = e.contact || e.conn != nil && e.conn.met.Load()
	out.RTT = e.rtt
}

// arm takes a fresh Message ID, and a fresh token where a new transfer begins,
// and tells the reader to expect them.
func (e *exchange) arm(newToken bool) (uint16, *failure) {
	mid, ok := e.peer.take(e.client.second(e.now))
	if !ok {
		return 0, failf(ReasonLimit, "more than 32768 messages to %v within %d s: "+
			"no Message ID is free", e.addr, exchangeLifetime)
	}
	e.client.mu.Lock()
	defer e.client.mu.Unlock()
	e.mid = mid
	if newToken {
		e.token = randomUint64()
		binary.BigEndian.PutUint64(e.tokenWire[:], e.token)
	}
	return mid, nil
}

// foreign names the counter for a datagram that is no answer to the running
// request, nil for one that may be. It is called with mu held.
func (e *exchange) foreign(h header) *atomic.Uint64 {
	n := &e.client.count
	switch {
	case h.isRequest():
		return &n.unasked
	case h.code == codes.Empty && h.typ == message.NonConfirmable, // RFC 7252 section 4.3
		h.code != codes.Empty && !h.isResponse():
		return &n.garbage
	case h.code != codes.Empty && (h.tkl != 8 || h.token != e.token):
		return &n.wrongToken
	case h.mid != e.mid && (h.typ == message.Acknowledgement || h.typ == message.Reset):
		return &n.wrongMID
	}
	return nil
}

// send sends one datagram, unless the visit has spent what it may spend without
// making progress.
func (e *exchange) send(b []byte) *failure {
	limit := e.client.opts.Limits.Datagrams
	if e.fruitless >= limit || e.sent >= max(limit, datagramsPerBlock*e.blocks) {
		return failf(ReasonLimit, "%d datagrams sent for %d blocks, %d since the last new one",
			e.sent, e.blocks, e.fruitless)
	}
	e.fruitless++
	e.now = time.Now()
	if e.sent == 0 {
		e.firstSent = e.now
	}
	e.sent++
	e.sentBytes += len(b)
	e.peer.last = e.client.second(e.now)
	if e.noting() {
		e.client.mu.Lock()
		e.trace(true, b, "")
		e.client.mu.Unlock()
	}
	if err := e.write(b); err != nil {
		switch {
		case lostLocally(err):
			return nil // as if the network had lost it
		case errors.Is(err, net.ErrClosed):
			return errClosed()
		}
		return failf(ReasonNetwork, "send to %v: %v", e.addr, err)
	}
	return nil
}

// write hands a message to the network.
func (e *exchange) write(b []byte) error {
	if e.conn != nil {
		return e.conn.write(b)
	}
	return e.client.write(e.socket, e.addr, b)
}

// answer sends an empty ACK or RST to a confirmable response.
func (e *exchange) answer(typ message.Type, mid uint16) *failure {
	return e.send([]byte{1<<6 | byte(typ)<<4, byte(codes.Empty), byte(mid >> 8), byte(mid)})
}

// touch notes that something authentic came back.
func (e *exchange) touch() {
	if e.contact {
		e.heard = true
		return
	}
	e.contact, e.progress = true, e.now
	e.rtt = e.now.Sub(e.firstSent)
}

// forget gives back the datagram that the last response pointed into.
func (e *exchange) forget() {
	if e.datagram != nil {
		e.client.release(e.datagram)
		e.datagram = nil
	}
}
