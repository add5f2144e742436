package testbed

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/message/pool"
	"github.com/plgd-dev/go-coap/v3/net/blockwise"
	"github.com/plgd-dev/go-coap/v3/options"
	"github.com/plgd-dev/go-coap/v3/pkg/runner/periodic"
	"github.com/plgd-dev/go-coap/v3/udp"
	"github.com/plgd-dev/go-coap/v3/udp/client"

	"github.com/crawld/crawld/internal/fleet"
)

// goCoAP is a client that shares no exchange layer with the testbed. It
// retransmits eight times, 50 ms apart.
func goCoAP(t *testing.T, s *Sensor) *client.Conn {
	t.Helper()
	stop := make(chan struct{})
	conn, err := udp.Dial(s.Addr().String(),
		options.WithPeriodicRunner(periodic.New(stop, 10*time.Millisecond)),
		options.WithTransmission(1, 50*time.Millisecond, 8),
		options.WithBlockwise(true, blockwise.SZX1024, patience),
		options.WithErrors(func(error) {})) // what it says of duplicates is no concern
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		<-conn.Done()
		close(stop)
	})
	return conn
}

func fetch(t *testing.T, conn *client.Conn, opts ...message.Option) (*pool.Message, []byte, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m, err := conn.Get(ctx, fleet.DefaultPath, opts...)
	if err != nil {
		return nil, nil, err
	}
	body, err := m.ReadBody()
	return m, body, err
}

// A client of other make reads the description of every sensor that behaves.
// Separate answers in blocks are left out: go-coap asks for the second block
// inside the ACK of the first, which is no request (RFC 7252 4.2).
func TestGoCoAPReadsDescriptions(t *testing.T) {
	for _, spec := range []Spec{
		{Name: "plain"},
		{Name: "no format", Format: NoFormat},
		{Name: "blocks of 64", Block: 64, Size: 500},
		{Name: "blocks of 16 without ETag", Block: 16, Size: 300, NoETag: true},
		{Name: "large blocks", Block: 1024, Size: 20_000},
		{Name: "separate", Separate: true},
		{Name: "separate and slow", Separate: true, Delay: 100 * time.Millisecond},
		{Name: "duplicates", Duplicate: 0.5, Block: 128, Size: 600},
		{Name: "lossy", Loss: 0.2},
		{Name: "drifting", Drift: time.Hour},
	} {
		t.Run(spec.Name, func(t *testing.T) {
			b := newBed(t)
			s := add(t, b, spec)
			s.Publish()
			m, body, err := fetch(t, goCoAP(t, s))
			if err != nil {
				t.Fatal(err)
			}
			if m.Code() != codes.Content || !bytes.Equal(body, s.Body()) {
				t.Errorf("got %v %q, want 2.05 %q", m.Code(), body, s.Body())
			}
		})
	}
}

func TestGoCoAPRevalidates(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{})
	conn := goCoAP(t, s)
	m, _, err := fetch(t, conn)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := m.ETag()
	if err != nil {
		t.Fatal(err)
	}
	m, _, err = fetch(t, conn, message.Option{ID: message.ETag, Value: bytes.Clone(tag)})
	if err != nil || m.Code() != codes.Valid {
		t.Errorf("got %v, %v, want 2.03", m, err)
	}
}

// Negative control: what a sleeping or misbehaving sensor does, the stock client
// must not take for a description.
func TestGoCoAPGetsNothing(t *testing.T) {
	for _, spec := range []Spec{
		{Name: "asleep", Plan: asleep(t)},
		{Name: "dead", Fault: FaultDead},
		{Name: "all lost", Loss: 1},
		{Name: "stranger", Fault: FaultStranger},
		{Name: "not found", Fault: FaultNotFound},
	} {
		t.Run(spec.Name, func(t *testing.T) {
			b := newBed(t)
			s := add(t, b, spec)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			m, err := goCoAP(t, s).Get(ctx, fleet.DefaultPath)
			if err == nil && m.Code() == codes.Content {
				t.Errorf("a description came: %v", m)
			}
			for _, r := range settled(t, b, 1) {
				if r.Complete || r.Code == "2.05" {
					t.Errorf("the log says %+v", r)
				}
			}
		})
	}
}
