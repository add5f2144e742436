package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// CaseStudy crawls sensors whose descriptions log real events, as section VI of
// the EasiCrawl paper does: time ranges of a calendar day, one after another, and
// rates that the planner learns from the logs it has crawled so far, with no
// other hint than the rate of an unlisted sensor.
//
// Streams whose times overlap are one site. Each site is crawled by itself over
// its own time with its own budget: what no longer exists must not leave its
// share of the budget to others.
type CaseStudy struct {
	Streams []Stream
	// Night are beginnings of words. Streams with such a word in their name are
	// awake from 18:00 to 09:00 UTC only, when the people of the paper are at home.
	// Their other events are left out.
	Night []string
	// Theta is the budget, in crawls per stream and day, >= 1: to crawl every
	// stream at the end of a day, as the paper does, takes one.
	Theta int
	// Together shifts all sites by whole days to begin on the same one, as one
	// fleet with one budget.
	Together bool
	Runs     int // of policies that draw, >= 1
	Seed     uint64
}

const (
	caseDay  = 24 * time.Hour
	caseTick = time.Second
	// caseStep is the step of the paper's grid, a hundredth of the range as in its
	// simulations.
	caseStep = int64(caseDay / caseTick / 100)
	// caseAfter is simulated after the last event, so that it is crawled too.
	caseAfter = 7 * caseDay
)

// Case is a stream with what the study makes of it.
type Case struct {
	Stream
	Plan    sleepplan.Plan
	Asleep  int // events that were left out
	Site    int // from 0
	Shifted time.Duration
}

// CaseResult is what came of a CaseStudy.
type CaseResult struct {
	Study    CaseStudy
	Cases    []Case
	Policies []CasePolicy
	// Unbound are all policies once more, if DrawHours was called.
	Unbound []CasePolicy
}

// CasePolicy is what one policy made of the events, once per run.
type CasePolicy struct {
	Name string
	Runs []CaseRun
}

// CaseRun has one entry per case.
type CaseRun struct {
	Waits            [][]time.Duration // of each event until the next crawl
	Events           [][]time.Time     // those that the waits belong to
	Planned, Crawled [][]time.Time
	Unseen           int // events that no crawl has seen; their waits end with the run
}

// casePolicy is a way to crawl.
type casePolicy struct {
	name  string
	draws bool // a run of its own per seed
	set   func(*planner.Parameters)
}

// Names of the policies.
const (
	CaseOurs    = "crawld"
	CasePaper   = "EasiCrawl (paper mode)"
	CaseSnapped = "even snapped"
	CaseRandom  = "RandomCrawl"
)

// casePolicies are all of them. Those of the paper crawl every sensor at its last
// awake instant of the range; with the other end rules a sensor of low rate would
// get no crawl of RandomCrawl's, ever.
func casePolicies() []casePolicy {
	paper := func(a scheduler.Algorithm) func(*planner.Parameters) {
		return func(p *planner.Parameters) {
			p.End, p.Candidates, p.Step, p.Algorithm = scheduler.Fixed, scheduler.Grid, caseStep, a
		}
	}
	return []casePolicy{
		{CaseOurs, false, func(p *planner.Parameters) { p.GuardAuto = true }},
		{CasePaper, false, paper(scheduler.Pairwise)},
		{CaseSnapped, false, paper(scheduler.EvenSnapped)},
		{CaseRandom, true, paper(scheduler.RandomCrawl)},
	}
}

// Run simulates every policy. The error tells what cannot be simulated.
func (c CaseStudy) Run() (*CaseResult, error) {
	if c.Theta < 1 || c.Runs < 1 {
		return nil, fmt.Errorf("sim: case study: %d crawls per stream and day in %d runs: "+
			"both must be at least 1", c.Theta, c.Runs)
	}
	cases, err := c.cases()
	if err != nil {
		return nil, fmt.Errorf("sim: case study: %w", err)
	}
	res := &CaseResult{Study: c, Cases: cases}
	for _, p := range casePolicies() {
		runs := 1
		if p.draws {
			runs = c.Runs
		}
		out := CasePolicy{Name: p.name}
		for k := range uint64(runs) {
			run, err := c.run(p, cases, c.Seed+k)
			if err != nil {
				return nil, fmt.Errorf("sim: case study: %s: %w", p.name, err)
			}
			out.Runs = append(out.Runs, run)
		}
		res.Policies = append(res.Policies, out)
	}
	return res, nil
}

// DrawHours runs every policy on events whose hours are drawn anew in each run,
// from the awake hours of their days. But for its days this is the Poisson process
// that plans are made for, so it tells what the hours of the real events do to the
// latencies.
func (r *CaseResult) DrawHours() error {
	for _, p := range casePolicies() {
		out := CasePolicy{Name: p.name}
		for k := range uint64(r.Study.Runs) {
			run, err := r.Study.run(p, anyHour(r.Cases, r.Study.Seed+k), r.Study.Seed+k)
			if err != nil {
				return fmt.Errorf("sim: case study: %s: %w", p.name, err)
			}
			out.Runs = append(out.Runs, run)
		}
		r.Unbound = append(r.Unbound, out)
	}
	return nil
}

// cases gives streams their sleep plan and site and leaves out what they sleep
// through.
func (c CaseStudy) cases() ([]Case, error) {
	night, err := sleepplan.Weekly([]string{"daily 18:00-09:00"}, "UTC", nil)
	if err != nil {
		return nil, err
	}
	var cases []Case
	left := 0
	for i, s := range bySpan(c.Streams) {
		k := Case{Stream: Stream{Name: s.Name}, Plan: sleepplan.AlwaysOn()}
		if c.atNight(s.Name) {
			k.Plan = night
		}
		rng := rand.New(rand.NewPCG(c.Seed, uint64(i)))
		for _, at := range s.Events {
			// A stamp of whole seconds says nothing of the part. Without one a crawl at
			// the very second would find the event at once.
			if at.Nanosecond() == 0 {
				at = at.Add(time.Duration(rng.Int64N(int64(time.Second))))
			}
			if !k.Plan.Awake(at) {
				k.Asleep++
				continue
			}
			k.Events = append(k.Events, at)
			left++
		}
		slices.SortFunc(k.Events, time.Time.Compare)
		cases = append(cases, k)
	}
	if left == 0 {
		return nil, errors.New("no event happens while its stream is awake")
	}
	return cases, c.settle(cases)
}

// bySpan sorts streams by their first event; ties by name.
func bySpan(streams []Stream) []Stream {
	return slices.SortedFunc(slices.Values(streams), func(a, b Stream) int {
		return cmp.Or(a.Events[0].Compare(b.Events[0]), strings.Compare(a.Name, b.Name))
	})
}

// atNight tells whether a word of the name begins like one of Night.
func (c CaseStudy) atNight(name string) bool {
	between := func(r rune) bool { return !unicode.IsLetter(r) }
	words := strings.FieldsFunc(strings.ToLower(name), between)
	return slices.ContainsFunc(c.Night, func(begin string) bool {
		return slices.ContainsFunc(words, func(word string) bool {
			return strings.HasPrefix(word, strings.ToLower(begin))
		})
	})
}

// settle finds the sites of cases that are sorted by their first event and, if
// they are crawled together, shifts them.
func (c CaseStudy) settle(cases []Case) error {
	spans := bySpan(c.Streams)
	var start, end time.Time // of the site
	site := -1
	for i, s := range spans {
		if first := s.Events[0]; site < 0 || first.After(end) {
			site++
			start, end = first, first
		}
		end = later(end, s.Events[len(s.Events)-1])
		if end.Sub(start) > maxStreamLength {
			return fmt.Errorf("the site of stream %q, one with all that it overlaps, is longer "+
				"than 20 years", s.Name)
		}
		cases[i].Site = site
		if c.Together {
			cases[i].Site = 0
			cases[i].Shifted = spans[0].Events[0].Truncate(caseDay).Sub(start.Truncate(caseDay))
		}
		for k := range cases[i].Events {
			cases[i].Events[k] = cases[i].Events[k].Add(cases[i].Shifted)
		}
	}
	return nil
}

// anyHour draws the time of day of each event anew.
func anyHour(cases []Case, seed uint64) []Case {
	drawn := slices.Clone(cases)
	for i := range drawn {
		rng := rand.New(rand.NewPCG(seed, uint64(i)+1<<32))
		events := make([]time.Time, len(drawn[i].Events))
		for k, at := range drawn[i].Events {
			day := at.Truncate(caseDay)
			events[k] = awakeInstant(drawn[i].Plan.Windows(day, day.Add(caseDay)), rng.Float64())
		}
		slices.SortFunc(events, time.Time.Compare)
		drawn[i].Events = events
	}
	return drawn
}

// awakeInstant is where a share of the windows' time has passed.
func awakeInstant(windows []sleepplan.Window, share float64) time.Time {
	var total time.Duration
	for _, w := range windows {
		total += w.Duration()
	}
	rest := time.Duration(share * float64(total))
	for _, w := range windows {
		if rest < w.Duration() {
			return w.Start.Add(rest)
		}
		rest -= w.Duration()
	}
	return windows[len(windows)-1].End.Add(-1) // rounding
}

// run crawls every site.
func (c CaseStudy) run(p casePolicy, cases []Case, seed uint64) (CaseRun, error) {
	n := len(cases)
	run := CaseRun{Waits: make([][]time.Duration, n), Events: make([][]time.Time, n),
		Planned: make([][]time.Time, n), Crawled: make([][]time.Time, n)}
	for first := 0; first < n; {
		last := first + 1
		for last < n && cases[last].Site == cases[first].Site {
			last++
		}
		if err := c.crawl(p, cases, first, last, seed, &run); err != nil {
			return run, err
		}
		first = last
	}
	return run, nil
}

// crawl simulates the site of cases[first:last].
func (c CaseStudy) crawl(p casePolicy, cases []Case, first, last int, seed uint64,
	run *CaseRun) error {
	cfg := Config{Seed: seed, Parameters: planner.Parameters{Range: caseDay, Tick: caseTick, Step: 1,
		PerSensor: float64(c.Theta), Polling: polling(), Seed: seed}}
	p.set(&cfg.Parameters)
	index := map[string]int{}
	var start, end time.Time
	for i := first; i < last; i++ {
		k := cases[i]
		index[k.Name] = i
		cfg.Sensors = append(cfg.Sensors, k.sensor(i))
		if len(k.Events) == 0 {
			continue
		}
		if start.IsZero() || k.Events[0].Before(start) {
			start = k.Events[0]
		}
		end = later(end, k.Events[len(k.Events)-1])
	}
	if start.IsZero() {
		return nil // the whole site is silent while awake
	}
	cfg.Start = start.Truncate(caseDay)
	cfg.Duration = end.Truncate(caseDay).Add(caseDay + caseAfter).Sub(cfg.Start)
	cfg.Event = func(sensor string, at, seen time.Time) {
		i := index[sensor]
		run.Waits[i], run.Events[i] = append(run.Waits[i], seen.Sub(at)), append(run.Events[i], at)
	}
	cfg.Outcome = func(o visit.Outcome) {
		if o.Result.Success() {
			run.Crawled[index[o.Sensor]] = append(run.Crawled[index[o.Sensor]], o.Started)
		}
	}
	cfg.Planned = func(plan *planner.Plan) {
		for _, promise := range plan.Promises() {
			i := index[promise.ID]
			run.Planned[i] = append(run.Planned[i], promise.Crawls...)
		}
	}
	res, err := Run(cfg)
	run.Unseen += res.Unseen
	return err
}

// sensor is the i-th case as a simulated sensor that the planner knows no more of
// than its sleep plan.
func (k Case) sensor(i int) Sensor {
	events := k.Events
	if events == nil {
		events = []time.Time{} // none, which is not the same as to draw them
	}
	return Sensor{Plan: k.Plan, Events: events, Logs: true, Listed: fleet.Sensor{ID: k.Name,
		URI: fmt.Sprintf("coap://stream-%d.example", i), Plan: k.Plan, Weight: 1,
		MaxCrawls: fleet.NoCap, Rate: fleet.DefaultRate}}
}
