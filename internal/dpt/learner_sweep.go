package dpt

import "slices"

// Blind search at golden-ratio spacing finds a sensor as a search at random does: after
// 0.69/d probes in the median if it is awake for a share d of the time. One that covers
// the phases of its period evenly does with 0.5/d. The period is unknown, but it is
// likely one that people set, and probes even in several of these serve their divisors too.
var sweepPeriods = [...]float64{900, 1800, 3600, 7200, day} // s

const (
	// sweepFrom is how many probes go before: what is awake for more than a share of
	// 1/sweepFrom is found by then, whatever its period.
	sweepFrom = 32
	// sweepChoices are the instants that are held against each other.
	sweepChoices = 32
)

// sweep is how long after the last visit, in ms, the next probe is the furthest in phase from
// those that there were: within the same bounds as by golden-ratio spacing.
func (s *learnerState) sweep(gap float64) float64 {
	var folded [len(sweepPeriods)][]float64
	for i, period := range sweepPeriods {
		folded[i] = make([]float64, len(s.Seen))
		for j, x := range s.Seen {
			folded[i][j] = wrap(seconds(x.ms()), period)
		}
		slices.Sort(folded[i])
	}
	best, wanted := -1.0, 0.0
	shift := fraction(s.Seed + uint64(s.Probes)*weyl)
	for j := range sweepChoices {
		after := gap * (0.5 + (float64(j)+shift)/sweepChoices)
		sum := 0.0
		for i, period := range sweepPeriods {
			x := wrap(seconds(s.Last)+after/1000, period)
			sum += min(apart(folded[i], x, period)*float64(len(s.Seen))/period, 1)
		}
		if sum > best {
			best, wanted = sum, after
		}
	}
	return wanted
}

// apart is the distance of x from the nearest of the sorted phases.
func apart(phases []float64, x, period float64) float64 {
	n := len(phases)
	if n == 0 {
		return period
	}
	i, _ := slices.BinarySearch(phases, x)
	before, after := phases[(i+n-1)%n], phases[i%n]
	return min(wrap(x-before, period), wrap(after-x, period))
}
