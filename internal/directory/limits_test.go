package directory

import (
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"github.com/crawld/crawld/internal/planner"
)

// Whoever sends under a foreign address causes no crawl, no registration, and no more than
// three times its own bytes.
func TestSpoofedSourceIsNoAmplifier(t *testing.T) {
	s := newSite(t, 200).serve(t)
	p := dial(t, s, "127.0.0.9:0")
	for _, request := range []string{"GET /rd-lookup/res", "GET /rd-lookup/ep?ep=s*",
		"GET /.well-known/core", "POST /rd?ep=a", "POST /.well-known/rd?ep=a&lt=60",
		"GET /nothing/of/that/name", "POST /rd/1", "PUT /rd"} {
		sent := p.send(request, "")
		if r := p.receive(); r.size > amplification*len(sent) || r.Code>>5 == 2 {
			t.Errorf("%s: %d bytes sent, %d come back, %s", request, len(sent), r.size, r.code())
		}
	}
	if s.regs.Len() != 0 || len(s.calls()) != 0 {
		t.Errorf("%d registrations, announced %v", s.regs.Len(), s.calls())
	}
	// Another address's Echo proves nothing, an old one neither.
	now := time.Now()
	own := netip.MustParseAddr("127.0.0.9")
	for what, echo := range map[string]string{
		"another address's": s.gate.echo(netip.MustParseAddr("127.0.0.10"), now),
		"a stale one":       s.gate.echo(own, now.Add(-echoLife-time.Second)),
		"one of tomorrow":   s.gate.echo(own, now.Add(time.Hour)),
		"nonsense":          "nonsense",
	} {
		p.send("POST /rd?ep=a", "", message.Option{ID: optionEcho, Value: []byte(echo)})
		if r := p.receive(); r.Code != codes.Unauthorized {
			t.Errorf("%s: %s", what, r.code())
		}
	}
	// The negative control: with its own it is believed, and gets the long answer.
	sent := p.send("GET /rd-lookup/res", "")
	echo, _ := p.receive().option(optionEcho)
	p.send("GET /rd-lookup/res", "", message.Option{ID: optionEcho, Value: echo})
	if r := p.receive(); r.size <= amplification*len(sent) || r.code() != "2.05" {
		t.Errorf("with the right Echo: %s of %d bytes", r.code(), r.size)
	}
}

// A name belongs to the address that took it; update and removal too.
func TestFirstComeFirstRemembered(t *testing.T) {
	s := newSite(t, 1).serve(t)
	owner, other := dial(t, s, "127.0.0.9:0"), dial(t, s, "127.0.0.10:0")
	for i, c := range []struct {
		p       *peer
		request string
		code    string
	}{
		{owner, "POST /rd?ep=a", "2.01"},
		{other, "POST /rd?ep=a", "4.03"},
		{other, "POST /.well-known/rd?ep=a", "4.03"},
		{other, "POST /rd/1?lt=1", "4.03"},
		{other, "DELETE /rd/1", "4.03"},
		{other, "POST /rd?ep=s0", "4.03"},
		{other, "POST /rd?ep=s0&d=x", "4.03"},
		{owner, "POST /rd?ep=a&lt=60", "2.01"},
		{owner, "DELETE /rd/1", "2.02"},
		{other, "POST /rd?ep=a", "2.01"},
		{dial(t, s, "127.0.0.1:0"), "POST /rd?ep=s0", "2.01"},
	} {
		if r := c.p.ask(c.request, ""); r.code() != c.code {
			t.Errorf("%d: %s: %s %q, want %s", i, c.request, r.code(), r.Payload, c.code)
		}
	}
	bound := s.regs.Bound(s.listed)
	if len(bound["s0"]) != 1 || !bound["s0"][0].Listed {
		t.Errorf("the listed sensor's own registration is bound to %+v", bound)
	}
	f, err := s.regs.Join(s.listed)
	if err != nil || f.Len() != 2 || f.At(0).ID != "rd:a" || !f.At(1).Equal(s.listed.At(0)) {
		t.Errorf("%v: %d sensors in the fleet", err, f.Len())
	}
}

func TestForeignNetworksGetNoAnswer(t *testing.T) {
	s := newSite(t, 0)
	s.o.Networks = []netip.Prefix{netip.MustParsePrefix("127.0.0.16/28")}
	s.serve(t)
	outside, inside := dial(t, s, "127.0.0.9:0"), dial(t, s, "127.0.0.17:0")
	outside.send("GET /.well-known/core?rt=core.rd", "")
	if r := inside.ask("GET /.well-known/core?rt=core.rd", ""); r.code() != "2.05" {
		t.Errorf("inside: %s", r.code())
	}
	// What was sent first has been taken first: the reader is one.
	if err := outside.conn.SetReadDeadline(time.Now()); err != nil {
		t.Fatal(err)
	}
	if n, err := outside.conn.Read(make([]byte, 100)); err == nil {
		t.Errorf("outside: %d bytes", n)
	}
}

// Registrations of one address are paced; what is said of that is 4.29 with a Max-Age.
func TestRegistrationsArePaced(t *testing.T) {
	s := newSite(t, 0).serve(t)
	p, other := dial(t, s, "127.0.0.9:0"), dial(t, s, "127.0.0.10:0")
	for n := 0; ; n++ {
		r := p.ask("POST /rd?ep=a", "")
		if r.Code == codes.Created && n < 10*registerBurst {
			continue
		}
		if _, has := r.option(message.MaxAge); n < registerBurst || r.code() != "4.29" || !has {
			t.Errorf("after %d: %s", n, r.code())
		}
		break
	}
	if r := other.ask("POST /rd?ep=b", ""); r.Code != codes.Created {
		t.Errorf("another address: %s", r.code())
	}
}

// A request that comes again is answered again, and done once.
func TestDuplicatesAreDoneOnce(t *testing.T) {
	s := newSite(t, 0).serve(t)
	p := dial(t, s, "127.0.0.9:0")
	p.ask("POST /.well-known/rd?ep=a", "")
	before := len(s.calls())
	datagram := p.send("POST /.well-known/rd?ep=a", "")
	first := p.receive()
	for range 5 {
		if _, err := p.conn.Write(datagram); err != nil {
			t.Fatal(err)
		}
		if r := p.receive(); r.code() != first.code() || r.MessageID != first.MessageID {
			t.Errorf("again: %s", r.code())
		}
	}
	if n := len(s.calls()) - before; n != 1 || first.code() != "2.04" {
		t.Errorf("%s, announced %d times", first.code(), n)
	}
}

// What the rules of crawling do not allow now is 5.03: the sensor comes again.
func TestRefusedAnnouncement(t *testing.T) {
	s := newSite(t, 0).serve(t)
	s.refuse(planner.ErrBudget)
	p := dial(t, s, "127.0.0.9:0")
	if r := p.ask("POST /.well-known/rd?ep=a", ""); r.code() != "5.00" {
		t.Errorf("an error of another kind: %s", r.code())
	}
	s.refuse(ErrBusy)
	r := p.ask("POST /.well-known/rd?ep=b", "")
	if _, has := r.option(message.MaxAge); r.code() != "5.03" || !has {
		t.Errorf("%s %q", r.code(), r.Payload)
	}
}

// A table never holds more than two generations, and nothing younger than its life is
// forgotten while it is not full. What nobody looks at may stay for four lives.
func TestTableForgets(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	const life, limit = 10 * time.Second, 50
	tab := newTable[int, time.Time](life, limit)
	now, kept, checked := time.Unix(0, 0), map[int]time.Time{}, 0
	for range 20000 {
		now = now.Add(time.Duration(rng.IntN(500)) * time.Millisecond)
		k := rng.IntN(30) // fewer than fill a generation
		if rng.IntN(2) == 0 {
			tab.put(k, now, now)
			kept[k] = now
			continue
		}
		got, ok := tab.get(k, now)
		at, was := kept[k]
		if was && now.Sub(at) < life {
			checked++
			if !ok || got != at {
				t.Fatalf("row of %v ago: %v %v", now.Sub(at), got, ok)
			}
		}
		if was && now.Sub(at) >= 4*life && ok {
			t.Fatalf("a row of %v ago is still there", now.Sub(at))
		}
	}
	if checked < 1000 {
		t.Errorf("only %d rows were looked up in time", checked)
	}
	for i := range 10 * limit {
		tab.put(i, now, now)
	}
	if n := len(tab.young) + len(tab.old); n > 2*limit {
		t.Errorf("%d rows", n)
	}
}
