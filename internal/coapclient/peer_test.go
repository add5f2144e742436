package coapclient

import (
	"bytes"
	"context"
	"net"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/mux"
	coapnet "github.com/plgd-dev/go-coap/v3/net"
	"github.com/plgd-dev/go-coap/v3/options"
	"github.com/plgd-dev/go-coap/v3/udp"

	"github.com/crawld/crawld/internal/visit"
)

// idle takes the place of go-coap's runner, which leaves a goroutine asleep for seconds.
var idle = options.WithPeriodicRunner(func(func(time.Time) bool) {})

// serveGoCoAP serves what a router has with go-coap until the test ends.
func serveGoCoAP(t *testing.T, router *mux.Router) netip.AddrPort {
	t.Helper()
	l, err := coapnet.NewListenUDP("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := udp.NewServer(options.WithMux(router), idle)
	done := make(chan error)
	go func() { done <- server.Serve(l) }()
	t.Cleanup(func() {
		server.Stop()
		<-done
		_ = l.Close()
	})
	return netip.MustParseAddrPort(l.LocalAddr().String())
}

// TestGoCoAPServer visits a server that shares no code with this package but
// the codec.
func TestGoCoAPServer(t *testing.T) {
	large := bodyOf(5000, 0)
	router := mux.NewRouter()
	serve := func(path string, format message.MediaType, body []byte) {
		err := router.Handle(path, mux.HandlerFunc(func(w mux.ResponseWriter, r *mux.Message) {
			_ = w.SetResponse(codes.Content, format, bytes.NewReader(body))
		}))
		if err != nil {
			t.Fatal(err)
		}
	}
	serve("/.well-known/core", message.AppLinkFormat, []byte(links))
	serve("/large", message.AppOctets, large)
	base := "coap://" + serveGoCoAP(t, router).String()
	c := newClient(t, Options{PrefBlock: 256})
	ask := func(path string) visit.Outcome {
		v := visitTo(base + path)
		v.AckTimeout = time.Second
		return fetch(t, c, v)
	}
	out := ask("/.well-known/core")
	described(t, out, links)
	if out.Format != 40 || out.Links != 2 {
		t.Errorf("format %d, %d links", out.Format, out.Links)
	}
	out = ask("/large")
	described(t, out, string(large))
	if out.Blocks != 20 {
		t.Errorf("%d blocks", out.Blocks)
	}
	out = ask("/none")
	is(t, out, visit.Refused, ReasonCode, true)
	if out.Code != "4.04" {
		t.Errorf("code %s", out.Code)
	}
}

// TestUnreachable: a closed port is known at once on Linux, and does not
// disturb a visit to someone else on the same socket.
func TestUnreachable(t *testing.T) {
	closed := newSensor(t, func(*sensor, query) {})
	uri := closed.uri()
	closed.close()
	c := newClient(t, Options{Sockets: 1})
	v := visitTo(uri)
	if runtime.GOOS != "linux" {
		v.Retrans = 0
		is(t, fetch(t, c, v), visit.Asleep, ReasonTimeout, false)
		return
	}
	v.AckTimeout = 10 * time.Second
	out := fetch(t, c, v)
	is(t, out, visit.Asleep, ReasonICMP, false)
	if c.Stats().Unreachable != 1 || out.DatagramsSent != 1 {
		t.Errorf("%d sent, stats %+v", out.DatagramsSent, c.Stats())
	}

	open := newSensor(t, answerLinks)
	stop := make(chan struct{})
	silent := make(chan struct{})
	go func() {
		defer close(silent)
		for {
			select {
			case <-stop:
				return
			default:
				v := visitTo(uri)
				v.AckTimeout = 10 * time.Second
				is(t, c.Fetch(context.Background(), v), visit.Asleep, ReasonICMP, false)
			}
		}
	}()
	for range 200 {
		o := visitTo(open.uri())
		o.AckTimeout = 5 * time.Second
		out := fetch(t, c, o)
		described(t, out, links)
		if out.Retransmissions != 0 {
			t.Fatalf("an ICMP error about someone else cost a datagram: %+v", out)
		}
	}
	close(stop)
	<-silent
}

func TestUnreachableOnIPv6(t *testing.T) {
	conn, err := net.ListenUDP("udp6", &net.UDPAddr{IP: net.IPv6loopback})
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("needs IPv6 on Linux: ", err)
	}
	uri := "coap://" + conn.LocalAddr().String() + "/x"
	_ = conn.Close()
	v := visitTo(uri)
	v.AckTimeout = 10 * time.Second
	is(t, fetch(t, newClient(t, Options{}), v), visit.Asleep, ReasonICMP, false)
}

// TestUnreachableAfterContact: a sensor that vanishes midway did not sleep.
func TestUnreachableAfterContact(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("ICMP errors are read on Linux only")
	}
	s := newSensor(t, func(s *sensor, q query) {
		s.piggyback(q, content, make([]byte, 64), block2(0, true, 64))
		_ = s.conn.Close()
	})
	v := visitTo(s.uri())
	v.AckTimeout = 50 * time.Millisecond
	is(t, fetch(t, newClient(t, Options{}), v), visit.Failed, ReasonICMP, true)
}

func TestSocketBuffers(t *testing.T) {
	c := newClient(t, Options{ReadBuffer: 64 << 10})
	if runtime.GOOS != "linux" {
		t.Skip("SO_MEMINFO is Linux's")
	}
	if st := c.Stats(); st.ReadBuffer < 64<<10 || st.KernelDrops != 0 {
		t.Errorf("stats %+v", st)
	}
}
