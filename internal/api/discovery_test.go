package api

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/visit"
)

// These tests run on a real repository.

const (
	acme  = "acme-token-aaaaaaaaaaaa"
	other = "other-token-bbbbbbbbbbb"
	sees1 = "reader-token-cccccccccc" // acme:1
	sees0 = "reader-token-dddddddddd" // all
	far   = "192.0.2.9:1"
	unix  = "@"
)

// events is a daemon with two publishers and, if they are wanted, readers.
type events struct {
	*daemon
	registry *prometheus.Registry
	now      time.Time // of the test's events: the gate has the clock
}

func keyOf(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(append(make([]byte, ed25519.SeedSize-1), n))
}

func newEvents(t testing.TB, readers ...discovery.Reader) *events {
	t.Helper()
	d := &events{newDaemon(t, testFleet(t)), prometheus.NewRegistry(),
		time.Now().UTC().Truncate(time.Second)}
	publisher := func(kid string, n byte, token string, ids ...string) discovery.Publisher {
		p := discovery.Publisher{KID: kid, Key: keyOf(n).Public().(ed25519.PublicKey),
			Token: sha256.Sum256([]byte(token))}
		for _, id := range ids {
			p.Sources = append(p.Sources, discovery.Source{ID: id, Address: "https://" + id,
				Type: "EPCIS-2.0"})
		}
		return p
	}
	gate := discovery.NewGate([]discovery.Publisher{publisher("acme", 1, acme, "acme:1", "acme:2"),
		publisher("other", 2, other, "other:1")}, readers)
	d.o.Gate = func() *discovery.Gate { return gate }
	d.o.Metrics = d.registry
	d.handler = New(d.o)
	return d
}

func twoReaders() []discovery.Reader {
	return []discovery.Reader{
		{Token: sha256.Sum256([]byte(sees1)), Sources: []string{"acme:1"}},
		{Token: sha256.Sum256([]byte(sees0)), All: true}}
}

// entry is an event of the tests.
type entry struct {
	id, kind, action, parent, source string
	at                               time.Duration // before now
	objects                          []string
}

func (d *events) document(entries ...entry) string {
	list := []any{}
	for _, e := range entries {
		m := map[string]any{"type": e.kind, "action": e.action, "eventID": e.id,
			"eventTime": d.now.Add(-e.at).Format(time.RFC3339), "eventTimeZoneOffset": "+00:00",
			"acme:note": "of " + e.id}
		switch e.kind {
		case "AggregationEvent", "AssociationEvent":
			m["parentID"], m["childEPCs"] = e.parent, e.objects
		default:
			m["epcList"] = e.objects
		}
		if e.source != "" {
			m["crawld:source"] = e.source
		}
		list = append(list, m)
	}
	text, err := json.Marshal(map[string]any{"@context": []any{epcisContext,
		map[string]string{"acme": "https://acme.example/", "crawld": crawldContext}},
		"type": "EPCISDocument", "schemaVersion": "2.0", "creationDate": d.now,
		"epcisBody": map[string]any{"eventList": list}})
	if err != nil {
		d.t.Fatal(err)
	}
	return string(text)
}

func (d *events) sign(n byte, kid, text string) string {
	d.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA,
		Key: jose.JSONWebKey{Key: keyOf(n), KeyID: kid}}, nil)
	if err != nil {
		d.t.Fatal(err)
	}
	jws, err := signer.Sign([]byte(text))
	if err != nil {
		d.t.Fatal(err)
	}
	compact, err := jws.CompactSerialize()
	if err != nil {
		d.t.Fatal(err)
	}
	return compact
}

func (d *events) post(path, token, kind, body string) *httptest.ResponseRecorder {
	d.t.Helper()
	r := httptest.NewRequest("POST", path, strings.NewReader(body))
	r.RemoteAddr = far
	r.Header.Set("Content-Type", kind)
	if token != "" {
		r.Header.Set("Authorization", "bearer "+token)
	}
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	return w
}

// publish publishes as acme what must be taken.
func (d *events) publish(entries ...entry) publication {
	d.t.Helper()
	w := d.post("/events", acme, joseType, d.sign(1, "acme", d.document(entries...)))
	var p publication
	if err := json.Unmarshal(w.Body.Bytes(), &p); w.Code != 201 && w.Code != 200 || err != nil {
		d.t.Fatalf("%d %s", w.Code, w.Body)
	}
	return p
}

// ask decodes the answer to a GET from a peer with a token.
func (d *events) ask(target, peer, token string, into any) http.Header {
	d.t.Helper()
	w := d.request("GET", target, peer, "Authorization", "Bearer "+token)
	if w.Code != 200 {
		d.t.Fatalf("GET %s: %d %s", target, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		d.t.Fatalf("GET %s: %v", target, err)
	}
	return w.Header()
}

// answer is what clients read of an EPCISQueryDocument.
type answer struct {
	Type     string
	Withheld int `json:"crawld:withheld"`
	Body     struct {
		Results struct {
			Body struct {
				Events []struct {
					Context []any  `json:"@context"`
					ID      string `json:"eventID"`
					Note    string `json:"acme:note"`
				} `json:"eventList"`
			} `json:"resultsBody"`
		} `json:"queryResults"`
	} `json:"epcisBody"`
}

func (a answer) ids() []string {
	var list []string
	for _, e := range a.Body.Results.Body.Events {
		list = append(list, e.ID)
	}
	return list
}

func box() []entry {
	return []entry{
		{"urn:x:e1", "ObjectEvent", "ADD", "", "", 9 * time.Hour, []string{"urn:x:o"}},
		{"urn:x:e2", "AggregationEvent", "ADD", "urn:x:box", "acme:2", 8 * time.Hour,
			[]string{"urn:x:o"}},
		{"urn:x:e3", "ObjectEvent", "OBSERVE", "", "acme:2", 7 * time.Hour, []string{"urn:x:box"}},
		{"urn:x:e4", "AggregationEvent", "DELETE", "urn:x:box", "", 6 * time.Hour, []string{"urn:x:o"}},
		{"urn:x:e5", "ObjectEvent", "DELETE", "", "", 5 * time.Hour, []string{"urn:x:o"}},
	}
}

func TestPublishAndQuery(t *testing.T) {
	d := newEvents(t)
	got := d.publish(box()...)
	want := publication{}
	for _, e := range box() {
		want.Events = append(want.Events, published{e.id, true})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	w := d.post("/capture", acme, joseType, d.sign(1, "acme", d.document(box()...)))
	if w.Code != 200 || strings.Contains(w.Body.String(), "true") {
		t.Errorf("replay: %d %s", w.Code, w.Body)
	}
	for target, ids := range map[string]string{
		"/events":                          "e5 e4 e3 e2 e1",
		"/events/urn:x:e3":                 "e3",
		"/events/urn%3Ax%3Ae3":             "e3",
		"/epcs/urn:x:o/events":             "e5 e4 e2 e1",
		"/epcs/URN%3Ax%3Ao/events":         "e5 e4 e2 e1",
		"/epcs/urn:x:box/events":           "e4 e3 e2",
		"/epcs/urn:x:nobody/events":        "",
		"/events?GE_eventTime=" + d.ago(7): "e5 e4 e3",
		"/events?LT_eventTime=" + d.ago(7): "e2 e1",
		"/epcs/urn:x:o/events?GE_eventTime=" + d.ago(8) + "&LT_eventTime=" + d.ago(6): "e2",
	} {
		var a answer
		d.ask(target, far, "", &a)
		if got := strings.ReplaceAll(strings.Join(a.ids(), " "), "urn:x:", ""); got != ids {
			t.Errorf("%s: %s, want %s", target, got, ids)
		}
		for _, e := range a.Body.Results.Body.Events {
			if e.Note != "of "+e.ID || len(e.Context) != 1 {
				t.Errorf("%s: not as published: %+v", target, e)
			}
		}
		if a.Type != "EPCISQueryDocument" || a.Withheld != 0 {
			t.Errorf("%s: %+v", target, a)
		}
	}
	if got := testutil.ToFloat64(counter(t, d, "stored")); got != 1 {
		t.Errorf("%v publications stored", got)
	}
}

func counter(t *testing.T, d *events, result string) prometheus.Collector {
	t.Helper()
	families, err := d.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "copy"})
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == "crawld_discovery_publishes_total" && m.Label[0].GetValue() == result {
				c.Add(m.Counter.GetValue())
			}
		}
	}
	return c
}

func (d *events) ago(hours int) string {
	return d.now.Add(-time.Duration(hours) * time.Hour).Format(time.RFC3339)
}

// Every event is on one page, in the same order, however long the pages are.
func TestPagesOfEvents(t *testing.T) {
	d := newEvents(t, twoReaders()...)
	var all []entry
	for i := range 60 {
		e := entry{fmt.Sprintf("urn:x:e%02d", i), "ObjectEvent", "OBSERVE", "", "",
			time.Duration(i/3) * time.Minute, []string{"urn:x:o", fmt.Sprint("urn:x:", i)}}
		if i%7 == 0 {
			e = entry{e.id, "AggregationEvent", "ADD", "urn:x:o", "acme:2", e.at, []string{"urn:x:in"}}
		}
		all = append(all, e)
	}
	d.publish(all...)
	for _, path := range []string{"/events", "/epcs/urn:x:o/events"} {
		for token, hidden := range map[string]int{sees0: 0, sees1: 9} {
			var whole []string
			for _, perPage := range []int{100, 1, 2, 7, 30} {
				ids, withheld, pages := d.pages(path, token, perPage)
				slices.Sort(ids)
				if whole == nil {
					whole = ids
				}
				if len(ids) != 60-hidden || withheld != hidden || !slices.Equal(ids, whole) ||
					len(slices.Compact(ids)) != 60-hidden || perPage < 30 && pages < 60/perPage/3 {
					t.Errorf("%s, pages of %d: %d events on %d pages, %d withheld", path, perPage, len(ids),
						pages, withheld)
				}
			}
		}
	}
}

var nextLink = regexp.MustCompile(`^<(/[^>]+)>; rel="next"$`)

// pages follows the links from page to page.
func (d *events) pages(path, token string, perPage int) (ids []string, withheld, pages int) {
	d.t.Helper()
	for target := fmt.Sprintf("%s?perPage=%d", path, perPage); ; pages++ {
		var a answer
		link := d.ask(target, far, token, &a).Get("Link")
		ids, withheld = append(ids, a.ids()...), withheld+a.Withheld
		if link == "" || pages > 200 {
			return ids, withheld, pages + 1
		}
		m := nextLink.FindStringSubmatch(link)
		if m == nil {
			d.t.Fatalf("Link: %s", link)
		}
		target = m[1]
	}
}

func TestTraceAnswer(t *testing.T) {
	d := newEvents(t, twoReaders()...)
	d.publish(box()...)
	var all, some, socket Trace
	d.ask("/epcs/urn:x:o/trace", far, sees0, &all)
	d.ask("/epcs/urn:x:o/trace", unix, "", &socket)
	d.ask("/epcs/urn:x:o/trace", far, sees1, &some)
	if diff := cmp.Diff(all, socket); diff != "" {
		t.Errorf("the control socket sees all (-want +got)\n%s", diff)
	}
	path := []string{"urn:x:o"}
	want := TraceEvent{"urn:x:e2", "AggregationEvent", "ADD", "", d.now.Add(-8 * time.Hour), 0, path,
		"acme:2", "join", "urn:x:box"}
	if len(all.Events) != 5 || !all.Finished || all.Truncated || all.Withheld != 0 {
		t.Fatalf("%+v", all)
	}
	if diff := cmp.Diff(want, all.Events[1]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if e := all.Events[2]; e.Level != 1 || !slices.Equal(e.Path, []string{"urn:x:o", "urn:x:box"}) {
		t.Errorf("%+v", e)
	}
	sources := []TraceSource{{"acme:1", "https://acme:1", "EPCIS-2.0"},
		{"acme:2", "https://acme:2", "EPCIS-2.0"}}
	if diff := cmp.Diff(sources, all.Sources); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if some.Withheld == 0 || slices.ContainsFunc(some.Events, func(e TraceEvent) bool {
		return e.Source == "acme:2"
	}) {
		t.Errorf("withheld %d of %+v", some.Withheld, some.Events)
	}
}

func TestQueriesNeedAToken(t *testing.T) {
	d := newEvents(t, twoReaders()...)
	d.publish(box()...)
	for _, target := range []string{"/events", "/events/urn:x:e1", "/epcs/urn:x:o/events",
		"/epcs/urn:x:o/trace"} {
		for _, c := range []struct{ token, code, challenge string }{
			{"", discovery.NoToken, `Bearer realm="crawld"`},
			{acme, discovery.UnknownToken, `Bearer realm="crawld", error="invalid_token"`},
		} {
			w := d.request("GET", target, "127.0.0.1:1", "Authorization", "Bearer "+c.token)
			if w.Code != 401 || w.Header().Get("WWW-Authenticate") != c.challenge ||
				!contains(w.Body.String(), `"code":"`+c.code+`"`) {
				t.Errorf("%s with %q: %d %v %s", target, c.token, w.Code, w.Header(), w.Body)
			}
		}
	}
	var a answer
	d.ask("/events/urn:x:e2", far, sees1, &a)
	if a.Withheld != 1 || len(a.ids()) != 0 {
		t.Errorf("%+v", a)
	}
}

func TestBadQueries(t *testing.T) {
	d := newEvents(t)
	for target, text := range map[string]string{
		"/epcs/roof/trace":                                         "absolute URI or the id of a sensor",
		"/epcs/urn:x:o/trace?from=yesterday":                       "from: ",
		"/epcs/urn:x:o/trace?follow=up":                            "follow: ",
		"/epcs/urn:x:o/trace?from=" + d.ago(1) + "&to=" + d.ago(2): "from: expected a time that",
		"/epcs/urn:x:o/trace?limit=1":                              "limit",
		"/epcs/urn:x:o/events?nextPageToken=x":                     "nextPageToken: ",
		"/events?nextPageToken=x":                                  "nextPageToken: is none",
		"/events?perPage=1001":                                     "perPage: ",
		"/events?nextPageToken=" + strings.Repeat("x", 513):        "nextPageToken: ",
	} {
		d.refused(target, 400, text)
	}
	d.refused("/events/urn:x:none", 404, "there is no event")
}

// records are what a document is stored as, whenever it was.
func (d *events) records(entries ...entry) (list []discovery.Record) {
	d.t.Helper()
	document, err := epcis.Parse([]byte(d.document(entries...)), discovery.MaxObjects)
	if err != nil {
		d.t.Fatal(err)
	}
	for _, e := range document.Events {
		list = append(list, discovery.Record{Event: e, Publisher: "acme", Recorded: d.now})
	}
	return list
}

// A sensor's id stands for what its descriptions are events of.
func TestTraceOfASensor(t *testing.T) {
	d := newEvents(t)
	i, ok := d.fleet.Find("50%")
	if !ok {
		t.Fatal("no such sensor")
	}
	uri := d.fleet.At(i).URI
	object := repository.ObjectOf("50%", uri)
	o := visit.Outcome{Visit: visit.Visit{Sensor: "50%", URI: uri, At: d.daemon.now},
		Result: visit.Described, Body: []byte("</x>"), Format: 40, Ended: d.daemon.now}
	if err := d.repo.Store(t.Context(), repository.Write{Outcome: o}); err != nil {
		t.Fatal(err)
	}
	// It was put on a box before, and said something when it was there.
	d.now = d.daemon.now.Add(time.Hour)
	events := []entry{
		{"urn:x:on", "AssociationEvent", "ADD", "urn:x:box", "", 2 * time.Hour, []string{object}},
		{"urn:x:moved", "ObjectEvent", "OBSERVE", "", "", time.Minute, []string{"urn:x:box"}}}
	if _, err := d.repo.Publish(t.Context(), d.records(events...)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"50%", object} {
		var trace Trace
		d.ask("/epcs/"+url.PathEscape(name)+"/trace", far, "", &trace)
		var got []string
		for _, e := range trace.Events {
			got = append(got, fmt.Sprint(e.Level, e.Type))
		}
		want := []string{"0AssociationEvent", "0" + descriptionType, "1ObjectEvent"}
		if trace.Object != object || !slices.Equal(got, want) ||
			!slices.Equal(trace.Inside, []string{"urn:x:box"}) {
			t.Errorf("%s: %v %+v", name, got, trace)
		}
	}
}

// Whatever is asked of events, and whoever asks, nothing fails on our side.
func FuzzEventQuery(f *testing.F) {
	d := newEvents(f, twoReaders()...)
	d.publish(box()...)
	for _, path := range []string{"urn:x:o", "urn:epc:id:sgtin:0614141.107346.2018", "%00", "50%25",
		"https%3A%2F%2Fid.gs1.org%2F01%2F00614141073467%2F21%2F2018", "coap%3A%2F%2F%5B%3A%3A1%5D"} {
		f.Add(uint8(0), path, "", sees0)
		f.Add(uint8(1), path, "perPage=2&nextPageToken=1700000000000000", sees1)
		f.Add(uint8(2), path, "from=2026-05-04T12:00:00Z&to=2026-05-05T12:00:00%2B02:00&follow=forward",
			"")
		f.Add(uint8(3), path, "GE_eventTime=1969-12-31T23:59:59Z&nextPageToken=-1", sees0)
	}
	f.Fuzz(func(t *testing.T, what uint8, name, query, token string) {
		path := []string{"/events", "/events/" + name, "/epcs/" + name + "/events",
			"/epcs/" + name + "/trace"}[what%4]
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		u.RawQuery = query
		r := &http.Request{Method: "GET", URL: u, Host: "crawld", RemoteAddr: far, Body: http.NoBody,
			Proto: "HTTP/1.1", Header: http.Header{"Authorization": {"Bearer " + token}}}
		w := httptest.NewRecorder()
		d.handler.ServeHTTP(w, r.WithContext(t.Context()))
		if w.Code >= 500 {
			t.Errorf("%s?%s: %d %s", path, query, w.Code, w.Body)
		}
		if link := w.Header().Get("Link"); link != "" && !nextLink.MatchString(link) {
			t.Errorf("%s?%s: Link: %s", path, query, link)
		}
		other := strings.Trim(token, " ") != sees0 // any number of spaces comes before it
		if other && contains(w.Body.String(), "acme:2") && !contains(query+name, "acme:2") {
			t.Errorf("%s?%s shows %q what it may not see: %s", path, query, token, w.Body)
		}
	})
}
