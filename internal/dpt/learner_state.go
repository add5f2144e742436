package dpt

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
)

// learnerState is what is stored; instants are Unix milliseconds.
type learnerState struct {
	Limits   limits       `json:"l"`
	PerDay   int          `json:"y,omitempty"` // MaxPerDay
	Seed     uint64       `json:"s"`
	Last     int64        `json:"a"`           // start of the last visit
	End      int64        `json:"e"`           // its end
	Probes   int          `json:"n,omitempty"` // spent
	Spent    int64        `json:"x,omitempty"` // start of the last probe
	Base     int          `json:"b,omitempty"` // spent when the sensor was found or revoked
	Contacts int          `json:"c,omitempty"` // answered visits
	Quiet    int          `json:"q,omitempty"` // unanswered visits since the last contact
	Day      []int64      `json:"d,omitempty"` // probes of the last 24 hours, if PerDay is set
	Seen     history      `json:"h,omitempty"`
	Cells    []hypothesis `json:"p,omitempty"` // ranges of periods that are possible
	Lag      float64      `json:"i,omitempty"` // distance of the meetings they come from, s
	Sought   int          `json:"j,omitempty"` // contacts when they were sought
	Poor     bool         `json:"f,omitempty"` // they explain less than chance
	Loss     float64      `json:"o"`           // estimated chance that a visit is lost
	Scale    float64      `json:"w,omitempty"` // length of a window, s
	Period   float64      `json:"z,omitempty"` // the heaviest, s
	Mass     float64      `json:"m,omitempty"` // of the heaviest period
	Settled  int64        `json:"t,omitempty"` // when it became sure
	Revoked  int64        `json:"r,omitempty"`
	Claimed  *claimState  `json:"k,omitempty"`
	Stage    string       `json:"g"`
	Due      int64        `json:"u"` // next probe
	Why      string       `json:"v"`
}

func learnerLimits(p LearnerParams) limits {
	return newLimits(Params{Policy: Fixed, Bootstrap: p.Bootstrap, MinGap: p.MinGap, MaxGap: p.MaxGap})
}

// history is stored as the first look and the differences of the others.
type history []sighting

func (h history) MarshalJSON() ([]byte, error) {
	d := make([]int64, len(h))
	last := sighting(0)
	for i, x := range h {
		d[i] = int64(x - last)
		last = x
	}
	return json.Marshal(d)
}

func (h *history) UnmarshalJSON(data []byte) error {
	var d []int64
	if err := json.Unmarshal(data, &d); err != nil {
		return err
	}
	*h = make(history, len(d))
	sum := sighting(0)
	for i, x := range d {
		if i > 0 && x < 0 || x > 4*farAway || x < -4*farAway {
			return fmt.Errorf("look %d: out of order", i)
		}
		sum += sighting(x)
		if sum.ms() > farAway || sum.ms() < -farAway {
			return fmt.Errorf("look %d: not an instant", i)
		}
		(*h)[i] = sum
	}
	return nil
}

// Clone is an independent copy.
func (l *Learner) Clone() *Learner {
	c := *l
	c.s.Day = slices.Clone(c.s.Day)
	c.s.Seen = slices.Clone(c.s.Seen)
	c.s.Cells = slices.Clone(c.s.Cells)
	if c.s.Claimed != nil {
		k := *c.s.Claimed
		c.s.Claimed = &k
	}
	return &c
}

// MarshalJSON writes the state, parameters included: some 12 bytes per look that is
// remembered, at most 8 kB.
func (l *Learner) MarshalJSON() ([]byte, error) { return json.Marshal(l.s) }

// UnmarshalJSON restores what MarshalJSON wrote; the learner decides as before. It
// refuses values out of range and leaves l as it was then.
func (l *Learner) UnmarshalJSON(data []byte) error {
	var s learnerState
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("dpt: restore learner: %w", err)
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("dpt: restore learner: %w", err)
	}
	l.s = s
	return nil
}

func (s *learnerState) check() error {
	if err := s.Limits.check(); err != nil {
		return err
	}
	for _, ms := range append([]int64{s.Last, s.End, s.Settled, s.Revoked, s.Due, s.Spent}, s.Day...) {
		if ms > 2*farAway || ms < -2*farAway {
			return fmt.Errorf("instant %d ms", ms)
		}
	}
	switch {
	case s.PerDay < 0 || s.PerDay > 1000 || len(s.Day) > 1000:
		return fmt.Errorf("%d probes per day", s.PerDay)
	case s.Probes < 0 || s.Base < 0 || s.Contacts < 0 || s.Quiet < 0:
		return fmt.Errorf("negative count")
	case len(s.Seen) > maxLooks:
		return fmt.Errorf("%d looks", len(s.Seen))
	case len(s.Cells) > maxCells:
		return fmt.Errorf("%d ranges of periods", len(s.Cells))
	case !(s.Loss >= leastLoss && s.Loss <= mostLoss):
		return fmt.Errorf("loss %v", s.Loss)
	case !(s.Scale >= 0 && s.Scale <= maxSpan && s.Period >= 0 && s.Period <= maxSpan) || !(s.Mass >= 0 && s.Mass <= 1+1e-9):
		return fmt.Errorf("scale %v, mass %v", s.Scale, s.Mass)
	}
	for _, h := range s.Cells {
		if !(h.Period >= minPeriod/32 && h.Period <= maxSpan && h.Step > 0 && h.Step <= 2*h.Period) {
			return fmt.Errorf("period %v, step %v", h.Period, h.Step)
		}
	}
	if s.Claimed != nil {
		return s.Claimed.check()
	}
	return nil
}

// maxSpan bounds spans in storage, s.
const maxSpan = float64(farAway) / 1000

func inSpan(xs ...float64) bool {
	for _, x := range xs {
		if !(math.Abs(x) <= maxSpan) {
			return false
		}
	}
	return true
}

// spend counts a probe, for the cap by its instant.
func (s *learnerState) spend(at int64) {
	s.Probes++
	s.Spent = at
	if s.PerDay == 0 {
		s.Day = nil
		return
	}
	s.Day = append(s.Day, at)
	if extra := len(s.Day) - s.PerDay; extra > 0 {
		s.Day = slices.Delete(s.Day, 0, extra)
	}
}

// earliest is when the limits allow a probe after now.
func (s *learnerState) earliest(now int64) int64 {
	at := max(now+1, s.End+s.Limits.MinGap)
	if s.PerDay > 0 && len(s.Day) >= s.PerDay {
		at = max(at, s.Day[len(s.Day)-s.PerDay]+(24*time.Hour).Milliseconds()+1)
	}
	return at
}
