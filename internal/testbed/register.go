package testbed

import (
	"bytes"
	"fmt"
	"net/netip"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/udp/coder"
)

// optionEcho is Echo of RFC 9175 section 2.2.
const optionEcho message.OptionID = 252

// Registration is what became of one simple registration (RFC 9176 section 5.1) of a sensor.
type Registration struct {
	At       time.Time // when the sensor woke and sent it
	Answered time.Time // when its last answer came; zero: none
	Code     string    // of that answer, such as "2.04"; "" = none
	Echoes   int       // times that it was asked to prove its address
	Sent     int       // datagrams
}

// Registrations are those of the sensor so far, oldest first.
func (s *Sensor) Registrations() []Registration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Registration(nil), s.registrations...)
}

// registering is a simple registration under way. It goes out of the socket that the sensor
// serves on, so that its source is where the sensor can be crawled.
type registering struct {
	index    int // in Sensor.registrations
	mid      uint16
	token    []byte
	echo     []byte
	datagram []byte
	tries    int
	timeout  time.Duration
}

// wake has the sensor register at the start of its next window after now.
func (e *endpoint) wake(now time.Time) {
	if !e.s.spec.Directory.IsValid() {
		return
	}
	at, ok := e.s.nextWake(now)
	if !ok {
		return
	}
	e.later(at, func(now time.Time) {
		e.register(now)
		e.wake(now)
	})
}

// nextWake is the start of the first window that begins after now, by the sensor's clock.
func (s *Sensor) nextWake(now time.Time) (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from := now.Add(-s.process.drift)
	if w, awake := s.process.plan.Window(from); awake {
		from = w.End
	}
	w, ok := s.process.plan.NextWindow(from)
	return w.Start.Add(s.process.drift), ok && w.Start.Add(s.process.drift).After(now)
}

// register begins a simple registration.
func (e *endpoint) register(now time.Time) {
	e.s.mu.Lock()
	index := len(e.s.registrations)
	e.s.registrations = append(e.s.registrations, Registration{At: now})
	e.s.mu.Unlock()
	e.ask(&registering{index: index}, now)
}

// ask sends the request, again after a demand to prove the address.
func (e *endpoint) ask(r *registering, now time.Time) {
	r.mid, r.tries, r.timeout = e.mid(), 0, e.s.spec.AckTimeout
	r.token = fmt.Appendf(nil, "%04x", e.s.loss.Uint32()&0xffff)
	m := message.Message{Type: message.Confirmable, Code: codes.POST, MessageID: int32(r.mid),
		Token: r.token}
	add := func(id message.OptionID, value string) {
		m.Options = append(m.Options, message.Option{ID: id, Value: []byte(value)})
	}
	add(message.URIPath, ".well-known")
	add(message.URIPath, "rd")
	add(message.URIQuery, "ep="+e.s.spec.Name)
	add(message.URIQuery, fmt.Sprintf("lt=%d", max(1, int(e.s.spec.Lifetime/time.Second))))
	if r.echo != nil {
		m.Options = append(m.Options, message.Option{ID: optionEcho, Value: r.echo})
	}
	r.datagram = encode(m)
	e.asking = r
	e.resend(r, now)
}

// resend sends the request until an answer comes or the sensor sleeps.
func (e *endpoint) resend(r *registering, now time.Time) {
	if e.asking != r || r.tries > maxRetransmit || !e.s.awake(now) {
		return
	}
	r.tries++
	e.s.registered(r.index, func(log *Registration) { log.Sent++ })
	e.send(r.datagram, e.s.spec.Directory)
	e.later(now.Add(r.timeout), func(now time.Time) { e.resend(r, now) })
	r.timeout *= 2
}

func (s *Sensor) registered(index int, note func(*Registration)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	note(&s.registrations[index])
}

// answered takes the directory's answer; false if the datagram is none.
func (e *endpoint) answered(datagram []byte, from netip.AddrPort, now time.Time) bool {
	r := e.asking
	if r == nil || from != e.s.spec.Directory || !e.s.awake(now) {
		return false
	}
	m := message.Message{Options: make(message.Options, 0, 16)}
	_, err := coder.DefaultCoder.Decode(datagram, &m)
	if err != nil || m.Type != message.Acknowledgement || uint16(m.MessageID) != r.mid ||
		!bytes.Equal(m.Token, r.token) {
		return false
	}
	echo, err := m.Options.GetBytes(optionEcho)
	again := err == nil && m.Code == codes.Unauthorized && r.echo == nil
	e.s.registered(r.index, func(log *Registration) {
		log.Answered, log.Code = now, fmt.Sprintf("%d.%02d", m.Code>>5, m.Code&31)
		if again {
			log.Echoes++
		}
	})
	e.asking = nil
	if again {
		e.ask(&registering{index: r.index, echo: bytes.Clone(echo)}, now)
	}
	return true
}
