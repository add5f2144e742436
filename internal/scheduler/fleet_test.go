package scheduler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Interior points a tenth of the crawl gap apart or closer, polished, come within 0.1 %
// of the optimum on single ticks; twice as far apart, ten units, within 0.1 % on
// average. Ranges have 500 units of 10 to 100 ticks, sensors ten crawls each. The
// control: 40 units apart they do not.
func TestSpacingUpToTenUnits(t *testing.T) {
	for k, f := range families {
		sums, worst := map[int32]float64{}, map[int32]float64{}
		runs := 0.0
		for i := range trials(3, 20) {
			for _, unit := range []int32{10, 30, 100} {
				p := unitFamily(seeded(4*i+k), f.awake, f.asleep, unit)
				every, err := Solve(p, 1)
				if err != nil {
					t.Fatal(err)
				}
				runs++
				p.Candidates = Ends
				for _, apart := range []int32{1, 2, 5, 10, 40} {
					for k := range p.Demands {
						p.Demands[k].Gap = piecesPerGap * float64(apart*unit)
					}
					ends, err := Solve(p, 1)
					if err != nil {
						t.Fatal(err)
					}
					loss := ends.Objective/every.Objective - 1
					sums[apart] += loss
					worst[apart] = max(worst[apart], loss)
					if loss < -1e-9 || apart <= 5 && loss > 0.001 {
						t.Errorf("%s, %d ticks a unit, points %d units apart: %.6f above the optimum",
							f.name, unit, apart, loss)
					}
				}
			}
		}
		t.Logf("%s: ten units apart %.6f above the optimum, at worst %.6f; five %.6f; forty %.6f",
			f.name, sums[10]/runs, worst[10], worst[5], worst[40])
		if sums[10]/runs > 0.001 || worst[10] > 0.002 {
			t.Errorf("%s: points ten units apart are not near enough", f.name)
		}
		if f.name == "long" && worst[40] < 0.001 {
			t.Error("even 40 units apart there is no loss: the fleets are too easy")
		}
	}
}

// unitFamily is ten sensors of a family over 500 units, on single ticks, with ten crawls
// each. The families' lengths are in tenths of a unit.
func unitFamily(rng *rand.Rand, awake, asleep [2]int32, unit int32) *Problem {
	for i := range awake {
		awake[i], asleep[i] = awake[i]*unit/10, asleep[i]*unit/10
	}
	p := family(rng, 10, 500*int64(unit), awake, asleep)
	p.Budget, p.Candidates = 100, Grid
	return p
}

// The weighted latency that a fleet's solution expects is what simulated Poisson events
// have, whoever planned it: carry-in, sleep and crawls left out included.
func TestFleetLatencyAgainstSimulation(t *testing.T) {
	for i, c := range solvers[:3] {
		rng := seeded(20 + i)
		p := family(rng, 8, 120, [2]int32{5, 20}, [2]int32{5, 20})
		p.End, p.Budget = EndRule(i), 20
		rate, weight := make([]float64, len(p.Demands)), make([]float64, len(p.Demands))
		for k := range p.Demands {
			d := &p.Demands[k]
			rate[k], weight[k] = 0.02+0.3*rng.Float64(), float64(1+rng.IntN(4))
			d.Coef, d.Cap = rate[k]*weight[k], rng.IntN(6)-1
			d.Source = -rng.Int64N(30)
			for j := range d.Spans { // awake before the range as well
				d.Spans[j].Start, d.Spans[j].End = d.Spans[j].Start-30, d.Spans[j].End-30
			}
		}
		setGaps(p)
		sol, err := c.solve(p, nil)
		if err != nil {
			t.Fatal(err)
		}
		const runs = 3000
		var sum, squares float64
		for range runs {
			var wait float64
			for k := range p.Demands {
				wait += weight[k] * simulated(rng, p, &p.Demands[k], rate[k], sol.Sensors[k].Ticks)
			}
			sum += wait
			squares += wait * wait
		}
		mean := sum / runs
		deviation := math.Sqrt((squares/runs - mean*mean) / runs)
		if math.Abs(mean-sol.Expected) > 4*deviation {
			t.Errorf("%s: simulated %v +- %v, computed %v", c.name, mean, deviation, sol.Expected)
		}
		if 40*deviation > mean {
			t.Errorf("%s: a deviation of %v of %v tells nothing", c.name, deviation, mean)
		}
	}
}

// simulated draws the events of one sensor since its source and adds up how long each
// waits for the next crawl, or to the range's end. A tick is a second.
func simulated(rng *rand.Rand, p *Problem, d *Demand, rate float64, ticks []int32) (wait float64) {
	for u := float64(d.Source); ; {
		if u += rng.ExpFloat64() / rate; u >= float64(p.Length) {
			return wait
		}
		if !awake(d.Spans, int64(math.Floor(u))) {
			continue
		}
		seen := float64(p.Length)
		for _, at := range ticks {
			if u < float64(at) {
				seen = float64(at)
				break
			}
		}
		wait += seen - u
	}
}

// slotPrices is a Lagrangian relaxation of the capacity and the budget. Whatever the
// prices of slots and crawls, what the fleet pays at them, less the income of what
// there is to sell, bounds every plan that keeps to both from below.
type slotPrices struct {
	p        *Problem
	capacity float64
	crawl    float64   // price of a crawl
	slot     []float64 // further price of a crawl in a slot
	sold     []float64 // crawls in each slot at the last prices
	starts   float64   // in all
}

func (sp *slotPrices) of(t int64) int {
	return int(time.Duration(t) * sp.p.Tick / max(sp.p.Tick, time.Second))
}

// bound plans every sensor on all its legal ticks by a quadratic programme of its own.
func (sp *slotPrices) bound() float64 {
	clear(sp.sold)
	sp.starts = 0
	sum := -sp.crawl * float64(sp.p.Budget)
	for _, price := range sp.slot {
		sum -= price * sp.capacity
	}
	for i := range sp.p.Demands {
		sum += sp.sensor(&sp.p.Demands[i])
	}
	return sum
}

func (sp *slotPrices) sensor(d *Demand) float64 {
	tw := newTwin(sp.p, d, 0)
	instants := append([]int64{d.Source}, tw.counted...)
	instants = append(instants, sp.p.Length)
	first := d.Source
	mass, moment := []int64{0}, []int64{0} // of the awake ticks before each tick
	for u := first; u < sp.p.Length; u++ {
		m, b := mass[len(mass)-1], moment[len(moment)-1]
		if tw.awake[u] {
			m, b = m+1, b+2*u+1
		}
		mass, moment = append(mass, m), append(moment, b)
	}
	s := sp.p.Tick.Seconds()
	unit := d.Coef * s * s / 2
	best, from := make([]float64, len(instants)), make([]int, len(instants))
	for j := 1; j < len(instants); j++ {
		to, toll := instants[j], 0.0
		if j+1 < len(instants) {
			toll = sp.crawl + sp.slot[sp.of(to)]
		}
		best[j] = math.Inf(1)
		for i, s := range instants[:j] {
			twice := 2*to*(mass[to-first]-mass[s-first]) - (moment[to-first] - moment[s-first])
			if v := best[i] + unit*float64(twice) + toll; v < best[j] {
				best[j], from[j] = v, i
			}
		}
	}
	last := len(instants) - 1
	for j := from[last]; j > 0; j = from[j] {
		sp.sold[sp.of(instants[j])]++
		sp.starts++
	}
	return best[last]
}

// raise is a subgradient step: dearer where more is sold than there is.
func (sp *slotPrices) raise(step float64) {
	sp.crawl = max(0, sp.crawl+step*(sp.starts-float64(sp.p.Budget))/float64(len(sp.p.Demands)))
	for k, n := range sp.sold {
		sp.slot[k] = max(0, sp.slot[k]+step*(n-sp.capacity))
	}
}

// Spilled plans cost no less than the dual bound and come near it. The control: plans
// that ignore the capacity are below it.
func TestSpillBackAgainstDualBound(t *testing.T) {
	cheats, runs := 0, trials(24, 120)
	var ratios float64
	for i := range runs {
		tick := []time.Duration{time.Second, 300 * time.Millisecond, 2500 * time.Millisecond}[i%3]
		p := crowd(seeded(i), 30, tick, 1+i%7)
		p.Candidates, p.Step = Grid, 1
		got, err := Solve(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		checkSlots(t, i, p, got)
		free := *p
		free.Capacity = 0
		cheat, err := Solve(&free, 1)
		if err != nil {
			t.Fatal(err)
		}
		slots := int((time.Duration(p.Length)*tick-1)/max(tick, time.Second)) + 1
		sp := &slotPrices{p: p, crawl: cheat.Price, slot: make([]float64, slots),
			sold: make([]float64, slots)}
		sp.capacity = math.Floor(float64(p.Capacity) * max(1, tick.Seconds()))
		bound := math.Inf(-1)
		for k := range 60 {
			bound = max(bound, sp.bound())
			sp.raise(cheat.Price / float64(1+k))
		}
		if got.Objective < bound*(1-1e-9) {
			t.Fatalf("seed %d: the objective %v is below the dual bound %v", i, got.Objective, bound)
		}
		if cheat.Objective < bound*(1-1e-9) {
			cheats++
		}
		ratios += got.Objective / bound
	}
	t.Logf("spilled plans cost %.4f of the dual bound; of %d plans without capacity %d are below it",
		ratios/float64(runs), runs, cheats)
	if cheats < runs/2 {
		t.Errorf("%d of %d plans without capacity only are below the bound", cheats, runs)
	}
	if ratios/float64(runs) > 1.25 {
		t.Errorf("spilled plans cost %.4f of the dual bound", ratios/float64(runs))
	}
}

// The bound is one: no plan of few sensors that keeps to capacity and budget is below
// it, and without prices it is what the sensors would do alone.
func TestDualBoundIsBelowTheLeast(t *testing.T) {
	var tight float64
	const runs = 40
	for i := range runs {
		rng := seeded(i)
		p := crowd(rng, 3, time.Second, 1)
		p.Length, p.Budget = 12, 3
		for k := range p.Demands {
			p.Demands[k].Cap = 1
		}
		p.Candidates, p.Step = Grid, 1
		least := exhaust(p, 0, map[int32]bool{})
		sp := &slotPrices{p: p, capacity: 1, slot: make([]float64, 12), sold: make([]float64, 12)}
		bound := math.Inf(-1)
		for k := range 100 {
			bound = max(bound, sp.bound())
			sp.raise(40 / float64(1+k))
		}
		if bound > least*(1+1e-9) {
			t.Fatalf("seed %d: bound %v, the least is %v", i, bound, least)
		}
		tight += bound / least
		if !slices.ContainsFunc(sp.slot, func(v float64) bool { return v > 0 }) {
			t.Errorf("seed %d: no slot had a price", i)
		}
	}
	t.Logf("the bound is %.4f of the least", tight/runs)
}

// Where the starts per second do not suffice, a larger budget must not make plans
// much worse: what finds no slot is shed by value.
func TestBudgetBeyondTheCapacity(t *testing.T) {
	for i := range trials(4, 16) {
		f := families[i%len(families)]
		p := family(seeded(i), 400, 900, f.awake, f.asleep)
		p.Tick, p.End, p.Capacity = time.Second, Carry, 2
		least, worst, shed := math.Inf(1), 1.0, 0
		for _, budget := range []int{1200, 1500, 1700, 2000, 3000, 6000} {
			p.Budget = budget
			setGaps(p)
			sol, err := Solve(p, 1)
			if err != nil {
				t.Fatal(err)
			}
			if sol.Dropped > budget/100 {
				shed++
			}
			least = min(least, sol.Objective)
			worst = max(worst, sol.Objective/least)
			checkSlots(t, i, p, sol)
		}
		if worst > 1.05 {
			t.Errorf("fleet %d: a larger budget costs %.1f %% more", i, 100*(worst-1))
		}
		if shed < 3 {
			t.Errorf("fleet %d: the capacity binds at %d budgets only", i, shed)
		}
	}
}
