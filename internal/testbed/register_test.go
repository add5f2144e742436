package testbed

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/udp/coder"

	"github.com/crawld/crawld/internal/sleepplan"
)

// A sensor that wakes registers itself from the port it serves on, proves its address when
// asked to, sends again what got lost, and answers a GET meanwhile.
func TestSensorRegistersWhenItWakes(t *testing.T) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b := New(1)
	defer b.Close()
	plan, err := sleepplan.Cycle(time.Hour, 30*time.Minute, time.Now().Add(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	s := add(t, b, Spec{Name: "shy", Plan: plan, AckTimeout: 20 * time.Millisecond,
		Directory: addrOf(conn), Lifetime: time.Minute})
	if n := len(s.Registrations()); n != 0 {
		t.Fatalf("%d registrations asleep", n)
	}
	receive := func() message.Message {
		t.Helper()
		buf := make([]byte, 1500)
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		n, from, err := conn.ReadFromUDPAddrPort(buf)
		if err != nil {
			t.Fatal(err)
		}
		if netip.AddrPortFrom(from.Addr().Unmap(), from.Port()) != s.Addr() {
			t.Fatalf("from %v, not from %v", from, s.Addr())
		}
		m := message.Message{Options: make(message.Options, 0, 16)}
		if _, err := coder.DefaultCoder.Decode(buf[:n], &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	send := func(m message.Message) {
		t.Helper()
		if _, err := conn.WriteToUDPAddrPort(encode(m), s.Addr()); err != nil {
			t.Fatal(err)
		}
	}
	first, again := receive(), receive()
	queries, _ := first.Options.Queries()
	if first.MessageID != again.MessageID || first.Code != codes.POST || len(queries) != 2 ||
		queries[0] != "ep=shy" || queries[1] != "lt=60" {
		t.Fatalf("%v, again %v", first, again)
	}
	ack := message.Message{Type: message.Acknowledgement, Token: first.Token,
		MessageID: first.MessageID, Code: codes.Unauthorized,
		Options: message.Options{{ID: optionEcho, Value: []byte("proof")}}}
	send(ack)
	proof := receive()
	for proof.MessageID == first.MessageID { // sent before the answer came
		proof = receive()
	}
	if echo, err := proof.Options.GetBytes(optionEcho); err != nil || string(echo) != "proof" {
		t.Fatalf("%v: %v", proof, err)
	}
	send(message.Message{Type: message.Confirmable, Code: codes.GET, MessageID: 1,
		Token: []byte{1}, Options: message.Options{{ID: message.URIPath, Value: []byte(".well-known")},
			{ID: message.URIPath, Value: []byte("core")}}})
	got := receive()
	for got.Code == codes.POST {
		got = receive()
	}
	if got.Code != codes.Content {
		t.Fatalf("%v", got)
	}
	send(message.Message{Type: message.Acknowledgement, Code: codes.Changed, Token: proof.Token,
		MessageID: proof.MessageID})
	for began := time.Now(); ; {
		r := s.Registrations()
		if len(r) == 1 && r[0].Code == "2.04" && r[0].Echoes == 1 && r[0].Sent >= 3 {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("%+v", r)
		}
	}
}
