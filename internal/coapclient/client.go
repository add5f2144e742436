package coapclient

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// MaxVisit is the longest a visit lasts: MAX_TRANSMIT_WAIT of RFC 7252 section
// 4.8.2 with default parameters.
const MaxVisit = 93 * time.Second

// Client fetches descriptions. It is safe for concurrent use.
type Client struct {
	opts   Options
	v4, v6 []*socket
	closed chan struct{}
	once   sync.Once
	reads  sync.WaitGroup
	epoch  time.Time // origin of the peers' clock

	credentials atomic.Pointer[map[string]*Credential]
	handshakes  chan struct{} // one token for each that runs

	count counters

	exchanges sync.Pool // *exchange, not in any table
	buffers   sync.Pool // *buffer

	mu      sync.Mutex // guards everything below; held for map look-ups and one copy
	active  map[netip.AddrPort]*exchange
	peers   map[netip.AddrPort]peer
	peak    int         // most peers since the table was last rebuilt
	sweeper *time.Timer // runs only while peers or names is not empty
	names   map[string]resolved
	sensors gate[netip.AddrPort]
	hosts   gate[netip.Addr]
	subnets gate[netip.Prefix]
}

// New opens the sockets and starts one reader for each. A family that the
// machine does not have is left out; it is an error only if neither opens.
func New(o Options) (*Client, error) {
	o, err := o.check()
	if err != nil {
		return nil, err
	}
	c := &Client{
		opts:   o,
		closed: make(chan struct{}),
		epoch:  time.Now().Add(-epochLead),

		handshakes: make(chan struct{}, maxHandshakes),

		active:  map[netip.AddrPort]*exchange{},
		peers:   map[netip.AddrPort]peer{},
		names:   map[string]resolved{},
		sensors: newGate[netip.AddrPort](1), // NSTART
		hosts:   newGate[netip.Addr](o.Limits.PerHost),
		subnets: newGate[netip.Prefix](o.Limits.PerSubnet),
	}
	c.SetCredentials(o.Credentials)
	c.exchanges.New = func() any { return newExchange(c) }
	c.buffers.New = func() any { return new(buffer) }
	if err := c.open(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close ends the running visits, which return as cancelled, and the readers.
func (c *Client) Close() error {
	var errs []error
	c.once.Do(func() {
		close(c.closed)
		c.mu.Lock()
		if c.sweeper != nil {
			c.sweeper.Stop()
		}
		c.mu.Unlock()
		for _, s := range append(c.v4, c.v6...) {
			errs = append(errs, s.conn.Close())
		}
		c.reads.Wait()
	})
	return errors.Join(errs...)
}

// Fetch makes the visit v and tells what became of it. It ends by v.Deadline,
// at most MaxVisit after its start, or when ctx is done. It waits for its turn
// while another visit to the same sensor runs or its host or subnet is full.
func (c *Client) Fetch(ctx context.Context, v visit.Visit) visit.Outcome {
	out := visit.Outcome{Visit: v, Format: -1, Started: time.Now()}
	deadline := out.Started.Add(MaxVisit)
	if !v.Deadline.IsZero() && v.Deadline.Before(deadline) {
		deadline = out.Started.Add(v.Deadline.Sub(out.Started))
	}
	t, f := parseTarget(v.URI)
	var peer netip.AddrPort
	if f == nil {
		peer, f = c.resolve(ctx, t, deadline)
	}
	if f == nil {
		f = c.enter(ctx, peer, deadline)
	}
	if f != nil {
		return settle(out, nil, f)
	}
	defer c.leave(peer)
	e, f := c.begin(peer, t, v, time.Now(), deadline)
	if f != nil {
		return settle(out, nil, f)
	}
	defer c.end(e)
	doc, f := e.meet(ctx)
	e.account(&out)
	return settle(out, doc, f)
}

// Stats are counts since New, in datagrams.
type Stats struct {
	Sent        uint64 // handed to the kernel
	Received    uint64 // read from the sockets
	Strangers   uint64 // from an address without a running visit
	Unasked     uint64 // requests and pings at us; never answered
	Garbage     uint64 // from a sensor under visit, not CoAP
	WrongToken  uint64 // response whose token is not the running visit's
	WrongMID    uint64 // ACK or RST whose Message ID is not the running request's
	Duplicates  uint64 // response that was taken before
	Late        uint64 // confirmable response after its visit, acknowledged
	Overflow    uint64 // inbox of a visit full
	Unreachable uint64 // ICMP errors that named a running visit
	KernelDrops uint64 // lost in the sockets' buffers (Linux)
	Active      int    // visits running now
	Peers       int    // sensors remembered for their Message IDs
	NamesCached int    // resolved names
	Handshakes  uint64 // DTLS and TLS handshakes begun
	Denied      uint64 // of them, those that ended for want of trust: ReasonAuth
	Resumed     uint64 // visits under a Connection ID, without a handshake
	ReadBuffer  int    // bytes of SO_RCVBUF that the kernel granted, smallest socket (Linux)
}

type counters struct {
	sent, received, strangers, unasked, garbage, wrongToken, wrongMID atomic.Uint64
	duplicates, late, overflow, unreachable                           atomic.Uint64
	handshakes, denied, resumed                                       atomic.Uint64
}

// Stats reads the counters; they are not one consistent cut.
func (c *Client) Stats() Stats {
	n := &c.count
	s := Stats{
		Sent: n.sent.Load(), Received: n.received.Load(), Strangers: n.strangers.Load(),
		Unasked: n.unasked.Load(), Garbage: n.garbage.Load(), WrongToken: n.wrongToken.Load(),
		WrongMID: n.wrongMID.Load(), Duplicates: n.duplicates.Load(), Late: n.late.Load(),
		Overflow: n.overflow.Load(), Unreachable: n.unreachable.Load(),
		Handshakes: n.handshakes.Load(), Denied: n.denied.Load(), Resumed: n.resumed.Load(),
	}
	for i, sock := range append(c.v4[:len(c.v4):len(c.v4)], c.v6...) {
		drops, size := sock.kernel()
		s.KernelDrops += drops
		if i == 0 || size < s.ReadBuffer {
			s.ReadBuffer = size
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Active, s.Peers, s.NamesCached = len(c.active), len(c.peers), len(c.names)
	return s
}
