package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/repository"
)

// maxPublishing is how many bytes of bodies are worked on at a time, until they are
// committed: 64 of the longest, or thousands as they usually are.
const maxPublishing = 16 << 20

// maxDrained is how much of a refused body is read and thrown away: a client that still
// sends when the connection is closed may miss the answer.
const maxDrained = 1 << 20

// joseType is RFC 7515 section 9.2.1.
const joseType = "application/jose"

// Results of publications beside the codes of refusals.
const (
	publishStored   = "stored"
	publishReplayed = "replayed" // all of it was there
	publishUnsigned = "unsigned"
	publishConflict = "conflict"
	publishFull     = "full"
	publishFailed   = "failed"
)

// Results of traces.
const (
	traceComplete  = "complete"
	traceTruncated = "truncated"
	traceFailed    = "failed"
)

// discoveryMetrics count what becomes of publications and traces.
type discoveryMetrics struct {
	publishes *prometheus.CounterVec
	events    prometheus.Counter
	traces    *prometheus.CounterVec
}

func newDiscoveryMetrics(reg prometheus.Registerer) *discoveryMetrics {
	opts := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: "crawld_discovery_" + name, Help: help}
	}
	m := &discoveryMetrics{
		publishes: prometheus.NewCounterVec(opts("publishes_total",
			"Publications of events, by what became of them."), []string{"result"}),
		events: prometheus.NewCounter(opts("events_stored_total",
			"Events that were published and not there yet.")),
		traces: prometheus.NewCounterVec(opts("traces_total",
			"Traces of objects, by whether all was found within the bounds."), []string{"result"}),
	}
	for _, result := range append(discovery.Codes(), publishStored, publishReplayed,
		publishUnsigned, publishConflict, publishFull, publishFailed) {
		m.publishes.WithLabelValues(result)
	}
	for _, result := range []string{traceComplete, traceTruncated, traceFailed} {
		m.traces.WithLabelValues(result)
	}
	if reg != nil {
		reg.MustRegister(m.publishes, m.events, m.traces)
	}
	return m
}

// published is one event of a publication that was taken.
type published struct {
	EventID string `json:"event_id"` // eventID, else the URI of its hash
	Stored  bool   `json:"stored"`   // false: it was there
}

type publication struct {
	Events []published `json:"events"` // in the document's order
}

// publish is POST /events and POST /capture. It answers once all events are committed: 201,
// or 200 where all of them were there.
func (s *server) publish(w http.ResponseWriter, r *http.Request) {
	taken, err := s.take(w, r)
	if err != nil {
		s.counts.publishes.WithLabelValues(publishResult(err)).Inc()
		_, _ = io.Copy(io.Discard, r.Body) // hardened bounds it
		s.refuse(w, r, err)
		return
	}
	fresh := 0
	for _, e := range taken.Events {
		if e.Stored {
			fresh++
		}
	}
	status, result := http.StatusOK, publishReplayed
	if fresh > 0 {
		status, result = http.StatusCreated, publishStored
	}
	s.counts.publishes.WithLabelValues(result).Inc()
	s.counts.events.Add(float64(fresh))
	text, err := json.Marshal(taken)
	if err != nil {
		panic(err) // strings and booleans can be written
	}
	writeJSON(w, status, append(text, '\n'))
}

// take checks a publication and stores it.
func (s *server) take(w http.ResponseWriter, r *http.Request) (publication, error) {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != joseType {
		return publication{}, fault{status: http.StatusUnsupportedMediaType, code: publishUnsigned,
			text: "events are published signed: send a compact JWS (RFC 7515, EdDSA) over the EPCIS " +
				"document with Content-Type: " + joseType + "; crawld publish FILE --key KEY signs and sends"}
	}
	gate, token := s.o.Gate(), bearer(r)
	if err := gate.Admit(token, r.ContentLength); err != nil {
		return publication{}, err
	}
	if err := s.o.Repo.Refuses(); errors.Is(err, repository.ErrFull) {
		return publication{}, err
	}
	free, err := s.room(r)
	if err != nil {
		return publication{}, err
	}
	defer free()
	body, err := io.ReadAll(io.LimitReader(r.Body, discovery.MaxBody+1)) // one more is refused
	if err != nil {
		return publication{}, faultf(http.StatusBadRequest, "the body could not be read: %v", err)
	}
	records, err := gate.Check(token, body, time.Now())
	if err != nil {
		return publication{}, err
	}
	stored, err := s.events.Publish(r.Context(), records)
	if err != nil {
		return publication{}, err
	}
	list := publication{Events: make([]published, len(records))}
	for i := range records {
		list.Events[i] = published{records[i].Event.EventID(), stored[i]}
	}
	return list, nil
}

// room waits until there is memory for the request's body.
func (s *server) room(r *http.Request) (free func(), err error) {
	n := r.ContentLength
	if n < 0 {
		n = discovery.MaxBody
	}
	if err := s.publishing.Acquire(r.Context(), n); err != nil {
		return nil, faultf(http.StatusServiceUnavailable,
			"too much is being published; try again, what was stored is not stored twice")
	}
	return func() { s.publishing.Release(n) }, nil
}

func newPublishing() *semaphore.Weighted { return semaphore.NewWeighted(maxPublishing) }

// bearer is the token of a request (RFC 6750 section 2.1), "" if it has none.
func bearer(r *http.Request) string {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.Trim(token, " ")
}

// publishResult is the metric's label of an error.
func publishResult(err error) string {
	var refusal *discovery.Refusal
	var f fault
	switch {
	case errors.As(err, &refusal):
		return refusal.Code
	case errors.Is(err, discovery.ErrConflict):
		return publishConflict
	case errors.Is(err, repository.ErrFull):
		return publishFull
	case errors.As(err, &f) && f.code == publishUnsigned:
		return publishUnsigned
	}
	return publishFailed
}

// discoveryFault maps what the Discovery Service's parts say to an answer.
func discoveryFault(err error) (f fault, ok bool) {
	var refusal *discovery.Refusal
	switch {
	case errors.As(err, &refusal):
		return fault{refusal.Status, refusal.Text, refusal.Code}, true
	case errors.Is(err, discovery.ErrConflict):
		return fault{http.StatusConflict, err.Error(), publishConflict}, true
	case errors.Is(err, repository.ErrFull):
		return fault{http.StatusInsufficientStorage, "nothing was stored: " + err.Error(),
			publishFull}, true
	case errors.Is(err, repository.ErrCursor):
		return fault{status: http.StatusBadRequest, text: "nextPageToken: is none that was given here"},
			true
	case errors.Is(err, context.DeadlineExceeded):
		return fault{status: http.StatusServiceUnavailable, text: err.Error() +
			"; asking again does no harm"}, true
	}
	return fault{}, false
}

// challenge is the header that RFC 6750 section 3 wants with 401 and 403.
func challenge(f fault) string {
	const realm = `Bearer realm="crawld"`
	switch {
	case f.code == discovery.NoToken:
		return realm
	case f.code == discovery.UnknownToken:
		return realm + `, error="invalid_token"`
	case f.status == http.StatusForbidden && slices.Contains(discovery.Codes(), f.code):
		return realm + `, error="insufficient_scope"`
	}
	return ""
}
