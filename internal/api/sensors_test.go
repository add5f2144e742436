package api

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// detailAnswer is sensorDetail as a client decodes it.
type detailAnswer struct {
	planner.Explanation
	Age    *float64 `json:"age_seconds"`
	Plan   planDetail
	Latest *latestVersion
	Visits []visit.Outcome
}

type listAnswer struct {
	Sensors []planner.Explanation
	Next    string
}

// Every id reaches its sensor over a real connection, in every form.
func TestTrickyIDs(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.run(5 * time.Minute)
	server := httptest.NewServer(d.handler)
	defer server.Close()
	for _, id := range trickyIDs {
		targets := []string{"/api/v1/sensors?id=" + url.QueryEscape(id), "/" + sensorLink(id)}
		if id != ".." {
			targets = append(targets, "/api/v1/sensors/"+url.PathEscape(id),
				"/sensors/"+url.PathEscape(id), "/api/v1/sensors/"+url.PathEscape(id)+"/versions")
		}
		for _, target := range targets {
			resp, err := server.Client().Get(server.URL + target)
			if err != nil {
				t.Fatal(err)
			}
			text, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if resp.StatusCode != 200 {
				t.Errorf("%q as %s: %s %s", id, target, resp.Status, text)
			}
		}
		var got detailAnswer
		if d.get(targets[0], &got); got.ID != id {
			t.Errorf("%q: answer is about %q", id, got.ID)
		}
	}
}

func TestSensorDetail(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	for d.p.Record("50%").Visits < 4 {
		d.run(time.Minute)
	}
	var got detailAnswer
	d.get("/api/v1/sensors/50%25?visits=3", &got)
	want, _ := d.p.Explain("50%", d.now)
	if diff := cmp.Diff(want, got.Explanation); diff != "" {
		t.Errorf("explanation (-want +got):\n%s", diff)
	}
	if got.Age == nil || *got.Age != d.now.Sub(*want.LastSuccess).Seconds() {
		t.Errorf("age %v, last success %v, now %v", got.Age, want.LastSuccess, d.now)
	}
	latest, _, err := d.repo.Latest("50%")
	if err != nil || got.Latest == nil || got.Latest.Hash != latest.Hash ||
		!got.Latest.Verified.Equal(latest.Verified) || got.Latest.Verdict != "recovered" ||
		got.Latest.Links != 4 {
		t.Errorf("latest %+v, stored %+v, %v", got.Latest, latest, err)
	}
	stored, _ := d.repo.Visits("50%", 3)
	if len(got.Visits) != 3 || !got.Visits[0].Started.Equal(stored[0].Started) ||
		got.Visits[0].Started.Before(got.Visits[1].Started) {
		t.Errorf("visits %+v", got.Visits)
	}
	d.get("/api/v1/sensors/50%25?visits=0", &got)
	if len(got.Visits) != 0 {
		t.Errorf("%d visits though none were asked for", len(got.Visits))
	}
	d.refused("/api/v1/sensors/nobody", 404, `"nobody" is not in the fleet`)
}

func TestSensorNeverVisited(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	var raw map[string]any
	d.get("/api/v1/sensors/50%25", &raw)
	if raw["age_seconds"] != nil || raw["latest"] != nil || len(raw["visits"].([]any)) != 0 {
		t.Errorf("%v", raw)
	}
}

// The plan of a sensor against the fleet's own windows and the planner's list.
func TestSensorPlan(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.run(3*time.Minute + 7*time.Second)
	for _, s := range d.fleet.All() {
		var got detailAnswer
		d.get("/api/v1/sensors?id="+url.QueryEscape(s.ID), &got)
		st := d.p.Status(d.now)
		want := planDetail{SleepPlan: s.Plan.String(),
			Range:   sleepplan.Window{Start: st.Range, End: st.End},
			Windows: []sleepplan.Window{}, Planned: []time.Time{}}
		want.Windows = s.Plan.AppendWindows(want.Windows, d.now, st.End)
		for _, u := range d.p.Upcoming() {
			if u.Sensor == s.ID {
				want.Planned = append(want.Planned, u.At)
			}
		}
		if diff := cmp.Diff(want, got.Plan); diff != "" {
			t.Errorf("%q (-want +got):\n%s", s.ID, diff)
		}
	}
	d.o.Fleet = nil
	d.handler = New(d.o)
	var got detailAnswer
	if d.get("/api/v1/sensors/50%25", &got); got.Plan.Windows != nil || got.Plan.SleepPlan == "" {
		t.Errorf("without a fleet: %+v", got.Plan)
	}
}

// A cycle of a millisecond has 600 000 windows in the range.
func TestManyWindowsAreCut(t *testing.T) {
	fast, err := sleepplan.Cycle(time.Millisecond, time.Millisecond/2, start)
	if err != nil {
		t.Fatal(err)
	}
	f, err := fleet.New([]fleet.Sensor{{ID: "f", URI: "coap://192.0.2.1/", Weight: 1, MaxCrawls: 1,
		Rate: 1, Plan: fast}})
	if err != nil {
		t.Fatal(err)
	}
	d := newDaemon(t, f)
	var got detailAnswer
	d.get("/api/v1/sensors/f", &got)
	if !got.Plan.More || len(got.Plan.Windows) != maxWindows {
		t.Errorf("%d windows, more: %v", len(got.Plan.Windows), got.Plan.More)
	}
}

// Paging with filters against filtering all that the planner tells.
func TestListAgainstBruteForce(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.run(4 * time.Minute)
	all := d.p.ExplainAll("", 1000, d.now)
	queries := []struct {
		query string
		keep  func(planner.Explanation) bool
	}{
		{"", func(planner.Explanation) bool { return true }},
		{"&state=fresh", func(e planner.Explanation) bool { return e.State == "fresh" }},
		{"&state=fresh&state=asleep&state=learning", func(e planner.Explanation) bool {
			return e.State == "fresh" || e.State == "asleep" || e.State == "learning"
		}},
		{"&label=room%3D1", func(e planner.Explanation) bool { return e.Labels["room"] == "1" }},
		{"&label=room%3D1&label=note%3D" + url.QueryEscape(hostile), func(e planner.Explanation) bool {
			return e.Labels["room"] == "1"
		}},
		{"&label=room%3D2", func(planner.Explanation) bool { return false }},
		{"&label=floor%3D", func(planner.Explanation) bool { return false }},
	}
	for _, q := range queries {
		for _, limit := range []int{1, 2, 3, 10, 11, 1000} {
			var want, got []string
			for _, e := range all {
				if q.keep(e) {
					want = append(want, e.ID)
				}
			}
			for from, more := "", true; more; {
				var page listAnswer
				d.get(fmt.Sprintf("/api/v1/sensors?from=%s&limit=%d%s", url.QueryEscape(from), limit,
					q.query), &page)
				if len(page.Sensors) > limit || page.Sensors == nil {
					t.Fatalf("%d sensors, limit %d", len(page.Sensors), limit)
				}
				for _, e := range page.Sensors {
					got = append(got, e.ID)
				}
				from, more = page.Next, page.Next != ""
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s, limit %d: %q, expected %q", q.query, limit, got, want)
			}
		}
	}
}

// One filtered request looks at a bounded part of the fleet, and says where to
// go on.
func TestFilteredScanIsBounded(t *testing.T) {
	const size = maxScan*maxRows + 10
	last := fmt.Sprintf("%06d", size-1)
	d := newDaemon(t, manySensors(t, size))
	var page listAnswer
	d.get("/api/v1/sensors?label=name%3D"+last, &page)
	if len(page.Sensors) != 0 || page.Next != fmt.Sprintf("%06d", maxScan*maxRows) {
		t.Fatalf("%d sensors, next %q", len(page.Sensors), page.Next)
	}
	d.get("/api/v1/sensors?label=name%3D"+last+"&from="+page.Next, &page)
	if len(page.Sensors) != 1 || page.Next != "" {
		t.Errorf("%d sensors, next %q", len(page.Sensors), page.Next)
	}
}

func TestQueriesAreChecked(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	long := strings.Repeat("x", maxID+1)
	for target, text := range map[string]string{
		"/api/v1/sensors?limit=0":                           "limit: \"0\"; expected a number from 1 to",
		"/api/v1/sensors?limit=1001":                        "limit:",
		"/api/v1/sensors?limit=":                            "limit:",
		"/api/v1/sensors?limit=1e3":                         "limit:",
		"/api/v1/sensors?limit=1&limit=2":                   "limit: given 2 times",
		"/api/v1/sensors?stat=fresh":                        "\"stat\": unknown parameter; known are",
		"/api/v1/sensors?state=Fresh":                       "state: \"Fresh\"; expected one of [fresh",
		"/api/v1/sensors?label=room":                        "label: \"room\"; expected key=value",
		"/api/v1/sensors?label=%3Dx":                        "label:",
		"/api/v1/sensors?label=a%3D1&label=a%3D2":           "label:",
		"/api/v1/sensors?from=%zz":                          "query:",
		"/api/v1/sensors?id=":                               "id: expected 1 to 512 bytes",
		"/api/v1/sensors?id=a&from=b":                       "from",
		"/api/v1/sensors/a?id=b":                            "id: given in path and query",
		"/api/v1/sensors/" + long:                           "id:",
		"/api/v1/sensors/a?visits=-1":                       "visits:",
		"/api/v1/sensors/a/versions?before=monday":          "before: \"monday\"; expected a time",
		"/api/v1/sensors/a/versions?before=":                "before:",
		"/api/v1/versions?before=0001-01-01T00:00:00Z&id=a": "before:",
		"/api/v1/versions":                                  "id:",
		"/api/v1/body?id=a&hash=12":                         "hash: \"12\"; expected a SHA-256",
		"/api/v1/sensors/a/versions/zz/body":                "hash:",
		"/api/v1/plan?cursor=2026":                          "cursor: \"2026\"",
		"/api/v1/plan?cursor=2026,a":                        "cursor:",
		"/api/v1/search?q=rt%3Dx+age%3Csoon":                "q: byte 9: expected a duration",
		"/api/v1/search?q=state%3Dgone":                     "q: byte 6: expected states",
		"/api/v1/search?q=%ff":                              "q: byte 0: not UTF-8",
		"/api/v1/search?q=a&q=b":                            "q: given 2 times",
		"/api/v1/search?cursor=x":                           "cursor: \"x\"; expected next",
		"/api/v1/search?limit=1001":                         "limit:",
		"/api/v1/status?x":                                  "\"x\": unknown parameter",
	} {
		d.refused(target, 400, text)
	}
}

// Readers and the loop side by side, for the race detector.
func TestReadersBesideTheLoop(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			for _, target := range []string{"/", "/api/v1/sensors", "/api/v1/plan", "/sensors?id=..",
				"/api/v1/sensors/unknown-plan", "/-/healthy", "/api/v1/status"} {
				if w := d.request("GET", target, "@"); w.Code != 200 {
					t.Errorf("%s: %d %s", target, w.Code, w.Body)
				}
			}
		}
	}()
	d.run(100 * time.Minute) // long enough that what the planner keeps is cut
	cancel()
	<-done
}
