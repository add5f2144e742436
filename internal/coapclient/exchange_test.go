package coapclient

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

const links = `</t>;rt="temperature",</h>`

func answerLinks(s *sensor, q query) { s.piggyback(q, content, []byte(links), linkFormat) }

func described(t testing.TB, out visit.Outcome, body string) {
	t.Helper()
	is(t, out, visit.Described, "", true)
	if string(out.Body) != body {
		t.Fatalf("body of %d bytes %.80q, want %d bytes %.80q", len(out.Body), out.Body,
			len(body), body)
	}
}

// exchanges are sensors that one request gets an answer from. want is checked
// after the visit.
var exchanges = []struct {
	name    string
	script  func(s *sensor, q query)
	result  visit.Result
	reason  string
	contact bool
	gets    int
}{
	{"piggybacked", answerLinks, visit.Described, "", true, 1},
	{"non-confirmable response", func(s *sensor, q query) {
		s.send(q.from, wire(non, content, 900, q.token, []option{linkFormat}, []byte(links)))
	}, visit.Described, "", true, 1},
	{"separate response", func(s *sensor, q query) {
		s.send(q.from, wire(ack, 0, q.mid, nil, nil, nil))
		s.send(q.from, wire(con, content, 900, q.token, []option{linkFormat}, []byte(links)))
	}, visit.Described, "", true, 1},
	{"separate response whose empty ACK was lost", func(s *sensor, q query) {
		s.send(q.from, wire(con, content, 900, q.token, []option{linkFormat}, []byte(links)))
	}, visit.Described, "", true, 1},
	{"RST", func(s *sensor, q query) {
		s.send(q.from, wire(rst, 0, q.mid, nil, nil, nil))
	}, visit.Refused, ReasonRST, true, 1},
	{"empty ACK, then silence", func(s *sensor, q query) {
		s.send(q.from, wire(ack, 0, q.mid, nil, nil, nil))
	}, visit.Failed, ReasonSilence, true, 1},
	{"silence", func(*sensor, query) {}, visit.Asleep, ReasonTimeout, false, 3},
	{"4.04", func(s *sensor, q query) {
		s.piggyback(q, 4<<5|4, []byte("no\x00such thing"))
	}, visit.Refused, ReasonCode, true, 1},
	{"5.00", func(s *sensor, q query) { s.piggyback(q, 5<<5, nil) },
		visit.Refused, ReasonCode, true, 1},
	{"2.04", func(s *sensor, q query) { s.piggyback(q, 2<<5|4, nil) },
		visit.Failed, ReasonCode, true, 1},
	{"2.03 without being asked", func(s *sensor, q query) { s.piggyback(q, valid, nil) },
		visit.Failed, ReasonCode, true, 1},
	{"4.06 for ever", func(s *sensor, q query) { s.piggyback(q, 4<<5|6, nil) },
		visit.Refused, ReasonCode, true, 2},
	{"Echo for ever", func(s *sensor, q query) {
		s.piggyback(q, 4<<5|1, nil, option{252, []byte("x")})
	}, visit.Refused, ReasonCode, true, 2},
	{"4.01 without Echo", func(s *sensor, q query) { s.piggyback(q, 4<<5|1, nil) },
		visit.Refused, ReasonCode, true, 1},
	{"unknown critical option", func(s *sensor, q query) {
		s.piggyback(q, content, []byte(links), linkFormat, option{65001, nil})
	}, visit.Failed, ReasonCritical, true, 1},
	{"Block2 of four bytes", func(s *sensor, q query) {
		s.piggyback(q, content, []byte(links), linkFormat, option{23, []byte{0, 0, 0, 6}})
	}, visit.Failed, ReasonCritical, true, 1},
	{"Block2 twice", func(s *sensor, q query) {
		s.piggyback(q, content, []byte(links), block2(0, false, 64), block2(0, false, 64))
	}, visit.Failed, ReasonCritical, true, 1},
	{"unknown elective options", func(s *sensor, q query) {
		s.piggyback(q, content, []byte(links), linkFormat, option{65000, []byte("x")})
	}, visit.Described, "", true, 1},
	{"wrong token", func(s *sensor, q query) {
		q.token[3]++
		s.piggyback(q, content, []byte(links), linkFormat)
	}, visit.Asleep, ReasonTimeout, false, 3},
	{"short token", func(s *sensor, q query) {
		q.token = q.token[:7]
		s.piggyback(q, content, []byte(links), linkFormat)
	}, visit.Asleep, ReasonTimeout, false, 3},
	{"wrong message ID", func(s *sensor, q query) {
		q.mid++
		s.piggyback(q, content, []byte(links), linkFormat)
		s.send(q.from, wire(rst, 0, q.mid, nil, nil, nil))
		s.send(q.from, wire(ack, 0, q.mid, nil, nil, nil))
	}, visit.Asleep, ReasonTimeout, false, 3},
	{"reserved code class", func(s *sensor, q query) {
		s.piggyback(q, 3<<5|1, []byte(links))
		s.piggyback(q, 7<<5|1, []byte(links))
	}, visit.Asleep, ReasonTimeout, false, 3},
	{"payload marker without payload", func(s *sensor, q query) {
		s.send(q.from, append(wire(ack, content, q.mid, q.token, []option{linkFormat}, nil), 0xff))
	}, visit.Asleep, ReasonTimeout, false, 3},
	{"an option that ends in 0xff", func(s *sensor, q query) {
		s.piggyback(q, content, nil, option{4, []byte{1, 0xff}})
	}, visit.Described, "", true, 1},
	{"requests and pings instead", func(s *sensor, q query) {
		s.send(q.from, wire(con, 1, 7, q.token, nil, nil))
		s.send(q.from, wire(con, 0, 8, nil, nil, nil))
	}, visit.Asleep, ReasonTimeout, false, 3},
}

func TestExchange(t *testing.T) {
	c := newClient(t, Options{Transcript: true, Limits: Limits{Progress: 50 * time.Millisecond}})
	for _, x := range exchanges {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			s := newSensor(t, x.script)
			v := visitTo(s.uri())
			v.Retrans = 2
			if x.result != visit.Asleep && x.reason != ReasonSilence {
				v.AckTimeout = 10 * time.Second // loopback loses nothing, and a busy machine is slow
			}
			out := fetch(t, c, v)
			is(t, out, x.result, x.reason, x.contact)
			gets := 0
			for _, q := range s.received() {
				if q.code == 1 {
					gets++
				}
				if q.code != 1 && q.typ != ack && x.reason != ReasonCritical {
					t.Errorf("the sensor received %+v", q)
				}
			}
			if gets != x.gets {
				t.Errorf("%d requests, want %d: %v", gets, x.gets, out.Transcript)
			}
			if x.result == visit.Described && x.name != "an option that ends in 0xff" {
				if string(out.Body) != links || out.Verdict != "valid" {
					t.Errorf("body %q verdict %q", out.Body, out.Verdict)
				}
			}
		})
	}
}

func TestSuccessIsAccounted(t *testing.T) {
	s := newSensor(t, func(s *sensor, q query) {
		s.piggyback(q, content, []byte(links), etag("v1"), linkFormat, num(14, 90))
	})
	c := newClient(t, Options{Transcript: true})
	v := visitTo(s.uri())
	out := fetch(t, c, v)
	described(t, out, links)
	if out.Links != 2 || out.Format != 40 || string(out.NewETag) != "v1" || out.Code != "2.05" {
		t.Errorf("links %d format %d etag %q code %s", out.Links, out.Format, out.NewETag, out.Code)
	}
	if out.MaxAge != 90*time.Second || !out.HasMaxAge {
		t.Errorf("Max-Age %v %v", out.MaxAge, out.HasMaxAge)
	}
	const get = 4 + 8 + 12 + 5 + 2 // header, token, two path segments, Accept
	if out.DatagramsSent != 1 || out.DatagramsReceived != 1 || out.BytesSent != get ||
		out.Blocks != 1 {
		t.Errorf("sent %d/%d, received %d, blocks %d", out.DatagramsSent, out.BytesSent,
			out.DatagramsReceived, out.Blocks)
	}
	if want := len(wire(ack, content, 0, make([]byte, 8), []option{etag("v1"), linkFormat,
		num(14, 90)}, []byte(links))); out.BytesReceived != want {
		t.Errorf("%d bytes received, want %d", out.BytesReceived, want)
	}
	if out.RTT <= 0 || out.RTT > out.Took() || len(out.Transcript) != 2 {
		t.Errorf("RTT %v of %v, transcript %v", out.RTT, out.Took(), out.Transcript)
	}
}

func TestRequestOnTheWire(t *testing.T) {
	s := newSensor(t, func(s *sensor, q query) {
		s.piggyback(q, content, []byte("21.5"), num(12, 0))
	})
	c := newClient(t, Options{PrefBlock: 128, Networks: allowLoopback})
	port := strings.TrimPrefix(s.conn.LocalAddr().String(), "127.0.0.1:")
	v := visitTo("coap://localhost:" + port + "/a%2Fb/c%20d/?rt=x&if=%26y")
	v.ETag = []byte{1, 2}
	out := fetch(t, c, v)
	described(t, out, "21.5")
	q := s.received()[0]
	if got := q.all(11); !slices.Equal(got, []string{"a/b", "c d", ""}) {
		t.Errorf("Uri-Path %q", got)
	}
	if got := q.all(15); !slices.Equal(got, []string{"rt=x", "if=&y"}) {
		t.Errorf("Uri-Query %q", got)
	}
	if got := q.all(3); !slices.Equal(got, []string{"localhost"}) {
		t.Errorf("Uri-Host %q", got)
	}
	if got := q.all(4); !slices.Equal(got, []string{"\x01\x02"}) {
		t.Errorf("ETag %x", got)
	}
	if n, size := q.block(); n != 0 || size != 128 {
		t.Errorf("Block2 %d/%d", n, size)
	}
	if got := q.all(17); got != nil {
		t.Errorf("Accept %x for a path that is not /.well-known/core", got)
	}
	if len(q.token) != 8 || q.typ != con {
		t.Errorf("token %x type %d", q.token, q.typ)
	}
	v.Full, v.NON = true, true
	fetch(t, c, v)
	if q = s.received()[1]; q.typ != non || q.all(4) != nil {
		t.Errorf("full NON visit sent type %d, ETag %x", q.typ, q.all(4))
	}
}

func TestAcceptIsAWish(t *testing.T) {
	s := newSensor(t, func(s *sensor, q query) {
		if _, ok := q.get(17); ok {
			s.piggyback(q, 4<<5|6, nil)
			return
		}
		s.part(q, bytes.Repeat([]byte("x"), 100), 64, num(12, 0))
	})
	out := fetch(t, newClient(t, Options{}), visitTo(s.uri()))
	described(t, out, strings.Repeat("x", 100))
	if out.DatagramsSent != 3 || out.Format != 0 || out.Verdict != "" {
		t.Errorf("sent %d, format %d, verdict %q", out.DatagramsSent, out.Format, out.Verdict)
	}
}

func TestEchoIsAnsweredOnce(t *testing.T) {
	s := newSensor(t, func(s *sensor, q query) {
		if v, ok := q.get(252); !ok || string(v) != "fresh" {
			s.piggyback(q, 4<<5|1, nil, option{252, []byte("fresh")})
			return
		}
		s.piggyback(q, content, []byte(links), linkFormat)
	})
	out := fetch(t, newClient(t, Options{}), visitTo(s.uri()))
	described(t, out, links)
	if out.DatagramsSent != 2 {
		t.Errorf("%d datagrams", out.DatagramsSent)
	}
}

func TestRetryAfter(t *testing.T) {
	for _, x := range []struct {
		code int
		opts []option
		want time.Duration
	}{
		{5<<5 | 3, nil, time.Minute},
		{5<<5 | 3, []option{num(14, 5)}, 5 * time.Second},
		{4<<5 | 29, []option{num(14, 1<<32-1)}, 24 * time.Hour},
		{5 << 5, []option{num(14, 5)}, 0},
	} {
		s := newSensor(t, func(s *sensor, q query) { s.piggyback(q, x.code, nil, x.opts...) })
		out := fetch(t, newClient(t, Options{}), visitTo(s.uri()))
		is(t, out, visit.Refused, ReasonCode, true)
		if out.RetryAfter != x.want {
			t.Errorf("%s: retry after %v, want %v", out.Code, out.RetryAfter, x.want)
		}
	}
}

func TestUnchanged(t *testing.T) {
	s := newSensor(t, func(s *sensor, q query) {
		if v, ok := q.get(4); ok && string(v) == "e" {
			s.piggyback(q, valid, nil, etag("e"), num(14, 1<<32-1))
			return
		}
		s.piggyback(q, content, []byte(links), etag("e"), linkFormat)
	})
	c := newClient(t, Options{})
	first := fetch(t, c, visitTo(s.uri()))
	described(t, first, links)
	v := visitTo(s.uri())
	v.Known, v.ETag = first.Hash, first.NewETag
	out := fetch(t, c, v)
	is(t, out, visit.Unchanged, "", true)
	if out.Hash != first.Hash || out.Body != nil || out.Code != "2.03" ||
		out.MaxAge != 24*time.Hour {
		t.Errorf("2.03: hash %s body %q code %s Max-Age %v", out.Hash, out.Body, out.Code,
			out.MaxAge)
	}
	v.Full = true
	out = fetch(t, c, v)
	is(t, out, visit.Unchanged, "", true)
	if out.Hash != first.Hash || out.Code != "2.05" {
		t.Errorf("same body: hash %s code %s", out.Hash, out.Code)
	}
}

func TestEmptyDescription(t *testing.T) {
	s := newSensor(t, func(s *sensor, q query) { s.piggyback(q, content, nil) })
	out := fetch(t, newClient(t, Options{}), visitTo(s.uri()))
	described(t, out, "")
	if out.Verdict != "valid" || out.Format != -1 || out.Body == nil || len(out.Hash) != 64 {
		t.Errorf("verdict %q format %d body %v", out.Verdict, out.Format, out.Body)
	}
}

func TestRetransmission(t *testing.T) {
	s := newSensor(t, func(*sensor, query) {})
	v := visitTo(s.uri())
	v.Retrans, v.AckTimeout = 3, 10*time.Millisecond
	out := fetch(t, newClient(t, Options{}), v)
	is(t, out, visit.Asleep, ReasonTimeout, false)
	if out.DatagramsSent != 4 || out.Retransmissions != 3 {
		t.Errorf("%d datagrams, %d retransmissions", out.DatagramsSent, out.Retransmissions)
	}
	// 10 x (1+2+4+8) ms at least; the upper factor 1.5 is at the scheduler's mercy.
	if out.Took() < 150*time.Millisecond {
		t.Errorf("gave up after %v", out.Took())
	}
	got := s.received()
	for _, q := range got[1:] {
		if q.mid != got[0].mid || !bytes.Equal(q.token, got[0].token) {
			t.Errorf("retransmission changed: %+v, first %+v", q, got[0])
		}
	}
	v = visitTo(s.uri())
	v.NON = true
	out = fetch(t, newClient(t, Options{}), v)
	is(t, out, visit.Asleep, ReasonTimeout, false)
	if out.DatagramsSent != 1 {
		t.Errorf("NON visit sent %d datagrams", out.DatagramsSent)
	}
}

func TestDeadline(t *testing.T) {
	s := newSensor(t, func(*sensor, query) {})
	c := newClient(t, Options{})
	v := visitTo(s.uri())
	v.Deadline = time.Now().Add(60 * time.Millisecond)
	v.AckTimeout = 40 * time.Millisecond
	out := fetch(t, c, v)
	is(t, out, visit.Asleep, ReasonDeadline, false)
	if out.Ended.Before(v.Deadline) || out.DatagramsSent > 2 {
		t.Errorf("ended %v early after %d datagrams", v.Deadline.Sub(out.Ended), out.DatagramsSent)
	}
	out = fetch(t, c, v) // its deadline is past by now
	is(t, out, visit.Missed, ReasonDeadline, false)
	if out.DatagramsSent != 0 {
		t.Errorf("asked after the deadline: %d", out.DatagramsSent)
	}
}

func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	s := newSensor(t, func(*sensor, query) { cancel() })
	c := newClient(t, Options{})
	v := visitTo(s.uri())
	v.AckTimeout = 10 * time.Second
	is(t, c.Fetch(ctx, v), visit.Failed, ReasonCancelled, false)

	asked := make(chan struct{})
	quiet := newSensor(t, func(*sensor, query) { close(asked) })
	v = visitTo(quiet.uri())
	v.AckTimeout = 10 * time.Second
	done := make(chan visit.Outcome)
	go func() { done <- c.Fetch(context.Background(), v) }()
	<-asked
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	is(t, <-done, visit.Failed, ReasonCancelled, false)
	is(t, c.Fetch(context.Background(), v), visit.Failed, ReasonCancelled, false)
}

func TestOtherTransportsAreNotTriedInPlain(t *testing.T) {
	c := newClient(t, Options{})
	for _, uri := range []string{
		"coaps+ws://[::1]/x", "coap+ws://127.0.0.1/x", "http://127.0.0.1/", "", "%",
		"coap://127.0.0.1:70000/x",
	} {
		out := fetch(t, c, visitTo(uri))
		is(t, out, visit.Failed, ReasonTransport, false)
	}
	for _, uri := range []string{"coaps://[::1]/x", "coaps+tcp://127.0.0.1/x"} {
		out := fetch(t, c, visitTo(uri)) // no credential
		is(t, out, visit.Failed, ReasonAuth, false)
	}
	if n := c.Stats().Sent; n != 0 {
		t.Errorf("%d datagrams sent", n)
	}
}

// TestLateResponse: a confirmable response that comes after its visit is
// acknowledged, a bounded number of times, from the socket that asked.
func TestLateResponse(t *testing.T) {
	asked := make(chan query, 1)
	s := newSensor(t, func(s *sensor, q query) { asked <- q })
	c := newClient(t, Options{Sockets: 6})
	v := visitTo(s.uri())
	v.Retrans, v.AckTimeout = 0, time.Millisecond
	is(t, fetch(t, c, v), visit.Asleep, ReasonTimeout, false)
	q := <-asked
	for i := range 3 * maxLate {
		s.send(q.from, wire(con, content, uint16(i), q.token, nil, []byte(links)))
	}
	waitFor(t, func() bool { return c.Stats().Received == 3*maxLate })
	waitFor(t, func() bool { return len(s.received()) == 1+maxLate })
	if st := c.Stats(); st.Late != maxLate || st.Strangers != 2*maxLate {
		t.Errorf("stats %+v", st)
	}
	if a := s.received()[1]; a.typ != ack || a.code != 0 || a.from != q.from {
		t.Errorf("late response was answered with %+v", a)
	}
}

// waitFor polls what another goroutine will make true; it yields, not sleeps.
func waitFor(t testing.TB, cond func() bool) {
	t.Helper()
	timeout := time.After(10 * time.Second)
	for !cond() {
		select {
		case <-timeout:
			t.Fatal("condition never became true")
		case <-time.After(time.Millisecond):
		}
	}
}

func ExampleLimits() {
	fmt.Println(DefaultLimits().Body, DefaultLimits().Datagrams)
	// Output: 65536 70
}
