package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// workedCase is one of testdata/cases.json of internal/discovery, as its README says.
type workedCase struct {
	Name   string
	Events []struct {
		N, Type, Action     string
		T                   int64
		IS, Parent, ErrorOf string
		EPCs, Inputs        []string
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

// namespace keeps the objects and events of a case apart from those of all others.
type namespace struct {
	prefix string
	epoch  time.Time
}

func (n namespace) of(name string) string { return n.prefix + name }

func (n namespace) all(names []string) []string {
	list := []string{}
	for _, name := range names {
		list = append(list, n.of(name))
	}
	return list
}

func (n namespace) at(t int64) string {
	return n.epoch.Add(time.Duration(t) * time.Minute).Format(time.RFC3339)
}

// events are the EPCIS events of a case.
func (n namespace) events(c workedCase) (list []map[string]any) {
	for _, e := range c.Events {
		m := map[string]any{"type": e.Type + "Event", "eventID": n.of(e.N), "eventTime": n.at(e.T),
			"eventTimeZoneOffset": "+00:00"}
		if e.ErrorOf != "" {
			m["eventID"] = n.of(e.ErrorOf)
			m["errorDeclaration"] = map[string]any{"declarationTime": n.at(200)}
		}
		if e.Action != "" {
			m["action"] = e.Action
		}
		if e.IS != "" {
			m["crawld:source"] = e.IS
		}
		switch e.Type {
		case "Object":
			m["epcList"] = n.all(e.EPCs)
		case "Transformation":
			m["inputEPCList"], m["outputEPCList"] = n.all(e.Inputs), n.all(e.EPCs)
		default:
			m["parentID"], m["childEPCs"] = n.of(e.Parent), n.all(e.EPCs)
		}
		list = append(list, m)
	}
	return list
}

func (n namespace) target(c workedCase) string {
	query := url.Values{}
	if c.Query.From != nil {
		query.Set("from", n.at(*c.Query.From))
	}
	if c.Query.To != nil {
		query.Set("to", n.at(*c.Query.To))
	}
	return "/epcs/" + url.PathEscape(n.of(c.Query.OID)) + "/trace?" + query.Encode()
}

// tracedCase is what is asserted of an answer.
type tracedCase struct {
	Events []struct {
		ID string `json:"event_id"`
	}
	Sources []struct {
		ID, Address, Type string
	}
	Finished  bool
	Inside    []string
	Warnings  []any
	Truncated bool
	Withheld  int
}

func (n namespace) differs(c workedCase, got tracedCase) error {
	var ids, sources []string
	for _, e := range got.Events {
		ids = append(ids, e.ID)
	}
	for _, s := range got.Sources {
		if s.Address != "https://"+s.ID+".example" || s.Type != "EPCIS-2.0" {
			return fmt.Errorf("source %+v", s)
		}
		sources = append(sources, s.ID)
	}
	w := c.Want
	switch {
	case fmt.Sprint(ids) != fmt.Sprint(n.all(w.Events)):
		return fmt.Errorf("events %v, want %v", ids, w.Events)
	case w.IS != nil && fmt.Sprint(sources) != fmt.Sprint(w.IS):
		return fmt.Errorf("sources %v, want %v", sources, w.IS)
	case got.Finished != w.Finished || got.Truncated || got.Withheld != 0:
		return fmt.Errorf("finished %v, truncated %v, withheld %d", got.Finished, got.Truncated,
			got.Withheld)
	case fmt.Sprint(got.Inside) != fmt.Sprint(n.all(w.Inside)):
		return fmt.Errorf("inside %v, want %v", got.Inside, w.Inside)
	case len(got.Warnings) != w.Anomalies:
		return fmt.Errorf("warnings %v, want %d", got.Warnings, w.Anomalies)
	}
	return nil
}

// The worked cases through what users have: signed documents over HTTP into the data file,
// and the trace over HTTP, before and after a restart.
func TestWorkedCasesThroughTheDaemon(t *testing.T) {
	t.Parallel()
	discovery := filepath.Join("..", "..", "internal", "discovery")
	text, err := os.ReadFile(filepath.Join(discovery, "testdata", "cases.json"))
	var cases []workedCase
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil || len(cases) != 46 {
		t.Fatalf("%d cases, %v", len(cases), err)
	}
	s := newShop(t, "IS1", "IS2", "IS3", "IS4", "IS8", "IS9")
	d := s.run(binary(t))
	epoch := time.Now().UTC().Truncate(time.Hour).Add(-48 * time.Hour)
	for i, c := range cases {
		n := namespace{fmt.Sprintf("urn:x:c%d:", i), epoch}
		status, answer, err := d.send(acmeToken, "application/jose",
			s.sign("acme", epcisDocument(t, n.events(c)...)))
		if err != nil || status != http.StatusCreated || strings.Contains(answer, `"stored":false`) {
			t.Errorf("%s: %d %s %v", c.Name, status, answer, err)
		}
	}
	for run := range 2 {
		wrong := 0
		for i, c := range cases {
			n := namespace{fmt.Sprintf("urn:x:c%d:", i), epoch}
			got := decoded[tracedCase](t, d.client, n.target(c))
			if err := n.differs(c, got); err != nil {
				t.Errorf("run %d: %s: %v", run, c.Name, err)
			}
			// The control: the answer to another case is told from this one's.
			other := cases[(i+1)%len(cases)]
			if n.differs(other, got) != nil {
				wrong++
			}
		}
		if wrong < len(cases)-2 {
			t.Errorf("only %d of %d wrong answers are caught", wrong, len(cases))
		}
		d.kill()
		if run == 0 {
			d = s.run(binary(t))
		}
	}
	s.check(binary(t))
}
