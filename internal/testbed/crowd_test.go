package testbed

import (
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

func newCrowd(t *testing.T, n int) *Crowd {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("needs all of 127.0.0.0/8 on loopback")
	}
	c, err := NewCrowd(n)
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

// member is a client of one sensor of a crowd.
func memberOf(t *testing.T, c *Crowd, i int) *peer {
	t.Helper()
	host := strings.TrimPrefix(strings.TrimSuffix(c.URI(i), "/.well-known/core"), "coap://")
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(netip.MustParseAddrPort(host)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &peer{t, conn}
}

// Each sensor answers from its own address (a connected socket hears no other), counts its own
// exchanges, tells a repeated request from a new one, and changes every fourth time.
func TestCrowd(t *testing.T) {
	const n = 70000
	c := newCrowd(t, n)
	picked := []int{0, 253, 254, 255, 65535, n - 1}
	for _, i := range picked {
		p := memberOf(t, c, i)
		first := p.ask(get(1, "abcd"))
		again := p.ask(get(1, "abcd"))
		if first.Code != codes.Content || string(first.Payload) != string(again.Payload) {
			t.Fatalf("sensor %d: %v, then %v", i, first, again)
		}
		tag := message.Option{ID: message.ETag, Value: option(first, message.ETag)}
		for mid := int32(2); mid <= crowdChange; mid++ {
			if m := p.ask(get(mid, "abcd", tag)); m.Code != codes.Valid || len(m.Payload) > 0 {
				t.Errorf("sensor %d, visit %d: %v", i, mid, m)
			}
		}
		if m := p.ask(get(9, "abcd", tag)); m.Code != codes.Content ||
			string(m.Payload) == string(first.Payload) {
			t.Errorf("sensor %d does not change: %v", i, m)
		}
		p.send(message.Message{Type: message.Confirmable, Code: codes.POST, MessageID: 10})
	}
	stranger := memberOf(t, c, n) // the address behind the last one's
	stranger.send(get(1, "abcd"))
	memberOf(t, c, 0).ask(get(11, "abcd")) // all before it has been taken in
	repeats, strange := c.Repeats()
	if repeats != len(picked) || strange != len(picked)+1 {
		t.Errorf("%d repeats, %d strange datagrams", repeats, strange)
	}
	for i, requests := range c.Requests() {
		want := 0
		if slices.Contains(picked, i) {
			want = crowdChange + 1
		}
		if i == 0 {
			want++
		}
		if requests != want {
			t.Errorf("sensor %d: %d requests, want %d", i, requests, want)
		}
	}
}

func TestCrowdSizes(t *testing.T) {
	for _, n := range []int{-1, 0, MaxCrowd + 1} {
		if c, err := NewCrowd(n); err == nil {
			t.Errorf("a crowd of %d", n)
			c.Close()
		}
	}
}
