package coapclient

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

const (
	// maxDatagram is more than UDP can carry, so nothing is ever cut.
	maxDatagram = 64 << 10

	// inboxSize holds the copies of one answer that a duplicating network makes.
	inboxSize = 8

	// keepBuffer is what a pooled buffer may keep: any datagram of usual size.
	keepBuffer = 2 << 10
)

// socket is an unconnected UDP socket.
type socket struct {
	conn *net.UDPConn
}

// buffer carries one datagram from the reader to a visit.
type buffer struct{ data []byte }

// event is what an exchange's inbox holds: a message, an ICMP error, or the end of
// the visit's own connection.
type event struct {
	datagram *buffer
	icmp     error
	lost     *failure
}

// open makes the sockets: half of them, rounded up, for IPv4.
func (c *Client) open() error {
	n := max(c.opts.Sockets, 1)
	n4, n6 := (n+1)/2, n/2
	if c.opts.Sockets == 0 {
		n4, n6 = 1, 1
	}
	var err4, err6 error
	c.v4, err4 = c.openFamily("udp4", n4)
	c.v6, err6 = c.openFamily("udp6", n6)
	if len(c.v4)+len(c.v6) == 0 {
		return fmt.Errorf("coapclient: open UDP sockets: %w", errors.Join(err4, err6))
	}
	return nil
}

func (c *Client) openFamily(network string, n int) (opened []*socket, err error) {
	for range n {
		conn, err := net.ListenUDP(network, nil)
		if err != nil {
			return opened, err
		}
		s := &socket{conn: conn}
		_ = conn.SetReadBuffer(c.opts.ReadBuffer) // Stats tells what was granted
		s.askForErrors(network)
		opened = append(opened, s)
		c.reads.Go(func() { c.read(s) })
	}
	return opened, nil
}

func (c *Client) socketsFor(a netip.Addr) []*socket {
	if a.Is4() {
		return c.v4
	}
	return c.v6
}

// socketFor always returns the same socket for an address, so that a late
// response is acknowledged from where the request came.
func (c *Client) socketFor(p netip.AddrPort) *socket {
	all := c.socketsFor(p.Addr())
	if len(all) == 0 {
		return nil
	}
	b := p.Addr().As16()
	h := binary.BigEndian.Uint64(b[8:])*0x9e3779b97f4a7c15 + uint64(p.Port())
	return all[(h>>32^h)%uint64(len(all))]
}

// read hands each datagram to the visit it belongs to, until the socket closes.
func (c *Client) read(s *socket) {
	b := make([]byte, maxDatagram)
	for failed := 0; ; {
		n, from, err := s.conn.ReadFromUDPAddrPort(b)
		switch {
		case err == nil:
			failed = 0
			c.dispatch(s, from, b[:n])
		case errors.Is(err, net.ErrClosed):
			return
		case c.drainErrors(s) > 0: // ICMP, which the kernel reports on any call
			failed = 0
		default:
			if failed++; failed > 100 {
				time.Sleep(10 * time.Millisecond) // no spin on a broken socket
			}
		}
	}
}

// dispatch decides whose datagram this is. Whatever belongs to no running visit
// is counted and dropped before anything is allocated or sent; the one exception
// is a late confirmable response, whose sender would repeat it until its
// battery has paid for five.
func (c *Client) dispatch(s *socket, from netip.AddrPort, b []byte) {
	c.count.received.Add(1)
	h, ok := parseHeader(b)
	c.mu.Lock()
	e := c.active[from]
	if e == nil || e.socket != s {
		late := ok && c.late(from, h)
		c.mu.Unlock()
		switch {
		case late:
			c.count.late.Add(1)
			c.reply(s, from, message.Acknowledgement, h.mid)
		case ok && h.isRequest():
			c.count.unasked.Add(1)
		default:
			c.count.strangers.Add(1)
		}
		return
	}
	defer c.mu.Unlock()
	e.received++
	e.receivedBytes += len(b)
	c.sort(e, h, ok, b)
}

// sort hands a message from the sensor to its visit, if it is an answer. It must be
// called with mu held.
func (c *Client) sort(e *exchange, h header, ok bool, b []byte) {
	if !ok {
		c.count.garbage.Add(1)
		e.trace(false, b, "")
		return
	}
	if counter := e.foreign(h); counter != nil {
		counter.Add(1)
		if e.noting() {
			e.trace(false, b, c.dropped(counter))
		}
		return
	}
	e.trace(false, b, "")
	c.deliver(e, b)
}

// late tells whether h is a confirmable response to the last visit to from. It
// must be called with mu held.
func (c *Client) late(from netip.AddrPort, h header) bool {
	if h.typ != message.Confirmable || !h.isResponse() || h.tkl != 8 {
		return false
	}
	p, ok := c.peers[from]
	if !ok || p.token != h.token || p.late >= maxLate {
		return false
	}
	p.late++
	c.peers[from] = p
	return true
}

// deliver copies the datagram into the exchange's inbox. It must be called with
// mu held, which keeps e from being reused meanwhile.
func (c *Client) deliver(e *exchange, b []byte) {
	if len(e.inbox) == cap(e.inbox) {
		c.count.overflow.Add(1)
		return
	}
	buf := c.buffers.Get().(*buffer)
	buf.data = append(buf.data[:0], b...)
	e.inbox <- event{datagram: buf} // the only sender holds mu, so there is room
}

func (c *Client) release(buf *buffer) {
	if cap(buf.data) > keepBuffer {
		buf.data = nil
	}
	c.buffers.Put(buf)
}

// unreachable hands an ICMP error to the visit whose request it quotes.
func (c *Client) unreachable(to netip.AddrPort, quoted []byte, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.active[to]
	if e == nil || len(quoted) < 4 || binary.BigEndian.Uint16(quoted[2:]) != e.mid {
		return
	}
	c.count.unreachable.Add(1)
	if len(e.inbox) < cap(e.inbox) {
		e.inbox <- event{icmp: err}
	}
}

// reply sends an empty ACK or RST. Its loss is repaired by the sensor.
func (c *Client) reply(s *socket, to netip.AddrPort, typ message.Type, mid uint16) {
	b := [4]byte{1<<6 | byte(typ)<<4, byte(codes.Empty), byte(mid >> 8), byte(mid)}
	_ = c.write(s, to, b[:])
}

// write sends one datagram. The kernel may report an error that an earlier
// datagram to someone else has met, and then sends nothing: so it is tried again.
func (c *Client) write(s *socket, to netip.AddrPort, b []byte) (err error) {
	for range 3 {
		if _, err = s.conn.WriteToUDPAddrPort(b, to); err == nil {
			c.count.sent.Add(1)
			return nil
		}
		c.drainErrors(s)
	}
	return err
}
