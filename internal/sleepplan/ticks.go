package sleepplan

import (
	"math"
	"sort"
	"time"
)

// Ticks appends the windows as spans of whole ticks since origin, which may be
// negative. Edges are rounded INWARD, so that every tick [k, k+1) of a span is
// fully awake; a window without a whole tick vanishes. ws is sorted and
// disjoint, as Plan.Windows gives it; windows that touch are merged before
// they are rounded. Spans are clamped to the range of int32, and to the 292
// years around origin that a time.Duration can hold, inward as well. tick must
// be positive.
func Ticks(dst []Span, ws []Window, origin time.Time, tick time.Duration) []Span {
	for i := 0; i < len(ws); {
		// Rounding first would lose the tick that two touching windows share.
		w := ws[i]
		for i++; i < len(ws) && !ws[i].Start.After(w.End); i++ {
			w.End = ws[i].End
		}
		s := Span{
			Start: clampTick(ceilDiv(int64(w.Start.Sub(origin)), int64(tick))),
			End:   clampTick(floorDiv(int64(w.End.Sub(origin)), int64(tick))),
		}
		if s.Start < s.End {
			dst = append(dst, s)
		}
	}
	return dst
}

// floorDiv is a/b rounded towards minus infinity, for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// ceilDiv is a/b rounded towards plus infinity, for b > 0.
func ceilDiv(a, b int64) int64 {
	q := a / b
	if a%b > 0 {
		q++
	}
	return q
}

// clampTick makes both ends of a span that is out of range equal, so that it
// vanishes.
func clampTick(k int64) int32 { return int32(min(max(k, math.MinInt32), math.MaxInt32)) }

// Mass is the number of awake ticks in [from, to): the A(to)-A(from) of the
// exact Poisson cost of a crawl. spans is sorted and disjoint.
func Mass(spans []Span, from, to int64) int64 {
	var mass int64
	eachIn(spans, from, to, func(s, e int64) { mass += e - s })
	return mass
}

// Moment2 is twice the first moment of the awake time in [from, to), the
// integral of 2u du = sum of e^2-s^2 over the awake stretches [s, e): twice
// B(to)-B(from) of the exact Poisson cost, doubled to stay an integer. It
// cannot overflow: the sum over disjoint spans within int32 lies in
// [-2^62, 2^62]. spans is sorted and disjoint.
func Moment2(spans []Span, from, to int64) int64 {
	var moment int64
	eachIn(spans, from, to, func(s, e int64) { moment += (e - s) * (e + s) })
	return moment
}

// eachIn calls f with the part [s, e) of every span that reaches into
// [from, to). It searches the first one, so that the planner can ask for short
// stretches of a long range.
func eachIn(spans []Span, from, to int64, f func(s, e int64)) {
	first := sort.Search(len(spans), func(i int) bool { return int64(spans[i].End) > from })
	for _, span := range spans[first:] {
		s, e := max(int64(span.Start), from), min(int64(span.End), to)
		if s >= e {
			return
		}
		f(s, e)
	}
}
