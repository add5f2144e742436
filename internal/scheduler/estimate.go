package scheduler

import (
	"math"
	"sync/atomic"
)

// Gaps is the expected crawl gap of each sensor in ticks and their mean over the
// sensors with coef and awake time: length/n_i with n_i = max(0.3, budget
// sqrt(c_i awake_i) / sum sqrt(c_j awake_j)), the square-root rule. coef is c per
// awake second and awake the awake ticks of the range; both have one entry per
// sensor. Without any such sensor the mean is length.
func Gaps(length int64, budget int, coef []float64, awake []int64) (gaps []float64, mean float64) {
	gaps = make([]float64, len(coef))
	var total, sum float64
	for i, c := range coef {
		gaps[i] = math.Sqrt(max(0, c) * float64(max(0, awake[i])))
		total += gaps[i]
	}
	crawled := 0
	for i, weight := range gaps {
		share := 0.0
		if weight > 0 {
			share = float64(budget) * weight / total
			crawled++
		}
		gaps[i] = float64(length) / max(0.3, share)
		if weight > 0 {
			sum += gaps[i]
		}
	}
	if crawled == 0 {
		return gaps, float64(length)
	}
	return gaps, sum / float64(crawled)
}

// Extra is how many ticks to look ahead: the range again, or two mean gaps where
// these are longer.
func Extra(length int64, meanGap float64) int64 {
	return max(length, int64(math.Ceil(2*meanGap)))
}

// subset is some of the sensors and how many crawls they are expected to get.
type subset struct {
	sensors []int32
	target  float64
}

// everyone is the fleet itself, where it is small or no sample can stand for it.
func (s *solver) everyone() subset {
	all := make([]int32, len(s.weights))
	for i := range all {
		all[i] = int32(i)
	}
	return subset{all, float64(s.p.Budget)}
}

// sampleShare and minSample set how many sensors estimate the price: enough for
// it to come within a few percent, few enough to cost less than one pass.
const (
	sampleShare = 64
	minSample   = 128
)

// sample picks sensors by a hash of their index, which no pattern in the fleet's
// order meets. Their share of the budget goes by the square-root rule.
func (s *solver) sample() subset {
	n := len(s.weights)
	size := max(minSample, n/sampleShare)
	if n <= 2*size {
		return s.everyone()
	}
	var picked subset
	var total, part float64
	limit := math.MaxUint64 / uint64(n) * uint64(size)
	for i, weight := range s.weights {
		total += weight
		if uint64(i+1)*0x9e3779b97f4a7c15 < limit { // Fibonacci hashing
			picked.sensors = append(picked.sensors, int32(i))
			part += weight
		}
	}
	if part == 0 {
		return s.everyone()
	}
	picked.target = float64(s.p.Budget) * part / total
	return picked
}

// The estimate need not be exact: correct puts right what is missing. It ends when
// the count is closer to its target than a sample of so many crawls can tell, or known
// to jump there, or after so many counts.
const (
	closeEnough = 0.005
	sampleNoise = 0.5 // the share of n crawls that is chance, times sqrt(n)
	fewCrawls   = 100 // the share does not grow below this
	narrow      = 1.002
	maxCounts   = 40
)

// guess is what estimate found.
type guess struct {
	price  float64 // the count should meet the target here,
	miss   float64 // and has come as close as this share of it
	lo, hi float64 // the count is above the target, at most the target; 0 = not seen
}

// estimate searches the price at which a subset takes its target. Counts fall like
// the price's square root (the square-root rule), until the target is bracketed;
// then it goes by secants in logarithms.
func (s *solver) estimate(sub subset) guess {
	first := s.firstPrice()
	best := guess{price: first, miss: math.Inf(1)}
	if s.p.Budget == 0 || first == 0 || sub.target == 0 {
		best.miss = 0
		return best
	}
	enough := max(closeEnough, sampleNoise/math.Sqrt(max(fewCrawls, sub.target)))
	var nLo, nHi float64 // counts at lo and hi
	price := first
	for k, grow := 0, 1.0; k < maxCounts; k++ {
		n := s.count(sub, price)
		miss := math.Abs(n-sub.target) / sub.target
		if miss < best.miss {
			best.price, best.miss = price, miss
		}
		if n > sub.target {
			best.lo, nLo = price, n
		} else {
			best.hi, nHi = price, n
		}
		lo, hi, done := best.lo, best.hi, miss <= enough
		if price == 0 || lo > 0 && hi > 0 && hi < narrow*lo {
			return best
		}
		switch {
		case lo > 0 && hi > 0:
			t := math.Log(nLo/sub.target) / math.Log(nLo/max(nHi, 1e-6*nLo))
			if !done {
				t = min(max(t, 0.1), 0.9) // lest one end stays for ever
			}
			price = lo * math.Pow(hi/lo, t)
		case done:
			price *= math.Pow(n/sub.target, 2)
		default:
			// The square-root rule, with steps that grow: a fleet without enough
			// candidates or under its caps never reaches the target.
			price *= min(max(math.Pow(n/sub.target, 2*grow), 1e-4), 1e4)
			grow *= 2
		}
		if done {
			best.price = price // one step on, without a count
			return best
		}
		if price < 1e-9*first {
			price = 0
		}
	}
	return best
}

// firstPrice is the last range's price or, without one, what the square-root rule
// gives: sensors awake all the time, crawled at even gaps.
func (s *solver) firstPrice() float64 {
	switch {
	case s.p.Budget == 0:
		return math.Inf(1)
	case s.ahead > 0:
		return s.ahead
	case s.p.Price > 0:
		return s.p.Price
	}
	var sum float64
	for _, weight := range s.weights {
		sum += weight
	}
	tick := s.p.Tick.Seconds()
	root := sum / float64(s.p.Budget)
	return root * root / 2 * tick * tick * float64(s.p.Length)
}

// count is how many crawls a subset takes at a price: one PENAL per sensor and no
// marginals, half the work of settling it.
func (s *solver) count(sub subset, price float64) float64 {
	var sum atomic.Int64
	s.each(len(sub.sensors), func(w *worker, k int) {
		d := &s.p.Demands[sub.sensors[k]]
		w.build(s.p, d, s.ahead, s.p.forces(d))
		w.probes++
		n := min(w.penal(odd(price, s.p.stake(d))).n, w.most(d))
		if w.forced {
			n++
		}
		sum.Add(int64(n))
	})
	return float64(sum.Load())
}
