package planner

import (
	"math/rand/v2"
	"testing"
	"time"
)

// Whatever is planned for whom and in which order, the loads are those of the plans,
// and an instant that a full second pushes away stays in its window, in order, and
// takes the nearest earlier second with room.
func TestSlotsAgainstRecount(t *testing.T) {
	plan := cycle(t, time.Minute, 7*time.Second, 0)
	par := parameters()
	par.Capacity = 2
	moved, kept := 0, 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 8))
		p, err := New(testFleet(t, plan, plan, plan, plan, plan), par, Saved{}, start)
		if err != nil {
			t.Fatal(err)
		}
		for range 12 {
			s := p.sensors[rng.IntN(len(p.sensors))]
			var want []time.Time
			for m := range 3 {
				if rng.IntN(3) > 0 {
					tick := time.Duration(55+rng.IntN(15)) * 100 * time.Millisecond
					want = append(want, start.Add(time.Duration(m)*time.Minute+tick%(7*time.Second)))
				}
			}
			others := map[int64]int32{}
			for _, o := range p.sensors {
				if o != s {
					for _, at := range o.rec.Instants {
						others[at.Unix()]++
					}
				}
			}
			from := start
			if len(want) > 0 {
				from = want[0].Add(-time.Duration(rng.IntN(40)) * 100 * time.Millisecond)
			}
			asked := append([]time.Time(nil), want...)
			p.setInstants(s, p.spread(s, want, from))
			for k, at := range s.rec.Instants {
				w, _ := plan.Window(asked[k])
				if at.Before(w.Start) || at.After(asked[k]) {
					t.Fatalf("seed %d: %v moved to %v, window %v", seed, asked[k], at, w)
				}
				expect := nearestRoom(asked[k], later(w.Start, from), others, 2)
				if !at.Equal(expect) {
					t.Fatalf("seed %d: %v moved to %v, want %v", seed, asked[k], at, expect)
				}
				if at.Equal(asked[k]) {
					kept++
				} else {
					moved++
				}
			}
			recount := map[int64]int32{}
			for _, o := range p.sensors {
				for _, at := range o.rec.Instants {
					recount[at.Unix()]++
				}
			}
			if len(recount) != len(p.load) {
				t.Fatalf("seed %d: load %v, want %v", seed, p.load, recount)
			}
			for second, n := range recount {
				if p.load[second] != n {
					t.Fatalf("seed %d: load %v, want %v", seed, p.load, recount)
				}
			}
		}
	}
	if moved < 100 || kept < 100 {
		t.Errorf("%d instants moved, %d stayed", moved, kept)
	}
}

// nearestRoom tries every tick from at back to the window's start.
func nearestRoom(at, first time.Time, load map[int64]int32, capacity int32) time.Time {
	for t := at; !t.Before(first); t = t.Add(-100 * time.Millisecond) {
		if load[t.Unix()] < capacity {
			return t
		}
	}
	return at
}
