package directory

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/options"
	"github.com/plgd-dev/go-coap/v3/pkg/runner/periodic"
	"github.com/plgd-dev/go-coap/v3/udp"

	"github.com/crawld/crawld/internal/linkformat"
)

func manyLinks(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`</r/%d>;rt="thing";title="resource number %d of many"`, i, i))
	}
	return strings.Join(all, ",")
}

// A payload that comes in blocks is one registration, its links come back in blocks.
func TestLongPayloadsAndAnswers(t *testing.T) {
	s := newSite(t, 0).serve(t)
	p := dial(t, s, "127.0.0.9:0")
	payload := manyLinks(50)
	for _, szx := range []int{0, 2, largestSZX} {
		size := 16 << szx
		request := fmt.Sprintf("POST /rd?ep=long%d", szx)
		for n := 0; n*size < len(payload); n++ {
			part := payload[n*size : min(len(payload), (n+1)*size)]
			b := block{num: n, more: (n+1)*size < len(payload), szx: szx}
			r := p.ask(request, part, option(message.Block1, b.option()))
			if want := map[bool]string{true: "2.31", false: "2.01"}[b.more]; r.code() != want {
				t.Fatalf("block %d of %d bytes: %s %q", n, size, r.code(), r.Payload)
			}
		}
		for _, answer := range []int{0, 3, largestSZX} {
			r := p.whole(fmt.Sprintf("GET /rd-lookup/res?ep=long%d", szx),
				option(message.Block2, block{szx: answer}.option()))
			if got := linkformat.Parse(r.Payload); got.Verdict != linkformat.Valid || len(got.Links) != 50 {
				t.Errorf("answer of %d bytes in blocks of %d: %s, %d links", len(r.Payload), 16<<answer,
					got.Verdict, len(got.Links))
			}
		}
	}
	for _, c := range []struct {
		what string
		b    block
		size int
		code string
	}{
		{"a later block first", block{num: 3, more: true, szx: 2}, 64, "4.08"},
		{"a short block with more to follow", block{more: true, szx: 2}, 63, "4.00"},
		{"a block longer than it says", block{szx: 2}, 65, "4.00"},
	} {
		r := p.ask("POST /rd?ep=bad", strings.Repeat("x", c.size), option(message.Block1, c.b.option()))
		if r.code() != c.code {
			t.Errorf("%s: %s %q", c.what, r.code(), r.Payload)
		}
	}
	r := p.ask("GET /rd-lookup/res", "", option(message.Block2, block{num: 9999, szx: 2}.option()))
	if r.code() != "4.00" {
		t.Errorf("a block behind the end: %s", r.code())
	}
}

func TestPayloadIsBounded(t *testing.T) {
	s := newSite(t, 0).serve(t)
	p := dial(t, s, "127.0.0.9:0")
	part := strings.Repeat("x", 1024)
	for n := 0; ; n++ {
		r := p.ask("POST /rd?ep=a", part, option(message.Block1, block{n, true, largestSZX}.option()))
		if n < maxPayload/1024 && r.code() == "2.31" {
			continue
		}
		size, _ := r.option(message.Size1)
		v, _, _ := message.DecodeUint32(size)
		if n != maxPayload/1024 || r.code() != "4.13" || v != maxPayload {
			t.Errorf("block %d: %s, Size1 %d", n, r.code(), v)
		}
		return
	}
}

// go-coap's client, which cuts and joins blocks by itself, understands the server.
func TestGoCoapClient(t *testing.T) {
	s := newSite(t, 0).serve(t)
	ctx, cancel := context.WithTimeout(context.Background(), bound)
	defer cancel()
	c, err := udp.Dial(s.Addrs()[0].String(),
		options.WithPeriodicRunner(periodic.New(ctx.Done(), 10*time.Millisecond)))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	payload := manyLinks(60)
	query := message.Option{ID: message.URIQuery, Value: []byte("ep=client")}
	r, err := c.Post(ctx, "/rd", message.AppLinkFormat, strings.NewReader("</x>"), query)
	if err != nil || r.Code() != codes.Unauthorized {
		t.Fatalf("%v, %v", r, err)
	}
	value, err := r.Options().GetBytes(optionEcho)
	if err != nil {
		t.Fatal(err)
	}
	echo := message.Option{ID: optionEcho, Value: bytes.Clone(value)}
	r, err = c.Post(ctx, "/rd", message.AppLinkFormat, strings.NewReader(payload), query, echo)
	if err != nil || r.Code() != codes.Created {
		t.Fatalf("%v, %v", r, err)
	}
	r, err = c.Get(ctx, "/rd-lookup/res", query)
	if err != nil {
		t.Fatal(err)
	}
	body, err := r.ReadBody()
	if got := linkformat.Parse(body); err != nil || len(got.Links) != 60 {
		t.Errorf("%v: %d links of %d bytes", err, len(got.Links), len(body))
	}
}
