package testbed

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// The kinds of datagrams that come in.
const (
	KindGet   = "get"   // a GET for the representation or for its first block
	KindBlock = "block" // a GET for a later block
	KindAck   = "ack"   // an empty ACK, such as the one for a separate answer
	KindReset = "rst"
	KindOther = "other" // other methods, pings, responses, and what is no CoAP message
)

// Why a datagram got no answer.
const (
	DroppedAsleep  = "asleep"  // it came, or its answer would have left, asleep
	DroppedLoss    = "loss"    // lost on its way in, or every copy of the answer on its way out
	DroppedDead    = "dead"    // FaultDead
	DroppedStopped = "stopped" // Stop came before the answer
)

// Request is one datagram that reached a sensor's port, and what came of it.
type Request struct {
	Sensor   string         // Spec.Name
	At       time.Time      // when it came
	Sent     time.Time      // when the answer left that was not lost; zero if none did
	From     netip.AddrPort // who sent it
	Kind     string         // KindGet, ..
	Dropped  string         // DroppedAsleep, ..; "" when answered, and when nothing is due
	Seq      int            // newest event in the representation answered from
	Complete bool           // the answer ends a transfer: whole body, last block, or 2.03

	// Answered: an answer left and was not lost. What FaultGarbage and
	// FaultStranger send is no answer.
	Answered bool
	// Code of that answer: "2.05", "2.03", ..; "0.00" is RST, or the empty ACK
	// that a duplicate gets.
	Code string
}

// Bed is a set of sensors and the log of what happened to them. All methods may
// be called at any time from any goroutine.
//
// The log is kept in memory and only grows: about 150 bytes per request.
type Bed struct {
	seed uint64

	mu       sync.Mutex // guards what follows; taken before a Sensor's mu
	closed   bool
	sensors  []*Sensor
	requests []Request
	events   []Event
}

// New returns an empty bed. The same seed, names and Specs give the same events
// in awake time and the same draws of loss and duplication per sensor.
func New(seed uint64) *Bed { return &Bed{seed: seed} }

// Add opens a socket where the Spec says and serves at once. It returns an error for
// a Spec out of range, a name or port that is taken, and a bed that is closed.
func (b *Bed) Add(spec Spec) (*Sensor, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, fmt.Errorf("testbed: add sensor %q: the bed is closed", spec.Name)
	}
	if spec.Name == "" {
		spec.Name = fmt.Sprintf("sensor-%03d", len(b.sensors)+1)
	}
	taken := func(s *Sensor) bool { return s.spec.Name == spec.Name }
	if slices.ContainsFunc(b.sensors, taken) {
		return nil, fmt.Errorf("testbed: add sensor %q: the name is taken", spec.Name)
	}
	if err := spec.check(); err != nil {
		return nil, fmt.Errorf("testbed: add sensor %q: %w", spec.Name, err)
	}
	conn, err := b.freePort(spec.Listen)
	if err != nil {
		return nil, fmt.Errorf("testbed: add sensor %q: %w", spec.Name, err)
	}
	s, err := newSensor(b, spec, conn)
	if err != nil {
		return nil, err
	}
	b.sensors = append(b.sensors, s)
	return s, nil
}

// freePort opens a port that no sensor of the bed has, stopped ones included:
// they want theirs again.
func (b *Bed) freePort(at netip.AddrPort) (*net.UDPConn, error) {
	for {
		conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(at))
		if err != nil {
			return nil, err
		}
		addr := addrOf(conn)
		taken := func(s *Sensor) bool { return s.addr == addr }
		if !slices.ContainsFunc(b.sensors, taken) {
			return conn, nil
		}
		if at.Port() != 0 {
			return nil, errors.Join(fmt.Errorf("port %d belongs to another sensor", at.Port()),
				conn.Close())
		}
		// Held until the end of the search, or the system would offer it again.
		defer conn.Close()
	}
}

func addrOf(conn *net.UDPConn) netip.AddrPort {
	return conn.LocalAddr().(*net.UDPAddr).AddrPort()
}

// Sensors returns the sensors in the order in which they were added.
func (b *Bed) Sensors() []*Sensor {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.sensors)
}

// Events returns all events so far, ascending by instant.
func (b *Bed) Events() []Event { return b.EventsSince(0) }

// EventsSince returns the events from index i of Events on: the next page begins
// at i plus the length of this one.
func (b *Bed) EventsSince(i int) []Event {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := clock()
	n := len(b.events)
	for _, s := range b.sensors {
		b.events = s.gather(b.events, now)
	}
	// Each sensor's share is ascending and later than what was there.
	slices.SortStableFunc(b.events[n:], func(a, b Event) int { return a.At.Compare(b.At) })
	return slices.Clone(b.events[min(max(i, 0), len(b.events)):])
}

// Requests returns all requests so far, in the order in which their fate was
// settled: a request is logged when its answer has left, or will not.
func (b *Bed) Requests() []Request { return b.RequestsSince(0) }

// RequestsSince returns the requests from index i of Requests on: the next page
// begins at i plus the length of this one.
func (b *Bed) RequestsSince(i int) []Request {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.requests[min(max(i, 0), len(b.requests)):])
}

func (b *Bed) record(r Request) {
	b.recordAfter(func() (Request, bool) { return r, true })
}

// recordAfter logs what send returns, unless it returns false. The log is held
// meanwhile: whoever has received an answer finds its request in the log.
func (b *Bed) recordAfter(send func() (Request, bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if r, ok := send(); ok {
		b.requests = append(b.requests, r)
	}
}

// Close stops every sensor and waits for its goroutine: no answer leaves after
// it has returned. The log stays readable. Closing twice does nothing.
func (b *Bed) Close() error {
	b.mu.Lock()
	b.closed = true
	sensors := slices.Clone(b.sensors)
	b.mu.Unlock()
	var errs []error
	for _, s := range sensors {
		errs = append(errs, s.Stop())
	}
	return errors.Join(errs...)
}

func (b *Bed) isClosed() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.closed
}

// clock is the wall clock without its monotonic part: sleep plans are about wall
// time, and a mix of the two would compare by one and print the other.
func clock() time.Time { return time.Now().Round(0) }
