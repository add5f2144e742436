package coapclient

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/crawld/crawld/internal/visit"
)

func TestMain(m *testing.M) {
	if os.Getenv(responderEnv) != "" {
		respond()
		return
	}
	goleak.VerifyTestMain(m)
}

// long tells whether the big counts are wanted.
func long() bool { return os.Getenv("CRAWLD_CI") != "" }

// Message types and codes, written anew so that the tests share nothing with
// the codec under test.
const (
	con, non, ack, rst = 0, 1, 2, 3

	content, valid = 2<<5 | 5, 2<<5 | 3
)

type option struct {
	id    int
	value []byte
}

// num is an option with an unsigned integer value in its shortest form.
func num(id int, v uint32) option {
	b := binary.BigEndian.AppendUint32(nil, v)
	for len(b) > 0 && b[0] == 0 {
		b = b[1:]
	}
	return option{id, b}
}

func block2(n int, more bool, size int) option {
	v := uint32(n) << 4
	if more {
		v |= 8
	}
	for s := 16; s < size; s *= 2 {
		v++
	}
	return num(23, v)
}

func etag(s string) option { return option{4, []byte(s)} }

var linkFormat = num(12, 40)

// wire encodes a message by hand; options must be sorted.
func wire(typ, code int, mid uint16, token []byte, opts []option, payload []byte) []byte {
	b := []byte{byte(1<<6 | typ<<4 | len(token)), byte(code), byte(mid >> 8), byte(mid)}
	b = append(b, token...)
	last := 0
	ext := func(n int) (int, []byte) {
		switch {
		case n < 13:
			return n, nil
		case n < 269:
			return 13, []byte{byte(n - 13)}
		}
		return 14, binary.BigEndian.AppendUint16(nil, uint16(n-269))
	}
	for _, o := range opts {
		d, dx := ext(o.id - last)
		l, lx := ext(len(o.value))
		b = append(b, byte(d<<4|l))
		b = append(append(append(b, dx...), lx...), o.value...)
		last = o.id
	}
	if len(payload) > 0 {
		b = append(append(b, 0xff), payload...)
	}
	return b
}

// query is a message that a sensor received.
type query struct {
	from  netip.AddrPort
	typ   int
	code  int
	mid   uint16
	token []byte
	opts  []option
	n     int // how many GETs the sensor has received, this one included
}

func (q query) get(id int) ([]byte, bool) {
	for _, o := range q.opts {
		if o.id == id {
			return o.value, true
		}
	}
	return nil, false
}

func (q query) all(id int) (vs []string) {
	for _, o := range q.opts {
		if o.id == id {
			vs = append(vs, string(o.value))
		}
	}
	return vs
}

// block returns number and size asked for, 0 and 1024 if none.
func (q query) block() (n, size int) {
	v, ok := q.get(23)
	if !ok {
		return 0, 1024
	}
	var x uint32
	for _, c := range v {
		x = x<<8 | uint32(c)
	}
	return int(x >> 4), 16 << (x & 7)
}

func parseQuery(from netip.AddrPort, b []byte) query {
	q := query{from: from, typ: int(b[0] >> 4 & 3), code: int(b[1])}
	q.mid = binary.BigEndian.Uint16(b[2:])
	tkl := int(b[0] & 15)
	q.token = append([]byte(nil), b[4:4+tkl]...)
	b = b[4+tkl:]
	id := 0
	ext := func(n int) int {
		switch n {
		case 13:
			n = int(b[0]) + 13
			b = b[1:]
		case 14:
			n = int(binary.BigEndian.Uint16(b)) + 269
			b = b[2:]
		}
		return n
	}
	for len(b) > 0 && b[0] != 0xff {
		d, l := int(b[0]>>4), int(b[0]&15)
		b = b[1:]
		id += ext(d)
		l = ext(l)
		q.opts = append(q.opts, option{id, append([]byte(nil), b[:l]...)})
		b = b[l:]
	}
	return q
}

// sensor is a UDP socket on loopback that answers GETs by a script.
type sensor struct {
	conn   *net.UDPConn
	script func(s *sensor, q query)
	acks   bool // the script is run for ACKs too

	mu   sync.Mutex
	gets int
	log  []query // everything received, GETs and answers to us
	done chan struct{}
}

func newSensor(t testing.TB, script func(s *sensor, q query), set ...func(*sensor)) *sensor {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	s := &sensor{conn: conn, script: script, done: make(chan struct{})}
	for _, f := range set {
		f(s)
	}
	go s.run()
	t.Cleanup(s.close)
	return s
}

func (s *sensor) close() {
	_ = s.conn.Close()
	<-s.done
}

func (s *sensor) run() {
	defer close(s.done)
	b := make([]byte, 64<<10)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		q := parseQuery(from, b[:n])
		s.mu.Lock()
		if q.code == 1 {
			s.gets++
		}
		q.n = s.gets
		s.log = append(s.log, q)
		s.mu.Unlock()
		if q.code == 1 || s.acks {
			s.script(s, q)
		}
	}
}

// send sends raw bytes.
func (s *sensor) send(to netip.AddrPort, b []byte) { _, _ = s.conn.WriteToUDPAddrPort(b, to) }

// piggyback answers in the ACK.
func (s *sensor) piggyback(q query, code int, payload []byte, opts ...option) {
	typ := ack
	if q.typ == non {
		typ = non
	}
	s.send(q.from, wire(typ, code, q.mid, q.token, opts, payload))
}

func (s *sensor) received() []query {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]query(nil), s.log...)
}

func (s *sensor) uri() string {
	return fmt.Sprintf("coap://%s/.well-known/core", s.conn.LocalAddr())
}

// part answers one block of a body.
func (s *sensor) part(q query, body []byte, max int, opts ...option) {
	n, size := q.block()
	off := n * size
	size = min(size, max)
	end := min(off+size, len(body))
	s.piggyback(q, content, body[off:end], append(opts, block2(off/size, end < len(body), size))...)
}

func newClient(t testing.TB, o Options) *Client {
	t.Helper()
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// visitTo asks with timeouts that suit a test.
func visitTo(uri string) visit.Visit {
	now := time.Now()
	return visit.Visit{
		Sensor: uri, URI: uri, At: now, Deadline: now.Add(20 * time.Second),
		Retrans: 4, AckTimeout: 20 * time.Millisecond,
	}
}

func fetch(t testing.TB, c *Client, v visit.Visit) visit.Outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out := c.Fetch(ctx, v)
	if ctx.Err() != nil {
		t.Fatalf("visit did not end by its deadline: %+v", out)
	}
	if out.Ended.Before(out.Started) {
		t.Errorf("ended %v before it started %v", out.Ended, out.Started)
	}
	return out
}

// is checks the three words that say what became of a visit.
func is(t testing.TB, out visit.Outcome, r visit.Result, reason string, contact bool) {
	t.Helper()
	if out.Result != r || out.Reason != reason || out.Contact != contact {
		t.Fatalf("got %v %q contact=%v (%s), want %v %q contact=%v\n%v", out.Result, out.Reason,
			out.Contact, out.Error, r, reason, contact, out.Transcript)
	}
	if (out.Error == "") != r.Success() {
		t.Errorf("%v with error %q", r, out.Error)
	}
}
