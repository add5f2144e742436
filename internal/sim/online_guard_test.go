package sim

import (
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// A window has one error, whenever it is looked at: what was silent before a window's
// end stays silent, and what is heard after it was heard all along.
func TestSkewIsOfTheWindow(t *testing.T) {
	for _, awake := range []time.Duration{10 * time.Second, 5 * time.Minute, 15 * time.Minute} {
		plan, err := sleepplan.Cycle(20*time.Minute, awake, Epoch)
		if err != nil {
			t.Fatal(err)
		}
		s := &sensor{Sensor: &Sensor{Plan: plan, Skew: time.Second}, seed: 9}
		early, late := 0, 0
		for k := range 500 {
			end := Epoch.Add(time.Duration(k)*20*time.Minute + awake)
			heard, last := true, false
			for off := -4 * time.Second; off <= 4*time.Second; off += 100 * time.Millisecond {
				last = s.hears(end.Add(off))
				if last && !heard {
					t.Fatalf("window %d of %v: silent, and heard %v from its end", k, awake, off)
				}
				heard = last
				if off == 0 && heard {
					late++
				} else if off == 0 {
					early++
				}
			}
		}
		if min(early, late) < 200 {
			t.Errorf("windows of %v: %d end early, %d late", awake, early, late)
		}
	}
}
