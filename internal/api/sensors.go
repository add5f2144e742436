package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

const (
	maxScan       = 50  // pages of sensors that one filtered request looks at
	maxWindows    = 100 // awake windows in an answer
	defaultVisits = 20
)

// filter says which sensors are listed; its zero value lists all.
type filter struct {
	from   string // first id
	limit  int
	states []planner.State // any of them; none: all
	labels map[string]string
}

func readFilter(r *http.Request) (filter, error) {
	q := parseQuery(r, []string{"state", "label"}, "from", "limit")
	f := filter{from: q.values.Get("from"), limit: q.number("limit", defaultRows, 1, maxRows),
		states: q.states(), labels: q.labels()}
	return f, q.err
}

func (f filter) all() bool { return len(f.states) == 0 && len(f.labels) == 0 }

func (f filter) match(e *planner.Explanation) bool {
	if len(f.states) > 0 && !slices.Contains(f.states, e.State) {
		return false
	}
	for key, want := range f.labels {
		if have, ok := e.Labels[key]; !ok || have != want {
			return false
		}
	}
	return true
}

// Where a sensor in the fleet comes from.
const (
	originListed     = "listed"     // by the operator
	originRegistered = "registered" // at the resource directory
)

// sensorRow is what is believed of a sensor, and why it is there.
type sensorRow struct {
	planner.Explanation
	Origin  string     `json:"origin"`
	Expires *time.Time `json:"expires"` // end of its registration; null: it is listed
}

func (s *server) row(e planner.Explanation) sensorRow {
	row := sensorRow{Explanation: e, Origin: originListed}
	if s.o.Expires == nil {
		return row
	}
	if at, registered := s.o.Expires(e.ID); registered {
		row.Origin, row.Expires = originRegistered, &at
	}
	return row
}

// sensorList is a page of the fleet.
type sensorList struct {
	Sensors []sensorRow `json:"sensors"`
	Next    string      `json:"next"` // id that the next page begins with
	now     time.Time
}

// sensors is GET /api/v1/sensors: a page, or one sensor where ?id= names it.
func (s *server) sensors(r *http.Request) (any, error) {
	if r.URL.Query().Has("id") {
		return s.sensor(r)
	}
	f, err := readFilter(r)
	if err != nil {
		return nil, err
	}
	return s.list(r.Context(), f)
}

// list asks for one page at a time, so that the loop crawls between them.
func (s *server) list(ctx context.Context, f filter) (sensorList, error) {
	page := sensorList{Sensors: []sensorRow{}}
	rows, ask := f.limit, s.ask
	if !f.all() {
		rows, ask = maxRows, s.askFleet
	}
	from := f.from
	for range maxScan {
		var chunk []planner.Explanation
		err := ask(ctx, func(p *planner.Planner, now time.Time) {
			chunk, page.now = p.ExplainAll(from, rows+1, now), now
			for i := range chunk {
				detach(&chunk[i])
			}
		})
		if err != nil {
			return page, err
		}
		for i := range chunk[:min(rows, len(chunk))] {
			if !f.match(&chunk[i]) {
				continue
			}
			if len(page.Sensors) == f.limit {
				page.Next = chunk[i].ID
				return page, nil
			}
			page.Sensors = append(page.Sensors, s.row(chunk[i]))
		}
		if len(chunk) <= rows {
			return page, nil
		}
		from = chunk[rows].ID
		if len(page.Sensors) == f.limit {
			break
		}
	}
	page.Next = from
	return page, nil
}

// detach copies what the planner goes on writing to.
func detach(e *planner.Explanation) { e.ObservedUp = slices.Clone(e.ObservedUp) }

// sensorDetail is one sensor with what the repository knows of it.
type sensorDetail struct {
	sensorRow
	Age    *float64        `json:"age_seconds"` // since the last success; null: never
	Plan   planDetail      `json:"plan"`
	Latest *latestVersion  `json:"latest"` // null: never described
	Visits []visit.Outcome `json:"visits"` // newest first
	now    time.Time
	awake  sleepplan.Plan // in force: as listed or learned
	sleep  sleepplan.Plan // to draw; unknown without Options.Fleet
}

// planDetail is what is intended for a sensor in the running range.
type planDetail struct {
	SleepPlan string             `json:"sleep_plan"`
	Range     sleepplan.Window   `json:"range"`
	Windows   []sleepplan.Window `json:"windows"` // awake, from now on; null: not known
	More      bool               `json:"more_windows"`
	Planned   []time.Time        `json:"planned"` // instants still to come, at most 1000
}

type latestVersion struct {
	At       time.Time `json:"at"`
	Hash     string    `json:"hash"`
	Size     int       `json:"size"`
	Format   int       `json:"content_format"` // -1: none given
	Verdict  string    `json:"verdict"`
	Links    int       `json:"links"`
	Verified time.Time `json:"verified"`
}

// sensor is GET /api/v1/sensors/{id}.
func (s *server) sensor(r *http.Request) (any, error) {
	q := parseQuery(r, nil, "id", "visits")
	id, visits := q.id(r), q.number("visits", defaultVisits, 0, maxRows)
	if q.err != nil {
		return nil, q.err
	}
	return s.detail(r.Context(), id, visits)
}

// detail collects all of one sensor.
func (s *server) detail(ctx context.Context, id string, visits int) (*sensorDetail, error) {
	d, err := s.believed(ctx, id)
	if err != nil {
		return nil, err
	}
	latest, described, err := s.o.Repo.Latest(id)
	if err != nil {
		return nil, err
	}
	if described {
		d.Latest = &latestVersion{At: latest.At, Hash: latest.Hash, Size: latest.Size,
			Format: latest.Format, Verdict: latest.Verdict, Links: latest.Links,
			Verified: latest.Verified}
	}
	if visits > 0 {
		if d.Visits, err = s.o.Repo.Visits(id, visits); err != nil {
			return nil, err
		}
	}
	if d.Visits == nil {
		d.Visits = []visit.Outcome{}
	}
	return d, nil
}

// believed is the planner's side of a sensor.
func (s *server) believed(ctx context.Context, id string) (*sensorDetail, error) {
	length, err := s.rangeLength(ctx)
	if err != nil {
		return nil, err
	}
	d := &sensorDetail{}
	var known bool
	err = s.ask(ctx, func(p *planner.Planner, now time.Time) {
		if d.Explanation, known = p.Explain(id, now); known {
			detach(&d.Explanation)
			d.now, d.Plan.Planned = now, slices.Clone(p.Record(id).Instants)
			d.Plan.Range.Start = p.Running().Range
			d.awake = p.SleepPlan(id)
		}
	})
	switch {
	case err != nil:
		return nil, err
	case !known:
		return nil, unknownSensor(id)
	}
	d.sensorRow = s.row(d.Explanation)
	if d.LastSuccess != nil {
		age := max(d.now.Sub(*d.LastSuccess).Seconds(), 0)
		d.Age = &age
	}
	d.Plan.Range.End = d.Plan.Range.Start.Add(length)
	d.Plan.SleepPlan = d.SleepPlan
	d.settleNext()
	if s.o.Fleet != nil {
		d.addWindows(s.o.Fleet())
	}
	return d, nil
}

// settleNext puts the next visit where it is intended now: it may have been
// moved since it was planned, and the visit of a polled sensor is none of a plan.
func (d *sensorDetail) settleNext() {
	switch {
	case d.Next == nil && d.Plan.Planned == nil:
		d.Plan.Planned = []time.Time{}
	case d.Next != nil && len(d.Plan.Planned) == 0:
		d.Plan.Planned = []time.Time{*d.Next}
	case d.Next != nil:
		d.Plan.Planned[0] = *d.Next
	}
	d.Plan.Planned = d.Plan.Planned[:min(maxRows, len(d.Plan.Planned))]
}

// addWindows lists the awake windows from now to the range's end. They are taken
// one by one: a duty cycle of milliseconds has millions of them.
func (d *sensorDetail) addWindows(f *fleet.Fleet) {
	if _, ok := f.Find(d.ID); !ok {
		return // a reload is between the planner's answer and this one
	}
	d.sleep = d.awake
	d.Plan.Windows = []sleepplan.Window{}
	from, end := later(d.now, d.Plan.Range.Start), d.Plan.Range.End
	for from.Before(end) {
		w, ok := d.sleep.NextWindow(from)
		if !ok || !w.Start.Before(end) {
			return
		}
		if len(d.Plan.Windows) == maxWindows {
			d.Plan.More = true
			return
		}
		w = sleepplan.Window{Start: later(w.Start, from), End: earlier(w.End, end)}
		d.Plan.Windows = append(d.Plan.Windows, w)
		from = w.End
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// rangeLength is asked for once: it is the same for all of the planner's life,
// and the call that tells it looks at every sensor.
func (s *server) rangeLength(ctx context.Context) (time.Duration, error) {
	if known := s.length.Load(); known > 0 {
		return time.Duration(known), nil
	}
	var st planner.Status
	err := s.askFleet(ctx, func(p *planner.Planner, now time.Time) { st = p.Status(now) })
	if err != nil {
		return 0, err
	}
	length := st.End.Sub(st.Range)
	s.length.Store(int64(length))
	return length, nil
}

func unknownSensor(id string) error {
	return faultf(http.StatusNotFound, "sensor %s is not in the fleet; GET /api/v1/sensors lists it",
		clip(id))
}
