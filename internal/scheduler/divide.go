package scheduler

import (
	"math"
	"math/rand/v2"
)

// DivideAndConquer solves a problem by divide and conquer for each sensor and by
// Fox's arrangement. Under the Exact objective it finds what Solve finds before the
// polish, under Paper the optimum of the EasiCrawl paper's own objective, in which it
// then gives prices and marginals. It draws nothing and ignores Capacity.
func DivideAndConquer(p *Problem, _ *rand.Rand) (*Solution, error) {
	return composed(p, alike(divideMethod), foxShare)
}

// divideMethod needs the weights to be Monge and nothing else of them, which holds for
// every convex penalty (T1): then the best crawl before an instant moves forward
// with it, and each layer takes O(m log m) weights. That makes O(n m log m), and the
// look-ahead O(m log^2 m) once.
var divideMethod = tabular((*tables[int64]).divide, (*tables[float64]).divide)

// maxTabulated is up to how many nodes slow weights are tabulated: 16 MB.
const maxTabulated = 2000

// divide fills the tables layer by layer.
func (t *tables[T]) divide(w edgeWeights[T], n int) (work int64) {
	t.size(n, w.counted, w.last)
	if w.slow && w.last <= maxTabulated {
		work += t.tabulate(&w)
	}
	work += t.onward(w)
	for k := 1; k <= n; k++ {
		f, prev := t.layer(k)
		if k == 1 {
			for j := 1; j <= w.counted; j++ {
				f[j], prev[j] = w.between(0, j), 0
			}
			work += int64(w.counted)
			continue
		}
		before, _ := t.layer(k - 1)
		m := minima[T]{
			at:   func(j, i int) T { return before[i] + w.between(i, j) },
			keep: func(j, i int, v T) { f[j], prev[j] = v, int32(i) },
			edge: -1,
		}
		m.find(k, w.counted, k-1, w.counted-1)
		work += m.work
	}
	return work + t.join()
}

// tabulate replaces slow weights by a table of them: a whole row costs little more
// than its longest edge.
func (t *tables[T]) tabulate(w *edgeWeights[T]) (work int64) {
	t.grid = room(t.grid, w.last*(w.last+1)/2)
	grid := t.grid
	for j := 1; j <= w.last; j++ {
		w.into(j, grid[j*(j-1)/2:])
		work += int64(j)
	}
	w.between = func(i, j int) T { return grid[j*(j-1)/2+i] }
	return work
}

// onward fills rest. What follows a look-ahead crawl has to be known before the crawl
// can be offered to those before it; so the later half of them is finished first,
// then offered to the earlier half as a whole.
func (t *tables[T]) onward(w edgeWeights[T]) (work int64) {
	for i := range w.last {
		t.rest[i] = w.between(i, w.last)
	}
	offer := func(firstTo, lastTo, first, last int) {
		m := minima[T]{
			at: func(i, j int) T { return w.between(i, j) + w.price + t.rest[j] },
			keep: func(i, _ int, v T) {
				t.rest[i] = min(t.rest[i], v)
			},
			edge: math.MaxInt32,
		}
		m.find(firstTo, lastTo, first, last)
		work += m.work
	}
	var finish func(first, last int)
	finish = func(first, last int) {
		if first >= last {
			return
		}
		mid := (first + last + 1) / 2
		finish(mid, last)
		offer(first, mid-1, mid, last)
		finish(first, mid-1)
	}
	if first, last := w.counted+1, w.last-1; first <= last {
		finish(first, last)
		offer(0, w.counted, first, last)
	}
	return work + int64(w.last)
}

// minima finds the least value of each row of a matrix in which it never moves left
// as one goes down. Row r has the columns up to r+edge; an end that recedes with the
// row hides no least value from a row below.
type minima[T number] struct {
	at   func(row, column int) T
	keep func(row, column int, least T)
	edge int
	work int64
}

// find searches the middle row first..last, which halves the columns for the rows
// above and below. Of equal values the first is taken; that choice does not move
// left either.
func (m *minima[T]) find(first, last, left, right int) {
	for first <= last {
		mid := (first + last) / 2
		to := min(right, mid+m.edge)
		at, least := left, m.at(mid, left)
		for c := left + 1; c <= to; c++ {
			if v := m.at(mid, c); v < least {
				at, least = c, v
			}
		}
		m.keep(mid, at, least)
		m.work += int64(to - left + 1)
		m.find(first, mid-1, left, at)
		first, left = mid+1, at
	}
}
