package discovery

import (
	"fmt"
	"slices"
	"testing"

	"github.com/crawld/crawld/internal/epcis"
)

func TestCells(t *testing.T) {
	for _, c := range []struct {
		name string
		e    epcis.Event
		want []string // object, family, role, parent
	}{
		{"birth", epcis.Event{Kind: epcis.Object, Action: epcis.Add, EPCs: []string{"a", "b"}},
			[]string{"a l 2 ", "b l 2 "}},
		{"end", epcis.Event{Kind: epcis.Object, Action: epcis.Delete, EPCs: []string{"a"}},
			[]string{"a l 3 "}},
		{"seen", epcis.Event{Kind: epcis.Object, Action: epcis.Observe, EPCs: []string{"a", "a"}},
			[]string{"a o 1 "}},
		{"packed", epcis.Event{Kind: epcis.Aggregation, Action: epcis.Add, Parent: "p",
			EPCs: []string{"a", "b"}}, []string{"a m 4 p", "b m 4 p", "p c 8 "}},
		{"seen in", epcis.Event{Kind: epcis.Association, Action: epcis.Observe, Parent: "p",
			EPCs: []string{"a"}}, []string{"a n 5 p", "p c 8 "}},
		{"unpacked", epcis.Event{Kind: epcis.Aggregation, Action: epcis.Delete, Parent: "p",
			EPCs: []string{"a"}}, []string{"a m 6 p", "p c 8 "}},
		{"all leave", epcis.Event{Kind: epcis.Aggregation, Action: epcis.Delete, Parent: "p"},
			[]string{"p c 8 ", "p e 7 "}},
		{"nothing seen in it", epcis.Event{Kind: epcis.Aggregation, Action: epcis.Observe, Parent: "p"},
			[]string{"p c 8 "}},
		{"in nothing", epcis.Event{Kind: epcis.Aggregation, Action: epcis.Add, EPCs: []string{"a"}},
			[]string{"a o 1 "}},
		{"nothing in nothing", epcis.Event{Kind: epcis.Aggregation, Action: epcis.Delete}, nil},
		{"in itself", epcis.Event{Kind: epcis.Aggregation, Action: epcis.Add, Parent: "a",
			EPCs: []string{"a"}}, []string{"a m 4 a", "a c 8 "}},
		{"transformed", epcis.Event{Kind: epcis.Transformation, Inputs: []string{"a", "x", "a"},
			EPCs: []string{"b", "x"}}, []string{"a l 3 ", "x o 1 ", "b l 2 "}},
		{"declaration", epcis.Event{Kind: epcis.Object, EPCs: []string{"a"},
			Error: &epcis.ErrorDeclaration{}}, nil},
	} {
		var got []string
		for _, cell := range Cells(&Record{Event: newEvent(c.e, 7)}) {
			got = append(got, fmt.Sprintf("%s %c %d %s", cell.Object, cell.Family, cell.Role,
				cell.Parent))
			if cell.Time != 7 || cell.EventID == "" || cell.Kind != c.e.Kind {
				t.Errorf("%s: %+v", c.name, cell)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestIdentity(t *testing.T) {
	named := newEvent(epcis.Event{Kind: epcis.Object, ID: "b\x00c"}, 1)
	bare := newEvent(epcis.Event{Kind: epcis.Object}, 1)
	id := Identity("p", &bare)
	if id != Identity("q", &bare) || id != [16]byte(bare.Hash[:16]) {
		t.Error("an event without an ID is not told by its hash")
	}
	seen := map[[16]byte]bool{Identity("p", &bare): true}
	for _, publisher := range []string{"p", "q", ""} {
		if id := Identity(publisher, &named); seen[id] {
			t.Errorf("publisher %q takes the event ID of another one", publisher)
		} else {
			seen[id] = true
		}
	}
}
