package repository

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

// manySeen publishes so many events of one object, an instant each.
func manySeen(t *testing.T, r *Repository, object string, n int) {
	t.Helper()
	var records []discovery.Record
	for us := range n {
		records = append(records, discovery.Record{Publisher: "p",
			Event: newEvent(epcis.Event{Kind: epcis.Object, Action: epcis.Observe, ID: fmt.Sprint(us),
				EPCs: []string{object}}, int64(us))})
	}
	if _, err := r.Publish(t.Context(), records); err != nil {
		t.Fatal(err)
	}
}

// A long row is read in several transactions, which is not to be seen in what is read.
func TestLongReadsAreDivided(t *testing.T) {
	r := open(t, dataFile(t), Options{})
	const n = 2*mostCost + 100
	manySeen(t, r, "urn:a", n)
	before := r.db.Stats().TxN
	var got []discovery.Cell
	err := r.Read(func(rows discovery.Rows) (err error) {
		got, err = scan(rows, "urn:a", discovery.Observed, discovery.Beginning, discovery.Forever, n+1)
		return err
	})
	if err != nil || len(got) != n {
		t.Fatalf("%d cells of %d, %v", len(got), n, err)
	}
	for i, c := range got {
		if c.Time != int64(n-1-i) || c.EventID != fmt.Sprint(c.Time) {
			t.Fatalf("cell %d is %+v", i, c)
		}
	}
	if took := r.db.Stats().TxN - before; took != 3 {
		t.Errorf("%d transactions", took)
	}
	before = r.db.Stats().TxN
	err = r.Read(func(rows discovery.Rows) error {
		for i := range n / 10 {
			at := int64(i * 7919 % n)
			got, err := scan(rows, "urn:a", discovery.Observed, at, at, 2)
			if err != nil || len(got) != 1 || got[0].Time != at {
				return errors.Join(fmt.Errorf("at %d: %+v", at, got), err)
			}
		}
		return nil
	})
	if took := r.db.Stats().TxN - before; err != nil || took < 2 {
		t.Errorf("%d transactions, %v", took, err)
	}
}

// The error of what reads comes out as it is, and nothing is left open.
func TestReadReturnsErrors(t *testing.T) {
	r := open(t, dataFile(t), Options{})
	manySeen(t, r, "urn:a", 3)
	enough := errors.New("enough")
	if err := r.Read(func(discovery.Rows) error { return enough }); err != enough {
		t.Errorf("got %v", err)
	}
	if open := r.db.Stats().OpenTxN; open != 0 {
		t.Errorf("%d transactions are open", open)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if err := r.Read(func(discovery.Rows) error { return nil }); err == nil {
		t.Error("a closed file was read")
	}
}

// The texts of cells stay as they were told when later ones are kept with them.
func TestTextsStay(t *testing.T) {
	var kept texts
	var told, want []string
	for i := range 1000 {
		text := fmt.Sprint("event ", i*i)
		want = append(want, text, gs1+fmt.Sprint(i/3), "urn:"+text, "\x02x")
		told = append(told, kept.keep([]byte(text)), kept.parent([]byte(fmt.Sprint(i/3))),
			kept.parent([]byte("urn:"+text)), kept.parent([]byte(shortObject("\x02x"))))
	}
	if !slices.Equal(told, want) {
		t.Errorf("got %q, want %q", told[:8], want[:8])
	}
}
