package planner

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/fleet"
)

// The queue against a sorted slice, through random insertions, moves and removals.
func TestQueueAgainstSortedSlice(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	base := time.Unix(0, 0)
	for range 200 {
		q := &queue{slot: 0, less: sooner}
		all := make([]*sensor, 1+rng.IntN(30))
		for i := range all {
			all[i] = &sensor{Sensor: &fleet.Sensor{ID: string(rune('a' + i))},
				pos: [4]int{absent, absent, absent, absent}}
		}
		in := map[*sensor]bool{}
		for range 200 {
			s := all[rng.IntN(len(all))]
			if rng.IntN(3) == 0 {
				q.remove(s)
				delete(in, s)
			} else {
				s.at = base.Add(time.Duration(rng.IntN(20)) * time.Second)
				q.put(s)
				in[s] = true
			}
			if q.len() != len(in) {
				t.Fatalf("queue holds %d, want %d", q.len(), len(in))
			}
		}
		var want []*sensor
		for s := range in {
			want = append(want, s)
		}
		slices.SortFunc(want, func(a, b *sensor) int {
			if sooner(a, b) {
				return -1
			}
			return 1
		})
		for _, w := range want {
			if q.items[0] != w {
				t.Fatalf("queue gives %s at %v, want %s at %v", q.items[0].ID, q.items[0].at, w.ID, w.at)
			}
			q.remove(w)
		}
	}
}
