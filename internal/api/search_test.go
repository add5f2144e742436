package api

import (
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/search"
)

// The language asks for the states that there are.
func TestSearchKnowsStates(t *testing.T) {
	var want []string
	for _, state := range planner.States() {
		want = append(want, string(state))
	}
	if diff := cmp.Diff(want, search.States()); diff != "" {
		t.Error(diff)
	}
}

// foundAnswer is searchAnswer as a client decodes it.
type foundAnswer struct {
	Query string
	Hits  []struct {
		Sensor, URI       string
		Target            *string
		Attributes        json.RawMessage
		Age               float64 `json:"age_seconds"`
		State             planner.State
		Version, Verified time.Time
	}
	Next       string
	Complete   bool
	Unreadable int
}

// text is a hit on one line.
func (a foundAnswer) text(i int) string {
	h := a.Hits[i]
	target := "-"
	if h.Target != nil {
		target = *h.Target
	}
	return fmt.Sprintf("%s %s %q %s %s %v %v %v", h.Sensor, h.URI, target, h.Attributes, h.State,
		h.Age, h.Version, h.Verified)
}

// meaning is a question as a predicate.
type meaning func(e planner.Explanation, age time.Duration, l linkformat.Link) bool

// everything is what a scan of all sensors finds.
func (d *daemon) everything(keep meaning) (hits []string) {
	d.t.Helper()
	for _, e := range d.p.ExplainAll("", 1000, d.now) {
		v, ok, err := d.repo.Latest(e.ID)
		if err != nil {
			d.t.Fatal(err)
		}
		if !ok {
			continue
		}
		body, err := d.repo.Body(v.Hash)
		if err != nil {
			d.t.Fatal(err)
		}
		age := max(d.now.Sub(v.Verified), 0) // a visit may end after now
		for _, l := range linkformat.Parse(body).Links {
			if !keep(e, age, l) {
				continue
			}
			attrs, err := json.Marshal(l.Attrs)
			if l.Attrs == nil {
				attrs = []byte("[]")
			}
			if err != nil {
				d.t.Fatal(err)
			}
			hits = append(hits, fmt.Sprintf("%s %s %q %s %s %v %v %v", e.ID, e.URI, l.Target, attrs,
				e.State, age.Seconds(), v.At, v.Verified))
		}
	}
	return hits
}

// asked are questions with what they mean, by hand.
var asked = map[string]meaning{
	"": func(planner.Explanation, time.Duration, linkformat.Link) bool { return true },
	"rt={{* href=/*": func(_ planner.Explanation, _ time.Duration, l linkformat.Link) bool {
		return linkformat.Match(l, "rt", "{{*") && linkformat.Match(l, "href", "/*")
	},
	"sz!=* state=fresh,asleep": func(e planner.Explanation, _ time.Duration, l linkformat.Link) bool {
		return !linkformat.Match(l, "sz", "*") && (e.State == "fresh" || e.State == "asleep")
	},
	"label.room=1 age<1m": func(e planner.Explanation, age time.Duration, _ linkformat.Link) bool {
		return e.Labels["room"] == "1" && age < time.Minute
	},
	"age>=30s sensor=coap:* sz=*": func(e planner.Explanation, age time.Duration,
		l linkformat.Link) bool {
		return age >= 30*time.Second && strings.HasPrefix(e.ID, "coap:") && linkformat.Match(l, "sz", "*")
	},
	`SCRIPT "alert 3" label.note="*"`: func(e planner.Explanation, _ time.Duration,
		l linkformat.Link) bool {
		title, _ := l.Get("title")
		_, noted := e.Labels["note"]
		return strings.Contains(title, "script>alert(3)") && noted
	},
	"label.none=*": func(planner.Explanation, time.Duration, linkformat.Link) bool { return false },
}

// compareAll asks everything in pages of random sizes.
func (d *daemon) compareAll(rnd *rand.Rand) (hits int) {
	d.t.Helper()
	for text, keep := range asked {
		var got []string
		for cursor, more := "", true; more; {
			limit := 1 + rnd.IntN(7)
			var page foundAnswer
			d.get(fmt.Sprintf("/api/v1/search?q=%s&limit=%d&cursor=%s", url.QueryEscape(text), limit,
				cursor), &page)
			if len(page.Hits) > limit || page.Complete != (page.Next == "") || page.Hits == nil {
				d.t.Fatalf("%s: %+v", text, page)
			}
			for i := range page.Hits {
				got = append(got, page.text(i))
			}
			cursor, more = page.Next, page.Next != ""
		}
		if diff := cmp.Diff(d.everything(keep), got); diff != "" {
			d.t.Fatalf("%q (-scan +found):\n%s", text, diff)
		}
		hits += len(got)
	}
	return hits
}

// Through crawls, reloads that take sensors away and bring them back, and restarts a
// search finds what a scan finds.
func TestSearchAgainstBruteForce(t *testing.T) {
	whole := testFleet(t)
	d := newDaemon(t, whole)
	rnd := rand.New(rand.NewPCG(5, 5))
	hits := 0
	for range rounds(6) {
		d.run(time.Duration(1+rnd.IntN(90)) * time.Second)
		switch rnd.IntN(3) {
		case 0:
			var listed []fleet.Sensor
			for _, s := range whole.All() {
				if rnd.IntN(3) > 0 {
					listed = append(listed, *s)
				}
			}
			some, err := fleet.New(listed)
			if err != nil {
				t.Fatal(err)
			}
			d.fleet = some
			d.p.Replace(some, d.now)
		case 1:
			if err := d.repo.Close(); err != nil {
				t.Fatal(err)
			}
			d.open()
		}
		hits += d.compareAll(rnd)
	}
	if hits < 100 {
		t.Errorf("only %d hits", hits)
	}
}

// A description without links is found by what is asked of its sensor.
func TestSearchFindsOtherFormats(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.store("50%", start, []byte("21.5"), 0)
	d.store("gone", start, []byte("</x>"), 40)
	d.now = d.now.Add(90 * time.Second)
	var page foundAnswer
	if d.get("/api/v1/search?q=sensor%3D5*+AGE%3C2m", &page); len(page.Hits) != 1 ||
		page.Hits[0].Target != nil || string(page.Hits[0].Attributes) != "[]" || page.Hits[0].Age != 90 ||
		page.Query != "sensor=5* age<2m" || !page.Complete {
		t.Errorf("%+v", page)
	}
	for _, q := range []string{"rt!=x", "age<90s", "sensor=gone"} {
		if d.get("/api/v1/search?q="+url.QueryEscape(q), &page); len(page.Hits) != 0 || !page.Complete {
			t.Errorf("%s: %+v", q, page)
		}
	}
}

func TestSearchPage(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.store("50%", start,
		[]byte(strings.Repeat(`</a>;rt="x y";title="Küche",`, pageRows)+"</b>;rt=x"), 40)
	d.now = d.now.Add(time.Minute)
	page := d.request("GET", "/search?q=rt%3Dx", "@").Body.String()
	for _, part := range []string{`value="rt=x"`, `href="sensors?id=50%25"`, "1m0s ago", "Küche",
		`class="state `, "coap://192.0.2.3/"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %s:\n%s", part, page)
		}
	}
	_, next, _ := strings.Cut(page, `rel="next" href="`)
	next, _, _ = strings.Cut(next, `"`)
	second := d.request("GET", "/"+html.UnescapeString(next), "@").Body.String()
	if strings.Count(page, "<bdi>/a<") != pageRows || strings.Count(second, "<bdi>/b<") != 1 ||
		strings.Contains(second, `rel="next"`) {
		t.Errorf("%s leads to\n%s", next, second)
	}
	w := d.request("GET", "/search?q=age%3C%3Cscript%3E", "@")
	if err := checkPage(w.Body.String()); w.Code != 400 || err != nil ||
		!strings.Contains(w.Body.String(), "byte 4: expected a duration") {
		t.Errorf("%d %v %s", w.Code, err, w.Body)
	}
	if index := d.request("GET", "/", "@").Body.String(); !strings.Contains(index, `action="search"`) {
		t.Error("the landing page has no search")
	}
	if d.request("GET", "/search?cursor=x", "@").Code != 400 {
		t.Error("a bad cursor passes")
	}
}
