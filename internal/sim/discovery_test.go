package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/repository"
)

// ticking is a clock that goes on by a millisecond whenever it is read.
func ticking() func() time.Time {
	var reads atomic.Int64
	return func() time.Time { return Epoch.Add(time.Duration(reads.Add(1)) * time.Millisecond) }
}

// contest is a small comparison with a real repository under the name of crawld.
func contest(t *testing.T) Discovery {
	t.Helper()
	r, err := repository.Open(filepath.Join(t.TempDir(), "crawld.db"), repository.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	publish := func(ctx context.Context, records ...discovery.Record) error {
		stored, err := r.Publish(ctx, records)
		if slices.Contains(stored, false) {
			t.Error("an event is not new")
		}
		return err
	}
	return Discovery{
		Objects: []int{1000, 2000}, Clients: []int{1, 4}, Runs: 2, Block: 40 * time.Millisecond, Seed: 1,
		Clock: ticking(),
		Stores: []DiscoveryStore{{Name: DiscoveryOurs,
			Load: func(ctx context.Context, rs []discovery.Record) error { return publish(ctx, rs...) },
			Size: func(context.Context) (int64, error) { return r.Stats().FileBytes, nil },
		}},
		Tracers: []DiscoveryTracer{traceOf(DiscoveryOurs, r)},
		Publishers: []DiscoveryPublisher{{Name: DiscoveryOurs,
			Publish: func(ctx context.Context, r discovery.Record) error { return publish(ctx, r) }}},
	}
}

func traceOf(name string, s discovery.Store) DiscoveryTracer {
	find := func(ctx context.Context, object string) ([]discovery.Traced, error) {
		a, err := discovery.Trace(ctx, s, discovery.Query{Object: object, From: discovery.Beginning,
			To: discovery.Forever})
		return a.Events, err
	}
	return DiscoveryTracer{Name: name, Found: find,
		Trace: func(ctx context.Context, object string) error {
			_, err := find(ctx, object)
			return err
		}}
}

// Every contender is measured in every setting, in both units and in all formats.
func TestDiscoveryOfOneStore(t *testing.T) {
	t.Parallel()
	d := contest(t)
	var done, total int
	d.Progress = func(a, b int) { done, total = a, b }
	f, err := d.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if done != total || total == 0 {
		t.Errorf("%d of %d blocks", done, total)
	}
	for i, xs := range [][]float64{{1000, 2000}, {1000, 2000}, {1, 4}, {1, 4}} {
		p := f.Panels[i]
		if len(p.Series) != 1 || p.Series[0].Name != DiscoveryOurs {
			t.Fatalf("%s: %v", p.Title, p.Series)
		}
		for k, q := range p.Series[0].Points {
			if q.X != xs[k] || q.Mean <= 0 || q.N != 2 && i != 1 {
				t.Errorf("%s: %v", p.Title, q)
			}
		}
	}
	if v := f.Panels[0].Series[0].Points[0].Mean; v != 1000 {
		t.Errorf("a trace between two ticks of a millisecond takes %g us", v)
	}
	if per := fact(t, f, "events per object"); per < 1.07 || per > 1.11 {
		t.Errorf("%g events per object", per)
	}
	if least, most := fact(t, f, "events in the shortest trace"), fact(t, f,
		"events in the longest trace"); least < 12 || most > 18 {
		t.Errorf("traces of %g to %g events", least, most)
	}
	for _, format := range figure.Formats() {
		if err := f.Write(io.Discard, format); err != nil {
			t.Errorf("%s: %v", format, err)
		}
	}
}

// A second way to ask the same store has ratios of 1; one that comes to take too long is
// asked no more.
func TestRatiosAndTimeouts(t *testing.T) {
	t.Parallel()
	d := contest(t)
	ours := d.Tracers[0]
	rival, slow := ours, ours
	rival.Name = DiscoveryStatement
	slow.Name, slow.Alone = DiscoveryMode1, true
	asked := 0
	slow.Trace = func(ctx context.Context, object string) error {
		if asked++; asked > 500 {
			return fmt.Errorf("scan: %w", ErrTooSlow)
		}
		return ours.Trace(ctx, object)
	}
	d.Tracers = append(d.Tracers, rival, slow)
	store := d.Stores[0]
	store.Name, store.Load = DiscoveryMode2, nil
	d.Stores = append(d.Stores, store)
	f, err := d.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if v := fact(t, f, "median trace at 2000 objects, crawld / "+DiscoveryStatement); v != 100 {
		t.Errorf("the same tracer takes %g %%", v)
	}
	if v := fact(t, f, "size at 2000 objects, crawld / "+DiscoveryMode2); v != 1 {
		t.Errorf("the same store is %g times as large", v)
	}
	if v := fact(t, f, "most traces per second, crawld / "+DiscoveryStatement); v < 0.5 || v > 2 {
		t.Errorf("the same tracer is %g times as fast by a clock that counts reads", v)
	}
	if len(f.Panels[0].Series) != 3 || len(f.Panels[2].Series) != 2 {
		t.Errorf("%d tracers alone, %d together", len(f.Panels[0].Series), len(f.Panels[2].Series))
	}
	said := strings.Join(f.Notes, "\n")
	if !strings.Contains(said, "Mode 1 is given up at 2000 objects") {
		t.Errorf("no word of the time-out: %s", said)
	}
}

// The negative control: a contender that leaves an event out, moves one, or knows nothing
// of levels is no contender.
func TestContendersThatDisagreeAreCaught(t *testing.T) {
	t.Parallel()
	for want, spoil := range map[string]func([]discovery.Traced) []discovery.Traced{
		" events and ": func(e []discovery.Traced) []discovery.Traced { return e[1:] },
		"event 0: ": func(e []discovery.Traced) []discovery.Traced {
			e = slices.Clone(e)
			e[0].Time++
			return e
		},
		"event 2: ": func(e []discovery.Traced) []discovery.Traced {
			e = slices.Clone(e)
			for i := range e {
				e[i].Level = 0
			}
			return e
		},
	} {
		d := contest(t)
		liar := d.Tracers[0]
		liar.Name = "liar"
		honest := liar.Found
		liar.Found = func(ctx context.Context, object string) ([]discovery.Traced, error) {
			events, err := honest(ctx, object)
			return spoil(events), err
		}
		d.Tracers = append(d.Tracers, liar)
		if _, err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "crawld and liar: trace of https://id.gs1.org/01/") {
			t.Errorf("%q: %v", want, err)
		}
	}
}

func TestDiscoveryFaults(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for want, change := range map[string]func(*Discovery){
		"1035 objects after 1000: boxes of": func(d *Discovery) { d.Objects = []int{1000, 1035} },
		"1000 objects after 1000: ":         func(d *Discovery) { d.Objects = []int{1000, 1000} },
		"no objects, or no clients":         func(d *Discovery) { d.Clients = nil },
		"0 blocks of":                       func(d *Discovery) { d.Runs = 0 },
		"0 clients: must be positive":       func(d *Discovery) { d.Clients = []int{0} },
		"1000 objects: crawld: boom": func(d *Discovery) {
			d.Stores[0].Load = func(context.Context, []discovery.Record) error { return boom }
		},
		"4 clients: crawld: boom": func(d *Discovery) {
			publish := d.Publishers[0].Publish
			var seen atomic.Int64
			d.Clients = []int{4}
			d.Publishers[0].Publish = func(ctx context.Context, r discovery.Record) error {
				if seen.Add(1) > 10 {
					return boom
				}
				return publish(ctx, r)
			}
		},
	} {
		d := contest(t)
		d.Objects = d.Objects[:1]
		change(&d)
		if _, err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, not %q", err, want)
		}
	}
}
