package discovery

import (
	"cmp"
	"context"
	"slices"
	"testing"

	"github.com/crawld/crawld/internal/discovery/worked"
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

// newEvent fills what follows from the rest.
func newEvent(e epcis.Event, us int64) epcis.Event { return worked.At(e, us) }

func workedCases(t testing.TB) []worked.Case {
	t.Helper()
	cases, err := worked.Cases()
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// workedRecords are the events of a case and the question about them.
func workedRecords(c *worked.Case) (records []Record, q Query) {
	for _, e := range c.EPCIS() {
		records = append(records, Record{Event: e, Publisher: "kid"})
	}
	q.Object = c.Query.OID
	q.From, q.To = c.Window(Beginning, Forever)
	return records, q
}

func eventIDs(a *Answer) []string {
	ids := []string{}
	for _, e := range a.Events {
		ids = append(ids, e.EventID)
	}
	return ids
}

func TestWorkedCases(t *testing.T) {
	for _, c := range workedCases(t) {
		s := newTable()
		records, q := workedRecords(&c)
		if _, err := s.Publish(t.Context(), records); err != nil {
			t.Fatal(err)
		}
		a, err := Trace(t.Context(), s, q)
		if err == nil {
			err = c.Differs(worked.Answer{Events: eventIDs(&a), IS: a.Sources, Inside: a.Inside,
				Finished: a.Finished, Anomalies: len(a.Warnings)})
		}
		if err != nil || a.Truncated || a.Withheld != 0 {
			t.Errorf("%s: truncated %v, withheld %d: %v", c.Name, a.Truncated, a.Withheld, err)
		}
	}
}
