package testbed

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/udp/coder"
	"go.uber.org/goleak"

	"github.com/crawld/crawld/internal/sleepplan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds the waits for what must come; nothing waits that long if all is
// well.
const patience = 10 * time.Second

func newBed(t testing.TB) *Bed {
	b := New(1)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func add(t testing.TB, b *Bed, spec Spec) *Sensor {
	t.Helper()
	s, err := b.Add(spec)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asleep is a plan that wakes in an hour.
func asleep(t testing.TB) sleepplan.Plan {
	t.Helper()
	at := time.Now().Add(time.Hour)
	p, err := sleepplan.Explicit([]sleepplan.Window{{Start: at, End: at.Add(time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// settled waits until n requests are in the log and returns them.
func settled(t testing.TB, b *Bed, n int) []Request {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); ; <-tick.C {
		if r := b.Requests(); len(r) >= n {
			return r
		}
		if time.Now().After(end) {
			t.Fatalf("%d requests are in the log, want %d", len(b.Requests()), n)
		}
	}
}

// peer is a client that does nothing by itself.
type peer struct {
	t    testing.TB
	conn *net.UDPConn
}

func dial(t testing.TB, s *Sensor) *peer {
	t.Helper()
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(s.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &peer{t, conn}
}

// get is a CON GET of the default path.
func get(mid int32, token string, options ...message.Option) message.Message {
	path := message.Options{
		{ID: message.URIPath, Value: []byte(".well-known")},
		{ID: message.URIPath, Value: []byte("core")},
	}
	return message.Message{
		Type: message.Confirmable, Code: codes.GET, MessageID: mid, Token: []byte(token),
		Options: append(path, options...),
	}
}

func (p *peer) send(m message.Message) {
	p.t.Helper()
	p.raw(encode(m))
}

func (p *peer) raw(datagram []byte) {
	p.t.Helper()
	if _, err := p.conn.Write(datagram); err != nil {
		p.t.Fatal(err)
	}
}

// datagram waits for the next datagram for at most d; nil if none came.
func (p *peer) datagram(d time.Duration) []byte {
	p.t.Helper()
	if err := p.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
		p.t.Fatal(err)
	}
	buf := make([]byte, 65536)
	n, err := p.conn.Read(buf)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	if err != nil {
		p.t.Fatal(err)
	}
	return buf[:n]
}

func (p *peer) receive() message.Message {
	p.t.Helper()
	d := p.datagram(patience)
	if d == nil {
		p.t.Fatal("no answer came")
	}
	m := message.Message{Options: make(message.Options, 0, 32)}
	if _, err := coder.DefaultCoder.Decode(d, &m); err != nil {
		p.t.Fatalf("answer % x: %v", d, err)
	}
	return m
}

func (p *peer) ask(m message.Message) message.Message {
	p.t.Helper()
	p.send(m)
	return p.receive()
}

// option is the value of an option, nil if the message lacks it.
func option(m message.Message, id message.OptionID) []byte {
	for _, o := range m.Options {
		if o.ID == id {
			return append([]byte{}, o.Value...)
		}
	}
	return nil
}

func uintOption(t testing.TB, m message.Message, id message.OptionID) uint32 {
	t.Helper()
	v := option(m, id)
	if v == nil {
		t.Fatalf("the answer has no %v", id)
	}
	n, _, err := message.DecodeUint32(v)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
