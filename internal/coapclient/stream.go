package coapclient

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"github.com/crawld/crawld/internal/fleet"
)

// Signaling messages, RFC 8323 section 5.
const (
	codeCSM     codes.Code = 7<<5 | 1
	codePing    codes.Code = 7<<5 | 2
	codePong    codes.Code = 7<<5 | 3
	codeRelease codes.Code = 7<<5 | 4
	codeAbort   codes.Code = 7<<5 | 5

	optionMaxMessageSize = 2 // of a CSM

	// maxPongs bounds what pings can draw from us.
	maxPongs = 8

	// frameRoom is what a message may have beside its body.
	frameRoom = 4 << 10

	// streamSlack and streamBodies bound what is read in one visit: a body may come twice
	// and in small blocks.
	streamSlack, streamBodies = 256 << 10, 4
)

// stream is a visit's TCP or TLS connection (RFC 8323). Its frames have the options and
// payloads of RFC 7252, so a response goes on as a non-confirmable message, and a request
// leaves its type and Message ID behind. Block-wise transfer is not announced: a body up
// to our limit comes in one message.
type stream struct {
	connection
	e      *exchange
	conn   net.Conn
	read   chan struct{} // closed when the reader has ended
	closed atomic.Bool
	pongs  int // the reader's
	out    sync.Mutex
}

// connectStream sets the visit's connection up. There is nothing to repeat on TCP, so one
// request waits as long as a sensor may take for a block.
func (e *exchange) connectStream(caller context.Context) *failure {
	s := &stream{e: e, read: make(chan struct{})}
	e.conn = &s.connection
	var cred *Credential
	if e.target.scheme == fleet.SchemeTLS {
		var f *failure
		if cred, f = e.credential(); f != nil {
			return f
		}
		if cred.Key != nil {
			return failf(ReasonAuth, "credential %q is a pre-shared key, %s wants a certificate",
				cred.ID, fleet.SchemeTLS)
		}
	}
	silence := e.silence()
	e.want.NON, e.want.Retrans = false, 0
	e.want.AckTimeout = max(e.want.AckTimeout, e.client.opts.Limits.Progress)
	ctx, stop := e.during(caller)
	defer stop()
	if f := s.dial(ctx, caller, silence); f != nil {
		return f
	}
	if cred != nil {
		if f := s.secure(ctx, caller, cred); f != nil {
			_ = s.conn.Close()
			return f
		}
	}
	if err := s.hello(); err != nil {
		_ = s.conn.Close()
		return failf(ReasonClosed, "%v: %v", e.addr, err)
	}
	s.write, s.close = s.request, s.end
	go s.receive()
	return nil
}

// dial opens the TCP connection; what the kernel sends for it counts as one datagram.
func (s *stream) dial(ctx, caller context.Context, silence time.Duration) *failure {
	e := s.e
	s.countSent(0)
	conn, err := (&net.Dialer{Timeout: silence}).DialContext(ctx, "tcp", e.addr.String())
	var timeout net.Error
	switch {
	case err == nil:
	case unreachableError(err):
		return failf(ReasonICMP, "%v: %v", e.addr, err)
	case ctx.Err() != nil:
		return e.whyStopped(caller)
	case errors.As(err, &timeout) && timeout.Timeout():
		return failf(ReasonTimeout, "no connection to %v within %v", e.addr, silence)
	default:
		return failf(ReasonNetwork, "connect to %v: %v", e.addr, err)
	}
	s.countReceived(0)
	s.met.Store(true)
	s.conn = counting{conn, &s.connection}
	_ = conn.SetDeadline(e.deadline)
	return nil
}

// secure makes the TLS handshake. The protocol's name is asked for by RFC 8323 section 8.2.
func (s *stream) secure(ctx, caller context.Context, cred *Credential) *failure {
	e := s.e
	leave, f := e.seatHandshake(ctx, caller)
	if f != nil {
		return f
	}
	defer leave()
	conn := tls.Client(s.conn, &tls.Config{RootCAs: cred.pool, ServerName: e.serverName(cred),
		Certificates: []tls.Certificate{cred.Certificate}, NextProtos: []string{"coap"},
		MinVersion: tls.VersionTLS12})
	e.client.count.handshakes.Add(1)
	bound, cancel := context.WithTimeout(ctx, e.patience())
	defer cancel()
	err := conn.HandshakeContext(bound)
	switch {
	case err == nil:
		s.conn = conn
		return nil
	case ctx.Err() != nil:
		return e.whyStopped(caller)
	case bound.Err() != nil:
		return failf(ReasonProgress, "%v began a handshake and did not end it within %v", e.addr,
			e.patience())
	}
	e.client.count.denied.Add(1)
	return failf(ReasonAuth, "handshake with %v: %v", e.addr, trust(err))
}

// hello sends our CSM, the first message of each side (RFC 8323 section 5.3). Nothing that
// follows depends on the sensor's.
func (s *stream) hello() error {
	value := binary.BigEndian.AppendUint32(nil, uint32(s.longest()))
	return s.frame(codeCSM, 0, append([]byte{optionMaxMessageSize<<4 | byte(len(value))}, value...))
}

func (s *stream) longest() int { return s.e.client.opts.Limits.Body + frameRoom }

// request sends a message of the exchange. It has no empty messages on TCP. Whether it
// arrives is for the reader to tell: it hears why a connection has ended.
func (s *stream) request(b []byte) error {
	if h, ok := parseHeader(b); !ok || h.code == codes.Empty {
		return nil
	}
	_ = s.frame(codes.Code(b[1]), int(b[0]&15), b[4:])
	return nil
}

// frame sends a code, and the token with all that follows it.
func (s *stream) frame(code codes.Code, tokenLength int, rest []byte) error {
	head := frameHead(len(rest)-tokenLength, tokenLength, code)
	s.out.Lock()
	defer s.out.Unlock()
	_, err := s.conn.Write(append(head, rest...))
	return err
}

// frameHead writes length, token length and code, RFC 8323 section 3.2.
func frameHead(length, tokenLength int, code codes.Code) []byte {
	t := byte(tokenLength)
	switch {
	case length < 13:
		return []byte{byte(length)<<4 | t, byte(code)}
	case length < 13+1<<8:
		return []byte{13<<4 | t, byte(length - 13), byte(code)}
	case length < 269+1<<16:
		n := length - 269
		return []byte{14<<4 | t, byte(n >> 8), byte(n), byte(code)}
	}
	b := binary.BigEndian.AppendUint32([]byte{15<<4 | t}, uint32(length-65805))
	return append(b, byte(code))
}

// extendedLengths are how many bytes follow the lengths 13, 14 and 15, and what is added to
// them.
var extendedLengths = [3]struct{ bytes, from int64 }{{1, 13}, {2, 269}, {4, 65805}}

// receive reads frames until the connection ends.
func (s *stream) receive() {
	defer close(s.read)
	f := s.frames()
	if !s.closed.Load() {
		s.e.client.deliverEnd(s.e, f)
	}
}

func (s *stream) frames() *failure {
	most := int64(streamBodies*s.e.client.opts.Limits.Body + streamSlack)
	r := bufio.NewReader(s.conn)
	for {
		if s.receivedBytes.Load() > most {
			return failf(ReasonLimit, "%v sent more than %d bytes", s.e.addr, most)
		}
		b, f, err := readFrame(r, s.longest())
		var remote *net.OpError
		switch {
		case f != nil:
			return f
		case errors.As(err, &remote) && remote.Op == "remote error": // a TLS alert, in TLS 1.3 late
			return failf(ReasonAuth, "%v refused us: %v", s.e.addr, err)
		case err != nil:
			return failf(ReasonClosed, "%v ended the connection: %v", s.e.addr, err)
		}
		if f := s.sort(b); f != nil {
			return f
		}
	}
}

// readFrame reads one message and returns it in the form of RFC 7252, non-confirmable.
func readFrame(r *bufio.Reader, longest int) ([]byte, *failure, error) {
	first, err := r.ReadByte()
	if err != nil {
		return nil, nil, err
	}
	length, tokenLength := int64(first>>4), int64(first&15)
	if tokenLength > 8 {
		return nil, failf(ReasonBlock, "a message with a token of %d bytes", tokenLength), nil
	}
	if length >= 13 {
		x := extendedLengths[length-13]
		var b [8]byte
		if _, err := io.ReadFull(r, b[8-x.bytes:]); err != nil {
			return nil, nil, err
		}
		length = x.from + int64(binary.BigEndian.Uint64(b[:]))
	}
	if length > int64(longest) {
		return nil, failf(ReasonLimit, "a message of %d bytes, %d allowed", length, longest), nil
	}
	code, err := r.ReadByte()
	if err != nil {
		return nil, nil, err
	}
	rest := tokenLength + length
	b := make([]byte, 0, 4+min(rest, 4<<10)) // what is announced is not there yet
	b = append(b, 1<<6|byte(message.NonConfirmable)<<4|byte(tokenLength), code, 0, 0)
	for have := int64(0); have < rest; {
		n := min(rest-have, 4<<10)
		at := len(b)
		b = append(b, make([]byte, n)...)
		if _, err := io.ReadFull(r, b[at:]); err != nil {
			return nil, nil, err
		}
		have += n
	}
	return b, nil, nil
}

// sort handles signaling, and hands the rest to the visit.
func (s *stream) sort(b []byte) *failure {
	tokenLength := int(b[0] & 15)
	switch code := codes.Code(b[1]); code {
	case codes.Empty, codePong: // RFC 8323 section 3.4: an empty message is ignored
	case codeCSM:
		if o := criticalOption(b[4+tokenLength:]); o != 0 {
			return failf(ReasonCritical, "capabilities with critical option %d, which is unknown", o)
		}
	case codePing:
		if s.pongs++; s.pongs > maxPongs {
			return failf(ReasonLimit, "%v sent more than %d pings", s.e.addr, maxPongs)
		}
		if err := s.frame(codePong, tokenLength, b[4:4+tokenLength]); err != nil {
			return failf(ReasonClosed, "%v: %v", s.e.addr, err)
		}
	case codeRelease, codeAbort:
		return failf(ReasonClosed, "%v ended the connection (%s)", s.e.addr, dotted(code))
	default:
		s.e.client.deliverPlain(s.e, b)
	}
	return nil
}

// criticalOption finds an option of a CSM that must not be ignored: all that RFC 8323
// section 5.3 defines are elective, with even numbers.
func criticalOption(b []byte) message.OptionID {
	opts := make(message.Options, 0, maxOptions)
	if _, err := opts.Unmarshal(b, nil); err != nil {
		return 0 // what cannot be read is ignored like the rest of it
	}
	for _, o := range opts {
		if o.ID&1 == 1 {
			return o.ID
		}
	}
	return 0
}

// end closes the connection; TCP has nothing to keep.
func (s *stream) end(bool) {
	s.closed.Store(true)
	_ = s.conn.Close()
	<-s.read
}

// counting counts what passes a socket, below TLS.
type counting struct {
	net.Conn
	n *connection
}

// Read is of net.Conn.
func (c counting) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.n.countReceived(n)
	}
	return n, err
}

// Write is of net.Conn.
func (c counting) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil {
		err = fmt.Errorf("after %d bytes: %w", n, err)
	}
	c.n.countSent(n)
	return n, err
}
