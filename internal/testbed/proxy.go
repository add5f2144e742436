package testbed

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// heldBack is by how much a datagram is late that others are to overtake: more
// than a round trip on loopback.
const heldBack = 5 * time.Millisecond

// Air is what one direction of a network does to datagrams. The zero value
// delivers each at once. Shares lie in 0 .. 1.
type Air struct {
	Loss      float64       // share that never arrives
	Duplicate float64       // share that arrives twice
	Reorder   float64       // share that is held back, so that later ones come first
	Delay     time.Duration // of every datagram
	Spike     float64       // share that takes up to SpikeDelay longer
	// SpikeDelay is the longest spike; each is drawn uniformly.
	SpikeDelay time.Duration
}

func (a Air) check() error {
	for _, share := range []float64{a.Loss, a.Duplicate, a.Reorder, a.Spike} {
		if !(share >= 0 && share <= 1) {
			return fmt.Errorf("share %v: must lie in 0 .. 1", share)
		}
	}
	if a.Delay < 0 || a.SpikeDelay < 0 {
		return fmt.Errorf("delay %v, spike %v: must not be negative", a.Delay, a.SpikeDelay)
	}
	return nil
}

// Passed counts datagrams of one direction. Each that came in is lost, or goes out
// once, or twice if it is duplicated.
type Passed struct{ In, Lost, Duplicated, Reordered, Spiked, Out int }

// Proxy is a UDP port of 127.0.0.1 that stands for one sensor behind a bad network.
// Every client gets a port of its own towards the sensor, so that the sensor can
// tell them apart. Any number of clients may use it at once.
//
// The n-th datagram of a direction meets a fate that follows from the seed and n
// alone. Which datagram is the n-th is the wire's choice where clients share a Proxy
// or where datagrams cross.
type Proxy struct {
	front *net.UDPConn // towards the clients
	to    netip.AddrPort
	done  sync.WaitGroup

	mu       sync.Mutex // guards what follows
	up, down lane
	clients  map[netip.AddrPort]*net.UDPConn
	late     map[*time.Timer]bool // datagrams on their way
	closed   bool
}

// lane is one direction.
type lane struct {
	air  Air
	rng  *rand.Rand
	seen Passed
}

// NewProxy opens a proxy for the sensor at to, with up towards it and down from it.
// It returns an error for an Air out of range.
func NewProxy(seed uint64, to netip.AddrPort, up, down Air) (*Proxy, error) {
	if err := errors.Join(up.check(), down.check()); err != nil {
		return nil, fmt.Errorf("testbed: proxy for %v: %w", to, err)
	}
	front, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, fmt.Errorf("testbed: proxy for %v: %w", to, err)
	}
	p := &Proxy{
		front: front, to: to,
		up:      lane{air: up, rng: rand.New(rand.NewPCG(seed, 1))},
		down:    lane{air: down, rng: rand.New(rand.NewPCG(seed, 2))},
		clients: map[netip.AddrPort]*net.UDPConn{},
		late:    map[*time.Timer]bool{},
	}
	p.done.Go(p.serve)
	return p, nil
}

// Addr is where clients find the sensor.
func (p *Proxy) Addr() netip.AddrPort { return addrOf(p.front) }

// Counts returns what has passed so far towards the sensor and from it.
func (p *Proxy) Counts() (up, down Passed) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.up.seen, p.down.seen
}

// Close ends the proxy; datagrams on their way are dropped. Closing twice does
// nothing.
func (p *Proxy) Close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil
	}
	p.closed = true
	errs := []error{p.front.Close()}
	for _, c := range p.clients {
		errs = append(errs, c.Close())
	}
	for t := range p.late {
		t.Stop()
	}
	p.mu.Unlock()
	p.done.Wait()
	return errors.Join(errs...)
}

// serve carries what clients send to the sensor.
func (p *Proxy) serve() {
	p.carry(p.front, func(b []byte, from netip.AddrPort) {
		if c := p.client(from); c != nil {
			p.pass(&p.up, b, func(b []byte) { _, _ = c.Write(b) })
		}
	})
}

// client returns the port that stands for a client towards the sensor, nil if there
// can be none.
func (p *Proxy) client(from netip.AddrPort) *net.UDPConn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c := p.clients[from]; c != nil || p.closed {
		return c
	}
	c, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(p.to))
	if err != nil {
		return nil
	}
	p.clients[from] = c
	p.done.Go(func() {
		p.carry(c, func(b []byte, _ netip.AddrPort) {
			p.pass(&p.down, b, func(b []byte) { _, _ = p.front.WriteToUDPAddrPort(b, from) })
		})
	})
	return c
}

// carry hands on what a socket receives until it is closed. Other errors are ICMP's.
func (p *Proxy) carry(conn *net.UDPConn, hand func(b []byte, from netip.AddrPort)) {
	b := make([]byte, 64<<10)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(b)
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil:
			hand(b[:n], netip.AddrPortFrom(from.Addr().Unmap(), from.Port()))
		}
	}
}

// pass lets a datagram meet its fate.
func (p *Proxy) pass(l *lane, b []byte, send func(b []byte)) {
	p.mu.Lock()
	copies, wait := l.fate()
	if wait > 0 && copies > 0 {
		p.after(wait, repeated(copies, slices.Clone(b), send)) // the reader goes on
		copies = 0
	}
	p.mu.Unlock()
	repeated(copies, b, send)()
}

func repeated(copies int, b []byte, send func(b []byte)) func() {
	return func() {
		for range copies {
			send(b)
		}
	}
}

// after does something later unless the proxy is closed first. It is called with mu
// held.
func (p *Proxy) after(wait time.Duration, do func()) {
	if p.closed {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(wait, func() {
		p.mu.Lock()
		delete(p.late, t)
		closed := p.closed
		p.mu.Unlock()
		if !closed {
			do()
		}
	})
	p.late[t] = true
}

// fate draws how many copies of the next datagram arrive, and how late. It takes
// the same number of draws whatever comes of them.
func (l *lane) fate() (copies int, wait time.Duration) {
	lost, twice := l.rng.Float64() < l.air.Loss, l.rng.Float64() < l.air.Duplicate
	held, spike := l.rng.Float64() < l.air.Reorder, l.rng.Float64() < l.air.Spike
	long := l.rng.Float64()
	l.seen.In++
	if lost {
		l.seen.Lost++
		return 0, 0
	}
	copies, wait = 1, l.air.Delay
	if twice {
		copies++
		l.seen.Duplicated++
	}
	if held {
		wait += heldBack
		l.seen.Reordered++
	}
	if spike {
		wait += time.Duration(long * float64(l.air.SpikeDelay))
		l.seen.Spiked++
	}
	l.seen.Out += copies
	return copies, wait
}
