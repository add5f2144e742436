package dpt

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// strides are how many periods ahead a probe may be aimed: even and odd, prime and not.
var strides = [...]float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 11, 13, 17, 21, 27, 34, 43, 55, 64, 89}

const (
	edgeTolerance = 0.05 // share of a window to which an edge has to be known
	leastGain     = 0.3  // bits; less is not worth a probe once the period is known
	goodGain      = 0.6  // share of the largest gain for which the earliest is taken
)

// An aim is a candidate for the next probe.
type aim struct {
	at   float64 // s after ref
	gain float64 // bits
	what string
	p    float64 // chance of being awake
}

// disagreement is the probe that is expected to tell most about period and edges: of
// those nearly as good as the best, the earliest. Where everything is known well enough,
// a window not seen before is looked at in its middle.
func (s *learnerState) disagreement(b *belief, from int64) (int64, string) {
	if len(b.fits) == 0 {
		return s.search(from, s.Stage)
	}
	t := seconds(from - b.ref)
	aims := b.aims(t)
	best := leastGain
	if b.mass < claimMass {
		best = 0
	}
	for _, a := range aims {
		best = max(best, a.gain)
	}
	slices.SortStableFunc(aims, func(a, c aim) int { return cmp.Compare(a.at, c.at) })
	for _, a := range aims {
		if a.gain >= goodGain*best {
			return b.ref + int64(math.Ceil(a.at*1000)),
				fmt.Sprintf("%s: awake with chance %.2f, period %v", a.what, a.p,
					rounded(b.fits[0].Period*1000))
		}
	}
	return s.freshWindow(b, t)
}

// freshWindow is the middle of a window further and further ahead.
func (s *learnerState) freshWindow(b *belief, from float64) (int64, string) {
	f := b.fits[0]
	hits, misses := b.fresh(f, seconds(max(s.Settled, s.Revoked)-b.ref))
	mid := (f.start + f.end) / 2
	k := math.Ceil((from - mid) / f.Period)
	if f.Period < day/4 {
		k += strides[min(hits+misses, 8)]
	}
	for range 7 {
		if !f.daily || f.on[mod7(k)] > 0.5 {
			break
		}
		k++
	}
	at := mid + k*f.Period
	if duty := (f.end - f.start) / f.Period; duty > 0.15 && s.Probes%2 == 1 {
		// Where many looks are answered by chance, silences count as well.
		if at -= f.Period / 2; at < from {
			at += f.Period
		}
		return b.ref + int64(math.Round(at*1000)), "middle of a sleep"
	}
	return b.ref + int64(math.Round(at*1000)),
		fmt.Sprintf("middle of a window, %d met, %d missed", hits, misses)
}

// aims are the edges and the middles of the windows of the heaviest periods, at several
// strides, with what a look there would tell.
func (b *belief) aims(from float64) []aim {
	var aims []aim
	top := b.fits[0]
	tol := edgeTolerance * (top.end - top.start)
	for _, f := range b.fits[:min(len(b.fits), 6)] {
		horizon := min(max(64*f.Period, 3600), day)
		if f.Period > day/8 {
			horizon = 8 * f.Period
		}
		mid := (f.start + f.end) / 2
		first := math.Ceil((from - f.end) / f.Period)
		for _, k := range strides {
			shift := (first + k) * f.Period
			if f.start+shift-from > horizon {
				break
			}
			for i, t := range []float64{f.start, mid, f.end} {
				what := [...]string{"start", "middle", "end"}[i]
				t += shift
				if t < from || i != 1 && (!f.sureDay(first+k) || b.known(t, tol)) {
					continue
				}
				p := b.awake(t)
				aims = append(aims, aim{t, b.gain(t, p), what, p})
			}
		}
	}
	return aims
}

// sureDay reports whether the sensor is known to have window k. Where it is not, the
// window's middle tells most.
func (f *fit) sureDay(k float64) bool { return !f.daily || f.on[mod7(k)] > 0.9 }

// known reports whether the edge at t is certain to lie within tol of it.
func (b *belief) known(t, tol float64) bool {
	return math.Abs(b.awake(t+tol)-b.awake(t-tol)) > 0.85
}

// gain is the mutual information of an answer and of being awake, in bits: the entropy
// of the answer less what loss makes of it.
func (b *belief) gain(_, p float64) float64 {
	return entropy(p*(1-b.loss)) - p*entropy(b.loss)
}

func entropy(p float64) float64 {
	if p <= 0 || p >= 1 {
		return 0
	}
	return -p*math.Log2(p) - (1-p)*math.Log2(1-p)
}
