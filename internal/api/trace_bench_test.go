package api

import (
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

// BenchmarkTrace asks for histories through three containers over HTTP, with one client and
// with 50.
func BenchmarkTrace(b *testing.B) {
	d := newEvents(b)
	items := tripsOf(b, d)
	server := httptest.NewServer(d.handler)
	defer server.Close()
	for _, clients := range []int{1, 50} {
		b.Run(fmt.Sprint(clients), func(b *testing.B) {
			client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
			defer client.CloseIdleConnections()
			b.ReportAllocs()
			var group sync.WaitGroup
			for c := range clients {
				group.Go(func() {
					for i := c; i < b.N; i += clients {
						size, err := fetched(client, server.URL+"/epcs/"+
							url.PathEscape(items[i%len(items)])+"/trace")
						if err != nil {
							b.Error(err)
							return
						}
						if i == 0 {
							b.ReportMetric(float64(size), "B/answer")
						}
					}
				})
			}
			group.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "traces/s")
		})
	}
}

func fetched(client *http.Client, address string) (size int, err error) {
	res, err := client.Get(address)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", res.Status, body)
	}
	return len(body), err
}

// BenchmarkTraceHandler is without client, connection and copy.
func BenchmarkTraceHandler(b *testing.B) {
	d := newEvents(b)
	items := tripsOf(b, d)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r := httptest.NewRequest(http.MethodGet, "/epcs/"+url.PathEscape(items[i%len(items)])+"/trace",
			nil)
		w := httptest.NewRecorder()
		d.handler.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			b.Fatal(w.Code, w.Body)
		}
	}
}

// tripsOf publishes 1000 histories of 15 events: made, boxed with others, on a pallet and that
// on a truck, and sold.
func tripsOf(b *testing.B, d *events) (items []string) {
	us := int64(0)
	var records []discovery.Record
	put := func(k epcis.Kind, a epcis.Action, step, parent string, epcs ...string) {
		us++
		id := fmt.Sprintf("urn:uuid:6ba7b810-9dad-11d1-80b4-%012x", us)
		records = append(records, discovery.Record{Event: epcis.Event{ID: id, Kind: k, Action: a,
			BizStep: step, Parent: parent, EPCs: epcs, Source: fmt.Sprint("acme:", us%7),
			Time: time.UnixMicro(us * 1e6).UTC(), Hash: sha256.Sum256([]byte(id))}})
	}
	for box := range 40 {
		sscc := func(kind int) string { return fmt.Sprintf("https://id.gs1.org/00/%d%017d", kind, box) }
		var in []string
		for i := range 25 {
			in = append(in, fmt.Sprintf("https://id.gs1.org/01/09506000134352/21/%06d", 25*box+i))
		}
		put(epcis.Object, epcis.Add, "commissioning", "", in...)
		put(epcis.Aggregation, epcis.Add, "packing", sscc(1), in...)
		put(epcis.Aggregation, epcis.Add, "loading", sscc(2), sscc(1))
		put(epcis.Object, epcis.Observe, "shipping", "", sscc(2))
		put(epcis.Object, epcis.Observe, "receiving", "", sscc(2))
		put(epcis.Aggregation, epcis.Add, "loading", sscc(3), sscc(2))
		for _, step := range []string{"departing", "transporting", "arriving"} {
			put(epcis.Object, epcis.Observe, step, "", sscc(3))
		}
		put(epcis.Aggregation, epcis.Delete, "unloading", sscc(3), sscc(2))
		put(epcis.Aggregation, epcis.Delete, "unloading", sscc(2), sscc(1))
		put(epcis.Object, epcis.Observe, "shipping", "", sscc(1))
		put(epcis.Object, epcis.Observe, "receiving", "", sscc(1))
		put(epcis.Aggregation, epcis.Delete, "unpacking", sscc(1), in...)
		put(epcis.Object, epcis.Delete, "retail_selling", "", in...)
		items = append(items, in...)
	}
	if _, err := d.repo.Publish(b.Context(), records); err != nil {
		b.Fatal(err)
	}
	return items
}
