package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/scheduler"
)

// Rolling compares what may be done at the end of a range, over many ranges in a
// row.
type Rolling struct {
	Families []Family
	Sensors  int // N
	Ranges   int
	Runs     int // fleets drawn
	Seed     uint64
}

// rangeUnits is the time range of the EasiCrawl paper's first simulation (section
// V-B), in Units.
const rangeUnits = 200

// perSensor are the budgets compared, theta/N.
var perSensor = []float64{0.5, 1.2, 2, 5}

// endPolicy is a way to end a range.
type endPolicy struct {
	name      string
	end       scheduler.EndRule
	algorithm scheduler.Algorithm
}

// endPolicies: the third is the look-ahead rule as it stands where the next sleep
// plan is not known.
var endPolicies = []endPolicy{
	{"fixed", scheduler.Fixed, nil},
	{"carry", scheduler.Carry, nil},
	{"half a gap", scheduler.Lookahead, halfGap},
	{"look-ahead", scheduler.Lookahead, nil},
}

// halfGap is the one-price solution without look-ahead: the sink stands half a gap
// after the range.
func halfGap(p *scheduler.Problem, _ *rand.Rand) (*scheduler.Solution, error) {
	blind := *p
	blind.Extra = 0
	return scheduler.Solve(&blind, 1)
}

// Figure runs Ranges ranges of 200 Units in a row under each end rule, and once
// more as ONE range of all their length and budget: the clairvoyant plan. All wait
// up to the end of the last range, so that what is left over there costs each the
// same. A budget that a rule cannot work with leaves a gap in its curve and a note.
func (c Rolling) Figure() (*figure.Figure, error) {
	f := &figure.Figure{ID: "rolling", Title: fmt.Sprintf("End rules over %d ranges of %d units, "+
		"N = %d", c.Ranges, rangeUnits, c.Sensors), Notes: []string{
		"Latency relative to one plan for all ranges, made in advance with the same sum of crawls.",
		"The EasiCrawl paper plans one range at a time and crawls each sensor at its end (fixed)."}}
	for _, family := range c.Families {
		panel, infeasible, err := c.panel(family)
		if err != nil {
			return nil, err
		}
		f.Panels = append(f.Panels, panel)
		f.Notes = append(f.Notes, infeasible...)
	}
	return f, nil
}

// panel runs one family, and lists what could not be run.
func (c Rolling) panel(family Family) (figure.Panel, []string, error) {
	var latency curves
	for _, policy := range endPolicies {
		latency.names = append(latency.names, policy.name)
	}
	infeasible := map[string]bool{}
	var notes []string
	for _, per := range perSensor {
		for run := range c.Runs {
			best, err := c.run(family, run, per, nil)
			if err != nil {
				return figure.Panel{}, nil, err
			}
			for _, policy := range endPolicies {
				got, err := c.run(family, run, per, &policy)
				note := fmt.Sprintf("%s, %s, %v crawls per sensor: infeasible, the rule needs a "+
					"crawl for each sensor.", family.Name, policy.name, per)
				switch {
				case errors.Is(err, scheduler.ErrBudget):
					if !infeasible[note] {
						infeasible[note], notes = true, append(notes, note)
					}
				case err != nil:
					return figure.Panel{}, nil, err
				default:
					latency.add(policy.name, per, got/best)
				}
			}
		}
	}
	return figure.Panel{Title: family.Name, Series: latency.series(),
		X: figure.Axis{Label: "crawls per sensor and range", Log: true},
		Y: figure.Axis{Label: "latency / clairvoyant plan"}}, notes, nil
}

// run is what events are expected to wait under a policy, nil being the clairvoyant
// plan.
func (c Rolling) run(family Family, run int, per float64, policy *endPolicy) (float64, error) {
	length := rangeUnits * Unit
	whole := length * time.Duration(c.Ranges)
	theta := max(1, int(per*float64(c.Sensors)))
	rng := rand.New(rand.NewPCG(c.Seed+uint64(run), uint64(c.Sensors)))
	sensors, err := family.Fleet(rng, c.Sensors, whole)
	if err != nil {
		return 0, err
	}
	par := OneRange(whole, theta*c.Ranges)
	par.End = scheduler.Carry
	if policy != nil {
		par = OneRange(length, theta)
		par.End, par.Algorithm = policy.end, policy.algorithm
	}
	res, err := Run(Config{Sensors: sensors, Parameters: par, Start: Epoch, Duration: whole,
		Seed: c.Seed + uint64(run), Crawled: true})
	return res.Expected, err
}
