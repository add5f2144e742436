package api

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/sleepplan"
)

// planPage is how the running range stands, with a page of what is to come.
type planPage struct {
	planner.Status
	Range    sleepplan.Window   `json:"range"` // hides the start of the same name
	Upcoming []planner.Upcoming `json:"upcoming"`
	Next     string             `json:"next"` // goes into cursor
}

// statusAnswer is how the running range stands, and the store.
type statusAnswer struct {
	planner.Status
	Degraded []repository.Trouble `json:"degraded"` // the worst first
}

// status is GET /api/v1/status.
func (s *server) status(r *http.Request) (any, error) {
	if q := parseQuery(r, nil); q.err != nil {
		return nil, q.err
	}
	st := statusAnswer{Degraded: s.o.Repo.Troubles()}
	err := s.askFleet(r.Context(), func(p *planner.Planner, now time.Time) {
		st.Status = p.Status(now)
	})
	return st, err
}

// plan is GET /api/v1/plan.
func (s *server) plan(r *http.Request) (any, error) {
	q := parseQuery(r, nil, "limit", "cursor")
	limit := q.number("limit", maxRows, 1, maxRows)
	after := q.cursor()
	if q.err != nil {
		return nil, q.err
	}
	var page planPage
	var all []planner.Upcoming
	err := s.askFleet(r.Context(), func(p *planner.Planner, now time.Time) {
		page.Status, all = p.Status(now), p.Upcoming()
	})
	if err != nil {
		return nil, err
	}
	page.Range = sleepplan.Window{Start: page.Status.Range, End: page.End}
	page.Upcoming = firstUpcoming(all, after, limit+1)
	if len(page.Upcoming) > limit {
		page.Upcoming = page.Upcoming[:limit]
		last := page.Upcoming[limit-1]
		page.Next = last.At.UTC().Format(time.RFC3339Nano) + "," + last.Sensor
	}
	return page, nil
}

// cursor reads the instant and the sensor of the row before the page; the zero
// value is before all rows.
func (q *query) cursor() planner.Upcoming {
	given := q.values.Get("cursor")
	if given == "" {
		return planner.Upcoming{}
	}
	at, sensor, ok := strings.Cut(given, ",")
	t, err := time.Parse(time.RFC3339, at)
	if !ok || err != nil {
		q.fail("cursor: %s; expected the next of the page before", clip(given))
	}
	return planner.Upcoming{At: t, Sensor: sensor}
}

// byInstant is the order of rows. No sensor has two visits at one instant.
func byInstant(a, b planner.Upcoming) int {
	return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Sensor, b.Sensor))
}

// firstUpcoming returns the first n rows after a row, sorted. It sorts no more
// than 2n at a time: all crawls of a large fleet would take seconds.
func firstUpcoming(all []planner.Upcoming, after planner.Upcoming, n int) []planner.Upcoming {
	first := make([]planner.Upcoming, 0, 2*n)
	for _, u := range all {
		if byInstant(u, after) <= 0 {
			continue
		}
		if first = append(first, u); len(first) == 2*n {
			slices.SortFunc(first, byInstant)
			first = first[:n]
		}
	}
	slices.SortFunc(first, byInstant)
	return first[:min(n, len(first))]
}
