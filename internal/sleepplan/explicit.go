package sleepplan

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"
)

// explicit is a non-empty list of windows: sorted, disjoint, not touching, UTC.
type explicit struct {
	windows []Window
}

// Explicit is the plan of a sensor whose windows are listed one by one, in any
// order. Touching windows are merged. Between the windows and before the first
// one the sensor is asleep; after the last one the plan is unknown, not asleep.
//
// Errors name the index in ws: an empty list, a window that does not end after
// its start, or two windows that overlap.
func Explicit(ws []Window) (Plan, error) {
	if len(ws) == 0 {
		return Plan{}, errors.New("windows: the list is empty; declare the plan unknown instead")
	}
	// Indices are sorted rather than windows, so that errors can name the place
	// in the caller's list.
	order := make([]int, len(ws))
	for i, w := range ws {
		if !w.Start.Before(w.End) {
			return Plan{}, fmt.Errorf("windows[%d]: end %s is not after start %s",
				i, stamp(w.End), stamp(w.Start))
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return ws[a].Start.Compare(ws[b].Start)
	})
	var list []Window
	for k, i := range order {
		w := Window{ws[i].Start.UTC(), ws[i].End.UTC()}
		switch last := len(list) - 1; {
		case k == 0 || w.Start.After(list[last].End):
			list = append(list, w)
		case w.Start.Equal(list[last].End):
			list[last].End = w.End
		default:
			return Plan{}, fmt.Errorf("windows[%d]: starts at %s, before windows[%d] ends at %s",
				i, stamp(w.Start), order[k-1], stamp(list[last].End))
		}
	}
	return Plan{kind: KindExplicit, explicit: &explicit{list}}, nil
}

// stamp writes an instant as plans show it.
func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// end is where the plan's knowledge ends.
func (e *explicit) end() time.Time { return e.windows[len(e.windows)-1].End }

// search is the index of the first of the sorted, disjoint windows that ends
// after t.
func search(ws []Window, t time.Time) int {
	return sort.Search(len(ws), func(i int) bool { return ws[i].End.After(t) })
}

// equal may compare with ==: all instants are in UTC without monotonic reading.
func (e *explicit) equal(o *explicit) bool { return slices.Equal(e.windows, o.windows) }

func (e *explicit) appendWindows(dst []Window, from, to time.Time) []Window {
	for _, w := range e.windows[search(e.windows, from):] {
		w, ok := w.clip(from, to)
		if !ok {
			break
		}
		dst = append(dst, w)
	}
	return dst
}

func (e *explicit) nextAwake(t time.Time) (time.Time, bool) {
	i := search(e.windows, t)
	if i == len(e.windows) {
		return time.Time{}, false
	}
	return later(e.windows[i].Start, t), true
}

// window is the window that contains t; the sensor must be awake then.
func (e *explicit) window(t time.Time) Window { return e.windows[search(e.windows, t)] }

func (e *explicit) String() string {
	noun := "windows"
	if len(e.windows) == 1 {
		noun = "window"
	}
	return fmt.Sprintf("%d %s until %s", len(e.windows), noun, stamp(e.end()))
}
