package scheduler

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// periodic is a sensor with so many cycles of awake and asleep ticks, every tick being
// a candidate and the last crawl fixed.
func periodic(awake, asleep int32, cycles int) (*Problem, *Demand) {
	p := &Problem{
		Tick: 2 * time.Second, Length: int64(cycles) * int64(awake+asleep), End: Fixed,
		Candidates: Grid, Step: 1, Budget: math.MaxInt32, Demands: make([]Demand, 1),
	}
	d := &p.Demands[0]
	*d = Demand{Coef: 1, Cap: -1, Known: math.MaxInt64}
	for k := range int32(cycles) {
		s := k * (awake + asleep)
		d.Spans = append(d.Spans, sleepplan.Span{Start: s, End: s + awake})
	}
	return p, d
}

// costOf is U of a plan.
func costOf(p *Problem, d *Demand, ticks []int32) int64 {
	return int64(math.Round(ExpectedLatency(d, ticks, p.Length, p.Tick)))
}

// optimum is e(0..most) in U, what waits to the range's end included.
func optimum(p *Problem, d *Demand, most int) []int64 {
	var w worker
	w.build(p, d, 0, p.forces(d))
	most = min(most, w.counted+w.least())
	w.exacts.divide(exactWeights(&w.graph), most-w.least())
	e := slices.Clone(w.exacts.e)
	for n := range e {
		e[n] += w.after
	}
	if w.least() == 1 {
		e = append([]int64{math.MaxInt64}, e...)
	}
	return e
}

// TestGreedyOnPeriodicPlans: on windows of equal length that come at equal times the
// method is optimal where the sensor sleeps at least half the time, for fewer crawls
// than windows and for more. The control is a sensor awake for nine tenths.
func TestGreedyOnPeriodicPlans(t *testing.T) {
	checked := 0
	var worst [10]float64
	shapes := [][2]int32{{1, 1}, {2, 2}, {4, 4}, {3, 9}, {5, 10}, {2, 20}, {9, 3}, {9, 1}}
	for _, shape := range shapes {
		awake, asleep := shape[0], shape[1]
		for _, cycles := range []int{1, 2, 7, 12} {
			p, d := periodic(awake, asleep, cycles)
			windows := d.legalWindows(p.Length)
			e := optimum(p, d, cycles*int(awake))
			duty := awake * 10 / (awake + asleep)
			for n := 1; n <= min(3*cycles, cycles*int(awake)); n++ {
				ticks, ok := evenlyOverWindows(nil, windows, n)
				if !ok || len(ticks) != n {
					t.Fatalf("%d of %d ticks awake, %d windows: %d crawls at %v", awake, awake+asleep,
						cycles, n, ticks)
				}
				loss := float64(costOf(p, d, ticks))/float64(e[n]) - 1
				worst[duty] = max(worst[duty], loss)
				if duty <= 5 && loss != 0 {
					t.Errorf("%d of %d ticks awake, %d windows, %d crawls: %v costs %d, best %d", awake,
						awake+asleep, cycles, n, ticks, costOf(p, d, ticks), e[n])
				}
				checked++
			}
		}
	}
	t.Logf("%d plans; worst loss by tenths of time awake %.3f", checked, worst)
	if checked < 200 || worst[9] == 0 {
		t.Errorf("%d plans, worst loss by tenths awake %v", checked, worst)
	}
}

// TestGreedyCurve checks the method's plans and that its curve is their cost; on
// arbitrary sleep plans it is no better than the optimum, and often no curve at all.
func TestGreedyCurve(t *testing.T) {
	var seen seen
	sensors, worse, bent, rises := 0, 0, 0, 0
	for i := range trials(800, 6000) {
		p := randomProblem(seeded(i), &seen)
		p.Candidates, p.Step = Grid, 1
		for k := range p.Demands {
			d := &p.Demands[k]
			if d.Coef == 0 || d.Cap == 0 {
				continue
			}
			sensors++
			var w worker
			c, err := greedyMethod.curve(&w, p, d, p.Price, 12)
			if err != nil {
				t.Fatal(err)
			}
			tw := newTwin(p, d, p.Price)
			best, sum := tw.curve(), 0.0
			for n := c.least; n <= c.least+len(c.gains); n++ {
				ticks := greedyMethod.instants(&w, p, d, p.Price, n)
				e := tw.plan(ticks)
				if len(ticks) != n || tw.forced() && int64(ticks[n-1]) != slices.Max(tw.counted) ||
					e < best[n] {
					t.Fatalf("seed %d: %d crawls at %v cost %d, best %v", i, n, ticks, e, best)
				}
				for _, at := range ticks {
					if !slices.Contains(tw.counted, int64(at)) {
						t.Fatalf("seed %d: %v is not legal", i, ticks)
					}
				}
				if n == c.least {
					sum = d.Coef * float64(e)
				} else {
					sum -= c.gains[n-c.least-1]
				}
				if sum != d.Coef*float64(e) {
					t.Fatalf("seed %d: the curve is %v at %d, the plan costs %d", i, sum, n, e)
				}
				if e > best[n] {
					worse++
				}
			}
			for n, gain := range c.gains {
				if gain < 0 {
					rises++
				}
				if n > 0 && gain > c.gains[n-1] {
					bent++
				}
			}
		}
	}
	t.Logf("%d sensors: %d plans worse than the best, %d gains negative, %d larger than the one "+
		"before", sensors, worse, rises, bent)
	if sensors < 1000 || worse < 1000 || bent < 100 {
		t.Errorf("%d sensors, %d plans worse, %d bent", sensors, worse, bent)
	}
}

// TestEvenSchedule is Lemma 1: on every tick a candidate, under both objectives, for
// the fixed end. With a sink at the range's end it is not the optimum any more.
func TestEvenSchedule(t *testing.T) {
	control := 0
	for _, length := range []int64{7, 40, 41} {
		p, d := periodic(int32(length), 1, 1)
		p.Length, d.Rate = length, 0.3
		e := optimum(p, d, int(length)-1)
		var paper tables[float64]
		var w worker
		w.build(p, d, 0, true)
		weights := w.penalty.weights(&w.graph, p, d, 0)
		paper.dynamic(weights, w.counted)
		open := *p
		open.End = Carry
		carry := optimum(&open, d, int(length)-1)
		for n := 1; n < int(length); n++ {
			ticks, err := EvenSchedule(p, d, n)
			if err != nil || len(ticks) != n || ticks[n-1] != int32(length-1) {
				t.Fatalf("%d crawls: %v, %v", n, ticks, err)
			}
			if got := costOf(p, d, ticks); got != e[n] {
				t.Errorf("%d crawls at %v cost %d, best %d", n, ticks, got, e[n])
			}
			if got := paperCost(weights, &w.graph, ticks); differs(got, paper.e[n-1], got) {
				t.Errorf("%d crawls at %v cost %v by the paper, best %v", n, ticks, got, paper.e[n-1])
			}
			if costOf(p, d, ticks) > carry[n] {
				control++
			}
		}
	}
	if control < 30 {
		t.Errorf("even crawls miss the optimum of an open end %d times only", control)
	}
}

// paperCost is what crawls on a grid of single ticks cost up to the last one.
func paperCost(w edgeWeights[float64], g *graph, ticks []int32) (sum float64) {
	from := 0
	for _, t := range ticks {
		to := slices.IndexFunc(g.nodes[1:], func(nd node) bool { return nd.x == 4*int64(t) }) + 1
		sum += w.between(from, to)
		from = to
	}
	return sum
}

// TestPeriodicSchedule is Lemma 2, for sensors awake from a tenth to nine tenths of
// the time. The control leaves its conditions: the lemma's rule for a number of crawls
// that does not divide the windows.
func TestPeriodicSchedule(t *testing.T) {
	checked, control := 0, 0
	for _, shape := range [][2]int32{{1, 9}, {2, 2}, {5, 10}, {6, 3}, {9, 1}} {
		for _, m := range []int{1, 4, 6, 12} {
			p, d := periodic(shape[0], shape[1], m)
			e := optimum(p, d, m)
			for n := 1; n <= m; n++ {
				ticks, err := PeriodicSchedule(p, d, n)
				if m%n != 0 {
					if !errors.Is(err, ErrProblem) || !strings.Contains(err.Error(), "multiple") {
						t.Errorf("%d crawls of %d windows: %v, %v", n, m, ticks, err)
					}
					if i := m / n; costOf(p, d, everyWindow(d, i, n)) > e[n] {
						control++
					}
					continue
				}
				checked++
				if err != nil || len(ticks) != n {
					t.Fatalf("%d crawls of %d windows: %v, %v", n, m, ticks, err)
				}
				if got := costOf(p, d, ticks); got != e[n] {
					t.Errorf("%v, %d crawls of %d windows cost %d, best %d", shape, n, m, got, e[n])
				}
			}
		}
	}
	if checked < 60 || control < 10 {
		t.Errorf("%d schedules, %d misses outside the lemma", checked, control)
	}
}

// everyWindow crawls at the end of every i-th window, and of the last.
func everyWindow(d *Demand, i, n int) (ticks []int32) {
	for k := 1; k < n; k++ {
		ticks = append(ticks, d.Spans[k*i-1].End-1)
	}
	return append(ticks, d.Spans[len(d.Spans)-1].End-1)
}

func TestLemmasNameWhatTheyMiss(t *testing.T) {
	spans := func(v ...int32) (s []sleepplan.Span) {
		for k := 0; k < len(v); k += 2 {
			s = append(s, sleepplan.Span{Start: v[k], End: v[k+1]})
		}
		return s
	}
	type schedule = func(p *Problem, d *Demand, n int) ([]int32, error)
	for want, c := range map[string]struct {
		call  schedule
		spans []sleepplan.Span
		spoil func(d *Demand)
		n     int
	}{
		"sleeps at tick 30": {EvenSchedule, spans(0, 30), nil, 3},
		"sleeps at tick 0":  {EvenSchedule, spans(1, 90), nil, 3},
		"sleeps at tick 60": {EvenSchedule, spans(0, 20, 20, 40),
			func(d *Demand) { d.From, d.Source = 60, 60 }, 3},
		"61 crawls on 60 legal": {EvenSchedule, spans(0, 90), nil, 61},
		"7 awake ticks wait already": {EvenSchedule, spans(-7, 90),
			func(d *Demand) { d.Source = -9 }, 3},
		"-1 crawls":                 {EvenSchedule, spans(0, 90), nil, -1},
		"no multiple of 2 crawls":   {PeriodicSchedule, spans(0, 5, 10, 15, 20, 25), nil, 2},
		"no multiple of 4 crawls":   {PeriodicSchedule, spans(0, 5, 10, 15, 20, 25), nil, 4},
		"0 windows are no multiple": {PeriodicSchedule, nil, nil, 1},
		"window [10,14) is not 5":   {PeriodicSchedule, spans(0, 5, 10, 14), nil, 1},
		"a cycle after the one before it, at 20": {PeriodicSchedule, spans(0, 5, 10, 15, 21, 26),
			nil, 1},
		"cuts the window [60,65)": {PeriodicSchedule, spans(0, 5, 60, 65), nil, 1},
		"cuts the window [-2,3)":  {PeriodicSchedule, spans(-2, 3), nil, 1},
		"2 awake ticks wait": {PeriodicSchedule, spans(10, 15), func(d *Demand) { d.Backlog = 2 },
			1},
		"guard of -1 ticks must": {PeriodicSchedule, spans(10, 15), func(d *Demand) { d.Guard = -1 },
			1},
		"coefficient -1 must be f": {EvenSchedule, spans(10, 15), func(d *Demand) { d.Coef = -1 }, 1},
	} {
		p := &Problem{Tick: time.Second, Length: 61, End: Carry}
		d := &Demand{Coef: 1, Cap: -1, Gap: 5, Spans: c.spans}
		if c.spoil != nil {
			c.spoil(d)
		}
		ticks, err := c.call(p, d, c.n)
		if ticks != nil || !errors.Is(err, ErrProblem) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, ticks, err)
		}
	}
	p, d := periodic(5, 10, 4)
	if ticks, err := PeriodicSchedule(p, d, 0); ticks != nil || err != nil {
		t.Errorf("no crawls: %v, %v", ticks, err)
	}
}
