package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/crawld/crawld/internal/api"
	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/sleepplan"
)

// maxLanes bounds the drawing: a trace may go through thousands of containers.
const maxLanes = 60

// lanes collects what happens to the object and to its containers.
type lanes struct {
	from, to time.Time // of the drawing
	rows     map[string]*figure.Row
	level    map[string]int       // the lowest that the lane was seen at
	first    map[string]time.Time // when the lane was first seen
	since    map[stay]time.Time   // of the stays that go on
}

// stay is one object in another, as a part (aggregation) or beside it (association).
type stay struct{ child, parent, kind string }

// traceTimeline draws the object on top and a lane for each container: a bar while
// something that is traced is inside, a mark for each event.
func traceTimeline(t api.Trace) *figure.Timeline {
	l := lanes{rows: map[string]*figure.Row{}, level: map[string]int{},
		first: map[string]time.Time{}, since: map[stay]time.Time{}}
	l.from, l.to = extent(t.Events)
	l.lane(t.Object, 0, l.from)
	for _, e := range t.Events {
		l.play(e)
	}
	for s, since := range l.since {
		l.bar(s.parent, since, l.to)
	}
	d := &figure.Timeline{Title: t.Object, From: l.from, To: l.to, Notes: traceNotes(t)}
	order := slices.SortedFunc(maps.Keys(l.rows), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.level[a], l.level[b]), l.first[a].Compare(l.first[b]),
			cmp.Compare(a, b))
	})
	for i, name := range order {
		if i == maxLanes {
			d.Notes = append(d.Notes, fmt.Sprintf("%d more containers are not drawn.", len(order)-i))
			break
		}
		row := l.rows[name]
		row.Awake = merged(row.Awake)
		row.Note = counted(len(row.Marks), "event")
		d.Rows = append(d.Rows, *row)
	}
	return d
}

// extent is the time of the drawing: that of the events and a little more on both sides.
func extent(events []api.TraceEvent) (from, to time.Time) {
	from, to = events[0].Time, events[len(events)-1].Time
	margin := max(to.Sub(from)/30, time.Second)
	return from.Add(-margin), to.Add(margin)
}

func (l *lanes) lane(name string, level int, at time.Time) *figure.Row {
	row, ok := l.rows[name]
	if !ok {
		row = &figure.Row{Label: shortEPC(name)}
		l.rows[name], l.level[name], l.first[name] = row, level, at
	}
	l.level[name] = min(l.level[name], level)
	return row
}

// play takes one event, in the order of time.
func (l *lanes) play(e api.TraceEvent) {
	at := e.Time
	if len(e.Path) == 0 {
		return // no crawld answers so
	}
	for i, name := range e.Path { // of what is followed, and of stays that began before
		l.lane(name, i, at)
	}
	self := e.Path[len(e.Path)-1]
	mark := figure.Mark{At: at, Kind: figure.Event,
		Tip: strings.Join(strings.Fields(e.Type+" "+e.Action+" "+e.BizStep+" "+e.Parent), " ")}
	if e.Role == "plain" && e.Type == "Description" {
		mark.Kind = figure.Changed
	}
	l.rows[self].Marks = append(l.rows[self].Marks, mark)
	switch e.Role {
	case "join", "seen":
		here := stay{self, e.Parent, e.Type}
		l.end(at, func(s stay) bool { return s.child == self && s.kind == e.Type && s != here })
		l.lane(e.Parent, len(e.Path), at)
		if _, inside := l.since[here]; !inside {
			l.since[here] = at
		}
	case "leave":
		here := stay{self, e.Parent, e.Type}
		l.lane(e.Parent, len(e.Path), at)
		if _, inside := l.since[here]; !inside {
			l.bar(e.Parent, l.from, at)
		}
		l.end(at, func(s stay) bool { return s == here })
	case "all_leave":
		l.end(at, func(s stay) bool { return s.parent == self && s.kind == e.Type })
	case "end", "birth":
		l.end(at, func(s stay) bool { return s.child == self || e.Role == "end" && s.parent == self })
	}
}

// end ends stays.
func (l *lanes) end(at time.Time, which func(stay) bool) {
	for s, since := range l.since {
		if which(s) {
			l.bar(s.parent, since, at)
			delete(l.since, s)
		}
	}
}

func (l *lanes) bar(lane string, from, to time.Time) {
	if from.Before(to) {
		l.rows[lane].Awake = append(l.rows[lane].Awake, sleepplan.Window{Start: from, End: to})
	}
}

// merged sorts windows and joins those that overlap or touch.
func merged(windows []sleepplan.Window) []sleepplan.Window {
	slices.SortFunc(windows, func(a, b sleepplan.Window) int { return a.Start.Compare(b.Start) })
	var list []sleepplan.Window
	for _, w := range windows {
		if n := len(list); n > 0 && !w.Start.After(list[n-1].End) {
			if w.End.After(list[n-1].End) {
				list[n-1].End = w.End
			}
			continue
		}
		list = append(list, w)
	}
	return list
}

// counted is such as "1 event" and "2 events".
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func traceNotes(t api.Trace) []string {
	notes := []string{"Circles: events. Green bars: what it said of itself changed. " +
		"Shaded: something that is traced was inside."}
	for _, s := range t.Sources {
		notes = append(notes, "Ask "+strings.TrimSpace(s.ID+" "+s.Type+" "+s.Address))
	}
	if n := len(t.Warnings); n > 0 {
		notes = append(notes, fmt.Sprintf("%d warnings: the events contradict each other.", n))
	}
	if t.Withheld > 0 {
		notes = append(notes, fmt.Sprintf("%d events may not be seen with this token.", t.Withheld))
	}
	if t.Truncated {
		notes = append(notes, "There may be more: a bound of the trace was met.")
	}
	return notes
}
