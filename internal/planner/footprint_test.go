package planner

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// BenchmarkFootprint is the memory that stays in use of a planner whose fleet has been
// crawled for a range: 100 000 sensors, or a million with CRAWLD_SOAK.
func BenchmarkFootprint(b *testing.B) {
	n := 100_000
	if os.Getenv("CRAWLD_SOAK") != "" {
		n = 1_000_000
	}
	list := make([]fleet.Sensor, n)
	for i := range list {
		plan, err := sleepplan.Cycle(5*time.Minute, 30*time.Second,
			start.Add(time.Duration(i%300)*time.Second))
		if err != nil {
			b.Fatal(err)
		}
		list[i] = fleet.Sensor{ID: fmt.Sprintf("s%07d", i), Weight: 1, MaxCrawls: fleet.NoCap,
			URI: fmt.Sprintf("coap://10.%d.%d.%d/", i>>16, i>>8&255, i&255), Rate: 1. / 600, Plan: plan}
	}
	before := inUse()
	var p *Planner
	for range b.N {
		f, err := fleet.New(list)
		if err != nil {
			b.Fatal(err)
		}
		if p, err = New(f, parameters(), Saved{}, start); err != nil {
			b.Fatal(err)
		}
		crawlRange(b, p)
	}
	b.ReportMetric(float64(inUse()-before)/float64(n), "B/sensor")
	runtime.KeepAlive(list)
	runtime.KeepAlive(p)
}

func inUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// crawlRange lives through the first range; every visit is answered at once.
func crawlRange(b *testing.B, p *Planner) {
	visits := 0
	for now := start; now.Before(start.Add(p.par.Range)); {
		if snap, ok := p.Problem(now); ok {
			plan, err := snap.Solve(runtime.GOMAXPROCS(0))
			if err != nil {
				b.Fatal(err)
			}
			p.Adopt(plan, now)
		}
		v, ok, wake := p.Next(now)
		if !ok {
			now = wake
			continue
		}
		visits++
		o := visit.Outcome{Visit: v, Result: visit.Described, Contact: true, Started: now, Ended: now,
			NewETag: []byte{byte(visits), byte(visits >> 8)}, Hash: fmt.Sprintf("%064x", visits)}
		p.Observe(o, now)
	}
	if visits < len(p.sensors) {
		b.Fatalf("%d visits to %d sensors", visits, len(p.sensors))
	}
}
