package coapclient

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/crawld/crawld/internal/fleet"
)

const (
	// maxHandshakes bounds the work that sensors can make us do at once: a handshake
	// costs public-key operations, memory and a socket.
	maxHandshakes = 64

	// authPause is how long a sensor is left alone after a handshake that ended for want of
	// trust: neither side's keys mend themselves, and each try costs its battery.
	authPause = 15 * time.Minute

	// plaintext is the largest message taken from a DTLS record.
	plaintext = 8 << 10
)

// connection is the way of one visit to a sensor that is not asked over the shared
// sockets. It carries messages in the form of RFC 7252, whatever is below.
type connection struct {
	write func(message []byte) error
	close func(keep bool) // ends it and waits until nothing more is delivered

	// Datagrams, or segments as read and written, and their bytes: handshake and
	// framing included.
	sent, sentBytes, received, receivedBytes atomic.Int64
	met                                      atomic.Bool // the sensor answered the handshake
}

func (n *connection) countSent(bytes int) {
	n.sent.Add(1)
	n.sentBytes.Add(int64(bytes))
}

func (n *connection) countReceived(bytes int) {
	n.received.Add(1)
	n.receivedBytes.Add(int64(bytes))
}

// meet makes the visit, over a connection of its own where the scheme wants one.
func (e *exchange) meet(ctx context.Context) (*document, *failure) {
	if e.target.scheme == fleet.SchemeUDP {
		return e.visit(ctx)
	}
	var f *failure
	switch e.target.scheme {
	case fleet.SchemeDTLS:
		f = e.connectDTLS(ctx)
	default:
		f = e.connectStream(ctx)
	}
	var d *document
	if f == nil {
		d, f = e.visit(ctx)
		e.conn.close(f == nil || f.keepsConnection(e))
	}
	if f != nil && f.reason == ReasonAuth {
		f.after = authPause
	}
	return d, f
}

// keepsConnection tells whether the sensor still has its side of the connection, as far as
// one can see: it has answered in this visit, and not with a reset.
func (f *failure) keepsConnection(e *exchange) bool {
	return e.contact && f.reason != ReasonRST && f.reason != ReasonICMP && f.reason != ReasonClosed
}

// during is a context that ends with the visit, the caller or the client; stop must be
// called.
func (e *exchange) during(ctx context.Context) (_ context.Context, stop func()) {
	ctx, cancel := context.WithDeadline(ctx, e.deadline)
	done, closed := make(chan struct{}), e.client.closed
	go func() {
		select {
		case <-closed:
			cancel()
		case <-done:
		}
	}()
	return ctx, func() { close(done); cancel() }
}

// whyStopped names what ended a context of during.
func (e *exchange) whyStopped(caller context.Context) *failure {
	select {
	case <-e.client.closed:
		return errClosed()
	default:
	}
	if caller.Err() != nil {
		return stopped(caller)
	}
	return failf(ReasonDeadline, "the deadline passed before a secure connection to %v stood", e.addr)
}

// silence is how long a request of this visit would go unanswered before it is given up
// (RFC 7252 section 4.8.2, MAX_TRANSMIT_WAIT with the visit's own numbers).
func (e *exchange) silence() time.Duration {
	retrans := e.want.Retrans
	if e.want.NON {
		retrans = 0
	}
	return time.Duration(float64(e.want.AckTimeout) * ackRandomFactor * float64(int(2)<<retrans-1))
}

// seatHandshake waits for one of the maxHandshakes; give it back by calling leave.
func (e *exchange) seatHandshake(ctx, caller context.Context) (leave func(), f *failure) {
	select {
	case e.client.handshakes <- struct{}{}:
		if ctx.Err() == nil {
			return func() { <-e.client.handshakes }, nil
		}
		<-e.client.handshakes
		return nil, e.whyStopped(caller)
	case <-ctx.Done():
		if f := e.whyStopped(caller); f.reason != ReasonDeadline {
			return nil, f
		}
		return nil, failf(ReasonDeadline, "no turn before the deadline: %d handshakes run", maxHandshakes)
	}
}

// deliverPlain hands a message that came over a connection to the visit.
func (c *Client) deliverPlain(e *exchange, b []byte) {
	h, ok := parseHeader(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sort(e, h, ok, b)
}

// deliverEnd tells the visit that nothing more will come.
func (c *Client) deliverEnd(e *exchange, f *failure) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		select {
		case e.inbox <- event{lost: f}:
			return
		default:
		}
		select { // of a full inbox the oldest makes room
		case ev := <-e.inbox:
			if ev.datagram != nil {
				c.release(ev.datagram)
			}
		default:
		}
	}
}

// unreachableError tells what the kernel reports of ICMP "destination unreachable".
func unreachableError(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.EHOSTUNREACH) ||
		errors.Is(err, syscall.ENETUNREACH)
}

// connected opens a UDP socket of the visit's own: its kernel filter drops strangers, it
// hears of ICMP errors, and a port that was never used before cannot meet a sensor that
// still holds an association of an earlier one (RFC 6347 section 4.2.8).
func (e *exchange) connected() (*net.UDPConn, *failure) {
	conn, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(e.addr))
	if err != nil {
		return nil, failf(ReasonNetwork, "socket to %v: %v", e.addr, err)
	}
	return conn, nil
}
