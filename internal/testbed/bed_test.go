package testbed

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
)

func TestStopAndStart(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{Delay: time.Hour})
	quick := add(t, b, Spec{})
	p := dial(t, s)
	p.send(get(1, "a"))
	p.ask(message.Message{Type: message.Confirmable, MessageID: 2}) // the GET is in
	for range 2 {
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	r := settled(t, b, 2)[1]
	if r.Dropped != DroppedStopped || r.Answered {
		t.Errorf("the log says %+v of the request that was in work", r)
	}

	if err := quick.Stop(); err != nil {
		t.Fatal(err)
	}
	address := quick.Addr()
	quick.Publish()
	for range 2 {
		if err := quick.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if quick.Addr() != address {
		t.Errorf("started at %v, was at %v", quick.Addr(), address)
	}
	m := dial(t, quick).ask(get(1, ""))
	if !bytes.Equal(m.Payload, quick.Body()) || !strings.Contains(string(m.Payload), `ver="1"`) {
		t.Errorf("started again it serves %q", m.Payload)
	}
}

func TestStartFailsWhenThePortIsTaken(t *testing.T) {
	b := newBed(t)
	s, other := add(t, b, Spec{}), add(t, b, Spec{})
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	s.addr = other.addr
	if err := s.Start(); err == nil || !strings.Contains(err.Error(), "sensor-001") {
		t.Errorf("start on a taken port: %v", err)
	}
}

func TestCloseEndsAtOnceAndForGood(t *testing.T) {
	b := New(1)
	s := add(t, b, Spec{Delay: time.Hour})
	dial(t, s).send(get(1, ""))
	for range 2 {
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if s.Start() == nil {
		t.Error("a sensor starts in a closed bed")
	}
	if _, err := b.Add(Spec{}); err == nil {
		t.Error("a closed bed takes a sensor")
	}
}

func TestAddRefuses(t *testing.T) {
	b := newBed(t)
	add(t, b, Spec{Name: "a"})
	for want, spec := range map[string]Spec{
		"taken":     {Name: "a"},
		"rate":      {Rate: -1},
		"loss":      {Loss: 1.5},
		"duplicate": {Duplicate: -0.1},
		"block":     {Block: 100},
		"format":    {Format: -2},
		"negative":  {Delay: -1},
		"fault":     {Fault: "lazy"},
	} {
		if _, err := b.Add(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one about %q", spec, err, want)
		}
	}
	if n := len(b.Sensors()); n != 1 {
		t.Errorf("%d sensors after the refusals", n)
	}
}

func TestRequestPages(t *testing.T) {
	b := newBed(t)
	p := dial(t, add(t, b, Spec{}))
	var pages []Request
	for mid := range int32(10) {
		p.ask(get(mid, ""))
		settled(t, b, int(mid)+1)
		if mid%3 == 0 {
			pages = append(pages, b.RequestsSince(len(pages))...)
		}
	}
	if len(pages) != 10 || !slices.Equal(pages, b.Requests()) || len(b.RequestsSince(11)) != 0 {
		t.Errorf("the pages hold %d requests, want the log's 10", len(pages))
	}
}

// The same seed loses and duplicates the same datagrams.
func TestSameSeedSameFate(t *testing.T) {
	fates := func(seed uint64) (f []bool) {
		b := New(seed)
		defer b.Close()
		s := add(t, b, Spec{Loss: 0.5, Duplicate: 0.5})
		p := dial(t, s)
		for mid := range int32(64) {
			p.send(get(mid, ""))
		}
		for _, r := range settled(t, b, 64) {
			f = append(f, r.Answered)
		}
		return f
	}
	if !slices.Equal(fates(1), fates(1)) {
		t.Error("the same seed differs")
	}
	if slices.Equal(fates(1), fates(2)) {
		t.Error("another seed does not differ")
	}
}

// A sensor answers pings after whatever came before.
func FuzzDatagram(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x40, 0x01, 0, 1})
	f.Add(encode(get(1, "token", number(message.Block2, 0xffffff), number(message.Accept, 40))))
	f.Add(encode(get(1, "token", message.Option{ID: message.ETag, Value: []byte("12345678")})))
	f.Add(append([]byte{0x48, 0x01, 0, 1}, bytes.Repeat([]byte{0x11}, 300)...))
	f.Add([]byte{0x60, 0x45, 0, 1, 0xff})
	f.Fuzz(func(t *testing.T, datagram []byte) {
		b := newBed(t)
		p := dial(t, add(t, b, Spec{Size: 200, Block: 64}))
		p.raw(datagram[:min(len(datagram), 4096)])
		settled(t, b, 1)
		// The ping may come to the same Message ID as a request: ask until an RST.
		for mid := int32(60000); ; mid++ {
			p.send(message.Message{Type: message.Confirmable, MessageID: mid})
			for d := p.datagram(patience); d != nil; d = p.datagram(time.Millisecond) {
				if bytes.Equal(d, bare(message.Reset, uint16(mid))) {
					return
				}
			}
			if mid == 60003 {
				t.Fatal("no RST comes for four pings")
			}
		}
	})
}
