package discovery

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/epcis"
)

// ErrConflict is wrapped by the error of Publish for an event that has the identity of a
// stored one but another content.
var ErrConflict = errors.New("another event with this ID is stored")

// Family is a group of cells of an object that are read together. Kept apart is what is
// asked for apart: where an object was is known from few cells of its life and its stays,
// however often it was observed or emptied meanwhile.
type Family byte

const (
	Contents     Family = 'c' // what it contains: its roles as a parent
	Descriptions Family = 'd' // what it said of itself when it was crawled
	Emptied      Family = 'e' // when all that it contained left
	Life         Family = 'l' // its births and ends
	Aggregated   Family = 'm' // its stays in containers by aggregation
	Associated   Family = 'n' // and by association
	Observed     Family = 'o' // what else is said of it
)

// EventFamilies are the families of cells that are written for events, in their order.
var EventFamilies = [...]Family{Contents, Emptied, Life, Aggregated, Associated, Observed}

// Role is what an event means for the object in whose row the cell is.
type Role uint8

const (
	Plain     Role = iota + 1 // observed, or described
	Birth                     // ObjectEvent ADD, or output of a transformation
	End                       // ObjectEvent DELETE, or input of a transformation
	Join                      // ADD to Cell.Parent
	Seen                      // OBSERVE in Cell.Parent
	Leave                     // DELETE from Cell.Parent
	AllLeave                  // DELETE with this object as parent and no children (Emptied)
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
	// Read lets fn read rows. fn does nothing slow and asks the store for nothing else: other
	// work may wait for its end. Read's error is that of fn or of the store.
	Read(fn func(Rows) error) error
	// Events returns records by event time, newest first, from <= Time < to, at most limit,
	// after the cursor of the page before ("" = from the newest). next = "": no more.
	Events(from, to int64, cursor string, limit int) (records []Record, next string, err error)
	// Record returns the records with that event ID, of whichever publisher, declarations of
	// their errors among them; none if it is unknown.
	Record(eventID string) (records []Record, err error)
}

// Rows reads rows of cells one after another, on one goroutine. It promises no snapshot over
// several cells.
//
// Scans of one object in the order of families, and in each from newer to older times, are
// the cheapest: they go through rows that lie next to each other.
type Rows interface {
	// Scan begins a row: the cells of a family of an object with from <= Time <= to.
	Scan(object string, f Family, from, to int64)
	// Next reads the next cell into c, the newest first, those of one instant in no order. At
	// the end of the row there is none.
	Next(c *Cell) (is bool, err error)
}

// Newest reads the cells of an object's events with from <= Time <= to, the newest first,
// those of one instant by their identity. The instant of the nth is read whole, so that
// fewer than n are the last ones, and more are to be had with to = the oldest Time - 1.
func Newest(s Store, object string, from, to int64, n int) (all []Cell, err error) {
	err = s.Read(func(rows Rows) error {
		for _, f := range EventFamilies {
			rows.Scan(object, f, from, to)
			first := len(all)
			if all, err = newest(rows, all, n); err != nil {
				return err
			}
			if have := len(all) - first; have >= n && have > 0 {
				from = all[len(all)-1].Time // what is older is not read of all families
			}
		}
		return nil
	})
	slices.SortStableFunc(all, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), bytes.Compare(a.ID16[:], b.ID16[:]))
	})
	if n > 0 && len(all) > n {
		from = max(from, all[n-1].Time)
	}
	return slices.DeleteFunc(all, func(c Cell) bool { return c.Time < from }), err
}

// newest appends n cells of a row and what else there is at the last one's instant, of up to
// MaxCells.
func newest(rows Rows, all []Cell, n int) ([]Cell, error) {
	for first := len(all); ; {
		var c Cell
		is, err := rows.Next(&c)
		have := len(all) - first
		if err != nil || !is || have > n+MaxCells ||
			have >= n && (have == 0 || c.Time != all[len(all)-1].Time) {
			return all, err
		}
		all = append(all, c)
	}
}
