package repository

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
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

// BenchmarkTrace traces items through three containers among 10 000 of them, in one
// transaction and, as its slow twin, in one for each row.
func BenchmarkTrace(b *testing.B) {
	r, items := published(b, 10000)
	took := map[string]time.Duration{}
	for _, way := range []struct {
		name  string
		store discovery.Store
	}{{"rows", rowByRow{r}}, {"trace", r}} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			took[way.name] = benchTrace(b, way.store, items)
			if slow := took["rows"]; way.name == "trace" && slow > 0 {
				b.ReportMetric(float64(slow)/float64(took["trace"]), "x-rows")
			}
		})
	}
	s := r.Stats()
	b.Logf("%d bytes in use an item", (s.FileBytes-s.FreeBytes)/int64(len(items)))
}

// benchTrace returns the median.
func benchTrace(b *testing.B, s discovery.Store, items []string) time.Duration {
	rnd := rand.New(rand.NewPCG(1, 1))
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		start := time.Now()
		a, err := discovery.Trace(b.Context(), s, discovery.Query{
			Object: items[rnd.IntN(len(items))], From: discovery.Beginning, To: discovery.Forever})
		took = append(took, time.Since(start))
		if err != nil || len(a.Events) != tripEvents || len(a.Warnings) > 0 || !a.Finished {
			b.Fatalf("%d events, %+v, %v", len(a.Events), a.Warnings, err)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "us-median")
	return took[len(took)/2]
}

// rowByRow reads each row as a whole in a transaction of its own.
type rowByRow struct{ *Repository }

func (r rowByRow) Read(fn func(discovery.Rows) error) error {
	return fn(&separateRows{r: r.Repository})
}

type separateRows struct {
	r    *Repository
	left []discovery.Cell
	err  error
}

func (s *separateRows) Scan(object string, f discovery.Family, from, to int64) {
	s.err = s.r.Read(func(rows discovery.Rows) (err error) {
		s.left, err = scan(rows, object, f, from, to, discovery.MaxCells)
		return err
	})
}

func (s *separateRows) Next(c *discovery.Cell) (is bool, err error) {
	if is = len(s.left) > 0 && s.err == nil; is {
		*c, s.left = s.left[0], s.left[1:]
	}
	return is, s.err
}

// BenchmarkPublish shares publications of one event about 20 objects of consecutive numbers.
func BenchmarkPublish(b *testing.B) {
	b.Logf("a sync costs %v", syncCost(b, b.TempDir()))
	publishTogether(b, open(b, dataFile(b), Options{}), func(n int64) epcis.Event {
		var objects []string
		for i := range int64(20) {
			objects = append(objects, fmt.Sprintf("https://id.gs1.org/01/09506000134352/21/%012d",
				(n*7919+i)%1_000_000))
		}
		return newEvent(epcis.Event{Kind: epcis.Aggregation, Action: epcis.Add, EPCs: objects,
			BizStep: "packing", Parent: fmt.Sprintf("https://id.gs1.org/00/1%017d", n)}, n)
	})
}

// BenchmarkPublishAnywhere shares publications that see 20 items anywhere among 100 000.
func BenchmarkPublishAnywhere(b *testing.B) {
	r, items := published(b, 100_000)
	publishTogether(b, r, func(n int64) epcis.Event {
		rnd := rand.New(rand.NewPCG(uint64(n), 3))
		var objects []string
		for range 20 {
			objects = append(objects, items[rnd.IntN(len(items))])
		}
		e := newEvent(epcis.Event{Kind: epcis.Object, Action: epcis.Observe, EPCs: objects,
			BizStep: "inspecting"}, 1e15+n)
		e.Raw = rawOf(&e)
		return e
	})
}

// publishTogether has 64 publishers share b.N publications, each acknowledged when it is
// synced.
func publishTogether(b *testing.B, r *Repository, event func(n int64) epcis.Event) {
	var next atomic.Int64
	var wg sync.WaitGroup
	before, pages, used := r.Stats(), pagesWritten(r), processor(b)
	b.ResetTimer()
	for range 64 {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				_, err := r.Publish(b.Context(), []discovery.Record{{Event: event(n), Publisher: "kid"}})
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	s := r.Stats()
	used = processor(b) - used
	pages = pagesWritten(r) - pages
	b.ReportMetric(float64(pages)/float64(b.N), "pages/publish")
	b.ReportMetric(float64(used.Microseconds())/float64(b.N), "cpu-us/publish")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "publishes/s")
	b.ReportMetric(float64(s.Writes-before.Writes)/float64(s.Commits-before.Commits),
		"publishes/commit")
}

// rawOf is an event in JSON, as a publisher writes it.
func rawOf(e *epcis.Event) json.RawMessage {
	raw, err := json.Marshal(map[string]any{"type": "ObjectEvent", "action": "OBSERVE",
		"bizStep": e.BizStep, "eventTime": e.Time.Format(time.RFC3339Nano), "epcList": e.EPCs,
		"eventTimeZoneOffset": "+00:00"})
	if err != nil {
		panic(err)
	}
	return raw
}

func pagesWritten(r *Repository) int64 {
	s := r.db.Stats()
	return s.TxStats.GetWrite()
}

// processor is the time that all threads have had so far.
func processor(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
