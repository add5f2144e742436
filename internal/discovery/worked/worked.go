// Package worked has examples of histories of objects, each with a question and the answer
// that is right, worked out by hand. What traces objects, down to the daemon, is tested
// against them. README.md says how they are read.
package worked

import (
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/epcis"
)

//go:embed cases.json
var text []byte

// Case is one example; its events are in no order, and all stored before it asks.
type Case struct {
	Name   string // two digits and what is special about it
	Events []Event
	Query  struct {
		OID      string
		From, To *int64 // microseconds, To exclusive; nil = unbounded
	}
	Want Answer
}

// Event is one of a case.
type Event struct {
	N, Type, Action string
	T               int64  // microseconds
	IS              string // information service; "" = none
	Parent          string
	EPCs, Inputs    []string
	ErrorOf         string // N of the event that this one declares an error
}

// Answer is what is right, or what was answered.
type Answer struct {
	Events    []string // N of each
	IS        []string // by first appearance; nil in a case: whatever they are
	Inside    []string
	Finished  bool
	Anomalies int // warnings over all levels
}

// Cases are all 46, anew at each call.
func Cases() ([]Case, error) {
	var cases []Case
	if err := json.Unmarshal(text, &cases); err != nil {
		return nil, fmt.Errorf("cases.json: %w", err)
	}
	if len(cases) != 46 {
		return nil, fmt.Errorf("cases.json: %d cases, want 46", len(cases))
	}
	return cases, nil
}

// Apart is the case with a prefix before the names of its objects and events, so that it
// meets no other case in a store.
func (c Case) Apart(prefix string) Case {
	one := func(name string) string {
		if name == "" {
			return ""
		}
		return prefix + name
	}
	all := func(names []string) []string {
		list := make([]string, len(names))
		for i, name := range names {
			list[i] = one(name)
		}
		return list
	}
	c.Events = slices.Clone(c.Events)
	for i := range c.Events {
		e := &c.Events[i]
		e.N, e.ErrorOf, e.Parent = one(e.N), one(e.ErrorOf), one(e.Parent)
		e.EPCs, e.Inputs = all(e.EPCs), all(e.Inputs)
	}
	c.Query.OID = one(c.Query.OID)
	c.Want.Events, c.Want.Inside = all(c.Want.Events), all(c.Want.Inside)
	return c
}

// EPCIS are the events as a store takes them.
func (c *Case) EPCIS() (events []epcis.Event) {
	kinds := map[string]epcis.Kind{"Object": epcis.Object, "Aggregation": epcis.Aggregation,
		"Association": epcis.Association, "Transformation": epcis.Transformation}
	actions := map[string]epcis.Action{"ADD": epcis.Add, "OBSERVE": epcis.Observe,
		"DELETE": epcis.Delete}
	for _, e := range c.Events {
		event := At(epcis.Event{ID: e.N, Kind: kinds[e.Type], Action: actions[e.Action],
			Parent: e.Parent, EPCs: e.EPCs, Inputs: e.Inputs, Source: e.IS}, e.T)
		if e.ErrorOf != "" {
			event.ID, event.Error = e.ErrorOf, &epcis.ErrorDeclaration{}
		}
		events = append(events, event)
	}
	return events
}

// At is an event so many microseconds after the epoch, with a hash that tells it from others.
func At(e epcis.Event, us int64) epcis.Event {
	e.Time = time.UnixMicro(us).UTC()
	e.Hash = sha256.Sum256(fmt.Append(nil, e.Kind, e.Action, us, e.Parent, e.EPCs, e.Inputs, e.Source))
	return e
}

// Window is the time that the case asks about: microseconds, or what an unbounded side is to
// the caller.
func (c *Case) Window(beginning, forever int64) (from, to int64) {
	if c.Query.From != nil {
		beginning = *c.Query.From
	}
	if c.Query.To != nil {
		forever = *c.Query.To
	}
	return beginning, forever
}

// Differs says how an answer differs from the right one, nil if it does not.
func (c *Case) Differs(got Answer) error {
	w := c.Want
	switch {
	case !slices.Equal(got.Events, w.Events):
		return fmt.Errorf("events %q, want %q", got.Events, w.Events)
	case w.IS != nil && !slices.Equal(got.IS, w.IS):
		return fmt.Errorf("sources %q, want %q", got.IS, w.IS)
	case got.Finished != w.Finished:
		return fmt.Errorf("finished %v", got.Finished)
	case !slices.Equal(got.Inside, w.Inside):
		return fmt.Errorf("inside %q, want %q", got.Inside, w.Inside)
	case got.Anomalies != w.Anomalies:
		return fmt.Errorf("%d warnings, want %d", got.Anomalies, w.Anomalies)
	}
	return nil
}
