package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/crawld/crawld/internal/discovery"
)

// mostPublishes are those per second that are made beforehand; a block ends early where
// they are not enough.
const mostPublishes = 8000

// traceTogether is the paper's experiment 3: traces per second with so many clients, each
// of which asks again when it has its answer.
func (r *discoveryRun) traceTogether(ctx context.Context, clients int) error {
	tracers := slices.DeleteFunc(slices.Clone(r.Tracers), func(t DiscoveryTracer) bool {
		return t.Alone || r.slow[t.Name] > 0
	})
	return r.blocks(len(tracers), func(i, run int) (float64, error) {
		t := tracers[i]
		rate, err := r.perSecond(clients, func(client int) func() (bool, error) {
			next := r.articles(uint64(run)<<32 | uint64(clients)<<16 | uint64(client))
			return func() (bool, error) { return true, t.Trace(ctx, next()) }
		})
		return rate, named(t.Name, err)
	}, func(i int, rate float64) { r.traces.add(tracers[i].Name, float64(clients), rate) })
}

func named(name string, err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return err
}

// publish is the paper's experiment 4: events of 20 objects per second, acknowledged as
// durable, from so many publishers.
func (r *discoveryRun) publish(ctx context.Context, clients int) error {
	return r.blocks(len(r.Publishers), func(i, _ int) (float64, error) {
		p := r.Publishers[i]
		made := make([]discovery.Record, max(int(r.Block.Seconds()*mostPublishes), clients))
		for k := range made {
			made[k] = recordOf(r.goods.Published())
		}
		var taken atomic.Int64
		rate, err := r.perSecond(clients, func(int) func() (bool, error) {
			return func() (bool, error) {
				k := int(taken.Add(1)) - 1
				if k >= len(made) {
					return false, nil
				}
				return true, p.Publish(ctx, made[k])
			}
		})
		return rate, named(p.Name, err)
	}, func(i int, rate float64) { r.publishes.add(r.Publishers[i].Name, float64(clients), rate) })
}

// perSecond lets clients work for a block, each until it is over or nothing is left. What
// was begun is ended, and its time counts.
func (r *discoveryRun) perSecond(clients int, work func(client int) func() (bool, error)) (
	float64, error) {
	var done atomic.Int64
	var group sync.WaitGroup
	faults := make([]error, clients)
	began := r.Clock()
	for client := range clients {
		do := work(client)
		group.Go(func() {
			for r.Clock().Sub(began) < r.Block {
				more, err := do()
				if faults[client] = err; err != nil || !more {
					return
				}
				done.Add(1)
			}
		})
	}
	group.Wait()
	took := r.Clock().Sub(began)
	if took <= 0 {
		took = time.Nanosecond
	}
	return float64(done.Load()) / took.Seconds(), errors.Join(faults...)
}
