package discovery

import (
	"slices"
	"testing"

	"github.com/crawld/crawld/internal/epcis"
)

// paperDiscovery is the recursive discovery of the COMPSAC paper, section III.B, steps 0 to
// 4, read kindly: it is given the window's end as we mean it, and a container's dealings with
// other objects are passed over. Its column identifier is the event time, so that of two
// cells of a row at one instant the one written last is left (Fig. 4).
type paperDiscovery struct {
	rows map[string]map[int64]*epcis.Event
}

func newPaperDiscovery(records []Record) *paperDiscovery {
	p := &paperDiscovery{map[string]map[int64]*epcis.Event{}}
	for i := range records {
		e := &records[i].Event
		for _, o := range append(append([]string{e.Parent}, e.EPCs...), e.Inputs...) {
			if p.rows[o] == nil {
				p.rows[o] = map[int64]*epcis.Event{}
			}
			p.rows[o][e.Time.UnixMicro()] = e
		}
	}
	return p
}

// discover returns the events of an object from st on and before et, and whether the
// object's life has ended; previous is the object one level below.
func (p *paperDiscovery) discover(object, previous string, st, et int64, depth int) (
	found []*epcis.Event, finished bool) {
	var times []int64
	for t := range p.rows[object] {
		if t >= st && t < et {
			times = append(times, t)
		}
	}
	slices.Sort(times)
	for i, t := range times {
		e := p.rows[object][t]
		inside := e.Kind == epcis.Aggregation || e.Kind == epcis.Association
		switch {
		case inside && e.Action == epcis.Add && slices.Contains(e.EPCs, object) && depth < MaxDepth:
			found = append(found, e)
			up, _ := p.discover(e.Parent, object, t+1, et, depth+1)
			found = append(found, up...)
			if len(up) == 0 || i+1 == len(times) || up[len(up)-1] != p.rows[object][times[i+1]] {
				return found, false
			}
		case inside && e.Action == epcis.Delete && e.Parent == object &&
			slices.Contains(e.EPCs, previous):
			return append(found, e), false
		case inside && e.Parent == object && depth > 0:
		case e.Kind == epcis.Transformation, e.Kind == epcis.Object && e.Action == epcis.Delete:
			if !slices.Contains(found, e) {
				found = append(found, e)
			}
			if e.Kind == epcis.Object || slices.Contains(e.Inputs, object) {
				return found, true
			}
		case !slices.Contains(found, e):
			found = append(found, e)
		}
	}
	return found, false
}

// The control of the worked cases: the algorithm that they correct fails on most of the first
// 22, judged by events and life alone, which is all that it answers.
func TestPaperDiscoveryFails(t *testing.T) {
	var failed []string
	for _, c := range workedCases(t)[:22] {
		records, q := workedRecords(&c)
		found, finished := newPaperDiscovery(records).discover(q.Object, "", q.From, q.To, 0)
		ids := []string{}
		for _, e := range found {
			ids = append(ids, e.ID)
		}
		if !slices.Equal(ids, c.Want.Events) || finished != c.Want.Finished {
			failed = append(failed, c.Name[:2])
		}
	}
	if len(failed) < 13 || slices.Contains(failed, "01") {
		t.Errorf("it fails on %d: %v; want at least 13, and not the example of its Fig. 3",
			len(failed), failed)
	}
}
