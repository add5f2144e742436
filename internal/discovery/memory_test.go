package discovery

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/crawld/crawld/internal/epcis"
)

// randomRecords are events of few objects, ids, publishers and instants, so that they meet.
func randomRecords(rng *rand.Rand, n int) (list []Record) {
	object := func() string { return fmt.Sprint("urn:x:", rng.IntN(4)) }
	for range n {
		e := epcis.Event{Kind: epcis.Kind(1 + rng.IntN(4)), Action: epcis.Action(1 + rng.IntN(3)),
			EPCs: []string{object(), object()}}
		switch e.Kind {
		case epcis.Aggregation, epcis.Association:
			e.Parent = object()
		case epcis.Transformation:
			e.Action, e.Inputs = epcis.None, []string{object()}
		}
		if rng.IntN(2) == 0 {
			e.ID = fmt.Sprint("urn:x:e", rng.IntN(6))
		}
		if rng.IntN(5) == 0 {
			e.Error = &epcis.ErrorDeclaration{}
		}
		list = append(list, Record{Event: newEvent(e, int64(rng.IntN(12))),
			Publisher: fmt.Sprint("p", rng.IntN(2))})
	}
	return list
}

// Memory says what a list of all records says that is searched anew each time.
func TestMemoryAgainstAList(t *testing.T) {
	rounds := 300
	if os.Getenv("CRAWLD_CI") != "" {
		rounds = 10_000
	}
	conflicts, erased, pages, caught := 0, 0, 0, 0
	for seed := range rounds {
		rng := rand.New(rand.NewPCG(5, uint64(seed)))
		m, list := NewMemory(), []Record{}
		for range 6 {
			batch := randomRecords(rng, 1+rng.IntN(4))
			want, next, conflict := listPublish(list, batch)
			got, err := m.Publish(t.Context(), batch)
			if conflict != errors.Is(err, ErrConflict) || !conflict && !slices.Equal(got, want) {
				t.Fatalf("seed %d: %v %v, want %v, conflict %v", seed, got, err, want, conflict)
			}
			if list = next; conflict {
				conflicts++
			}
		}
		for o := range 4 {
			from, to := int64(rng.IntN(12)), int64(rng.IntN(12))
			object := fmt.Sprint("urn:x:", o)
			for _, f := range EventFamilies {
				want := listCells(list, object, f, from, to)
				for _, c := range want {
					if c.Erased {
						erased++
					}
				}
				got := readAll(t, m, object, f, from, to)
				if !slices.Equal(got, want) {
					t.Fatalf("seed %d: %s %c [%d, %d]: %v, want %v", seed, object, f, from, to, got, want)
				}
				if !slices.Equal(listCells(list[:len(list)/2], object, f, from, to), want) {
					caught++ // the control: a store that has lost events
				}
			}
			pages += samePages(t, m, list, object, from, to, 1+rng.IntN(3))
		}
		sameRecords(t, m, list, rng)
	}
	if conflicts < rounds/10 || erased < rounds/10 || pages < rounds || caught < rounds {
		t.Errorf("only %d conflicts, %d erased cells, %d pages, %d losses seen", conflicts, erased, pages,
			caught)
	}
}

// listPublish is Publish on a list.
func listPublish(list, batch []Record) (stored []bool, after []Record, conflict bool) {
	after = slices.Clone(list)
	for _, r := range batch {
		fresh := true
		for _, have := range after {
			same := Identity(have.Publisher, &have.Event) == Identity(r.Publisher, &r.Event)
			declares := r.Event.Error != nil
			if !same || declares != (have.Event.Error != nil) || declares && have.Publisher != r.Publisher {
				continue
			}
			fresh = false
			if !declares && have.Event.Hash != r.Event.Hash {
				return nil, list, true
			}
		}
		if fresh {
			after = append(after, r)
		}
		stored = append(stored, fresh)
	}
	return stored, after, false
}

// listCells is a row, the newest first.
func listCells(list []Record, object string, f Family, from, to int64) (all []Cell) {
	for _, r := range list {
		for _, c := range Cells(&r) {
			if c.Object != object || c.Family != f || c.Time < from || c.Time > to {
				continue
			}
			c.Erased = slices.ContainsFunc(list, func(d Record) bool {
				return d.Event.Error != nil && d.Publisher == r.Publisher &&
					Identity(d.Publisher, &d.Event) == c.ID16
			})
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), bytes.Compare(b.ID16[:], a.ID16[:]))
	})
	return all
}

// readAll reads a row.
func readAll(t *testing.T, s Store, object string, f Family, from, to int64) (all []Cell) {
	t.Helper()
	err := s.Read(func(rows Rows) error {
		rows.Scan(object, f, from, to)
		for {
			var c Cell
			if is, err := rows.Next(&c); err != nil || !is {
				return err
			}
			all = append(all, c)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// samePages reads all families page by page.
func samePages(t *testing.T, m *Memory, list []Record, object string, from, to int64, n int) (
	pages int) {
	t.Helper()
	var want, got []Cell
	for _, f := range EventFamilies {
		want = append(want, listCells(list, object, f, from, to)...)
	}
	for more := true; more; pages++ {
		page, err := Newest(m, object, from, to, n)
		if err != nil {
			t.Fatal(err)
		}
		if more = len(page) >= n; more {
			to = page[len(page)-1].Time - 1
		}
		got = append(got, page...)
		if len(page) > n && page[n-1].Time != page[len(page)-1].Time {
			t.Fatalf("a page of %d, %d were asked for, goes on into another instant", len(page), n)
		}
	}
	order := func(a, b Cell) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), bytes.Compare(a.ID16[:], b.ID16[:]))
	}
	if !slices.IsSortedFunc(got, order) {
		t.Fatalf("not the newest first: %v", got)
	}
	byFamily := func(a, b Cell) int { return cmp.Or(order(a, b), cmp.Compare(a.Family, b.Family)) }
	slices.SortFunc(want, byFamily)
	slices.SortFunc(got, byFamily)
	if !slices.Equal(got, want) {
		t.Fatalf("pages of %d: %v, want %v", n, got, want)
	}
	return pages
}

// sameRecords compares the listing and the look-up by event ID.
func sameRecords(t *testing.T, m *Memory, list []Record, rng *rand.Rand) {
	t.Helper()
	from, to := int64(rng.IntN(6)), int64(6+rng.IntN(7))
	var want, got []string
	name := func(r Record) string {
		return fmt.Sprintf("%03d %s %x %v", 999-r.Event.Time.UnixMicro(), r.Publisher, r.Event.Hash,
			r.Event.Error != nil)
	}
	for _, r := range list {
		if at := r.Event.Time.UnixMicro(); at >= from && at < to {
			want = append(want, name(r))
		}
		found, err := m.Record(r.Event.EventID())
		if err != nil || !slices.ContainsFunc(found, func(o Record) bool { return name(o) == name(r) }) {
			t.Fatalf("%s is not found: %v", name(r), err)
		}
	}
	for cursor, more := "", true; more; {
		page, next, err := m.Events(from, to, cursor, 1+rng.IntN(3))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page {
			got = append(got, name(r))
		}
		cursor, more = next, next != ""
	}
	if !slices.IsSortedFunc(got, func(a, b string) int { return cmp.Compare(a[:3], b[:3]) }) {
		t.Errorf("not the newest first: %q", got)
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Fatalf("listed %q, want %q", got, want)
	}
}
