package sim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Pacing is how a sensor places its publications (DPT paper, fig. 5).
type Pacing string

// The two pacings.
const (
	// DelayPacing waits a period after the last publication: jitter adds up.
	DelayPacing Pacing = "delay"
	// WallClockPacing keeps to a grid: jitter does not.
	WallClockPacing Pacing = "wall-clock"
)

// LongFailures is the paper's m: more failures in a row are a long-term outage, which
// the model of short failures leaves out.
const LongFailures = 5

// Traffic is the model of a sensor's publications in section 5 of the DPT paper (Park
// and Heidemann, ISI-TR-660b), with what that leaves out: long outages, and the batches
// of its section 6.3.
//
// Whether an attempt succeeds is a Markov chain with the states success, in which it
// begins, and failure (eq. 3). Jitter is Laplace with mean 0 and drawn once for each
// publication (eq. 4). With delay pacing the interval between two publications is
// (k+1)*Period + jitter, k the failures between them (eq. 1); with wall-clock pacing
// publication number s is at s*Period + jitter, and the instants are sorted.
//
// The paper says that 7 % of Laplace jitter is beyond one standard deviation on either
// side. It is exp(-sqrt 2)/2 = 12.2 %.
type Traffic struct {
	Period time.Duration // target distance of two attempts
	PSS    float64       // p_ss: success after success, 0 .. 1
	PFS    float64       // p_fs: success after failure, > 0 .. 1
	Jitter time.Duration // standard deviation
	Pacing Pacing

	// OutageChance is the probability of a long outage after each publication, Outage
	// its length, which is added to the interval; with wall-clock pacing the next
	// attempt is the first one on the grid then.
	OutageChance float64
	Outage       time.Duration

	Batches *Batches // nil = everything is published at once
}

// Batches holds publications back for a part of each day: what was taken between Silent
// and Online, both times of day in UTC, appears in one burst at Online, and the rest at
// once (DPT paper, 6.3: batched at daytime, immediate at night).
type Batches struct {
	Silent, Online time.Duration
	Jitter         time.Duration // standard deviation of the burst's instant, Laplace
	Spacing        time.Duration // between two publications of the burst
}

// Validate reports every value out of range.
func (t Traffic) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("traffic: "+format, args...))
		}
	}
	check(t.Period >= time.Millisecond, "period %v: must be at least 1ms", t.Period)
	check(t.PSS >= 0 && t.PSS <= 1, "p_ss %v: must lie in 0 .. 1", t.PSS)
	check(t.PFS > 0 && t.PFS <= 1, "p_fs %v: must be more than 0, at most 1", t.PFS)
	check(t.Jitter >= 0, "jitter %v: must not be negative", t.Jitter)
	check(t.Pacing == DelayPacing || t.Pacing == WallClockPacing,
		"pacing %q: use %s or %s", t.Pacing, DelayPacing, WallClockPacing)
	check(t.OutageChance >= 0 && t.OutageChance <= 1, "outage chance %v: must lie in 0 .. 1",
		t.OutageChance)
	check(t.Outage >= 0, "outage %v: must not be negative", t.Outage)
	if b := t.Batches; b != nil {
		check(b.Silent >= 0 && b.Silent < day && b.Online >= 0 && b.Online < day &&
			b.Silent != b.Online, "batches silent %v, online %v: must be two times of day",
			b.Silent, b.Online)
		check(b.Jitter >= 0 && b.Spacing >= 0, "batches jitter %v, spacing %v: must not be negative",
			b.Jitter, b.Spacing)
	}
	return errors.Join(errs...)
}

const day = 24 * time.Hour

// Publish draws the instants of n publications after start, ascending. The same seed
// gives the same ones. Instants of a burst without Spacing are equal.
func (t Traffic) Publish(seed uint64, start time.Time, n int) ([]time.Time, error) {
	if err := t.Validate(); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(seed, 0x7261666669632e00))
	elapsed := make([]float64, n)
	due, slots := 0.0, 0.0 // seconds, attempts
	period, jitter := t.Period.Seconds(), t.Jitter.Seconds()
	for i := range elapsed {
		attempts := float64(t.attempts(rng))
		slots += attempts
		due += attempts*period + drawLaplace(rng, jitter)
		elapsed[i] = due
		if t.Pacing == WallClockPacing {
			elapsed[i] = slots*period + drawLaplace(rng, jitter)
		}
		if t.OutageChance > 0 && rng.Float64() < t.OutageChance {
			due += t.Outage.Seconds()
			slots += math.Ceil(t.Outage.Seconds() / period)
		}
	}
	instants := make([]time.Time, n)
	for i, s := range elapsed {
		instants[i] = start.Add(fromSeconds(s))
	}
	if t.Batches != nil {
		t.Batches.hold(rng, instants)
	}
	slices.SortFunc(instants, time.Time.Compare)
	return instants, nil
}

// attempts until the next success, from a success on.
func (t Traffic) attempts(rng *rand.Rand) int {
	n := 1
	for p := t.PSS; rng.Float64() >= p; p = t.PFS {
		n++
	}
	return n
}

// drawLaplace draws from the Laplace distribution with mean 0 by its inverse.
func drawLaplace(rng *rand.Rand, sd float64) float64 {
	u := rng.Float64() - 0.5
	return -math.Copysign(sd/math.Sqrt2*math.Log1p(-2*math.Abs(u)), u)
}

// fromSeconds rounds down to a nanosecond.
func fromSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// hold moves what was taken while silent to the burst that follows.
func (b *Batches) hold(rng *rand.Rand, instants []time.Time) {
	slices.SortFunc(instants, time.Time.Compare)
	var online time.Time // the announced instant of the burst in the making
	var at time.Time     // where its next publication goes
	for i, taken := range instants {
		until, silent := b.until(taken)
		if !silent {
			continue
		}
		if !until.Equal(online) {
			online, at = until, until.Add(fromSeconds(drawLaplace(rng, b.Jitter.Seconds())))
		}
		if at.Before(taken) { // it cannot appear before it was taken
			at = taken
		}
		instants[i] = at
		at = at.Add(b.Spacing)
	}
}

// until is when the silence around an instant ends, and whether there is one.
func (b *Batches) until(at time.Time) (time.Time, bool) {
	midnight := at.UTC().Truncate(day)
	into := at.Sub(midnight)
	silent := into >= b.Silent && into < b.Online
	if b.Online < b.Silent { // over midnight
		silent = into >= b.Silent || into < b.Online
	}
	end := midnight.Add(b.Online)
	if into >= b.Online {
		end = end.Add(day)
	}
	return end, silent
}
