package discovery

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/crawld/crawld/internal/epcis"
)

// trials is the number of random histories, larger where time is set aside.
func trials(quick, full int) int {
	if os.Getenv("CRAWLD_CI") != "" {
		return full
	}
	return quick
}

// histories are random records about a few objects at a few instants: lost, late and
// contradictory events, cycles and ties are the rule.
type histories struct {
	rnd     *rand.Rand
	objects []string
	span    int64
	layered bool // containers have their order, so that there are no cycles
}

func (h *histories) some(n int) (list []string) {
	for range n {
		if o := h.objects[h.rnd.IntN(len(h.objects))]; !slices.Contains(list, o) {
			list = append(list, o)
		}
	}
	return list
}

func (h *histories) event() (e epcis.Event, us int64) {
	us = h.rnd.Int64N(h.span)
	e.Action = epcis.Action(1 + h.rnd.IntN(3))
	e.Source = []string{"", "A", "B", "C"}[h.rnd.IntN(4)]
	e.EPCs = h.some(1 + h.rnd.IntN(2))
	switch n := h.rnd.IntN(20); {
	case n < 5:
		e.Kind = epcis.Object
		if h.layered || h.rnd.IntN(2) == 0 {
			e.Action = epcis.Observe
		}
	case n < 7:
		e.Kind, e.Action, e.Inputs = epcis.Transformation, epcis.None, h.some(1+h.rnd.IntN(2))
	default:
		e.Kind = epcis.Aggregation
		if n > 16 {
			e.Kind = epcis.Association
		}
		e.Parent = h.some(1)[0]
		if i := h.rnd.IntN(len(h.objects) - 1); h.layered {
			e.EPCs, e.Parent = h.objects[i:i+1], h.objects[min(i+1+h.rnd.IntN(5)/4, len(h.objects)-1)]
			e.Action = []epcis.Action{epcis.Add, epcis.Add, epcis.Observe, epcis.Delete}[h.rnd.IntN(4)]
		}
		switch h.rnd.IntN(12) {
		case 0:
			e.Parent = ""
		case 1, 2:
			e.Action, e.EPCs = epcis.Delete, nil
		}
	}
	return e, us
}

// records are a history, in the order of their publication.
func (h *histories) records() (records []Record) {
	for i := range 3 + h.rnd.IntN(24) {
		e, us := h.event()
		if h.rnd.IntN(3) > 0 { // else it goes by its hash
			e.ID = fmt.Sprintf("%c%d", 'a'+h.rnd.IntN(26), i)
		}
		r := Record{Event: newEvent(e, us), Publisher: []string{"p", "q"}[h.rnd.IntN(2)]}
		records = append(records, r)
		if h.rnd.IntN(8) == 0 {
			d := records[h.rnd.IntN(len(records))]
			d.Event.Error = &epcis.ErrorDeclaration{}
			if h.rnd.IntN(3) == 0 {
				d.Publisher = "q"
			}
			if h.rnd.IntN(3) == 0 && d.Event.ID != "" {
				d.Event = newEvent(d.Event, h.rnd.Int64N(h.span))
			}
			records = append(records, d)
		}
	}
	h.rnd.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
	return records
}

func (h *histories) query() Query {
	q := Query{Object: h.objects[h.rnd.IntN(len(h.objects))/(1+h.rnd.IntN(2))], From: Beginning, To: Forever, Follow: Follow(h.rnd.IntN(6))}
	if q.Follow > Backward {
		q.Follow = Stay
	}
	if h.rnd.IntN(2) == 0 {
		q.From = h.rnd.Int64N(h.span)
	}
	if h.rnd.IntN(2) == 0 {
		q.To = h.rnd.Int64N(h.span + 1)
		if q.From != Beginning {
			q.To = max(q.To, q.From)
		}
	}
	if h.rnd.IntN(4) == 0 {
		q.Visible = func(source string) bool { return source != "A" }
	}
	return q
}

// newHistories alternates between a crowd at one instant and a longer time with few objects.
func newHistories(seed uint64) *histories {
	h := &histories{rnd: rand.New(rand.NewPCG(seed, 0x7ace))}
	h.objects = []string{"o", "b", "t", "s", "u", "v"}[:2+h.rnd.IntN(5)]
	h.span = []int64{2, 6, 12, 40}[h.rnd.IntN(4)]
	if h.layered = h.rnd.IntN(2) == 0; h.layered {
		h.span = max(h.span, 12)
	}
	return h
}

// tracedHistory asks both for one history and tells where they part.
func tracedHistory(t *testing.T, seed uint64, fault string, seen map[string]int) string {
	h := newHistories(seed)
	s := newTable()
	var records []Record
	for _, r := range h.records() {
		if stored, err := s.Publish(t.Context(), []Record{r}); err == nil && stored[0] {
			records = append(records, r)
		}
	}
	w := twin{records: records, fault: fault}
	for range 4 {
		q := h.query()
		a, err := Trace(t.Context(), s, q)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if a.Truncated {
			seen["truncated"]++
			continue
		}
		note(seen, &a, &q)
		got, want := answerInWords(&a), w.trace(q)
		if got != want {
			return fmt.Sprintf("seed %d, %+v\n%s\ngot\n%s\nwant\n%s", seed, q, inLines(records), got, want)
		}
		if a.Withheld > 0 && q.Visible == nil {
			return fmt.Sprintf("seed %d: %d withheld from one who may see all", seed, a.Withheld)
		}
	}
	return ""
}

func note(seen map[string]int, a *Answer, q *Query) {
	seen["all"]++
	for _, w := range a.Warnings {
		seen[w.Code]++
	}
	times := map[int64]int{}
	for _, e := range a.Events {
		seen[fmt.Sprint("level ", e.Level)]++
		if times[e.Time]++; times[e.Time] == 2 {
			seen["tie"]++
		}
		if e.Level == 0 && e.Path[0] != q.Object {
			seen["followed"]++
		}
	}
	for what, is := range map[string]bool{"finished": a.Finished, "inside": len(a.Inside) > 0,
		"inside two": len(a.Inside) > 1, "withheld": a.Withheld > 0, "empty": len(a.Events) == 0,
		"opens inside": q.From != Beginning && len(a.Events) > 0 && a.Events[0].Level > 0} {
		if is {
			seen[what]++
		}
	}
}

func inLines(records []Record) string {
	var b strings.Builder
	for _, r := range records {
		e := r.Event
		fmt.Fprintf(&b, "%d %s %.20s kind %d action %d parent %s %v %v error %v\n", e.Time.UnixMicro(),
			r.Publisher, e.EventID(), e.Kind, e.Action, e.Parent, e.EPCs, e.Inputs, e.Error != nil)
	}
	return b.String()
}

func TestRandomHistories(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(trials(2000, 10000)) {
		if d := tracedHistory(t, seed, "", seen); d != "" {
			t.Fatal(d)
		}
	}
	t.Logf("%v", seen)
	if 100*seen["truncated"] > seen["all"] {
		t.Errorf("%d of %d are truncated", seen["truncated"], seen["all"])
	}
	for _, what := range []string{"unmatched_delete", "double_add", "lost_add", "lost_delete",
		"commissioned_inside", "cycle", "tie", "level 0", "level 1", "level 2", "level 3", "followed",
		"finished", "inside", "inside two", "withheld", "empty", "opens inside"} {
		if 400*seen[what] < seen["all"] {
			t.Errorf("of %d answers only %d have %q", seen["all"], seen[what], what)
		}
	}
}

// Wrong twins must be told from Trace.
func TestRandomHistoriesCatchFaults(t *testing.T) {
	for _, fault := range []string{"no ranks", "hold without releases",
		"stay from the window's start", "goes on after release"} {
		caught := false
		for seed := range uint64(400) {
			caught = caught || tracedHistory(t, seed, fault, map[string]int{}) != ""
		}
		if !caught {
			t.Errorf("%s: not noticed", fault)
		}
	}
}
