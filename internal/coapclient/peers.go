package coapclient

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"net/netip"
	"slices"
	"time"
)

const (
	// exchangeLifetime is EXCHANGE_LIFETIME of RFC 7252 section 4.8.2: for so
	// long a Message ID must not be used again towards the same address.
	exchangeLifetime = 247

	// epochLead keeps second 0 of the peers' clock outside every lifetime, so
	// that 0 can stand for "never".
	epochLead = 1000 * time.Second

	sweepEvery = 31 * time.Second

	// maxLate bounds the ACKs that one address can draw from us after its visit:
	// MAX_RETRANSMIT and as many copies of the last response.
	maxLate = 8
)

// peer is what must outlive a visit: which Message IDs are taken, and the token
// by which a late confirmable response is known. Times are in seconds of the
// client's peer clock.
type peer struct {
	token uint64
	left  [2]uint32 // when each half of the Message ID space was last left
	last  uint32    // last datagram sent
	next  uint16    // next Message ID
	late  uint8     // late responses acknowledged
}

// take reserves a Message ID. It fails if that could be one used within the
// last EXCHANGE_LIFETIME, which takes more than 2^15 datagrams in 247 s.
func (p *peer) take(now uint32) (uint16, bool) {
	mid := p.next
	half := mid >> 15
	if mid&0x7fff == 0 && now <= p.left[half]+exchangeLifetime {
		return 0, false
	}
	p.next++
	if p.next>>15 != half {
		p.left[half] = now
	}
	p.last = now
	return mid, true
}

func (c *Client) second(now time.Time) uint32 { return uint32(now.Sub(c.epoch) / time.Second) }

// randomUint64 feeds tokens: RFC 7252 section 5.3.1 wants them unguessable, as
// they are all that tells a response from a forged one.
func randomUint64() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails, see its documentation
	return binary.BigEndian.Uint64(b[:])
}

// sweep forgets peers and names whose time is over, and keeps itself running
// for as long as there is anything left to forget.
func (c *Client) sweep(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	second := c.second(now)
	c.peak = max(c.peak, len(c.peers))
	for k, p := range c.peers {
		if p.last+exchangeLifetime < second {
			delete(c.peers, k)
		}
	}
	if len(c.peers) <= c.peak/4 { // a map never gives memory back by itself
		kept := make(map[netip.AddrPort]peer, len(c.peers))
		for k, p := range c.peers {
			kept[k] = p
		}
		c.peers, c.peak = kept, len(kept)
	}
	for name, r := range c.names {
		if now.After(r.expires) {
			delete(c.names, name)
		}
	}
	c.sweeper = nil
	if len(c.peers) > 0 || len(c.names) > 0 {
		c.armSweeper()
	}
}

// armSweeper must be called with mu held, after an entry was added.
func (c *Client) armSweeper() {
	select {
	case <-c.closed:
		return
	default:
	}
	if c.sweeper == nil {
		c.sweeper = time.AfterFunc(sweepEvery, func() { c.sweep(time.Now()) })
	}
}

// gate lets at most limit visits per key pass at once; the others queue.
type gate[K comparable] struct {
	limit int
	seats map[K]seat
}

type seat struct {
	used  int
	queue []chan struct{} // each is closed when its seat is granted
}

func newGate[K comparable](limit int) gate[K] { return gate[K]{limit, map[K]seat{}} }

// take returns nil if the seat is granted, else a channel that tells when.
func (g *gate[K]) take(k K) chan struct{} {
	s := g.seats[k]
	if s.used < g.limit {
		s.used++
		g.seats[k] = s
		return nil
	}
	turn := make(chan struct{})
	s.queue = append(s.queue, turn)
	g.seats[k] = s
	return turn
}

// give returns a seat, which passes to the longest waiting visit.
func (g *gate[K]) give(k K) {
	s := g.seats[k]
	if len(s.queue) > 0 {
		close(s.queue[0])
		s.queue = slices.Delete(s.queue, 0, 1)
		g.seats[k] = s
		return
	}
	if s.used--; s.used == 0 {
		delete(g.seats, k)
		return
	}
	g.seats[k] = s
}

// abandon leaves the queue, or returns the seat if it was granted meanwhile.
func (g *gate[K]) abandon(k K, turn chan struct{}) {
	s := g.seats[k]
	if i := slices.Index(s.queue, turn); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
		g.seats[k] = s
		return
	}
	g.give(k)
}

// enter takes a seat at the sensor, its host and its subnet, in this order for
// everyone, so that two visits never wait for each other.
func (c *Client) enter(ctx context.Context, p netip.AddrPort, deadline time.Time) *failure {
	host, subnet := p.Addr(), subnetOf(p.Addr())
	f := pass(ctx, c, &c.sensors, p, deadline)
	if f != nil {
		return f
	}
	if f = pass(ctx, c, &c.hosts, host, deadline); f == nil {
		if f = pass(ctx, c, &c.subnets, subnet, deadline); f == nil {
			return nil
		}
		giveBack(c, &c.hosts, host)
	}
	giveBack(c, &c.sensors, p)
	return f
}

func (c *Client) leave(p netip.AddrPort) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.subnets.give(subnetOf(p.Addr()))
	c.hosts.give(p.Addr())
	c.sensors.give(p)
}

func giveBack[K comparable](c *Client, g *gate[K], k K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g.give(k)
}

func pass[K comparable](
	ctx context.Context, c *Client, g *gate[K], k K, deadline time.Time,
) *failure {
	c.mu.Lock()
	turn := g.take(k)
	c.mu.Unlock()
	if turn == nil {
		return nil
	}
	timer := time.NewTimer(time.Until(deadline))
	defer timer.Stop()
	f := failf(ReasonDeadline, "no turn at %v before the deadline: other visits hold it", k)
	select {
	case <-turn:
		return nil
	case <-timer.C:
	case <-ctx.Done():
		f = stopped(ctx)
	case <-c.closed:
		f = errClosed()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	g.abandon(k, turn)
	return f
}

func subnetOf(a netip.Addr) netip.Prefix {
	bits := 24
	if a.Is6() {
		bits = 64
	}
	p, _ := a.WithZone("").Prefix(bits) // bits fit both families
	return p
}
