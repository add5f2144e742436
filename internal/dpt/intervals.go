package dpt

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// publicationState is what Data Publication Tracking stores; instants are Unix
// milliseconds, spans milliseconds.
type publicationState struct {
	Mode    mode    `json:"m,omitempty"`
	Due     int64   `json:"d"`
	At      int64   `json:"a"`           // last look
	Missed  bool    `json:"i,omitempty"` // it found nothing
	Tries   int     `json:"n,omitempty"` // retry_count
	Known   bool    `json:"k,omitempty"` // Pub is known
	Exact   bool    `json:"x,omitempty"` // Pub is a publish instant, not a detection
	Pub     int64   `json:"p,omitempty"` // newest publication
	Window  []int64 `json:"w,omitempty"` // newest publication intervals, oldest first
	Gaps    []int64 `json:"g,omitempty"` // newest intervals of the second mode
	Outages int     `json:"o,omitempty"` // outages in a row, without an interval between
	Bursts  int     `json:"b,omitempty"` // hits in a row that only caught up
}

// learnt reports whether there is something to plan with.
func (s *publicationState) learnt() bool { return s.Known && len(s.Window) >= minIntervals }

// take moves the newest publication to the last of those published, ascending. An
// interval counts only between two instants of one kind. It reports whether some were
// those of a sensor catching up.
func (r *publications) take(published []int64, exact bool) (caughtUp bool) {
	s := &r.s
	first := true
	for _, at := range published {
		switch {
		case !s.Known || s.Exact != exact:
			first = false
		case at > s.Pub:
			gap := at - s.Pub
			if first {
				gap = r.silence(published)
			}
			caughtUp = r.admit(at-s.Pub, gap) || caughtUp
			first = false
		default:
			continue
		}
		s.Known, s.Exact, s.Pub = true, exact, at
	}
	return caughtUp
}

// burst counts a hit that caught up, at an instant. A backlog that is drained in several
// looks is one burst.
func (r *publications) burst(at int64) {
	s := &r.s
	if median, _ := r.estimate(); (at-s.At)*burstEpochs < median {
		return
	}
	if s.Bursts++; s.Bursts >= maxBursts {
		s.Window, s.Bursts = nil, 0
	}
}

// silence is how long it took until something was visible again. Data that were kept back
// have instants before looks that did not see them.
func (r *publications) silence(published []int64) int64 {
	s := &r.s
	visible := published[0]
	if s.Missed && visible <= s.At {
		visible = s.At + 1
		if i, _ := slices.BinarySearch(published, visible); i < len(published) {
			visible = published[i]
		}
	}
	return visible - s.Pub
}

// admit adds an interval to the window unless it is an outage or catches up; gap is how
// long nothing was visible. It reports whether it catches up.
func (r *publications) admit(interval, gap int64) (caughtUp bool) {
	s := &r.s
	if median, _ := r.estimate(); len(s.Window) >= minIntervals && !r.everything() {
		if gap > outageEpochs*median {
			r.second(gap)
		}
		switch {
		case interval > outageEpochs*median:
			if s.Outages++; s.Outages < maxOutages {
				return false
			}
			s.Window, s.Gaps = nil, nil // the median they were measured with was wrong
		case interval*burstEpochs < median:
			return true
		}
	}
	s.Outages, s.Bursts = 0, 0
	s.Window = append(s.Window, interval)
	if len(s.Window) == minIntervals && !r.everything() {
		r.dropOutages()
	}
	s.trim(r.l.Window)
	return false
}

// everything enters the window where the standard deviation is taken as it is: one outage
// then delays all looks, as in the DPT paper.
func (r *publications) everything() bool { return r.l.Raw && r.v.policy != Bimodal }

// second remembers an interval of the second mode (update_bimodal_median).
func (r *publications) second(gap int64) {
	if r.v.policy == Bimodal {
		r.s.Gaps = append(r.s.Gaps, gap)
		r.s.trim(r.l.Window)
	}
}

// secondInterval is bimodal_median, 0 while unknown, and whether it is sure: three of
// four lie within a quarter of it.
func (s *publicationState) secondInterval() (gap int64, sure bool) {
	n := len(s.Gaps)
	if n == 0 {
		return 0, false
	}
	gap = middle(s.Gaps)
	near := 0
	for _, x := range s.Gaps {
		if d := x - gap; 4*max(d, -d) <= gap {
			near++
		}
	}
	return gap, n >= minIntervals && 4*near >= 3*n
}

// dropOutages removes what entered the window before there was a median to judge by.
func (r *publications) dropOutages() {
	median, _ := r.estimate()
	s := &r.s
	s.Window = slices.DeleteFunc(s.Window, func(x int64) bool { return x > outageEpochs*median })
}

func (s *publicationState) trim(window int) {
	for _, list := range []*[]int64{&s.Window, &s.Gaps} {
		if n := len(*list) - window; n > 0 {
			*list = slices.Clone((*list)[n:])
		}
	}
}

func (r *publications) estimate() (median int64, sd float64) {
	return estimate(r.s.Window, r.l.Raw)
}

// estimate is the median of the intervals and the standard deviation, in ms, of the
// intervals folded to one period, x - round(x/median)*median, or of the intervals as
// they are. No interval: 0, 0.
func estimate(window []int64, raw bool) (median int64, sd float64) {
	if len(window) == 0 {
		return 0, 0
	}
	median = middle(window)
	m, n := float64(median), float64(len(window))
	var sum, squares float64
	for _, x := range window {
		r := float64(x) - m
		if !raw {
			r = float64(x) - math.Round(float64(x)/m)*m
		}
		sum += r
		squares += r * r
	}
	return median, math.Sqrt(max(squares/n-sum/n*sum/n, 0))
}

// middle is the median of at least one number.
func middle(xs []int64) int64 {
	n := len(xs)
	sorted := slices.Sorted(slices.Values(xs))
	return (sorted[(n-1)/2] + sorted[n/2] + 1) / 2
}

// MarshalJSON leaves the limits out: they are the tracker's.
func (r *publications) MarshalJSON() ([]byte, error) { return json.Marshal(r.s) }

// UnmarshalJSON restores what MarshalJSON wrote. It refuses values that the rule cannot
// have and leaves r as it was then.
func (r *publications) UnmarshalJSON(data []byte) error {
	var s publicationState
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("restore publications: %w", err)
	}
	if err := s.check(r.l.Window); err != nil {
		return fmt.Errorf("restore publications: %w", err)
	}
	r.s = s
	return nil
}

// check refuses what would divide by zero, index out of range or overflow.
func (s *publicationState) check(window int) error {
	switch {
	case s.Mode >= numModes:
		return fmt.Errorf("mode %d", s.Mode)
	case max(len(s.Window), len(s.Gaps)) > window:
		return fmt.Errorf("%d and %d intervals in windows of %d", len(s.Window), len(s.Gaps), window)
	case s.Mode != bootstrap && !s.learnt():
		return fmt.Errorf("mode %d with %d intervals", s.Mode, len(s.Window))
	case min(s.Tries, s.Outages, s.Bursts) < 0 || s.Mode == second && s.Tries < 1:
		return errors.New("negative count")
	}
	all := slices.Concat(s.Window, s.Gaps)
	if len(all) > 0 && slices.Min(all) <= 0 {
		return fmt.Errorf("interval of %d ms", slices.Min(all))
	}
	return errors.Join(outside("instant", seenBy, s.At, s.Pub),
		outside("instant", plannedBy, s.Due), outside("interval", spansTo, all...))
}
