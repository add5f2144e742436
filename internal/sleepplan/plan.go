// Package sleepplan says when a sensor is awake.
//
// A Plan is an immutable value: always on, a duty cycle, weekly windows in a
// time zone, an explicit list of windows, or unknown. Every plan is read as
// half-open awake windows [Start, End): at End the sensor is asleep. Windows
// come out sorted and disjoint, touching ones merged, clipped to the range
// that was asked for, in UTC and without a monotonic clock reading.
//
// The package is pure: it reads no clock and does no IO of its own (Weekly
// lets package time look its zone up). For the optimiser the windows of a
// range become Spans of integer ticks, whose awake mass and first moment are
// exact integers.
package sleepplan

import (
	"strconv"
	"time"
)

// Window is a half-open stretch of awake time [Start, End).
type Window struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

// Kind tells the forms of a sleep plan apart.
type Kind uint8

// The forms an operator can declare.
const (
	KindUnknown Kind = iota // nothing is known: the sensor is polled
	KindAlwaysOn
	KindCycle    // period, awake, anchor
	KindWeekly   // wall-clock windows per weekday in a time zone
	KindExplicit // a list of windows; after the last one the plan is unknown
)

// String is the form's name in configuration and API: unknown, always_on,
// cycle, weekly or windows.
func (k Kind) String() string {
	switch k {
	case KindUnknown:
		return "unknown"
	case KindAlwaysOn:
		return "always_on"
	case KindCycle:
		return "cycle"
	case KindWeekly:
		return "weekly"
	case KindExplicit:
		return "windows"
	}
	return "kind(" + strconv.Itoa(int(k)) + ")"
}

// Span is a half-open stretch of awake ticks [Start, End), counted from an
// origin that the caller keeps.
type Span struct {
	Start, End int32
}

// Duration is the window's length.
func (w Window) Duration() time.Duration { return w.End.Sub(w.Start) }

// Contains reports whether t lies in [Start, End).
func (w Window) Contains(t time.Time) bool { return !t.Before(w.Start) && t.Before(w.End) }

// clip is the part of w inside [from, to); ok is false where there is none.
func (w Window) clip(from, to time.Time) (c Window, ok bool) {
	if w.Start.Before(from) {
		w.Start = from
	}
	if w.End.After(to) {
		w.End = to
	}
	return w, w.Start.Before(w.End)
}

// Plan is an immutable sleep plan. The zero value is Unknown. Copies share
// what they point to, so a Plan is cheap to copy and safe for concurrent use.
type Plan struct {
	kind     Kind
	cycle    *cycle
	weekly   *weekly
	explicit *explicit
}

// Unknown is the plan of a sensor about which nothing is known.
func Unknown() Plan { return Plan{} }

// AlwaysOn is the plan of a sensor that never sleeps.
func AlwaysOn() Plan { return Plan{kind: KindAlwaysOn} }

// Kind is the form the plan was declared in.
func (p Plan) Kind() Kind { return p.kind }

// Equal reports whether two plans say the same: for cycles the anchors may
// differ by whole periods, for weekly plans the order and spelling of the
// entries does not matter, for explicit ones the order of the list.
func (p Plan) Equal(o Plan) bool {
	if p.kind != o.kind {
		return false
	}
	switch p.kind {
	case KindCycle:
		return p.cycle.equal(o.cycle)
	case KindWeekly:
		return p.weekly.equal(o.weekly)
	case KindExplicit:
		return p.explicit.equal(o.explicit)
	}
	return true
}

// KnownUntil is the instant from which on the plan says nothing: the end of
// the last explicit window, the zero time for an unknown plan. False means
// that the plan is known for ever.
func (p Plan) KnownUntil() (time.Time, bool) {
	switch p.kind {
	case KindUnknown:
		return time.Time{}, true
	case KindExplicit:
		return p.explicit.end(), true
	}
	return time.Time{}, false
}

// Windows returns the awake windows of [from, to): clipped to it, sorted,
// disjoint, touching ones merged. An unknown plan gives none.
func (p Plan) Windows(from, to time.Time) []Window { return p.AppendWindows(nil, from, to) }

// AppendWindows appends what Windows returns to dst; what dst held before is
// left alone. The work is linear in the windows of the range (weekly plans: in
// its days), and nothing is allocated while dst has room.
func (p Plan) AppendWindows(dst []Window, from, to time.Time) []Window {
	from, to = from.UTC(), to.UTC()
	if !from.Before(to) {
		return dst
	}
	switch p.kind {
	case KindAlwaysOn:
		return append(dst, Window{from, to})
	case KindCycle:
		return p.cycle.appendWindows(dst, from, to)
	case KindWeekly:
		return p.weekly.appendWindows(dst, from, to)
	case KindExplicit:
		return p.explicit.appendWindows(dst, from, to)
	}
	return dst
}

// Awake reports whether the plan has the sensor awake at t. It is false for an
// unknown plan and after the last explicit window: see KnownUntil.
func (p Plan) Awake(t time.Time) bool {
	next, ok := p.NextAwake(t)
	return ok && next.Equal(t)
}

// NextAwake is t itself if the sensor is awake then, else the start of the
// next window. False means never again as far as the plan knows: the explicit
// list is over, or the plan is unknown.
func (p Plan) NextAwake(t time.Time) (time.Time, bool) {
	t = t.UTC()
	switch p.kind {
	case KindAlwaysOn:
		return t, true
	case KindCycle:
		return p.cycle.nextAwake(t), true
	case KindWeekly:
		return p.weekly.nextAwake(t), true
	case KindExplicit:
		return p.explicit.nextAwake(t)
	}
	return time.Time{}, false
}

// Window is the whole window that contains t; false where t is asleep or
// unknown. An always-on plan answers with the zero time to the last second of
// year 9999, both of which JSON can hold. A weekly plan is looked at for eight
// days to either side of t, and a window that reaches further is cut there.
func (p Plan) Window(t time.Time) (Window, bool) {
	t = t.UTC()
	if !p.Awake(t) {
		return Window{}, false
	}
	switch p.kind {
	case KindCycle:
		return p.cycle.window(t), true
	case KindWeekly:
		return p.weekly.window(t), true
	case KindExplicit:
		return p.explicit.window(t), true
	}
	return Window{End: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}, true
}

// NextWindow is the whole window that contains t, else the next one, as Window
// gives it. False where NextAwake says false.
func (p Plan) NextWindow(t time.Time) (Window, bool) {
	next, ok := p.NextAwake(t)
	if !ok {
		return Window{}, false
	}
	return p.Window(next)
}

// String is the plan in one compact line for people, such as
// "cycle 30s/5m0s from 2026-01-01T00:00:10Z" (awake/period) or
// "weekly mon-fri 18:00-09:00 (Asia/Tokyo)".
func (p Plan) String() string {
	switch p.kind {
	case KindCycle:
		return p.cycle.String()
	case KindWeekly:
		return p.weekly.String()
	case KindExplicit:
		return p.explicit.String()
	}
	return p.kind.String()
}
