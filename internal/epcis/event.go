// Package epcis reads EPCIS 2.0 documents (GS1, ISO/IEC 19987:2024) in their JSON
// binding, writes objects in one canonical spelling, and computes the event hash of
// CBV 2.0 (section 8.9). What it makes of a document is Event values that no longer
// depend on how the document was written.
//
// It is pure: bytes in, values out.
package epcis

import (
	"encoding/json"
	"time"
)

// Kind is the type of an event. A quantity-only or unknown type is an error of Parse.
type Kind uint8

const (
	Object Kind = iota + 1
	Aggregation
	Transformation
	Association
)

// Action is what an event says of the life of its objects; None for a transformation.
type Action uint8

const (
	None Action = iota
	Add
	Observe
	Delete
)

// Event is one event of a document in canonical form.
type Event struct {
	Kind   Kind
	Action Action
	Time   time.Time // UTC, whole microseconds
	Offset string    // eventTimeZoneOffset as published, "" if none
	// ID is the eventID as published, "" if there is none or if it is the event's own
	// hash, which says nothing that Hash does not say.
	ID          string
	Hash        [32]byte // of CBV 2.0; without eventID, recordTime and errorDeclaration
	BizStep     string   // short form of a CBV step ("shipping"), else the URI; "" if none
	Disposition string   // likewise
	Parent      string   // canonical parentID; "" where the kind has none or it is absent
	// EPCs is the canonical epcList, childEPCs or outputEPCList by Kind, ranges expanded,
	// in the document's order, each once. Empty with Delete means that all leave.
	EPCs   []string
	Inputs []string // canonical inputEPCList
	Source string   // the extension crawld:source, "" if none
	Error  *ErrorDeclaration
	// Raw is the event as published, as compact JSON; the document's @context is not in it.
	Raw json.RawMessage
}

// ErrorDeclaration says that the event with the same eventID (or, without one, the same
// hash) is in error. The event that carries it is no event of its own.
type ErrorDeclaration struct {
	Time       time.Time // declarationTime
	Reason     string
	Corrective []string // eventIDs
}

// Document is a parsed EPCISDocument, or a single event posted alone.
type Document struct {
	Events []Event
	// Objects counts the objects of all events, ranges by their width, before any range is
	// expanded.
	Objects int
}
