package scheduler

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// family makes sensors with awake and asleep stretches of the given lengths, as
// the evaluation of the EasiCrawl paper (section V) has them.
func family(rng *rand.Rand, n int, length int64, awake, asleep [2]int32) *Problem {
	p := &Problem{Tick: time.Second, Length: length, End: Carry, Step: 1}
	for range n {
		d := Demand{Coef: rng.Float64(), Cap: -1, Known: math.MaxInt64}
		for t := rng.Int32N(asleep[1]); t < int32(2*length); {
			w := awake[0] + rng.Int32N(awake[1]-awake[0]+1)
			d.Spans = append(d.Spans, sleepplan.Span{Start: t, End: t + w})
			t += w + asleep[0] + rng.Int32N(asleep[1]-asleep[0]+1)
		}
		p.Demands = append(p.Demands, d)
	}
	return p
}

// setGaps gives every sensor of a problem its expected gap.
func setGaps(p *Problem) {
	var coef []float64
	var awake []int64
	for i := range p.Demands {
		d := &p.Demands[i]
		coef = append(coef, d.Coef)
		awake = append(awake, sleepplan.Mass(d.Spans, 0, p.Length))
	}
	gaps, mean := Gaps(p.Length, p.Budget, coef, awake)
	for i := range gaps {
		p.Demands[i].Gap = gaps[i]
	}
	if p.End == Lookahead {
		p.Extra = Extra(p.Length, mean)
	}
}

var families = []struct {
	name          string
	awake, asleep [2]int32
}{
	{"short", [2]int32{20, 100}, [2]int32{50, 250}},
	{"half", [2]int32{50, 200}, [2]int32{50, 200}},
	{"long", [2]int32{200, 600}, [2]int32{100, 400}},
	{"tiny", [2]int32{10, 30}, [2]int32{100, 400}},
}

func TestEndsAreNearlyAsGoodAsEveryTick(t *testing.T) {
	for _, f := range families {
		for i, perSensor := range []int{1, 3, 8} {
			p := family(seeded(i), 10, 2000, f.awake, f.asleep)
			p.Budget = perSensor * len(p.Demands)
			setGaps(p)
			ends, err := Solve(p, 1)
			if err != nil {
				t.Fatal(err)
			}
			p.Candidates = Grid
			every, err := Solve(p, 1)
			if err != nil {
				t.Fatal(err)
			}
			ratio := ends.Objective / every.Objective
			t.Logf("%s, %d per sensor: %.6f", f.name, perSensor, ratio)
			if ratio > 1.001 || ratio < 1-1e-9 {
				t.Errorf("%s, %d per sensor: %.6f of the optimum on single ticks", f.name, perSensor, ratio)
			}
		}
	}
}

// On single ticks every optimal crawl is balanced within a tick or at an end of
// its window's legal part (T7); a start needs a backlog, and a guard leaves one.
func TestOptimalCrawlsAreBalancedOrAtEnds(t *testing.T) {
	balanced, ends := 0, 0
	for i, f := range families {
		p := family(seeded(i), 20, 2000, f.awake, f.asleep)
		p.Candidates, p.Budget = Grid, 100
		sol, err := Solve(p, 1)
		if err != nil {
			t.Fatal(err)
		}
		for k, plan := range sol.Sensors {
			d := &p.Demands[k]
			for j, at := range plan.Ticks {
				prev, next := d.Source, p.Length
				if j > 0 {
					prev = int64(plan.Ticks[j-1])
				}
				if j+1 < len(plan.Ticks) {
					next = int64(plan.Ticks[j+1])
				}
				span := d.Spans[spanAt(d.Spans, int64(at))]
				balance := d.mass(prev, int64(at)) - (next - int64(at))
				switch {
				case at == span.End-1 || int64(at) == p.Length-1:
					ends++
				case -1 <= balance && balance <= 1:
					balanced++
				default:
					t.Errorf("%s, sensor %d: crawl %d of %v has balance %d",
						f.name, k, at, plan.Ticks, balance)
				}
			}
		}
	}
	if balanced < 30 || ends < 30 {
		t.Errorf("%d balanced, %d at ends: too few to tell", balanced, ends)
	}
}

// Crawled range by range, each taking over the last success of the one before,
// a sensor waits exactly as long as over all ranges together.
func TestRangesAdd(t *testing.T) {
	for i := range 200 {
		rng := seeded(i)
		p := family(rng, 1, 300, families[0].awake, families[0].asleep)
		whole := p.Demands[0]
		whole.Guard = rng.Int64N(5)
		var all []int32
		var sum float64
		source := int64(0)
		for r := range int64(2) {
			d := whole
			d.Spans, d.Gap, d.Source = nil, 50, source-r*p.Length
			for _, s := range whole.Spans {
				shift := int32(r * p.Length)
				d.Spans = append(d.Spans, sleepplan.Span{Start: s.Start - shift, End: s.End - shift})
			}
			plan, err := Count(p, &d, rng.IntN(5))
			if err != nil {
				t.Fatal(err)
			}
			sum += plan.Wait - ExpectedLatency(&d, nil, 0, p.Tick) // what the last range has paid
			for _, at := range plan.Ticks {
				source = int64(at) + r*p.Length
				all = append(all, int32(source))
			}
		}
		if want := ExpectedLatency(&whole, all, 2*p.Length, p.Tick); sum != want {
			t.Fatalf("seed %d: %v over two ranges, %v together", i, sum, want)
		}
	}
}

// Simulated Poisson events wait as (W) says.
func TestLatencyAgainstSimulation(t *testing.T) {
	rng := seeded(1)
	d := Demand{Spans: []sleepplan.Span{{Start: 0, End: 3}, {Start: 5, End: 6}, {Start: 9, End: 14}}}
	ticks, rate := []int32{2, 4, 10}, 0.7 // tick 4 meets a sleeping sensor
	const runs = 20000
	var sum, squares float64
	for range runs {
		var wait float64
		for u := rng.ExpFloat64() / rate; u < 16; u += rng.ExpFloat64() / rate {
			if !awake(d.Spans, int64(u)) {
				continue
			}
			switch {
			case u < 2:
				wait += 2 - u
			case u < 10:
				wait += 10 - u
			default:
				wait += 16 - u
			}
		}
		sum += wait
		squares += wait * wait
	}
	mean := sum / runs
	deviation := math.Sqrt((squares/runs - mean*mean) / runs)
	want := rate * ExpectedLatency(&d, ticks, 16, time.Second)
	if math.Abs(mean-want) > 4*deviation {
		t.Errorf("simulated %v +- %v, computed %v", mean, deviation, want)
	}
}

func TestPlanValuesWhatADroppedCrawlLoses(t *testing.T) {
	p := family(seeded(2), 20, 1000, families[1].awake, families[1].asleep)
	p.Budget = 70
	setGaps(p)
	p.Demands[3].Backlog, p.Demands[3].Source = 40, -900
	sol, err := Solve(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	plan := sol.Plan()
	if len(plan) != 70 {
		t.Fatalf("%d crawls", len(plan))
	}
	for k, c := range plan {
		if k > 0 && (plan[k-1].Tick > c.Tick ||
			plan[k-1].Tick == c.Tick && plan[k-1].Sensor >= c.Sensor) {
			t.Fatalf("crawl %d is out of order", k)
		}
		d, sensor := &p.Demands[c.Sensor], &sol.Sensors[c.Sensor]
		rest := slices.DeleteFunc(slices.Clone(sensor.Ticks),
			func(at int32) bool { return int64(at) == c.Tick })
		want := d.Coef * (ExpectedLatency(d, rest, p.Length, p.Tick) - sensor.Wait)
		if math.Abs(c.Value-want) > 1e-9*want {
			t.Errorf("crawl %+v: dropping it loses %v", c, want)
		}
	}
}

// A backlog is collected once: by the first crawl, be it at the source's own tick.
func TestBacklogIsWorthSomethingOnce(t *testing.T) {
	p := &Problem{Tick: time.Second, Length: 100, End: Carry, Candidates: Grid, Step: 1, Budget: 2,
		Demands: []Demand{{Coef: 1, Cap: -1, Backlog: 5000, Spans: []sleepplan.Span{{Start: 0, End: 90}}}}}
	sol, err := Solve(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	plan := sol.Plan()
	if len(plan) != 2 || plan[0].Tick != 0 {
		t.Fatalf("plan %v, want a crawl at tick 0 and one later", plan)
	}
	second := plan[1].Tick
	want := []float64{5000 * float64(second), float64(second * (100 - second))}
	if plan[0].Value != want[0] || plan[1].Value != want[1] {
		t.Errorf("values %v and %v, want %v", plan[0].Value, plan[1].Value, want)
	}
}
