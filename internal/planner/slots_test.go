package planner

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// loadOf counts the instants of all sensors but one by second.
func loadOf(p *Planner, but *sensor) map[int64]int32 {
	load := map[int64]int32{}
	for _, o := range p.sensors {
		if o != but {
			for _, at := range o.rec.Instants {
				load[at.Unix()]++
			}
		}
	}
	return load
}

// slotsOf plans a sensor at random instants in the windows of its plan, not before from.
func slotsOf(p *Planner, s *sensor, rng *rand.Rand) (asked []time.Time, from time.Time) {
	for m := range 3 {
		if rng.IntN(3) > 0 {
			tick := time.Duration(55+rng.IntN(15)) * 100 * time.Millisecond
			asked = append(asked, start.Add(time.Duration(m)*time.Minute+tick%(7*time.Second)))
		}
	}
	from = start
	if len(asked) > 0 {
		from = asked[0].Add(-time.Duration(rng.IntN(40)) * 100 * time.Millisecond)
	}
	p.setInstants(s, p.spread(s, slices.Clone(asked), from))
	return asked, from
}

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
			others := loadOf(p, s)
			asked, from := slotsOf(p, s, rng)
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
			if want := loadOf(p, nil); !maps.Equal(want, p.load) {
				t.Fatalf("seed %d: load %v, want %v", seed, p.load, want)
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
