package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/crawld/crawld/internal/app"
	"github.com/crawld/crawld/internal/crawler"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/search"
	"github.com/crawld/crawld/internal/sim"
	"github.com/crawld/crawld/internal/testbed"
	"github.com/crawld/crawld/internal/visit"
)

// demoReport is the summary of a demo. Latencies are means over events of
// sensors with a known sleep plan, in seconds.
type demoReport struct {
	Ranges   int                `json:"ranges"`
	Seconds  float64            `json:"seconds"`
	Outcomes map[string]int     `json:"outcomes"`
	Budget   int                `json:"budget"`
	Used     int                `json:"budget_used"`
	Events   int                `json:"events"`
	Wasted   int                `json:"datagrams_to_sleepers"`
	Expected float64            `json:"expected_mean_latency_seconds"`
	Measured float64            `json:"measured_mean_latency_seconds"`
	Virtual  map[string]float64 `json:"virtual_mean_latency_seconds"` // the same fleet and budget, simulated
	Found    int                `json:"found"`                        // links by demoSearch
	Data     string             `json:"data"`

	wait, events float64 // the plans' promises
	measured     waits
	from, to     time.Time
}

// add takes in a range that has ended.
func (r *demoReport) add(s crawler.RangeSummary, measured waits) {
	if r.Ranges == 0 {
		r.Outcomes, r.from = map[string]int{}, s.Range
	}
	r.Ranges++
	r.to = s.End
	for _, res := range visit.Results() {
		r.Outcomes[res.String()] += s.Results[res]
	}
	r.Budget += s.Theta
	r.Used += s.Spent()
	r.wait += s.Wait
	r.events += s.Events
	r.measured.seconds += measured.seconds
	r.measured.events += measured.events
}

// summarise works out the figures and lets the same fleet run in virtual time
// under the baselines of the EasiCrawl paper, through the same planner.
func (d *demoRun) summarise() error {
	r := &d.report
	r.Seconds = r.to.Sub(r.from).Seconds()
	r.Events = r.measured.events
	r.Expected, r.Measured = mean(r.wait, r.events), r.measured.mean()
	r.Wasted = d.bed.WastedRequests(r.from, r.to, d.planned)
	r.Data = d.config.Data
	if err := r.search(); err != nil {
		return err
	}
	r.Virtual = map[string]float64{}
	for _, b := range demoPolicies() {
		res, err := d.simulate(b.algorithm)
		if err != nil {
			return err
		}
		r.Virtual[b.name] = res.Mean()
	}
	return nil
}

// demoSearch is asked of what the demo has stored.
const demoSearch = "rt=temperature*"

// search counts what is found once the daemon has closed its database.
func (r *demoReport) search() error {
	q, err := search.Parse(demoSearch)
	if err != nil {
		return err
	}
	repo, err := repository.Open(r.Data, repository.Options{ReadOnly: true})
	if err != nil {
		return err
	}
	for after, more := "", true; more; more = after != "" {
		var found repository.Found
		if found, err = repo.Search(q, nil, after, 0); err != nil {
			break
		}
		r.Found, after = r.Found+len(found.Hits), found.Next
	}
	return errors.Join(err, repo.Close())
}

type demoPolicy struct {
	name      string
	algorithm scheduler.Algorithm
}

func demoPolicies() []demoPolicy {
	return []demoPolicy{{"crawld", nil}, {"RandomCrawl", scheduler.RandomCrawl},
		{"even", scheduler.Even}, {"even, snapped to window ends", scheduler.EvenSnapped}}
}

func (d *demoRun) simulate(algorithm scheduler.Algorithm) (sim.Result, error) {
	par, err := app.Parameters(d.config)
	if err != nil {
		return sim.Result{}, err
	}
	par.Algorithm, par.Seed = algorithm, d.flags.seed
	cfg := sim.Config{Parameters: par, Start: d.report.from, Seed: d.flags.seed,
		Duration: d.report.to.Sub(d.report.from)}
	for _, s := range d.bed.Sensors() {
		spec := d.specs[s.Name()]
		truth := sim.Sensor{Listed: s.Listing(), Plan: spec.Plan, Rate: spec.Rate,
			Loss: visitLoss(spec), Uncounted: spec.Hidden}
		cfg.Sensors = append(cfg.Sensors, truth)
	}
	return sim.Run(cfg)
}

// visitLoss is the share of visits that fail when each datagram is lost with
// the sensor's probability: request or answer, five times in a row.
func visitLoss(spec testbed.Spec) float64 {
	if spec.Fault == testbed.FaultDead {
		return 1
	}
	return math.Pow(1-(1-spec.Loss)*(1-spec.Loss), 5)
}

func (r demoReport) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%d ranges in %.0f s\n", r.Ranges, r.Seconds)
	return table(w, func(row func(...any)) {
		for _, res := range visit.Results() {
			row("  crawls "+res.String(), r.Outcomes[res.String()])
		}
		row("  budget used", fmt.Sprintf("%d of %d", r.Used, r.Budget))
		row("  events captured", r.Events)
		row("  datagrams sent to sleepers", r.Wasted)
		row("  mean latency measured", fmt.Sprintf("%.2f s", r.Measured))
		row("  mean latency the plans expected", fmt.Sprintf("%.2f s", r.Expected))
		for _, p := range demoPolicies() {
			row("  in virtual time, "+p.name, fmt.Sprintf("%.2f s", r.Virtual[p.name]))
		}
		row("  links found by "+demoSearch, r.Found)
		row("  data", r.Data)
	})
}
