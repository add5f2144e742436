package repository

import (
	"testing"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/discovery/worked"
	"github.com/crawld/crawld/internal/epcis"
)

var _ discovery.Store = (*Repository)(nil)

// newEvent fills what follows from the rest.
func newEvent(e epcis.Event, us int64) epcis.Event { return worked.At(e, us) }

// TestWorkedCases runs all of them over one data file.
func TestWorkedCases(t *testing.T) {
	cases, err := worked.Cases()
	if err != nil {
		t.Fatal(err)
	}
	r := open(t, dataFile(t), Options{})
	for i, c := range cases {
		cases[i] = c.Apart("urn:case:" + c.Name[:2] + ":")
		var records []discovery.Record
		for _, e := range cases[i].EPCIS() {
			records = append(records, discovery.Record{Event: e, Publisher: c.Name})
		}
		if _, err := r.Publish(t.Context(), records); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
	}
	for _, c := range cases {
		q := discovery.Query{Object: c.Query.OID}
		q.From, q.To = c.Window(discovery.Beginning, discovery.Forever)
		a, err := discovery.Trace(t.Context(), r, q)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		got := worked.Answer{IS: a.Sources, Inside: a.Inside, Finished: a.Finished,
			Anomalies: len(a.Warnings)}
		for _, e := range a.Events {
			got.Events = append(got.Events, e.EventID)
		}
		if err := c.Differs(got); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}
