package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
)

// Estimate is a parameter read off a trace, and its standard error; 0 where that is
// not known.
type Estimate struct {
	Value float64 `json:"value"`
	SE    float64 `json:"se"`
}

// TrafficFit is the traffic model fitted to a trace, with the tests of section 5.2 of the
// DPT paper. Spans are seconds.
type TrafficFit struct {
	Trace        string  `json:"trace"`
	Publications int     `json:"publications"`
	Duplicates   int     `json:"duplicates"`    // equal stamps, dropped
	WholeSeconds bool    `json:"whole_seconds"` // stamps had no fractions; they were drawn
	Days         float64 `json:"days"`

	Period Estimate `json:"period_seconds"`
	PSS    Estimate `json:"p_ss"`
	PFS    Estimate `json:"p_fs"` // 0 if nothing failed
	Jitter Estimate `json:"jitter_sd_seconds"`
	// Pacing is told by the correlation of neighbouring intervals, which is 0 with delay
	// pacing and -1/2 with wall-clock pacing.
	Pacing      Pacing  `json:"pacing"`
	Correlation float64 `json:"correlation"`

	// Early are intervals of half a period or less. They fit no model: bursts, extra
	// publications.
	Early    int            `json:"early"`
	Failures []int          `json:"failures"` // intervals with 0 .. 5 failures
	Outages  OutageFit      `json:"outages"`
	Models   []FailureModel `json:"failure_models"`
	// Jitters are of the intervals by their number of periods (paper, fig. 10 and 11),
	// then, with wall-clock pacing, of the publications around their grid.
	Jitters []JitterModel `json:"jitter_models"`
}

// OutageFit describes the intervals with more than LongFailures failures.
type OutageFit struct {
	Number int     `json:"number"`
	Chance float64 `json:"chance"` // per publication
	Share  float64 `json:"share"`  // of the trace's length
	Median float64 `json:"median_seconds"`
	Mean   float64 `json:"mean_seconds"`
	Max    float64 `json:"max_seconds"`
}

// minFit is the least number of publications that a fit makes sense of.
const minFit = 30

// FitTraffic estimates the model's parameters and tests it.
func FitTraffic(t Trace) (TrafficFit, error) {
	n := len(t.Instants)
	if n < minFit {
		return TrafficFit{}, fmt.Errorf("fit %s: %d publications, need %d", t.Name, n, minFit)
	}
	times := make([]float64, n)
	for i, at := range t.Instants {
		times[i] = at.Sub(t.Instants[0]).Seconds()
	}
	f := TrafficFit{Trace: t.Name, Publications: n, Duplicates: t.Duplicates,
		WholeSeconds: t.WholeSeconds, Days: times[n-1] / day.Seconds()}
	period := periodOf(times)
	if period < time.Millisecond.Seconds() {
		return f, fmt.Errorf("fit %s: period %.3gs: less than 1ms", t.Name, period)
	}
	c := classify(times, period)
	f.Early, f.Failures, f.Outages = c.early, c.failures[:], c.outageFit(times)
	if len(c.residuals) < minFit {
		return f, fmt.Errorf("fit %s: %d intervals of 1 to %d periods of %.4gs, need %d", t.Name,
			len(c.residuals), LongFailures+1, period, minFit)
	}
	f.PSS, f.PFS = chainOf(c.failures)
	f.Models = failureModels(c.failures, f.PSS.Value, f.PFS.Value)
	f.Correlation = c.correlation()
	f.pace(c)
	return f, nil
}

// pace tells the pacing and what follows from it: the jitter, the standard error of the
// period.
func (f *TrafficFit) pace(c classes) {
	f.Pacing = DelayPacing
	if f.Correlation < -0.25 {
		f.Pacing = WallClockPacing
	}
	f.Jitter = spread(c.residuals)
	f.Period = Estimate{c.period, f.Jitter.Value * math.Sqrt(float64(len(c.residuals))) / c.epochs}
	for h, residuals := range c.byFailures() {
		if len(residuals) >= minFit {
			f.Jitters = append(f.Jitters, jitterModel(float64(h+1), residuals))
		}
	}
	if f.Pacing == WallClockPacing {
		around := c.aroundGrid()
		f.Jitter = spread(around)
		f.Period.SE = f.Jitter.Value * math.Sqrt2 * math.Sqrt(float64(c.stretches)) / c.epochs
		f.Jitters = append(f.Jitters, jitterModel(0, around))
	}
}

// Traffic is the model that generates what was fitted. Outages have their mean length.
func (f TrafficFit) Traffic() Traffic {
	pfs := f.PFS.Value
	if pfs == 0 {
		pfs = 1 // never used: nothing fails
	}
	return Traffic{
		Period: fromSeconds(f.Period.Value), PSS: f.PSS.Value, PFS: pfs,
		Jitter: fromSeconds(f.Jitter.Value), Pacing: f.Pacing, OutageChance: f.Outages.Chance,
		Outage: max(0, fromSeconds(f.Outages.Mean-f.Period.Value)).Round(time.Millisecond),
	}
}

// spread is the standard deviation and its standard error, from the kurtosis.
func spread(x []float64) Estimate {
	mean, variance := stat.PopMeanVariance(x, nil)
	fourth := 0.0
	for _, v := range x {
		fourth += math.Pow(v-mean, 4) / float64(len(x))
	}
	if variance == 0 {
		return Estimate{}
	}
	kurtosis := fourth / (variance * variance)
	sd := math.Sqrt(variance)
	return Estimate{sd, sd * math.Sqrt((kurtosis-1)/(4*float64(len(x))))}
}

// periodOf is the longest of the median interval and its parts down to a fifth of which
// the intervals are multiples about as well as of any of these, then refined: the time of
// all intervals of up to LongFailures failures by the periods in it.
func periodOf(times []float64) float64 {
	intervals := make([]float64, 0, len(times)-1)
	for i := range times[1:] {
		intervals = append(intervals, times[i+1]-times[i])
	}
	slices.Sort(intervals)
	median := stat.Quantile(0.5, stat.Empirical, intervals, nil)
	if median <= 0 {
		return 0
	}
	fits, best := make([]float64, 5), math.Inf(-1)
	for i := range fits {
		p, used := median/float64(i+1), 0.0
		for _, x := range intervals {
			if x > p/2 && x < (LongFailures+1.5)*p {
				fits[i] += math.Cos(2 * math.Pi * x / p)
				used++
			}
		}
		fits[i] /= max(used, 1)
		best = max(best, fits[i])
	}
	period := median
	for i := range fits {
		if fits[i] > 0.8*best {
			period = median / float64(i+1)
			break
		}
	}
	for range 20 {
		c := classify(times, period)
		if c.epochs == 0 {
			return period
		}
		if period = c.time / c.epochs; math.Abs(period/c.period-1) < 1e-12 {
			break
		}
	}
	return period
}

// classes are the intervals of a trace by the failures in them: an interval from h+1/2 to
// h+3/2 periods has h (DPT paper, 5.2).
type classes struct {
	period    float64
	early     int
	failures  [LongFailures + 1]int
	outages   []float64
	residuals []float64 // interval - (h+1)*period, without early ones and outages
	counts    []int     // h of these
	joined    []bool    // whether the interval before is the one before in the trace
	stretches int       // parts of the trace between early intervals and outages
	time      float64   // their length
	epochs    float64   // in periods
}

func classify(times []float64, period float64) classes {
	c := classes{period: period}
	joined := false
	for i := range times[1:] {
		x := times[i+1] - times[i]
		h := int(min(math.Ceil(x/period-1.5), 1e9))
		switch {
		case x <= period/2:
			c.early++
			joined = false
			continue
		case h > LongFailures:
			c.outages = append(c.outages, x)
			joined = false
			continue
		}
		if !joined {
			c.stretches++
		}
		c.failures[h]++
		c.residuals = append(c.residuals, x-float64(h+1)*period)
		c.counts, c.joined = append(c.counts, h), append(c.joined, joined)
		c.time, c.epochs, joined = c.time+x, c.epochs+float64(h+1), true
	}
	return c
}

func (c classes) outageFit(times []float64) OutageFit {
	if len(c.outages) == 0 {
		return OutageFit{}
	}
	sorted := slices.Sorted(slices.Values(c.outages))
	n, sum := len(sorted), 0.0
	for _, x := range sorted {
		sum += x
	}
	return OutageFit{
		Number: n, Chance: float64(n) / float64(len(times)-1), Share: sum / times[len(times)-1],
		Median: stat.Quantile(0.5, stat.Empirical, sorted, nil), Mean: sum / float64(n),
		Max: sorted[n-1],
	}
}

// correlation of the jitter of neighbouring intervals.
func (c classes) correlation() float64 {
	var a, b []float64
	for i := range c.residuals {
		if c.joined[i] {
			a, b = append(a, c.residuals[i-1]), append(b, c.residuals[i])
		}
	}
	if len(a) < 2 || stat.Variance(a, nil) == 0 || stat.Variance(b, nil) == 0 {
		return 0
	}
	return stat.Correlation(a, b, nil)
}

func (c classes) byFailures() [LongFailures + 1][]float64 {
	var by [LongFailures + 1][]float64
	for i, h := range c.counts {
		by[h] = append(by[h], c.residuals[i])
	}
	return by
}

// minStretch publications let a line be put through them.
const minStretch = 10

// aroundGrid is the distance of the publications from the grid that fits each stretch
// best: clocks drift, and a restart moves the grid.
func (c classes) aroundGrid() []float64 {
	var all, at, slot []float64
	end := func() {
		if len(at) >= minStretch {
			offset, slope := stat.LinearRegression(slot, at, nil, false)
			for i := range at {
				all = append(all, at[i]-offset-slope*slot[i])
			}
		}
	}
	for i := range c.residuals {
		if !c.joined[i] {
			end()
			at, slot = []float64{0}, []float64{0}
		}
		n := len(at) - 1
		epochs := float64(c.counts[i] + 1)
		at = append(at, at[n]+c.residuals[i]+epochs*c.period)
		slot = append(slot, slot[n]+epochs)
	}
	end()
	if len(all) < minFit {
		return c.residuals
	}
	return all
}
