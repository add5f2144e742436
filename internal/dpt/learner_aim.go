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
	leastGain  = 0.3  // bits; less is not worth a probe once the period is known
	smallGain  = 0.01 // the same before: rivals have to fall to claimOthers
	maxRhythms = 8    // periods far from each other that probes are aimed at
	goodGain   = 0.6  // share of the largest gain for which the earliest is taken
)

// An aim is a candidate for the next probe.
type aim struct {
	at   float64 // s after ref
	gain float64 // bits
	what string
	p    float64 // chance of being awake
	tol  float64 // s to which an edge has to be known; 0 = no edge
}

// disagreement is the probe that is expected to tell most about period and edges: of
// those nearly as good as the best, the earliest. Where everything is known well enough,
// a window not seen before is looked at in its middle.
func (s *learnerState) disagreement(b *belief, from int64) (int64, string) {
	if len(b.fits) == 0 {
		return s.search(from, s.Stage)
	}
	t := seconds(from - b.ref)
	fresh, why := s.freshWindow(b, t)
	aims := b.aims(t)
	best := leastGain
	if !b.settled() {
		best = smallGain
	}
	slices.SortStableFunc(aims, func(a, c aim) int { return cmp.Compare(c.gain, a.gain) })
	for _, a := range aims {
		if a.gain <= best || !b.sees(a) {
			best = max(best, a.gain)
			break
		}
	}
	slices.SortStableFunc(aims, func(a, c aim) int { return cmp.Compare(a.at, c.at) })
	for _, a := range aims {
		if a.gain < goodGain*best || b.sees(a) {
			continue
		}
		if b.mass > sure && a.at > fresh+b.period/4 && !s.tried(b) {
			break // no need to wait idly: windows have to be looked at anyway
		}
		return b.instant(a.at), fmt.Sprintf("%s: awake with chance %.2f, period %v", a.what, a.p,
			rounded(b.fits[0].Period*1000))
	}
	return b.instant(fresh), why
}

// instant is t s after ref in Unix ms, rounded up.
func (b *belief) instant(t float64) int64 { return b.ref + int64(math.Ceil(t*1000)) }

// freshWindow is the middle of a window, so far ahead that as many looks as a claim needs
// span the time that it has to be tested for.
func (s *learnerState) freshWindow(b *belief, from float64) (at float64, why string) {
	f := b.fits[0]
	m := b.rhythm(f)
	hits, misses := b.fresh(f, seconds(max(s.Settled, s.Revoked)-b.ref))
	mid := (m.start + m.end) / 2
	if at, ok := b.dayOff(m, from); ok {
		return at, "middle of a window that may be left out"
	}
	k := math.Ceil((from - mid) / m.period)
	if m.period < day/4 {
		k += math.Floor(tested(m.period) / m.period / claimHits)
	}
	if turns := b.unmet(f); s.Claimed == nil && len(turns) > 0 {
		t := turns[len(turns)-1]
		for range t.every {
			if t.has(k) {
				break
			}
			k++
		}
	}
	for range 7 {
		if !f.daily || f.on[mod7(k)] > 0.5 {
			break
		}
		k++
	}
	at = mid + k*m.period
	if duty := (m.end - m.start) / m.period; duty > 0.15 && s.Probes%2 == 1 {
		// Where many looks are answered by chance, silences count as well.
		if at -= m.period / 2; at < from {
			at += m.period
		}
		return at, "middle of a sleep"
	}
	return at, fmt.Sprintf("middle of a window, %d met, %d missed", hits, misses)
}

// dayOff is the next look in the middle half of a window of a day that seems to have none but
// has not been looked at often enough.
func (b *belief) dayOff(m rhythm, from float64) (float64, bool) {
	if !m.top.daily {
		return 0, false
	}
	mid, width := (m.start+m.end)/2, m.end-m.start
	k := math.Ceil((from - mid - width/5) / m.period)
	for range 7 {
		if m.top.on[mod7(k)] < 0.5 && !b.off(m.top, mod7(k)) {
			return max(mid+k*m.period, from+width/64), true
		}
		k++
	}
	return 0, false
}

// aims are the edges and the middles of the windows of the heaviest periods, at several
// strides, with what a look there would tell.
func (b *belief) aims(from float64) []aim {
	var aims []aim
	width := b.fits[0].end - b.fits[0].start
	for _, m := range b.rhythms() {
		horizon := min(max(64*m.period, 3600), day)
		if m.period > day/8 {
			horizon = 8 * m.period
		}
		first := math.Ceil((from - m.end) / m.period)
		for _, k := range strides {
			shift := (first + k) * m.period
			if m.start+shift-from > horizon {
				break
			}
			for i, t := range []float64{m.start, (m.start + m.end) / 2, m.end} {
				t += shift
				if late := from + (m.end-m.start)/16; i == 1 && t < late && m.top.core(late) {
					t = late // a second look at the same window
				}
				if t < from || i != 1 && !m.top.sureDay(first+k) {
					continue
				}
				p, tol := b.awake(t), 0.0
				if i != 1 {
					tol = b.tolerance(k) * width
				}
				aims = append(aims, aim{t, b.gain(p), [...]string{"start", "middle", "end"}[i], p, tol})
			}
		}
	}
	return aims
}

// sees reports whether an aim is an edge that is known well enough.
func (b *belief) sees(a aim) bool { return a.tol > 0 && b.known(a.at, a.tol) }

// A rhythm is what the fits of nearly the same period have in common: the means of their
// windows and periods.
type rhythm struct {
	start, end, period float64
	top                *fit
}

// rhythms are those of the heaviest fits, at most maxRhythms.
func (b *belief) rhythms() []rhythm {
	var found []rhythm
	for _, f := range b.fits {
		if len(found) == maxRhythms {
			break
		}
		if !slices.ContainsFunc(found, func(m rhythm) bool { return f.like(m.top) }) {
			found = append(found, b.rhythm(f))
		}
	}
	return found
}

// rhythm is that of the fits like f.
func (b *belief) rhythm(f *fit) rhythm {
	m := rhythm{top: f}
	sum := 0.0
	for _, g := range b.fits {
		if g.like(f) && math.Abs(g.start+g.end-f.start-f.end) < f.Period {
			sum += g.weight
			m.start += g.weight * g.start
			m.end += g.weight * g.end
			m.period += g.weight * g.Period
		}
	}
	m.start, m.end, m.period = m.start/sum, m.end/sum, m.period/sum
	return m
}

// like reports whether two periods are nearly the same.
func (f *fit) like(g *fit) bool { return math.Abs(f.Period-g.Period) <= otherShare*g.Period }

// tolerance is the share of a window to which an edge has to be known k windows ahead.
func (b *belief) tolerance(k float64) float64 {
	if b.near > 0 {
		return keptEdge
	}
	return claimEdge + (claimDrift-claimEdge)*min(k/ahead, 1)
}

// sureDay reports whether the sensor is known to have window k. Where it is not, the
// window's middle tells most.
func (f *fit) sureDay(k float64) bool { return !f.daily || f.on[mod7(k)] > 0.9 }

// known reports whether the edge at t is likely to lie within tol of it: beyond doubt as
// long as an edge elsewhere would speak for another period.
func (b *belief) known(t, tol float64) bool {
	sure := 0.85
	if !b.settled() {
		sure = 0.97
	}
	return math.Abs(b.awake(t+tol)-b.awake(t-tol)) > sure
}

// gain is the mutual information of an answer and of being awake, in bits: the entropy
// of the answer less what loss makes of it.
func (b *belief) gain(p float64) float64 {
	return entropy(p*(1-b.loss)) - p*entropy(b.loss)
}

func entropy(p float64) float64 {
	if p <= 0 || p >= 1 {
		return 0
	}
	return -p*math.Log2(p) - (1-p)*math.Log2(1-p)
}
