package sim

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/scheduler"
)

const (
	rateRanges  = 10
	wrongRanges = 3
	// oneIn sensors change their rate, by factor.
	oneIn, factor = 10, 5
	// enoughEvents per sensor are when a rate counts as learned.
	enoughEvents = 25
)

// knowledge is how the planner comes to know a rate.
type knowledge struct {
	name        string
	learn, logs bool // from visits; from the events that descriptions log
	told        bool // the operator lists the new rates at once
	idle        bool // and no plan changes before the next range
}

var knowledges = []knowledge{
	{name: "never told"},
	{name: "told, keeping the plan", told: true, idle: true},
	{name: "learned from changes", learn: true},
	{name: "learned from logged events", learn: true, logs: true},
}

// apply makes a run's fleet one of which the planner knows so much.
func (k knowledge) apply(c *Config) {
	for i := range c.Sensors {
		s := &c.Sensors[i]
		s.Listed.RateFixed, s.Logs = !k.learn, k.logs
	}
	if !k.told {
		c.Reloads = nil
	}
	if k.idle {
		c.Parameters.Algorithm = scheduler.OnePrice
	}
}

// Rates lets rates change, lists wrong ones, and lists none that differ.
func (c Online) Rates() (*figure.Figure, error) {
	n := cmp.Or(c.Sensors, 200)
	var changed, wrong, learned, late curves
	for run := range c.Runs {
		if err := c.changed(&changed, run, n); err != nil {
			return nil, err
		}
		if err := c.wrong(&wrong, run, n); err != nil {
			return nil, err
		}
		if err := c.learned(&learned, &late, run, n); err != nil {
			return nil, err
		}
	}
	f := &figure.Figure{ID: "online-rates", Title: fmt.Sprintf(
		"Rates that are not as listed, %s, N = %d, theta = %dN", c.Family.Name, n, onlineCrawls),
		Panels: []figure.Panel{
			{Title: fmt.Sprintf("one rate in %d times %d in the middle of range 2", oneIn, factor),
				X: figure.Axis{Label: "range"}, Y: figure.Axis{Label: "latency / told at once"},
				Series: changed.series()},
			{Title: "wrong rates, never learned", X: figure.Axis{Label: "sd of ln(listed / true)"},
				Y: figure.Axis{Label: "latency / true rates"}, Series: wrong.series()},
			{Title: "one rate listed for all", X: figure.Axis{Label: "events per sensor so far"},
				Y: figure.Axis{Label: "latency / known rates"}, Series: learned.series()},
		},
		Notes: []string{"One event happens between two crawls on the average: where many do, every " +
			"visit finds a change, and that tells nothing of the rate.",
			"Under a plan that is kept, what the operator lists takes effect with the next range."}}
	for _, sd := range wrongBy {
		f.Facts = append(f.Facts, figure.Fact{Name: fmt.Sprintf("rates wrong by sd %v, cost", sd),
			Value: 100 * (wrong.mean(wrongName, sd) - 1), Unit: "%"})
	}
	for _, name := range late.names {
		f.Facts = append(f.Facts, figure.Fact{
			Name:  fmt.Sprintf("%s, after %d events per sensor, cost", name, enoughEvents),
			Value: 100 * (late.mean(name, enoughEvents) - 1), Unit: "%"})
	}
	return f, nil
}

// changed multiplies some rates in the middle of the second range.
func (c Online) changed(k *curves, run, n int) error {
	var told []float64
	for _, know := range append([]knowledge{{told: true}}, knowledges...) {
		cfg, err := c.rare(run, n, rateRanges)
		if err != nil {
			return err
		}
		at := Epoch.Add(cfg.Parameters.Range * 3 / 2)
		listed := make([]fleet.Sensor, n)
		for i := range listed {
			s := &cfg.Sensors[i]
			listed[i] = s.Listed
			if i%oneIn == 0 {
				s.Changes = []RateChange{{at, factor * s.Rate}}
				listed[i].Rate *= factor
			}
		}
		cfg.Reloads = []Reload{{at, listed}}
		know.apply(&cfg)
		waits, err := byRange(cfg)
		if err != nil {
			return err
		}
		if told == nil {
			told = waits
			continue
		}
		for i, w := range waits {
			k.add(know.name, float64(i+1), w/told[i])
		}
	}
	return nil
}

// wrongBy are standard deviations of the logarithm of a listed rate.
var wrongBy = []float64{0.1, 0.25, 0.5, 1}

const wrongName = "lognormal errors"

// wrong lists rates with errors that are never found out.
func (c Online) wrong(k *curves, run, n int) error {
	cfg, err := c.rare(run, n, wrongRanges)
	if err != nil {
		return err
	}
	honest, err := Run(cfg)
	if err != nil {
		return err
	}
	for _, sd := range wrongBy {
		rng := rand.New(rand.NewPCG(c.Seed+uint64(run), 2))
		for i := range cfg.Sensors {
			s := &cfg.Sensors[i]
			s.Listed.Rate = s.Rate * math.Exp(sd*rng.NormFloat64())
		}
		res, err := Run(cfg)
		if err != nil {
			return err
		}
		k.add(wrongName, sd, res.Expected/honest.Expected)
	}
	return nil
}

// learned lists every sensor with the fleet's mean rate, and again with its own.
func (c Online) learned(k, late *curves, run, n int) error {
	cfg, err := c.rare(run, n, rateRanges)
	if err != nil {
		return err
	}
	known, err := byRange(cfg)
	if err != nil {
		return err
	}
	sum := 0.0
	for _, s := range cfg.Sensors {
		sum += s.Rate
	}
	for i := range cfg.Sensors {
		cfg.Sensors[i].Listed.Rate = sum / float64(n)
	}
	for _, know := range knowledges {
		if know.told {
			continue
		}
		know.apply(&cfg)
		waits, err := byRange(cfg)
		if err != nil {
			return err
		}
		for i, w := range waits {
			events := float64(i * onlineCrawls)
			k.add(know.name, events, w/known[i])
			if events >= enoughEvents {
				late.add(know.name, enoughEvents, w/known[i])
			}
		}
	}
	return nil
}

// rare is a fleet whose rates are scaled so that on the average one event happens
// between two crawls: with many, every visit finds a change, and that tells nothing
// of the rate. A common factor changes no plan.
func (c Online) rare(run, n, ranges int) (Config, error) {
	cfg, err := c.config(run, n, ranges)
	if err != nil {
		return Config{}, err
	}
	var events float64
	for _, s := range cfg.Sensors {
		for _, w := range s.Plan.Windows(cfg.Start, cfg.Start.Add(cfg.Duration)) {
			events += s.Rate * w.Duration().Seconds()
		}
	}
	scale := float64(onlineCrawls*n*ranges) / events
	for i := range cfg.Sensors {
		cfg.Sensors[i].Rate *= scale
		cfg.Sensors[i].Listed.Rate *= scale
	}
	return cfg, nil
}
