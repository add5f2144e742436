package discovery

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"

	"github.com/crawld/crawld/internal/epcis"
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

// What one Trace may cost. What is beyond is left out, and the answer Truncated.
const (
	MaxDepth  = 16      // containers in each other
	MaxEvents = 10_000  // in an answer
	MaxCells  = 100_000 // that are read for it
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
	Withheld  int // cells that were left out, in the window or of what went before it
}

// Traced is a cell with how it belongs to the object that was asked for. An event is told
// once, at its lowest level. Where transformations are followed, the path begins with the
// input or output whose history it is, and levels count from there.
type Traced struct {
	Cell
	Level int      // 0 = the object itself, 1 = what it was in, ...
	Path  []string // from the object to the one in whose row it was found
}

// Warning is something in the row that cannot be as it says, told once. The package comment
// lists the codes.
type Warning struct {
	Code      string
	Object    string // in whose row it is
	EventID   string // or "", where it is about a container
	Container string
}

// Trace walks the rows of the object and its containers. Its errors are those of the store
// and the context; whatever the rows say, there is an answer.
func Trace(ctx context.Context, s Store, q Query) (Answer, error) {
	t := tracers.Get().(*tracer)
	defer t.free()
	t.ctx, t.store, t.visible, t.answer = ctx, s, q.Visible, Answer{Object: q.Object}
	switch q.Follow {
	case Forward:
		t.turn = End
	case Backward:
		t.turn = Birth
	}
	to := q.To - 1
	switch q.To {
	case Forever:
		to = Forever
	case Beginning: // before which nothing is
		q.From, to = Beginning+1, Beginning
	}
	if q.From != Beginning { // an empty window stands where it would open
		to = max(to, q.From-1)
	}
	top, err := t.top(q.Object, q.From, to)
	if err != nil {
		return Answer{}, err
	}
	t.answer.Finished, t.answer.Inside = top.finished, top.inside
	if err := t.follow(q, to); err != nil {
		return Answer{}, err
	}
	return t.finish(), nil
}

// top walks an object's own row, in one reading of the store.
func (t *tracer) top(object string, from, to int64) (w walked, err error) {
	err = t.store.Read(func(rows Rows) (err error) {
		t.rows = rows
		w, err = t.walk([]string{object}, stay{since: from}, 0, from, to)
		return err
	})
	t.rows = nil
	return w, err
}

// tracer is one Trace under way.
type tracer struct {
	ctx     context.Context
	store   Store
	rows    Rows // while it is read
	visible func(string) bool
	answer  Answer           // Events as they are found
	turn    Role             // of a followed transformation, 0 = none is
	turns   []Cell           // those met at level 0, in order
	warned  map[Warning]bool // those told
	hidden  map[place]bool   // cells withheld
	cells   int              // read
	stopped bool             // a bound was met that ends all

	scratch
}

// scratch is what a trace needs while it is under way, kept for the next one.
type scratch struct {
	events  []Traced
	places  map[place]int // where in events an event is
	sources []string
	known   map[string]bool // those among sources
	row     []Cell          // of the walks under way
	past    []Cell          // of the innermost one
}

var tracers = sync.Pool{New: func() any {
	return &tracer{scratch: scratch{places: map[place]int{}, known: map[string]bool{}}}
}}

// keepScratch bounds what is kept: a long trace makes its own.
const keepScratch = 256

// free keeps the scratch. The texts that its cells have stay until they are written over.
func (t *tracer) free() {
	s := t.scratch
	if max(cap(s.events), cap(s.row), cap(s.past)) > keepScratch {
		return
	}
	clear(s.places)
	clear(s.known)
	s.events, s.sources, s.row, s.past = s.events[:0], s.sources[:0], s.row[:0], s.past[:0]
	*t = tracer{scratch: s}
	tracers.Put(t)
}

// place tells cells apart: of descriptions, whose identity is their body's, also by object.
type place struct {
	id     [16]byte
	time   int64
	family Family
	object string
}

func placeOf(c *Cell) place {
	if c.Family == Descriptions {
		return place{c.ID16, c.Time, Descriptions, c.Object}
	}
	return place{id: c.ID16, time: c.Time}
}

// emit puts an event into the answer, where it keeps the place it got first.
func (t *tracer) emit(c *Cell, path []string) {
	at := placeOf(c)
	level := len(path) - 1
	if level == 0 && c.Role == t.turn && c.Kind == epcis.Transformation {
		t.turns = append(t.turns, *c)
	}
	if i, told := t.places[at]; told {
		if e := &t.events[i]; level < e.Level {
			*e = Traced{*c, level, path}
		}
		return
	}
	if len(t.events) == MaxEvents {
		t.stop()
		return
	}
	t.places[at] = len(t.events)
	t.events = append(t.events, Traced{*c, level, path})
}

// stop ends the trace at a bound.
func (t *tracer) stop() { t.stopped, t.answer.Truncated = true, true }

func (t *tracer) warn(w Warning) {
	if t.warned[w] {
		return
	}
	if t.warned == nil {
		t.warned = map[Warning]bool{}
	}
	t.warned[w] = true
	t.answer.Warnings = append(t.answer.Warnings, w)
}

// takesPart tells whether a cell counts, and counts those that the asker may not see.
func (t *tracer) takesPart(c *Cell) bool {
	if c.Erased {
		return false
	}
	if t.visible == nil || t.visible(c.Source) {
		return true
	}
	at := place{c.ID16, c.Time, c.Family, c.Object}
	if !t.hidden[at] {
		if t.hidden == nil {
			t.hidden = map[place]bool{}
		}
		t.hidden[at] = true
		t.answer.Withheld++
	}
	return false
}

// finish puts the answer in order.
func (t *tracer) finish() Answer {
	byTime := func(a, b Traced) int { return cmp.Compare(a.Time, b.Time) }
	if !slices.IsSortedFunc(t.events, byTime) {
		slices.SortStableFunc(t.events, byTime)
	}
	if len(t.events) > 0 {
		t.answer.Events = slices.Clone(t.events)
	}
	for i := range t.events {
		if s := t.events[i].Source; s != "" && !t.known[s] {
			t.known[s] = true
			t.sources = append(t.sources, s)
		}
	}
	if len(t.sources) > 0 {
		t.answer.Sources = slices.Clone(t.sources)
	}
	return t.answer
}
