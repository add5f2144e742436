package dpt

import (
	"fmt"
	"math"
	"time"
)

// farAway bounds every instant, ms from 1970: 10 000 years, so that sums do not overflow.
const farAway = int64(10_000 * 365.25 * 24 * 3600 * 1000)

// Bounds of what is restored: instants that were seen, with what a Shift takes off them,
// spans between such, and instants that were planned from both.
const (
	seenBy    = 2 * farAway
	spansTo   = 2 * seenBy
	plannedBy = 4 * spansTo
)

// outside is an error that names the first value beyond a bound, in ms.
func outside(what string, bound int64, values ...int64) error {
	for _, x := range values {
		if x < -bound || x > bound {
			return fmt.Errorf("%s of %d ms", what, x)
		}
	}
	return nil
}

// clamp stretches the gap from the last visit to wanted and holds it between the
// limits: at least MinGap after the visit's end, at most MaxGap*stretch after its
// start, and in any case within (now, now + MaxGap*stretch]. capped tells that MaxGap
// was the binding limit.
func (l limits) clamp(last, end, wanted int64, now time.Time, stretch float64) (time.Time, bool) {
	if !(stretch >= 1) {
		stretch = 1
	}
	stretch = min(stretch, maxStretch)
	longest := int64(float64(l.MaxGap) * stretch)
	gap := int64(min(float64(max(wanted-last, 0))*stretch, float64(longest)+1))
	capped := gap > longest
	at := max(last+min(gap, longest), end+l.MinGap, now.UnixMilli()+1)
	next := time.UnixMilli(at)
	if latest := now.Add(span(longest)); next.After(latest) {
		next = latest
	}
	return next.UTC(), capped
}

// doubled is base*2^n, at most limit.
func doubled(base int64, n int, limit int64) int64 {
	return int64(min(math.Ldexp(float64(base), min(n, 1000)), float64(limit)))
}

// expected counts polls in [at, to): the gaps between them begin with gap ms and grow
// by a factor up to longest ms. The last, broken gap counts by its share.
func expected(at, to time.Time, gap, growth, longest float64) float64 {
	if !at.Before(to) {
		return 0
	}
	left := float64(to.Sub(at)) / float64(time.Millisecond)
	polls := 1.0
	gap = min(gap, longest)
	for growth > 1 && gap < longest && left >= gap {
		left -= gap
		polls++
		gap = min(gap*growth, longest)
	}
	return polls + left/gap
}

// rounded writes a span of ms to the second; below ten seconds to the millisecond.
func rounded(ms float64) string {
	d := span(int64(ms))
	if d >= 10*time.Second {
		d = d.Truncate(time.Second)
	}
	return d.String()
}
