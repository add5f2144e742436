package directory

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

const (
	// exchangeLifetime is how long a Message ID means the same exchange (RFC 7252 section
	// 4.8.2).
	exchangeLifetime = 247 * time.Second
	// maxExchanges bounds the answers kept for requests that come again, of at most a
	// kilobyte or so each.
	maxExchanges = 16384
	// maxHandlers bounds the requests that are worked on at once; of more the datagram is
	// dropped, as a full socket would, and the client sends again.
	maxHandlers = 64
	// maxKeptBody bounds the long answers that are kept for their later blocks.
	maxKeptBody = 1 << 20
	keptBodies  = 16
	bodyLife    = 30 * time.Second
	// patience bounds a handler, below the time after which a client has given up
	// (MAX_TRANSMIT_WAIT, RFC 7252 section 4.8.2).
	patience = 30 * time.Second
)

// Options are the parts of a directory. All are needed but Metrics.
type Options struct {
	Listen          []string       // host:port, CoAP over UDP
	Networks        []netip.Prefix // of clients, endpoints and bases
	DefaultLifetime time.Duration  // of a registration without lt
	Log             *zap.Logger
	Metrics         prometheus.Registerer // nil: none are kept

	// Register takes a registration in, or renews the one of the same endpoint and sector,
	// and returns its number once it is durable.
	Register func(ctx context.Context, r Registering) (number uint64, err error)
	// Update renews a registration.
	Update func(ctx context.Context, u Updating) error
	// Remove ends a registration.
	Remove func(ctx context.Context, number uint64, source netip.Addr) error
	// Announce has the endpoint's sensor crawled at once and returns when its description is
	// stored, or with why there is none.
	Announce func(ctx context.Context, number uint64) error
	// Lookup finds what matches.
	Lookup Lookup
}

// Errors of the funcs of Options, told to clients by their codes. Others are 5.00.
var (
	ErrUnknown   = errors.New("no such registration")                  // 4.04
	ErrForbidden = errors.New("not for this address")                  // 4.03
	ErrFull      = errors.New("the directory is full")                 // 5.03
	ErrBusy      = errors.New("not now")                               // 5.03
	ErrTooMany   = errors.New("more matches than one answer can hold") // 4.00
)

// Server is a directory that listens.
type Server struct {
	o       Options
	conns   []*net.UDPConn
	gate    *gate
	metrics metrics
	slots   chan struct{}
	running sync.WaitGroup

	mu        sync.Mutex // guards what follows
	exchanges *table[exchange, []byte]
	gathering *table[transfer, []byte]
	bodies    *table[transfer, []byte]
	mid       uint16
}

// exchange identifies a message for the detection of duplicates (RFC 7252 section 4.5). Its
// answer is nil while it is worked on, and for a request that gets none.
type exchange struct {
	peer netip.AddrPort
	mid  uint16
}

// transfer identifies a request that is sent, or an answer that is read, in blocks. Clients
// may use another token for every block.
type transfer struct {
	peer    netip.AddrPort
	code    codes.Code
	request string // path and queries
}

// New opens the sockets. On an error nothing stays open.
func New(o Options) (*Server, error) {
	s := &Server{o: o, gate: newGate(), slots: make(chan struct{}, maxHandlers),
		exchanges: newTable[exchange, []byte](exchangeLifetime, maxExchanges),
		gathering: newTable[transfer, []byte](time.Minute, maxHandlers),
		bodies:    newTable[transfer, []byte](bodyLife, keptBodies)}
	s.metrics.register(o.Metrics)
	for _, address := range o.Listen {
		conn, err := listen(address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("directory.listen: %w", err), s.Close())
		}
		s.conns = append(s.conns, conn)
	}
	return s, nil
}

func listen(address string) (*net.UDPConn, error) {
	at, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	return net.ListenUDP("udp", at)
}

// Addrs are the addresses of the sockets, in the order of Options.Listen.
func (s *Server) Addrs() []netip.AddrPort {
	var all []netip.AddrPort
	for _, c := range s.conns {
		all = append(all, c.LocalAddr().(*net.UDPAddr).AddrPort())
	}
	return all
}

// Close closes the sockets. Run then ends.
func (s *Server) Close() error {
	var errs []error
	for _, c := range s.conns {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Run answers until ctx ends or the sockets are closed. Handlers that run then end with ctx.
func (s *Server) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	errs := make([]error, len(s.conns))
	var readers sync.WaitGroup
	for i, conn := range s.conns {
		readers.Go(func() { errs[i] = s.read(ctx, conn) })
	}
	readers.Wait()
	cancel()
	s.running.Wait()
	return errors.Join(errs...)
}

func (s *Server) read(ctx context.Context, conn *net.UDPConn) error {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			// The echo of an answer that its peer did not want (ICMP); the next read is
			// not affected, and a socket that is broken for good is closed by its owner.
			s.o.Log.Debug("directory: read", zap.Error(err))
			if ctx.Err() != nil {
				return nil
			}
			continue
		}
		peer := netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		s.receive(ctx, buf[:n], peer, func(datagram []byte) {
			_, err := conn.WriteToUDPAddrPort(datagram, from)
			if err != nil {
				s.o.Log.Debug("directory: write", zap.Error(err))
			}
		})
	}
}

// receive takes one datagram. The policy comes first, before anything is remembered.
func (s *Server) receive(ctx context.Context, datagram []byte, peer netip.AddrPort,
	send func([]byte)) {
	now := time.Now()
	if !contains(s.o.Networks, peer.Addr()) || !s.gate.mayAsk(peer.Addr(), now) {
		s.metrics.count("", codeDropped)
		return
	}
	r, ok := readRequest(datagram)
	switch {
	case !ok || r.typ == message.Acknowledgement || r.typ == message.Reset:
		return
	case r.empty():
		if r.typ == message.Confirmable {
			send(reset(r.mid)) // a ping (RFC 7252 section 4.3)
		}
		return
	case r.code >= 1<<5: // a response, which nobody asked for
		return
	}
	key := exchange{peer, r.mid}
	if known, again := s.seen(key, now); again {
		if known != nil {
			send(known)
		}
		return
	}
	select {
	case s.slots <- struct{}{}:
	default:
		s.forget(key)
		s.metrics.count(r.path, codeDropped)
		return
	}
	s.running.Go(func() {
		defer func() { <-s.slots }()
		bound, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		send(s.settle(key, s.handle(bound, r, peer, now), now))
	})
}

// seen tells whether the message has come before, with its answer if that has been made, and
// remembers it from now on.
func (s *Server) seen(key exchange, now time.Time) (answer []byte, again bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if answer, again = s.exchanges.get(key, now); !again {
		s.exchanges.put(key, nil, now)
	}
	return answer, again
}

func (s *Server) forget(key exchange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exchanges.remove(key)
}

// settle keeps the answer for a request that comes again, and returns it.
func (s *Server) settle(key exchange, datagram []byte, now time.Time) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.exchanges.put(key, datagram, now)
	return datagram
}

func (s *Server) nextMID() uint16 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mid++
	return s.mid
}

// handle makes the datagram that answers a request.
func (s *Server) handle(ctx context.Context, r *request, peer netip.AddrPort,
	now time.Time) []byte {
	proven := s.gate.proves(peer.Addr(), r.echo, now)
	a := s.respond(ctx, r, peer, proven, now)
	datagram := a.datagram(r, s.nextMID())
	if limit := amplification * r.length; !proven && len(datagram) > limit {
		switch {
		case a.code>>5 == 2:
			a = s.challenge(peer, now)
		default:
			a.body = nil // the code says it too
		}
		if datagram = a.datagram(r, s.nextMID()); len(datagram) > limit {
			a = done(a.code)
			datagram = a.datagram(r, s.nextMID())
		}
	}
	s.metrics.count(r.path, dotted(a.code))
	return datagram
}

// challenge asks the sender to prove that it receives what is sent to its address.
func (s *Server) challenge(peer netip.AddrPort, now time.Time) answer {
	a := done(codes.Unauthorized)
	a.echo = s.gate.echo(peer.Addr(), now)
	return a
}

// respond does what every request has in common: options, blocks, and what is kept of them.
func (s *Server) respond(ctx context.Context, r *request, peer netip.AddrPort, proven bool,
	now time.Time) answer {
	switch {
	case r.bad != "":
		return say(codes.BadOption, "%s", r.bad)
	case r.proxy:
		return say(codes.ProxyingNotSupported, "this is no proxy")
	}
	key := transfer{peer, r.code, r.path + "\x00" + r.raw}
	if r.block2 != nil && r.block2.num > 0 {
		s.mu.Lock()
		body, kept := s.bodies.get(key, now)
		s.mu.Unlock()
		if kept {
			return block2(links(body), r)
		}
	}
	h, a := s.route(r)
	if h == nil {
		return a
	}
	if h.changes {
		if a, stop := s.admit(r, peer, proven, now); stop {
			return a
		}
	}
	var last *block
	if r.block1 != nil {
		whole, a := s.gather(r, key, now)
		if whole == nil {
			return a
		}
		r.payload, last = whole, r.block1
	}
	if len(r.payload) > maxPayload {
		return tooLarge()
	}
	a = h.serve(ctx, r, peer, now)
	a.block1 = last
	if a.code == codes.Content && len(a.body) > 16 && len(a.body) <= maxKeptBody {
		s.mu.Lock()
		s.bodies.put(key, a.body, now)
		s.mu.Unlock()
	}
	return block2(a, r)
}

// admit holds what changes something to a proven address and its pace. Of a request in
// blocks only the first counts.
func (s *Server) admit(r *request, peer netip.AddrPort, proven bool, now time.Time) (answer, bool) {
	if !proven {
		return s.challenge(peer, now), true
	}
	if r.block1 != nil && r.block1.num > 0 {
		return answer{}, false
	}
	if !s.gate.mayRegister(peer.Addr(), now) {
		a := say(tooManyRequests, "too many registrations from this address")
		a.maxAge = 10
		return a, true
	}
	return answer{}, false
}

func block2(a answer, r *request) answer {
	if a.beyond(r) {
		return say(codes.BadRequest, "Block2: the answer has %d bytes", len(a.body))
	}
	return a
}

func tooLarge() answer {
	a := say(codes.RequestEntityTooLarge, "payload: at most %d bytes", maxPayload)
	a.size1 = maxPayload
	return a
}

// gather puts a payload together that is sent in blocks (RFC 7959 section 2.5). It returns
// the whole, or nil and what to answer meanwhile.
func (s *Server) gather(r *request, key transfer, now time.Time) ([]byte, answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var have []byte
	if r.block1.num > 0 {
		var ok bool
		have, ok = s.gathering.get(key, now)
		if !ok || len(have) != r.block1.num*r.block1.size() {
			return nil, say(codes.RequestEntityIncomplete, "Block1: begin again at block 0")
		}
	}
	switch {
	case r.block1.more && len(r.payload) != r.block1.size() || len(r.payload) > r.block1.size():
		s.gathering.remove(key)
		return nil, say(codes.BadRequest, "Block1: a block of %d bytes where its option says %d",
			len(r.payload), r.block1.size())
	case len(have)+len(r.payload) > maxPayload:
		s.gathering.remove(key)
		return nil, tooLarge()
	}
	whole := append(slices.Clip(have), r.payload...)
	if !r.block1.more {
		s.gathering.remove(key)
		return whole, answer{}
	}
	s.gathering.put(key, whole, now)
	a := done(codes.Continue)
	a.block1 = r.block1
	return nil, a
}

func contains(networks []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool {
		return p.Contains(a.WithZone(""))
	})
}
