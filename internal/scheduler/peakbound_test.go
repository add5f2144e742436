package scheduler

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// smallPeak is a problem whose joint plans can all be tried: a few sensors, a few
// ticks, slots of one tick or two.
func smallPeak(rng *rand.Rand, seen *seen) *Problem {
	p := &Problem{Tick: []time.Duration{2 * time.Second, time.Second, time.Second / 2}[rng.IntN(3)],
		Length: 3 + rng.Int64N(3), End: EndRule(rng.IntN(3)), Candidates: CandidateRule(rng.IntN(2)),
		Step: 1 + rng.Int64N(3), Capacity: 1, Budget: rng.IntN(9)}
	if p.End == Lookahead {
		p.Extra, p.Price = p.Length, math.Exp(3*rng.Float64())
	}
	for range 2 + rng.IntN(2) {
		seen.total++
		d := randomDemand(rng, p.Length, seen)
		if len(p.Demands) > 0 && rng.IntN(4) > 0 { // windows that coincide are what is asked about
			coef := max(1, d.Coef)
			d = p.Demands[0]
			d.Coef = coef
		}
		p.Demands = append(p.Demands, d)
	}
	return p
}

// jointOptimum tries every plan of every sensor with every plan of the others, within
// the budget and with at most room starts in a slot; room < 0 means that there is no
// such limit. Costs come from the twin, slots from the definition.
func jointOptimum(p *Problem, room int) float64 {
	all := *p
	all.Candidates, all.Step = Grid, 1 // on each legal tick
	left := make([]int, p.Length)
	for i := range left {
		left[i] = room
	}
	slot := func(t int64) int64 { return int64(time.Duration(t) * p.Tick / max(time.Second, p.Tick)) }
	best := math.Inf(1)
	var try func(i, budget int, sum float64)
	try = func(i, budget int, sum float64) {
		if i == len(p.Demands) {
			best = min(best, sum)
			return
		}
		d := &p.Demands[i]
		if d.Coef == 0 {
			try(i+1, budget, sum)
			return
		}
		legal, judge := newTwin(&all, d, p.Price).counted, newTwin(p, d, p.Price)
		for set := range 1 << len(legal) {
			var ticks []int32
			fits := true
			for k, t := range legal {
				if set>>k&1 == 1 {
					ticks = append(ticks, int32(t))
					left[slot(t)]--
					fits = fits && (room < 0 || left[slot(t)] >= 0)
				}
			}
			if fits && len(ticks) <= budget && (d.Cap < 0 || len(ticks) <= d.Cap) {
				try(i+1, budget-len(ticks), sum+float64(judge.plan(ticks))*p.unit(d))
			}
			for _, t := range ticks {
				left[slot(int64(t))]++
			}
		}
	}
	try(0, p.Budget, 0)
	return best
}

func slotRoom(p *Problem) int { return p.Capacity * int(max(p.Tick, time.Second)/time.Second) }

// No plan within the limits costs less than the bound: all of them are tried.
func TestPeakBoundIsBelowEveryPlan(t *testing.T) {
	var seen seen
	binding, close := 0, 0
	n := trials(400, 4000)
	for i := range n {
		p := smallPeak(seeded(i), &seen)
		best := jointOptimum(p, slotRoom(p))
		bound, err := PeakBound(p, 60)
		if err != nil {
			t.Fatalf("seed %d: %v", i, err)
		}
		if bound > best*(1+1e-9)+1e-9 {
			t.Fatalf("seed %d: bound %v is above the optimum %v", i, bound, best)
		}
		free := jointOptimum(p, -1)
		if best > free*(1+1e-9) {
			binding++
			if bound-free >= 0.5*(best-free) {
				close++
			}
		}
	}
	t.Logf("%d instances: capacity binds in %d, the bound explains half of its cost in %d", n,
		binding, close)
	if 10*binding < n || 2*close < binding {
		t.Errorf("capacity binds in %d of %d instances, the bound says so in %d", binding, n, close)
	}
}

// The negative controls: a dual that pays for capacity instead of being paid, and one
// that thinks slots are wider than they are, are found out.
func TestPeakBoundControls(t *testing.T) {
	var seen seen
	sign, narrow := 0, 0
	for i := range trials(400, 2000) {
		p := smallPeak(seeded(i), &seen)
		best := jointOptimum(p, slotRoom(p))
		b, target, err := newPeakDual(p)
		if err != nil {
			t.Fatalf("seed %d: %v", i, err)
		}
		var wrong float64
		for range 20 {
			value := b.value()
			wrong = value
			for _, pi := range b.prices {
				wrong += 2 * b.room * pi
			}
			b.step(target - value)
		}
		if wrong > best*(1+1e-9)+1e-9 {
			sign++
		}
		q := *p
		q.Budget /= 2 // a bound for fewer crawls than a plan may make
		bound, err := PeakBound(&q, 60)
		if err != nil {
			t.Fatalf("seed %d: %v", i, err)
		}
		if bound > best*(1+1e-9)+1e-9 {
			narrow++
		}
	}
	if sign < 20 || narrow < 20 {
		t.Errorf("a wrong sign was caught %d times, a wrong budget %d times", sign, narrow)
	}
}

// alignedFleet is awake for the same minute in the middle of every ten.
func alignedFleet(n int) *Problem {
	rng := rand.New(rand.NewPCG(1, 1))
	p := &Problem{Tick: time.Second, Length: 3600, End: Carry, Step: 1, Budget: 3 * n}
	var spans []sleepplan.Span
	for s := int32(270); s < 3600; s += 600 {
		spans = append(spans, sleepplan.Span{Start: s, End: s + 60})
	}
	coef, awake := make([]float64, n), make([]int64, n)
	for i := range n {
		coef[i], awake[i] = rng.Float64(), 360
		p.Demands = append(p.Demands, Demand{Coef: coef[i], Cap: -1, Spans: spans, Known: math.MaxInt64})
	}
	gaps, _ := Gaps(p.Length, p.Budget, coef, awake)
	for i := range gaps {
		p.Demands[i].Gap = gaps[i]
	}
	return p
}

// On a fleet whose windows coincide the bound explains most of what the capacity
// costs, never more of it, and does not fall with more rounds.
func TestPeakBoundNearSpillBack(t *testing.T) {
	n := trials(60, 300)
	free, err := Solve(alignedFleet(n), 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, of300 := range []int{30, 15, 10, 5} {
		p := alignedFleet(n)
		p.Capacity = of300 * n / 300
		sol, err := Solve(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		last := math.Inf(-1)
		for _, rounds := range []int{1, 30, 300} {
			bound, err := PeakBound(p, rounds)
			if err != nil {
				t.Fatal(err)
			}
			if bound > sol.Objective || bound < last {
				t.Errorf("capacity %d, %d rounds: bound %v after %v, a plan costs %v", p.Capacity, rounds,
					bound, last, sol.Objective)
			}
			last = bound
		}
		loss, least := sol.Objective/free.Objective-1, last/free.Objective-1
		t.Logf("capacity %d: spill-back %+.2f %%, at least %+.2f %%", p.Capacity, 100*loss, 100*least)
		if loss < 0.02 || least < 0.85*loss {
			t.Errorf("capacity %d: a loss of %.3f, of which %.3f are explained", p.Capacity, loss, least)
		}
	}
}

// Without a price of its own the look-ahead is priced as Solve does it.
func TestPeakBoundLookahead(t *testing.T) {
	p := alignedFleet(60)
	p.End, p.Extra, p.Capacity = Lookahead, 1800, 3
	for i := range p.Demands {
		spans := p.Demands[i].Spans
		p.Demands[i].Spans = append(spans[:len(spans):len(spans)],
			sleepplan.Span{Start: 3870, End: 3930}, sleepplan.Span{Start: 4470, End: 4530},
			sleepplan.Span{Start: 5070, End: 5130})
	}
	sol, err := Solve(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := PeakBound(p, 100)
	if err != nil {
		t.Fatal(err)
	}
	if bound > sol.Objective || bound < 0.9*sol.Objective {
		t.Errorf("bound %v, a plan costs %v", bound, sol.Objective)
	}
}

func TestPeakBoundRefuses(t *testing.T) {
	for name, change := range map[string]func(p *Problem) int{
		"capacity 0": func(p *Problem) int { p.Capacity = 0; return 10 },
		"0 rounds":   func(*Problem) int { return 0 },
		"tick of 0s": func(p *Problem) int { p.Tick = 0; return 10 },
		"sensor 1: coefficient": func(p *Problem) int {
			p.Demands[1].Coef = math.NaN()
			return 10
		},
	} {
		p := alignedFleet(3)
		p.Capacity = 1
		rounds := change(p)
		_, err := PeakBound(p, rounds)
		if !errors.Is(err, ErrProblem) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
