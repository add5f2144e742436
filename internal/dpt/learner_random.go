package dpt

import (
	"math"
	"slices"
)

// random is the log marginal likelihood of a sensor that wakes and falls asleep at random:
// a two-state Markov process in continuous time, with rates that suit the windows seen.
func (b *belief) random() float64 {
	var all []float64
	width := b.fits[0].end - b.fits[0].start
	for awake := width / 16; awake < 17*width; awake *= 2 {
		for _, duty := range []float64{0.01, 0.03, 0.06, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9} {
			all = append(all, b.randomAt(1/awake, duty))
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
	for _, l := range b.looks {
		if math.Abs(l.at) > b.farthest() {
			continue // nor do the ranges of periods explain it
		}
		p = duty + (p-duty)*math.Exp(-rate*(l.at-last))
		last = l.at
		yes := p*(1-b.loss) + (1-p)*stray
		if l.awake {
			p *= (1 - b.loss) / yes
			sum += l.trust * math.Log(yes)
		} else {
			p *= b.loss / (1 - yes)
			sum += l.trust * math.Log(1-yes)
		}
	}
	return sum
}
