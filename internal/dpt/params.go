// Package dpt decides when a sensor of unknown sleep plan is polled next.
//
// A sensor that has not answered yet is looked for by a [Search]. From its first
// contact on a [Tracker] follows its publications with Data Publication Tracking
// (Park and Heidemann, ISI-TR-660b; "DPT paper" below) or polls at a fixed interval.
//
// The printed Algorithms 1 and 2 loop without delay at the start and drift off the
// epoch grid. They are read here as follows.
//
//   - DPT-N looks at the estimated median (VARIANT_BIAS 0), once more after one
//     standard deviation (VARIANT_FAST_TRIES 1; the paper has 2 for A, 0 for L), and
//     then at the next epoch (PERIOD), the distance doubling with every miss.
//   - Every look but the fast one lies on the grid lastPublish + k*median, until the
//     doubled distance reaches MaxGap.
//   - Until three intervals are known the sensor is polled at the bootstrap interval,
//     which grows after eight misses in a row.
//   - The standard deviation is that of the intervals folded to one period, so that a
//     lost sample does not count as jitter; an interval beyond eight epochs is an
//     outage and does not enter the window.
//   - The least and the largest gap hold on every path, the one after a hit included.
//   - A timeout says that the sensor sleeps. It changes nothing that is believed about
//     publications.
//
// Without publish times in the answers the time of detection stands in for them. The
// phase is then never better than the poll that found it, so DPT-N stays late by the
// same amount for ever; that is the nature of the algorithm.
//
// Instants and spans are whole milliseconds inside the package: publish instants are
// rounded up, so that an epoch is never looked at before it has come.
package dpt

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Policy names the rule by which a sensor that has answered is polled.
type Policy string

// The policies that exist.
const (
	DPTN  Policy = "dpt-n" // Data Publication Tracking, variant "normal" (DPT paper, 6.2)
	Fixed Policy = "fixed" // every Bootstrap interval, answered or not
)

// ParsePolicy accepts the name of an existing policy; the error lists them.
func ParsePolicy(name string) (Policy, error) {
	all := []string{string(DPTN), string(Fixed)}
	if !slices.Contains(all, name) {
		return "", fmt.Errorf("unknown policy %q: use one of %s", name, strings.Join(all, ", "))
	}
	return Policy(name), nil
}

// Params are the operator's choices. Durations count in whole milliseconds.
type Params struct {
	Policy    Policy
	Bootstrap time.Duration // gap while the period is unknown; the interval of Fixed
	MinGap    time.Duration // least time from the end of a visit to the next one, >= 1ms
	MaxGap    time.Duration // largest time between two visits, at most 366 days
	// Window is the number of publication intervals remembered, 4 .. 1000; 0 = 20
	// (DPT paper, 6.1).
	Window int
	// PeriodTries is the number of unanswered period looks, 1 .. 1000, after which the
	// mode is reported as outage; 0 = 7 (PERIOD_TRIES). The distance goes on doubling:
	// there is no second period to wait for.
	PeriodTries int
}

const (
	maxMaxGap          = 366 * 24 * time.Hour
	defaultWindow      = 20
	defaultPeriodTries = 7
)

// Validate reports every value out of range, each with its name and bounds.
func (p Params) Validate() error {
	p = p.withDefaults()
	var errs []error
	if _, err := ParsePolicy(string(p.Policy)); err != nil {
		errs = append(errs, err)
	}
	if p.MinGap < time.Millisecond || p.MinGap > p.Bootstrap {
		errs = append(errs, fmt.Errorf("min gap %v: must lie in 1ms .. bootstrap (%v)", p.MinGap,
			p.Bootstrap))
	}
	if p.MaxGap < p.Bootstrap || p.MaxGap > maxMaxGap {
		errs = append(errs, fmt.Errorf("max gap %v: must lie in bootstrap (%v) .. %v", p.MaxGap,
			p.Bootstrap, maxMaxGap))
	}
	if p.Window < 4 || p.Window > 1000 {
		errs = append(errs, fmt.Errorf("window %d: must lie in 4 .. 1000", p.Window))
	}
	if p.PeriodTries < 1 || p.PeriodTries > 1000 {
		errs = append(errs, fmt.Errorf("period tries %d: must lie in 1 .. 1000", p.PeriodTries))
	}
	return errors.Join(errs...)
}

func (p Params) withDefaults() Params {
	if p.Window == 0 {
		p.Window = defaultWindow
	}
	if p.PeriodTries == 0 {
		p.PeriodTries = defaultPeriodTries
	}
	return p
}

// limits are Params in the package's milliseconds, in the form that is stored with
// each tracker: a restored one decides as before without being told its parameters.
type limits struct {
	Policy      Policy `json:"p,omitempty"`
	Bootstrap   int64  `json:"b"`
	MinGap      int64  `json:"n"`
	MaxGap      int64  `json:"x"`
	Window      int    `json:"w,omitempty"`
	PeriodTries int    `json:"t,omitempty"`
}

// newLimits rounds the least gap up and the largest down, so that neither is exceeded.
func newLimits(p Params) limits {
	p = p.withDefaults()
	return limits{
		Policy:      p.Policy,
		Bootstrap:   max(p.Bootstrap.Milliseconds(), 1),
		MinGap:      int64((p.MinGap + time.Millisecond - 1) / time.Millisecond),
		MaxGap:      p.MaxGap.Milliseconds(),
		Window:      p.Window,
		PeriodTries: p.PeriodTries,
	}
}

// check refuses stored limits that Validate would have refused.
func (l limits) check() error {
	const longest = int64(maxMaxGap / time.Millisecond)
	if l.MinGap > longest || l.MaxGap > longest || l.Bootstrap > longest {
		return fmt.Errorf("gap beyond %v", maxMaxGap)
	}
	return Params{
		Policy: l.Policy, Bootstrap: span(l.Bootstrap), MinGap: span(l.MinGap),
		MaxGap: span(l.MaxGap), Window: l.Window, PeriodTries: l.PeriodTries,
	}.Validate()
}

func span(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// ceilMilli is the first whole millisecond that is not before t.
func ceilMilli(t time.Time) int64 {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return ms
}
