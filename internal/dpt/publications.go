package dpt

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

const (
	// minIntervals end the bootstrap: a median of three survives one odd interval.
	minIntervals = 3
	// patience is the number of misses at the bootstrap interval before it grows.
	patience = 8
	// outageEpochs is the size from which an interval is an outage, not lost samples.
	outageEpochs = 8
	// maxOutages in a row without an interval between them mean a longer period.
	maxOutages = 3
	// resolution of a sensor's clock and the way there: the least fast retry is this
	// plus one round trip, since whole-second clocks show no deviation at all.
	resolution = 1000
	// firstBacklog bounds the age of the newest record of the first answer, ms.
	firstBacklog = 7 * 24 * 3600 * 1000
)

// described takes the publications that a new body shows and reports whether there is
// one. The very first body without publish times tells nothing: when it was published
// is unknown.
func (s *state) described(o visit.Outcome) bool {
	s.Hits++
	fresh, newest, trusted := s.publishTimes(o)
	switch {
	case trusted && len(fresh) == 0 && newest == s.Pub:
		return false // another text about what is known already
	case trusted && len(fresh) > 0:
		for _, at := range fresh {
			s.publication(at, true)
		}
	case s.Hits > 1:
		s.publication(s.Last, false)
	}
	return true
}

// publishTimes are the publish instants of o after the last known one, ascending, and
// the newest of o. They are not trusted when the sensor's clock cannot be right: there
// is none that is not in the future, or the newest lies before the last successful
// visit (which did not show it) by more than MaxGap, or before what was shown already.
func (s *state) publishTimes(o visit.Outcome) (fresh []int64, newest int64, trusted bool) {
	oldest := s.Success - s.Limits.MaxGap
	if s.Success == 0 {
		oldest = s.Last - firstBacklog
	}
	now := time.UnixMilli(s.End)
	for _, at := range o.PublishedAt {
		if at.After(now) || at.Year() < 1970 {
			continue
		}
		ms := ceilMilli(at)
		if !trusted || ms > newest {
			newest, trusted = ms, true
		}
		if !s.Known || ms > s.Pub {
			fresh = append(fresh, ms)
		}
	}
	if newest < oldest || s.Known && s.Exact && newest < s.Pub {
		trusted = false
	}
	if !s.Exact && len(fresh) == 0 {
		trusted = false
	}
	slices.Sort(fresh)
	return slices.Compact(fresh), newest, trusted
}

// publication moves the newest publication to at. The interval counts only between
// two instants of one kind.
func (s *state) publication(at int64, exact bool) {
	if s.Known && s.Exact == exact {
		s.admit(at - s.Pub)
	}
	s.Known, s.Exact, s.Pub = true, exact, at
}

// admit adds an interval to the window unless it is an outage.
func (s *state) admit(interval int64) {
	if interval <= 0 {
		return
	}
	if len(s.Window) >= minIntervals {
		median, _ := estimate(s.Window)
		if interval > outageEpochs*median {
			if s.Outages++; s.Outages < maxOutages {
				return
			}
			s.Window = nil
		}
	}
	s.Outages = 0
	s.Window = append(s.Window, interval)
	if len(s.Window) == minIntervals {
		s.dropOutages()
	}
	s.trim()
}

// dropOutages removes what entered the window before there was a median to judge by.
func (s *state) dropOutages() {
	median, _ := estimate(s.Window)
	s.Window = slices.DeleteFunc(s.Window, func(x int64) bool { return x > outageEpochs*median })
}

func (s *state) trim() {
	if n := len(s.Window) - s.Limits.Window; n > 0 {
		s.Window = slices.Clone(s.Window[n:])
	}
}

// estimate is the median of the intervals and the standard deviation, in ms, of the
// intervals folded to one period, x - round(x/median)*median. No interval: 0, 0.
func estimate(window []int64) (median int64, sd float64) {
	n := len(window)
	if n == 0 {
		return 0, 0
	}
	sorted := slices.Sorted(slices.Values(window))
	median = (sorted[(n-1)/2] + sorted[n/2] + 1) / 2
	m := float64(median)
	var sum, squares float64
	for _, x := range window {
		r := float64(x) - math.Round(float64(x)/m)*m
		sum += r
		squares += r * r
	}
	mean := sum / float64(n)
	return median, math.Sqrt(max(squares/float64(n)-mean*mean, 0))
}

// restart makes the plan that follows a hit (Algorithm 1, step 1) or the first contact.
func (s *state) restart() {
	s.Tries = 0
	switch {
	case s.Limits.Policy == Fixed:
		s.Mode = fixed
		s.Due = grid(s.Contact, s.Limits.Bootstrap, s.Last+s.Limits.MinGap)
	case len(s.Window) < minIntervals:
		s.Mode = bootstrap
		s.Due = s.Last + int64(s.bootstrapGap(0))
	default:
		s.Mode = normal
		s.Due = s.epoch(s.Last)
	}
}

// miss is Algorithm 2 on the epoch grid: a look that was due found nothing new.
func (s *state) miss(rtt int64) {
	median, sd := estimate(s.Window)
	switch s.Mode {
	case bootstrap:
		s.Tries++
		s.Due = s.Last + int64(s.bootstrapGap(s.Tries))
	case normal:
		again := max(int64(math.Ceil(sd)), s.Limits.MinGap, resolution+rtt)
		if s.Last < s.Due+again && s.Last+again < s.epoch(s.Last) {
			s.Mode, s.Due = fast, s.Last+again
			return
		}
		s.firstPeriod()
	case fast:
		s.firstPeriod()
	case period:
		step := doubled(median, s.Tries, s.Limits.MaxGap)
		s.Tries++
		if step == s.Limits.MaxGap {
			s.Due = s.Last + step
			return
		}
		// A look that started late must not leave the grid: the epoch is the first one
		// after the step less a period.
		s.Due = s.epoch(s.Last + step - median)
	}
}

func (s *state) firstPeriod() {
	s.Mode, s.Tries, s.Due = period, 1, s.epoch(s.Last)
}

// epoch is the first instant lastPublish + k*median, k >= 1, that is later than after
// by more than MinGap.
func (s *state) epoch(after int64) int64 {
	median, _ := estimate(s.Window)
	return grid(s.Pub, median, after+s.Limits.MinGap)
}

// grid is the smallest origin + k*step > after with k >= 1.
func grid(origin, step, after int64) int64 {
	if after < origin+step {
		return origin + step
	}
	return after + step - (after-origin)%step
}

// bootstrapGap follows that many misses in a row. A Max-Age beyond the bootstrap
// interval is the publisher's word that nothing changes before.
func (s *state) bootstrapGap(misses int) float64 {
	gap := float64(max(s.Limits.Bootstrap, s.Fresh))
	gap *= math.Pow(gapGrowth, float64(min(max(misses-patience, 0), 1000)))
	return min(gap, float64(s.Limits.MaxGap))
}

// check refuses what UnmarshalJSON must not let in: epoch divides by the median, and
// Stats indexes by the mode.
func (s *state) check() error {
	if err := s.Limits.check(); err != nil {
		return err
	}
	learnt := len(s.Window) >= minIntervals && s.Known
	switch {
	case s.Mode >= numModes, (s.Mode == fixed) != (s.Limits.Policy == Fixed):
		return fmt.Errorf("mode %d with policy %s", s.Mode, s.Limits.Policy)
	case len(s.Window) > s.Limits.Window:
		return fmt.Errorf("%d intervals in a window of %d", len(s.Window), s.Limits.Window)
	case s.Mode != fixed && s.Mode != bootstrap && !learnt:
		return fmt.Errorf("mode %d with %d intervals", s.Mode, len(s.Window))
	case min(s.Tries, s.Outages, s.Hits, s.Silent, s.Errors) < 0 || s.Fresh < 0:
		return errors.New("negative count")
	}
	for _, at := range []int64{s.Contact, s.Last, s.End, s.Due, s.Pub, s.Success, s.Hold} {
		if at < -farAway || at > farAway {
			return fmt.Errorf("instant %d ms", at)
		}
	}
	for _, x := range s.Window {
		if x <= 0 || x > farAway {
			return fmt.Errorf("interval %d ms", x)
		}
	}
	return nil
}
