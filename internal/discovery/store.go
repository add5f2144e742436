package discovery

import (
	"context"
	"errors"
	"time"

	"github.com/crawld/crawld/internal/epcis"
)

// ErrConflict is wrapped by the error of Publish for an event that has the identity of a
// stored one but another content.
var ErrConflict = errors.New("another event with this ID is stored")

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
	// Publish stores the records that are not there yet with all their cells (Cells), and
	// reports for each whether it was new. All or nothing. An event with the identity
	// (Identity) of a stored one but another content, that is another Hash, is ErrConflict.
	//
	// A record with an error declaration is stored too, once for its event and publisher.
	// From then on the cells of the event with its identity are erased, if its publisher is
	// the same, also where the event comes later and whatever event time is declared.
	Publish(ctx context.Context, records []Record) (stored []bool, err error)
	// Read returns cells of a row with from <= Time <= to, the newest first; those of one
	// instant in no order. The instant that the limit falls into is returned whole, of up to
	// MaxCells: a page shorter than limit is the last one, else more is to be had with
	// to = the oldest Time - 1.
	Read(object string, f Family, from, to int64, limit int) ([]Cell, error)
	// Events returns records by event time, newest first, from <= Time < to, at most limit,
	// after the cursor of the page before ("" = from the newest). next = "": no more.
	Events(from, to int64, cursor string, limit int) (records []Record, next string, err error)
	// Record returns the records with that event ID, of whichever publisher, declarations of
	// their errors among them; none if it is unknown.
	Record(eventID string) (records []Record, err error)
}
