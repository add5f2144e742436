package dpt

import (
	"encoding/json"
	"errors"
	"fmt"
)

// fixedInterval polls every bootstrap interval from the first contact on, whatever comes
// of it: the baseline of the DPT paper.
type fixedInterval struct {
	l limits
	s fixedState
}

type fixedState struct {
	Origin int64 `json:"o"`
	At     int64 `json:"a"` // last look
	Due    int64 `json:"d"`
}

func newFixedInterval(l limits, contact int64) *fixedInterval {
	f := &fixedInterval{l: l, s: fixedState{Origin: contact}}
	f.looked(contact)
	return f
}

func (f *fixedInterval) looked(at int64) {
	f.s.At = at
	f.s.Due = grid(f.s.Origin, f.l.Bootstrap, at+f.l.MinGap)
}

func (f *fixedInterval) configure(l limits) {
	f.l = l
	f.looked(f.s.At)
}

func (f *fixedInterval) hit(at int64, _ []int64, _ bool) { f.looked(at) }
func (f *fixedInterval) miss(at, _ int64)                { f.looked(at) }
func (f *fixedInterval) due() int64                      { return f.s.Due }
func (f *fixedInterval) why() string                     { return "fixed " + rounded(float64(f.l.Bootstrap)) }

func (f *fixedInterval) pace() (gap, growth float64) { return float64(f.l.Bootstrap), 1 }

func (f *fixedInterval) stats() (period, spread float64, mode string) { return 0, 0, "fixed" }

func (f *fixedInterval) MarshalJSON() ([]byte, error) { return json.Marshal(f.s) }

// UnmarshalJSON restores what MarshalJSON wrote; limits stay those of the tracker.
func (f *fixedInterval) UnmarshalJSON(data []byte) error {
	var s fixedState
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("restore fixed: %w", err)
	}
	err := errors.Join(outside("instant", seenBy, s.Origin, s.At),
		outside("instant", plannedBy, s.Due))
	if err != nil {
		return fmt.Errorf("restore fixed: %w", err)
	}
	f.s = s
	return nil
}

// grid is the smallest origin + k*step > after with k >= 1.
func grid(origin, step, after int64) int64 {
	if after < origin+step {
		return origin + step
	}
	return after + step - (after-origin)%step
}
