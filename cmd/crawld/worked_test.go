package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/discovery/worked"
)

// workedEpoch is when the cases begin; they have a minute here where they have a microsecond.
type workedEpoch struct{ time.Time }

func (e workedEpoch) at(t int64) string {
	return e.Add(time.Duration(t) * time.Minute).Format(time.RFC3339)
}

// events are the EPCIS events of a case.
func (e workedEpoch) events(c worked.Case) (list []map[string]any) {
	for _, event := range c.Events {
		m := map[string]any{"type": event.Type + "Event", "eventID": event.N,
			"eventTime": e.at(event.T), "eventTimeZoneOffset": "+00:00"}
		if event.ErrorOf != "" {
			m["eventID"] = event.ErrorOf
			m["errorDeclaration"] = map[string]any{"declarationTime": e.at(200)}
		}
		if event.Action != "" {
			m["action"] = event.Action
		}
		if event.IS != "" {
			m["crawld:source"] = event.IS
		}
		switch event.Type {
		case "Object":
			m["epcList"] = event.EPCs
		case "Transformation":
			m["inputEPCList"], m["outputEPCList"] = event.Inputs, event.EPCs
		default:
			m["parentID"], m["childEPCs"] = event.Parent, event.EPCs
		}
		list = append(list, m)
	}
	return list
}

func (e workedEpoch) target(c worked.Case) string {
	query := url.Values{}
	if c.Query.From != nil {
		query.Set("from", e.at(*c.Query.From))
	}
	if c.Query.To != nil {
		query.Set("to", e.at(*c.Query.To))
	}
	return "/epcs/" + url.PathEscape(c.Query.OID) + "/trace?" + query.Encode()
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

// answer is what a case wants, of what was answered.
func (got *tracedCase) answer() (a worked.Answer, err error) {
	a = worked.Answer{Inside: got.Inside, Finished: got.Finished, Anomalies: len(got.Warnings)}
	for _, e := range got.Events {
		a.Events = append(a.Events, e.ID)
	}
	for _, s := range got.Sources {
		if s.Address != "https://"+s.ID+".example" || s.Type != "EPCIS-2.0" {
			return a, fmt.Errorf("source %+v", s)
		}
		a.IS = append(a.IS, s.ID)
	}
	if got.Truncated || got.Withheld != 0 {
		return a, fmt.Errorf("truncated %v, withheld %d", got.Truncated, got.Withheld)
	}
	return a, nil
}

// The worked cases through what users have: signed documents over HTTP into the data file,
// and the trace over HTTP, before and after a restart.
func TestWorkedCasesThroughTheDaemon(t *testing.T) {
	t.Parallel()
	cases, err := worked.Cases()
	if err != nil {
		t.Fatal(err)
	}
	s := newShop(t, "IS1", "IS2", "IS3", "IS4", "IS8", "IS9")
	d := s.run(binary(t))
	epoch := workedEpoch{time.Now().UTC().Truncate(time.Hour).Add(-48 * time.Hour)}
	apart := func(c worked.Case, i int) worked.Case { return c.Apart(fmt.Sprintf("urn:x:c%d:", i)) }
	for i, c := range cases {
		status, answer, err := d.send(acmeToken, "application/jose",
			s.sign("acme", epcisDocument(t, epoch.events(apart(c, i))...)))
		if err != nil || status != http.StatusCreated || strings.Contains(answer, `"stored":false`) {
			t.Errorf("%s: %d %s %v", c.Name, status, answer, err)
		}
	}
	for run := range 2 {
		wrong := 0
		for i, c := range cases {
			c = apart(c, i)
			traced := decoded[tracedCase](t, d.client, epoch.target(c))
			got, err := traced.answer()
			if err == nil {
				err = c.Differs(got)
			}
			if err != nil {
				t.Errorf("run %d: %s: %v", run, c.Name, err)
			}
			// The control: the answer to another case is told from this one's.
			other := apart(cases[(i+1)%len(cases)], i)
			if other.Differs(got) != nil {
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
