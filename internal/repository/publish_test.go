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

// workedCase is one of the cases of package discovery; the README beside them tells how they
// are read.
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

// apart gives the objects of the case names of their own, so that all cases fit into one file.
func (c *workedCase) apart(objects ...string) []string {
	list := make([]string, len(objects))
	for i, o := range objects {
		if o != "" {
			list[i] = "urn:case:" + c.Name[:2] + ":" + o
		}
	}
	return list
}

func (c *workedCase) records() (records []discovery.Record) {
	kinds := map[string]epcis.Kind{"Object": epcis.Object, "Aggregation": epcis.Aggregation,
		"Association": epcis.Association, "Transformation": epcis.Transformation}
	actions := map[string]epcis.Action{"ADD": epcis.Add, "OBSERVE": epcis.Observe,
		"DELETE": epcis.Delete}
	for _, e := range c.Events {
		event := newEvent(epcis.Event{ID: e.N, Kind: kinds[e.Type], Action: actions[e.Action],
			Parent: c.apart(e.Parent)[0], EPCs: c.apart(e.EPCs...), Inputs: c.apart(e.Inputs...),
			Source: e.IS}, e.T)
		if e.ErrorOf != "" {
			event.ID, event.Error = e.ErrorOf, &epcis.ErrorDeclaration{}
		}
		records = append(records, discovery.Record{Event: event, Publisher: c.Name})
	}
	return records
}

// TestWorkedCases runs them over a data file.
func TestWorkedCases(t *testing.T) {
	var cases []workedCase
	text, err := os.ReadFile("../discovery/testdata/cases.json")
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil || len(cases) != 46 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	r := open(t, dataFile(t), Options{})
	for _, c := range cases {
		if _, err := r.Publish(t.Context(), c.records()); err != nil {
			t.Fatalf("%s: %v", c.Name, err)
		}
	}
	for _, c := range cases {
		q := discovery.Query{Object: c.apart(c.Query.OID)[0], From: discovery.Beginning,
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
			a.Finished != w.Finished || !slices.Equal(a.Inside, c.apart(w.Inside...)) ||
			len(a.Warnings) != w.Anomalies {
			t.Errorf("%s: got %q %+v, want %+v", c.Name, ids, a, w)
		}
	}
}
