package api

import (
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
	"github.com/crawld/crawld/internal/repository"
)

// Bounds of one page of events.
const (
	defaultEvents = 30        // perPage where it is not given, as EPCIS 2.0 has it
	eventChunk    = 20        // records that are read at a time: each may be of a long document
	maxPageBytes  = 4 << 20   // a page ends behind the event with which it has so many
	maxEventScan  = 10 * 1000 // records that one request looks at
)

// listed writes a page of events, with a link to the next one as EPCIS 2.0 has it.
func (s *server) listed(f func(*http.Request) (*queryDocument, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.answer(func(r *http.Request) (any, error) {
			free, err := s.querying(r.Context())
			if err != nil {
				return nil, err
			}
			defer free()
			d, err := f(r)
			if err == nil && d.next != "" {
				q := r.URL.Query()
				q.Set("nextPageToken", d.next)
				w.Header().Set("Link", "<"+s.prefix+r.URL.EscapedPath()+"?"+q.Encode()+`>; rel="next"`)
			}
			return d, err
		})(w, r)
	}
}

// visible is what the asker may see; nil is all. Who may use the control socket may read
// the data file too.
func (s *server) visible(r *http.Request) (func(source string) bool, error) {
	if overControl(r) {
		return nil, nil
	}
	reader, err := s.o.Gate().Reader(bearer(r))
	if err != nil || reader.All {
		return nil, err
	}
	return reader.Visible, nil
}

// eventQuery are the parameters of a page of events.
type eventQuery struct {
	from, to int64 // microseconds, from <= event time < to
	perPage  int
	token    string // "" on the first page
	visible  func(source string) bool
}

func (s *server) eventQuery(r *http.Request) (eventQuery, error) {
	visible, err := s.visible(r)
	if err != nil {
		return eventQuery{}, err
	}
	q := parseQuery(r, nil, "GE_eventTime", "LT_eventTime", "perPage", "nextPageToken")
	e := eventQuery{from: q.micro("GE_eventTime", discovery.Beginning),
		to: q.micro("LT_eventTime", discovery.Forever), token: q.values.Get("nextPageToken"),
		perPage: q.number("perPage", defaultEvents, 1, maxRows), visible: visible}
	if len(e.token) > maxID {
		q.fail("nextPageToken: is none that was given here")
	}
	return e, q.err
}

// micro reads an instant in microseconds, rounded up: the first that does not lie before it.
func (q *query) micro(name string, preset int64) int64 {
	t := q.instant(name)
	if !q.values.Has(name) {
		return preset
	}
	return t.Add(time.Microsecond - time.Nanosecond).UnixMicro()
}

// eventPage is GET /events: all events by event time, the newest first.
func (s *server) eventPage(r *http.Request) (*queryDocument, error) {
	q, err := s.eventQuery(r)
	if err != nil {
		return nil, err
	}
	d, cursor := newQueryDocument(q.visible), q.token
	for scanned := 0; r.Context().Err() == nil; {
		chunk := min(eventChunk, q.perPage-d.len())
		records, next, err := s.events.Events(q.from, q.to, cursor, chunk)
		if err != nil {
			return nil, err
		}
		for _, record := range records {
			d.add(record)
		}
		scanned += len(records)
		if d.next = next; next == "" || d.full(q.perPage) || scanned >= maxEventScan {
			return d, nil
		}
		cursor = next
	}
	return nil, r.Context().Err()
}

// eventByID is GET /events/{id}: the event with that id, its error declarations, and what
// other publishers have published under the same id.
func (s *server) eventByID(r *http.Request) (*queryDocument, error) {
	visible, err := s.visible(r)
	if err != nil {
		return nil, err
	}
	q := parseQuery(r, nil)
	id := q.id(r)
	if q.err != nil {
		return nil, q.err
	}
	records, err := s.events.Record(id)
	if err != nil {
		return nil, err
	}
	if len(records) == 0 {
		return nil, faultf(http.StatusNotFound, "there is no event %s; GET /events lists them", clip(id))
	}
	d := newQueryDocument(visible)
	for _, record := range records {
		d.add(record)
	}
	return d, nil
}

// eventsOf is GET /epcs/{epc}/events: the events that name the object itself, the newest
// first. A page ends between two instants, so it may be a little longer than perPage.
func (s *server) eventsOf(r *http.Request) (*queryDocument, error) {
	q, err := s.eventQuery(r)
	if err != nil {
		return nil, err
	}
	object, err := s.object(r)
	if err != nil {
		return nil, err
	}
	if q.to != discovery.Forever {
		q.to-- // rows are read to the last instant, not before it
	}
	if q.token != "" {
		last, err := strconv.ParseInt(q.token, 10, 64)
		if err != nil {
			return nil, faultf(http.StatusBadRequest, "nextPageToken: is none that was given here")
		}
		q.to = min(q.to, last)
	}
	d := newQueryDocument(q.visible)
	for scanned := 0; q.from <= q.to && r.Context().Err() == nil; {
		cells, err := discovery.Newest(s.events, object, q.from, q.to,
			min(eventChunk, q.perPage-d.len()))
		if err != nil || len(cells) == 0 {
			return d, err
		}
		if err := s.addCells(d, cells); err != nil {
			return nil, err
		}
		scanned += len(cells)
		oldest := cells[len(cells)-1].Time
		if oldest == q.from {
			return d, nil
		}
		q.to = oldest - 1
		if d.full(q.perPage) || scanned >= maxEventScan {
			if cells, err = discovery.Newest(s.events, object, q.from, q.to, 1); len(cells) > 0 {
				d.next = strconv.FormatInt(q.to, 10)
			}
			return d, err
		}
	}
	return d, r.Context().Err()
}

// addCells adds the events of cells, each once. One with several roles of the object has
// several cells, and other publishers' events may bear the same id.
func (s *server) addCells(d *queryDocument, cells []discovery.Cell) error {
	type occurrence struct {
		id string
		at int64
	}
	added := map[occurrence]bool{}
	for _, c := range cells {
		o := occurrence{c.EventID, c.Time}
		if added[o] {
			continue
		}
		added[o] = true
		records, err := s.events.Record(c.EventID)
		if err != nil {
			return err
		}
		for _, record := range records {
			if record.Event.Time.UnixMicro() == c.Time && names(record.Event, c.Object) {
				d.add(record)
			}
		}
	}
	return nil
}

// names tells whether the object is one of the event's.
func names(e epcis.Event, object string) bool {
	return e.Parent == object || slices.Contains(e.EPCs, object) || slices.Contains(e.Inputs, object)
}

// object is the object meant by {epc}: any spelling of it, or the id of a sensor.
func (s *server) object(r *http.Request) (string, error) {
	given := r.PathValue("epc")
	if s.o.Fleet != nil {
		f := s.o.Fleet()
		if i, ok := f.Find(given); ok {
			if object := repository.ObjectOf(given, f.At(i).URI); object != "" {
				return object, nil
			}
		}
	}
	object, err := epcis.Canonical(given)
	if err != nil {
		return "", faultf(http.StatusBadRequest, "%v; expected an EPC URI, a GS1 Digital Link, another "+
			"absolute URI or the id of a sensor", err)
	}
	return object, nil
}
