package repository

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

var _ discovery.Store = (*Repository)(nil)

// newEvent fills what follows from the rest.
func newEvent(e epcis.Event, us int64) epcis.Event {
	e.Time = time.UnixMicro(us).UTC()
	e.Hash = sha256.Sum256(fmt.Append(nil, e.Kind, e.Action, us, e.Parent, e.EPCs, e.Inputs, e.Source))
	return e
}

// TestWorkedCases runs the cases of package discovery over a data file.
func TestWorkedCases(t *testing.T) {
	var cases []struct {
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
	text, err := os.ReadFile("../discovery/testdata/cases.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil || len(cases) != 46 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	kinds := map[string]epcis.Kind{"Object": epcis.Object, "Aggregation": epcis.Aggregation,
		"Association": epcis.Association, "Transformation": epcis.Transformation}
	actions := map[string]epcis.Action{"ADD": epcis.Add, "OBSERVE": epcis.Observe,
		"DELETE": epcis.Delete}
	r := open(t, dataFile(t), Options{})
	for i, c := range cases {
		in := func(objects ...string) []string { // objects of one case
			for j, o := range objects {
				if o != "" {
					objects[j] = fmt.Sprintf("urn:case:%d:%s", i, o)
				}
			}
			return objects
		}
		var records []discovery.Record
		for _, e := range c.Events {
			event := newEvent(epcis.Event{ID: e.N, Kind: kinds[e.Type], Action: actions[e.Action],
				Parent: in(e.Parent)[0], EPCs: in(e.EPCs...), Inputs: in(e.Inputs...), Source: e.IS}, e.T)
			if e.ErrorOf != "" {
				event.ID, event.Error = e.ErrorOf, &epcis.ErrorDeclaration{}
			}
			records = append(records, discovery.Record{Event: event, Publisher: fmt.Sprint(i)})
		}
		if _, err := r.Publish(t.Context(), records); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		q := discovery.Query{Object: in(c.Query.OID)[0], From: discovery.Beginning,
			To: discovery.Forever}
		if c.Query.From != nil {
			q.From = *c.Query.From
		}
		if c.Query.To != nil {
			q.To = *c.Query.To
		}
		a, err := discovery.Trace(t.Context(), r, q)
		if err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
		ids := []string{}
		for _, e := range a.Events {
			ids = append(ids, e.EventID)
		}
		w := c.Want
		if !slices.Equal(ids, w.Events) || w.IS != nil && !slices.Equal(a.Sources, w.IS) ||
			a.Finished != w.Finished || !slices.Equal(a.Inside, in(w.Inside...)) ||
			len(a.Warnings) != w.Anomalies {
			t.Errorf("%s: got %q %+v, want %+v", c.Name, ids, a, w)
		}
	}
}
