package scheduler

import (
	"cmp"
	"math"
	"slices"
)

// offer is count marginals of one value at one sensor: crawls that it could make
// next or could do without next.
type offer struct {
	value  float64 // weighted latency seconds, comparable between sensors
	d      int64   // the same in the sensor's U, exact
	sensor int32
	count  int32
}

// worth orders marginals, the first to be crawled first.
func worth(a, b offer) int {
	return cmp.Or(cmp.Compare(b.value, a.value), cmp.Compare(a.sensor, b.sensor))
}

// unworth orders marginals the other way, the first to be dropped first.
func unworth(a, b offer) int { return worth(b, a) }

// correct changes the sum of crawls by miss, or by as much as there are crawls of
// positive value. Marginals fall, so the |miss| sensors whose next marginal is best
// (or whose last one is least) hold all that can be among the |miss| best. Theirs
// are listed, sorted and taken: exact by T3.
//
// The list is short where the estimate is good: as many sensors as crawls are
// missing, with one marginal each for most of them. Where the fleet jumps by more
// than that at one price, sensors being alike, a sensor's equal marginals are one
// offer.
func (s *solver) correct(miss int, at guess) {
	order, adding := unworth, miss > 0
	if adding {
		order = worth
	} else {
		miss = -miss
	}
	if miss == 0 {
		return
	}
	first := s.firstOffers(adding, at.near(adding))
	if len(first) < miss {
		first = s.firstOffers(adding, everything(adding))
	}
	slices.SortFunc(first, order)
	bound := everything(adding) // unless enough sensors compete
	if len(first) >= miss {
		first = first[:miss]
		bound = first[miss-1].value
	}
	offers, listed := []offer(nil), 0
	if closer := at.closer(bound, adding); closer != bound {
		offers, listed = s.listOffers(first, closer, adding)
	}
	if listed < miss {
		offers, _ = s.listOffers(first, bound, adding)
	}
	slices.SortFunc(offers, order)
	s.take(offers, miss, adding)
}

// slack is how far a sample may be wrong about a price.
const slack = 0.05

// closer is a bound known from the estimate, where that is tighter: beyond the price
// on the far side of the target, and some slack, there should be nothing to list. A
// sample may have been wrong about that, and then the safe bound is used.
func (at guess) closer(bound float64, adding bool) float64 {
	switch {
	case adding:
		return max(bound, at.lo*(1-slack))
	case at.hi > 0:
		return min(bound, at.hi*(1+slack))
	}
	return bound
}

// everything is the bound within which all marginals lie, those to add or to drop.
func everything(adding bool) float64 {
	if adding {
		return 0
	}
	return math.Inf(1)
}

// near is a bound so close to the price that the few sensors within it are sorted fast.
func (at guess) near(adding bool) float64 {
	if adding {
		return at.price * (1 - slack)
	}
	return at.price * (1 + slack)
}

// within reports whether a marginal lies on the price's side of a bound.
func within(value, bound float64, adding bool) bool {
	return value == bound || (value > bound) == adding
}

// firstOffers lists each sensor's gain if adding, otherwise its lose, where that is
// within the bound. Crawls of no value are never made, and one that the Fixed rule
// keeps is not on offer.
func (s *solver) firstOffers(adding bool, bound float64) []offer {
	var list []offer
	for i := range s.state {
		d := s.state[i].lose
		if adding {
			d = s.state[i].gain
		}
		if d == pinned || d == 0 && (adding || s.state[i].n == 0) {
			continue
		}
		value := float64(d) * s.p.stake(&s.p.Demands[i])
		if within(value, bound, adding) {
			list = append(list, offer{value, d, int32(i), 1})
		}
	}
	return list
}

// listOffers lists all marginals of the competing sensors from where they stand
// up to the price bound, and a few beyond it, and says how many are within.
func (s *solver) listOffers(first []offer, bound float64, adding bool) ([]offer, int) {
	lists := make([][]offer, len(first))
	s.each(len(first), func(w *worker, k int) {
		lists[k] = s.listSensor(w, first[k], bound, adding)
	})
	offers, listed := slices.Concat(lists...), 0
	for _, o := range offers {
		if within(o.value, bound, adding) {
			listed += int(o.count)
		}
	}
	return offers, listed
}

// listSensor lists the straight pieces of one sensor's curve between where it
// stands and the bound, at least its first offer. Under its cap there may be less
// room than the curve has crawls.
func (s *solver) listSensor(w *worker, o offer, bound float64, adding bool) []offer {
	d := &s.p.Demands[o.sensor]
	u := s.p.stake(d)
	w.build(s.p, d, s.ahead, s.p.forces(d))
	here := point{int(s.state[o.sensor].n), s.state[o.sensor].e}
	if w.forced {
		here.n--
	}
	w.probes++
	var edges []edge
	if adding {
		there := w.penal(min(odd(bound*(1-nudge), u), o.d-1))
		edges = w.edges(nil, here, there, &w.probes)
	} else {
		there := w.penal(max(odd(bound*(1+nudge), u), o.d+1))
		edges = w.edges(nil, there, here, &w.probes)
	}
	room := w.most(d) - here.n
	list := make([]offer, 0, len(edges))
	for _, e := range edges {
		if adding {
			e.count = min(e.count, room)
			room -= e.count
		}
		if e.count > 0 {
			list = append(list, offer{float64(e.d) * u, e.d, o.sensor, int32(e.count)})
		}
	}
	return list
}

// take takes the first miss crawls of the sorted offers and settles their sensors
// anew. The multiplier beside the last marginal that moved finds the new plan at
// once; only the one sensor at which the budget cuts a run of equal marginals needs
// EXACT_N.
func (s *solver) take(offers []offer, miss int, adding bool) {
	type change struct {
		n    int32
		mult int64
	}
	changes := make(map[int32]change)
	var changed []int32
	for _, o := range offers {
		count := min(int(o.count), miss)
		if count == 0 || adding && o.d == 0 {
			break
		}
		miss -= count
		c, seen := changes[o.sensor]
		if !seen {
			c.n = s.state[o.sensor].n
			changed = append(changed, o.sensor)
		}
		if adding {
			c = change{c.n + int32(count), o.d - 1}
		} else {
			c = change{c.n - int32(count), o.d + 1}
		}
		changes[o.sensor] = c
	}
	s.each(len(changed), func(w *worker, k int) {
		c := changes[changed[k]]
		s.settle(w, int(changed[k]), c.mult, int(c.n))
	})
}
