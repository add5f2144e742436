package api

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"

	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/visit"
)

const (
	pageRows   = 100 // sensors of a page
	pageVisits = 50  // of a sensor: all that the repository keeps by default
	pageLinks  = 200 // of a description
	maxShown   = 300 // characters of one text
)

// pageFuncs are what templates may call. "show" goes over every text that is not
// of this program.
func pageFuncs() template.FuncMap {
	return template.FuncMap{"show": show, "clock": clock, "link": sensorLink, "span": span,
		"field": spelled}
}

// show makes text safe to look at: what is not printable, above all characters
// that turn the direction of writing, is spelled out, and length is bounded.
// Escaping for HTML is the template's.
func show(v any) string {
	n := 0
	text := fmt.Sprint(v)
	for i := range text {
		if n++; n > maxShown {
			return spelled(text[:i]) + "…"
		}
	}
	return spelled(text)
}

// spelled is show of any length: what a form sends again.
func spelled(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u{%x}", r)
		}
	}
	return b.String()
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.0Z") }

// sensorLink is relative to the root. Every byte that could mean something is
// percent-encoded.
func sensorLink(id string) string { return "sensors?id=" + url.QueryEscape(id) }

// span is a length of time at the precision that people read.
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(max(-d, 0)) // the least Duration has no opposite
	case d < 10*time.Second:
		return d.Round(time.Millisecond).String()
	case d < 48*time.Hour:
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%dd%dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

// page is what all pages have.
type page struct {
	Root    string // relative, to the landing page
	Title   string
	Version string
	Now     time.Time
}

// Ago tells how long before the page's instant something was.
func (p page) Ago(t *time.Time) string {
	if t == nil {
		return "never"
	}
	return span(p.Now.Sub(*t)) + " ago"
}

// Until tells when something will be.
func (p page) Until(t *time.Time) string {
	if t == nil {
		return "none in this range"
	}
	return fmt.Sprintf("in %s, %s", span(t.Sub(p.Now)), clock(*t))
}

// count is a name with a number.
type count struct {
	Name  string
	Count int
}

type indexView struct {
	page
	Status  planner.Status
	Trouble []repository.Trouble // of the store
	States  []count
	Used    []count
	Mean    float64 // expected latency of an event, seconds
	Sensors []sensorRow
	Next    string // link of the next page, empty at the end
	Filter  string
}

// indexPage is GET /: the fleet, and a page of its sensors.
func (s *server) indexPage(w http.ResponseWriter, r *http.Request) {
	f, err := readFilter(r)
	if err != nil {
		s.refusePage(w, r, err)
		return
	}
	f.limit = pageRows
	view := indexView{page: page{Title: "sensors", Version: s.o.Version},
		Trouble: s.o.Repo.Troubles()}
	err = s.askFleet(r.Context(), func(p *planner.Planner, now time.Time) {
		view.Status = p.Status(now)
	})
	list := sensorList{}
	if err == nil {
		list, err = s.list(r.Context(), f)
	}
	if err != nil {
		s.refusePage(w, r, err)
		return
	}
	view.Now, view.Sensors = list.now, list.Sensors
	view.count()
	query := r.URL.Query()
	view.Filter = strings.Join(append(query["state"], query["label"]...), ", ")
	if list.Next != "" {
		query.Set("from", list.Next)
		view.Next = "?" + query.Encode()
	}
	s.render(w, r, "index.html", &view)
}

func (v *indexView) count() {
	for _, state := range planner.States() {
		v.States = append(v.States, count{string(state), v.Status.States[state]})
	}
	for _, k := range visit.Kinds() {
		v.Used = append(v.Used, count{k.String(), v.Status.Used[k.String()]})
	}
	if v.Status.Events > 0 {
		v.Mean = v.Status.Wait / v.Status.Events
	}
}

type sensorView struct {
	page
	*sensorDetail
	Labels   []string
	Timeline timeline
	Links    []shownLink
	More     int    // links that are not shown
	Trouble  string // why there are no links
}

// shownLink is a link of a description as text: nothing follows it.
type shownLink struct{ Target, Attributes string }

// sensorPage is GET /sensors/{id} and /sensors?id=.
func (s *server) sensorPage(w http.ResponseWriter, r *http.Request) {
	q := parseQuery(r, nil, "id")
	id := q.id(r)
	if q.err != nil {
		s.refusePage(w, r, q.err)
		return
	}
	d, err := s.detail(r.Context(), id, pageVisits)
	if err != nil {
		s.refusePage(w, r, err)
		return
	}
	view := sensorView{sensorDetail: d, Timeline: d.timeline(),
		page: page{Title: show(id), Version: s.o.Version, Now: d.now}}
	if r.PathValue("id") != "" {
		view.Root = "../"
	}
	for _, key := range sortedKeys(d.Explanation.Labels) {
		view.Labels = append(view.Labels, key+"="+d.Explanation.Labels[key])
	}
	view.readLinks(s)
	s.render(w, r, "sensor.html", &view)
}

// readLinks fills in the links of the version in force.
func (v *sensorView) readLinks(s *server) {
	if v.Latest == nil || v.Latest.Verdict == "" {
		return
	}
	body, err := s.o.Repo.Body(v.Latest.Hash)
	if err != nil {
		v.Trouble = err.Error()
		return
	}
	parsed := linkformat.Parse(body)
	if parsed.Err != nil {
		v.Trouble = parsed.Err.Error()
	}
	for i, l := range parsed.Links {
		if i == pageLinks {
			v.More = len(parsed.Links) - pageLinks
			return
		}
		v.Links = append(v.Links, shownLink{l.Target, attributeText(l.Attrs)})
	}
}

// attributeText is attributes in link format.
func attributeText(attrs []linkformat.Attr) string {
	return strings.TrimLeft(string(linkformat.Link{Attrs: attrs}.Append(nil)), "<>;")
}

func (s *server) render(w http.ResponseWriter, r *http.Request, name string, view any) {
	s.renderAs(w, r, http.StatusOK, name, view)
}

// renderAs writes a page once all of it is there.
func (s *server) renderAs(w http.ResponseWriter, r *http.Request, status int, name string,
	view any) {
	var text bytes.Buffer
	if err := s.pages.ExecuteTemplate(&text, name, view); err != nil {
		s.refusePage(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(text.Bytes()) // the peer may have gone
}

func (s *server) refusePage(w http.ResponseWriter, r *http.Request, err error) {
	f := s.describe(r, err)
	writeText(w, f.status, f.text)
}

func (s *server) stylesheet(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(s.style))
}
