package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// start is one planned crawl on its way back through the slots.
type start struct {
	tick   int64
	harm   float64
	sensor int32
	index  int32 // in the sensor's Ticks
}

// spill spreads planned crawls so that no slot, a second or a tick where that is
// longer, holds more than the server can start.
type spill struct {
	p       *Problem
	sensors []SensorPlan
	slots   [][]start
	old     map[int32][]int32 // instants of moved sensors before the first move
}

// dropped marks an instant that found no slot.
const dropped = -1

// spillBack walks the slots from the latest to the earliest. Over capacity the
// crawls with the largest harm stay, the others go one slot back or, from the
// start of a window, to the last legal instant of the one before it. A crawl that
// would meet its sensor's crawl before is dropped: the earlier one does for both.
//
// Window ends of a fleet coincide, and so do the best instants: without this, half
// of a range's crawls may fall into one second. Prices per slot would do the same at
// a thousand times the work and come out no better.
func (s *solver) spillBack(sol *Solution) {
	sp := &spill{p: s.p, sensors: sol.Sensors, old: make(map[int32][]int32)}
	capacity := s.p.Capacity
	if s.p.Tick > time.Second {
		capacity = int(float64(capacity) * s.p.Tick.Seconds())
	}
	sp.slots = make([][]start, sp.slot(s.p.Length-1)+1)
	for i := range sp.sensors {
		for k, t := range sp.sensors[i].Ticks {
			at := sp.slot(int64(t))
			c := start{tick: int64(t), sensor: int32(i), index: int32(k)}
			sp.slots[at] = append(sp.slots[at], c)
		}
	}
	for _, slot := range slices.Backward(sp.slots) {
		if len(slot) > capacity {
			sp.relieve(slot, capacity)
		}
	}
	s.adopt(sol, sp)
}

// slot is the slot of a tick. The product stays below 2^57: a tick is shorter than
// 2^30 nanoseconds here, and there are at most 2^27 of them.
func (sp *spill) slot(t int64) int64 {
	if sp.p.Tick >= time.Second {
		return t
	}
	return int64(time.Duration(t) * sp.p.Tick / time.Second)
}

// before is the last tick of the slot before t's.
func (sp *spill) before(t int64) int64 {
	if sp.p.Tick >= time.Second {
		return t - 1
	}
	begin := time.Duration(sp.slot(t)) * time.Second
	return int64((begin+sp.p.Tick-1)/sp.p.Tick) - 1
}

// relieve moves the least harmed crawls beyond the capacity out of a slot.
func (sp *spill) relieve(slot []start, capacity int) {
	for k := range slot {
		slot[k].harm = sp.harm(slot[k])
	}
	slices.SortFunc(slot, func(a, b start) int {
		return cmp.Or(cmp.Compare(b.harm, a.harm), cmp.Compare(a.sensor, b.sensor),
			cmp.Compare(a.tick, b.tick))
	})
	for _, c := range slot[capacity:] {
		sp.move(c)
	}
}

// harm is what one tick earlier costs: c ((time to the next crawl) - (awake time
// since the last one)).
func (sp *spill) harm(c start) float64 {
	d, plan := &sp.p.Demands[c.sensor], &sp.sensors[c.sensor]
	next := plan.next
	for _, t := range plan.Ticks[c.index+1:] {
		if t != dropped {
			next = int64(t)
			break
		}
	}
	seen := d.mass(d.Source, c.tick)
	if c.index > 0 { // crawls before this one have not been moved yet or merely back
		prev := int64(plan.Ticks[c.index-1])
		seen = sleepplan.Mass(d.Spans, max(prev, d.Source), c.tick)
	}
	return d.Coef * float64(next-c.tick-seen)
}

// move puts a crawl into an earlier slot or drops it. That slot may be full as well;
// its own turn, which is still to come, decides who goes on.
func (sp *spill) move(c start) {
	d, ticks := &sp.p.Demands[c.sensor], sp.sensors[c.sensor].Ticks
	if _, seen := sp.old[c.sensor]; !seen {
		sp.old[c.sensor] = slices.Clone(ticks)
	}
	stop := d.From - 1
	for _, t := range ticks[:c.index] {
		stop = max(stop, int64(t))
	}
	from := sp.slot(c.tick)
	for sp.slot(c.tick) == from {
		if c.tick = sp.back(d, c.tick); c.tick <= stop {
			ticks[c.index] = dropped
			return
		}
	}
	ticks[c.index] = int32(c.tick)
	at := sp.slot(c.tick)
	sp.slots[at] = append(sp.slots[at], c)
}

// back is the instant to try before t: the end of the slot before it, or else of
// the window before it. It may be too early to be legal.
func (sp *spill) back(d *Demand, t int64) int64 {
	k := spanAt(d.Spans, t)
	for k > 0 && d.Spans[k-1].End == d.Spans[k].Start {
		k--
	}
	if b := sp.before(t); b >= max(int64(d.Spans[k].Start), d.From) {
		return b
	}
	if k == 0 {
		return d.From - 1
	}
	e := int64(d.Spans[k-1].End)
	for k--; k > 0 && d.Spans[k-1].End == d.Spans[k].Start; {
		k--
	}
	return d.lastLegal(int64(d.Spans[k].Start), e)
}

// adopt recomputes the moved sensors, in their order, so that sums do not depend on
// that of the moves. The loss compares like with like: both plans with their
// cheapest look-ahead. What a dropped crawl was worth one more is worth again: later
// seconds may have room, and a capped sensor would have no other claim to them.
func (s *solver) adopt(sol *Solution, sp *spill) {
	w := s.workers[0]
	for _, i := range slices.Sorted(maps.Keys(sp.old)) {
		d, plan := &s.p.Demands[i], &sol.Sensors[i]
		old, _ := w.judge(s.p, d, sp.old[i], s.ahead)
		kept := slices.DeleteFunc(plan.Ticks, func(t int32) bool { return t == dropped })
		now, judged := w.judge(s.p, d, kept, s.ahead)
		loss, gone := float64(now-old)*s.p.unit(d), len(sp.old[i])-len(kept)
		sol.SpillLoss += loss
		sol.Dropped += gone
		if gone > 0 {
			plan.Gain = max(plan.Gain, loss/float64(gone))
		}
		plan.Ticks, plan.Wait, plan.next = kept, judged.Wait, judged.next
		s.state[i].n, s.state[i].objective = int32(len(kept)), now
	}
	s.total(sol)
}
