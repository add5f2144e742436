package dpt

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// uniform is the Kolmogorov-Smirnov distance of xs from U(0, width), times sqrt n: above
// 1.63 in one of a hundred cases.
func uniform(xs []float64, width float64) float64 {
	sorted := slices.Sorted(slices.Values(xs))
	n, worst := float64(len(sorted)), 0.0
	for i, x := range sorted {
		p := x / width
		worst = max(worst, float64(i+1)/n-p, p-float64(i)/n)
	}
	return worst * math.Sqrt(n)
}

// After a hit the next look comes U(0, D) later than without desynchronisation, and all
// looks until the next hit by the same span.
func TestDesync(t *testing.T) {
	const width = 60_000
	items := source{300_000, 1, 1, 10_000}.publish(rand.New(rand.NewPCG(7, 7)), 1500)
	p := testParams()
	plain := NewTracker(p, epoch0)
	p.Desync = width * time.Millisecond
	spread := NewTracker(p, epoch0)
	var shifts, sums []float64
	for i, ms := range items {
		o := poll(ms+3000, visit.Described)
		o.PublishedAt = []time.Time{at(ms)}
		plain.Observe(o)
		spread.Observe(o)
		if i < 5 {
			continue
		}
		a, b := plain.Clone(), spread.Clone()
		shift := next(b, ms+3000) - next(a, ms+3000)
		shifts = append(shifts, float64(shift))
		if n := len(shifts); n > 1 {
			sums = append(sums, (shifts[n-1]+shifts[n-2])/2)
		}
		na, nb := ms+3000, ms+3000
		for k := range 8 {
			na, nb = next(a, na), next(b, nb)
			if nb-na != shift {
				t.Fatalf("look %d after a hit is shifted by %d ms, the first by %d", k, nb-na, shift)
			}
			a.Observe(poll(na, visit.Unchanged))
			b.Observe(poll(nb, visit.Unchanged))
		}
	}
	d, control := uniform(shifts, width), uniform(sums, width)
	t.Logf("distance from U(0, 60 s) %.2f, of means of two %.2f", d, control)
	if d > 1.63 || control < 1.63 {
		t.Errorf("%d shifts: distance %.2f, control %.2f", len(shifts), d, control)
	}
}

// A sensor that refuses as overloaded is looked at later and later, one that does not any
// more as before.
func TestOverload(t *testing.T) {
	p := testParams()
	p.Desync = time.Second
	tr, now := learnt(t, p, 300_000, 10)
	widest := func(refuse int) (share float64) { // of the period
		var most int64
		for i := range 400 {
			now += 300_000
			o := poll(now, visit.Described)
			o.PublishedAt = []time.Time{at(now)}
			if refuse > 0 && i%refuse != 0 {
				o = poll(now, visit.Refused)
				o.RetryAfter = 30 * time.Second
			}
			tr.Observe(o)
			if i > 100 {
				most = max(most, tr.s.Shift)
			}
		}
		period, _, _, _ := tr.Stats()
		return float64(span(most)) / float64(period)
	}
	calm, half, most, again := widest(0), widest(2), widest(8), widest(0)
	t.Logf("widest shift in periods: calm %.3f, every other refused %.3f, seven of eight %.3f, "+
		"calm again %.3f", calm, half, most, again)
	if calm > .004 || again > .004 || half < .3 || half > .55 || most < .7 || most > .95 {
		t.Errorf("shifts of %.3f, %.3f, %.3f, %.3f periods", calm, half, most, again)
	}
}

// Two trackers of one contact draw the same, two of different contacts do not.
func TestDesyncIsReproducible(t *testing.T) {
	p := testParams()
	p.Desync = time.Minute
	draws := func(contact time.Time) (all []int64) {
		tr := NewTracker(p, contact)
		for i := range int64(20) {
			o := poll(300_000*(i+1), visit.Described)
			o.PublishedAt = []time.Time{o.Started}
			tr.Observe(o)
			all = append(all, tr.s.Shift)
		}
		return all
	}
	a, b, c := draws(epoch0), draws(epoch0), draws(epoch0.Add(time.Millisecond))
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Errorf("%v\n%v\n%v", a, b, c)
	}
}
