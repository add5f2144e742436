package directory

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/udp/coder"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/sleepplan"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bound is a generous time-out for things that take moments.
const bound = 30 * time.Second

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// site is a directory over a real repository, without a crawler behind it.
type site struct {
	*Server
	repo   *repository.Repository
	regs   *Registrations
	listed *fleet.Fleet

	mu        sync.Mutex
	announced []uint64
	busy      error // what Announce says
}

// newSite lists the sensors s0, s1 .. at 127.0.0.1 to .. with one link each.
func newSite(t testing.TB, listed int) *site {
	t.Helper()
	repo, err := repository.Open(filepath.Join(t.TempDir(), "crawld.db"), repository.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = repo.Close() })
	var sensors []fleet.Sensor
	for i := range listed {
		sensors = append(sensors, fleet.Sensor{ID: fmt.Sprintf("s%d", i),
			URI: fmt.Sprintf("coap://127.0.0.%d/", i+1), Plan: sleepplan.AlwaysOn()})
	}
	s := &site{repo: repo}
	if s.listed, err = fleet.New(sensors); err != nil {
		t.Fatal(err)
	}
	if s.regs, err = LoadRegistrations(repo); err != nil {
		t.Fatal(err)
	}
	for _, x := range s.listed.All() {
		g := Registering{Payload: []byte(`</temp>;rt="temperature-c indoor",</` + x.ID + `>;ct=40`)}
		o := g.outcome(Bound{Sensor: x.ID}, time.Now())
		o.Verdict = "valid"
		if err := repo.Store(context.Background(), repository.Write{Outcome: o}); err != nil {
			t.Fatal(err)
		}
	}
	s.Server, err = New(Options{Listen: []string{"127.0.0.1:0"}, Networks: loopback,
		DefaultLifetime: 90000 * time.Second, Log: zap.NewNop(),
		Register: s.register, Update: s.update, Remove: s.remove, Announce: s.announce,
		Lookup: s.find})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// serve runs the site until the test ends.
func (s *site) serve(t testing.TB) *site {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(bound):
			t.Error("the server does not end")
		}
	})
	return s
}

func (s *site) register(ctx context.Context, g Registering) (uint64, error) {
	reg, err := s.regs.Register(ctx, g, s.listed, time.Now())
	return reg.Number, err
}

func (s *site) update(ctx context.Context, u Updating) error {
	_, err := s.regs.Update(ctx, u, time.Now())
	return err
}

func (s *site) remove(ctx context.Context, number uint64, source netip.Addr) error {
	return s.regs.Remove(ctx, number, source, time.Now())
}

func (s *site) announce(_ context.Context, number uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.announced = append(s.announced, number)
	return s.busy
}

// calls are the numbers that Announce was called with.
func (s *site) calls() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.announced)
}

func (s *site) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = err
}

func (s *site) find(_ context.Context, q Query) (found []Found, err error) {
	all, err := s.regs.Join(s.listed)
	if err != nil {
		return nil, err
	}
	bound := s.regs.Bound(s.listed)
	for _, x := range all.All() {
		latest, ok, err := s.repo.Latest(x.ID)
		if err != nil || !ok {
			continue
		}
		body, err := s.repo.Body(latest.Hash)
		if err != nil {
			return nil, err
		}
		links := ParseLinks(x, latest.Format, latest.Verdict, body)
		for _, e := range Endpoints(x, bound[x.ID], latest.Verified) {
			found = q.Match(found, &e, links, latest.Verified.Add(7*time.Second))
		}
	}
	if q.Count == 0 {
		return found, nil
	}
	return found[min(q.Skip, len(found)):min(q.Skip+q.Count, len(found))], nil
}

// peer is a raw CoAP client.
type peer struct {
	t    testing.TB
	conn *net.UDPConn
	mid  uint16
}

func dial(t testing.TB, s *site, from string) *peer {
	t.Helper()
	local := net.UDPAddrFromAddrPort(netip.MustParseAddrPort(from))
	conn, err := net.DialUDP("udp", local, net.UDPAddrFromAddrPort(s.Addrs()[0]))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &peer{t: t, conn: conn}
}

// send is a request as text, "POST /rd?ep=a", with options and a payload.
func (p *peer) send(request string, payload string, opts ...message.Option) []byte {
	p.mid++
	b := datagramOf(request, payload, p.mid, opts...)
	if _, err := p.conn.Write(b); err != nil {
		p.t.Fatal(err)
	}
	return b
}

func datagramOf(request, payload string, mid uint16, opts ...message.Option) []byte {
	method, uri, _ := strings.Cut(request, " ")
	m := message.Message{Type: message.Confirmable, MessageID: int32(mid),
		Token: binary.BigEndian.AppendUint16([]byte{7}, mid), Payload: []byte(payload),
		Code: map[string]codes.Code{"GET": codes.GET, "POST": codes.POST, "PUT": codes.PUT,
			"DELETE": codes.DELETE}[method]}
	path, query, has := strings.Cut(uri, "?")
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
		m.Options = append(m.Options, message.Option{ID: message.URIPath, Value: []byte(segment)})
	}
	if has {
		for p := range strings.SplitSeq(query, "&") {
			m.Options = append(m.Options, message.Option{ID: message.URIQuery, Value: []byte(p)})
		}
	}
	m.Options = append(m.Options, opts...)
	return encode(m)
}

// reply is a decoded answer.
type reply struct {
	message.Message
	size int
}

func (r reply) code() string { return dotted(r.Code) }

func (r reply) location() string {
	var path string
	for _, o := range r.Options {
		if o.ID == message.LocationPath {
			path += "/" + string(o.Value)
		}
	}
	return path
}

func (r reply) option(id message.OptionID) ([]byte, bool) {
	for _, o := range r.Options {
		if o.ID == id {
			return o.Value, true
		}
	}
	return nil, false
}

func (p *peer) receive() reply {
	p.t.Helper()
	if err := p.conn.SetReadDeadline(time.Now().Add(bound)); err != nil {
		p.t.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	n, err := p.conn.Read(buf)
	if err != nil {
		p.t.Fatalf("no answer: %v", err)
	}
	return decodeReply(p.t, buf[:n])
}

func decodeReply(t testing.TB, b []byte) reply {
	t.Helper()
	r := reply{Message: message.Message{Options: make(message.Options, 0, 32)}, size: len(b)}
	if _, err := coder.DefaultCoder.Decode(b, &r.Message); err != nil {
		t.Fatalf("answer %x: %v", b, err)
	}
	return r
}

// ask sends a request and, where it is told to, again with the Echo that it got.
func (p *peer) ask(request, payload string, opts ...message.Option) reply {
	p.t.Helper()
	p.send(request, payload, opts...)
	r := p.receive()
	if echo, ok := r.option(optionEcho); ok && r.Code == codes.Unauthorized {
		p.send(request, payload, append(opts, message.Option{ID: optionEcho, Value: echo})...)
		r = p.receive()
	}
	return r
}

// whole reads an answer in blocks of the size that the server chooses.
func (p *peer) whole(request string, opts ...message.Option) reply {
	p.t.Helper()
	r := p.ask(request, "", opts...)
	body := r.Payload
	for n := 1; ; n++ {
		value, ok := r.option(message.Block2)
		v, _, _ := message.DecodeUint32(value)
		if !ok || v&8 == 0 {
			r.Payload = body
			return r
		}
		next := message.Option{ID: message.Block2, Value: number(uint32(n)<<4 | v&7)}
		other := func(o message.Option) bool { return o.ID == message.Block2 }
		r = p.ask(request, "", append(slices.DeleteFunc(slices.Clone(opts), other), next)...)
		body = append(body[:len(body):len(body)], r.Payload...)
	}
}

func option(id message.OptionID, v uint32) message.Option {
	return message.Option{ID: id, Value: number(v)}
}

// conversation is a request and what the directory answers: a code, and a location or a
// payload.
type conversation struct {
	request, payload string
	opts             []message.Option
	code, want       string // want: ^ = begins with, ~ = holds; "" = none
}

const nodeLinks = `</sensors/temp>;rt=temperature-c;if=sensor,` +
	`<http://www.example.com/sensors/temp>;anchor="/sensors/temp";rel=describedby`

var inLinkFormat = []message.Option{option(message.ContentFormat, 40)}

// Discovery, RFC 9176 section 4.1.
var discoveryConversations = []conversation{
	{"GET /.well-known/core?rt=core.rd*", "", nil, "2.05", `</rd>;rt=core.rd;ct=40,` +
		`</rd-lookup/res>;rt=core.rd-lookup-res;ct=40,</rd-lookup/ep>;rt=core.rd-lookup-ep;ct=40`},
	{"GET /.well-known/core?rt=core.rd", "", nil, "2.05", `</rd>;rt=core.rd;ct=40`},
	{"GET /.well-known/core?href=/rd-lookup*", "", nil, "2.05", `^</rd-lookup/res>`},
	{"GET /.well-known/core?rt=none", "", nil, "2.05", ``},
	{"GET /.well-known/core", "", []message.Option{option(message.Accept, 50)}, "4.06", ``},
	{"PUT /.well-known/core", "", nil, "4.05", ``},
	{"GET /else", "", nil, "4.04", ``},
}

// Registration and its faults, section 5.
var registrationConversations = []conversation{
	{"POST /rd?ep=node1", nodeLinks, inLinkFormat, "2.01", "/rd/1"},
	{"POST /rd?ep=node1&lt=600&et=oic.d.sensor", nodeLinks, inLinkFormat, "2.01", "/rd/1"},
	{"POST /rd?ep=node1&d=other&base=coap://127.0.0.77:61616", "", nil, "2.01", "/rd/2"},
	{"POST /rd", nodeLinks, nil, "4.00", "ep: is missing"},
	{"POST /rd?ep=", nodeLinks, nil, "4.00", "ep: must have 1 to 63 bytes, has 0"},
	{"POST /rd?ep=" + strings.Repeat("x", 64), nodeLinks, nil, "4.00",
		"ep: must have 1 to 63 bytes, has 64"},
	{"POST /rd?ep=a&ep=b", nodeLinks, nil, "4.00", "ep: is given twice"},
	{"POST /rd?ep=a&lt=0", nodeLinks, nil, "4.00",
		"lt: must be a number of seconds in 1 .. 4294967295"},
	{"POST /rd?ep=a&lt=4294967296", nodeLinks, nil, "4.00", "^lt: "},
	{"POST /rd?ep=a&lt=x", nodeLinks, nil, "4.00", "^lt: "},
	{"POST /rd?ep=a&base=coap://192.0.2.1", nodeLinks, nil, "4.00",
		"base: address 192.0.2.1 lies outside of the directory's networks"},
	{"POST /rd?ep=a&base=coap://localhost", nodeLinks, nil, "4.00",
		"base: the host must be an IP address without zone, no name"},
	{"POST /rd?ep=a&base=http://127.0.0.1", nodeLinks, nil, "4.00", "^base: "},
	{"POST /rd?ep=a&base=coap://127.0.0.1/x", nodeLinks, nil, "4.00", "^base: "},
	{"POST /rd?ep=a&page=1", nodeLinks, nil, "4.00", "page: has a meaning of its own here"},
	{"POST /rd?ep=a&b d=1", nodeLinks, nil, "4.00", "b d: cannot be an attribute"},
	{"POST /rd?ep=a", "<x", nil, "4.00", "^payload: link format: byte 0"},
	{"POST /rd?ep=a", nodeLinks, []message.Option{option(message.ContentFormat, 50)}, "4.15",
		"Content-Format 50: want 40, link format"},
	{"POST /rd?ep=s0", nodeLinks, nil, "4.03", "ep: not for this address: it is a listed sensor's"},
}

// Update and removal, section 5.3.
var updateConversations = []conversation{
	{"POST /rd/1?lt=700", "", nil, "2.04", ""},
	{"POST /rd/1", nodeLinks, nil, "4.00", "^payload: must be empty"},
	{"POST /rd/1?ep=x", "", nil, "4.00", "^ep: cannot be changed"},
	{"POST /rd/01", "", nil, "4.04", ""},
	{"POST /rd/9", "", nil, "4.04", ""},
	{"GET /rd/1", "", nil, "4.05", ""},
	{"DELETE /rd/2", "", nil, "2.02", ""},
	{"DELETE /rd/2", "", nil, "4.04", ""},
}

// lookupConversations are of section 6, for a node at base.
func lookupConversations(base string) []conversation {
	return []conversation{
		{"GET /rd-lookup/ep?et=oic.d.sensor", "", nil, "2.05", `</rd/1>;ep="node1";base="` + base +
			`";rt="core.rd-ep";lt="700";et="oic.d.sensor";age="7"`},
		{"GET /rd-lookup/ep?rt=temperature-c&href=/rd/*", "", nil, "2.05", `^</rd/1>;ep="node1"`},
		{"GET /rd-lookup/res?ep=node1&rt=temperature-c", "", nil, "2.05",
			"<" + base + `/sensors/temp>;rt=temperature-c;if=sensor;anchor="` + base + `";age="7"`},
		{"GET /rd-lookup/res?rel=describedby", "", nil, "2.05",
			`<http://www.example.com/sensors/temp>;rel=describedby;anchor="` + base +
				`/sensors/temp";age="7"`},
		{"GET /rd-lookup/res?href=" + base + "/sensors/temp", "", nil, "2.05", "^<" + base},
		{"GET /rd-lookup/res?href=/rd/1&if=sens*", "", nil, "2.05", "^<" + base},
		{"GET /rd-lookup/res?rt=indoor", "", nil, "2.05", `~<coap://127.0.0.1/temp>;rt="temperature-c`},
		{"GET /rd-lookup/ep?base=coap://127.0.0.2", "", nil, "2.05",
			`<coap://127.0.0.2>;ep="s1";base="coap://127.0.0.2";rt="core.rd-ep";age="7"`},
		{"GET /rd-lookup/ep?page=1&count=1", "", nil, "2.05", `^<coap://127.0.0.1>;ep="s0"`},
		{"GET /rd-lookup/ep?page=9&count=1", "", nil, "2.05", ""},
		{"GET /rd-lookup/ep?page=1", "", nil, "4.00", "page: needs a count beside it"},
		{"GET /rd-lookup/ep?count=0", "", nil, "4.00", "count: must be a number in 1 .. 1000"},
		{"GET /rd-lookup/res", "", []message.Option{option(message.Accept, 60)}, "4.06", ""},
	}
}

// Simple registration, section 5.1.
var simpleConversations = []conversation{
	{"POST /.well-known/rd?ep=simple&lt=6000", "", nil, "2.04", ""},
	{"POST /.well-known/rd?ep=simple", "x", nil, "4.00", "^payload: must be empty"},
	{"POST /.well-known/rd?ep=simple&base=coap://127.0.0.1", "", nil, "4.00", "^base: "},
	{"POST /.well-known/rd", "", nil, "4.00", "ep: is missing"},
	{"GET /.well-known/rd?ep=simple", "", nil, "4.05", ""},
}

// Conversations of RFC 9176 in this order, with loopback addresses and our locations.
func TestConformance(t *testing.T) {
	s := newSite(t, 2).serve(t)
	p := dial(t, s, "127.0.0.9:0")
	base := "coap://" + p.conn.LocalAddr().String()
	for i, c := range slices.Concat(discoveryConversations, registrationConversations,
		updateConversations, lookupConversations(base), simpleConversations) {
		r := p.ask(c.request, c.payload, c.opts...)
		got := string(r.Payload)
		if r.location() != "" {
			got = r.location()
		}
		begins, has := strings.CutPrefix(c.want, "^")
		holds, within := strings.CutPrefix(c.want, "~")
		ok := got == c.want || has && strings.HasPrefix(got, begins) ||
			within && strings.Contains(got, holds)
		if r.code() != c.code || !ok {
			t.Errorf("%d: %s: %s %q, want %s %q", i, c.request, r.code(), got, c.code, c.want)
		}
	}
	if got := s.calls(); len(got) != 1 {
		t.Errorf("announced %v", got)
	}
}
