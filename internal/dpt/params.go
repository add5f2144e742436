// Package dpt decides when a sensor of unknown sleep plan is polled next.
//
// A sensor that has not answered yet is looked for by a [Search]. From its first
// contact on a [Tracker] follows its publications by one of the rules that [Policy]
// names: Data Publication Tracking (Park and Heidemann, ISI-TR-660b; "DPT paper" below),
// what goes beyond it, or a fixed interval.
//
// The printed Algorithms 1 and 2 loop without delay at the start and drift off the
// epoch grid. They are read here as follows.
//
//   - The first look of an epoch is at lastPublish + k*median + VARIANT_BIAS*sd, k the
//     smallest that is still to come. VARIANT_FAST_TRIES looks follow, one deviation
//     apart, and then one at the next epoch (PERIOD), the distance doubling with every
//     miss.
//   - Every look but the fast ones lies on that grid, until the doubled distance reaches
//     MaxGap.
//   - Until three intervals are known the sensor is polled at the bootstrap interval,
//     which grows after eight misses in a row.
//   - An interval beyond eight epochs is an outage or the second mode (bimodal),
//     whatever was being waited for when it ended. It does not enter the window.
//   - The standard deviation is that of the intervals folded to one period, so that a
//     lost sample does not count as jitter. [SDRaw] takes them as they are, outages
//     included, as the DPT paper seems to.
//   - The least and the largest gap hold on every path, the one after a hit included.
//   - Desynchronisation shifts all looks from one hit to the next by the same span, and
//     none while a backlog is drained.
//   - A timeout says that the sensor sleeps. It changes nothing that is believed about
//     publications.
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
	DPTA    Policy = "dpt-a"   // Data Publication Tracking, aggressive (DPT paper, 6.2)
	DPTN    Policy = "dpt-n"   // the same, normal
	DPTL    Policy = "dpt-l"   // the same, lazy
	Bimodal Policy = "bimodal" // DPTL with a second, longer interval (DPT paper, 6.3)
	HZ      Policy = "hz"      // the looks that cost least; needs publish times
	BB      Policy = "bb"      // brackets publications; needs no publish times
	Fixed   Policy = "fixed"   // every Bootstrap interval, answered or not
)

// Policies lists them in the order in which errors and help name them.
func Policies() []Policy { return []Policy{DPTA, DPTN, DPTL, Bimodal, HZ, BB, Fixed} }

// ParsePolicy accepts the name of an existing policy; the error lists them.
func ParsePolicy(name string) (Policy, error) { return parse("policy", name, Policies()) }

// SD says which standard deviation DPT takes.
type SD string

// Of which intervals it is taken.
const (
	SDFolded SD = "folded" // folded to one period, outages left out; the default
	SDRaw    SD = "raw"    // as they are, lost samples and outages included
)

// PublishTimes says whether publish instants in answers are used.
type PublishTimes string

// How they are used.
const (
	TimesAuto  PublishTimes = "auto"  // where they can be right; the default
	TimesTrust PublishTimes = "true"  // as they are: the sensor's clock is known to be right
	TimesHide  PublishTimes = "false" // not at all
)

// parse finds a name in a list; the error names the list.
func parse[T ~string](what, name string, all []T) (T, error) {
	if slices.Contains(all, T(name)) {
		return T(name), nil
	}
	names := make([]string, len(all))
	for i, n := range all {
		names[i] = string(n)
	}
	return "", fmt.Errorf("unknown %s %q: use one of %s", what, name, strings.Join(names, ", "))
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
	// mode is reported as outage, and the second mode is waited for by Bimodal; 0 = 7
	// (PERIOD_TRIES).
	PeriodTries  int
	SD           SD           // "" = folded
	PublishTimes PublishTimes // "" = auto
	// Desync is the span D over which looks are spread, 0 .. MaxGap: each comes U(0, D)
	// later (DPT paper, 6.4). Answers 4.29 and 5.03 widen it.
	Desync time.Duration
	// Price is the latency, summed over publications, that one poll of HZ is worth,
	// 0 .. 366 days; 0 = 3 % of the period.
	Price time.Duration
	// PollsPerPublication, 0.05 .. 100, makes HZ look for the price itself; 0 = do not.
	PollsPerPublication float64
}

const (
	maxMaxGap          = 366 * 24 * time.Hour
	defaultWindow      = 20
	defaultPeriodTries = 7
	leastPolls         = 0.05 // bounds of PollsPerPublication
	mostPolls          = 100
)

// Validate reports every value out of range, each with its name and bounds.
func (p Params) Validate() error {
	p = p.withDefaults()
	var errs []error
	note := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	_, err := ParsePolicy(string(p.Policy))
	note(err)
	_, err = parse("sd", string(p.SD), []SD{SDRaw, SDFolded})
	note(err)
	times := []PublishTimes{TimesAuto, TimesTrust, TimesHide}
	_, err = parse("publish times", string(p.PublishTimes), times)
	note(err)
	note(within("min gap", p.MinGap, time.Millisecond, p.Bootstrap, "bootstrap"))
	if p.MaxGap < p.Bootstrap || p.MaxGap > maxMaxGap {
		note(fmt.Errorf("max gap %v: must lie in bootstrap (%v) .. %v", p.MaxGap,
			p.Bootstrap, maxMaxGap))
	}
	note(within("desync", p.Desync, 0, max(p.MaxGap, 0), "max gap"))
	note(p.validatePrice())
	if p.Window < 4 || p.Window > 1000 {
		note(fmt.Errorf("window %d: must lie in 4 .. 1000", p.Window))
	}
	if p.PeriodTries < 1 || p.PeriodTries > 1000 {
		note(fmt.Errorf("period tries %d: must lie in 1 .. 1000", p.PeriodTries))
	}
	return errors.Join(errs...)
}

func within(name string, d, least, most time.Duration, limit string) error {
	if d >= least && d <= most {
		return nil
	}
	return fmt.Errorf("%s %v: must lie in %v .. %s (%v)", name, d, least, limit, most)
}

func (p Params) validatePrice() error {
	x := p.PollsPerPublication
	switch {
	case p.Price < 0 || p.Price > maxMaxGap:
		return fmt.Errorf("price %v: must lie in 0s .. %v", p.Price, maxMaxGap)
	case x != 0 && !(x >= leastPolls && x <= mostPolls):
		return fmt.Errorf("polls per publication %v: must be 0 or lie in %v .. %v", x, leastPolls,
			mostPolls)
	case x != 0 && p.Price != 0:
		return fmt.Errorf("price %v and polls per publication %v exclude each other: set one",
			p.Price, x)
	}
	return nil
}

func (p Params) withDefaults() Params {
	if p.Window == 0 {
		p.Window = defaultWindow
	}
	if p.PeriodTries == 0 {
		p.PeriodTries = defaultPeriodTries
	}
	if p.SD == "" {
		p.SD = SDFolded
	}
	if p.PublishTimes == "" {
		p.PublishTimes = TimesAuto
	}
	return p
}

// limits are Params in the package's milliseconds, in the form that is stored with
// each tracker: a restored one decides as before without being told its parameters.
type limits struct {
	Policy      Policy       `json:"p,omitempty"`
	Bootstrap   int64        `json:"b"`
	MinGap      int64        `json:"n"`
	MaxGap      int64        `json:"x"`
	Window      int          `json:"w,omitempty"`
	PeriodTries int          `json:"t,omitempty"`
	Raw         bool         `json:"r,omitempty"` // SDRaw
	Times       PublishTimes `json:"u,omitempty"` // "" = auto
	Desync      int64        `json:"d,omitempty"`
	Price       int64        `json:"c,omitempty"`
	Polls       float64      `json:"o,omitempty"` // per publication
}

// newLimits rounds the least gap up and the largest down, so that neither is exceeded.
func newLimits(p Params) limits {
	p = p.withDefaults()
	l := limits{
		Policy:      p.Policy,
		Bootstrap:   max(p.Bootstrap.Milliseconds(), 1),
		MinGap:      int64((p.MinGap + time.Millisecond - 1) / time.Millisecond),
		MaxGap:      p.MaxGap.Milliseconds(),
		Window:      p.Window,
		PeriodTries: p.PeriodTries,
		Raw:         p.SD == SDRaw,
		Times:       p.PublishTimes,
		Desync:      p.Desync.Milliseconds(),
		Price:       p.Price.Milliseconds(),
		Polls:       p.PollsPerPublication,
	}
	if l.Times == TimesAuto {
		l.Times = ""
	}
	return l
}

// check refuses stored limits that Validate would have refused.
func (l limits) check() error {
	const longest = int64(maxMaxGap / time.Millisecond)
	if max(l.MinGap, l.MaxGap, l.Bootstrap, l.Desync, l.Price) > longest {
		return fmt.Errorf("gap beyond %v", maxMaxGap)
	}
	p := Params{
		Policy: l.Policy, Bootstrap: span(l.Bootstrap), MinGap: span(l.MinGap),
		MaxGap: span(l.MaxGap), Window: l.Window, PeriodTries: l.PeriodTries,
		PublishTimes: l.Times, Desync: span(l.Desync), Price: span(l.Price),
		PollsPerPublication: l.Polls,
	}
	return p.Validate()
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
