package sleepplan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	day = 24 * time.Hour

	// maxShift is the furthest a zone's offset is from UTC or has been moved at
	// once: Pacific/Apia left out the whole of 2011-12-30.
	maxShift = day

	// lookAround is how far Plan.Window follows a weekly window to either side.
	// Seven days of wakefulness in a row mean that the week has no gap.
	lookAround = 8 * day
)

// weekly is a set of wall-clock windows per date in a time zone.
//
// A window is kept as (zone, wall start, duration). Every date that a window is
// declared for has exactly one, which begins at one instant and lasts its
// duration in elapsed time, whatever the clocks do:
//
//   - the duration is the difference of the two wall-clock times, taken as if
//     the day had 24 hours: 18:00-09:00 is 15 h on every date;
//   - a start that the clocks skip (they go forward) is read with the offset in
//     force before the change: 02:30 in a gap from 02:00 to 03:00 is 03:30;
//   - a start that the clocks show twice (they go back) is the first of the two.
//
// The last two are the rules of RFC 5545 section 3.3.5. So windows keep their
// length and their order in elapsed time, and where two come to overlap across a
// change they are merged. The price: on the date of a change the END reads an
// hour off on the wall clock, and 00:00-24:00 leaves the 25th hour out.
type weekly struct {
	zone    *time.Location
	days    [7][]slot // by time.Weekday of the date the window starts on
	except  []dated   // sorted by date; replaces days for its date
	entries []string  // as declared, for String
}

// slot is one window of a date; start is the wall clock's reading as time since
// midnight, 0 <= start < 24 h and 0 < length <= 24 h.
type slot struct {
	start, length time.Duration
}

// dated holds the windows of one exceptional date, in days since 1970-01-01.
type dated struct {
	date  int64
	slots []slot
}

// dateOf is the local date at t in days since 1970-01-01.
func (w *weekly) dateOf(t time.Time) int64 {
	_, offset := t.In(w.zone).Zone()
	return floorDiv(t.Unix()+int64(offset), int64(day/time.Second))
}

// findExcept is the place of a date among the exceptions, and whether it is one.
func (w *weekly) findExcept(date int64) (int, bool) {
	return slices.BinarySearchFunc(w.except, date, func(x dated, date int64) int {
		return cmp.Compare(x.date, date)
	})
}

// slotsOn is what starts on a date.
func (w *weekly) slotsOn(date int64) []slot {
	if i, ok := w.findExcept(date); ok {
		return w.except[i].slots
	}
	thursday := int64(time.Thursday) // the weekday of 1970-01-01
	return w.days[(date%7+7+thursday)%7]
}

// on is the window that slot s has on a date.
func (w *weekly) on(date int64, s slot) Window {
	start := instant(time.Unix(date*int64(day/time.Second), 0).UTC().Add(s.start), w.zone)
	return Window{start, start.Add(s.length)}
}

// instant is when the zone's clock shows the reading wall (given as if it were
// UTC), by the rules of RFC 5545 section 3.3.5 for readings that are skipped or
// shown twice. time.Date leaves open which of two instants it answers.
func instant(wall time.Time, zone *time.Location) time.Time {
	probe := wall.Add(-maxShift)
	for first, before := true, wall; ; first = false {
		local := probe.In(zone)
		_, offset := local.Zone()
		begin, end := local.ZoneBounds()
		at := wall.Add(-time.Duration(offset) * time.Second)
		switch {
		case !end.IsZero() && !at.Before(end): // shown after this offset ends
			before, probe = at, end
		case !first && at.Before(begin): // skipped: the last offset counts on
			return before
		default:
			return at
		}
	}
}

// reach is the dates whose windows can meet [from, to): a window lasts up to a
// day, and offsets at its start and at from differ by up to maxShift.
func (w *weekly) reach(from, to time.Time) (first, last int64) {
	return w.dateOf(from) - 2, w.dateOf(to) + 1
}

// appendWindows clips each date's windows before it merges them: cheaper, and
// the same.
func (w *weekly) appendWindows(dst []Window, from, to time.Time) []Window {
	base := len(dst)
	first, last := w.reach(from, to)
	for date := first; date <= last; date++ {
		for _, s := range w.slotsOn(date) {
			if c, ok := w.on(date, s).clip(from, to); ok {
				dst = insert(dst, base, c)
			}
		}
	}
	return dst
}

// insert merges w into the windows dst[base:]. They arrive in order but for
// the hours around a change of the clocks, so the search from the end is short.
func insert(dst []Window, base int, w Window) []Window {
	i := len(dst)
	for i > base && dst[i-1].Start.After(w.Start) {
		i--
	}
	if i > base && !dst[i-1].End.Before(w.Start) {
		i--
		dst[i].End = later(dst[i].End, w.End)
	} else {
		dst = slices.Insert(dst, i, w)
	}
	j := i + 1
	for ; j < len(dst) && !dst[j].Start.After(dst[i].End); j++ {
		dst[i].End = later(dst[i].End, dst[j].End)
	}
	return slices.Delete(dst, i+1, j)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

// nextAwake ends because some weekday has a window and exceptions are finite.
// A window found on one date can be preceded by one of the next date, if the
// clocks go forward between them, but not by one of a date after that.
func (w *weekly) nextAwake(t time.Time) time.Time {
	var next time.Time
	found := false
	date, _ := w.reach(t, t)
	for last := date; !found || date <= last; date++ {
		for _, s := range w.slotsOn(date) {
			c := w.on(date, s)
			if c.Contains(t) {
				return t
			}
			if c.Start.After(t) && (!found || c.Start.Before(next)) {
				next, found, last = c.Start, true, date+1
			}
		}
	}
	return next
}

// window widens its look until the window that contains t ends inside it.
func (w *weekly) window(t time.Time) Window {
	var room [8]Window
	for look := 2 * time.Hour; ; look = min(4*look, lookAround) {
		from, to := t.Add(-look), t.Add(look)
		ws := w.appendWindows(room[:0], from, to)
		c := ws[search(ws, t)]
		if look == lookAround || c.Start.After(from) && c.End.Before(to) {
			return c
		}
	}
}

// equal compares the normalised slots; how they were spelled does not matter.
func (w *weekly) equal(o *weekly) bool {
	for i := range w.days {
		if !slices.Equal(w.days[i], o.days[i]) {
			return false
		}
	}
	return w.zone.String() == o.zone.String() &&
		slices.EqualFunc(w.except, o.except, func(a, b dated) bool {
			return a.date == b.date && slices.Equal(a.slots, b.slots)
		})
}

func (w *weekly) String() string {
	text := fmt.Sprintf("weekly %s (%v", strings.Join(w.entries, ", "), w.zone)
	switch n := len(w.except); n {
	case 0:
		return text + ")"
	case 1:
		return text + ", 1 exception)"
	default:
		return fmt.Sprintf("%s, %d exceptions)", text, n)
	}
}
