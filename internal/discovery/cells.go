package discovery

import (
	"crypto/sha256"

	"github.com/crawld/crawld/internal/epcis"
)

// Identity tells events apart: of one with an event ID the first 16 bytes of
// SHA-256(publisher | 0 | event ID), so that nobody can take the ID of another publisher's
// event; of one without, those of its CBV hash, which says all that the event says.
func Identity(publisher string, e *epcis.Event) [16]byte {
	if e.ID == "" {
		return [16]byte(e.Hash[:16])
	}
	text := make([]byte, 0, len(publisher)+1+len(e.ID))
	text = append(append(append(text, publisher...), 0), e.ID...)
	sum := sha256.Sum256(text)
	return [16]byte(sum[:16])
}

// Cells are the rows that an event is written to, for each object at most one in its contents
// and one elsewhere, in the order of the event's lists. An error declaration has none.
//
// An aggregation without a parent says of its children only that they were seen. An object
// that goes into a transformation and comes out of it goes on: a plain event.
func Cells(r *Record) []Cell {
	e := &r.Event
	if e.Error != nil {
		return nil
	}
	w := cellWriter{
		cell: Cell{
			Time: e.Time.UnixMicro(), ID16: Identity(r.Publisher, e), Kind: e.Kind,
			Action: e.Action, EventID: e.EventID(), BizStep: e.BizStep, Source: e.Source,
		},
		cells:   make([]Cell, 0, len(e.EPCs)+len(e.Inputs)+2),
		written: make(map[string]bool, len(e.EPCs)+len(e.Inputs)),
	}
	switch e.Kind {
	case epcis.Object:
		w.each(e.EPCs, objectRole(e.Action), "")
	case epcis.Aggregation, epcis.Association:
		w.containment(e)
	case epcis.Transformation:
		w.transformation(e)
	}
	return w.cells
}

// cellWriter makes cells of one event.
type cellWriter struct {
	cell    Cell // what all have in common
	cells   []Cell
	written map[string]bool // objects with a cell other than of their contents
}

func (w *cellWriter) each(objects []string, role Role, parent string) {
	for _, o := range objects {
		if w.written[o] {
			continue
		}
		w.written[o] = true
		w.put(o, w.family(role), role, parent)
	}
}

// family is where a role of an object stands other than that of a parent.
func (w *cellWriter) family(role Role) Family {
	switch role {
	case Birth, End:
		return Life
	case Join, Seen, Leave:
		if w.cell.Kind == epcis.Association {
			return Associated
		}
		return Aggregated
	case AllLeave:
		return Emptied
	}
	return Observed
}

func (w *cellWriter) put(object string, f Family, role Role, parent string) {
	c := w.cell
	c.Object, c.Family, c.Role, c.Parent = object, f, role, parent
	w.cells = append(w.cells, c)
}

func (w *cellWriter) containment(e *epcis.Event) {
	role := childRole(e.Action)
	if e.Parent == "" {
		role = Plain
	}
	w.each(e.EPCs, role, e.Parent)
	if e.Parent == "" {
		return
	}
	w.put(e.Parent, Contents, Container, "")
	if e.Action == epcis.Delete && len(e.EPCs) == 0 {
		w.each([]string{e.Parent}, AllLeave, "")
	}
}

func (w *cellWriter) transformation(e *epcis.Event) {
	out := make(map[string]bool, len(e.EPCs))
	for _, o := range e.EPCs {
		out[o] = true
	}
	for _, o := range e.Inputs {
		role := End
		if out[o] {
			role = Plain
		}
		w.each([]string{o}, role, "")
	}
	w.each(e.EPCs, Birth, "")
}

func objectRole(a epcis.Action) Role {
	switch a {
	case epcis.Add:
		return Birth
	case epcis.Delete:
		return End
	}
	return Plain
}

func childRole(a epcis.Action) Role {
	switch a {
	case epcis.Add:
		return Join
	case epcis.Delete:
		return Leave
	}
	return Seen
}
