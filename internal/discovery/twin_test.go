package discovery

import (
	"fmt"
	"slices"
	"strings"

	"github.com/crawld/crawld/internal/epcis"
)

// twin is Trace once more: over a plain list of records, without pages, reading whole
// histories again for every question. Its faults are for the controls.
type twin struct {
	records []Record
	visible func(string) bool
	fault   string

	told     []Traced
	warnings map[string]bool
	turns    []Record // followed transformations
	follow   Follow
}

// fact is what a record says of an object.
type fact struct {
	r          *Record
	t          int64
	id         string
	what       string // birth, end, join, seen, leave, all-leave, parent, plain
	kind       epcis.Kind
	parent     string
	transforms bool
}

func (w *twin) key(r *Record) string {
	return fmt.Sprintf("%x", Identity(r.Publisher, &r.Event))
}

// counts tells whether a record takes part.
func (w *twin) counts(r *Record) bool {
	if r.Event.Error != nil || w.visible != nil && !w.visible(r.Event.Source) {
		return false
	}
	for i := range w.records {
		d := &w.records[i]
		if d.Event.Error != nil && d.Publisher == r.Publisher && w.key(d) == w.key(r) {
			return false
		}
	}
	return true
}

// facts are those of an object in from <= t <= to, in the order of event IDs.
func (w *twin) facts(object string, from, to int64) (list []fact) {
	seen := map[string]bool{}
	for i := range w.records {
		r := &w.records[i]
		e := &r.Event
		f := fact{r: r, t: e.Time.UnixMicro(), id: e.EventID(), kind: e.Kind, parent: e.Parent}
		if f.t < from || f.t > to || seen[w.key(r)] || !w.counts(r) {
			continue
		}
		seen[w.key(r)] = true
		in, out := slices.Contains(e.Inputs, object), slices.Contains(e.EPCs, object)
		add := func(what string) { f.what = what; list = append(list, f) }
		switch {
		case e.Kind == epcis.Transformation:
			f.transforms = true
			switch {
			case in && out:
				add("plain")
			case in:
				add("end")
			case out:
				add("birth")
			}
		case e.Kind == epcis.Object && out:
			add(map[epcis.Action]string{epcis.Add: "birth", epcis.Observe: "plain",
				epcis.Delete: "end"}[e.Action])
		case e.Kind != epcis.Object:
			if out && e.Parent == "" {
				add("plain")
			} else if out {
				add(map[epcis.Action]string{epcis.Add: "join", epcis.Observe: "seen",
					epcis.Delete: "leave"}[e.Action])
			}
			if e.Parent != object {
				break
			}
			if e.Action == epcis.Delete && len(e.EPCs) == 0 {
				add("all-leave")
			} else {
				add("parent")
			}
		}
	}
	slices.SortStableFunc(list, func(a, b fact) int { return strings.Compare(a.id, b.id) })
	return list
}

// hung is how an object is in a container.
type hung struct {
	on    string
	since int64
}

func (w *twin) releasedBy(p string, k epcis.Kind, after, upto int64) bool {
	for _, f := range w.facts(p, after, upto) {
		if f.t > after && (f.what == "end" || f.what == "all-leave" && f.kind == k) {
			return true
		}
	}
	return false
}

var twoKinds = []epcis.Kind{epcis.Aggregation, epcis.Association}

func rankOf(f fact, level int, on map[epcis.Kind]hung) int {
	at := on[f.kind].on
	switch f.what {
	case "birth":
		return 1
	case "leave":
		if at == f.parent {
			return 2
		}
		return 6
	case "join", "seen":
		if at == "" || at == f.parent {
			return 3
		}
		return 5
	case "end":
		return 7
	case "all-leave":
		if level > 0 {
			return 7
		}
	}
	return 4
}

// inTurn takes facts instant by instant, in one of them by rank.
func (w *twin) inTurn(facts []fact, level int, on map[epcis.Kind]hung, play func(fact) bool) {
	for len(facts) > 0 {
		best := 0
		for i, f := range facts {
			b := facts[best]
			better := f.t < b.t || f.t == b.t && rankOf(f, level, on) < rankOf(b, level, on)
			if w.fault == "no ranks" {
				better = f.t < b.t
			}
			if better {
				best = i
			}
		}
		f := facts[best]
		facts = slices.Delete(facts, best, best+1)
		if !play(f) {
			return
		}
	}
}

// hold plays everything from before a.
func (w *twin) hold(o string, a int64) (on map[epcis.Kind]hung, finished bool) {
	on = map[epcis.Kind]hung{}
	if a == Beginning {
		return on, false
	}
	w.inTurn(w.facts(o, Beginning, a-1), 0, on, func(f fact) bool {
		switch f.what {
		case "birth", "end":
			clear(on)
			finished = f.what == "end"
		case "leave":
			if on[f.kind].on == f.parent {
				delete(on, f.kind)
			}
		case "join", "seen":
			h, in := on[f.kind]
			if !in || h.on != f.parent || w.releasedBy(h.on, f.kind, h.since, f.t) {
				on[f.kind] = hung{f.parent, f.t}
			}
		}
		return true
	})
	for _, k := range twoKinds {
		h, in := on[k]
		if in && w.fault != "hold without releases" && w.releasedBy(h.on, k, h.since, a-1) {
			delete(on, k)
		}
	}
	return on, finished
}

func (w *twin) warn(code, object, about string) {
	w.warnings[code+"|"+object+"|"+about] = true
}

func (w *twin) emit(f fact, path []string) {
	if role := map[Follow]string{Forward: "end", Backward: "birth"}[w.follow]; f.transforms &&
		len(path) == 1 && f.what == role {
		w.turns = append(w.turns, *f.r)
	}
	c := Cell{Time: f.t, EventID: f.id, Source: f.r.Event.Source,
		ID16: Identity(f.r.Publisher, &f.r.Event)}
	for i := range w.told {
		if w.told[i].ID16 == c.ID16 {
			if len(path)-1 < w.told[i].Level {
				w.told[i].Level, w.told[i].Path = len(path)-1, slices.Clone(path)
			}
			return
		}
	}
	w.told = append(w.told, Traced{c, len(path) - 1, slices.Clone(path)})
}

func (w *twin) walk(path []string, kind epcis.Kind, since, a, b int64) (
	released, finished bool, inside []string) {
	o, level := path[len(path)-1], len(path)-1
	on, finished := w.hold(o, a)
	leave := func(k epcis.Kind, t int64) (bool, []string) {
		h, in := on[k]
		if !in {
			return false, nil
		}
		delete(on, k)
		if slices.Contains(path, h.on) {
			w.warn("cycle", o, h.on)
			return false, nil
		}
		from := max(h.since, a)
		if w.fault == "stay from the window's start" {
			from = a
		}
		let, _, up := w.walk(append(slices.Clone(path), h.on), k, h.since, from, t)
		return let, append([]string{h.on}, up...)
	}
	leaveOr := func(code string, k epcis.Kind, t int64) {
		if h, in := on[k]; in {
			if let, _ := leave(k, t); !let {
				w.warn(code, o, h.on)
			}
		}
	}
	w.inTurn(w.facts(o, a, b), level, on, func(f fact) bool {
		switch f.what {
		case "leave":
			if on[f.kind].on == f.parent {
				leave(f.kind, f.t)
			} else {
				w.warn("unmatched_delete", o, f.id)
			}
		case "join", "seen":
			h := on[f.kind]
			if h.on == f.parent && !w.releasedBy(h.on, f.kind, h.since, f.t) {
				if f.what == "join" {
					w.warn("double_add", o, f.id)
				}
				break
			}
			leaveOr("lost_delete", f.kind, f.t)
			if f.what == "seen" {
				w.warn("lost_add", o, f.id)
			}
			w.emit(f, path)
			on[f.kind] = hung{f.parent, f.t}
			return true
		case "parent":
			if level > 0 {
				return true
			}
		case "all-leave":
			if level > 0 {
				if f.kind != kind || f.t <= since {
					return true
				}
				w.emit(f, path)
				released, b = true, f.t
				return w.fault == "goes on after release"
			}
		case "end":
			for _, k := range twoKinds {
				leave(k, f.t)
			}
			w.emit(f, path)
			finished = true
			if level > 0 {
				released, b = true, f.t
				return false
			}
			return true
		case "birth":
			for _, k := range twoKinds {
				leaveOr("commissioned_inside", k, f.t)
			}
			finished = false
		}
		w.emit(f, path)
		return true
	})
	for _, k := range twoKinds {
		if let, up := leave(k, b); !let {
			inside = append(inside, up...)
		}
	}
	return released, finished, inside
}

// trace is the answer to a query, in words.
func (w *twin) trace(q Query) string {
	w.visible, w.follow = q.Visible, q.Follow
	w.told, w.turns, w.warnings = nil, nil, map[string]bool{}
	to := q.To
	if to != Forever {
		to--
	}
	_, finished, inside := w.walk([]string{q.Object}, 0, q.From, q.From, to)
	done := map[string]bool{}
	for len(w.turns) > 0 {
		r := w.turns[0]
		w.turns = w.turns[1:]
		t, others := r.Event.Time.UnixMicro(), r.Event.EPCs
		if q.Follow == Backward {
			others = r.Event.Inputs
		}
		for _, o := range others {
			if key := w.key(&r) + o; !done[key] {
				done[key] = true
				if q.Follow == Forward {
					w.walk([]string{o}, 0, t, t, to)
				} else {
					w.walk([]string{o}, 0, q.From, q.From, t)
				}
			}
		}
	}
	slices.SortStableFunc(w.told, func(a, b Traced) int { return int(a.Time - b.Time) })
	var sources []string
	for _, e := range w.told {
		if e.Source != "" && !slices.Contains(sources, e.Source) {
			sources = append(sources, e.Source)
		}
	}
	warnings := []string{}
	for s := range w.warnings {
		warnings = append(warnings, s)
	}
	return inWords(w.told, sources, finished, inside, warnings)
}

func inWords(events []Traced, sources []string, finished bool, inside, warnings []string) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%d %.20s level %d of %v\n", e.Time, e.EventID, e.Level, e.Path)
	}
	slices.Sort(warnings)
	fmt.Fprintf(&b, "sources %q finished %v inside %q\nwarnings %q", sources, finished, inside,
		warnings)
	return b.String()
}

func answerInWords(a *Answer) string {
	warnings := []string{}
	for _, w := range a.Warnings {
		warnings = append(warnings, w.Code+"|"+w.Object+"|"+w.EventID+w.Container)
	}
	return inWords(a.Events, a.Sources, a.Finished, a.Inside, warnings)
}
