package testbed

import (
	"bytes"
	"testing"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// wantBlock is a Block2 option that asks for a block.
func wantBlock(num, size int) message.Option {
	return number(message.Block2, block{num: num, size: size}.value())
}

func blockOf(t testing.TB, m message.Message) block {
	t.Helper()
	return parseBlock(uintOption(t, m, message.Block2))
}

func TestBlockValue(t *testing.T) {
	for v := range uint32(1 << 12) {
		if v&7 == 7 {
			continue // reserved (RFC 7959 2.2)
		}
		if got := parseBlock(v).value(); got != v {
			t.Fatalf("%#x comes back as %#x", v, got)
		}
	}
	if b := parseBlock(0x123<<4 | 8 | 2); b != (block{num: 0x123, more: true, size: 64}) {
		t.Errorf("0x123a is %+v", b)
	}
}

// Every size the client may ask for puts the same body together; events in
// between do not mix representations.
func TestBlocks(t *testing.T) {
	for _, test := range []struct{ server, client, used int }{
		{64, 0, 64}, {64, 16, 16}, {64, 1024, 64}, {0, 32, 32}, {512, 512, 512},
	} {
		b := newBed(t)
		s := add(t, b, Spec{Size: 600, Block: test.server})
		want := s.Body()
		p := dial(t, s)
		var body []byte
		var tag []byte
		for n, more := 0, true; more; n++ {
			ask := get(int32(n), "t", wantBlock(n, test.used))
			if n == 0 {
				ask = get(0, "t")
				if test.client > 0 {
					ask = get(0, "t", wantBlock(0, test.client))
				}
			}
			m := p.ask(ask)
			got := blockOf(t, m)
			if got.num != n || got.size != test.used || m.Code != codes.Content {
				t.Fatalf("%+v: block %d comes as %+v", test, n, got)
			}
			if n == 0 {
				tag = option(m, message.ETag)
				if size := uintOption(t, m, message.Size2); int(size) != len(want) {
					t.Errorf("Size2 is %d, want %d", size, len(want))
				}
			}
			if !bytes.Equal(option(m, message.ETag), tag) {
				t.Fatalf("%+v: the ETag changes at block %d", test, n)
			}
			body, more = append(body, m.Payload...), got.more
			s.Publish()
		}
		if !bytes.Equal(body, want) {
			t.Errorf("%+v: the blocks give %q, want %q", test, body, want)
		}
		log := settled(t, b, 2)
		first, last := log[0], log[len(log)-1]
		if first.Complete || first.Kind != KindGet || last.Kind != KindBlock {
			t.Errorf("%+v: the log begins %+v and ends %+v", test, first, last)
		}
		if !last.Complete || last.Seq != 0 {
			t.Errorf("%+v: the log begins %+v and ends %+v", test, first, last)
		}
	}
}

// Each block of a separate transfer has its own empty ACK, CON and ACK.
func TestSeparateBlocks(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{Separate: true, Block: 64, Size: 200})
	p := dial(t, s)
	var body []byte
	for n := range int32(10) {
		if m := p.ask(get(n, "t", wantBlock(int(n), 64))); m.Code != codes.Empty {
			t.Fatalf("block %d begins with %v, want the empty ACK", n, m)
		}
		m := p.receive()
		p.send(message.Message{Type: message.Acknowledgement, MessageID: m.MessageID})
		body = append(body, m.Payload...)
		if !blockOf(t, m).more {
			break
		}
	}
	if !bytes.Equal(body, s.Body()) {
		t.Errorf("the blocks give %q, want %q", body, s.Body())
	}
	// go-coap's client asks for the next block inside the ACK: that is no request.
	inAck := get(99, "t", wantBlock(1, 64))
	inAck.Type = message.Acknowledgement
	p.send(inAck)
	log := settled(t, b, 9)
	if r := log[len(log)-1]; r.Kind != KindOther || r.Answered {
		t.Errorf("the log says %+v of a GET inside an ACK", r)
	}
}

// Two clients behind one address, and one that changes its token.
func TestTransfersKeepTheirRepresentation(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{Size: 300, Block: 64})
	p := dial(t, s)
	tag := func(m message.Message) string { return string(option(m, message.ETag)) }
	one := tag(p.ask(get(1, "one")))
	s.Publish()
	two := tag(p.ask(get(2, "two")))
	if one == two {
		t.Fatal("the second transfer begins with the old description")
	}
	if got := tag(p.ask(get(3, "one", wantBlock(1, 64)))); got != one {
		t.Error("the first transfer has lost its representation")
	}
	if got := tag(p.ask(get(4, "other", wantBlock(1, 64)))); got != two {
		t.Error("an unknown token must mean the newest transfer")
	}
	s.Publish()
	late := tag(dial(t, s).ask(get(1, "one", wantBlock(1, 64))))
	if late == one || late == two {
		t.Error("another client must not share a transfer")
	}
	for i := range int32(keptTransfers) {
		p.ask(get(100+i, "more"))
	}
	if got := tag(p.ask(get(5, "one", wantBlock(1, 64)))); got != late {
		t.Error("the oldest transfer must make room")
	}
}

func TestWholeBody(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{Size: 5000})
	m := dial(t, s).ask(get(1, ""))
	if !bytes.Equal(m.Payload, s.Body()) || len(m.Payload) < 5000 || len(m.Payload) > 5200 {
		t.Errorf("%d bytes come, want about 5000", len(m.Payload))
	}
	if option(m, message.Block2) != nil {
		t.Error("a body that comes whole needs no Block2")
	}
}

func TestFaults(t *testing.T) {
	b := newBed(t)
	with := func(f Fault) *peer { return dial(t, add(t, b, Spec{Fault: f, MaxAge: 9, Size: 300})) }

	if m := with(FaultReset).ask(get(1, "")); m.Type != message.Reset || m.MessageID != 1 {
		t.Errorf("rst: %v", m)
	}
	if m := with(FaultUnavailable).ask(get(1, "")); m.Code != codes.ServiceUnavailable ||
		uintOption(t, m, message.MaxAge) != 9 {
		t.Errorf("5.03: %v", m)
	}
	if m := with(FaultNotFound).ask(get(1, "")); m.Code != codes.NotFound {
		t.Errorf("4.04: %v", m)
	}
	for _, f := range []Fault{FaultGarbage, FaultNoise} {
		p := with(f)
		p.send(get(1, ""))
		if d := p.datagram(patience); len(d) >= 4 && d[0]>>6 == 1 {
			t.Errorf("%s: % x may be CoAP", f, d)
		}
		if f == FaultNoise && p.receive().Code != codes.Content {
			t.Error("noise: no answer follows")
		}
	}
	flip := with(FaultFlip)
	one, two := flip.ask(get(1, "", wantBlock(0, 64))), flip.ask(get(2, "", wantBlock(1, 64)))
	if bytes.Equal(option(one, message.ETag), option(two, message.ETag)) {
		t.Error("flip: the ETag stays")
	}
	for f, want := range map[Fault][]int{
		FaultEndless: {0, 1, 2, 1000}, FaultOversize: {0, 1, 2, 1000},
		FaultStuck: {0, 0, 0, 0}, FaultJump: {0, 2, 3, 1001},
	} {
		p := with(f)
		for i, num := range []int{0, 1, 2, 1000} {
			m := p.ask(get(int32(i), "", wantBlock(num, 64)))
			if got := blockOf(t, m); got != (block{want[i], true, 64}) || len(m.Payload) != 64 {
				t.Errorf("%s: for block %d comes %+v", f, num, got)
			}
			if f == FaultOversize && uintOption(t, m, message.Size2) != 16<<20 {
				t.Error("oversize: Size2 is not 16 MiB")
			}
		}
	}
}

func TestFaultsThatAnswerNothing(t *testing.T) {
	b := newBed(t)
	dead := add(t, b, Spec{Name: "dead", Fault: FaultDead})
	stranger := add(t, b, Spec{Fault: FaultStranger})
	closed := add(t, b, Spec{Fault: FaultClosed})

	dial(t, dead).send(get(1, ""))
	if r := settled(t, b, 1)[0]; r.Sensor != "dead" || r.Dropped != DroppedDead || r.Answered {
		t.Errorf("dead: the log says %+v", r)
	}
	p := dial(t, stranger)
	p.send(get(1, "")) // a connected socket hears no strangers
	if r := settled(t, b, 2)[1]; r.Answered || r.Complete || stranger.Traffic().Out != 1 {
		t.Errorf("stranger: the log says %+v", r)
	}
	p = dial(t, closed)
	p.send(get(1, ""))
	if err := p.conn.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := p.conn.Read(make([]byte, 10)); err == nil {
		t.Error("closed: an answer came")
	}
}
