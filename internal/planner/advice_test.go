package planner

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/sleepplan"
)

// trials is the number of random instances, larger where time is set aside.
func trials(quick, full int) int {
	if os.Getenv("CRAWLD_CI") != "" {
		return full
	}
	return quick
}

// drawnPlan is a random sleep plan around ticks of a second from start on.
func drawnPlan(t *testing.T, rng *rand.Rand, length int) sleepplan.Plan {
	t.Helper()
	switch rng.IntN(6) {
	case 0:
		return sleepplan.AlwaysOn()
	case 1:
		period := 2 + rng.IntN(40)
		shift := time.Duration(rng.IntN(40)) * time.Second
		return cycle(t, time.Duration(period)*time.Second,
			time.Duration(1+rng.IntN(period-1))*time.Second, shift)
	}
	var windows []sleepplan.Window
	for at := rng.IntN(40) - 20; at < 3*length; at += 1 + rng.IntN(30) {
		end := at + 1 + rng.IntN(30)
		windows = append(windows, sleepplan.Window{Start: start.Add(time.Duration(at) * time.Second),
			End: start.Add(time.Duration(end) * time.Second)})
		at = end
	}
	p, err := sleepplan.Explicit(windows)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// drawnSnapshot is a small problem of any kind, with history.
func drawnSnapshot(t *testing.T, rng *rand.Rand) *Snapshot {
	t.Helper()
	length := 20 + rng.IntN(120)
	par := Parameters{Range: time.Duration(length) * time.Second, Tick: time.Second,
		Step: 1 + rng.Int64N(6), End: scheduler.EndRule(rng.IntN(3)),
		Candidates: scheduler.CandidateRule(rng.IntN(2)), Budget: 1 + rng.IntN(30),
		Guard: time.Duration(rng.IntN(4)) * time.Second, Capacity: rng.IntN(3),
		Polling: dpt.Params{Policy: dpt.DPTN, Bootstrap: time.Minute, MinGap: time.Second,
			MaxGap: time.Minute}}
	par.GuardAuto = rng.IntN(3) == 0
	var list []fleet.Sensor
	for i := range 1 + rng.IntN(6) {
		s := fleet.Sensor{ID: fmt.Sprintf("s%d", i), URI: fmt.Sprintf("coap://192.0.2.%d/", i+1),
			Weight: float64(rng.IntN(5)) / 2, MaxCrawls: fleet.NoCap,
			Rate: float64(1+rng.IntN(8)) / 60, Plan: drawnPlan(t, rng, length)}
		if rng.IntN(3) == 0 {
			s.MaxCrawls = rng.IntN(4)
		}
		if i > 0 && rng.IntN(4) == 0 { // alike, for ties
			s.Plan, s.Weight, s.Rate = list[i-1].Plan, list[i-1].Weight, list[i-1].Rate
		}
		list = append(list, s)
	}
	f, err := fleet.New(list)
	if err != nil {
		t.Fatal(err)
	}
	n, err := Preview(f, par, start)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n.asks {
		a := &n.asks[i]
		a.source = start.Add(-time.Duration(max(0, rng.IntN(90)-30)) * time.Second)
		a.phantom = rng.IntN(5) == 0
		if rng.IntN(8) == 0 {
			a.latest = start.Add(time.Duration(rng.IntN(length)) * time.Second)
		}
	}
	if rng.IntN(2) == 0 {
		n.rec.Price = rng.Float64() * 20
	}
	return n
}

// equals is equality up to rounding of sums of that size.
func equals(a, b, size float64) bool { return math.Abs(a-b) <= 1e-9*max(1, size) }

// explained is a plan with everything that its advice is held against.
type explained struct {
	plan   *Plan
	priced *scheduler.Problem
	free   *scheduler.Solution // without Capacity
	advice []Advice
}

// drawnPlans hands explained plans of random problems to judge.
func drawnPlans(t *testing.T, n int, judge func(seed int, e explained)) {
	t.Helper()
	for i := range n {
		pl, err := drawnSnapshot(t, seeded(i)).Solve(1)
		if errors.Is(err, scheduler.ErrBudget) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		e := explained{plan: pl}
		if e.priced, err = priced(pl.problem, 1); err != nil {
			t.Fatal(err)
		}
		open := *e.priced
		open.Capacity = 0
		if e.free, err = scheduler.Solve(&open, 1); err != nil {
			t.Fatal(err)
		}
		for _, asked := range pl.asks {
			a, known, err := pl.Advise(asked.id, 1)
			if err != nil || !known {
				t.Fatalf("seed %d: %s: %v, %v", i, asked.id, known, err)
			}
			e.advice = append(e.advice, a)
		}
		if judge(i, e); t.Failed() {
			return
		}
	}
}

func seeded(i int) *rand.Rand { return rand.New(rand.NewPCG(uint64(i), 0xad1ce)) }

// judge returns what is wrong with the advice on sensor i.
func (e explained) judge(t *testing.T, i int, a Advice) (problems []string) {
	t.Helper()
	wrong := func(format string, args ...any) {
		problems = append(problems, a.ID+": "+fmt.Sprintf(format, args...))
	}
	d, n := &e.priced.Demands[i], len(e.free.Sensors[i].Ticks)
	none, some := e.bill(t, i, nil), e.bill(t, i, e.free.Sensors[i].Ticks)
	sum, last, next := 0.0, math.Inf(1), 0.0
	for k, m := range a.Marginals {
		if m.Crawl != k+1 || m.Made != (k < n) || m.Gain < 0 || m.Gain > last {
			wrong("marginal %+v after %v, %d crawls", m, last, n)
		}
		if twin := e.twin(t, i, k); k > 0 || e.priced.End != scheduler.Fixed {
			if m.Gain != twin {
				wrong("marginal %+v, alone it is %v", m, twin)
			}
			last = m.Gain
		}
		if m.Made {
			sum += m.Gain
		} else {
			next = m.Gain
		}
	}
	exact := e.priced.Candidates == scheduler.Grid
	if saved := none - some; exact && !equals(sum, saved, none) || saved < sum-1e-9*none {
		wrong("%d crawls save %v, their marginals sum up to %v", n, saved, sum)
	}
	loss := e.bill(t, i, e.plan.Solution.Sensors[i].Ticks) - some
	if a.Capacity.Cost != loss || loss < -1e-2*some && !exact && e.priced.End != scheduler.Fixed {
		wrong("capacity costs %v, is %v", a.Capacity.Cost, loss)
	}
	if a.Guard.Cost < 0 || a.Guard.Cost > 0 && d.Guard == 0 {
		wrong("guard costs %v", a.Guard.Cost)
	}
	problems = append(problems, e.judgeBound(i, a, next)...)
	return append(problems, e.judgeCrawls(t, i, a)...)
}

// judgeBound returns what is wrong with what binds the crawls of sensor i, of which
// one more would save next.
func (e explained) judgeBound(i int, a Advice, next float64) (problems []string) {
	wrong := func(format string, args ...any) {
		problems = append(problems, a.ID+": "+fmt.Sprintf(format, args...))
	}
	d, n := &e.priced.Demands[i], len(e.free.Sensors[i].Ticks)
	if a.Price != e.plan.Solution.Price {
		wrong("price %v, is %v", a.Price, e.plan.Solution.Price)
	}
	lose := math.Inf(1)
	if n > 0 && (n > 1 || e.priced.End != scheduler.Fixed) {
		lose = a.Marginals[n-1].Gain
	}
	free := a.Bound == BoundPrice || a.Bound == BoundBudget
	if lose < a.Price || free && next > a.Price {
		wrong("bound %s: last crawl %v, price %v, next %v", a.Bound, lose, a.Price, next)
	}
	atCap := n == d.Cap && next > 0 && next >= a.Price
	if a.Bound == BoundCap != atCap || a.Bound == BoundWeight != (d.Coef == 0) ||
		a.Bound == BoundBudget && next != a.Price {
		wrong("bound %s: %d crawls, cap %d, next %v, price %v", a.Bound, n, d.Cap, next, a.Price)
	}
	return problems
}

// twin is what one more crawl than n saves sensor i: the price in a fleet of its own.
func (e explained) twin(t *testing.T, i, n int) float64 {
	t.Helper()
	alone, d := *e.priced, e.priced.Demands[i]
	d.Cap = -1
	alone.Budget, alone.Capacity, alone.Demands = n, 0, []scheduler.Demand{d}
	sol, err := scheduler.Solve(&alone, 1)
	if err != nil && !errors.Is(err, scheduler.ErrBudget) {
		t.Fatal(err)
	} else if err != nil {
		return math.NaN()
	}
	return sol.Price
}

func (e explained) bill(t *testing.T, i int, ticks []int32) float64 {
	t.Helper()
	b, err := bill(e.priced, &e.priced.Demands[i], ticks)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// judgeCrawls returns what is wrong with the crawls of sensor i.
func (e explained) judgeCrawls(t *testing.T, i int, a Advice) (problems []string) {
	t.Helper()
	wrong := func(format string, args ...any) {
		problems = append(problems, a.ID+": "+fmt.Sprintf(format, args...))
	}
	ticks := e.plan.Solution.Sensors[i].Ticks
	if len(a.Crawls) != len(ticks) {
		return []string{"crawls are missing"}
	}
	prev := int64(math.MinInt32)
	for k, c := range a.Crawls {
		tick := int64(ticks[k])
		without := slices.Delete(slices.Clone(ticks), k, k+1)
		lost := e.bill(t, i, without) - e.bill(t, i, ticks)
		final := k == len(ticks)-1 // then what follows may change without it
		if !final && !equals(c.Value, lost, c.Value) || c.Value < lost-1e-9*c.Value {
			wrong("crawl %d is worth %v, without it %v is lost", k, c.Value, lost)
		}
		if what := e.misbound(i, a, k, prev); what != "" {
			wrong("crawl %d at %d, set by %s: %s", k, tick, c.Binds, what)
		}
		prev = tick
	}
	return problems
}

// misbound is what speaks against that which is said to set the k-th crawl of sensor
// i; the one before it stands at prev.
func (e explained) misbound(i int, a Advice, k int, prev int64) string {
	d, ticks := &e.priced.Demands[i], e.plan.Solution.Sensors[i].Ticks
	tick := int64(ticks[k])
	awake := func(tick int64) bool {
		return e.plan.asks[i].plan.Awake(start.Add(time.Duration(tick) * time.Second))
	}
	ahead := int64(0) // whole ticks awake after this one, as far as the guard reaches
	for ahead <= d.Guard && awake(tick+ahead+1) {
		ahead++
	}
	bind, free := a.Crawls[k].Binds, e.free.Sensors[i].Ticks
	if moved := !slices.Contains(free, ticks[k]); moved != (bind == BindCapacity) {
		return fmt.Sprintf("moved: %v", moved)
	}
	switch bind {
	case BindWindowStart:
		if awake(tick - 1) {
			return "awake before"
		}
	case BindWindowEnd:
		if ahead > d.Guard || !d.GuardHalf && ahead != d.Guard {
			return fmt.Sprintf("%d awake ticks follow, the guard has %d", ahead, d.Guard)
		}
	case BindGrid:
		if tick%e.priced.Step != 0 {
			return "off the grid"
		}
	case BindBalanced, BindAlwaysOn:
		if k == len(ticks)-1 || a.Capacity.Moved+a.Capacity.Dropped > 0 {
			break
		}
		mass := sleepplan.Mass(d.Spans, max(prev, d.Source), tick)
		if k == 0 {
			mass += d.Backlog
		}
		if off := mass - int64(ticks[k+1]) + tick; off < -1 || off > 1 {
			return fmt.Sprintf("off balance by %d", off)
		}
	}
	return ""
}

// What is told of each sensor adds up: marginals to what its crawls save, values to
// what is lost without a crawl, and the sensors to the fleet.
func TestAdviceAddsUp(t *testing.T) {
	bounds, binds, rules := map[Bound]int{}, map[Bind]int{}, map[string]int{}
	drawnPlans(t, trials(1000, 5000), func(seed int, e explained) {
		sol := e.plan.Solution
		total, loss := 0.0, 0.0
		for i, a := range e.advice {
			for _, problem := range e.judge(t, i, a) {
				t.Errorf("seed %d: %s", seed, problem)
			}
			total += e.bill(t, i, sol.Sensors[i].Ticks)
			loss += a.Capacity.Cost
			bounds[a.Bound]++
			for _, c := range a.Crawls {
				binds[c.Binds]++
			}
		}
		if !equals(total, sol.Objective, total) || !equals(loss, sol.SpillLoss, total) ||
			e.advice[0].Capacity.FleetCost != sol.SpillLoss {
			t.Errorf("seed %d: sum %v, objective %v; loss %v, is %v", seed, total, sol.Objective, loss,
				sol.SpillLoss)
		}
		rules[fmt.Sprint(e.priced.End, " ", e.priced.Candidates)]++
	})
	t.Log(bounds, binds, rules)
	for _, b := range []Bound{BoundPrice, BoundBudget, BoundCap, BoundCandidates, BoundWeight,
		BoundEnd} {
		if bounds[b] < 50 {
			t.Errorf("bound %s only %d times", b, bounds[b])
		}
	}
	for _, b := range []Bind{BindWindowEnd, BindWindowStart, BindRangeStart, BindRangeEnd,
		BindBalanced, BindAlwaysOn, BindGrid, BindCapacity} {
		if binds[b] < 50 {
			t.Errorf("bind %s only %d times", b, binds[b])
		}
	}
	if len(rules) != 6 {
		t.Errorf("not every rule: %v", rules)
	}
}

// set changes what sets the first crawl.
func (a *Advice) set(b Bind) bool { a.Crawls[0].Binds = b; return true }

// spoilers make advice wrong, where they can.
var spoilers = map[string]func(a *Advice) bool{
	"marginals shifted": func(a *Advice) bool {
		if len(a.Marginals) < 3 || a.Marginals[1].Gain == a.Marginals[2].Gain {
			return false
		}
		for k := range a.Marginals[1:] {
			a.Marginals[k].Gain = a.Marginals[k+1].Gain
		}
		return true
	},
	"a marginal too many": func(a *Advice) bool {
		a.Marginals = append(a.Marginals, Marginal{Crawl: len(a.Marginals) + 1, Made: true})
		return true
	},
	"a wrong price": func(a *Advice) bool { a.Price += 1e-6; return true },
	"a wrong bound": func(a *Advice) bool {
		if a.Bound == BoundCap || a.Bound == BoundWeight {
			a.Bound = BoundPrice
			return true
		}
		a.Bound = BoundCap
		return true
	},
	"a guard that gains": func(a *Advice) bool { a.Guard.Cost = -1e-6; return true },
	"a wrong loss":       func(a *Advice) bool { a.Capacity.Cost += 1e-6; return true },
	"a crawl too many": func(a *Advice) bool {
		a.Crawls = append(a.Crawls, Advised{})
		return true
	},
	"a value too low": func(a *Advice) bool {
		if len(a.Crawls) < 2 || a.Crawls[0].Value == 0 {
			return false
		}
		a.Crawls[0].Value *= 1 - 1e-6
		return true
	},
	"starts for ends": func(a *Advice) bool {
		return len(a.Crawls) > 0 && a.Crawls[0].Binds == BindBalanced && a.set(BindWindowStart)
	},
	"ends for always on": func(a *Advice) bool {
		return len(a.Crawls) > 0 && a.Crawls[0].Binds == BindAlwaysOn && a.set(BindWindowEnd)
	},
	"capacity for all": func(a *Advice) bool {
		return len(a.Crawls) > 0 && a.Crawls[0].Binds != BindCapacity && a.set(BindCapacity)
	},
}

// The control: advice with anything wrong is caught.
func TestWrongAdviceIsCaught(t *testing.T) {
	spoilt := map[string]int{}
	drawnPlans(t, trials(300, 3000), func(seed int, e explained) {
		for i, good := range e.advice {
			for name, spoil := range spoilers {
				bad := good
				bad.Marginals, bad.Crawls = slices.Clone(good.Marginals), slices.Clone(good.Crawls)
				if !spoil(&bad) {
					continue
				}
				spoilt[name]++
				if len(e.judge(t, i, bad)) == 0 {
					t.Errorf("seed %d: %s: %s goes unnoticed: %+v", seed, bad.ID, name, bad)
				}
			}
		}
	})
	for name := range spoilers {
		if spoilt[name] < 10 {
			t.Errorf("%s: only %d times", name, spoilt[name])
		}
	}
}
