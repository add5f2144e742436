package sim

import (
	"cmp"
	"fmt"
	"time"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/visit"
)

// failureRanges leaves the share of failures half of its ranges to be learned in.
const failureRanges = 8

// failurePolicies are what may be done about a visit that fails. Under an Algorithm
// of its own the planner lets it be lost, as it is in the EasiCrawl paper.
var failurePolicies = []struct {
	name      string
	algorithm scheduler.Algorithm
}{{"ignored", scheduler.OnePrice}, {"re-planned at once", nil}}

// Failures lets a share of the visits find nobody, whatever the sleep plan says, and
// measures the second half of the ranges against a fleet that never fails.
func (c Online) Failures() (*figure.Figure, error) {
	n := cmp.Or(c.Sensors, 200)
	var latency, attempts curves
	for run := range c.Runs {
		cfg, err := c.config(run, n, failureRanges)
		if err != nil {
			return nil, err
		}
		never, err := laterHalf(cfg)
		if err != nil {
			return nil, err
		}
		for _, percent := range []float64{0, 5, 10, 20} {
			for i := range cfg.Sensors {
				cfg.Sensors[i].Out = percent / 100
			}
			for _, policy := range failurePolicies {
				cfg.Parameters.Algorithm = policy.algorithm
				spent := countAttempts(&cfg)
				wait, err := laterHalf(cfg)
				if err != nil {
					return nil, err
				}
				latency.add(policy.name, percent, wait/never)
				for _, k := range spent {
					attempts.add(policy.name, percent, float64(k)/float64(cfg.Parameters.Budget))
				}
			}
		}
	}
	x := figure.Axis{Label: "visits that fail", Unit: "%"}
	f := &figure.Figure{ID: "online-failures", Title: fmt.Sprintf(
		"Failed visits, %s, N = %d, theta = %dN", c.Family.Name, n, onlineCrawls),
		Panels: []figure.Panel{
			{Title: "latency with failed visits", X: x, Y: figure.Axis{Label: "latency / no failures"},
				Series: latency.series()},
			{Title: "attempts with failed visits", X: x, Y: figure.Axis{
				Label: "attempts of a range / theta"}, Series: attempts.series()},
		},
		Notes: []string{"Retries come out of the same budget: theta bounds attempts, not successes.",
			"A failed visit is known to have failed when its exchange times out or the window ends."}}
	for _, percent := range []float64{5, 20} {
		f.Facts = append(f.Facts, figure.Fact{Paper: futureWork,
			Name:  fmt.Sprintf("latency / no failures, %v %% fail, re-planned at once", percent),
			Value: latency.mean(failurePolicies[1].name, percent)})
	}
	return f, nil
}

// countAttempts makes a run count the visits that reach the wire in each range.
func countAttempts(c *Config) []int {
	spent := make([]int, c.Duration/c.Parameters.Range)
	start, length := c.Start, c.Parameters.Range
	c.Watch = func(v visit.Visit, now time.Time) {
		if v.Deadline.After(now) {
			spent[now.Sub(start)/length]++
		}
	}
	return spent
}
