package scheduler

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
)

// RandomCrawl is the reference of the EasiCrawl paper's evaluation (section V):
// EasiCrawl's initial arrangement, see proportional, at random legal instants,
// the range's last legal instant always being one of them. Capacity is ignored.
func RandomCrawl(p *Problem, rng *rand.Rand) (*Solution, error) {
	if rng == nil {
		return nil, errors.New("scheduler: RandomCrawl draws instants and needs a generator")
	}
	return baseline(p, func(d *Demand, n int) []int32 { return randomInstants(p, d, n, rng) })
}

// baseline solves by choosing n instants for each sensor in turn. Its objective is
// Solve's, with the same price on look-ahead crawls: in the first range, the one
// that Solve finds for itself. Solution.Price hands that on.
func baseline(p *Problem, choose func(d *Demand, n int) []int32) (*Solution, error) {
	s, err := newSolver(p, 1)
	if err != nil {
		return nil, err
	}
	s.priceAhead()
	w := s.workers[0]
	for i, n := range s.proportional() {
		d := &p.Demands[i]
		s.state[i] = state{}
		s.state[i].objective, s.plans[i] = w.judge(p, d, choose(d, n), s.ahead)
		s.state[i].n = int32(len(s.plans[i].Ticks))
	}
	sol := s.solution()
	sol.Price = s.ahead
	return sol, nil
}

// proportional is EasiCrawl's initial arrangement (section IV-A): the budget in
// proportion to c times awake time, within the caps and the legal instants;
// fractions go to the largest remainders. Under Fixed each sensor that has to be
// crawled gets one first.
func (s *solver) proportional() []int {
	counts := make([]int, len(s.weights))
	room := make([]int, len(s.weights))
	rest := s.p.Budget
	for i := range s.p.Demands {
		d := &s.p.Demands[i]
		_, legal := d.legalTime(s.p.Length)
		if room[i] = int(legal); d.Cap >= 0 {
			room[i] = min(room[i], d.Cap)
		}
		if d.Coef == 0 {
			room[i] = 0
		}
		if room[i] > 0 && s.p.forces(d) {
			counts[i]++
			rest--
		}
	}
	apportion(s.weights, counts, room, rest)
	return counts
}

// apportion gives out rest crawls by the squares of the weights, as far as there is
// room.
func apportion(weights []float64, counts, room []int, rest int) {
	for rest > 0 {
		given := apportionOnce(weights, counts, room, rest)
		if given == 0 {
			return
		}
		rest -= given
	}
}

// apportionOnce gives out up to rest crawls to sensors with room, and returns how
// many it gave: less than rest where a sensor's room was smaller than its share, 0
// where there is no room left.
func apportionOnce(weights []float64, counts, room []int, rest int) (given int) {
	var total float64
	for i, weight := range weights {
		if counts[i] < room[i] {
			total += weight * weight
		}
	}
	if total == 0 {
		return 0
	}
	type remainder struct {
		part   float64
		sensor int
	}
	var parts []remainder
	for i, weight := range weights {
		if counts[i] >= room[i] {
			continue
		}
		whole, part := math.Modf(float64(rest) * (weight * weight / total))
		n := min(int(whole), room[i]-counts[i])
		counts[i] += n
		given += n
		if counts[i] < room[i] {
			parts = append(parts, remainder{part, i})
		}
	}
	slices.SortFunc(parts, func(a, b remainder) int {
		return cmp.Or(cmp.Compare(b.part, a.part), cmp.Compare(a.sensor, b.sensor))
	})
	for _, r := range parts {
		if given == rest {
			break
		}
		counts[r.sensor]++
		given++
	}
	return given
}

// randomInstants draws n distinct legal instants, the last one among them. Without
// that one a plan would leave the last window's events to nobody.
func randomInstants(p *Problem, d *Demand, n int, rng *rand.Rand) []int32 {
	_, legal := d.legalTime(p.Length)
	if n == 0 || legal == 0 {
		return nil
	}
	ranks := map[int64]bool{legal - 1: true}
	for len(ranks) < n {
		ranks[rng.Int64N(legal)] = true
	}
	ticks := make([]int32, 0, n)
	for rank := range ranks {
		ticks = append(ticks, d.legalInstant(rank))
	}
	slices.Sort(ticks)
	return ticks
}

// legalInstant is the legal instant of that rank, counting from 0 at From.
func (d *Demand) legalInstant(rank int64) int32 {
	for k := 0; k < len(d.Spans); {
		var s, e int64
		s, e, k = nextSpan(d.Spans, k)
		from := max(s, d.From)
		if n := max(0, d.lastLegal(s, e)-from+1); rank >= n {
			rank -= n
			continue
		}
		return int32(from + rank)
	}
	return 0
}
