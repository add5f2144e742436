package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/discovery"
)

// The namespaces of answers.
const (
	epcisContext  = "https://ref.gs1.org/standards/epcis/2.0.0/epcis-context.jsonld"
	crawldContext = "https://github.com/crawld/crawld#"
)

// queryDocument is an EPCISQueryDocument (EPCIS 2.0, JSON binding). Its events are as they
// were published, each with the contexts that its document had beyond the standard's.
type queryDocument struct {
	Context       []any     `json:"@context"`
	Type          string    `json:"type"`
	SchemaVersion string    `json:"schemaVersion"`
	CreationDate  time.Time `json:"creationDate"`
	Withheld      int       `json:"crawld:withheld"` // of this page: what the reader may not see
	Body          struct {
		Results struct {
			QueryName string `json:"queryName"`
			Body      struct {
				EventList []json.RawMessage `json:"eventList"`
			} `json:"resultsBody"`
		} `json:"queryResults"`
	} `json:"epcisBody"`

	next     string // nextPageToken of the page that follows, "" at the end
	size     int    // of the events in bytes
	contexts documentContexts
	seen     func(source string) bool
}

func newQueryDocument(visible func(source string) bool) *queryDocument {
	d := &queryDocument{Type: "EPCISQueryDocument", SchemaVersion: "2.0",
		Context:      []any{epcisContext, map[string]string{"crawld": crawldContext}},
		CreationDate: time.Now().UTC().Truncate(time.Millisecond),
		contexts:     documentContexts{}, seen: visible}
	d.Body.Results.QueryName = "SimpleEventQuery"
	d.Body.Results.Body.EventList = []json.RawMessage{}
	return d
}

func (d *queryDocument) len() int { return len(d.Body.Results.Body.EventList) }

func (d *queryDocument) full(perPage int) bool {
	return d.len() >= perPage || d.size >= maxPageBytes
}

// add appends the event, or counts it where it may not be seen.
func (d *queryDocument) add(r discovery.Record) {
	if d.seen != nil && !d.seen(r.Event.Source) {
		d.Withheld++
		return
	}
	event := d.contexts.with(r)
	d.size += len(event)
	d.Body.Results.Body.EventList = append(d.Body.Results.Body.EventList, event)
}

// documentContexts are what signed documents say in @context beyond the standard's, as a
// member of an event with a comma at its end; by the document's signature.
type documentContexts map[string]string

// with is the event as published, with its document's contexts: the prefixes of its
// extensions are declared there.
func (c documentContexts) with(r discovery.Record) json.RawMessage {
	_, rest, _ := bytes.Cut(r.Signature, []byte("."))
	payload, signature, ok := bytes.Cut(rest, []byte("."))
	if !ok || len(r.Event.Raw) < 2 {
		return r.Event.Raw
	}
	member, known := c[string(signature)]
	if !known {
		member = contextMember(payload)
		c[string(signature)] = member
	}
	var own struct {
		Context json.RawMessage `json:"@context"`
	}
	if member == "" || json.Unmarshal(r.Event.Raw, &own) != nil || own.Context != nil {
		return r.Event.Raw
	}
	return slices.Concat(r.Event.Raw[:1], []byte(member), r.Event.Raw[1:])
}

func contextMember(payload []byte) string {
	text, err := base64.RawURLEncoding.DecodeString(string(payload))
	var document struct {
		Context json.RawMessage `json:"@context"`
	}
	if err != nil || json.Unmarshal(text, &document) != nil {
		return "" // it was read when it was published: this is another form of document
	}
	var all []json.RawMessage
	if json.Unmarshal(document.Context, &all) != nil {
		all = []json.RawMessage{document.Context}
	}
	own := slices.DeleteFunc(all, func(entry json.RawMessage) bool {
		var name string
		return len(entry) == 0 || string(entry) == "null" ||
			json.Unmarshal(entry, &name) == nil && name == epcisContext
	})
	if len(own) == 0 {
		return ""
	}
	list, err := json.Marshal(own)
	if err != nil {
		return ""
	}
	return `"@context":` + string(list) + ","
}
