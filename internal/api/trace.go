package api

import (
	"context"
	"net/http"
	"time"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

// maxQueries are answered at a time: a trace may read 100 000 cells, a page many documents.
const maxQueries = 64

// querying waits for a slot.
func (s *server) querying(ctx context.Context) (free func(), err error) {
	select {
	case s.queries <- struct{}{}:
		return func() { <-s.queries }, nil
	case <-ctx.Done():
		return nil, faultf(http.StatusServiceUnavailable,
			"%d queries of events are being answered; try again", maxQueries)
	}
}

// Trace is the answer to GET /epcs/{epc}/trace, and what crawld trace prints.
type Trace struct {
	Object    string         `json:"object"` // canonical
	Events    []TraceEvent   `json:"events"` // by time
	Sources   []TraceSource  `json:"sources"`
	Finished  bool           `json:"finished"` // its life has ended
	Inside    []string       `json:"inside"`   // at the end of the window, nearest first
	Warnings  []TraceWarning `json:"warnings"`
	Truncated bool           `json:"truncated"` // a bound was met: there may be more
	Withheld  int            `json:"withheld"`  // what the reader may not see
}

// TraceEvent is one event of a trace.
type TraceEvent struct {
	EventID string    `json:"event_id"` // eventID, else the URI of its hash
	Type    string    `json:"type"`     // of EPCIS, or Description
	Action  string    `json:"action"`   // "" if the type has none
	BizStep string    `json:"biz_step"`
	Time    time.Time `json:"time"`
	Level   int       `json:"level"` // 0 = the object itself, 1 = what it was in, ...
	Path    []string  `json:"path"`  // from the object to the one that the event names
	Source  string    `json:"source"`
	Role    string    `json:"role"`             // what it means for the last of the path
	Parent  string    `json:"parent,omitempty"` // that it joins, is seen in, or leaves
}

// TraceSource is an information service that knows more of the object.
type TraceSource struct {
	ID      string `json:"id"`
	Address string `json:"address"` // "" if no publisher has it any more
	Type    string `json:"type"`
}

// TraceWarning is something that cannot be as the events say.
type TraceWarning struct {
	Code      string `json:"code"`
	Object    string `json:"object"`
	EventID   string `json:"event_id,omitempty"`
	Container string `json:"container,omitempty"`
}

// roles are the names of discovery.Role in answers.
var roles = map[discovery.Role]string{discovery.Plain: "plain", discovery.Birth: "birth",
	discovery.End: "end", discovery.Join: "join", discovery.Seen: "seen",
	discovery.Leave: "leave", discovery.AllLeave: "all_leave", discovery.Container: "container"}

// descriptionType is the type of what a sensor said of itself; EPCIS has no name for it.
const descriptionType = "Description"

// NewTrace writes an answer out. source tells what is known of an information service.
func NewTrace(a discovery.Answer, source func(id string) discovery.Source) Trace {
	t := Trace{Object: a.Object, Events: make([]TraceEvent, len(a.Events)),
		Sources: make([]TraceSource, len(a.Sources)), Finished: a.Finished,
		Inside: append([]string{}, a.Inside...), Warnings: make([]TraceWarning, len(a.Warnings)),
		Truncated: a.Truncated, Withheld: a.Withheld}
	for i, e := range a.Events {
		kind, action := descriptionType, ""
		if e.Kind != 0 {
			kind = e.Kind.String()
		}
		if e.Action != epcis.None {
			action = e.Action.String()
		}
		t.Events[i] = TraceEvent{e.EventID, kind, action, e.BizStep, time.UnixMicro(e.Time).UTC(),
			e.Level, e.Path, e.Source, roles[e.Role], e.Parent}
	}
	for i, id := range a.Sources {
		t.Sources[i] = TraceSource(source(id))
	}
	for i, w := range a.Warnings {
		t.Warnings[i] = TraceWarning(w)
	}
	return t
}

// trace is GET /epcs/{epc}/trace.
func (s *server) trace(r *http.Request) (any, error) {
	visible, err := s.visible(r)
	if err != nil {
		return nil, err
	}
	q := parseQuery(r, nil, "from", "to", "follow")
	ask := discovery.Query{From: q.micro("from", discovery.Beginning),
		To: q.micro("to", discovery.Forever), Follow: q.follow(), Visible: visible}
	if ask.From > ask.To {
		q.fail("from: expected a time that is not after to")
	}
	if q.err != nil {
		return nil, q.err
	}
	if ask.Object, err = s.object(r); err != nil {
		return nil, err
	}
	free, err := s.querying(r.Context())
	if err != nil {
		return nil, err
	}
	defer free()
	answer, err := discovery.Trace(r.Context(), s.events, ask)
	switch {
	case err != nil:
		s.counts.traces.WithLabelValues(traceFailed).Inc()
		return nil, err
	case answer.Truncated:
		s.counts.traces.WithLabelValues(traceTruncated).Inc()
	default:
		s.counts.traces.WithLabelValues(traceComplete).Inc()
	}
	return NewTrace(answer, s.o.Gate().Source), nil
}

// follow reads in which direction transformations are followed.
func (q *query) follow() discovery.Follow {
	switch given := q.values.Get("follow"); given {
	case "forward":
		return discovery.Forward
	case "backward":
		return discovery.Backward
	default:
		if q.values.Has("follow") {
			q.fail("follow: %s; expected forward or backward", clip(given))
		}
	}
	return discovery.Stay
}
