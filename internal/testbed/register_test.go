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

// directorySocket is what a sensor takes for its directory.
type directorySocket struct {
	*net.UDPConn
	t      *testing.T
	sensor netip.AddrPort
}

// receive reads a message that the sensor sent from the port it serves on.
func (d *directorySocket) receive() message.Message {
	d.t.Helper()
	buf := make([]byte, 1500)
	_ = d.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, from, err := d.ReadFromUDPAddrPort(buf)
	if err != nil {
		d.t.Fatal(err)
	}
	if netip.AddrPortFrom(from.Addr().Unmap(), from.Port()) != d.sensor {
		d.t.Fatalf("from %v, not from %v", from, d.sensor)
	}
	m := message.Message{Options: make(message.Options, 0, 16)}
	if _, err := coder.DefaultCoder.Decode(buf[:n], &m); err != nil {
		d.t.Fatal(err)
	}
	return m
}

// after skips what is sent again, and returns the first message that is not like one.
func (d *directorySocket) after(like func(message.Message) bool) message.Message {
	d.t.Helper()
	m := d.receive()
	for like(m) {
		m = d.receive()
	}
	return m
}

func (d *directorySocket) send(m message.Message) {
	d.t.Helper()
	if _, err := d.WriteToUDPAddrPort(encode(m), d.sensor); err != nil {
		d.t.Fatal(err)
	}
}

// aboutToWake is a sensor that wakes in a moment for half an hour, and its directory.
func aboutToWake(t *testing.T) (*Sensor, *directorySocket) {
	t.Helper()
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	b := New(1)
	t.Cleanup(func() { _ = b.Close() })
	plan, err := sleepplan.Cycle(time.Hour, 30*time.Minute, time.Now().Add(50*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	s := add(t, b, Spec{Name: "shy", Plan: plan, AckTimeout: 20 * time.Millisecond,
		Directory: addrOf(conn), Lifetime: time.Minute})
	return s, &directorySocket{conn, t, s.Addr()}
}

// A sensor that wakes registers itself from the port it serves on, proves its address when
// asked to, sends again what got lost, and answers a GET meanwhile.
func TestSensorRegistersWhenItWakes(t *testing.T) {
	s, d := aboutToWake(t)
	if n := len(s.Registrations()); n != 0 {
		t.Fatalf("%d registrations asleep", n)
	}
	first, again := d.receive(), d.receive()
	queries, _ := first.Options.Queries()
	if first.MessageID != again.MessageID || first.Code != codes.POST || len(queries) != 2 ||
		queries[0] != "ep=shy" || queries[1] != "lt=60" {
		t.Fatalf("%v, again %v", first, again)
	}
	d.send(message.Message{Type: message.Acknowledgement, Token: first.Token,
		MessageID: first.MessageID, Code: codes.Unauthorized,
		Options: message.Options{{ID: optionEcho, Value: []byte("proof")}}})
	proof := d.after(func(m message.Message) bool { // sent before the answer came
		return m.MessageID == first.MessageID
	})
	if echo, err := proof.Options.GetBytes(optionEcho); err != nil || string(echo) != "proof" {
		t.Fatalf("%v: %v", proof, err)
	}
	d.send(message.Message{Type: message.Confirmable, Code: codes.GET, MessageID: 1,
		Token: []byte{1}, Options: message.Options{{ID: message.URIPath, Value: []byte(".well-known")},
			{ID: message.URIPath, Value: []byte("core")}}})
	got := d.after(func(m message.Message) bool { return m.Code == codes.POST })
	if got.Code != codes.Content {
		t.Fatalf("%v", got)
	}
	d.send(message.Message{Type: message.Acknowledgement, Code: codes.Changed, Token: proof.Token,
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
