package coapclient

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// TestLibcoapServer visits libcoap's example server: its core document in one
// datagram and in blocks, a separate response, and a revalidation by ETag.
func TestLibcoapServer(t *testing.T) {
	path, err := exec.LookPath("coap-server-notls")
	if err != nil {
		t.Skip("coap-server-notls is not installed (Debian: libcoap3-bin)")
	}
	free, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(free.LocalAddr().String())
	_ = free.Close()
	ctx, cancel := context.WithCancel(context.Background())
	server := exec.CommandContext(ctx, path, "-A", host, "-p", port)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = server.Wait() // killed
	})
	base := "coap://" + net.JoinHostPort(host, port)
	c := newClient(t, Options{Transcript: true})
	ask := func(c *Client, v visit.Visit) visit.Outcome {
		v.AckTimeout = time.Second
		return fetch(t, c, v)
	}
	var whole visit.Outcome
	waitFor(t, func() bool {
		whole = ask(c, visitTo(base+"/.well-known/core"))
		return whole.Result != visit.Asleep // the port is closed until it has started
	})
	is(t, whole, visit.Described, "", true)
	if whole.Verdict != "valid" || whole.Links == 0 || whole.Format != 40 {
		t.Errorf("verdict %q, %d links: %s", whole.Verdict, whole.Links, whole.Body)
	}
	parts := ask(newClient(t, Options{PrefBlock: 64}), visitTo(base+"/.well-known/core"))
	described(t, parts, string(whole.Body))
	if parts.Blocks != (len(whole.Body)+63)/64 {
		t.Errorf("%d bytes in %d blocks", len(whole.Body), parts.Blocks)
	}
	late := ask(c, visitTo(base+"/async?1"))
	described(t, late, "done")
	if !strings.Contains(fmt.Sprint(late.Transcript), "> ACK 0.00") {
		t.Errorf("not a separate response: %v", late.Transcript)
	}
	if whole.NewETag != nil {
		v := visitTo(base + "/.well-known/core")
		v.ETag, v.Known = whole.NewETag, whole.Hash
		is(t, ask(c, v), visit.Unchanged, "", true)
	}
	is(t, ask(c, visitTo(base+"/none")), visit.Refused, ReasonCode, true)
}
