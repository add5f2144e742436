package planner

import (
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// A record or plan from a damaged database is refused or lived with: no panic,
// no visit outside a window, no budget exceeded, no loop without waiting.
func FuzzSaved(f *testing.F) {
	par := parameters()
	slow, err := sleepplan.Cycle(time.Minute, 20*time.Second, start)
	if err != nil {
		f.Fatal(err)
	}
	fl := testFleet(f, slow, sleepplan.Unknown())
	p, err := New(fl, par, Saved{}, start)
	if err != nil {
		f.Fatal(err)
	}
	snap, _ := p.Problem(start)
	plan, err := snap.Solve(1)
	if err != nil {
		f.Fatal(err)
	}
	p.Adopt(plan, start)
	encoded, err := plan.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p.sensors[0].rec.Encode(), p.FleetRecord(), encoded)
	f.Add(p.sensors[1].rec.Encode(), []byte(`{}`), []byte(`{}`))
	f.Add([]byte(`{"since":"2026-05-04T12:00:00Z","used":-1}`), []byte(`{"range":"2026-05-04T12:00:00Z"}`),
		[]byte(`{"start":"2026-05-04T12:00:00Z","sensors":[{"id":"s0","at":[-5,3,2]}]}`))
	f.Fuzz(func(t *testing.T, record, fleetRecord, plan []byte) {
		if CheckRecord(record) != nil {
			record = nil
		}
		saved := Saved{Fleet: fleetRecord, Plan: plan,
			Sensors: map[string][]byte{"s0": record, "s1": record}}
		now := start.Add(time.Minute)
		p, err := New(fl, par, saved, now)
		if err != nil {
			return
		}
		d := &driver{t: t, p: p, now: now}
		taken := 0
		for range 40 {
			v := d.next()
			if v.Deadline.After(d.now) {
				taken++
				if v.Kind == visit.Planned && !slow.Awake(d.now) {
					t.Fatalf("%+v at %v while it sleeps", v, d.now)
				}
			}
			if end := start.Add(par.Range); d.now.Before(end) && taken > par.Theta(2) {
				t.Fatalf("%d visits of a budget of %d by %v", taken, par.Theta(2), d.now)
			}
			d.tell(v, visit.Unchanged)
		}
	})
}
