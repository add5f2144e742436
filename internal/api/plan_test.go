package api

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

type planAnswer struct {
	planner.Status
	Range    sleepplan.Window `json:"range"`
	Upcoming []planner.Upcoming
	Next     string
}

func TestPlanPages(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.run(3 * time.Minute)
	st := d.p.Status(d.now)
	var want, got []planner.Upcoming
	want = d.p.Upcoming()
	slices.SortFunc(want, func(a, b planner.Upcoming) int {
		return a.At.Compare(b.At)*2 + cmpStrings(a.Sensor, b.Sensor)
	})
	for _, limit := range []int{1, 3, len(want) - 1, len(want), 1000} {
		got = got[:0]
		for cursor, more := "", true; more; {
			var page planAnswer
			d.get(fmt.Sprintf("/api/v1/plan?limit=%d&cursor=%s", limit, url.QueryEscape(cursor)), &page)
			if !page.Range.Start.Equal(st.Range) || !page.Range.End.Equal(st.End) || page.Theta != st.Theta {
				t.Fatalf("range %+v, status %+v", page.Range, page.Status)
			}
			got = append(got, page.Upcoming...)
			cursor, more = page.Next, page.Next != ""
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

func cmpStrings(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// firstUpcoming against sorting everything, with many equal instants.
func TestFirstUpcomingAgainstSort(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range rounds(300) {
		all := make([]planner.Upcoming, rng.IntN(60))
		for i, id := range rng.Perm(len(all)) {
			all[i] = planner.Upcoming{At: start.Add(time.Duration(rng.IntN(8)) * time.Second),
				Sensor: fmt.Sprint(id), Kind: visit.Planned}
		}
		after, n := planner.Upcoming{}, 1+rng.IntN(20)
		if len(all) > 0 && rng.IntN(3) > 0 {
			after = all[rng.IntN(len(all))]
		}
		want := []planner.Upcoming{}
		for _, u := range all {
			if u.At.After(after.At) || u.At.Equal(after.At) && u.Sensor > after.Sensor {
				want = append(want, u)
			}
		}
		slices.SortFunc(want, func(a, b planner.Upcoming) int {
			return a.At.Compare(b.At)*2 + cmpStrings(a.Sensor, b.Sensor)
		})
		want = want[:min(n, len(want))]
		if diff := cmp.Diff(want, firstUpcoming(all, after, n)); diff != "" {
			t.Fatalf("after %v, %d rows (-want +got):\n%s", after, n, diff)
		}
	}
}

func TestStatus(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.run(3 * time.Minute)
	var got planner.Status
	d.get("/api/v1/status", &got)
	if diff := cmp.Diff(d.p.Status(d.now), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var raw map[string]json.RawMessage
	d.get("/api/v1/plan", &raw)
	if _, ok := raw["price"]; !ok || len(raw["range"]) < 20 || raw["range"][0] != '{' {
		t.Errorf("plan: %v", raw)
	}
}
