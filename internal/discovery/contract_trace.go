package discovery

import (
	"context"
	"math"
)

// Follow says in which direction transformations are followed.
type Follow uint8

const (
	Stay     Follow = iota
	Forward         // from inputs to outputs
	Backward        // from outputs to inputs
)

// Unbounded ends of a Query.
const (
	Beginning = int64(math.MinInt64)
	Forever   = int64(math.MaxInt64)
)

// Query asks for the history of an object.
type Query struct {
	Object   string // canonical
	From, To int64  // microseconds, From <= event < To; Beginning, Forever
	Follow   Follow
	// Visible says whether the asker may see events of that source; nil = all. What is not
	// visible takes no part in the trace: it is counted in Answer.Withheld.
	Visible func(source string) bool
}

// Answer is what was found.
type Answer struct {
	Object    string
	Events    []Traced // by time; those of one instant in the order they were played
	Sources   []string // by first appearance
	Finished  bool     // the object's life has ended
	Inside    []string // containers at the end of the window, nearest first
	Warnings  []Warning
	Truncated bool
	Withheld  int // cells that were left out
}

// Traced is a cell with how it belongs to the object that was asked for.
type Traced struct {
	Cell
	Level int      // 0 = the object itself, 1 = what it was in, ...
	Path  []string // from the object to the one in whose row it was found
}

// Warning is something in the row that cannot be as it says, told once.
type Warning struct {
	Code      string // "unmatched_delete", "double_add", "lost_delete", ...
	Object    string
	EventID   string // or "", where it is about a container
	Container string
}

// Trace walks the rows of the object and its containers.
func Trace(ctx context.Context, s Store, q Query) (Answer, error) { panic("contract") }
