package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

const (
	// loadedAtOnce is about how many events a store is given at a time while it is loaded.
	loadedAtOnce = 20_000
	// compared is how many answers of each contender are held against the first one's.
	compared = 25
	// tracesPerBlock are enough for a median; a slow contender gets Block for fewer.
	tracesPerBlock = 400
	// The block that warms up asks for every warmOnes-th article, so that most pages are
	// where a server that runs for long has them, or takes warmBlocks times as long.
	warmOnes   = 10
	warmBlocks = 20
)

// load brings all stores to n objects.
func (r *discoveryRun) load(ctx context.Context, n int) error {
	for r.goods.Articles() < n {
		var batch []discovery.Record
		for r.goods.Articles() < n && len(batch) < loadedAtOnce {
			for _, e := range r.goods.Next(n - r.goods.Articles()) {
				batch = append(batch, recordOf(e))
			}
		}
		r.events += len(batch)
		err := r.eachStore(func(s DiscoveryStore) error {
			if s.Load == nil {
				return nil
			}
			return s.Load(ctx, batch)
		})
		if err != nil {
			return err
		}
	}
	err := r.eachStore(func(s DiscoveryStore) error {
		if s.Settle == nil {
			return nil
		}
		return s.Settle(ctx)
	})
	r.tell()
	return err
}

// recordOf is an event as its information service publishes it.
func recordOf(e epcis.Event) discovery.Record {
	return discovery.Record{Event: e, Publisher: e.Source, Recorded: e.Time.Add(time.Second)}
}

// eachStore does something to every store and counts its time as loading.
func (r *discoveryRun) eachStore(do func(DiscoveryStore) error) error {
	for _, s := range r.Stores {
		began := r.Clock()
		if err := do(s); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		r.loading[s.Name] += r.Clock().Sub(began)
	}
	return nil
}

// agree holds some answers of all contenders against each other.
func (r *discoveryRun) agree(ctx context.Context, n int) error {
	next := r.articles(uint64(n))
	for range compared {
		object := next()
		var want []discovery.Traced
		for i, t := range r.Tracers {
			if r.slow[t.Name] > 0 {
				continue
			}
			got, err := t.Found(ctx, object)
			if errors.Is(err, ErrTooSlow) {
				r.slow[t.Name] = n
				continue
			}
			if err != nil {
				return fmt.Errorf("%s: trace of %s: %w", t.Name, object, err)
			}
			if i == 0 {
				want = got
			}
			if err := sameTrace(want, got); err != nil {
				return fmt.Errorf("%s and %s: trace of %s: %w", r.Tracers[0].Name, t.Name, object, err)
			}
		}
		if r.shortest == 0 {
			r.shortest = len(want)
		}
		r.shortest, r.longest = min(r.shortest, len(want)), max(r.longest, len(want))
	}
	return nil
}

// sameTrace tells where two answers differ in what every contender answers.
func sameTrace(want, got []discovery.Traced) error {
	if len(want) != len(got) {
		return fmt.Errorf("%d events and %d", len(want), len(got))
	}
	shown := func(t discovery.Traced) string {
		return fmt.Sprintf("%s at %d on level %d, %s, of %s", t.EventID, t.Time, t.Level, t.BizStep,
			t.Source)
	}
	for i := range want {
		if a, b := shown(want[i]), shown(got[i]); a != b {
			return fmt.Errorf("event %d: %s, and %s", i, a, b)
		}
	}
	return nil
}

// trace is the paper's experiment 1: how long one client waits for a trace. A block is the
// median of its traces.
func (r *discoveryRun) trace(ctx context.Context, n int) error {
	return r.blocks(len(r.Tracers), func(i, run int) (float64, error) {
		t, next := r.Tracers[i], r.articles(uint64(n)<<8|uint64(run+1))
		if r.slow[t.Name] > 0 {
			return 0, nil
		}
		most, limit := tracesPerBlock, r.Block
		if run == 0 {
			most, limit = max(most, n/warmOnes), warmBlocks*limit
		}
		median, err := r.median(ctx, t, next, most, limit)
		if errors.Is(err, ErrTooSlow) {
			r.slow[t.Name] = n
			return 0, nil
		}
		return median, err
	}, func(i int, median float64) {
		if name := r.Tracers[i].Name; r.slow[name] == 0 {
			r.times.add(name, float64(n), median)
		}
	})
}

// median is that of the times of single traces in us: at least one, at most so many, begun
// within the limit.
func (r *discoveryRun) median(ctx context.Context, t DiscoveryTracer, next func() string,
	most int, limit time.Duration) (float64, error) {
	var took []float64
	for began := r.Clock(); len(took) < most; {
		object, asked := next(), r.Clock()
		if err := t.Trace(ctx, object); err != nil {
			return 0, fmt.Errorf("%s: trace of %s: %w", t.Name, object, err)
		}
		answered := r.Clock()
		took = append(took, float64(answered.Sub(asked))/float64(time.Microsecond))
		if answered.Sub(began) > limit {
			break
		}
	}
	return caseQuantile(took, 0.5), nil
}

// measure is the paper's experiment 2: how large the stores are.
func (r *discoveryRun) measure(ctx context.Context, n int) error {
	for _, s := range r.Stores {
		bytes, err := s.Size(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		r.sizes.add(s.Name, float64(n), float64(bytes)/1e6)
	}
	return nil
}
