package testbed

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/udp/coder"
)

// exchangeLifetime is how long a Message ID means the same exchange
// (EXCHANGE_LIFETIME, RFC 7252 4.8.2).
const exchangeLifetime = 247 * time.Second

// endpoint is a running sensor's socket and all that its message layer
// remembers. One goroutine owns it; what is due later waits in a list and bounds
// the next read, so there is no timer and nothing to wait for but that goroutine.
type endpoint struct {
	s    *Sensor
	conn radio
	done chan struct{} // closed when the goroutine has ended

	due       []task // ascending by instant
	exchanges map[exchange]*reply
	ageing    []*reply            // of exchanges, oldest first
	separate  map[exchange]*reply // unacknowledged CONs of ours
	transfers []transfer          // the newest ones, newest last
	nextMID   uint16
	flips     int          // ETags made up by FaultFlip
	asking    *registering // nil: no registration is under way

	mode       Mode   // its script is nil for a sensor without one
	requests   int    // that the script has seen
	stuckToken string // of the transfer that stuckConfirmable repeats
}

// task is something to do at an instant.
type task struct {
	at time.Time
	do func(now time.Time)
}

// exchange identifies a message for the detection of duplicates (RFC 7252 4.5).
type exchange struct {
	peer netip.AddrPort
	mid  uint16
}

func newEndpoint(s *Sensor, conn radio) *endpoint {
	e := &endpoint{
		s:         s,
		conn:      conn,
		done:      make(chan struct{}),
		exchanges: map[exchange]*reply{},
		separate:  map[exchange]*reply{},
		nextMID:   uint16(s.loss.Uint32()),
	}
	e.mode, _ = scripted(s.spec.Fault)
	e.wake(clock())
	go e.run()
	return e
}

// stop closes the socket and waits until the goroutine has ended.
func (e *endpoint) stop() error {
	err := e.conn.Close()
	<-e.done
	return err
}

func (e *endpoint) run() {
	defer close(e.done)
	buf := make([]byte, 4096) // requests are far shorter than answers
	for {
		var wake time.Time
		if len(e.due) > 0 {
			wake = e.due[0].at
		}
		err := e.conn.SetReadDeadline(wake)
		var n int
		var from netip.AddrPort
		if err == nil {
			n, from, err = e.conn.ReadFromUDPAddrPort(buf)
		}
		now := clock()
		if errors.Is(err, net.ErrClosed) {
			e.abandon()
			return
		}
		if err == nil {
			e.receive(buf[:n], netip.AddrPortFrom(from.Addr().Unmap(), from.Port()), now)
		}
		// Other errors than a deadline are the echo of an answer that its peer
		// did not want (ICMP); the next read is not affected.
		for len(e.due) > 0 && !e.due[0].at.After(now) {
			next := e.due[0]
			e.due = e.due[1:]
			next.do(now)
		}
	}
}

func (e *endpoint) later(at time.Time, do func(now time.Time)) {
	i, _ := slices.BinarySearchFunc(e.due, at, func(t task, at time.Time) int {
		if t.at.After(at) {
			return 1
		}
		return -1 // equal ones keep the order in which they were asked for
	})
	e.due = slices.Insert(e.due, i, task{at, do})
}

// abandon logs the requests whose answer has not left.
func (e *endpoint) abandon() {
	for _, r := range e.ageing {
		if !r.settled {
			e.s.bed.record(r.log(r.entry, Request{Dropped: DroppedStopped}))
		}
	}
}

// receive handles one datagram: what the radio does first, then the message layer.
func (e *endpoint) receive(datagram []byte, from netip.AddrPort, now time.Time) {
	if e.answered(datagram, from, now) {
		return
	}
	m := message.Message{Options: make(message.Options, 0, 64)}
	_, err := coder.DefaultCoder.Decode(datagram, &m)
	a := parse(m, from)
	entry := Request{Sensor: e.s.spec.Name, At: now, From: from, Kind: a.kind()}
	if err != nil {
		entry.Kind = KindOther
	}
	switch {
	case e.s.spec.Security != nil && !e.s.spec.TCP: // the radio has seen to it
	case e.s.spec.Fault == FaultDead:
		entry.Dropped = DroppedDead
	case !e.s.awake(now):
		entry.Dropped = DroppedAsleep
	case e.lost():
		entry.Dropped = DroppedLoss
	}
	if entry.Dropped != "" {
		e.s.bed.record(entry)
		return
	}
	e.count(Traffic{In: 1, BytesIn: len(datagram)})
	e.forget(now)
	e.handle(a, err == nil, entry, now)
}

// handle is the message layer: it tells requests from what belongs to them.
func (e *endpoint) handle(a ask, wellFormed bool, entry Request, now time.Time) {
	key := exchange{a.peer, a.mid}
	request := a.code >= codes.GET && a.code < 32
	switch {
	case wellFormed && e.mode.script != nil && (request || e.mode.hears):
		e.misbehave(a, key, entry, now)
	case wellFormed && (a.typ == message.Acknowledgement || a.typ == message.Reset):
		delete(e.separate, key) // an RST ends the retransmission too
		e.s.bed.record(entry)
	case wellFormed && a.typ == message.Confirmable && a.code == codes.Empty:
		e.ping(key, entry, now)
	case !wellFormed || !request: // silently ignored (RFC 7252 4.2, 4.3)
		e.s.bed.record(entry)
	case e.exchanges[key] != nil:
		e.repeat(e.exchanges[key], entry, now)
	default:
		e.begin(a, key, entry, now)
	}
}

// ping answers an empty CON with RST (RFC 7252 4.3).
func (e *endpoint) ping(key exchange, entry Request, now time.Time) {
	r := e.remember(key, entry)
	r.datagram, r.answer.Code = bare(message.Reset, key.mid), "0.00"
	e.transmit(r, now)
}

// lost draws the fate of one datagram.
func (e *endpoint) lost() bool {
	return e.plain() && e.s.loss.Float64() < e.s.spec.Loss
}

// plain tells whether the radio is a bare socket; the others count, and lose, below it.
func (e *endpoint) plain() bool { return e.s.spec.Security == nil && !e.s.spec.TCP }

func (e *endpoint) count(t Traffic) {
	if e.plain() {
		e.s.count(t)
	}
}

// send puts a datagram on the air, twice if it is to be duplicated, and reports
// whether a copy was not lost.
func (e *endpoint) send(datagram []byte, to netip.AddrPort) bool {
	copies := 1
	if e.s.loss.Float64() < e.s.spec.Duplicate {
		copies = 2
	}
	arrived := false
	for range copies {
		e.count(Traffic{Out: 1, BytesOut: len(datagram)})
		if e.lost() {
			continue
		}
		if e.write(datagram, to) == nil {
			arrived = true
		}
	}
	return arrived
}

func (e *endpoint) write(datagram []byte, to netip.AddrPort) error {
	if e.s.spec.Fault != FaultStranger {
		_, err := e.conn.WriteToUDPAddrPort(datagram, to)
		return err
	}
	stranger, err := net.ListenUDP("udp", &net.UDPAddr{IP: e.s.addr.Addr().AsSlice()})
	if err != nil {
		return err
	}
	defer stranger.Close()
	_, err = stranger.WriteToUDPAddrPort(datagram, to)
	return err
}

// forget drops what is older than exchangeLifetime.
func (e *endpoint) forget(now time.Time) {
	old := now.Add(-exchangeLifetime)
	for len(e.ageing) > 0 && e.ageing[0].entry.At.Before(old) {
		delete(e.exchanges, e.ageing[0].key)
		e.ageing = e.ageing[1:]
	}
}
