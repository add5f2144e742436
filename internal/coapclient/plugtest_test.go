package coapclient

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/testbed"
	"github.com/crawld/crawld/internal/visit"
)

// plugtest is a row of the ETSI and IETF test descriptions for CoAP (CORE), link format
// (LINK), block-wise transfer (BLOCK), observation (OBS) and DTLS. A row without a check does
// not apply, why says for what reason.
type plugtest struct {
	id       string
	does     string
	resource string // a name in plugPeer.resources
	query    string
	visit    func(v *visit.Visit)
	opts     Options
	air      testbed.Air // of the network between the two
	check    func(t *testing.T, p *plugRun)
	secure   func(t *testing.T, p *plugDTLS) // the check of a row of DTLS
	why      string
}

// plugRun is a row that has been run against a peer.
type plugRun struct {
	peer *plugPeer
	row  plugtest
	c    *Client
	base string
	out  visit.Outcome
}

const onlyGET = "the client sends nothing but GET"

func nonConfirmable(v *visit.Visit) { v.NON = true }

// lossyAir loses what the description of the lossy rows wants lost: some of each.
var lossyAir = testbed.Air{Loss: .25}

var plugtests = slices.Concat(plugCore, plugSecure, plugObserve())

// plugObserve are rows of a client that is notified of changes.
func plugObserve() (rows []plugtest) {
	for i := range 14 {
		rows = append(rows, plugtest{id: fmt.Sprintf("OBS_%02d", i+1), does: "observation",
			why: "the client observes nothing: a sensor would have to be awake when it has news " +
				"for an observer, and would spend on every change"})
	}
	return rows
}

var plugCore = []plugtest{
	{id: "CORE_01", does: "GET, confirmable", resource: "test", check: wholeBody},
	{id: "CORE_02", does: "DELETE, confirmable", why: onlyGET},
	{id: "CORE_03", does: "PUT, confirmable", why: onlyGET},
	{id: "CORE_04", does: "POST, confirmable", why: onlyGET},
	{id: "CORE_05", does: "GET, non-confirmable", resource: "test", visit: nonConfirmable,
		check: func(t *testing.T, p *plugRun) {
			wholeBody(t, p)
			if l := p.out.Transcript; l[0].Type != "NON" || l[1].Type == "ACK" {
				t.Errorf("types %s, %s", l[0].Type, l[1].Type)
			}
		}},
	{id: "CORE_06", does: "DELETE, non-confirmable", why: onlyGET},
	{id: "CORE_07", does: "PUT, non-confirmable", why: onlyGET},
	{id: "CORE_08", does: "POST, non-confirmable", why: onlyGET},
	{id: "CORE_09", does: "GET with a separate response", resource: "separate",
		check: separateResponse},
	{id: "CORE_10", does: "GET with a token", resource: "test", check: sameToken},
	{id: "CORE_11", does: "GET with a token and a separate response", resource: "separate",
		check: func(t *testing.T, p *plugRun) {
			separateResponse(t, p)
			sameToken(t, p)
		}},
	{id: "CORE_12", does: "GET without a token", why: "every request has a token of 8 bytes: " +
		"it is what tells a response from a forged one (RFC 7252 section 11.4)"},
	{id: "CORE_13", does: "several Uri-Path options", resource: "segments",
		check: func(t *testing.T, p *plugRun) {
			wholeBody(t, p)
			if n := len(named(p.out.Transcript[0], "Uri-Path")); n < 3 {
				t.Errorf("%d Uri-Path options", n)
			}
		}},
	{id: "CORE_14", does: "several Uri-Query options", resource: "query",
		query: "?first=1&second=2", check: func(t *testing.T, p *plugRun) {
			wholeBody(t, p)
			want := []string{`"first=1"`, `"second=2"`}
			if got := named(p.out.Transcript[0], "Uri-Query"); !slices.Equal(got, want) {
				t.Errorf("Uri-Query %v", got)
			}
		}},
	{id: "CORE_15", does: "GET in a lossy context", resource: "test", air: lossyAir,
		check: wholeBody},
	{id: "CORE_16", does: "GET with a separate response in a lossy context",
		resource: "separate", air: lossyAir, check: wholeBody},
	{id: "CORE_17", does: "GET with a separate response, non-confirmable",
		resource: "separate", visit: nonConfirmable, check: func(t *testing.T, p *plugRun) {
			wholeBody(t, p)
			for _, l := range p.out.Transcript {
				if l.Sent && l.Type == "CON" {
					t.Errorf("sent %v", l)
				}
			}
		}},
	{id: "CORE_18", does: "POST with Location-Path", why: onlyGET},
	{id: "CORE_19", does: "POST with Location-Query", why: onlyGET},
	{id: "CORE_20", does: "Accept and Content-Format", resource: "core",
		check: func(t *testing.T, p *plugRun) {
			wholeBody(t, p)
			if got := named(p.out.Transcript[0], "Accept"); !slices.Equal(got, []string{"40"}) ||
				p.out.Format != 40 {
				t.Errorf("Accept %v, Content-Format %d", got, p.out.Format)
			}
		}},
	{id: "CORE_21", does: "ETag: content, valid, and content again once it has changed",
		resource: "validate", check: validation},
	{id: "CORE_22", does: "If-Match", why: onlyGET},
	{id: "CORE_23", does: "If-None-Match", why: onlyGET},
	{id: "CORE_31", does: "ping", why: "the client sends no pings: a sensor would pay for them"},

	{id: "LINK_01", does: "discovery", resource: "core", check: discovery},
	{id: "LINK_02", does: "filter by rt", resource: "core", query: "?rt=Type1", check: discovery},
	{id: "LINK_03", does: "filter by an empty prefix of rt", resource: "core", query: "?rt=*",
		check: discovery},
	{id: "LINK_04", does: "filter by one of several rt", resource: "core", query: "?rt=Type2",
		check: discovery},
	{id: "LINK_05", does: "filter by a prefix of if", resource: "core", query: "?if=If*",
		check: discovery},
	{id: "LINK_06", does: "filter by a prefix of sz", resource: "core", query: "?sz=*",
		check: discovery},
	{id: "LINK_07", does: "filter by href", resource: "core", query: "?href=/link1",
		check: discovery},
	{id: "LINK_08", does: "filter by a prefix of href", resource: "core", query: "?href=/link*",
		check: discovery},
	{id: "LINK_09", does: "links to links", resource: "path",
		check: func(t *testing.T, p *plugRun) {
			wholeBody(t, p)
			if p.out.Verdict != "valid" || p.out.Links != 2 || p.out.Format != 40 {
				t.Errorf("%s, %d links, Content-Format %d", p.out.Verdict, p.out.Links,
					p.out.Format)
			}
		}},

	{id: "BLOCK_01", does: "large GET, size agreed on at first", resource: "large",
		opts: Options{PrefBlock: 64}, check: blocksOf(64)},
	{id: "BLOCK_02", does: "large GET, size chosen by the server", resource: "large",
		check: func(t *testing.T, p *plugRun) {
			wholeBody(t, p)
			if p.out.Blocks < 2 || len(named(p.out.Transcript[0], "Block2")) != 0 {
				t.Errorf("%d blocks after %v", p.out.Blocks, p.out.Transcript[0])
			}
		}},
	{id: "BLOCK_03", does: "large PUT", why: onlyGET},
	{id: "BLOCK_04", does: "large POST that creates", why: onlyGET},
	{id: "BLOCK_05", does: "large POST, both ways", why: onlyGET},
	{id: "BLOCK_06", does: "large GET, 16 bytes agreed on at first", resource: "large",
		opts: Options{PrefBlock: 16, Limits: Limits{MinBlock: 16}}, check: blocksOf(16)},
}

// named are the values of the options of a name.
func named(l visit.Line, name string) (values []string) {
	for _, o := range l.Options {
		if v, ok := strings.CutPrefix(o, name+": "); ok {
			values = append(values, v)
		}
	}
	return values
}

func wholeBody(t *testing.T, p *plugRun) {
	t.Helper()
	is(t, p.out, visit.Described, "", true)
	want := p.peer.bodies[p.row.resource]
	if want != "" && string(p.out.Body) != want || len(p.out.Body) == 0 {
		t.Errorf("body of %d bytes %.60q, want %.60q", len(p.out.Body), p.out.Body, want)
	}
}

func separateResponse(t *testing.T, p *plugRun) {
	t.Helper()
	wholeBody(t, p)
	var steps []string
	for _, l := range p.out.Transcript {
		steps = append(steps, l.Type+" "+l.Code)
	}
	if got := strings.Join(slices.Compact(steps), ", "); got !=
		"CON GET, ACK 0.00, CON 2.05, ACK 0.00" {
		t.Error(got)
	}
}

func sameToken(t *testing.T, p *plugRun) {
	t.Helper()
	wholeBody(t, p)
	for _, l := range p.out.Transcript {
		if l.Code != "0.00" && (len(l.Token) != 16 || l.Token != p.out.Transcript[0].Token) {
			t.Errorf("token %s, the request's is %s", l.Token, p.out.Transcript[0].Token)
		}
	}
}

// validation asks again with the ETag, before and after a change.
func validation(t *testing.T, p *plugRun) {
	wholeBody(t, p)
	if len(p.out.NewETag) == 0 {
		t.Fatalf("no ETag: %v", p.out.Transcript)
	}
	again := func() visit.Outcome {
		v := plugVisit(p.base + p.peer.resources[p.row.resource])
		v.ETag, v.Known = p.out.NewETag, p.out.Hash
		return fetch(t, p.c, v)
	}
	out := again()
	is(t, out, visit.Unchanged, "", true)
	if out.Code != "2.03" {
		t.Errorf("code %s", out.Code)
	}
	p.peer.change(t, p)
	out = again()
	is(t, out, visit.Described, "", true)
	if out.Code != "2.05" || slices.Equal(out.NewETag, p.out.NewETag) {
		t.Errorf("code %s, ETag %x", out.Code, out.NewETag)
	}
}

// discovery checks the links of the answer against the filter. A server may ignore
// filters (RFC 6690 section 4.1): then all links come.
func discovery(t *testing.T, p *plugRun) {
	t.Helper()
	is(t, p.out, visit.Described, "", true)
	if p.out.Verdict != "valid" || p.out.Format != 40 && len(p.out.Body) > 0 {
		t.Errorf("%s, Content-Format %d: %s", p.out.Verdict, p.out.Format, p.out.Body)
	}
	want, filters := p.peer.links[p.row.query]
	if filters && p.out.Links != want {
		t.Errorf("%d links, want %d: %s", p.out.Links, want, p.out.Body)
	}
}

func blocksOf(size int) func(t *testing.T, p *plugRun) {
	return func(t *testing.T, p *plugRun) {
		wholeBody(t, p)
		want := []string{fmt.Sprintf("0/%d", size)}
		if got := named(p.out.Transcript[0], "Block2"); !slices.Equal(got, want) {
			t.Errorf("asked for Block2 %v", got)
		}
		if n := (len(p.out.Body) + size - 1) / size; p.out.Blocks != n {
			t.Errorf("%d blocks, want %d", p.out.Blocks, n)
		}
	}
}

func plugVisit(uri string) visit.Visit {
	v := visitTo(uri)
	v.AckTimeout = 2 * time.Second
	return v
}

// TestPlugtests runs every row that applies against every peer that is installed.
func TestPlugtests(t *testing.T) {
	for _, p := range plugPeers {
		t.Run(p.name, func(t *testing.T) {
			p := p
			address := p.start(t, &p)
			ran := 0
			for _, row := range plugtests {
				if row.check == nil {
					continue
				}
				if why := p.without[row.id]; why != "" {
					t.Logf("%s is left out: %s", row.id, why)
					continue
				}
				ran++
				t.Run(row.id, func(t *testing.T) { runPlugtest(t, &p, row, address) })
			}
			if ran != p.rows {
				t.Errorf("%d rows ran, want %d", ran, p.rows)
			}
		})
	}
}

func runPlugtest(t *testing.T, p *plugPeer, row plugtest, address netip.AddrPort) {
	t.Parallel()
	row.opts.Transcript = true
	c := newClient(t, row.opts)
	at := address
	if row.air != (testbed.Air{}) {
		proxy, err := testbed.NewProxy(5, address, row.air, row.air)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := proxy.Close(); err != nil {
				t.Error(err)
			}
		})
		at = proxy.Addr()
	}
	run := &plugRun{peer: p, row: row, c: c, base: "coap://" + at.String()}
	v := plugVisit(run.base + p.resources[row.resource] + row.query)
	if row.visit != nil {
		row.visit(&v)
	}
	if row.air != (testbed.Air{}) {
		v.AckTimeout = 200 * time.Millisecond
	}
	run.out = fetch(t, c, v)
	row.check(t, run)
}

// TestPlugtestRows: a row either has a check or says why it does not apply, and every
// number of the lists is there.
func TestPlugtestRows(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range plugtests {
		if (row.check == nil && row.secure == nil) == (row.why == "") || row.does == "" || seen[row.id] {
			t.Errorf("row %+v", row)
		}
		seen[row.id] = true
	}
	for list, n := range map[string]int{"CORE": 23, "LINK": 9, "BLOCK": 6, "DTLS": 7, "OBS": 14} {
		for i := range n {
			if id := fmt.Sprintf("%s_%02d", list, i+1); !seen[id] {
				t.Errorf("no row %s", id)
			}
		}
	}
}
