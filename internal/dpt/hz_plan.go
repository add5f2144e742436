package dpt

import (
	"math"
	"slices"
)

// The looks after a hit are those that cost least per publication in the long run, where
// waiting costs its time and a look costs the price c.
//
// Let F be the distribution of the next publication p, and let W(u) and N(u) be the
// waiting and the number of the publications that follow p within u. A cycle goes from
// one hit to the next. With looks t_1 < t_2 < ... it costs
//
//	sum over i of  c*(1 - F(t_i-1)) + E[t_i - p + W(t_i - p); t_i-1 < p <= t_i]
//
// and brings 1 + E[N(t_i - p)] publications. Cycles follow each other like independent
// ones, since a hit leaves the same uncertainty behind however it came about; only how
// much of the next epoch is already past differs, and that changes no look ahead of it.
// By the renewal reward theorem the cost per publication in the long run is E[cost] /
// E[publications], and its least value g is the root of
//
//	min over looks of  E[cost] - g*E[publications] = 0.
//
// So each publication of a cycle earns g. The first one earns it whatever the looks are:
// g matters only where a look is put off until there are several, which pays when c is
// beyond about a period. Below half a period g is left out. Otherwise it is found as
// Dinkelbach's method does: g = E[cost]/E[publications] of the looks that were best for
// the last g. From the second round on it falls; two or three rounds do.
//
// The minimum for a given g is a shortest path over candidate instants: a miss leaves
// the tail of F, and weighed with its chance the rest of the plan stays the best one.

const (
	planLevels   = 145 // the candidates lie where the distribution passes i/planLevels
	skipFrom     = .5  // price in periods from which publications may be skipped
	ratioRounds  = 8
	ratioPrecise = 1e-3
)

// later tells the waiting and the number of publications expected within u after one.
type later func(u float64) (wait, count float64)

// cell is a candidate and the density between it and the one before.
type cell struct {
	at     float64 // candidate
	past   float64 // F(at)
	weight float64 // of the density in (last candidate, at]
	mean   float64 // of the points there
}

// plan is made after each hit: the looks, ms after the newest publication, and the
// chance in 1/1000 that something is found by then.
func (h *hz) plan() (looks, by series) {
	s := h.inspection()
	for _, j := range s.best() {
		c := s.cells[j]
		if c.at > float64(farAway) {
			break
		}
		looks = append(looks, int64(math.Ceil(c.at)))
		by = append(by, int64(math.Round(1000*c.past)))
		if c.past > 1-1e-9 {
			break
		}
	}
	return looks, by
}

// inspection is the choice to make after a hit; without cells if nothing can be told.
func (h *hz) inspection() inspection {
	s := inspection{price: h.price(), unit: h.unit(), minGap: float64(h.Params.MinGap)}
	skip := 0.0
	if s.price > skipFrom*s.unit {
		skip = 2 * math.Sqrt(2*s.price/s.unit)
	}
	s.many = skip > 0 || h.Renewal
	var points []mass
	if h.Renewal {
		points = h.renewalDensity(skip * s.unit)
	} else {
		points = h.epochDensity(int(math.Ceil(min(skip, roundHorizon))))
	}
	if len(points) == 0 {
		return s
	}
	now := float64(h.At - h.Last)
	s.cells = candidates(points, now, s.minGap)
	s.later = h.epochsLater()
	if h.Renewal {
		s.later = h.renewalsLater(s.cells[len(s.cells)-1].at - now)
	}
	return s
}

// candidates are `now`, then the instants at which the worth passes i/planLevels, each
// half way to the next point (so that the points behind it, which stand for a density,
// are seen whole) but no further than to the last point, and the last point. None lies
// closer to now than the least gap.
func candidates(points []mass, now, minGap float64) []cell {
	cells := make([]cell, 1, planLevels+2)
	cells[0].at = now
	worth, level, done := 0.0, 1, 0
	next := cell{}
	take := func(at float64, upTo int) {
		at = max(at, now+minGap)
		if last := &cells[len(cells)-1]; len(cells) > 1 && at <= last.at {
			return
		}
		next.at, next.weight, next.mean = at, 0, 0
		for ; done < len(points) && (done <= upTo || points[done].at <= at); done++ {
			next.weight += points[done].weight
			next.mean += points[done].weight * points[done].at
		}
		if next.weight > 0 {
			next.mean /= next.weight
		}
		next.past = min(next.past+next.weight, 1)
		cells = append(cells, next)
	}
	for k := range points[:len(points)-1] {
		worth += points[k].worth
		if worth < float64(level)/planLevels {
			continue
		}
		level = int(worth*planLevels) + 1
		ahead := points[k+1].at - points[k].at
		behind := points[k].at - points[max(k-1, 0)].at
		take(points[k].at+min(ahead, behind)/2, k)
	}
	take(points[len(points)-1].at, len(points))
	cells[len(cells)-1].past = 1
	return cells
}

// epochsLater has one publication every Lambda, lost with the chain's stationary chance.
func (h *hz) epochsLater() later {
	share, period := h.Chain.share(), h.Lambda
	return func(u float64) (wait, count float64) {
		if u < period {
			return 0, 0
		}
		m := math.Floor(u / period)
		return share * m * (u - period*(m+1)/2), share * m
	}
}

// renewalsLater has gaps drawn from those seen. The renewal equation M(u) = E[1 + M(u-x);
// x <= u] is solved on a grid up to reach; the waiting is the integral of M.
func (h *hz) renewalsLater(reach float64) later {
	const n = 200
	step := reach / n
	var chance, count, wait [n + 1]float64
	for _, x := range h.Gaps {
		if b := math.Round(float64(x) / step); b <= n {
			chance[int(b)] += 1 / float64(len(h.Gaps))
		}
	}
	chance[0] = min(chance[0], 1-1/memory)
	count[0] = chance[0] / (1 - chance[0])
	for k := 1; k <= n; k++ {
		sum := chance[0]
		for b := 1; b <= k; b++ {
			sum += chance[b] * (1 + count[k-b])
		}
		count[k] = sum / (1 - chance[0])
		wait[k] = wait[k-1] + step*(count[k]+count[k-1])/2
	}
	return func(u float64) (float64, float64) {
		whole, part := math.Modf(min(max(u/step, 0), n))
		i := int(whole)
		j := min(i+1, n)
		return wait[i] + part*(wait[j]-wait[i]), count[i] + part*(count[j]-count[i])
	}
}

// inspection is the choice of looks among candidates, the first of which is now.
type inspection struct {
	cells  []cell
	later  later
	price  float64
	unit   float64 // publications are about that far apart
	minGap float64
	many   bool // it may pay to wait for several publications
}

// best are the cells that are looked at. Where it may pay to wait the first g is that
// of a source without jitter or loss, whose looks are sqrt(2c*period) apart.
func (s inspection) best() []int {
	if !s.many || len(s.cells) == 0 {
		return s.cheapest(0)
	}
	path := s.cheapest(math.Sqrt(2 * s.price * s.unit))
	g := s.ratio(path)
	for range ratioRounds {
		path = s.cheapest(g)
		last := g
		if g = s.ratio(path); last-g <= ratioPrecise*last {
			break
		}
	}
	return path
}

// cheapest is the shortest path from now to the last candidate, which is always looked
// at, when every publication but the first earns g.
func (s inspection) cheapest(g float64) []int {
	n := len(s.cells)
	cost, from := make([]float64, n), make([]int, n)
	for j := 1; j < n; j++ {
		cost[j] = math.Inf(1)
		seen := 0.0 // cost of what lies in (i, j]
		for i := j - 1; i >= 0; i-- {
			if c := &s.cells[i+1]; c.weight > 0 {
				u := s.cells[j].at - c.mean
				wait, count := s.later(u)
				seen += c.weight * (u + wait - g*count)
			}
			if i > 0 && s.cells[j].at-s.cells[i].at < s.minGap {
				continue
			}
			if sum := cost[i] + s.price*(1-s.cells[i].past) + seen; sum < cost[j] {
				cost[j], from[j] = sum, i
			}
		}
	}
	var path []int
	for j := n - 1; j > 0; j = from[j] {
		path = append(path, j)
	}
	slices.Reverse(path)
	return path
}

// ratio is the cost per publication of the looks.
func (s inspection) ratio(path []int) float64 {
	cost, publications := 0.0, 1.0
	i := 0
	for _, j := range path {
		cost += s.price * (1 - s.cells[i].past)
		for k := i + 1; k <= j; k++ {
			u := s.cells[j].at - s.cells[k].mean
			wait, count := s.later(u)
			cost += s.cells[k].weight * (u + wait)
			publications += s.cells[k].weight * count
		}
		i = j
	}
	return cost / publications
}
