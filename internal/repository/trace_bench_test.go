package repository

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

const (
	perBox     = 25 // items
	perPallet  = 6  // boxes
	tripEvents = 15 // of an item's history
)

// trip is the history of a pallet's items, the Fig. 3 of the paper: made, packed, put on a
// pallet and that on a truck, driven, and taken out again.
func trip(pallet int, trucks int) (events []epcis.Event, items []string) {
	us := int64(pallet) * 1_000_000_000
	put := func(k epcis.Kind, a epcis.Action, step, parent string, epcs ...string) {
		us += 1_000_000
		events = append(events, newEvent(epcis.Event{Kind: k, Action: a, BizStep: step,
			Parent: parent, EPCs: epcs, Source: fmt.Sprintf("urn:is:%d", len(events)%7)}, us))
	}
	sscc := func(kind, n int) string {
		return fmt.Sprintf("https://id.gs1.org/00/%d%017d", kind, n)
	}
	truck := sscc(3, pallet%trucks)
	thePallet := sscc(2, pallet)
	var boxes []string
	for b := range perPallet {
		var inBox []string
		box := sscc(1, pallet*perPallet+b)
		for i := range perBox {
			n := (pallet*perPallet+b)*perBox + i
			inBox = append(inBox, fmt.Sprintf("https://id.gs1.org/01/09506000134352/21/%012d", n))
			put(epcis.Object, epcis.Add, "commissioning", "", inBox[i])
		}
		put(epcis.Aggregation, epcis.Add, "packing", box, inBox...)
		boxes, items = append(boxes, box), append(items, inBox...)
	}
	put(epcis.Aggregation, epcis.Add, "loading", thePallet, boxes...)
	for _, step := range []string{"shipping", "receiving"} {
		put(epcis.Object, epcis.Observe, step, "", thePallet)
	}
	put(epcis.Aggregation, epcis.Add, "loading", truck, thePallet)
	for _, step := range []string{"departing", "transporting", "arriving"} {
		put(epcis.Object, epcis.Observe, step, "", truck)
	}
	put(epcis.Aggregation, epcis.Delete, "unloading", truck, thePallet)
	put(epcis.Aggregation, epcis.Delete, "unloading", thePallet, boxes...)
	for b, box := range boxes {
		for _, step := range []string{"shipping", "receiving"} {
			put(epcis.Object, epcis.Observe, step, "", box)
		}
		inBox := items[b*perBox : (b+1)*perBox]
		put(epcis.Aggregation, epcis.Delete, "unpacking", box, inBox...)
		put(epcis.Object, epcis.Delete, "retail_selling", "", inBox...)
	}
	return events, items
}

// published fills a file with the history of so many items.
func published(b testing.TB, items int) (r *Repository, all []string) {
	r = open(b, dataFile(b), Options{})
	for pallet := 0; len(all) < items; pallet++ {
		events, made := trip(pallet, 20)
		all = append(all, made...)
		var records []discovery.Record
		for _, e := range events {
			records = append(records, discovery.Record{Event: e, Publisher: "kid", Recorded: epoch})
		}
		if _, err := r.Publish(b.Context(), records); err != nil {
			b.Fatal(err)
		}
	}
	return r, all
}

// BenchmarkTrace traces items through three containers among 10 000 of them.
func BenchmarkTrace(b *testing.B) {
	r, items := published(b, 10000)
	rnd := rand.New(rand.NewPCG(1, 1))
	var cells int
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		a, err := discovery.Trace(b.Context(), r, discovery.Query{
			Object: items[rnd.IntN(len(items))], From: discovery.Beginning, To: discovery.Forever})
		took = append(took, time.Since(start))
		if err != nil || len(a.Events) != tripEvents || len(a.Warnings) > 0 || !a.Finished {
			b.Fatalf("%d events, %+v, %v", len(a.Events), a.Warnings, err)
		}
		cells += len(a.Events)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "us-median")
	b.ReportMetric(float64(cells)/float64(b.N), "events/trace")
	s := r.Stats()
	b.ReportMetric(float64(s.FileBytes-s.FreeBytes)/float64(len(items)), "B/item")
}
