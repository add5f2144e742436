package sim

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/crawld/crawld/internal/epcis"
)

// discoveryTrials is how much is drawn, more where time is set aside.
func discoveryTrials(quick, full int) int {
	if ci() {
		return full
	}
	return quick
}

// consigned are all events until so many articles are made.
func consigned(seed uint64, articles int) []epcis.Event {
	g := NewShipments(seed)
	var all []epcis.Event
	for g.Articles() < articles {
		all = append(all, g.Next(articles-g.Articles())...)
	}
	return all
}

// census counts what the paper tells of its data set.
type census struct {
	events   int
	perBox   map[string]int // articles by box
	boxes    []int          // of each loading of a container
	links    map[string]int // by box
	perTrace map[string]int // by article
	wrong    []string
}

// count plays the events: who is in what says whose trace an event belongs to.
func count(events []epcis.Event) *census {
	c := &census{events: len(events), perBox: map[string]int{}, links: map[string]int{},
		perTrace: map[string]int{}}
	slices.SortStableFunc(events, func(a, b epcis.Event) int { return a.Time.Compare(b.Time) })
	in, inside := map[string]string{}, map[string]map[string]bool{}
	var touch func(object string)
	touch = func(object string) {
		if strings.HasPrefix(object, "https://id.gs1.org/01/") {
			c.perTrace[object]++
		}
		for child := range inside[object] {
			touch(child)
		}
	}
	for _, e := range events {
		for _, o := range e.EPCs {
			if e.Action == epcis.Delete && in[o] != e.Parent {
				c.wrong = append(c.wrong, o+" leaves "+e.Parent)
			}
			if e.Action == epcis.Add && in[o] != "" {
				c.wrong = append(c.wrong, o+" joins "+e.Parent)
			}
			touch(o)
			switch {
			case e.Kind != epcis.Aggregation:
			case e.Action == epcis.Add:
				if inside[e.Parent] == nil {
					inside[e.Parent] = map[string]bool{}
				}
				in[o], inside[e.Parent][o] = e.Parent, true
			default:
				delete(in, o)
				delete(inside[e.Parent], o)
			}
		}
		switch e.BizStep {
		case "packing":
			c.perBox[e.Parent] += len(e.EPCs)
		case "loading":
			c.boxes = append(c.boxes, len(e.EPCs))
			for _, b := range e.EPCs {
				c.links[b]++
			}
		}
	}
	for object := range in {
		c.wrong = append(c.wrong, object+" is never taken out")
	}
	return c
}

// within reports values outside least..most, and ends that never come up.
func within[K comparable](t *testing.T, what string, values map[K]int, least, most int) {
	t.Helper()
	seen := map[int]int{}
	for _, v := range values {
		seen[v]++
	}
	for v, n := range seen {
		if v < least || v > most {
			t.Errorf("%s: %d, %d times", what, v, n)
		}
	}
	if seen[least] == 0 || seen[most] == 0 {
		t.Errorf("%s: %d came up %d times, %d came up %d times", what, least, seen[least], most,
			seen[most])
	}
}

// Section IV.B of the paper, as numbers.
func TestShipmentsAreThoseOfThePaper(t *testing.T) {
	t.Parallel()
	articles := discoveryTrials(60_000, 250_000)
	c := count(consigned(1, articles))
	if c.wrong != nil {
		t.Errorf("%d impossible events, such as %s", len(c.wrong), c.wrong[0])
	}
	if per := float64(c.events) / float64(articles); per < 1.075 || per > 1.095 {
		t.Errorf("%g events per object", per)
	}
	if len(c.perTrace) != articles {
		t.Errorf("%d traces of %d articles", len(c.perTrace), articles)
	}
	within(t, "articles in a box", c.perBox, leastPerBox, mostPerBox)
	within(t, "links", c.links, leastLinks, mostLinks)
	within(t, "events in a trace", c.perTrace, 12, mostTraced)
	if least := slices.Min(c.boxes); slices.Max(c.boxes) > mostBoxes || least < 1 {
		t.Errorf("%d to %d boxes in a container", least, slices.Max(c.boxes))
	}
}

// Events follow from the seed and the calls, their text says what they say, and no two are
// the same.
func TestShipmentsAreDeterminedAndDistinct(t *testing.T) {
	t.Parallel()
	first := consigned(7, 5000)
	if !cmp.Equal(first, consigned(7, 5000)) {
		t.Error("the same seed makes other events")
	}
	other := consigned(8, 5000)
	ids := map[string]bool{}
	for _, e := range slices.Concat(first, other) {
		ids[e.ID] = true
	}
	if len(ids) != len(first)+len(other) {
		t.Errorf("%d IDs of %d events", len(ids), len(first)+len(other))
	}
	g := NewShipments(7)
	g.Next(3000)
	a, b := g.Published(), g.Published()
	if len(a.EPCs) != 20 || cmp.Equal(a.EPCs, b.EPCs) || a.ID == b.ID || !a.Time.Before(b.Time) {
		t.Errorf("published: %v and %v", a, b)
	}
	for i, e := range append(first[:len(first):len(first)], a) {
		if i%50 != 0 && i < len(first)-200 {
			continue
		}
		doc, err := epcis.Parse(e.Raw, 1000)
		if err != nil {
			t.Fatalf("%s: %v", e.Raw, err)
		}
		if diff := cmp.Diff([]epcis.Event{e}, doc.Events, cmpopts.EquateEmpty(),
			cmpopts.IgnoreFields(epcis.Event{}, "Hash", "Raw")); diff != "" {
			t.Fatalf("%s (-event +text):\n%s", e.Raw, diff)
		}
	}
}

// Whatever can be boxed is boxed to the last article.
func TestShipmentsOfAnySize(t *testing.T) {
	t.Parallel()
	boxed := 0
	for n := 1; n < 400; n++ {
		if !boxable(n) {
			if n >= 40 || n >= 20 && n <= 30 {
				t.Errorf("%d articles cannot be boxed", n)
			}
			continue
		}
		g := NewShipments(uint64(n))
		for g.Articles() < n {
			g.Next(n - g.Articles())
		}
		if g.Articles() != n {
			t.Errorf("%d articles instead of %d", g.Articles(), n)
		}
		boxed++
	}
	if boxed != 371 {
		t.Errorf("%d sizes", boxed)
	}
}

// A journey ends before its container is loaded again.
func TestContainersComeBack(t *testing.T) {
	t.Parallel()
	g := NewShipments(3)
	for day := range discoveryTrials(30, 300) {
		events := g.Next(4000)
		took := events[len(events)-1].Time.Sub(shipmentsEpoch.AddDate(0, 0, day))
		if took > (fleetDays-1)*24*time.Hour {
			t.Errorf("day %d: under way for %v", day, took)
		}
	}
}
