package coapclient

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

var allowLoopback = Networks{Allow: []netip.Prefix{
	netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
}}

func TestNetworks(t *testing.T) {
	p := func(s ...string) (ps []netip.Prefix) {
		for _, x := range s {
			ps = append(ps, netip.MustParsePrefix(x))
		}
		return ps
	}
	for _, x := range []struct {
		n             Networks
		addr          string
		literal, name bool
	}{
		{Networks{}, "192.0.2.1", true, true},
		{Networks{}, "2001:db8::1", true, true},
		{Networks{}, "127.0.0.1", true, false},
		{Networks{}, "::1", true, false},
		{Networks{}, "169.254.1.1", true, false},
		{Networks{}, "fe80::1%eth0", true, false},
		{Networks{}, "224.0.1.187", false, false},
		{Networks{}, "ff02::fd%eth0", false, false},
		{Networks{}, "255.255.255.255", false, false},
		{Networks{}, "0.0.0.0", false, false},
		{Networks{}, "::", false, false},
		{Networks{Allow: p("10.0.0.0/8")}, "192.0.2.1", true, false},
		{Networks{Allow: p("10.0.0.0/8")}, "10.1.1.1", true, true},
		{Networks{Allow: p("127.0.0.0/8")}, "127.0.0.1", true, true},
		{Networks{Allow: p("fe80::/10")}, "fe80::1%eth0", true, true},
		{Networks{Allow: p("10.0.0.0/8"), Deny: p("10.1.0.0/16")}, "10.1.1.1", false, false},
		{Networks{Deny: p("::1/128")}, "::1", false, false},
		{Networks{Allow: p("0.0.0.0/0")}, "224.0.1.187", false, false},
	} {
		a := netip.MustParseAddr(x.addr)
		if got := x.n.refuseLiteral(a) == ""; got != x.literal {
			t.Errorf("%v literal %v: allowed %v", x.n, a, got)
		}
		if got := x.n.refuseName(a) == ""; got != x.name {
			t.Errorf("%v name for %v: allowed %v", x.n, a, got)
		}
	}
}

func TestForbiddenAddressesAreNotContacted(t *testing.T) {
	deny := []netip.Prefix{netip.MustParsePrefix("127.9.0.0/16")}
	c := newClient(t, Options{Networks: Networks{Deny: deny}})
	for uri, reason := range map[string]string{
		"coap://localhost/x":                           ReasonNetwork,
		"coap://127.9.1.1/x":                           ReasonNetwork,
		"coap://[::ffff:127.9.1.1]/x":                  ReasonNetwork,
		"coap://224.0.1.187/x":                         ReasonNetwork,
		"coap://[ff02::fd]/x":                          ReasonNetwork,
		"coap://0.0.0.0/x":                             ReasonNetwork,
		"coap://[fe80::1%25nosuch0]/x":                 ReasonNetwork,
		"coap://no.such.invalid/x":                     ReasonResolve,
		"coap://127.0.0.1/" + strings.Repeat("a", 256): ReasonFormat,
	} {
		is(t, fetch(t, c, visitTo(uri)), visit.Failed, reason, false)
	}
	if n := c.Stats().Sent; n != 0 {
		t.Errorf("%d datagrams sent", n)
	}
}

func TestNamesAreCachedAndSwept(t *testing.T) {
	s := newSensor(t, answerLinks)
	c := newClient(t, Options{Networks: allowLoopback})
	_, port, err := net.SplitHostPort(s.conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	described(t, fetch(t, c, visitTo("coap://localhost:"+port+"/x")), links)
	if c.Stats().NamesCached != 1 {
		t.Fatalf("stats %+v", c.Stats())
	}
	c.names["localhost"] = resolved{c.names["localhost"].addr, time.Now().Add(-time.Second)}
	described(t, fetch(t, c, visitTo("coap://localhost:"+port+"/x")), links) // asked again
	c.sweep(time.Now().Add(nameLifetime + time.Second))
	if n := c.Stats().NamesCached; n != 0 {
		t.Errorf("%d names after their time", n)
	}
}

func TestIPv6AndZones(t *testing.T) {
	conn, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil {
		t.Skip("no IPv6 here: ", err)
	}
	s := &sensor{conn: conn, done: make(chan struct{}), script: answerLinks}
	go s.run()
	t.Cleanup(s.close)
	described(t, fetch(t, newClient(t, Options{}), visitTo(s.uri())), links)

	ifc, err := net.InterfaceByIndex(1)
	if err != nil {
		t.Skip("no interface 1: ", err)
	}
	a, err := zoned(netip.MustParseAddr("fe80::1%1"))
	if err != nil || a.Zone() != ifc.Name {
		t.Errorf("zone 1 became %q, %v", a.Zone(), err)
	}
}

// The short way to a target gives what the long way gives.
func TestPlainTargetIsTheSame(t *testing.T) {
	plain := 0
	for _, uri := range []string{"coap://192.0.2.1/.well-known/core",
		"coap://192.0.2.1:15683/.well-known/core", "coap://[2001:db8::1]:61616/.well-known/core",
		"coap://[::ffff:192.0.2.1]:7/.well-known/core", "coap://[2001:db8::1]/.well-known/core",
		"coap://sensor.example/.well-known/core", "coap://192.0.2.1:0/.well-known/core",
		"coap://192.0.2.1:00/.well-known/core", "coap://user@192.0.2.1/.well-known/core",
		"coap://192.0.2.1/x/.well-known/core", "coap://192.0.2.1/.well-known/core?a",
		"coap:///.well-known/core", "coap://192.0.2.256/.well-known/core",
		"coap://2001:db8::1/.well-known/core", "coap://[fe80::1%25lo]:1/.well-known/core"} {
		short, ok := plainTarget(uri)
		if !ok {
			continue
		}
		plain++
		long, f := parseTarget(uri + "?long")
		if f != nil {
			t.Fatalf("%s: %v", uri, f)
		}
		if short.addr != long.addr || short.port != long.port || short.named != long.named ||
			fmt.Sprintf("%q", short.path) != fmt.Sprintf("%q", long.path) || !short.wellKnown {
			t.Errorf("%s: %+v, want %+v", uri, short, long)
		}
	}
	if plain != 4 {
		t.Errorf("%d URIs took the short way, want 4", plain)
	}
}
