package dpt

import (
	"math"
	"slices"
)

// The grid of random sleepers: mean awake spans from a 16th to 16 windows in steps of
// four, shares of awake time.
var (
	randomSpans  = [...]float64{1. / 16, 1. / 4, 1, 4, 16}
	randomDuties = [...]float64{0.01, 0.03, 0.1, 0.3, 0.5, 0.8}
)

// random is the log marginal likelihood of a sensor that wakes and falls asleep at random:
// a two-state Markov process in continuous time, with rates that suit the windows seen.
func (b *belief) random() float64 {
	width := max(b.fits[0].end-b.fits[0].start, instant)
	var all []float64
	for _, span := range randomSpans {
		for _, duty := range randomDuties {
			all = append(all, b.randomAt(1/(span*width), duty))
		}
	}
	best, sum := slices.Max(all), 0.0
	for _, x := range all {
		sum += math.Exp(x - best)
	}
	return best + math.Log(sum/float64(len(all)))
}

// randomAt is the likelihood at the rate of falling asleep and the share of awake time.
func (b *belief) randomAt(fall, duty float64) float64 {
	rate := fall / (1 - duty) // both rates together
	sum, p, last := 0.0, duty, math.Inf(-1)
	product, trust := 1.0, 1.0 // of looks trusted nearly alike
	far := b.farthest()
	for _, l := range b.looks {
		if math.Abs(l.at) > far {
			continue // nor do the ranges of periods explain it
		}
		if x := rate * (l.at - last); x < 30 {
			p = duty + (p-duty)*math.Exp(-x)
		} else {
			p = duty
		}
		last = l.at
		yes := p*(1-b.loss) + (1-p)*stray
		if math.Abs(l.trust-trust) > 0.02 || product < 1e-280 {
			sum += trust * math.Log(product)
			product, trust = 1, l.trust
		}
		if l.awake {
			p *= (1 - b.loss) / yes
			product *= yes
		} else {
			p *= b.loss / (1 - yes)
			product *= 1 - yes
		}
	}
	return sum + trust*math.Log(product)
}
