package discovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/crawld/crawld/internal/epcis"
)

// shop publishes events one microsecond after the other.
type shop struct {
	*table
	t  testing.TB
	us int64
}

func newShop(t testing.TB) *shop { return &shop{newTable(), t, 0} }

func (s *shop) put(e epcis.Event) Record {
	s.t.Helper()
	s.us++
	r := Record{Event: newEvent(e, s.us), Publisher: "p"}
	if _, err := s.Publish(s.t.Context(), []Record{r}); err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *shop) in(parent string, action epcis.Action, children ...string) {
	s.put(epcis.Event{Kind: epcis.Aggregation, Action: action, Parent: parent, EPCs: children})
}

func (s *shop) trace(q Query) Answer {
	s.t.Helper()
	a, err := Trace(s.t.Context(), s, q)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}

func everything(object string) Query { return Query{Object: object, From: Beginning, To: Forever} }

func TestSixteenContainersDeep(t *testing.T) {
	for depth := 1; depth <= MaxDepth+2; depth++ {
		s := newShop(t)
		var want []string
		for i := range depth {
			s.in(fmt.Sprint(i+1), epcis.Add, fmt.Sprint(i))
			want = append(want, fmt.Sprint(i+1))
		}
		a := s.trace(everything("0"))
		if fits := depth <= MaxDepth; a.Truncated == fits || len(a.Events) != min(depth, MaxDepth+1) ||
			!slices.Equal(a.Inside, want[:min(depth, MaxDepth)]) {
			t.Errorf("%d deep: %d events, truncated %v, inside %v", depth, len(a.Events), a.Truncated,
				a.Inside)
		}
	}
}

func TestTenThousandEvents(t *testing.T) {
	for _, n := range []int{MaxEvents, MaxEvents + 1} {
		s := newShop(t)
		for i := range n {
			s.us = int64(i) / 3 // not one by one: instants have several
			s.put(epcis.Event{ID: fmt.Sprint(i), Kind: epcis.Object, Action: epcis.Observe,
				EPCs: []string{"o"}})
		}
		a := s.trace(everything("o"))
		if len(a.Events) != MaxEvents || a.Truncated != (n > MaxEvents) {
			t.Errorf("of %d: %d events, truncated %v", n, len(a.Events), a.Truncated)
		}
	}
}

// Seen is a container's cell after another, without end in sight.
func TestHundredThousandCells(t *testing.T) {
	s := endless{}
	a, err := Trace(t.Context(), s, Query{Object: "o", From: 0, To: Forever})
	if err != nil || !a.Truncated {
		t.Errorf("truncated %v, %v", a.Truncated, err)
	}
	a, err = Trace(t.Context(), s, Query{Object: "o", From: -5, To: -4})
	if err != nil || !a.Truncated || len(a.Events) != 1 {
		t.Errorf("before the window: truncated %v, %d events, %v", a.Truncated, len(a.Events), err)
	}
}

// endless is a store in which every object was observed at every instant, and left by a
// container that it was not in.
type endless struct{ Store }

func (endless) Read(fn func(Rows) error) error { return fn(&endlessRows{}) }

type endlessRows struct {
	at Cell
	to int64
}

func (r *endlessRows) Scan(object string, f Family, from, to int64) {
	r.at, r.to = Cell{Object: object, Family: f, Time: to, Kind: epcis.Object, EventID: "e"}, from
	switch f {
	case Observed:
		r.at.Role = Plain
	case Aggregated:
		r.at.Role, r.at.Kind = Leave, epcis.Aggregation
	default:
		r.to = Forever
	}
}

func (r *endlessRows) Next(c *Cell) (is bool, err error) {
	if *c = r.at; c.Time < r.to || r.to == Forever {
		return false, nil
	}
	c.Erased = c.Time >= 0
	r.at.Time--
	return true, nil
}

// A crowd at one instant is played in little more than linear time: with a second look at
// every cell for every cell this would take minutes.
func TestCrowdAtOneInstant(t *testing.T) {
	const n = 20000
	cells := make([]Cell, n)
	for i := range cells {
		cells[i] = Cell{Role: []Role{Join, Leave, Seen}[i%3], Kind: epcis.Aggregation,
			Parent: fmt.Sprint(i % 999), EventID: fmt.Sprintf("%06d", i)}
	}
	var s state
	in, played := newInstant(cells), 0
	for c := in.next(&s); c != nil; c = in.next(&s) {
		s.pass(c, false)
		played++
	}
	if played != n {
		t.Errorf("%d of %d cells were played", played, n)
	}
}

// Where an object was is known from few cells, however long its row is.
func TestHoldReadsLittle(t *testing.T) {
	const n = 20000
	for name, older := range map[string]epcis.Event{
		"moves":        {Kind: epcis.Aggregation, Parent: "t", EPCs: []string{"o"}},
		"attachments":  {Kind: epcis.Association, Parent: "t", EPCs: []string{"o"}},
		"observations": {Kind: epcis.Object, Action: epcis.Observe, EPCs: []string{"o"}},
		"emptied":      {Kind: epcis.Aggregation, Action: epcis.Delete, Parent: "o"},
		"lives":        {Kind: epcis.Object, EPCs: []string{"o"}},
	} {
		m := NewMemory()
		var records []Record
		for us := range int64(n) {
			e := older
			e.ID = fmt.Sprint(us)
			if e.Action == epcis.None {
				e.Action = []epcis.Action{epcis.Add, epcis.Delete}[us%2]
			}
			records = append(records, Record{Event: newEvent(e, us), Publisher: "p"})
		}
		if _, err := m.Publish(t.Context(), records); err != nil {
			t.Fatal(err)
		}
		for _, from := range []int64{n - 10, n} {
			s := counting{m, new(int)}
			a, err := Trace(t.Context(), s, Query{Object: "o", From: from, To: Forever})
			if err != nil || len(a.Events) != int(n-from) || *s.cells > 100 {
				t.Errorf("%s from %d: %d cells for %d events, %v", name, from, *s.cells, len(a.Events), err)
			}
		}
	}
}

// counting counts what is asked of rows.
type counting struct {
	Store
	cells *int
}

func (s counting) Read(fn func(Rows) error) error {
	return s.Store.Read(func(rows Rows) error { return fn(countingRows{rows, s.cells}) })
}

type countingRows struct {
	Rows
	cells *int
}

func (r countingRows) Next(c *Cell) (bool, error) {
	*r.cells++
	return r.Rows.Next(c)
}

func TestContextEndsTrace(t *testing.T) {
	s := newShop(t)
	s.in("b", epcis.Add, "o")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	if _, err := Trace(ctx, s, everything("o")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// failing is a store that fails at the nth cell.
type failing struct {
	*table
	left int
}

var errRead = errors.New("read failed")

func (f *failing) Read(fn func(Rows) error) error {
	return f.table.Read(func(rows Rows) error { return fn(&failingRows{rows, f}) })
}

type failingRows struct {
	Rows
	store *failing
}

func (r *failingRows) Next(c *Cell) (is bool, err error) {
	if r.store.left--; r.store.left < 0 {
		return false, errRead
	}
	return r.Rows.Next(c)
}

// Wherever the store fails, the error comes out.
func TestStoreErrors(t *testing.T) {
	s := newShop(t)
	s.in("b", epcis.Add, "o")
	s.in("t", epcis.Add, "b")
	s.in("b", epcis.Observe, "o")
	s.in("c", epcis.Observe, "o")
	s.in("c", epcis.Delete, "o")
	s.put(epcis.Event{Kind: epcis.Transformation, Inputs: []string{"o"}, EPCs: []string{"x"}})
	s.in("c", epcis.Add, "x")
	for _, from := range []int64{Beginning, 3, 6} {
		q := Query{Object: "o", From: from, To: Forever, Follow: Forward}
		s.reads = 0
		s.trace(q)
		reads := s.reads
		if reads < 8 {
			t.Fatalf("%d reads are no test", reads)
		}
		for n := range reads {
			if _, err := Trace(t.Context(), &failing{s.table, n}, q); !errors.Is(err, errRead) {
				t.Errorf("from %d: read %d of %d failed: %v", from, n, reads, err)
			}
		}
	}
}

func TestFollow(t *testing.T) {
	s := newShop(t)
	commission := func(o string) {
		s.put(epcis.Event{Kind: epcis.Object, Action: epcis.Add, EPCs: []string{o}, ID: "make " + o})
	}
	turn := func(from, to []string) {
		s.put(epcis.Event{Kind: epcis.Transformation, Inputs: from, EPCs: to,
			ID: strings.Join(from, "+") + ">" + strings.Join(to, "+")})
	}
	commission("milk")
	commission("salt")
	turn([]string{"milk", "salt"}, []string{"curd", "whey"})
	s.in("vat", epcis.Add, "curd")
	s.put(epcis.Event{Kind: epcis.Object, Action: epcis.Observe, EPCs: []string{"vat"}, ID: "stir"})
	turn([]string{"curd"}, []string{"cheese"})
	s.put(epcis.Event{Kind: epcis.Object, Action: epcis.Delete, EPCs: []string{"cheese"}, ID: "sold"})
	vat := firstID(s, "vat")
	for _, c := range []struct {
		object string
		follow Follow
		want   []string
	}{
		{"milk", Stay, []string{"make milk", "milk+salt>curd+whey"}},
		{"milk", Forward, []string{"make milk", "milk+salt>curd+whey", vat, "stir", "curd>cheese",
			"sold"}},
		{"milk", Backward, []string{"make milk", "milk+salt>curd+whey"}},
		{"cheese", Backward, []string{"make milk", "make salt", "milk+salt>curd+whey", vat, "stir",
			"curd>cheese", "sold"}},
		{"cheese", Forward, []string{"curd>cheese", "sold"}},
	} {
		q := everything(c.object)
		q.Follow = c.follow
		if a := s.trace(q); !slices.Equal(eventIDs(&a), c.want) || !a.Finished {
			t.Errorf("%s, follow %d: %q, want %q", c.object, c.follow, eventIDs(&a), c.want)
		}
	}
	delete(s.events, Identity("p", &epcis.Event{ID: "curd>cheese"}))
	q := everything("curd")
	q.Follow = Forward
	_, err := Trace(t.Context(), s, q)
	if err == nil || !strings.Contains(err.Error(), "curd>cheese") {
		t.Errorf("without the record: %v", err)
	}
}

// firstID is the event ID of the first cell of an object.
func firstID(s *shop, object string) string { return s.cells[object][0].EventID }

// An event of one source is not to be told from one that is not there.
func TestWithheldTakesNoPart(t *testing.T) {
	whole, part := newShop(t), newShop(t)
	put := func(source string, e epcis.Event) {
		e.Source = source
		whole.put(e)
		if part.us++; source != "secret" {
			part.us--
			part.put(e)
		}
	}
	in := func(a epcis.Action, parent, child string) epcis.Event {
		return epcis.Event{Kind: epcis.Aggregation, Action: a, Parent: parent, EPCs: []string{child}}
	}
	put("", in(epcis.Add, "b", "o"))
	put("secret", in(epcis.Delete, "b", "o"))
	put("secret", in(epcis.Add, "c", "o"))
	put("open", epcis.Event{Kind: epcis.Object, Action: epcis.Observe, EPCs: []string{"b"}})
	put("secret", epcis.Event{Kind: epcis.Object, Action: epcis.Observe, EPCs: []string{"b"}})
	q := everything("o")
	q.Visible = func(source string) bool { return source != "secret" }
	a, want := whole.trace(q), part.trace(everything("o"))
	if a.Withheld != 3 {
		t.Errorf("%d withheld, want 3", a.Withheld)
	}
	if got, want := answerInWords(&a), answerInWords(&want); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// What an object said of itself is told at every level, as often as it said it.
func TestDescriptions(t *testing.T) {
	s := newShop(t)
	s.in("box", epcis.Add, "urn:dev:1")
	describe := func(object string, us int64, body byte) {
		s.cells[object] = append(s.cells[object], Cell{Object: object, Family: Descriptions, Time: us,
			ID16: [16]byte{body}, Role: Plain, EventID: fmt.Sprint("body ", body)})
	}
	describe("urn:dev:1", 5, 1)
	describe("urn:dev:1", 7, 2)
	describe("urn:dev:1", 9, 1)
	describe("box", 7, 2)
	describe("box", 0, 3)
	a := s.trace(everything("urn:dev:1"))
	want := []string{"body 1", "body 2", "body 2", "body 1"}
	if got := eventIDs(&a); !slices.Equal(got[1:], want) || a.Events[3].Level != 1 {
		t.Errorf("%q, want %q; %+v", got, want, a.Events)
	}
}
