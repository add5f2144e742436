package coapclient

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/crawld/crawld/internal/visit"
)

// A transcript has every datagram either way, those that were dropped too, and why.
func TestTranscript(t *testing.T) {
	s := newSensor(t, func(s *sensor, q query) {
		s.send(q.from, []byte{0x60, 0x45})
		s.send(q.from, wire(ack, content, q.mid, []byte("nobody's"), nil, []byte("x")))
		s.send(q.from, wire(rst, 0, q.mid+1, nil, nil, nil))
		s.send(q.from, wire(con, 1, 9, nil, nil, nil))
		s.send(q.from, wire(ack, 0, q.mid, nil, nil, nil))
		s.send(q.from, wire(con, content, 900, q.token,
			[]option{etag("\x01\xff"), linkFormat, block2(0, false, 64), {65000, []byte("u")}},
			[]byte("</a\x1b>")))
	})
	v := visitTo(s.uri() + "?rt=x")
	v.AckTimeout = time.Second
	out := fetch(t, newClient(t, Options{Transcript: true}), v)
	is(t, out, visit.Described, "", true)
	want := []struct {
		sent bool
		part string // of the line
	}{
		{true, `> CON GET mid`}, {false, `< 2 bytes (6045)`}, {false, `(dropped: not our token)`},
		{false, `< RST 0.00 mid`}, {false, `< CON GET mid 9 4 bytes (dropped: a request)`},
		{false, `< ACK 0.00 mid`},
		{false, `[ETag: 0x01ff, Content-Format: 40, Block2: 0/64, Option 65000: 0x75]` +
			` payload 5: "</a\x1b>"`},
		{true, `> ACK 0.00 mid 900 4 bytes`},
	}
	if len(out.Transcript) != len(want) {
		t.Fatalf("%d lines, want %d:\n%v", len(out.Transcript), len(want), out.Transcript)
	}
	last := 0.0
	for i, w := range want {
		l := out.Transcript[i]
		if l.Sent != w.sent || !strings.Contains(l.String(), w.part) || l.Offset < last {
			t.Errorf("line %d: %v, want %s", i, l, w.part)
		}
		last = l.Offset
	}
	if first := out.Transcript[0].String(); !strings.Contains(first, `Uri-Query: "rt=x"`) {
		t.Error(first)
	}
	if out := fetch(t, newClient(t, Options{}), v); out.Transcript != nil {
		t.Errorf("nobody asked for %v", out.Transcript)
	}
}

// A sensor that sends without end does not fill the memory.
func TestTranscriptIsBounded(t *testing.T) {
	s := newSensor(t, func(s *sensor, q query) {
		for i := range 2 * maxLines {
			s.send(q.from, wire(con, 1, uint16(i), nil, nil, nil))
		}
	})
	v := visitTo(s.uri())
	v.Retrans = 3
	out := fetch(t, newClient(t, Options{Transcript: true}), v)
	n := len(out.Transcript)
	if n != maxLines+1 || out.Transcript[n-1].Note != "the rest is not shown" {
		t.Errorf("%d lines, the last %v", n, out.Transcript[n-1])
	}
}

// FuzzDescribe: whatever comes is shown in one line without control characters, and in
// bounded length.
func FuzzDescribe(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x60, 0x45})
	f.Add(wire(con, 1, 1, []byte("12345678"), []option{{11, []byte("a\nb")}, num(17, 40)}, nil))
	f.Add(wire(ack, content, 2, nil, []option{{3, []byte("h")}, block2(7, true, 512),
		{23, []byte("12345")}, {60, nil}, {65001, make([]byte, 300)}}, []byte("\x00\xff")))
	f.Add(append(wire(rst, 0, 3, nil, nil, nil), 0xff))
	f.Add(append(wire(ack, content, 2, nil, []option{linkFormat}, nil), 0xff))
	f.Fuzz(func(t *testing.T, b []byte) {
		l := describe(b)
		text := fmt.Sprint(l)
		if i := strings.IndexFunc(text, unicode.IsControl); i >= 0 {
			t.Errorf("control character at %d of %q", i, text)
		}
		if len(text) > 400+maxOptions*(5*shownValue+40) {
			t.Errorf("%d bytes of text", len(text))
		}
		if l.Payload > len(b) || l.Size != len(b) {
			t.Errorf("%+v of %d bytes", l, len(b))
		}
	})
}
