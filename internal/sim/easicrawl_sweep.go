package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/scheduler"
)

// easiTick is how finely the paper's ranges are planned. A crawl at a window's end
// misses the last tick of it, as the window is half-open; a thousandth of a Unit keeps
// that below what can be seen even where windows last one Unit.
const easiTick = Unit / 1000

// paperStep is the paper's step between candidates, in Units, where a figure does not
// change it.
const paperStep = 2

// policy is one way to plan that figures compare.
type policy struct {
	name      string
	algorithm scheduler.Algorithm // nil = the daemon's own
	// ends lets it crawl at window ends and between them, on single ticks, as the daemon
	// does; otherwise instants are those of the paper's grid.
	ends bool
}

// The names of policies, which are those of their series.
const (
	paperMode   = "EasiCrawl (paper mode)"
	daemon      = "crawld"
	randomCrawl = "RandomCrawl"
	even        = "even"
	evenSnapped = "even snapped"
)

// usual are the policies that every figure compares.
var usual = []string{paperMode, daemon, randomCrawl, even, evenSnapped}

// policies are the usual ones. Paper mode is Algorithms 1 and 2 on the paper's grid.
func (e EasiCrawl) policies() []policy {
	return []policy{
		e.paperMode(),
		{daemon, nil, true},
		{randomCrawl, scheduler.RandomCrawl, false},
		{even, scheduler.Even, false},
		{evenSnapped, scheduler.EvenSnapped, false},
	}
}

func (e EasiCrawl) paperMode() policy {
	return policy{paperMode, e.underObjective(scheduler.Pairwise), false}
}

// underObjective lets an algorithm minimise the objective that is asked for.
func (e EasiCrawl) underObjective(a scheduler.Algorithm) scheduler.Algorithm {
	return func(p *scheduler.Problem, rng *rand.Rand) (*scheduler.Solution, error) {
		q := *p
		q.Objective = e.Objective
		return a(&q, rng)
	}
}

// setting is one range of the paper's kind.
type setting struct {
	x              float64 // where a figure shows it
	sensors, theta int
	length, step   int // Units
	drawn          int // length that sleep plans are drawn for; 0 = that of the range
}

// sample is what one policy made of one range. Latencies are minutes summed over
// events: the expectation of the visits that were made, and what the events that were
// drawn waited.
type sample struct {
	expected, measured float64
	iterations         int
	work               int64
	took               time.Duration
}

// results are samples by setting, policy and run.
type results struct {
	settings []setting
	policies []policy
	samples  [][][]sample
}

// sweep runs every policy in every setting. Runs of the same number have the same
// sensors in all settings whose plans are drawn for the same length, as far as both
// have them; so differences between settings are not those between fleets.
func (e EasiCrawl) sweep(settings []setting, policies []policy) (*results, error) {
	r := &results{settings: settings, policies: policies, samples: make([][][]sample, len(settings))}
	for k := range settings {
		r.samples[k] = make([][]sample, len(policies))
		for j := range policies {
			r.samples[k][j] = make([]sample, e.Runs)
		}
	}
	jobs := len(settings) * e.Runs
	faults := make([]error, jobs)
	e.each(jobs, func(job int) {
		k, run := job/e.Runs, job%e.Runs
		for j, p := range policies {
			s, err := e.simulate(settings[k], p, run)
			if err != nil {
				faults[job] = fmt.Errorf("%s: %w", p.name, err)
				return
			}
			r.samples[k][j][run] = s
		}
	})
	for _, err := range faults {
		if err != nil {
			return nil, err
		}
	}
	return r, nil
}

// each runs f for 0..n-1 on the workers. f writes only what belongs to its number.
func (e EasiCrawl) each(n int, f func(i int)) {
	var lock sync.Mutex
	begun, done := 0, 0
	take := func() (i int, ok bool) {
		lock.Lock()
		defer lock.Unlock()
		begun++
		return begun - 1, begun <= n
	}
	var group sync.WaitGroup
	for range max(1, e.Workers) {
		group.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				f(i)
				lock.Lock()
				done++
				if e.Progress != nil {
					e.Progress(done, n)
				}
				lock.Unlock()
			}
		})
	}
	group.Wait()
}

// simulate runs one policy through one range.
func (e EasiCrawl) simulate(s setting, p policy, run int) (sample, error) {
	var got sample
	c, err := e.config(s, p, run)
	if err != nil {
		return got, err
	}
	c.Parameters.Algorithm = e.timed(c.Parameters.Algorithm, &got.took)
	c.Planned = func(plan *planner.Plan) {
		got.iterations, got.work = plan.Solution.Iterations, plan.Solution.Work
	}
	res, err := Run(c)
	got.expected, got.measured = res.Expected/Unit.Seconds(), res.Latency/Unit.Seconds()
	return got, err
}

// config is a range for one policy, every sensor crawled at its start. A crawl is one
// request: repeating it would let a sleep-unaware policy wait for the sensor to wake up.
func (e EasiCrawl) config(s setting, p policy, run int) (Config, error) {
	length := time.Duration(s.length) * Unit
	drawn := time.Duration(max(s.length, s.drawn)) * Unit
	seed := e.Seed + uint64(run)<<32
	sensors, err := e.Family.Fleet(rand.New(rand.NewPCG(seed, 1)), s.sensors, drawn)
	for i := range sensors {
		sensors[i].Listed.MaxRetrans = -1
	}
	par := OneRange(length, s.theta)
	par.Tick, par.Lead, par.End = easiTick, easiTick, scheduler.Fixed
	par.Algorithm, par.Seed = p.algorithm, seed
	par.Candidates, par.Step = scheduler.Grid, int64(s.step)*int64(Unit/easiTick)
	if p.ends {
		par.Candidates = scheduler.Ends
	}
	return Config{Sensors: sensors, Parameters: par, Start: Epoch, Duration: length, Seed: seed,
		Crawled: true}, err
}

// timed measures an algorithm, if there is a clock. The daemon's own is OnePrice.
func (e EasiCrawl) timed(a scheduler.Algorithm, took *time.Duration) scheduler.Algorithm {
	if e.Clock == nil {
		return a
	}
	if a == nil {
		a = scheduler.OnePrice
	}
	return func(p *scheduler.Problem, rng *rand.Rand) (*scheduler.Solution, error) {
		from := e.Clock()
		sol, err := a(p, rng)
		*took = e.Clock().Sub(from)
		return sol, err
	}
}

// of is the index of a policy.
func (r *results) of(name string) int {
	for j, p := range r.policies {
		if p.name == name {
			return j
		}
	}
	panic("sim: no policy " + name) // names are constants of this package
}

// mean is a policy's mean over the runs of setting k.
func (r *results) mean(k int, name string, value func(sample) float64) float64 {
	return figure.Over(0, values(r.samples[k][r.of(name)], value)).Mean
}

// ratio is the mean latency of one policy in setting k, in that of another.
func (r *results) ratio(k int, name, to string) float64 {
	return r.mean(k, name, expected) / r.mean(k, to, expected)
}

// worst is the greatest ratio of two policies in one run, in any setting.
func (r *results) worst(name, to string) float64 {
	worst := 0.0
	for _, p := range r.against(to, []string{name})[0].Points {
		worst = max(worst, p.Max)
	}
	return worst
}

// series is a policy's curve over the settings from..to-1.
func (r *results) series(name string, from, to int, value func(sample) float64) figure.Series {
	s := figure.Series{Name: name}
	for k := from; k < to; k++ {
		runs := values(r.samples[k][r.of(name)], value)
		s.Points = append(s.Points, figure.Over(r.settings[k].x, runs))
	}
	return s
}

// all are the curves of policies over the settings from..to-1.
func (r *results) all(names []string, from, to int, value func(sample) float64) []figure.Series {
	var all []figure.Series
	for _, name := range names {
		all = append(all, r.series(name, from, to, value))
	}
	return all
}

// against are the curves of policies over all settings in what another has in the same
// run.
func (r *results) against(other string, names []string) []figure.Series {
	var all []figure.Series
	for _, name := range names {
		s := figure.Series{Name: name}
		for k, at := range r.samples {
			ratios := values(at[r.of(name)], expected)
			for run, o := range at[r.of(other)] {
				ratios[run] /= o.expected
			}
			s.Points = append(s.Points, figure.Over(r.settings[k].x, ratios))
		}
		all = append(all, s)
	}
	return all
}

// luck is what the drawn events waited in all settings and runs, in what is expected
// of the same visits: 1 but for the luck of the draw.
func (r *results) luck(name string) figure.Fact {
	var expected, measured float64
	for _, at := range r.samples {
		for _, s := range at[r.of(name)] {
			expected += s.expected
			measured += s.measured
		}
	}
	return figure.Fact{Name: "measured in expected latency, " + name, Value: measured / expected}
}

func values(runs []sample, value func(sample) float64) []float64 {
	all := make([]float64, len(runs))
	for i, s := range runs {
		all[i] = value(s)
	}
	return all
}

func expected(s sample) float64 { return s.expected }
func work(s sample) float64     { return float64(s.work) }
func seconds(s sample) float64  { return s.took.Seconds() }
