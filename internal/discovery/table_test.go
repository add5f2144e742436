package discovery

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/epcis"
)

// table is a Store in memory, as simple as can be.
type table struct {
	events       map[[16]byte]Record
	declarations map[string]Record // by publisher and identity
	cells        map[string][]Cell // by object
	reads        int
}

func newTable() *table {
	return &table{events: map[[16]byte]Record{}, declarations: map[string]Record{},
		cells: map[string][]Cell{}}
}

func declarationKey(r *Record) string {
	id := Identity(r.Publisher, &r.Event)
	return string(id[:]) + r.Publisher
}

func (s *table) Publish(_ context.Context, records []Record) (stored []bool, err error) {
	for i := range records {
		r := records[i]
		id := Identity(r.Publisher, &r.Event)
		if r.Event.Error != nil {
			_, known := s.declarations[declarationKey(&r)]
			s.declarations[declarationKey(&r)] = r
			stored = append(stored, !known)
			continue
		}
		have, known := s.events[id]
		if known && have.Event.Hash != r.Event.Hash {
			return nil, ErrConflict
		}
		if stored = append(stored, !known); known {
			continue
		}
		s.events[id] = r
		for _, c := range Cells(&r) {
			s.cells[c.Object] = append(s.cells[c.Object], c)
		}
	}
	return stored, nil
}

func (s *table) Read(fn func(Rows) error) error { return fn(&tableRows{table: s}) }

// tableRows looks at all cells of an object for each row.
type tableRows struct {
	*table
	left []Cell
}

func (r *tableRows) Scan(object string, f Family, from, to int64) {
	r.left = nil
	for _, c := range r.cells[object] {
		if c.Family == f && c.Time >= from && c.Time <= to {
			if e, ok := r.events[c.ID16]; ok {
				_, c.Erased = r.declarations[declarationKey(&e)]
			}
			r.left = append(r.left, c)
		}
	}
	slices.SortFunc(r.left, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), slices.Compare(a.ID16[:], b.ID16[:]))
	})
}

func (r *tableRows) Next(c *Cell) (is bool, err error) {
	r.reads++
	if len(r.left) == 0 {
		return false, nil
	}
	*c, r.left = r.left[0], r.left[1:]
	return true, nil
}

func (s *table) Events(int64, int64, string, int) ([]Record, string, error) { panic("not asked") }

func (s *table) Record(eventID string) (records []Record, err error) {
	for _, r := range s.events {
		if r.Event.EventID() == eventID {
			records = append(records, r)
		}
	}
	return records, nil
}

// workedCase is one of testdata/cases.json, read as its README says.
type workedCase struct {
	Name   string
	Events []struct {
		N, Type, Action string
		T               int64
		IS, Parent      string
		EPCs, Inputs    []string
		ErrorOf         string
	}
	Query struct {
		OID      string
		From, To *int64
	}
	Want struct {
		Events, IS, Inside []string
		Finished           bool
		Anomalies          int
	}
}

func workedCases(t testing.TB) (cases []workedCase) {
	t.Helper()
	text, err := os.ReadFile("testdata/cases.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil || len(cases) != 46 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	return cases
}

var (
	kinds = map[string]epcis.Kind{"Object": epcis.Object, "Aggregation": epcis.Aggregation,
		"Association": epcis.Association, "Transformation": epcis.Transformation}
	actions = map[string]epcis.Action{"ADD": epcis.Add, "OBSERVE": epcis.Observe,
		"DELETE": epcis.Delete}
)

// newEvent fills what follows from the rest.
func newEvent(e epcis.Event, us int64) epcis.Event {
	e.Time = time.UnixMicro(us).UTC()
	e.Hash = sha256.Sum256(fmt.Append(nil, e.Kind, e.Action, us, e.Parent, e.EPCs, e.Inputs, e.Source))
	return e
}

func (c *workedCase) records() (records []Record) {
	for _, e := range c.Events {
		event := newEvent(epcis.Event{ID: e.N, Kind: kinds[e.Type], Action: actions[e.Action],
			Parent: e.Parent, EPCs: e.EPCs, Inputs: e.Inputs, Source: e.IS}, e.T)
		if e.ErrorOf != "" {
			event.ID, event.Error = e.ErrorOf, &epcis.ErrorDeclaration{}
		}
		records = append(records, Record{Event: event, Publisher: "kid"})
	}
	return records
}

func (c *workedCase) query() Query {
	q := Query{Object: c.Query.OID, From: Beginning, To: Forever}
	if c.Query.From != nil {
		q.From = *c.Query.From
	}
	if c.Query.To != nil {
		q.To = *c.Query.To
	}
	return q
}

func eventIDs(a *Answer) []string {
	ids := []string{}
	for _, e := range a.Events {
		ids = append(ids, e.EventID)
	}
	return ids
}

// differs compares an answer with what the case wants.
func (c *workedCase) differs(a Answer) error {
	w := c.Want
	switch got := eventIDs(&a); {
	case !slices.Equal(got, w.Events):
		return fmt.Errorf("events %q, want %q", got, w.Events)
	case w.IS != nil && !slices.Equal(a.Sources, w.IS):
		return fmt.Errorf("sources %q, want %q", a.Sources, w.IS)
	case a.Finished != w.Finished:
		return fmt.Errorf("finished %v", a.Finished)
	case !slices.Equal(a.Inside, w.Inside):
		return fmt.Errorf("inside %q, want %q", a.Inside, w.Inside)
	case len(a.Warnings) != w.Anomalies:
		return fmt.Errorf("warnings %+v, want %d", a.Warnings, w.Anomalies)
	case a.Truncated || a.Withheld != 0:
		return fmt.Errorf("truncated %v, withheld %d", a.Truncated, a.Withheld)
	}
	return nil
}

func TestWorkedCases(t *testing.T) {
	for _, c := range workedCases(t) {
		s := newTable()
		if _, err := s.Publish(t.Context(), c.records()); err != nil {
			t.Fatal(err)
		}
		a, err := Trace(t.Context(), s, c.query())
		if err == nil {
			err = c.differs(a)
		}
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}
