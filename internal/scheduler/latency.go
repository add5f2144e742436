package scheduler

import (
	"cmp"
	"slices"
	"sort"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// ExpectedLatency is (W)/c in square seconds for crawls at the increasing ticks,
// what no crawl has seen being paid up to tick until. A crawl of a sleeping
// sensor fails: it sees nothing. It integrates over the spans directly and is
// independent of the graph that plans are made with.
func ExpectedLatency(d *Demand, ticks []int32, until int64, tick time.Duration) float64 {
	var twice int64 // 2 Int (t-u) a(u) du, square ticks
	prev, backlog, k := d.Source, d.Backlog, 0
	pay := func(t int64) {
		twice += 2 * backlog * (t - max(0, d.Source))
		backlog = 0
		for ; k < len(d.Spans); k++ {
			s, e := max(int64(d.Spans[k].Start), prev), min(int64(d.Spans[k].End), t)
			if s < e {
				twice += (e - s) * (2*t - s - e)
			}
			if int64(d.Spans[k].End) > t {
				break
			}
		}
		prev = t
	}
	for _, t := range ticks {
		if awake(d.Spans, int64(t)) {
			pay(int64(t))
		}
	}
	pay(until)
	s := tick.Seconds()
	return float64(twice) * s * s / 2
}

// awake reports whether tick t lies in a span.
func awake(spans []sleepplan.Span, t int64) bool {
	k := spanAt(spans, t)
	return k < len(spans) && int64(spans[k].Start) <= t
}

// spanAt is the first span that ends after t.
func spanAt(spans []sleepplan.Span, t int64) int {
	return sort.Search(len(spans), func(k int) bool { return int64(spans[k].End) > t })
}

// mass is the awake ticks between two instants of a sensor, the backlog being
// part of what follows the source.
func (d *Demand) mass(from, to int64) int64 {
	m := sleepplan.Mass(d.Spans, max(from, d.Source), to)
	if from <= d.Source {
		m += d.Backlog
	}
	return m
}

// Plan lists the crawls of all sensors by tick, each with its value: what its
// events would wait longer if only the next crawl saw them. The next crawl of a
// sensor's last one is its first look-ahead crawl or the sink. Crawls of sleeping
// sensors, which only Even plans, are worth nothing.
func (s *Solution) Plan() CrawlPlan {
	tick := s.problem.Tick.Seconds()
	var plan CrawlPlan
	for i := range s.Sensors {
		d, sp := &s.problem.Demands[i], &s.Sensors[i]
		first := len(plan)
		for _, t := range sp.Ticks {
			plan = append(plan, Crawl{Tick: int64(t), Sensor: int32(i)})
		}
		next := sp.next
		for k := len(plan) - 1; k >= first; k-- {
			c := &plan[k]
			if !awake(d.Spans, c.Tick) {
				continue
			}
			seen := d.mass(d.Source, c.Tick)
			for j := k - 1; j >= first; j-- {
				if awake(d.Spans, plan[j].Tick) {
					seen = sleepplan.Mass(d.Spans, max(plan[j].Tick, d.Source), c.Tick)
					break
				}
			}
			c.Value = d.Coef * tick * tick * float64(next-c.Tick) * float64(seen)
			next = c.Tick
		}
	}
	slices.SortFunc(plan, func(a, b Crawl) int {
		return cmp.Or(cmp.Compare(a.Tick, b.Tick), cmp.Compare(a.Sensor, b.Sensor))
	})
	return plan
}

// judge computes the plan of instants that were not chosen on the graph as Solve
// would: the wait, and the objective in U with the cheapest look-ahead at the price.
func (w *worker) judge(p *Problem, d *Demand, ticks []int32, ahead float64) (int64, SensorPlan) {
	w.build(p, d, ahead, false)
	return w.appraise(p, ticks, w.locate(p, d, ticks))
}

// locate places instants on the graph as place does those of a path, and returns
// the cheapest way on from the last of them. Instants of a sleeping sensor are left
// out.
func (w *worker) locate(p *Problem, d *Demand, ticks []int32) (rest []int32) {
	w.placed = w.placed[:0]
	k, last := 0, w.nodes[0]
	for _, t := range ticks {
		at := int64(t) - w.origin
		for k < len(w.windows) && w.windows[k].end <= at {
			k++
		}
		if k == len(w.windows) || w.windows[k].start > at {
			continue
		}
		in := &w.windows[k]
		last = in.at(at)
		w.placed = append(w.placed, placed{
			node: last, home: int32(k), lo: max(in.start, d.From-w.origin),
			hi: min(in.last, p.Length-1-w.origin),
		})
	}
	_, rest = w.tail(last)
	return rest
}

// appraise is what the placed instants cost when rest follows them.
func (w *worker) appraise(p *Problem, ticks []int32, rest []int32) (int64, SensorPlan) {
	objective, wait := w.bill(rest)
	s := p.Tick.Seconds()
	return objective, SensorPlan{
		Ticks: ticks, Mult: 1, Wait: float64(wait) * s * s / 4,
		next: w.nodes[rest[0]].x/4 + w.origin,
	}
}
