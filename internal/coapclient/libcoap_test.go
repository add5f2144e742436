package coapclient

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// TestLibcoapServer visits libcoap's example server: its core document in one
// datagram and in blocks, a separate response, and a revalidation by ETag.
func TestLibcoapServer(t *testing.T) {
	plain, _ := libcoapServer(t, "coap-server-notls")
	base := "coap://" + plain
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
