package repository

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

// eventModel is the Discovery Service as a map: records by what makes them one.
type eventModel map[string]discovery.Record

func modelKey(r *discovery.Record) string {
	id := string(r.Event.Hash[:])
	if r.Event.ID != "" || r.Event.Error != nil {
		id = r.Publisher + "\x00" + cmp.Or(r.Event.ID, id)
	}
	return fmt.Sprint(r.Event.Error != nil, "\x00", id)
}

// publish is all or nothing.
func (m eventModel) publish(records []discovery.Record) (stored []bool, err error) {
	added := maps.Clone(m)
	for i := range records {
		r := records[i]
		have, known := added[modelKey(&r)]
		if known && r.Event.Error == nil && have.Event.Hash != r.Event.Hash {
			return nil, discovery.ErrConflict
		}
		if stored = append(stored, !known); !known {
			added[modelKey(&r)] = r
		}
	}
	maps.Copy(m, added)
	return stored, nil
}

func (m eventModel) erased(r *discovery.Record) bool {
	for _, d := range m {
		if d.Event.Error == nil || d.Publisher != r.Publisher || d.Event.ID != r.Event.ID {
			continue
		}
		if r.Event.ID != "" || d.Event.Hash == r.Event.Hash {
			return true
		}
	}
	return false
}

var sortCells = cmpopts.SortSlices(func(a, b discovery.Cell) bool {
	return cmp.Or(cmp.Compare(b.Time, a.Time), bytes.Compare(a.ID16[:], b.ID16[:])) < 0
})

// row is a row of cells, the newest first.
func (m eventModel) row(object string, f discovery.Family) (cells []discovery.Cell) {
	for _, r := range m {
		for _, c := range discovery.Cells(&r) {
			if c.Object == object && c.Family == f {
				c.Erased = m.erased(&r)
				cells = append(cells, c)
			}
		}
	}
	slices.SortFunc(cells, func(a, b discovery.Cell) int { return cmp.Compare(b.Time, a.Time) })
	return cells
}

// differs compares every answer.
func (m eventModel) differs(s discovery.Store, rnd *rand.Rand) error {
	for _, o := range modelObjects {
		if err := m.rowsDiffer(s, o, rnd); err != nil {
			return fmt.Errorf("object %q: %w", o, err)
		}
		if err := m.pagesDiffer(s, o, rnd); err != nil {
			return fmt.Errorf("object %q: %w", o, err)
		}
	}
	if err := m.listDiffers(s, rnd); err != nil {
		return err
	}
	if err := m.tracesDiffer(s, rnd); err != nil {
		return err
	}
	byID := map[string][]discovery.Record{}
	for _, r := range m {
		byID[r.Event.EventID()] = append(byID[r.Event.EventID()], r)
	}
	byID["unknown"] = nil
	for id, want := range byID {
		got, err := s.Record(id)
		if d := gocmp.Diff(want, got, sortRecords, cmpopts.EquateEmpty()); d != "" || err != nil {
			return fmt.Errorf("record %q: %s %w", id, d, err)
		}
	}
	return nil
}

// rowsDiffer scans in a random order, so that the cursor goes forth and back, some rows not
// to their end.
func (m eventModel) rowsDiffer(s discovery.Store, o string, rnd *rand.Rand) error {
	return s.Read(func(rows discovery.Rows) error {
		for range 2 * len(discovery.EventFamilies) {
			object, f := o, discovery.EventFamilies[rnd.IntN(len(discovery.EventFamilies))]
			if rnd.IntN(3) == 0 {
				object = modelObjects[rnd.IntN(len(modelObjects))]
			}
			from, to := int64(rnd.IntN(20))-2, int64(rnd.IntN(20))
			most := 1 + rnd.IntN(9)
			got, err := scan(rows, object, f, from, to, most)
			if err != nil {
				return err
			}
			if err := m.rowDiffers(got, object, f, from, to, most); err != nil {
				return fmt.Errorf("row %q %c [%d, %d]: %w", object, f, from, to, err)
			}
		}
		return nil
	})
}

// scan reads a row, but no more than so many cells.
func scan(rows discovery.Rows, o string, f discovery.Family, from, to int64, most int) (
	all []discovery.Cell, err error) {
	rows.Scan(o, f, from, to)
	for len(all) < most {
		var c discovery.Cell
		is, err := rows.Next(&c)
		if err != nil || !is {
			return all, err
		}
		all = append(all, c)
	}
	return all, nil
}

func (m eventModel) rowDiffers(got []discovery.Cell, o string, f discovery.Family,
	from, to int64, most int) error {
	var want []discovery.Cell
	for _, c := range m.row(o, f) {
		if c.Time >= from && c.Time <= to {
			want = append(want, c)
		}
	}
	// Of a row that was left the last instant may be there in part.
	if len(got) == most && len(want) > most {
		cut := func(c discovery.Cell) bool { return c.Time <= got[most-1].Time }
		want = slices.DeleteFunc(want, cut)
		got = slices.DeleteFunc(slices.Clone(got), cut)
	}
	if !slices.IsSortedFunc(got, laterFirst) {
		return errors.New("not the newest first")
	}
	if d := gocmp.Diff(want, got, sortCells, cmpopts.EquateEmpty()); d != "" {
		return errors.New(d)
	}
	return nil
}

func laterFirst(a, b discovery.Cell) int { return cmp.Compare(b.Time, a.Time) }

func (m eventModel) pagesDiffer(s discovery.Store, o string, rnd *rand.Rand) error {
	from, to := int64(rnd.IntN(20))-2, int64(rnd.IntN(20))
	var want, got []discovery.Cell
	for _, f := range discovery.EventFamilies {
		for _, c := range m.row(o, f) {
			if c.Time >= from && c.Time <= to {
				want = append(want, c)
			}
		}
	}
	for n, more := 1+rnd.IntN(4), true; more; {
		page, err := discovery.Newest(s, o, from, to, n)
		if err != nil {
			return err
		}
		if more = len(page) >= n; more {
			to = page[len(page)-1].Time - 1
		}
		got = append(got, page...)
	}
	if !slices.IsSortedFunc(got, laterFirst) {
		return errors.New("pages: not the newest first")
	}
	byFamily := cmpopts.SortSlices(func(a, b discovery.Cell) bool {
		return cmp.Or(laterFirst(a, b), bytes.Compare(a.ID16[:], b.ID16[:]),
			cmp.Compare(a.Family, b.Family)) < 0
	})
	if d := gocmp.Diff(want, got, byFamily, cmpopts.EquateEmpty()); d != "" {
		return fmt.Errorf("pages: %s", d)
	}
	return nil
}

// tracesDiffer holds traces against those in memory.
func (m eventModel) tracesDiffer(s discovery.Store, rnd *rand.Rand) error {
	memory := discovery.NewMemory()
	for _, r := range m {
		if _, err := memory.Publish(context.Background(), []discovery.Record{r}); err != nil {
			return err
		}
	}
	for _, o := range modelObjects {
		q := discovery.Query{Object: o, From: discovery.Beginning, To: discovery.Forever}
		if rnd.IntN(2) == 0 {
			q.From = int64(rnd.IntN(12))
			q.To = q.From + int64(rnd.IntN(12))
		}
		want, err := discovery.Trace(context.Background(), memory, q)
		if err != nil {
			return err
		}
		got, err := discovery.Trace(context.Background(), s, q)
		if d := gocmp.Diff(want, got); d != "" || err != nil {
			return fmt.Errorf("trace %+v: %s %w", q, d, err)
		}
	}
	return nil
}

var sortRecords = cmpopts.SortSlices(func(a, b discovery.Record) bool {
	return bytes.Compare(recordKey(&a), recordKey(&b)) < 0
})

func (m eventModel) listDiffers(s discovery.Store, rnd *rand.Rand) error {
	from, to, limit := int64(rnd.IntN(20))-2, int64(rnd.IntN(20)), 1+rnd.IntN(5)
	if rnd.IntN(3) == 0 {
		from, to, limit = discovery.Beginning, discovery.Forever, 0
	}
	var want, got []discovery.Record
	for _, r := range m {
		if us := r.Event.Time.UnixMicro(); us >= from && us < to {
			want = append(want, r)
		}
	}
	cursor := ""
	for {
		page, next, err := s.Events(from, to, cursor, limit)
		if err != nil {
			return fmt.Errorf("events: %w", err)
		}
		if got = append(got, page...); next == "" {
			break
		}
		cursor = next
	}
	if !slices.IsSortedFunc(got, func(a, b discovery.Record) int {
		return b.Event.Time.Compare(a.Event.Time)
	}) {
		return errors.New("events: not the newest first")
	}
	if d := gocmp.Diff(want, got, sortRecords, cmpopts.EquateEmpty()); d != "" {
		return fmt.Errorf("events: %s", d)
	}
	return nil
}

// modelObjects are spelled so that keys of theirs might meet.
var modelObjects = []string{"urn:a", "urn:a\x00", gs1 + "01/1", "01/1", "\x0201/1", gs1 + "urn:a",
	"https://example.org/01/1", "urn:a\x00\x01m"}

// randomRecord takes few values, so that they meet.
func randomRecord(rnd *rand.Rand) discovery.Record {
	objects := func(n int) (list []string) {
		for range n {
			list = append(list, modelObjects[rnd.IntN(len(modelObjects))])
		}
		return list
	}
	e := epcis.Event{Kind: epcis.Kind(1 + rnd.IntN(4)), Action: epcis.Action(1 + rnd.IntN(3)),
		BizStep: []string{"", "packing", "void_shipping", "urn:step", "accepting"}[rnd.IntN(5)],
		Source:  []string{"", "urn:is:1", "urn:is:2"}[rnd.IntN(3)], EPCs: objects(rnd.IntN(4))}
	switch e.Kind {
	case epcis.Transformation:
		e.Action, e.Inputs = epcis.None, objects(1+rnd.IntN(2))
	case epcis.Aggregation, epcis.Association:
		e.Parent = objects(1)[0]
	}
	e = newEvent(e, int64(rnd.IntN(18)))
	e.Disposition = []string{"", "in_transit", "x"}[rnd.IntN(3)]
	e.Offset = []string{"", "+02:00"}[rnd.IntN(2)]
	e.ID = []string{"", "", "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8", "x", "y",
		"urn:uuid:6BA7B810-9dad-11d1-80b4-00c04fd430c8",
		epcis.HashURI(sha256.Sum256([]byte{byte(rnd.IntN(2))}))}[rnd.IntN(7)]
	if rnd.IntN(2) == 0 {
		e.Raw = json.RawMessage(fmt.Sprintf(`{"type":"ObjectEvent","n":%d}`, rnd.IntN(3)))
	}
	if rnd.IntN(4) == 0 {
		e.Error = &epcis.ErrorDeclaration{Time: epoch.Add(time.Hour), Reason: "wrong",
			Corrective: []string{"x", "z"}[:rnd.IntN(3)]}
		if len(e.Error.Corrective) == 0 {
			e.Error.Corrective = nil
		}
	}
	return discovery.Record{Event: e, Publisher: []string{"", "p", "q"}[rnd.IntN(3)],
		Recorded: epoch.Add(time.Duration(rnd.IntN(1e6)) * time.Microsecond)}
}

// signed puts records into a document of their own, in some way or other.
func signed(rnd *rand.Rand, records []discovery.Record) {
	if rnd.IntN(2) == 0 {
		return
	}
	var list []json.RawMessage
	for i := range records {
		raw := records[i].Event.Raw
		if raw == nil {
			raw = json.RawMessage(`{"type":"none"}`)
		}
		list = append(list, raw)
	}
	document := map[string]any{"epcisBody": map[string]any{"eventList": list}}
	body, _ := json.MarshalIndent(document, "", " ")
	b64 := base64.RawURLEncoding.EncodeToString
	jws := []byte(b64([]byte(`{"alg":"EdDSA"}`)) + "." + b64(body) + "." + b64([]byte{1, 2, 3}))
	switch rnd.IntN(4) {
	case 0:
		jws = []byte("not a signature")
	case 1:
		jws = append(jws, '\n') // nor in its only spelling
	}
	for i := range records {
		records[i].Signature = jws
	}
}

// eventHistory publishes at random, replays, and opens again, and returns where repository
// and model part.
func eventHistory(t *testing.T, seed uint64, of func(*Repository) discovery.Store,
	seen map[string]int) error {
	rnd := rand.New(rand.NewPCG(seed, 11))
	path := dataFile(t)
	m := eventModel{}
	var old []discovery.Record
	for range 3 {
		r, err := Open(path, Options{})
		if err != nil {
			return err
		}
		s := of(r)
		for n := 0; n < 8 && err == nil; n++ {
			records := randomRecords(rnd, old)
			old = append(old, records...)
			err = m.compare(s, records, seen)
		}
		if err == nil {
			err = m.differs(s, rnd)
		}
		if err = errors.Join(err, r.Close()); err != nil {
			return err
		}
		sound(t, path)
	}
	for _, r := range m {
		seen[fmt.Sprint("declaration ", r.Event.Error != nil)]++
		if r.Event.Error == nil {
			seen[fmt.Sprint("erased ", m.erased(&r))]++
		}
	}
	return nil
}

// randomRecords are a publication, sometimes with an old record, or that one's declaration.
func randomRecords(rnd *rand.Rand, old []discovery.Record) (records []discovery.Record) {
	for range 1 + rnd.IntN(4) {
		records = append(records, randomRecord(rnd))
	}
	signed(rnd, records)
	if len(old) == 0 || rnd.IntN(3) > 0 {
		return records
	}
	again := old[rnd.IntN(len(old))]
	if again.Recorded = epoch; rnd.IntN(3) == 0 && again.Event.Error == nil {
		again.Event.Error = &epcis.ErrorDeclaration{Time: epoch, Reason: "late"}
	}
	return append(records, again)
}

// compare publishes to both.
func (m eventModel) compare(s discovery.Store, records []discovery.Record,
	seen map[string]int) error {
	want, conflict := m.publish(records)
	got, err := s.Publish(context.Background(), records)
	if !errors.Is(err, conflict) || !slices.Equal(got, want) {
		return errors.Join(fmt.Errorf("published %v, want %v %w", got, want, conflict), err)
	}
	seen[fmt.Sprint("conflict ", conflict != nil)]++
	return nil
}

func itself(r *Repository) discovery.Store { return r }

func TestEventModel(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for seed := range uint64(rounds(10, 60)) {
		if err := eventHistory(t, seed, itself, seen); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	t.Logf("%v", seen)
	for _, what := range []string{"conflict true", "conflict false", "declaration true", "erased true",
		"erased false"} {
		if seen[what] < 20 {
			t.Errorf("only %d times %s", seen[what], what)
		}
	}
}

// wrongStore is the repository with a fault.
type wrongStore struct {
	*Repository
	fault string
}

func (w wrongStore) Publish(ctx context.Context, records []discovery.Record) ([]bool, error) {
	if w.fault == "declarations of others count" {
		records = slices.Clone(records)
		for i := range records {
			records[i].Publisher = ""
		}
	}
	return w.Repository.Publish(ctx, records)
}

func (w wrongStore) Read(fn func(discovery.Rows) error) error {
	return w.Repository.Read(func(rows discovery.Rows) error {
		return fn(wrongRows{rows, w.fault})
	})
}

type wrongRows struct {
	discovery.Rows
	fault string
}

func (w wrongRows) Scan(o string, f discovery.Family, from, to int64) {
	w.Rows.Scan(o, f, from, to)
	if w.fault == "rows begin where the cursor stands" {
		w.Rows.(*cellRows).low = []byte{}
	}
}

// The control: stores with a fault must be told from the model.
func TestEventModelCatchesFaults(t *testing.T) {
	t.Parallel()
	for _, fault := range []string{"declarations of others count",
		"rows begin where the cursor stands"} {
		caught := false
		for seed := uint64(0); seed < 10 && !caught; seed++ {
			caught = eventHistory(t, seed, func(r *Repository) discovery.Store {
				return wrongStore{r, fault}
			}, map[string]int{}) != nil
		}
		if !caught {
			t.Errorf("%s: not noticed", fault)
		}
	}
}

// A publication that is refused does no harm to those that share its transaction.
func TestConflictHarmsNoOther(t *testing.T) {
	r := open(t, dataFile(t), Options{})
	put := func(id string, us int64) error {
		e := newEvent(epcis.Event{Kind: epcis.Object, ID: id, EPCs: []string{"urn:" + id}}, us)
		_, err := r.Publish(t.Context(), []discovery.Record{{Event: e, Publisher: "p"}})
		return err
	}
	if err := put("taken", 1); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			id, us, want := fmt.Sprint(i), int64(2), error(nil)
			if i%3 == 0 {
				id, want = "taken", discovery.ErrConflict
			}
			if err := put(id, us); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", id, err, want)
			}
		})
	}
	wg.Wait()
	if s := r.Stats(); s.LargestGroup < 10 {
		t.Errorf("no more than %d shared a transaction", s.LargestGroup)
	}
	all, _, err := r.Events(discovery.Beginning, discovery.Forever, "", 0)
	if err != nil || len(all) != 1+200-67 {
		t.Errorf("%d events, %v", len(all), err)
	}
}

func TestReplayWritesNothing(t *testing.T) {
	r := open(t, dataFile(t), Options{})
	records := numberedRecords(7)
	for i := range 3 {
		before := r.Stats().Commits
		stored, err := r.Publish(t.Context(), records)
		if err != nil || len(stored) != len(records) || slices.Contains(stored, i > 0) {
			t.Errorf("%d: stored %v, %v", i, stored, err)
		}
		if wrote := r.Stats().Commits > before; wrote != (i == 0) {
			t.Errorf("%d: written %v", i, wrote)
		}
	}
}

func TestPublishRefuses(t *testing.T) {
	r := open(t, dataFile(t), Options{})
	long := string(bytes.Repeat([]byte("x"), maxObject+1))
	for says, e := range map[string]epcis.Event{
		`record 1, event "i": kind 0`:     {ID: "i"},
		`object 1 of 0 bytes`:             {Kind: epcis.Object, EPCs: []string{"a", ""}},
		`object 0 of 1025 bytes`:          {Kind: epcis.Object, EPCs: []string{long}},
		`parentID of 1025 bytes`:          {Kind: epcis.Aggregation, Parent: long},
		`eventID of 1025 bytes, at most`:  {Kind: epcis.Object, ID: long},
		`record 1, event "b": kind 1, ac`: {Kind: epcis.Object, ID: "b", Action: 9},
	} {
		fine := discovery.Record{Event: newEvent(epcis.Event{Kind: epcis.Object}, 1)}
		_, err := r.Publish(t.Context(), []discovery.Record{fine, {Event: newEvent(e, 1)}})
		if err == nil || !bytes.Contains([]byte(err.Error()), []byte(says)) {
			t.Errorf("got %v, want %s", err, says)
		}
	}
	all, _, err := r.Events(discovery.Beginning, discovery.Forever, "", 0)
	if len(all) > 0 || err != nil {
		t.Errorf("%d events were stored, %v", len(all), err)
	}
	if _, _, err := r.Events(0, 1, "###", 0); !errors.Is(err, ErrCursor) {
		t.Errorf("got %v, want ErrCursor", err)
	}
}
