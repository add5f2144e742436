package directory

import (
	"context"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"golang.org/x/time/rate"

	"github.com/crawld/crawld/internal/linkformat"
)

// Any datagram from an address that has proven nothing gets at most three times its length,
// a well-formed answer, and changes nothing; the same from a proven one gets a well-formed
// answer, and a lookup's answer is valid link format.
func FuzzRequest(f *testing.F) {
	for _, request := range []string{"GET /.well-known/core?rt=core.rd*", "GET /rd-lookup/res",
		"GET /rd-lookup/ep?page=1&count=2&ep=s*", "POST /rd?ep=a&lt=600&base=coap://127.0.0.3",
		"POST /rd?ep=a&et=x", "POST /rd/1?lt=3", "DELETE /rd/1", "POST /.well-known/rd?ep=b&d=c"} {
		f.Add(datagramOf(request, "", 1))
		f.Add(datagramOf(request, "</a>;rt=x", 2, option(message.Block1, 8)))
		f.Add(datagramOf(request, "", 3, option(message.Block2, 16), option(message.Accept, 40)))
	}
	f.Add([]byte{0x40, 0, 0, 1})
	f.Add([]byte{0x48, 1, 0, 1, 2, 3})
	s := newSite(f, 3)
	defer s.Close()
	stranger := netip.MustParseAddrPort("127.0.0.8:1")
	friend := netip.MustParseAddrPort("127.0.0.9:1")
	f.Fuzz(func(t *testing.T, datagram []byte) {
		now := time.Now()
		for _, peer := range []netip.AddrPort{stranger, friend} {
			s.mu.Lock()
			s.announced = nil
			s.mu.Unlock()
			s.exchanges = newTable[exchange, []byte](exchangeLifetime, maxExchanges)
			s.gate.requests = newTable[netip.Addr, *rate.Limiter](time.Minute, maxPeers)
			s.gate.registers = newTable[netip.Addr, *rate.Limiter](time.Minute, maxPeers)
			s.gate.proves(friend.Addr(), s.gate.echo(friend.Addr(), now), now)
			before := s.regs.Len()
			var mu sync.Mutex
			var answers [][]byte
			s.receive(context.Background(), datagram, peer, func(b []byte) {
				mu.Lock()
				defer mu.Unlock()
				answers = append(answers, b)
			})
			s.running.Wait()
			if len(answers) > 1 {
				t.Fatalf("%d answers", len(answers))
			}
			for _, b := range answers {
				check(t, datagram, decodeReply(t, b), peer == friend)
			}
			if peer == stranger && (s.regs.Len() != before || len(s.announced) > 0) {
				t.Fatal("a stranger changes something")
			}
		}
	})
}

func check(t *testing.T, datagram []byte, r reply, proven bool) {
	t.Helper()
	if !proven && r.size > amplification*len(datagram) {
		t.Fatalf("%d bytes for %d", r.size, len(datagram))
	}
	if r.code() == "5.00" {
		t.Fatal("an internal error")
	}
	_, parts := r.option(message.Block2)
	if r.code() == "2.05" && !parts && linkformat.Parse(r.Payload).Verdict != linkformat.Valid {
		t.Fatalf("not valid link format: %q", r.Payload)
	}
}
