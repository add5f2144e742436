package scheduler

import (
	"errors"
	"math/rand/v2"
	"slices"
)

// RandomCrawl is the reference of the EasiCrawl paper's evaluation (section V):
// EasiCrawl's initial arrangement, see proportional, at random instants, the range's
// last legal one always being one of them. On a grid they are drawn from it, as all of
// the paper's instants are; elsewhere from all legal ones. Capacity is ignored.
func RandomCrawl(p *Problem, rng *rand.Rand) (*Solution, error) {
	if rng == nil {
		return nil, errors.New("scheduler: RandomCrawl draws instants and needs a generator")
	}
	return baseline(p, func(w *worker, d *Demand, n int) []int32 {
		if p.Candidates == Grid {
			return w.randomCandidates(p, d, n, rng)
		}
		return randomInstants(p, d, n, rng)
	})
}

// baseline solves by choosing n instants for each sensor in turn. Its objective is
// Solve's, with the same price on look-ahead crawls: in the first range, the one
// that Solve finds for itself. Solution.Price hands that on.
func baseline(p *Problem, choose func(w *worker, d *Demand, n int) []int32) (*Solution, error) {
	s, err := newSolver(p, 1)
	if err != nil {
		return nil, err
	}
	s.priceAhead()
	w := s.workers[0]
	for i, n := range s.proportional() {
		d := &p.Demands[i]
		s.state[i] = state{}
		s.state[i].objective, s.plans[i] = w.judge(p, d, choose(w, d, n), s.ahead)
		s.state[i].n = int32(len(s.plans[i].Ticks))
	}
	sol := s.solution()
	sol.Price = s.ahead
	return sol, nil
}

// proportional is EasiCrawl's initial arrangement (section IV-A): the budget in
// proportion to omega times awake time, see apportion, within the caps and the legal
// instants, on a grid the candidates. Under Fixed each sensor that has to be crawled
// gets one at least.
func (s *solver) proportional() []int {
	weights := make([]float64, len(s.weights))
	least, room := make([]int, len(s.weights)), make([]int, len(s.weights))
	for i := range s.p.Demands {
		d := &s.p.Demands[i]
		awake, legal := d.legalTime(s.p.Length)
		weights[i] = d.initialWeight(awake)
		if s.p.Candidates == Grid {
			s.workers[0].build(s.p, d, 0, false)
			legal = int64(s.workers[0].counted)
		}
		if room[i] = int(legal); d.Cap >= 0 {
			room[i] = min(room[i], d.Cap)
		}
		if d.Coef == 0 {
			room[i] = 0
		}
		if room[i] > 0 && s.p.forces(d) {
			least[i] = 1
		}
	}
	return apportion(weights, least, room, s.p.Budget)
}

// initialWeight is omega times awake time, the paper's "value of sensors' importance
// multiple their length of working time": the rate is not in it. Where the demand
// does not tell its rate, c stands for omega.
func (d *Demand) initialWeight(awake int64) float64 {
	if d.Rate > 0 {
		return d.Coef / d.Rate * float64(awake)
	}
	return d.Coef * float64(awake)
}

// apportion shares a budget out by weight, between least and room. Fractions are cut
// off and what is left goes one by one to the first sensors: the paper says "evenly
// divide" and nothing of fractions. By largest remainders its baselines come out up to
// a seventh better at two crawls per sensor. The sum of least is within the budget.
func apportion(weights []float64, least, room []int, budget int) []int {
	counts := make([]int, len(weights))
	for rest := budget; rest > 0; {
		given := apportionOnce(weights, counts, room, rest)
		if given == 0 {
			break
		}
		rest -= given
	}
	for i := range counts {
		for counts[i] < least[i] {
			counts[i]++
			if most := widest(counts, least, budget); most >= 0 {
				counts[most]--
			}
		}
	}
	return counts
}

// apportionOnce gives out up to rest crawls to sensors with room, and returns how
// many it gave: less than rest where a sensor's room was smaller than its share, 0
// where there is no room left.
func apportionOnce(weights []float64, counts, room []int, rest int) (given int) {
	var total float64
	open := 0
	for i, weight := range weights {
		if counts[i] < room[i] && weight > 0 {
			total += weight
			open++
		}
	}
	for i, weight := range weights {
		if counts[i] < room[i] && weight > 0 {
			n := min(int(float64(rest)*(weight/total)), room[i]-counts[i], rest-given)
			counts[i] += n
			given += n
		}
	}
	if rest-given >= open {
		return given
	}
	for i, weight := range weights {
		if given < rest && counts[i] < room[i] && weight > 0 {
			counts[i]++
			given++
		}
	}
	return given
}

// widest is the sensor with most crawls of those with more than their least, the first
// of several; -1 where the counts are within the budget.
func widest(counts, least []int, budget int) int {
	most, sum := -1, 0
	for i, n := range counts {
		sum += n
		if n > least[i] && (most < 0 || n > counts[most]) {
			most = i
		}
	}
	if sum <= budget {
		return -1
	}
	return most
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

// randomCandidates draws n candidates, or all if there are fewer, the last one among
// them.
func (w *worker) randomCandidates(p *Problem, d *Demand, n int, rng *rand.Rand) []int32 {
	w.build(p, d, 0, false)
	if n == 0 || w.counted == 0 {
		return nil
	}
	drawn := rng.Perm(w.counted - 1)
	drawn = append(drawn[:min(n, w.counted)-1], w.counted-1)
	ticks := make([]int32, len(drawn))
	for k, j := range drawn {
		ticks[k] = int32(w.nodes[j+1].x/4 + w.origin)
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
