package coapclient

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/testbed"
	"github.com/crawld/crawld/internal/visit"
)

// stallers are DTLS ports that answer a ClientHello once and then say nothing more.
type stallers struct {
	sockets []*net.UDPConn
	asked   atomic.Int64 // ports that had a ClientHello
}

func newStallers(t *testing.T, n int) *stallers {
	t.Helper()
	s := &stallers{}
	var running sync.WaitGroup
	for range n {
		conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		if err != nil {
			t.Fatal(err)
		}
		s.sockets = append(s.sockets, conn)
		running.Go(func() {
			b := make([]byte, 2000)
			for first := true; ; first = false {
				_, from, err := conn.ReadFromUDPAddrPort(b)
				if err != nil {
					return
				}
				if first {
					s.asked.Add(1)
					_, _ = conn.WriteToUDPAddrPort(helloVerify(1), from)
				}
			}
		})
	}
	t.Cleanup(func() {
		for _, conn := range s.sockets {
			_ = conn.Close()
		}
		running.Wait()
	})
	return s
}

// TestHandshakeFlood: sensors that stall in the middle of a handshake hold at most
// maxHandshakes places, and give them back when their visits end.
func TestHandshakeFlood(t *testing.T) {
	peers := newStallers(t, 2*maxHandshakes)
	honest := pskSensor(t)
	c := newClient(t, Options{Credentials: []Credential{pskCredential()},
		Limits: Limits{PerHost: 1000, PerSubnet: 1000, Progress: time.Minute}})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	var missed atomic.Int64
	for _, conn := range peers.sockets {
		running.Go(func() {
			v := visitTo("coaps://" + conn.LocalAddr().String())
			v.Credential = "psk"
			if out := c.Fetch(ctx, v); out.Result == visit.Missed {
				missed.Add(1)
			} else if out.Reason != ReasonCancelled {
				t.Errorf("%v %s: %s", out.Result, out.Reason, out.Error)
			}
		})
	}
	waitFor(t, func() bool { return peers.asked.Load() == maxHandshakes })
	v := secureVisit(honest, "psk")
	v.Deadline = time.Now().Add(100 * time.Millisecond)
	is(t, fetch(t, c, v), visit.Missed, ReasonDeadline, false)
	if n := peers.asked.Load(); n != maxHandshakes {
		t.Errorf("%d sensors were asked at once", n)
	}
	cancel()
	running.Wait()
	// Some may get a place from who heard of the end before them.
	if n := missed.Load(); n < maxHandshakes/2 || len(c.handshakes) != 0 {
		t.Errorf("%d visits never had their turn, %d places held", n, len(c.handshakes))
	}
	described(t, fetch(t, c, secureVisit(honest, "psk")), string(honest.Body()))
}

// Between visits a secure sensor costs neither goroutines nor sockets, and a state on disk.
func TestIdleSecureSensorsCostNothing(t *testing.T) {
	sensors := []*testbed.Sensor{}
	for range 8 {
		sensors = append(sensors, secureSensor(t, testbed.Security{
			Keys: map[string][]byte{"crawld": theKey}, ConnectionID: true}))
	}
	sessions, _ := newSessions(t)
	c := newClient(t, Options{Credentials: []Credential{pskCredential()}, Sessions: sessions})
	round := func() {
		for _, s := range sensors {
			v := secureVisit(s, "psk")
			v.Sensor = s.URI()
			described(t, fetch(t, c, v), string(s.Body()))
		}
	}
	round()
	round() // now the sensors' sides stand too: one path per client port
	if st := c.Stats(); st.Handshakes != 8 || st.Resumed != 8 || st.Active != 0 {
		t.Errorf("%+v", st)
	}
	if n := sessions.Len(); n != 8 {
		t.Errorf("%d states", n)
	}
	waitFor(t, func() bool { // pion's own end within their close
		buf := make([]byte, 1<<20)
		stacks := string(buf[:runtime.Stack(buf, true)])
		return !strings.Contains(stacks, "coapclient.(*association)")
	})
}
