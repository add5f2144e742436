package dpt

import (
	"math"
	"math/rand/v2"
	"testing"
)

// everyNth looks late in every n-th epoch that a tracker knows of, whatever it costs.
type everyNth struct {
	*hz
	n, late float64
	next    int64
}

func (e *everyNth) hit(at int64, published []int64, _ bool) {
	for _, t := range published {
		e.publication(t, false)
	}
	e.At, e.Misses = at, 0
	e.bootstrap()
	e.next = e.Last + int64(e.Filters.base()+e.n*e.Lambda+e.late)
}

func (e *everyNth) miss(at, _ int64) {
	e.At = at
	e.bootstrap()
	e.next += int64(e.Lambda)
}

func (e *everyNth) due() int64 {
	if e.learning() {
		return e.hz.due()
	}
	return max(e.next, e.At+e.Params.MinGap)
}

// selfish leaves g out: it saves polls within a cycle only.
type selfish struct{ *hz }

func (s selfish) hit(at int64, published []int64, exact bool) {
	s.hz.hit(at, published, exact)
	if s.learning() {
		return
	}
	i := s.inspection()
	s.Looks, s.By = nil, nil
	for _, j := range i.cheapest(0) {
		s.Looks = append(s.Looks, int64(math.Ceil(i.cells[j].at)))
		s.By = append(s.By, 0)
	}
	s.advance()
}

// TestHZSkips compares the cost per publication at prices that make it pay to skip
// publications: with the best of all plans of the form "every n-th epoch, so much late",
// with the g the plans were made with, and with plans that leave g out.
func TestHZSkips(t *testing.T) {
	n := trials(600, 1500)
	for _, m := range []hzSource{hzDelay, hzLossy} {
		items := m.publications(rand.New(rand.NewPCG(1, 2)), n)
		for _, c := range []float64{1.5, 5, 20}[:trials(2, 3)] {
			p := hzTestParams(m.period)
			p.Price, p.MaxGap = int64(c*m.period), 48*3600_000
			cost := func(r rule) float64 {
				f := hzFollow(r, items, 100).figures()
				return 1000*f.mean/m.period + c*f.ppe
			}
			most := math.Sqrt(2 * c)
			best := math.Inf(1)
			for k := max(math.Floor(most)-1, 1); k <= most+2; k++ {
				for _, late := range []float64{20_000, 30_000, 50_000} {
					best = min(best, cost(&everyNth{newHZ(p, 0), k, late, 0}))
				}
			}
			h := &promising{hz: newHZ(p, 0)}
			got, without := cost(h), cost(selfish{newHZ(p, 0)})
			g := h.sum / float64(h.n) / m.period
			t.Logf("price %g, loss %.2f: %.3f periods, promised %.3f, best of every n-th %.3f, "+
				"without g %.3f", c, 1-m.pss, got, g, best, without)
			if got > 1.05*best || math.Abs(g/got-1) > .06 {
				t.Errorf("price %g: cost %.3f, promised %.3f, best of every n-th %.3f", c, got, g, best)
			}
			if c > 2 && without < 1.15*got {
				t.Errorf("price %g: cost %.3f, without g %.3f", c, got, without)
			}
		}
	}
}

// promising sums up the cost per publication that the plans promise.
type promising struct {
	*hz
	sum float64
	n   int
}

func (p *promising) hit(at int64, published []int64, exact bool) {
	p.hz.hit(at, published, exact)
	if s := p.inspection(); len(s.cells) > 0 && p.Count > 100 {
		p.sum += s.ratio(s.best())
		p.n++
	}
}

// TestHZSkipsWithoutJitter: n looks in one cost c/n + lambda*(n-1)/2 per publication.
func TestHZSkipsWithoutJitter(t *testing.T) {
	m := hzSource{period: 300_000, pss: 1, pfs: 1}
	items := m.publications(rand.New(rand.NewPCG(1, 2)), 1500)
	for _, c := range []float64{.3, 2, 7, 30} {
		p := hzTestParams(m.period)
		p.Price, p.MaxGap = int64(c*m.period), 48*3600_000
		f := hzFollow(newHZ(p, 0), items, 400).figures()
		best := math.Inf(1)
		for n := 1.0; n < 20; n++ {
			best = min(best, c/n+(n-1)/2)
		}
		got := 1000*f.mean/m.period + c*f.ppe
		t.Logf("price %g: %v, %.3f periods per publication, least %.3f", c, f, got, best)
		if got > 1.06*best || got < .99*best {
			t.Errorf("price %g: %.3f periods per publication, least %.3f", c, got, best)
		}
	}
}

// randomInspection has up to nine cells and some law of what follows a publication.
func randomInspection(rng *rand.Rand) inspection {
	n := 2 + rng.IntN(8)
	cells := make([]cell, n)
	left := 1.0
	for i := 1; i < n; i++ {
		w := left * rng.Float64()
		if i == n-1 {
			w = left
		}
		left -= w
		from := cells[i-1].at
		at := from + 1 + 100*rng.Float64()
		mean := from + (at-from)*rng.Float64()
		cells[i] = cell{at, cells[i-1].past + w, w, mean}
	}
	period, share := 20+200*rng.Float64(), rng.Float64()
	return inspection{
		cells: cells, price: 200 * rng.Float64(), unit: period, minGap: 1, many: true,
		later: (&hz{Lambda: period, Chain: hzChain{share, 1 - share, share, 1 - share}}).epochsLater(),
	}
}

// cost of a set of looks, publication by publication: each is found by the first look
// after it.
func (s inspection) slowly(set int) (cost, publications float64) {
	n := len(s.cells)
	looked := func(i int) bool { return i == n-1 || set>>(i-1)&1 == 1 }
	for k := 1; k < n; k++ {
		polls, j := 1.0, 1
		for ; j < k || !looked(j); j++ {
			if looked(j) {
				polls++
			}
		}
		u := s.cells[j].at - s.cells[k].mean
		wait, count := s.later(u)
		cost += s.cells[k].weight * (s.price*polls + u + wait)
		publications += s.cells[k].weight * (1 + count)
	}
	return cost, publications
}

// TestInspectionIsTheOptimum enumerates all sets of looks.
func TestInspectionIsTheOptimum(t *testing.T) {
	skipped := 0
	for i := range trials(5000, 15_000) {
		s := randomInspection(rand.New(rand.NewPCG(uint64(i), 7)))
		least, ratio := math.Inf(1), math.Inf(1)
		for set := range 1 << (len(s.cells) - 2) {
			cost, publications := s.slowly(set)
			least, ratio = min(least, cost), min(ratio, cost/publications)
		}
		if got := s.total(s.cheapest(0)); math.Abs(got-least) > 1e-9*least {
			t.Fatalf("inspection %d: cost %g, least %g", i, got, least)
		}
		got := s.ratio(s.best())
		if got > ratio*(1+2*ratioPrecise) || got < ratio*(1-1e-9) {
			t.Fatalf("inspection %d: cost per publication %g, least %g", i, got, ratio)
		}
		if s.ratio(s.cheapest(0)) > 1.01*ratio {
			skipped++
		}
	}
	if skipped < 100 {
		t.Errorf("g mattered in %d inspections only", skipped)
	}
}

// total is the cost of a cycle.
func (s inspection) total(path []int) float64 {
	set := 0
	for _, j := range path {
		set |= 1 << (j - 1)
	}
	cost, _ := s.slowly(set)
	return cost
}
