package testbed

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
	"time"
)

// mirror answers every datagram with itself.
func mirror(t *testing.T) netip.AddrPort {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		b := make([]byte, 64<<10)
		for {
			n, from, err := conn.ReadFromUDPAddrPort(b)
			if err != nil {
				return
			}
			_, _ = conn.WriteToUDPAddrPort(b[:n], from)
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
	})
	return addrOf(conn)
}

func through(t *testing.T, seed uint64, to netip.AddrPort, up, down Air) (*Proxy, *peer) {
	t.Helper()
	p, err := NewProxy(seed, to, up, down)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(p.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, &peer{t, conn}
}

// drive sends n datagrams one after the other and returns, for each, how many copies
// of it came back in the order in which they did.
func drive(t *testing.T, p *Proxy, c *peer, n int) (arrived []byte) {
	t.Helper()
	for i := range n {
		c.raw([]byte{byte(i)})
		due := time.Now().Add(patience)
		for { // until nothing is on its way
			up, down := p.Counts()
			if up.In == i+1 && down.In == up.Out && len(arrived) == down.Out {
				break
			}
			if time.Now().After(due) {
				t.Fatalf("datagram %d: up %+v, down %+v, %d came", i, up, down, len(arrived))
			}
			if d := c.datagram(time.Millisecond); d != nil {
				arrived = append(arrived, d...)
			}
		}
	}
	return arrived
}

// The same seed gives the same fates, another one others; the counts are those of the
// datagrams, and the shares are those that were asked for.
func TestProxyIsSeeded(t *testing.T) {
	const n = 400
	air := Air{Loss: 0.2, Duplicate: 0.3}
	run := func(seed uint64) ([]byte, Passed, Passed) {
		p, c := through(t, seed, mirror(t), air, air)
		got := drive(t, p, c, n)
		up, down := p.Counts()
		return got, up, down
	}
	first, up, down := run(7)
	again, up2, down2 := run(7)
	if !bytes.Equal(first, again) || up != up2 || down != down2 {
		t.Errorf("the same seed: %v and %v, %v and %v", up, up2, down, down2)
	}
	if other, _, _ := run(8); bytes.Equal(first, other) {
		t.Error("another seed, the same fates")
	}
	for _, l := range []Passed{up, down} {
		if l.Out != l.In-l.Lost+l.Duplicated {
			t.Errorf("%+v does not add up", l)
		}
		lost, twice := float64(l.Lost)/float64(l.In), float64(l.Duplicated)/float64(l.In-l.Lost)
		if lost < 0.12 || lost > 0.28 || twice < 0.2 || twice > 0.4 {
			t.Errorf("%+v: lost %.2f, doubled %.2f", l, lost, twice)
		}
	}
	if len(first) != down.Out {
		t.Errorf("%d came, %d sent", len(first), down.Out)
	}
}

// A clear sky delivers everything, in order and once; held back datagrams are
// overtaken, late ones late, and none is lost.
func TestProxyReordersAndDelays(t *testing.T) {
	const n = 100
	for _, x := range []struct {
		name    string
		air     Air
		ordered bool
		least   time.Duration // what the slowest takes
	}{
		{"clear", Air{}, true, 0},
		{"delay", Air{Delay: 20 * time.Millisecond}, false, 20 * time.Millisecond},
		{"reorder", Air{Reorder: 0.3}, false, heldBack},
		{"spikes", Air{Spike: 0.2, SpikeDelay: 50 * time.Millisecond}, false,
			25 * time.Millisecond},
	} {
		_, c := through(t, 3, mirror(t), x.air, Air{})
		began := time.Now()
		for i := range n {
			c.raw([]byte{byte(i)})
		}
		var got []byte
		for len(got) < n {
			d := c.datagram(patience)
			if d == nil {
				t.Fatalf("%s: %d of %d came", x.name, len(got), n)
			}
			got = append(got, d...)
		}
		inOrder := true
		for i := range got[1:] {
			inOrder = inOrder && got[i] < got[i+1]
		}
		if took := time.Since(began); took < x.least {
			t.Errorf("%s: the last came after %v", x.name, took)
		}
		if x.name != "delay" && inOrder != x.ordered { // equal delays may swap neighbours
			t.Errorf("%s: in order: %v", x.name, inOrder)
		}
	}
}

func TestProxyTellsClientsApart(t *testing.T) {
	p, first := through(t, 1, mirror(t), Air{}, Air{})
	second, err := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(p.Addr()))
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	other := &peer{t, second}
	first.raw([]byte("one"))
	other.raw([]byte("two"))
	if a, b := first.datagram(patience), other.datagram(patience); string(a) != "one" ||
		string(b) != "two" {
		t.Errorf("answers %q and %q", a, b)
	}
	if _, err := NewProxy(1, p.Addr(), Air{Loss: 1.1}, Air{}); err == nil {
		t.Error("a loss of 1.1 was accepted")
	}
	if _, err := NewProxy(1, p.Addr(), Air{}, Air{Delay: -1}); err == nil {
		t.Error("a negative delay was accepted")
	}
}
