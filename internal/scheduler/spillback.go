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
// longer, holds more than the server can start. Within a second it does not look: crawls
// of one tick start up to a second later. At the range's end that would be after the range,
// which takes no crawl of it any more. So in its last second every tick is a slot, and none
// holds a crawl where those of the second before need the time to start.
type spill struct {
	p       *Problem
	sensors []SensorPlan
	slots   [][]start
	tail    int64             // first tick of the last second
	full    bool              // no crawl may stand from there on
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
	sp.tail = s.p.tail()
	sp.slots = make([][]start, sp.slot(s.p.Length-1)+1)
	for i := range sp.sensors {
		for k, t := range sp.sensors[i].Ticks {
			at := sp.slot(int64(t))
			c := start{tick: int64(t), sensor: int32(i), index: int32(k)}
			sp.slots[at] = append(sp.slots[at], c)
		}
	}
	sp.full = sp.crowded()
	for k, slot := range slices.Backward(sp.slots) {
		if room := sp.room(int64(k)); len(slot) > room {
			sp.relieve(slot, room)
		}
	}
	s.adopt(sol, sp)
}

// second is the second of a tick, or the tick where that is longer. The product stays
// below 2^57: a tick is shorter than 2^30 nanoseconds here, and there are at most 2^27 of
// them.
func (p *Problem) second(t int64) int64 {
	if p.Tick >= time.Second {
		return t
	}
	return int64(time.Duration(t) * p.Tick / time.Second)
}

// firstTick is the first tick of a second.
func (p *Problem) firstTick(second int64) int64 {
	if p.Tick >= time.Second {
		return second
	}
	return int64((time.Duration(second)*time.Second + p.Tick - 1) / p.Tick)
}

// tail is the first tick of the range's last second or, where the range ends within one, of
// the one before that.
func (p *Problem) tail() int64 {
	last := p.second(p.Length - 1)
	if first := p.firstTick(last); last == 0 || time.Duration(p.Length-first)*p.Tick >= time.Second {
		return first
	}
	return p.firstTick(last - 1)
}

// perSecond is what the server can start in a second, or in a tick where that is longer.
func (p *Problem) perSecond() int {
	if p.Tick > time.Second {
		return int(float64(p.Capacity) * p.Tick.Seconds())
	}
	return p.Capacity
}

// slot is the slot of a tick.
func (sp *spill) slot(t int64) int64 {
	return sp.p.second(min(t, sp.tail)) + max(0, t-sp.tail)
}

// before is the last tick of the slot before t's.
func (sp *spill) before(t int64) int64 {
	if t >= sp.tail {
		return t - 1
	}
	return sp.p.firstTick(sp.slot(t)) - 1
}

// crowded tells whether more crawls stand in the tail and the second before it than can
// start in one second.
func (sp *spill) crowded() bool {
	last := sp.slot(sp.tail)
	if last == 0 || sp.p.Tick >= time.Second {
		return false
	}
	sum := 0
	for _, slot := range sp.slots[last-1:] {
		sum += len(slot)
	}
	return sum > sp.p.Capacity
}

// room is how many crawls a slot holds. From each tick of the tail on there are as many as
// the rest of the range has time to start.
func (sp *spill) room(slot int64) int {
	into := slot - sp.p.second(sp.tail)
	if into < 0 || sp.p.Tick >= time.Second {
		return sp.p.perSecond()
	}
	rest := func(ticks int64) int64 {
		return int64(float64(ticks) * sp.p.Tick.Seconds() * float64(sp.p.Capacity))
	}
	if sp.full {
		return 0
	}
	left := sp.p.Length - sp.tail - into
	return int(rest(left) - rest(left-1))
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
