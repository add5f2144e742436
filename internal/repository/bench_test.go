package repository

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/search"
)

// syncCost is what one synced write costs in the directory, the mean of 50.
func syncCost(b *testing.B, dir string) time.Duration {
	f, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	const n = 50
	start := time.Now()
	for i := range int64(n) {
		_, err := f.WriteAt(make([]byte, 4096), i*4096)
		if err := errors.Join(err, f.Sync()); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start) / n
}

// description is a body of about 1 KB: links all sensors of a kind have, and
// what is the sensor's own.
func description(i int) string {
	var links strings.Builder
	fmt.Fprintf(&links, "</fw>;rt=\"fw\";title=\"%x\"", sha256.Sum256(fmt.Append(nil, i)))
	for n := 0; links.Len() < 1000; n++ {
		fmt.Fprintf(&links, ",</sensors/%d>;rt=\"temperature-c\";if=\"sensor\";ct=50;obs", n)
	}
	return links.String()
}

// run has 64 goroutines share b.N writes.
func run(b *testing.B, write func(Write) error) time.Duration {
	var next atomic.Int64
	var wg sync.WaitGroup
	b.ResetTimer()
	for range 64 {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				sensor := fmt.Sprintf("coap://[2001:db8::%x]", i)
				w := described(sensor, description(int(i)), epoch.Add(time.Duration(i)*time.Second))
				if err := write(w); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	return b.Elapsed()
}

// BenchmarkStore compares group commit with its rival, one transaction of bbolt
// per description that writes the same rows.
func BenchmarkStore(b *testing.B) {
	cost := syncCost(b, b.TempDir())
	if cost < 100*time.Microsecond {
		b.Skipf("a sync costs %v here: set TMPDIR to a disk where it costs 100 us or more", cost)
	}
	b.Logf("a sync costs %v", cost)
	var update time.Duration
	b.Run("update", func(b *testing.B) {
		r := open(b, dataFile(b), Options{})
		var mu sync.Mutex
		took := run(b, func(w Write) error {
			row, err := r.prepare(w)
			if err != nil {
				return err
			}
			mu.Lock() // as bbolt would, but for the counts
			defer mu.Unlock()
			var t *transaction
			err = r.db.Update(func(tx *bbolt.Tx) error {
				t = r.transaction(tx)
				return errors.Join(row.apply(t), t.putCounts(counts{}))
			})
			r.known.Store(&t.counts)
			return err
		})
		update = took / time.Duration(b.N)
	})
	b.Run("group", func(b *testing.B) {
		r := open(b, dataFile(b), Options{})
		took := run(b, func(w Write) error { return r.Store(b.Context(), w) })
		s := r.Stats()
		b.ReportMetric(float64(s.Writes)/float64(s.Commits), "writes/commit")
		if update > 0 {
			b.ReportMetric(float64(update)*float64(b.N)/float64(took), "x-update")
		}
	})
}

// BenchmarkSpace reports the bytes that a sensor takes whose description has
// 1 KB, after one visit: all of one firmware, or each with a body of its own.
func BenchmarkSpace(b *testing.B) {
	const sensors = 50000
	for name, kinds := range map[string]int{"shared": 100, "distinct": sensors} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r := open(b, dataFile(b), Options{})
				var wg sync.WaitGroup
				wg.Add(sensors)
				for i := range sensors {
					id := fmt.Sprintf("coap://[2001:db8::%x]", i)
					r.StoreAsync(described(id, description(i%kinds), epoch), func(err error) {
						if err != nil {
							b.Error(err)
						}
						wg.Done()
					})
				}
				wg.Wait()
				s := r.Stats()
				b.ReportMetric(float64(s.FileBytes-s.FreeBytes)/sensors, "B/sensor")
				b.ReportMetric(float64(s.FileBytes)/sensors, "file-B/sensor")
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	r := open(b, dataFile(b), Options{})
	var wg sync.WaitGroup
	const sensors = 10000
	wg.Add(sensors)
	for i := range sensors {
		r.StoreAsync(described(fmt.Sprint(i), description(i), epoch), func(error) { wg.Done() })
	}
	wg.Wait()
	for i := 0; b.Loop(); i++ {
		l, _, err := r.Latest(fmt.Sprint(i * 7919 % sensors))
		if err == nil {
			_, err = r.Body(l.Hash)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSearch finds the links of a type that one sensor in a thousand has among
// 100 000 sensors of five links, through the index and as a scan of all descriptions.
func BenchmarkSearch(b *testing.B) {
	const sensors = 100_000
	path := dataFile(b)
	r := open(b, path, Options{})
	var wg sync.WaitGroup
	wg.Add(sensors)
	for i := range sensors {
		body := fmt.Sprintf("</fw>;rt=firmware;title=\"unit %d\",</t>;rt=temperature-c;if=sensor;ct=50;"+
			"obs,</h>;rt=humidity;if=sensor;ct=50;obs,</b>;rt=battery;if=sensor,</k>;rt=kind-%d;if=core.p",
			i, i%1000)
		r.StoreAsync(described(fmt.Sprintf("coap://[2001:db8::%x]", i), body, epoch),
			func(err error) { wg.Done() })
		if i%maxGroup == 0 { // the queue is bounded
			if err := r.PutFleet(b.Context(), nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	wg.Wait()
	query := func(value string) search.Query {
		return search.Query{Attrs: []search.Attr{{Name: "rt", Value: value}}}
	}
	began := time.Now()
	scan := searching{r: r, q: query("kind-7"), limit: maxPage, work: math.MaxInt, scan: true}
	if err := scan.run(nil); err != nil || len(scan.found.Hits) != sensors/1000 {
		b.Fatal(len(scan.found.Hits), err)
	}
	took := time.Since(began)
	for name, value := range map[string]string{"exact": "kind-7", "prefix": "kind-77*"} {
		b.Run(name, func(b *testing.B) {
			hits := 0
			for b.Loop() {
				hits = 0
				for after, more := "", true; more; more = after != "" {
					found, err := r.Search(query(value), nil, after, 0)
					if err != nil {
						b.Fatal(err)
					}
					hits, after = hits+len(found.Hits), found.Next
				}
			}
			b.ReportMetric(float64(hits), "hits")
			b.ReportMetric(float64(took)*float64(b.N)/float64(b.Elapsed()), "x-scan")
		})
	}
	s := r.Stats()
	b.Logf("%d bytes in use a sensor", (s.FileBytes-s.FreeBytes)/sensors)
}
