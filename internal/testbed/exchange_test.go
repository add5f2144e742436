package testbed

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"github.com/crawld/crawld/internal/sleepplan"
)

func TestPiggybackedAnswer(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{MaxAge: 30})
	p := dial(t, s)
	m := p.ask(get(7, "token"))
	if m.Type != message.Acknowledgement || m.MessageID != 7 || string(m.Token) != "token" {
		t.Errorf("answer %v is not the request's ACK", m)
	}
	if m.Code != codes.Content || !bytes.Equal(m.Payload, s.Body()) {
		t.Errorf("answer is %v %q, want 2.05 %q", m.Code, m.Payload, s.Body())
	}
	format, age := uintOption(t, m, message.ContentFormat), uintOption(t, m, message.MaxAge)
	if format != LinkFormat || age != 30 || len(option(m, message.ETag)) != 8 {
		t.Errorf("content-format %d, max-age %d, etag % x", format, age, option(m, message.ETag))
	}
	r := settled(t, b, 1)[0]
	if r.From.String() != p.conn.LocalAddr().String() || r.Sent.Before(r.At) || r.Code != "2.05" {
		t.Errorf("the log says %+v", r)
	}
	in, out := len(encode(get(7, "token"))), len(encode(m))
	if got := s.Traffic(); got != (Traffic{1, 1, in, out}) {
		t.Errorf("traffic %+v, want one datagram of %d and one of %d bytes", got, in, out)
	}
}

func TestResponseCodes(t *testing.T) {
	post, path, non := get(1, ""), get(1, ""), get(1, "x")
	post.Code, path.Options, non.Type = codes.POST, nil, message.NonConfirmable
	ping := message.Message{Type: message.Confirmable, MessageID: 1}
	for _, test := range []struct {
		name string
		m    message.Message
		code codes.Code
		typ  message.Type
	}{
		{"other path", path, codes.NotFound, message.Acknowledgement},
		{"other method", post, codes.MethodNotAllowed, message.Acknowledgement},
		{"filter ignored", get(1, "", message.Option{ID: message.URIQuery, Value: []byte("rt=x")}),
			codes.Content, message.Acknowledgement},
		{"accepted format", get(1, "", number(message.Accept, 40)),
			codes.Content, message.Acknowledgement},
		{"other format", get(1, "", number(message.Accept, 50)),
			codes.NotAcceptable, message.Acknowledgement},
		{"critical option", get(1, "", message.Option{ID: 2001}),
			codes.BadOption, message.Acknowledgement},
		{"elective option", get(1, "", message.Option{ID: 2000}),
			codes.Content, message.Acknowledgement},
		{"block beyond the end", get(1, "", number(message.Block2, block{num: 99, size: 64}.value())),
			codes.BadRequest, message.Acknowledgement},
		{"NON", non, codes.Content, message.NonConfirmable},
		{"ping", ping, codes.Empty, message.Reset},
	} {
		b := newBed(t)
		m := dial(t, add(t, b, Spec{})).ask(test.m)
		if m.Code != test.code || m.Type != test.typ {
			t.Errorf("%s: %v %v, want %v %v", test.name, m.Type, m.Code, test.typ, test.code)
		}
	}
}

func TestOwnPathBodyAndFormat(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{
		Name: "senml", Path: "/temp/c", Format: NoFormat, NoETag: true,
		Body: func(seq int) []byte { return []byte{'0' + byte(seq)} },
	})
	s.Publish()
	ask := get(1, "", number(message.Accept, 110))
	copy(ask.Options, message.Options{
		{ID: message.URIPath, Value: []byte("temp")}, {ID: message.URIPath, Value: []byte("c")},
	})
	m := dial(t, s).ask(ask)
	if string(m.Payload) != "1" || len(m.Options) != 0 {
		t.Errorf("answer %v with payload %q, want 1 and no options", m, m.Payload)
	}
	if want := "coap://" + s.Addr().String() + "/temp/c"; s.URI() != want {
		t.Errorf("URI is %s, want %s", s.URI(), want)
	}
}

func TestValid(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{})
	p := dial(t, s)
	tag := message.Option{ID: message.ETag, Value: option(p.ask(get(1, "")), message.ETag)}
	other := message.Option{ID: message.ETag, Value: []byte("other")}
	m := p.ask(get(2, "", other, tag))
	same := bytes.Equal(option(m, message.ETag), tag.Value)
	if m.Code != codes.Valid || len(m.Payload) > 0 || !same {
		t.Errorf("the current ETag gives %v, want 2.03 with it", m)
	}
	s.Publish()
	if m := p.ask(get(3, "", tag)); m.Code != codes.Content {
		t.Errorf("an old ETag gives %v, want 2.05", m.Code)
	}
	if r := settled(t, b, 3); r[1].Code != "2.03" || !r[1].Complete || r[2].Seq != 1 {
		t.Errorf("the log says %+v", r)
	}
}

func TestAsleepDropsSilently(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{Plan: asleep(t)})
	p := dial(t, s)
	p.send(get(1, "asleep"))
	settled(t, b, 1)
	before := s.Traffic()
	p.send(get(2, "asleep"))
	settled(t, b, 2)
	s.SetPlan(sleepplan.AlwaysOn())
	// The socket stayed open, and what came asleep is not answered later.
	if m := p.ask(get(3, "awake")); string(m.Token) != "awake" {
		t.Errorf("the first answer is to %q", m.Token)
	}
	r := settled(t, b, 3)
	if r[0].Dropped != DroppedAsleep || r[0].Answered || r[0].Code != "" || !r[2].Answered {
		t.Errorf("the log says %+v", r)
	}
	if before != (Traffic{}) {
		t.Errorf("a sleeping radio heard %+v", before)
	}
	ack := message.Message{Type: message.Acknowledgement, MessageID: 9}
	s.SetPlan(asleep(t))
	p.send(ack)
	settled(t, b, 4)
	if n := b.WastedRequests(r[0].At, time.Now().Add(time.Second), nil); n != 2 {
		t.Errorf("%d wasted requests, want 2: an ACK is none", n)
	}
	if n := b.WastedRequests(r[0].At, r[1].At, nil); n != 1 {
		t.Errorf("%d wasted requests before the second, want 1", n)
	}
}

// A duplicate gets the same answer, although the description has changed.
func TestDuplicatesOfARequest(t *testing.T) {
	for _, spec := range []Spec{{}, {NON: true}} {
		b := newBed(t)
		s := add(t, b, spec)
		p := dial(t, s)
		p.send(get(5, "a"))
		first := p.datagram(patience)
		s.Publish()
		p.send(get(5, "a"))
		if again := p.datagram(patience); !bytes.Equal(first, again) {
			t.Errorf("NON %v: a duplicate gets % x, the original got % x", spec.NON, again, first)
		}
		if m := p.ask(get(6, "a")); !bytes.Equal(m.Payload, s.Body()) {
			t.Error("another Message ID must get the new description")
		}
		if r := settled(t, b, 3); r[1].Seq != 0 || !r[1].Complete || r[2].Seq != 1 {
			t.Errorf("the log says %+v", r)
		}
	}
}

func TestDuplicatedAnswers(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{Duplicate: 1})
	p := dial(t, s)
	p.send(get(1, ""))
	if d := p.datagram(patience); !bytes.Equal(d, p.datagram(patience)) {
		t.Error("the copy differs")
	}
	if r := settled(t, b, 1); len(r) != 1 || s.Traffic().Out != 2 {
		t.Errorf("log %+v, traffic %+v, want one request and two datagrams", r, s.Traffic())
	}
}

func TestSeparateAnswer(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{Separate: true, AckTimeout: 20 * time.Millisecond})
	p := dial(t, s)
	ack := encode(message.Message{Type: message.Acknowledgement, MessageID: 1})
	if m := p.ask(get(1, "a")); !bytes.Equal(encode(m), ack) {
		t.Fatalf("first comes %v, want the empty ACK", m)
	}
	first, again := p.receive(), p.datagram(patience)
	if first.Type != message.Confirmable || first.Code != codes.Content || string(first.Token) != "a" {
		t.Fatalf("then comes %v, want a CON with the description", first)
	}
	if !bytes.Equal(encode(first), again) {
		t.Error("the retransmission differs")
	}
	p.send(message.Message{Type: message.Acknowledgement, MessageID: first.MessageID})
	for range 3 { // what had left before the ACK came
		if d := p.datagram(200 * time.Millisecond); d == nil {
			break
		}
	}
	if d := p.datagram(500 * time.Millisecond); d != nil {
		t.Errorf("% x comes after the ACK", d)
	}
	r := settled(t, b, 2)
	if r[0].Code != "2.05" || !r[0].Complete || r[1].Kind != KindAck || r[1].Answered {
		t.Errorf("the log says %+v", r)
	}
	if m := p.ask(get(1, "a")); !bytes.Equal(encode(m), ack) {
		t.Errorf("a duplicate gets %v, want the empty ACK", m)
	}
}

func TestSeparateAnswerGivesUp(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{Separate: true, LoseAck: true, AckTimeout: 5 * time.Millisecond})
	p := dial(t, s)
	for range 1 + maxRetransmit {
		p.send(get(1, "a")) // duplicates, whose ACKs are lost as well
		if m := p.receive(); m.Type != message.Confirmable {
			t.Fatalf("%v comes, want nothing but the CON", m)
		}
	}
	if d := p.datagram(500 * time.Millisecond); d != nil {
		t.Errorf("% x comes after the last retransmission", d)
	}
}

func TestDelay(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{Delay: 300 * time.Millisecond})
	p := dial(t, s)
	p.send(get(1, "a"))
	p.send(get(1, "a")) // comes while the sensor thinks: nothing is due yet
	if m := p.receive(); m.Code != codes.Content {
		t.Fatalf("answer %v", m)
	}
	r := settled(t, b, 2)
	if r[0].Answered || r[0].Dropped != "" || !r[1].Answered {
		t.Errorf("the log says %+v", r)
	}
	if took := r[1].Sent.Sub(r[1].At); took < 30*time.Millisecond {
		t.Errorf("the answer left after %v, want 300ms or more", took)
	}
}

// A fifth of the datagrams is lost in each direction, so 64 % of the NON
// requests get their answer; what the log says has arrived has arrived.
func TestLoss(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{Loss: 0.2})
	p := dial(t, s)
	const n, batch = 2000, 50
	answered := 0
	for i := 0; i < n; i += batch {
		for j := range batch {
			m := get(int32(i+j), "")
			m.Type = message.NonConfirmable
			p.send(m)
		}
		for _, r := range settled(t, b, i+batch)[i:] {
			if !r.Answered {
				if r.Dropped != DroppedLoss {
					t.Fatalf("the log says %+v", r)
				}
				continue
			}
			answered++
			p.receive()
		}
	}
	if d := p.datagram(time.Millisecond); d != nil {
		t.Error("an answer came that the log calls lost")
	}
	within := func(what string, got, of int, share float64) {
		t.Helper()
		sd := math.Sqrt(float64(of) * share * (1 - share))
		if math.Abs(float64(got)-share*float64(of)) > 4*sd {
			t.Errorf("%s: %d of %d, want a share of %v", what, got, of, share)
		}
	}
	within("heard", s.Traffic().In, n, 0.8)
	within("answered", answered, n, 0.64)
	within("answers that arrived", answered, s.Traffic().Out, 0.8)
}

// A Message ID means the same exchange for 247 s (RFC 7252 4.8.2).
func TestExchangesAreForgotten(t *testing.T) {
	e := &endpoint{exchanges: map[exchange]*reply{}}
	one, two := exchange{mid: 1}, exchange{mid: 2}
	e.remember(one, Request{At: at(0)})
	e.remember(two, Request{At: at(100)})
	if e.forget(at(247)); e.exchanges[one] == nil {
		t.Error("forgotten too early")
	}
	if e.forget(at(248)); e.exchanges[one] != nil || e.exchanges[two] == nil || len(e.ageing) != 1 {
		t.Errorf("after 248 s %d exchanges are left, want the second", len(e.ageing))
	}
}
