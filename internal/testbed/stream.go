package testbed

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/tcp/coder"
	udp "github.com/plgd-dev/go-coap/v3/udp/coder"
)

// longestFrame bounds what a client can make a sensor hold.
const longestFrame = 64 << 10

// streamRadio takes TCP or TLS connections (RFC 8323). A request goes on to the endpoint as
// a non-confirmable message with a Message ID of its own, an answer sheds both. The kernel
// accepts connections also while the sensor sleeps; the endpoint does not hear what they
// carry then.
type streamRadio struct {
	s        *Sensor
	hold     *net.UDPConn // keeps the port's number
	listener net.Listener
	messages chan arrival
	closed   chan struct{}
	running  sync.WaitGroup

	mu       sync.Mutex // guards what follows
	deadline time.Time
	mid      uint16
	conns    map[netip.AddrPort]net.Conn
}

func newStreamRadio(s *Sensor, hold *net.UDPConn) (*streamRadio, error) {
	l, err := net.Listen("tcp4", s.addr.String())
	if err != nil {
		return nil, err
	}
	if sec := s.spec.Security; sec != nil {
		config := &tls.Config{Certificates: []tls.Certificate{sec.Certificate},
			NextProtos: []string{"coap"}, ClientCAs: sec.Clients, MinVersion: tls.VersionTLS12}
		if sec.Clients != nil {
			config.ClientAuth = tls.RequireAndVerifyClientCert
		}
		l = tls.NewListener(l, config)
	}
	r := &streamRadio{s: s, hold: hold, listener: l, messages: make(chan arrival, arrivals),
		closed: make(chan struct{}), conns: map[netip.AddrPort]net.Conn{}}
	r.running.Go(r.accept)
	return r, nil
}

func (r *streamRadio) accept() {
	for {
		conn, err := r.listener.Accept()
		if err != nil {
			return
		}
		from := conn.RemoteAddr().(*net.TCPAddr).AddrPort()
		r.mu.Lock()
		r.conns[from] = conn
		r.mu.Unlock()
		r.running.Go(func() {
			r.hear(conn, from)
			r.mu.Lock()
			delete(r.conns, from)
			r.mu.Unlock()
			_ = conn.Close()
		})
	}
}

// hear reads frames after it has sent the capabilities, which are empty.
func (r *streamRadio) hear(conn net.Conn, from netip.AddrPort) {
	if _, err := conn.Write([]byte{0, byte(codes.CSM)}); err != nil {
		return
	}
	in := bufio.NewReader(conn)
	for {
		m, size, err := readStream(in)
		if err != nil {
			return
		}
		r.s.count(Traffic{In: 1, BytesIn: size})
		if m.Code >= 224 { // signaling: nothing of it matters here
			continue
		}
		r.mu.Lock()
		r.mid++
		m.Type, m.MessageID = message.NonConfirmable, int32(r.mid)
		r.mu.Unlock()
		datagram, err := udpForm(m)
		if err != nil {
			return
		}
		select {
		case r.messages <- arrival{datagram, from}:
		case <-r.closed:
			return
		}
	}
}

// readStream reads one message.
func readStream(in *bufio.Reader) (m message.Message, size int, err error) {
	var head coder.MessageHeader
	for n := 2; ; n++ { // as many bytes as it takes
		b, err := in.Peek(n)
		if err != nil {
			return m, 0, err
		}
		if _, err := coder.DefaultCoder.DecodeHeader(b, &head); err == nil {
			break
		} else if n > 16 {
			return m, 0, err
		}
	}
	if head.MessageLength > longestFrame {
		return m, 0, fmt.Errorf("testbed: a message of %d bytes", head.MessageLength)
	}
	b := make([]byte, head.MessageLength)
	if _, err := io.ReadFull(in, b); err != nil {
		return m, 0, err
	}
	m.Options = make(message.Options, 0, 64)
	_, err = coder.DefaultCoder.Decode(b, &m)
	return m, len(b), err
}

func udpForm(m message.Message) ([]byte, error) {
	size, err := udp.DefaultCoder.Size(m)
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	_, err = udp.DefaultCoder.Encode(m, b)
	return b, err
}

// ReadFromUDPAddrPort waits for a message.
func (r *streamRadio) ReadFromUDPAddrPort(b []byte) (int, netip.AddrPort, error) {
	r.mu.Lock()
	deadline := r.deadline
	r.mu.Unlock()
	return next(r.messages, r.closed, deadline, b)
}

// next waits for a message until the deadline, if there is one.
func next(
	messages <-chan arrival, closed <-chan struct{}, deadline time.Time, b []byte,
) (int, netip.AddrPort, error) {
	var late <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case m := <-messages:
		return copy(b, m.message), m.from, nil
	case <-late:
		return 0, netip.AddrPort{}, os.ErrDeadlineExceeded
	case <-closed:
		return 0, netip.AddrPort{}, net.ErrClosed
	}
}

// SetReadDeadline is for the next read.
func (r *streamRadio) SetReadDeadline(t time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.deadline = t
	return nil
}

// WriteToUDPAddrPort sends a message over the client's connection. Empty messages do not
// exist there; what is no message goes out as it is.
func (r *streamRadio) WriteToUDPAddrPort(b []byte, to netip.AddrPort) (int, error) {
	r.mu.Lock()
	conn := r.conns[to]
	r.mu.Unlock()
	if conn == nil {
		return 0, fmt.Errorf("testbed: no connection with %v", to)
	}
	frame := b
	m := message.Message{Options: make(message.Options, 0, 64)}
	if _, err := udp.DefaultCoder.Decode(b, &m); err == nil {
		if m.Code == codes.Empty {
			return len(b), nil
		}
		size, err := coder.DefaultCoder.Size(m)
		if err != nil {
			return 0, err
		}
		frame = make([]byte, size)
		if _, err := coder.DefaultCoder.Encode(m, frame); err != nil {
			return 0, err
		}
	}
	r.s.count(Traffic{Out: 1, BytesOut: len(frame)})
	return conn.Write(frame)
}

// Close ends everything.
func (r *streamRadio) Close() error {
	close(r.closed)
	err := errors.Join(r.hold.Close(), r.listener.Close())
	r.mu.Lock()
	for _, conn := range r.conns {
		_ = conn.Close()
	}
	r.mu.Unlock()
	r.running.Wait()
	return err
}
