package dpt

import (
	"fmt"
	"math"
	"slices"
)

// publications is Data Publication Tracking: Algorithms 1 and 2 of the DPT paper as a
// state machine.
//
//	bootstrap --hits, minIntervals known--> normal
//	normal --miss--> fast    while VARIANT_FAST_TRIES are left and the next epoch is not near
//	fast   --miss--> fast    the same
//	normal, fast --miss--> period    the first look at the next epoch
//	period --miss--> period    at twice the distance
//	period --miss--> second    Bimodal: after PERIOD_TRIES or where the second mode is sure
//	second --miss--> second    after one median, then at twice the distance
//	anything --hit--> normal, or bootstrap while too little is known
type publications struct {
	l limits
	v variant
	s publicationState
}

// variant is what tells the family apart (DPT paper, 6.2 and 6.3).
type variant struct {
	policy    Policy
	bias      float64 // VARIANT_BIAS: the first look is that many deviations late
	fastTries int     // VARIANT_FAST_TRIES
	looks     float64 // per epoch, on the DPT paper's model at p_ss .95, p_fs .8
}

func variantOf(p Policy) variant {
	switch p {
	case DPTA:
		return variant{p, -1, 2, 2.5}
	case DPTL, Bimodal:
		return variant{p, 1, 0, 1.1}
	}
	return variant{p, 0, 1, 1.5}
}

// mode is retry_mode of Algorithms 1 and 2.
type mode uint8

const (
	bootstrap mode = iota // the period is unknown
	normal                // the next look is the first at its epoch
	fast                  // looks one standard deviation apart
	period                // looks at later epochs, 2, 4, 8, ... after the last publication
	second                // looks at and after the end of the second, longer interval
	numModes
)

var modeNames = [numModes]string{"bootstrap", "normal", "fast", "period", "bimodal"}

const (
	// minIntervals end the bootstrap: a median of three survives one odd interval.
	minIntervals = 3
	// patience is the number of misses at the bootstrap interval before it grows.
	patience = 8
	// outageEpochs is the size from which an interval is an outage or the second mode,
	// not lost samples.
	outageEpochs = 8
	// maxOutages in a row without an interval between them mean a longer period.
	maxOutages = 3
	// burstEpochs is the size of an interval, in parts of an epoch, below which it is a
	// sensor catching up; maxBursts hits in a row of nothing else mean a shorter period.
	burstEpochs = 8
	maxBursts   = 3
	// resolution of a sensor's clock and the way there: the least fast retry is this
	// plus one round trip, since whole-second clocks show no deviation at all.
	resolution = 1000
)

// newPublications begins at a contact.
func newPublications(p Policy, l limits, contact int64) *publications {
	r := &publications{l: l, v: variantOf(p), s: publicationState{At: contact}}
	r.restart()
	return r
}

func (r *publications) clone() *publications {
	c := *r
	c.s.Window, c.s.Gaps = slices.Clone(r.s.Window), slices.Clone(r.s.Gaps)
	return &c
}

func (r *publications) configure(l limits) {
	r.l = l
	r.s.trim(l.Window)
	r.restart()
}

// adopt takes over what another variant has learnt.
func (r *publications) adopt(other *publications) {
	r.s = other.clone().s
	r.configure(r.l)
}

// tell shows another rule the newest publications.
func (r *publications) tell(other rule, at int64) {
	if !r.s.Known || !r.s.Exact {
		return
	}
	t := r.s.Pub
	all := []int64{t}
	for _, x := range slices.Backward(r.s.Window) {
		t -= x
		all = append(all, t)
	}
	slices.Reverse(all)
	other.hit(at, all, true)
}

func (r *publications) due() int64 { return r.s.Due }

// hit takes the publications; without publish instants, the look stands in for one.
func (r *publications) hit(at int64, published []int64, exact bool) {
	s := &r.s
	if at < s.At && s.Known && s.Pub > at { // the clock was set back
		s.Known = false
	}
	if !exact || len(published) == 0 {
		published, exact = []int64{at}, false
	}
	if r.take(published, exact) {
		r.burst(at)
	}
	s.At, s.Missed = at, false
	r.restart()
}

// restart makes the plan that follows a hit (Algorithm 1, step 1) or a contact.
func (r *publications) restart() {
	s := &r.s
	s.Tries = 0
	if !s.learnt() {
		s.Mode, s.Due = bootstrap, s.At+int64(r.bootstrapGap(0))
		return
	}
	s.Mode, s.Due = normal, r.epoch(s.At)
}

// miss is Algorithm 2 on the epoch grid.
func (r *publications) miss(at, rtt int64) {
	s := &r.s
	if at < s.At && s.Known && s.Pub > at { // the clock was set back
		s.Pub = at
	}
	s.At, s.Missed = at, true
	switch s.Mode {
	case bootstrap:
		s.Tries++
		s.Due = at + int64(r.bootstrapGap(s.Tries))
	case normal, fast:
		if !r.again(rtt) {
			s.Mode, s.Tries, s.Due = period, 1, r.epoch(at)
			r.waitSecond()
		}
	case period:
		r.backOff()
		r.waitSecond()
	case second:
		median, _ := r.estimate()
		s.Due = at + max(doubled(median, s.Tries-1, r.l.MaxGap), r.l.MinGap)
		s.Tries++
	}
}

// again plans a fast retry. There is none after a look that came too late for it, or
// if the next epoch is as near.
func (r *publications) again(rtt int64) bool {
	s := &r.s
	tries := 0
	if s.Mode == fast {
		tries = s.Tries
	}
	_, sd := r.estimate()
	gap := max(int64(math.Ceil(min(sd, float64(farAway)))), r.l.MinGap, resolution+rtt)
	if tries >= r.v.fastTries || s.At >= s.Due+gap || s.At+gap >= r.epoch(s.At) {
		return false
	}
	s.Mode, s.Tries, s.Due = fast, tries+1, s.At+gap
	return true
}

// backOff doubles the distance (step 6).
func (r *publications) backOff() {
	s := &r.s
	median, _ := r.estimate()
	step := doubled(median, s.Tries, r.l.MaxGap)
	s.Tries++
	if step == r.l.MaxGap {
		s.Due = s.At + step
		return
	}
	// A look that started late must not leave the grid: the epoch is the first one
	// after the step less a period.
	s.Due = r.epoch(s.At + step - median)
}

// waitSecond goes on to the end of the second interval if that is known and the sensor
// is believed to be in one: after PERIOD_TRIES, when the next look would pass over its
// end, or when the publication is overdue by so much that it cannot be anything else.
func (r *publications) waitSecond() {
	s := &r.s
	gap, sure := s.secondInterval()
	if r.v.policy != Bimodal || gap == 0 {
		return
	}
	median, _ := r.estimate()
	end := s.Pub + gap
	long := s.At-s.Pub >= outageEpochs*median
	if s.Tries <= r.l.PeriodTries && s.Due < end && !(sure && long) {
		return
	}
	s.Mode, s.Tries = second, 1
	s.Due = max(end, s.At+max(min(median, r.l.MaxGap), r.l.MinGap))
}

// epoch is the first instant lastPublish + k*median + VARIANT_BIAS*sd, k >= 1, that is
// later than after by more than MinGap.
func (r *publications) epoch(after int64) int64 {
	median, _ := r.estimate()
	return grid(r.s.Pub+r.shift(), median, after+r.l.MinGap)
}

// shift is VARIANT_BIAS*sd.
func (r *publications) shift() int64 {
	_, sd := r.estimate()
	return int64(math.Round(r.v.bias * min(sd, float64(maxMaxGap.Milliseconds()))))
}

// bootstrapGap follows that many misses in a row.
func (r *publications) bootstrapGap(misses int) float64 {
	gap := float64(r.l.Bootstrap)
	gap *= math.Pow(gapGrowth, float64(min(max(misses-patience, 0), 1000)))
	return min(gap, float64(r.l.MaxGap))
}

func (r *publications) why() string {
	s, name := &r.s, string(r.v.policy)
	median, sd := r.estimate()
	switch s.Mode {
	case bootstrap:
		return name + ": bootstrap " + rounded(float64(s.Due-s.At))
	case fast:
		return fmt.Sprintf("%s: fast sd %.3gs", name, sd/1000)
	case second:
		gap, _ := s.secondInterval()
		return fmt.Sprintf("%s: second interval %s, look %d", name, rounded(float64(gap)), s.Tries)
	}
	k := math.Round(float64(s.Due-s.Pub-r.shift()) / float64(median))
	text := fmt.Sprintf("%s: period %gs k=%.0f", name, float64(median)/1000, k)
	if r.v.bias != 0 {
		text += fmt.Sprintf(", sd %+.3gs", r.v.bias*sd/1000)
	}
	return text
}

func (r *publications) stats() (period, spread float64, mode string) {
	m, sd := r.estimate()
	mode = modeNames[r.s.Mode]
	if r.s.Mode != second && r.s.Tries > r.l.PeriodTries && r.s.Mode != bootstrap {
		mode = "outage"
	}
	return float64(m), sd, mode
}

func (r *publications) pace() (gap, growth float64) {
	s := &r.s
	median, _ := r.estimate()
	switch {
	case s.Mode == bootstrap && s.Tries < patience:
		return r.bootstrapGap(0), 1
	case s.Mode == bootstrap:
		return r.bootstrapGap(s.Tries + 1), gapGrowth
	case s.Mode == period && s.Tries > 1:
		return float64(doubled(median, s.Tries, r.l.MaxGap)), 2
	case s.Mode == second:
		return float64(doubled(median, s.Tries-1, r.l.MaxGap)), 2
	}
	return float64(median) / r.v.looks, 1
}
