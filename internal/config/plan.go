package config

import (
	"fmt"
	"strings"
	"time"
	_ "time/tzdata" // time zones of lists must load on machines without a database

	"github.com/crawld/crawld/internal/sleepplan"
	"go.yaml.in/yaml/v3"
)

const planForms = "always_on, unknown, {cycle: ...}, {weekly: ...} or {windows: ...}"

// anyEntry and anyDate make a weekly plan whose other parts are to be tried.
const (
	anyEntry = "daily 00:00-24:00"
	anyDate  = "2000-01-01"
)

// planReader reads sleep plans. Sensors with the same weekly plan share one
// value: each such plan holds a time zone.
type planReader struct {
	weekly map[string]sleepplan.Plan
}

// weekly is a weekly plan as written, with the places of its parts.
type weekly struct {
	zone    string
	entries []string
	except  []sleepplan.Exception
	dates   []value // of except
}

func (r *planReader) read(v value) sleepplan.Plan {
	if v.node.Kind != yaml.MappingNode {
		switch s, ok := v.scalar(planForms, "!!str"); {
		case ok && s == "always_on":
			return sleepplan.AlwaysOn()
		case ok && s != "unknown":
			v.wrongType(planForms)
		}
		return sleepplan.Unknown()
	}
	var forms []value
	var plan sleepplan.Plan
	var week weekly
	form := func(read func(value)) func(value) {
		return func(v value) { forms = append(forms, v); read(v) }
	}
	before := v.d.count()
	v.mapping(fields{
		"cycle":     form(func(v value) { plan = cycle(v) }),
		"windows":   form(func(v value) { plan = explicit(v) }),
		"weekly":    form(week.readEntries),
		"time_zone": week.readZone,
		"except":    week.readExcept,
	})
	switch {
	case v.d.count() > before:
	case len(forms) != 1:
		v.fail("has %d plans, expected one of: %s", len(forms), planForms)
	case week.entries != nil:
		return r.share(v, week)
	case week.zone != "" || week.except != nil:
		v.fail("time_zone and except belong to weekly plans only; remove them")
	}
	return plan
}

func cycle(v value) sleepplan.Plan {
	var period, awake time.Duration
	var anchor time.Time
	missing := map[string]bool{"period": true, "awake": true, "anchor": true}
	need := func(key string, read func(value)) func(value) {
		return func(v value) { delete(missing, key); read(v) }
	}
	length := func(dst *time.Duration) func(value) {
		return func(v value) { v.duration(dst, time.Millisecond, maxDuration) }
	}
	before := v.d.count()
	v.mapping(fields{
		"period": need("period", length(&period)),
		"awake":  need("awake", length(&awake)),
		"anchor": need("anchor", func(v value) { v.instant(&anchor) }),
	})
	for _, key := range []string{"period", "awake", "anchor"} {
		if missing[key] && v.d.count() == before {
			v.fail("%s is missing; expected period, awake and anchor (an instant of waking)", key)
		}
	}
	if v.d.count() > before {
		return sleepplan.Unknown()
	}
	plan, err := sleepplan.Cycle(period, awake, anchor)
	if err != nil {
		v.fail("%s", reason(err))
	}
	return plan
}

func explicit(v value) sleepplan.Plan {
	var windows []sleepplan.Window
	before := v.d.count()
	v.list("windows {start, end}", func(_ int, v value) {
		if w, ok := window(v); ok {
			windows = append(windows, w)
		}
	})
	if v.d.count() > before {
		return sleepplan.Unknown()
	}
	plan, err := sleepplan.Explicit(windows)
	if err == nil {
		return plan
	}
	at, i := v, 0
	// Explicit names the window by its index; its line is what people need.
	if _, e := fmt.Sscanf(err.Error(), "windows[%d]", &i); e == nil && i < len(v.node.Content) {
		at.node = v.node.Content[i]
	}
	at.fail("%s", reason(err))
	return plan
}

func window(v value) (w sleepplan.Window, ok bool) {
	before := v.d.count()
	v.mapping(fields{
		"start": func(v value) { v.instant(&w.Start) },
		"end":   func(v value) { v.instant(&w.End) },
	})
	switch {
	case v.d.count() > before:
		return w, false
	case w.Start.IsZero() || w.End.IsZero():
		v.fail("start or end is missing; expected {start: ..., end: ...}")
		return w, false
	case w.Start.Equal(w.End):
		v.fail("the window has zero length; its end must lie after its start")
		return w, false
	case w.End.Before(w.Start):
		v.fail("the window ends before it starts; swap start and end")
		return w, false
	}
	return w, true
}

// try reports what sleepplan says of one part of a weekly plan at its place.
func try(v value, entry, zone string, except ...sleepplan.Exception) bool {
	_, err := sleepplan.Weekly([]string{entry}, zone, except)
	if err != nil {
		v.fail("%s", strings.TrimPrefix(reason(err), "weekly exception \""+anyDate+"\": "))
	}
	return err == nil
}

// reason is what sleepplan says without the form of the plan, which the key
// names already.
func reason(err error) string {
	msg := err.Error()
	for _, form := range []string{"cycle: ", "windows: ", "weekly: "} {
		msg = strings.TrimPrefix(msg, form)
	}
	return msg
}

func (w *weekly) readEntries(v value) {
	w.entries = []string{}
	v.list("windows such as mon-fri 18:00-09:00", func(_ int, v value) {
		var s string
		if v.text(&s, "a window such as mon-fri 18:00-09:00") && try(v, s, "") {
			w.entries = append(w.entries, s)
		}
	})
	if v.node.Kind == yaml.SequenceNode && len(v.node.Content) == 0 {
		v.fail("is an empty list; expected at least one window such as mon-fri 18:00-09:00")
	}
}

func (w *weekly) readZone(v value) {
	if v.text(&w.zone, "a time zone such as Asia/Tokyo") {
		try(v, anyEntry, w.zone)
	}
}

func (w *weekly) readExcept(v value) {
	v.list("exceptions {date, windows}", func(_ int, v value) {
		var e sleepplan.Exception
		before, dated := v.d.count(), false
		v.mapping(fields{
			"date": func(v value) {
				dated = true
				if s, ok := v.scalar("a date such as 2026-12-25", "!!str", "!!timestamp"); ok {
					e.Date = s
					try(v, anyEntry, "", e)
				}
			},
			"windows": func(v value) { e.Windows = exceptional(v) },
		})
		if !dated && v.d.count() == before {
			v.fail("date is missing; expected a date such as 2026-12-25")
		}
		w.except, w.dates = append(w.except, e), append(w.dates, v)
	})
}

// exceptional reads the windows of one date; none are an answer too.
func exceptional(v value) (windows []string) {
	const want = "a window such as 10:00-12:00"
	v.list("windows such as 10:00-12:00", func(_ int, v value) {
		var s string
		if v.text(&s, want) &&
			try(v, anyEntry, "", sleepplan.Exception{Date: anyDate, Windows: []string{s}}) {
			windows = append(windows, s)
		}
	})
	return windows
}

// share makes the plan, once for all sensors that say the same in the same
// words.
func (r *planReader) share(v value, w weekly) sleepplan.Plan {
	key := fmt.Sprintf("%q %q %q", w.zone, w.entries, w.except)
	if plan, ok := r.weekly[key]; ok {
		return plan
	}
	plan, err := sleepplan.Weekly(w.entries, w.zone, w.except)
	if err != nil {
		w.blame(v).fail("%s", reason(err))
		return plan
	}
	r.weekly[key] = plan
	return plan
}

// blame finds the first exception that does not go with those before it; all
// parts are right when taken alone.
func (w *weekly) blame(v value) value {
	for i := range w.except {
		_, err := sleepplan.Weekly(w.entries, w.zone, w.except[:i+1])
		if err != nil {
			return w.dates[i]
		}
	}
	return v
}
