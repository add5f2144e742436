package testbed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"sync"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/udp/coder"
	"golang.org/x/net/ipv4"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/linkformat"
)

// MaxCrowd is the most sensors of a Crowd: their addresses begin at 127.1.0.1.
const MaxCrowd = 1 << 20

// crowdChange is how many visits to a sensor of a Crowd find the same description.
const crowdChange = 4

// Crowd is many sensors behind one socket, told apart by their addresses in 127.0.0.0/8: for
// loads where a socket each would cost a descriptor each. They never sleep, lose or misbehave,
// answer a GET of fleet.DefaultPath at once, and have a new description every fourth time. All
// methods may be called at any time from any goroutine.
//
// It needs a system that has all of 127.0.0.0/8 on loopback and IP_PKTINFO, as Linux does.
type Crowd struct {
	conn *ipv4.PacketConn
	port uint16
	done chan struct{} // closed when the reader has ended

	mu      sync.Mutex // guards what follows
	members []member
	strange int // datagrams that were no GET of a description
}

// member is one sensor of a Crowd. It remembers its last exchange only: a client has one at a
// time with a sensor (NSTART, RFC 7252 4.7).
type member struct {
	requests, repeats int
	last              exchange
	answer            []byte
}

// NewCrowd opens a port for n sensors, 1 .. MaxCrowd, and serves at once.
func NewCrowd(n int) (*Crowd, error) {
	if n < 1 || n > MaxCrowd {
		return nil, fmt.Errorf("testbed: a crowd of %d: must lie in 1 .. %d", n, MaxCrowd)
	}
	socket, err := net.ListenUDP("udp4", nil)
	if err != nil {
		return nil, fmt.Errorf("testbed: %w", err)
	}
	c := &Crowd{conn: ipv4.NewPacketConn(socket), port: addrOf(socket).Port(),
		done: make(chan struct{}), members: make([]member, n)}
	err = errors.Join(c.conn.SetControlMessage(ipv4.FlagDst, true), socket.SetReadBuffer(4<<20))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("testbed: %w", err), socket.Close())
	}
	go c.run()
	return c, nil
}

// crowdBase is the address before that of the first sensor.
const crowdBase = 127<<24 | 1<<16

// URI is the address of sensor i, 0 .. n-1.
func (c *Crowd) URI(i int) string {
	var ip [4]byte
	binary.BigEndian.PutUint32(ip[:], uint32(crowdBase+1+i))
	at := netip.AddrPortFrom(netip.AddrFrom4(ip), c.port)
	return fleet.SchemeUDP + "://" + at.String() + fleet.DefaultPath
}

// Requests returns how many exchanges each sensor has had. A request that came again is none.
func (c *Crowd) Requests() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := make([]int, len(c.members))
	for i := range c.members {
		all[i] = c.members[i].requests
	}
	return all
}

// Repeats is how many requests came again, and how many datagrams were no request for a
// description.
func (c *Crowd) Repeats() (repeats, strange int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.members {
		repeats += c.members[i].repeats
	}
	return repeats, c.strange
}

// Close ends the sensors and waits for their goroutine.
func (c *Crowd) Close() error {
	err := c.conn.Close()
	<-c.done
	return err
}

func (c *Crowd) run() {
	defer close(c.done)
	buf := make([]byte, 4096)
	for {
		n, control, from, err := c.conn.ReadFrom(buf)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil || control == nil {
			continue // the echo of an answer that its peer did not want (ICMP)
		}
		peer := from.(*net.UDPAddr).AddrPort()
		if answer := c.receive(buf[:n], control.Dst, peer); answer != nil {
			// Its loss is a datagram's: the client asks again.
			_, _ = c.conn.WriteTo(answer, &ipv4.ControlMessage{Src: control.Dst}, from)
		}
	}
}

// receive takes a datagram for one of the sensors and returns what that says to it.
func (c *Crowd) receive(datagram []byte, to net.IP, from netip.AddrPort) []byte {
	m := message.Message{Options: make(message.Options, 0, 16)}
	_, err := coder.DefaultCoder.Decode(datagram, &m)
	a := parse(m, from)
	c.mu.Lock()
	defer c.mu.Unlock()
	i := -1
	if ip := to.To4(); ip != nil {
		i = int(binary.BigEndian.Uint32(ip)) - crowdBase - 1
	}
	if err != nil || i < 0 || i >= len(c.members) || a.kind() != KindGet ||
		a.path != fleet.DefaultPath {
		c.strange++
		return nil
	}
	s, key := &c.members[i], exchange{a.peer, a.mid}
	if s.last == key && s.answer != nil {
		s.repeats++
		return s.answer
	}
	s.answer, s.last = describeMember(a, i, s.requests/crowdChange), key
	s.requests++
	return s.answer
}

// describeMember answers with a sensor's description of that number, or that it is still the
// one that the client has.
func describeMember(a ask, i, version int) []byte {
	tag := binary.BigEndian.AppendUint32(nil, uint32(version))
	m := message.Message{Type: message.Acknowledgement, MessageID: int32(a.mid),
		Token: []byte(a.token), Code: codes.Valid,
		Options: message.Options{{ID: message.ETag, Value: tag}}}
	if a.typ == message.NonConfirmable {
		m.Type = message.NonConfirmable
	}
	for _, t := range a.etags {
		if bytes.Equal(t, tag) {
			return encode(m)
		}
	}
	m.Code = codes.Content
	m.Options = append(m.Options, number(message.ContentFormat, LinkFormat))
	attr := func(name, value string) linkformat.Attr {
		return linkformat.Attr{Name: name, Value: value, HasValue: true, Quoted: true}
	}
	m.Payload = linkformat.Format([]linkformat.Link{{Target: "/s/temp", Attrs: []linkformat.Attr{
		attr("rt", "temperature-c"), attr("title", "member "+strconv.Itoa(i)),
		attr("ver", strconv.Itoa(version))}}})
	return encode(m)
}
