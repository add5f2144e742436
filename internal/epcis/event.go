package epcis

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrTooMany is wrapped by the error of Parse for more objects than allowed.
var ErrTooMany = errors.New("too many objects")

// Kind is the type of an event.
type Kind uint8

const (
	Object Kind = iota + 1
	Aggregation
	Transformation
	Association
	// Transaction ties objects to business transactions. Its action is about that tie: it
	// neither moves an object nor begins or ends its life.
	Transaction
)

var kindNames = [...]string{
	Object: "ObjectEvent", Aggregation: "AggregationEvent",
	Transformation: "TransformationEvent", Association: "AssociationEvent",
	Transaction: "TransactionEvent",
}

// String is the name that EPCIS has for the type: "ObjectEvent".
func (k Kind) String() string { return nameOf(kindNames[:], int(k), "Kind") }

// MarshalText is String, so JSON holds the name.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText takes what MarshalText made.
func (k *Kind) UnmarshalText(text []byte) error {
	for i, name := range kindNames {
		if i > 0 && name == string(text) {
			*k = Kind(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no type of an event", text)
}

// Action is what an event says of the life of its objects; None for a transformation.
type Action uint8

const (
	None Action = iota
	Add
	Observe
	Delete
)

var actionNames = [...]string{None: "", Add: "ADD", Observe: "OBSERVE", Delete: "DELETE"}

// String is the name that EPCIS has for the action: "ADD". None has "".
func (a Action) String() string { return nameOf(actionNames[:], int(a), "Action") }

// MarshalText is String, so JSON holds the name.
func (a Action) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText takes what MarshalText made.
func (a *Action) UnmarshalText(text []byte) error {
	for i, name := range actionNames {
		if name == string(text) {
			*a = Action(i)
			return nil
		}
	}
	return fmt.Errorf("%q is no action; ADD, OBSERVE or DELETE was expected", text)
}

// nameOf is the i-th name, or a number for a value that no constant has.
func nameOf(names []string, i int, of string) string {
	if i < len(names) && (names[i] != "" || of == "Action") {
		return names[i]
	}
	return fmt.Sprintf("%s(%d)", of, i)
}

// Event is one event of a document in canonical form.
type Event struct {
	Kind   Kind
	Action Action
	Time   time.Time // UTC, whole microseconds; further digits are cut off
	Offset string    // eventTimeZoneOffset as published, "" if none
	// ID is the eventID as published, "" if there is none or if it is the event's own
	// hash, which says nothing that Hash does not say.
	ID          string
	Hash        [32]byte // of CBV 2.0; without eventID, recordTime and errorDeclaration
	BizStep     string   // short form of a CBV step ("shipping"), else the URI; "" if none
	Disposition string   // likewise
	// Parent is the canonical parentID; "" where the kind has none or it is absent, and for
	// the DELETE of quantities alone: its parent keeps its instances.
	Parent string
	// EPCs is the canonical epcList, childEPCs or outputEPCList by Kind, ranges expanded,
	// in the document's order, each once. Empty with Delete and a Parent means that all
	// leave; otherwise the event speaks of quantities or sensor data only.
	EPCs   []string
	Inputs []string // canonical inputEPCList
	Source string   // the extension crawld:source, "" if none
	Error  *ErrorDeclaration
	// Raw is the event as published, as compact JSON. The document's @context is not in it,
	// so the hash of an event with extensions cannot be had from Raw alone.
	Raw json.RawMessage
}

// ErrorDeclaration says that the event with the same eventID (or, without one, the same
// hash) is in error. The event that carries it is no event of its own.
type ErrorDeclaration struct {
	Time       time.Time // declarationTime, as Event.Time
	Reason     string    // short form of a CBV reason ("incorrect_data"), else the URI
	Corrective []string  // eventIDs
}

// Document is a parsed EPCISDocument, or a single event posted alone.
type Document struct {
	Events []Event
	// Objects counts the entries of the EPC lists of all events, ranges by their width,
	// before any range is expanded. Parents are not counted.
	Objects int
}

// EventID is what names the event: its ID, else the URI of its hash,
// ni:///sha-256;<64 hex digits>?ver=CBV2.0.
func (e *Event) EventID() string {
	if e.ID != "" {
		return e.ID
	}
	return HashURI(e.Hash)
}

// HashURI is the ni URI (RFC 6920) of a CBV 2.0 event hash.
func HashURI(hash [32]byte) string {
	return "ni:///sha-256;" + hex.EncodeToString(hash[:]) + "?ver=CBV2.0"
}
