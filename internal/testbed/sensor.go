package testbed

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/sleepplan"
)

// Sensor is one sensor of a Bed.
type Sensor struct {
	bed  *Bed
	spec Spec
	addr netip.AddrPort
	loss *rand.Rand // used by the one running endpoint only

	life sync.Mutex // held through Start and Stop; guards end
	end  *endpoint  // nil while stopped

	mu       sync.Mutex // guards what follows
	process  *process
	gathered int // events already in the bed's log
	traffic  Traffic

	registrations []Registration
}

// Traffic counts what costs a sensor's battery: datagrams heard awake, and
// datagrams sent, lost ones included.
type Traffic struct {
	In, Out           int // datagrams
	BytesIn, BytesOut int // UDP payload
}

func newSensor(b *Bed, spec Spec, conn *net.UDPConn) (*Sensor, error) {
	name := fnv.New64a()
	name.Write([]byte(spec.Name))
	s := &Sensor{
		bed:     b,
		spec:    spec,
		addr:    addrOf(conn),
		loss:    rand.New(rand.NewPCG(b.seed, name.Sum64()^1)),
		process: newProcess(rand.New(rand.NewPCG(b.seed, name.Sum64())), spec, clock()),
	}
	return s, s.serve(conn)
}

// Name is Spec.Name, or what Add chose in its place.
func (s *Sensor) Name() string { return s.spec.Name }

// Addr is where it listens, or did before Stop.
func (s *Sensor) Addr() netip.AddrPort { return s.addr }

// URI is its address as fleet.ParseURI normalises it, path included.
func (s *Sensor) URI() string {
	scheme := fleet.SchemeUDP
	switch secure := s.spec.Security != nil; {
	case s.spec.TCP && secure:
		scheme = fleet.SchemeTLS
	case s.spec.TCP:
		scheme = fleet.SchemeTCP
	case secure:
		scheme = fleet.SchemeDTLS
	}
	return scheme + "://" + s.addr.String() + s.spec.Path
}

// Listing is the sensor as the operator lists it: with the plan of its Spec
// (unknown if Hidden), whatever SetPlan or Drift did to the true one.
func (s *Sensor) Listing() fleet.Sensor {
	l := fleet.Sensor{
		ID:        s.spec.Name,
		URI:       s.URI(),
		Weight:    s.spec.Weight,
		MaxCrawls: fleet.NoCap,
		Rate:      s.spec.Rate,
		Labels:    map[string]string{},
		Plan:      s.spec.Plan,
	}
	if s.spec.Security != nil {
		l.Credential = s.spec.Security.Credential
	}
	if s.spec.Hidden {
		l.Plan = sleepplan.Unknown()
	}
	return l
}

// SetPlan changes the true sleep plan from now on; Unknown is always on, as in
// a Spec.
func (s *Sensor) SetPlan(p sleepplan.Plan) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.advance(clock())
	s.process.plan = truth(p)
}

// Publish makes one event happen now, awake or not, and returns it.
func (s *Sensor) Publish() Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.process.publish(clock())
	return Event{Sensor: s.spec.Name, At: at, Seq: len(s.process.times)}
}

// Awake reports whether the sensor is awake now, by its own, drifted clock.
func (s *Sensor) Awake() bool { return s.awake(clock()) }

func (s *Sensor) awake(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process.awake(now)
}

// Traffic returns the datagrams counted so far.
func (s *Sensor) Traffic() Traffic {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.traffic
}

func (s *Sensor) count(t Traffic) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.traffic.In += t.In
	s.traffic.Out += t.Out
	s.traffic.BytesIn += t.BytesIn
	s.traffic.BytesOut += t.BytesOut
}

// gather appends the events up to now that earlier calls did not.
func (s *Sensor) gather(events []Event, now time.Time) []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.advance(now)
	for _, at := range s.process.times[s.gathered:] {
		if at.After(now) { // a request has looked further already
			break
		}
		s.gathered++
		events = append(events, Event{Sensor: s.spec.Name, At: at, Seq: s.gathered})
	}
	return events
}

// seq is the number of events before now.
func (s *Sensor) seq(now time.Time) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.advance(now)
	return len(s.process.times)
}

// Body is the description it would serve now.
func (s *Sensor) Body() []byte { return s.body(s.seq(clock())) }

func (s *Sensor) body(seq int) []byte {
	if s.spec.Body != nil {
		return s.spec.Body(seq)
	}
	attr := func(name, value string) linkformat.Attr {
		return linkformat.Attr{Name: name, Value: value, HasValue: true, Quoted: true}
	}
	links := []linkformat.Link{
		{Target: "/sensors/temp", Attrs: []linkformat.Attr{
			attr("rt", "temperature-c"), attr("if", "sensor"), attr("ver", strconv.Itoa(seq))}},
		{Target: "/sensors/light", Attrs: []linkformat.Attr{
			attr("rt", "light-lux"), attr("if", "sensor")}},
	}
	doc := linkformat.Format(links)
	for n := 1; len(doc) < s.spec.Size; n++ {
		// Few links, so that a large description stays within usual link limits.
		title := strings.Repeat("x", min(s.spec.Size-len(doc), 512))
		pad := linkformat.Link{
			Target: "/sensors/pad" + strconv.Itoa(n),
			Attrs:  []linkformat.Attr{attr("title", title)},
		}
		doc = append(append(doc, ','), linkformat.Format([]linkformat.Link{pad})...)
	}
	return doc
}

// etag tells the representations of a sensor apart, and sensors from each other.
func (s *Sensor) etag(seq int) []byte {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s %d", s.spec.Name, seq)
	return h.Sum(nil)
}

// Stop closes the port, as a device that lost power does: it forgets its
// exchanges. Its events go on, and are in the description after Start. Stopping
// twice does nothing.
func (s *Sensor) Stop() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.end == nil {
		return nil
	}
	err := s.end.stop()
	s.end = nil
	return err
}

// Start opens the same port again. It returns an error if the port has been
// taken meanwhile; a sensor that runs is left alone.
func (s *Sensor) Start() error {
	s.life.Lock()
	defer s.life.Unlock()
	if s.end != nil {
		return nil
	}
	if s.bed.isClosed() {
		return fmt.Errorf("testbed: start sensor %q again: the bed is closed", s.spec.Name)
	}
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(s.addr))
	if err != nil {
		return fmt.Errorf("testbed: start sensor %q again: %w", s.spec.Name, err)
	}
	return s.serve(conn)
}

func (s *Sensor) serve(conn *net.UDPConn) error {
	switch {
	case s.spec.Fault == FaultClosed:
		conn.Close()
	case s.spec.TCP:
		stream, err := newStreamRadio(s, conn)
		if err != nil {
			conn.Close()
			return fmt.Errorf("testbed: start sensor %q: %w", s.spec.Name, err)
		}
		s.end = newEndpoint(s, stream)
	case s.spec.Security != nil:
		secure, err := newSecureRadio(s, conn)
		if err != nil {
			conn.Close()
			return fmt.Errorf("testbed: start sensor %q: %w", s.spec.Name, err)
		}
		s.end = newEndpoint(s, secure)
	default:
		s.end = newEndpoint(s, conn)
	}
	return nil
}
