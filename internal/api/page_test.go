package api

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	texttemplate "text/template"
	"time"

	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/planner"
)

// What pages are made of. Nothing here runs, loads or sends anything.
var (
	elements = strings.Fields(`html head meta title link body header a span nav main footer section p
		strong dl dt dd table thead tbody tr th td br bdi h1 h2 code figure figcaption svg rect line
		circle text form input button`)
	attributes = strings.Fields(`lang charset name content rel href class data-name colspan viewBox
		role aria-label x y width height x1 x2 y1 y2 cx cy r action method name value type
		placeholder`)
)

// checkPage holds a page against the grammar and against what a page may have:
// pages are written so that an XML parser can read them.
func checkPage(page string) error {
	d := xml.NewDecoder(strings.NewReader(page))
	d.Entity = xml.HTMLEntity
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		if !slices.Contains(elements, e.Name.Local) {
			return fmt.Errorf("element <%s>", e.Name.Local)
		}
		for _, a := range e.Attr {
			if !slices.Contains(attributes, a.Name.Local) {
				return fmt.Errorf("<%s %s=%q>", e.Name.Local, a.Name.Local, a.Value)
			}
			if a.Name.Local == "action" && a.Value != "search" {
				return fmt.Errorf("<%s action=%q> sends elsewhere", e.Name.Local, a.Value)
			}
			if a.Name.Local == "href" && strings.Contains(a.Value, ":") && a.Value != "data:," {
				return fmt.Errorf("<%s href=%q> leads elsewhere", e.Name.Local, a.Value)
			}
		}
	}
}

func pageTargets() []string {
	targets := []string{"/", "/?from=a", "/?state=fresh", "/?label=room%3D0", "/?state=unreachable",
		"/search", "/search?q=rt%3D*+obs!%3D*",
		"/search?q=" + url.QueryEscape(`x="`+"\x1b\u202e"+`<script>"`),
		"/search?q=sensor%3D5*"}
	for _, id := range trickyIDs {
		targets = append(targets, "/"+sensorLink(id))
	}
	return append(targets, "/sensors/unknown-plan")
}

func TestPagesHoldHostileText(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	check := func() {
		for _, target := range pageTargets() {
			w := d.request("GET", target, "192.0.2.9:1")
			if w.Code != 200 || w.Header().Get("Content-Type") != "text/html; charset=utf-8" {
				t.Fatalf("%s: %d %v %s", target, w.Code, w.Header(), w.Body)
			}
			page := w.Body.String()
			if err := checkPage(page); err != nil {
				t.Errorf("%s: %v\n%s", target, err, page)
			}
			if strings.ContainsAny(page, "\u202e\x1b\x00") || contains(page, "<script") {
				t.Errorf("%s: hostile text goes through\n%s", target, page)
			}
		}
	}
	check()
	d.run(5 * time.Minute)
	check()
	w := d.request("GET", "/sensors?id=50%25", "@").Body.String()
	for _, part := range []string{"&lt;script&gt;alert(3)", "javascript:alert(4)", `\u{202e}txt.exe`,
		`class="awake"`, `class="planned"`, `class="described"`, "sha", "refused"} {
		if !strings.Contains(strings.ToLower(w), part) {
			t.Errorf("the page of a sensor lacks %s:\n%s", part, w)
		}
	}
}

// The check is worth something: pages without contextual escaping do not pass.
func TestPageCheckCatchesTextTemplates(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.run(7 * time.Minute)
	plain := texttemplate.Must(texttemplate.New("").Funcs(texttemplate.FuncMap(pageFuncs())).
		ParseFS(files, "templates/*.html"))
	s := &server{o: d.o, fleetwide: make(chan struct{}, 1)}
	detail, err := s.detail(t.Context(), hostile, 20)
	if err != nil {
		t.Fatal(err)
	}
	sensor := &sensorView{sensorDetail: detail, Timeline: detail.timeline()}
	index := &indexView{Status: d.p.Status(d.now)}
	for _, e := range d.p.ExplainAll("", 100, d.now) {
		index.Sensors = append(index.Sensors, sensorRow{Explanation: e})
	}
	for name, view := range map[string]any{"sensor.html": sensor, "index.html": index} {
		var page bytes.Buffer
		if err := plain.ExecuteTemplate(&page, name, view); err != nil {
			t.Fatal(err)
		}
		if checkPage(page.String()) == nil {
			t.Errorf("%s: text/template passes", name)
		}
	}
}

func TestCheckPage(t *testing.T) {
	for _, page := range []string{"<p>a", "<p onclick='x'/>", "<script/>", "<p>a & b</p>",
		"<iframe/>", `<form action="https://x/"/>`,
		`<a href="javascript:x"/>`, `<p style="x"/>`} {
		if checkPage(page) == nil {
			t.Errorf("%s passes", page)
		}
	}
}

// A browser that follows the links reaches every sensor.
func TestPagesLeadToEverySensor(t *testing.T) {
	f := testFleet(t)
	d := newDaemon(t, f)
	server := httptest.NewServer(d.handler)
	defer server.Close()
	resp, err := server.Client().Get(server.URL + "/?from=%22")
	if err != nil {
		t.Fatal(err)
	}
	page, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	found := 0
	for _, part := range strings.Split(string(page), `href="sensors?`)[1:] {
		link, _, _ := strings.Cut(part, `"`)
		resp, err := server.Client().Get(server.URL + "/sensors?" + html.UnescapeString(link))
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("%s: %s", link, resp.Status)
		}
		found++
	}
	if found != f.Len() {
		t.Errorf("%d links, expected %d", found, f.Len())
	}
}

func TestLandingPageHasNext(t *testing.T) {
	d := newDaemon(t, manySensors(t, pageRows+20))
	seen := 0
	for target, pages := "/?label=parity%3D1&label=group%3Da", 0; target != ""; pages++ {
		if pages > 2 {
			t.Fatal("no end")
		}
		page := d.request("GET", target, "@").Body.String()
		seen += strings.Count(page, `href="sensors?`)
		_, next, _ := strings.Cut(page, `rel="next" href="`)
		next, _, _ = strings.Cut(next, `"`)
		if target = html.UnescapeString(next); target != "" {
			target = "/" + target
		}
	}
	if want := (pageRows + 20) / 2; seen != want {
		t.Errorf("%d sensors, expected %d", seen, want)
	}
}

func TestPageFaults(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	for target, code := range map[string]int{"/sensors?id=nobody": 404, "/sensors": 400,
		"/?state=x": 400, "/?a=b": 400, "/sensors/nobody%3Cscript%3E": 404} {
		w := d.request("GET", target, "@")
		if w.Code != code || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: %d %v", target, w.Code, w.Header())
		}
	}
}

func TestManyLinksAreCut(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.store("50%", start, []byte(strings.Repeat("</a>,", 299)+"</a>"), 40)
	page := d.request("GET", "/sensors?id=50%25", "@").Body.String()
	shown := strings.Count(page, "<bdi>/a<")
	if !contains(page, "100 more links are not shown") || shown != pageLinks {
		t.Errorf("%s", page)
	}
}

func TestShow(t *testing.T) {
	for in, want := range map[string]string{"": "", "a b°": "a b°", "a\tb\n": `a\u{9}b\u{a}`,
		"\u202egnp": `\u{202e}gnp`, "\xff": `\u{fffd}`, "\u00a0": `\u{a0}`, "\x00": `\u{0}`,
		strings.Repeat("ü", maxShown):     strings.Repeat("ü", maxShown),
		strings.Repeat("ü", maxShown+1):   strings.Repeat("ü", maxShown) + "…",
		string(linkformat.Valid) + "\x7f": `valid\u{7f}`} {
		if got := show(in); got != want {
			t.Errorf("%q: %q, expected %q", in, got, want)
		}
	}
	if got := show(planner.Fresh); got != "fresh" {
		t.Errorf("%q", got)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 1234567 * time.Microsecond: "1.235s",
		-time.Minute: "-1m0s", math.MinInt64: "-0s", 47*time.Hour + 1500*time.Millisecond: "47h0m2s",
		49 * time.Hour: "2d1h"} {
		if got := span(d); got != want {
			t.Errorf("%v: %s, expected %s", d, got, want)
		}
	}
}
