// Package discovery is the Discovery Service: which information services know something
// of an object, and the history of that object through its containers, in one request. Its
// schema is that of Zhao et al., "A Scalable and High-efficiency Discovery Service In IoT
// Using a New Storage Schema" (COMPSAC 2013); its tracing is a corrected form of that
// paper's recursive discovery.
package discovery

import (
	"context"
	"time"

	"github.com/crawld/crawld/internal/epcis"
)

// Family is a group of cells of an object that are read together.
type Family byte

const (
	Movement     Family = 'm' // where the object is, its birth and end, what is said of it
	Contents     Family = 'c' // what it contains: its roles as a parent
	Descriptions Family = 'd' // what it said of itself when it was crawled
)

// Role is what an event means for the object in whose row the cell is.
type Role uint8

const (
	Plain     Role = iota + 1 // observed, or described
	Birth                     // ObjectEvent ADD, or output of a transformation
	End                       // ObjectEvent DELETE, or input of a transformation
	Join                      // ADD to Cell.Parent
	Seen                      // OBSERVE in Cell.Parent
	Leave                     // DELETE from Cell.Parent
	AllLeave                  // DELETE with this object as parent and no children (Movement)
	Container                 // any event with this object as parent (Contents)
)

// Cell is what one row says of one event: all that a trace needs.
type Cell struct {
	Object  string // canonical
	Family  Family
	Time    int64    // microseconds since 1970
	ID16    [16]byte // identity of the event: rows of one instant differ in it
	Erased  bool     // the event is declared an error, whenever that was declared
	Role    Role
	Kind    epcis.Kind // 0 for a description
	Action  epcis.Action
	Parent  string // of Join, Seen, Leave
	EventID string
	BizStep string
	Source  string // id of the information service, "" if none
}

// Record is an event on its way into the store, or out of it.
type Record struct {
	Event     epcis.Event
	Publisher string    // kid, "" if it was not published over the network
	Recorded  time.Time // recordTime: when it was stored, UTC, whole microseconds
	Signature []byte    // the compact JWS that it came in, nil if none; shared by its document
}

// Store keeps cells and events. What it acknowledges is durable, and it reads its own
// acknowledged writes. It promises no snapshot over several calls. An engine other than
// bbolt needs to implement this and no more.
type Store interface {
	// Publish stores the records that are not there yet with all their cells, and reports
	// for each whether it was new. All or nothing. An event with the identity of a stored
	// one but another content is ErrConflict.
	Publish(ctx context.Context, records []Record) (stored []bool, err error)
	// Read returns at most limit cells of a row with from <= Time <= to, the newest first;
	// those of one instant in no order. More is to be had with to = the oldest Time and the
	// cells of that instant left out: a page never ends within an instant unless limit
	// cells are not enough for it, in which case the whole instant is returned.
	Read(object string, f Family, from, to int64, limit int) ([]Cell, error)
	// Events returns records by event time, newest first, from <= Time < to, at most limit,
	// after the cursor of the page before ("" = from the newest).
	Events(from, to int64, cursor string, limit int) (records []Record, next string, err error)
	// Record returns the record with that event ID, of whichever publisher; ok = false if none.
	Record(eventID string) (records []Record, err error)
}
