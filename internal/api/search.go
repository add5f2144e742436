package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/search"
)

// searchHit is a link that was found, with how far it can be trusted.
type searchHit struct {
	Sensor   string            `json:"sensor"`
	URI      string            `json:"uri"`         // of the sensor
	Target   *string           `json:"target"`      // as sent; null: its description has no links
	Attrs    []linkformat.Attr `json:"attributes"`  // pairs of name and value, as sent
	Age      float64           `json:"age_seconds"` // since verified
	State    planner.State     `json:"state"`
	Version  time.Time         `json:"version"`  // when this description was first seen
	Verified time.Time         `json:"verified"` // when it was last fetched or confirmed
}

// searchAnswer is a page of hits.
type searchAnswer struct {
	Query      string      `json:"query"` // canonical
	Hits       []searchHit `json:"hits"`  // by sensor, then as in its description
	Next       string      `json:"next"`  // goes into cursor
	Complete   bool        `json:"complete"`
	Unreadable int         `json:"unreadable"` // descriptions left out because they are damaged
	now        time.Time
}

// search is GET /api/v1/search.
func (s *server) search(r *http.Request) (any, error) {
	q := parseQuery(r, nil, "q", "limit", "cursor")
	limit := q.number("limit", defaultRows, 1, maxRows)
	if q.err != nil {
		return nil, q.err
	}
	return s.find(r.Context(), q.values.Get("q"), q.values.Get("cursor"), limit)
}

// find searches the descriptions of the sensors in the fleet.
func (s *server) find(ctx context.Context, text, cursor string, limit int) (*searchAnswer, error) {
	asked, err := search.Parse(text)
	if err != nil {
		return nil, faultf(http.StatusBadRequest, "q: %v", err)
	}
	a := &searchAnswer{Query: asked.String(), Hits: []searchHit{}}
	known := map[string]planner.Explanation{}
	found, err := s.o.Repo.Search(asked, func(list []repository.Candidate) (keep []bool, err error) {
		keep = make([]bool, len(list))
		err = s.askFleet(ctx, func(p *planner.Planner, now time.Time) {
			a.now = now
			for i, c := range list {
				e, listed := p.Explain(c.Sensor, now)
				if keep[i] = listed && wanted(asked, e, now.Sub(c.Verified)); keep[i] {
					known[c.Sensor] = planner.Explanation{URI: e.URI, State: e.State}
				}
			}
		})
		return keep, err
	}, cursor, limit)
	switch {
	case errors.Is(err, repository.ErrCursor):
		return nil, faultf(http.StatusBadRequest, "cursor: %s; expected next of the page before",
			clip(cursor))
	case err != nil:
		return nil, err
	}
	a.Next, a.Unreadable = found.Next, found.Unreadable
	a.Complete = a.Next == "" && a.Unreadable == 0
	for _, h := range found.Hits {
		a.Hits = append(a.Hits, newSearchHit(h, known[h.Sensor], a.now))
	}
	return a, nil
}

// wanted tells whether the terms of a query that are about a sensor hold.
func wanted(q search.Query, e planner.Explanation, age time.Duration) bool {
	return q.MatchesState(string(e.State)) && q.MatchesLabels(e.Labels) && q.MatchesAge(max(age, 0))
}

func newSearchHit(h repository.Hit, of planner.Explanation, now time.Time) searchHit {
	hit := searchHit{Sensor: h.Sensor, URI: of.URI, State: of.State, Attrs: h.Link.Attrs,
		Age: max(now.Sub(h.Verified).Seconds(), 0), Version: h.Version, Verified: h.Verified}
	if h.Number >= 0 {
		hit.Target = &h.Link.Target
	}
	if hit.Attrs == nil {
		hit.Attrs = []linkformat.Attr{}
	}
	return hit
}

// searchView is the page of results.
type searchView struct {
	page
	Query   string // as asked
	Trouble string // what is wrong with it
	Hits    []shownHit
	Answer  *searchAnswer // nil: there is none
	Next    string        // link of the next page, empty at the end
}

// shownHit is a hit as text.
type shownHit struct {
	Sensor, URI        string
	State              planner.State
	Verified           *time.Time
	HasLink            bool
	Target, Attributes string
}

// searchPage is GET /search: the same as a page, which works without a script.
func (s *server) searchPage(w http.ResponseWriter, r *http.Request) {
	q := parseQuery(r, nil, "q", "cursor")
	if q.err != nil {
		s.refusePage(w, r, q.err)
		return
	}
	view := searchView{page: page{Title: "search", Version: s.o.Version}, Query: q.values.Get("q")}
	a, err := s.find(r.Context(), view.Query, q.values.Get("cursor"), pageRows)
	var wrong fault
	switch {
	case errors.As(err, &wrong) && wrong.status == http.StatusBadRequest:
		view.Trouble = wrong.text
		err = s.ask(r.Context(), func(_ *planner.Planner, now time.Time) { view.Now = now })
	case err == nil:
		view.Answer, view.Now = a, a.now
		if view.Now.IsZero() { // no candidate, so that nobody was asked
			err = s.ask(r.Context(), func(_ *planner.Planner, now time.Time) { view.Now = now })
		}
		view.show(a, r)
	}
	if err != nil {
		s.refusePage(w, r, err)
		return
	}
	status := http.StatusOK
	if view.Trouble != "" {
		status = http.StatusBadRequest
	}
	s.renderAs(w, r, status, "search.html", &view)
}

func (v *searchView) show(a *searchAnswer, r *http.Request) {
	for _, h := range a.Hits {
		shown := shownHit{Sensor: h.Sensor, URI: h.URI, State: h.State, Verified: &h.Verified,
			HasLink: h.Target != nil, Attributes: attributeText(h.Attrs)}
		if shown.HasLink {
			shown.Target = *h.Target
		}
		v.Hits = append(v.Hits, shown)
	}
	if a.Next != "" {
		query := r.URL.Query()
		query.Set("cursor", a.Next)
		v.Next = "search?" + query.Encode()
	}
}
