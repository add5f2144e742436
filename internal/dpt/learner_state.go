package dpt

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"
)

// learnerState is what is stored; instants are Unix milliseconds.
type learnerState struct {
	Limits   limits      `json:"l"`
	PerDay   int         `json:"y,omitempty"` // MaxPerDay
	Seed     uint64      `json:"s"`
	Last     int64       `json:"a"`            // start of the last visit
	End      int64       `json:"e"`            // its end
	Probes   int         `json:"n,omitempty"`  // spent
	Spent    int64       `json:"x,omitempty"`  // start of the last probe
	Base     int         `json:"b,omitempty"`  // spent when the sensor was found or revoked
	Contacts int         `json:"c,omitempty"`  // answered visits
	Quiet    int         `json:"q,omitempty"`  // unanswered visits since the last contact
	Weighed  int         `json:"_,omitempty"`  // answered visits when all was last weighed
	Upkeep   int         `json:"q0,omitempty"` // probes of the claim since then
	Hours    hours       `json:"d,omitzero"`   // probes of late
	Seen     history     `json:"h,omitempty"`
	Cells    cells       `json:"p,omitempty"` // ranges of periods that are possible
	Lag      float64     `json:"i,omitempty"` // distance of the meetings they come from, s
	Sought   int         `json:"j,omitempty"` // contacts when they were sought
	Poor     bool        `json:"f,omitempty"` // they explain less than chance
	Loss     float64     `json:"o"`           // estimated chance that a visit is lost
	Scale    float64     `json:"w,omitempty"` // length of a window, s
	Period   float64     `json:"z,omitempty"` // the heaviest, s
	Mass     float64     `json:"m,omitempty"` // of the heaviest period
	Settled  int64       `json:"t,omitempty"` // when it became sure
	Revoked  int64       `json:"r,omitempty"`
	Claimed  *claimState `json:"k,omitempty"`
	Stage    string      `json:"g"`
	Due      int64       `json:"u"` // next probe
	Why      string      `json:"v"`
}

func learnerLimits(p LearnerParams) limits {
	return newLimits(Params{Policy: Fixed, Bootstrap: p.Bootstrap, MinGap: p.MinGap, MaxGap: p.MaxGap})
}

// history is stored as varints: the first look and the differences of the others.
type history []sighting

func (h history) MarshalJSON() ([]byte, error) {
	var data []byte
	last := sighting(0)
	for _, x := range h {
		data = binary.AppendVarint(data, int64(x-last))
		last = x
	}
	return json.Marshal(data)
}

func (h *history) UnmarshalJSON(text []byte) error {
	var data []byte
	if err := json.Unmarshal(text, &data); err != nil {
		return err
	}
	*h = nil
	sum := int64(0)
	for i := 0; len(data) > 0; i++ {
		x, n := binary.Varint(data)
		switch {
		case n <= 0 || i == maxLooks:
			return fmt.Errorf("look %d: damaged", i)
		case i > 0 && x < 0 || x > 4*farAway || x < -4*farAway:
			return fmt.Errorf("look %d: out of order", i)
		}
		if sum += x; sighting(sum).ms() > farAway || sighting(sum).ms() < -farAway {
			return fmt.Errorf("look %d: not an instant", i)
		}
		*h = append(*h, sighting(sum))
		data = data[n:]
	}
	return nil
}

// cells are stored as the period in eight bytes and the step in four.
type cells []hypothesis

const cellSize = 12

func (c cells) MarshalJSON() ([]byte, error) {
	var data []byte
	for _, h := range c {
		data = binary.LittleEndian.AppendUint64(data, math.Float64bits(h.Period))
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(h.Step)))
	}
	return json.Marshal(data)
}

func (c *cells) UnmarshalJSON(text []byte) error {
	var data []byte
	if err := json.Unmarshal(text, &data); err != nil {
		return err
	}
	if len(data)%cellSize != 0 || len(data) > cellSize*maxCells {
		return fmt.Errorf("ranges of periods: %d bytes", len(data))
	}
	*c = nil
	for ; len(data) > 0; data = data[cellSize:] {
		h := hypothesis{math.Float64frombits(binary.LittleEndian.Uint64(data)),
			float64(math.Float32frombits(binary.LittleEndian.Uint32(data[8:])))}
		if !(h.Period >= minPeriod/32 && h.Period <= maxSpan && h.Step > 0 && h.Step <= 2*h.Period) {
			return fmt.Errorf("range %d: period %v, step %v", len(*c), h.Period, h.Step)
		}
		*c = append(*c, h)
	}
	return nil
}

// hours counts the probes of the last 25 hours, so that any 24 of them hold no more than
// are allowed. In several bytes the instants would take kilobytes.
type hours struct {
	Newest int64   `json:"h"` // since 1970
	Count  [25]int `json:"n"` // by hour, the newest first
}

const hourMillis = int64(time.Hour / time.Millisecond)

// at moves on to the hour of ms.
func (h hours) at(ms int64) hours {
	now := ms / hourMillis
	if now <= h.Newest {
		return h // the clock was set back
	}
	moved := hours{Newest: now}
	if gone := now - h.Newest; gone < int64(len(h.Count)) {
		copy(moved.Count[gone:], h.Count[:])
	}
	return moved
}

// free is the first instant from ms on at which fewer than limit were counted.
func (h hours) free(ms int64, limit int) int64 {
	h = h.at(ms)
	sum := 0
	for i, n := range h.Count {
		if sum += n; sum >= limit {
			return max(ms, (h.Newest+int64(len(h.Count)-i))*hourMillis)
		}
	}
	return ms
}

// Clone is an independent copy.
func (l *Learner) Clone() *Learner {
	c := *l
	c.s.Seen = slices.Clone(c.s.Seen)
	c.s.Cells = slices.Clone(c.s.Cells)
	if c.s.Claimed != nil {
		k := *c.s.Claimed
		c.s.Claimed = &k
	}
	return &c
}

// MarshalJSON writes the state, parameters included, in less than 4 kB: some 5 bytes per
// look that is remembered, 16 per range of periods.
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
	for _, ms := range []int64{s.Last, s.End, s.Settled, s.Revoked, s.Due, s.Spent, s.Hours.Newest} {
		if ms > 2*farAway || ms < -2*farAway {
			return fmt.Errorf("instant %d ms", ms)
		}
	}
	switch {
	case s.PerDay < 0 || s.PerDay > 1000 || slices.Min(s.Hours.Count[:]) < 0 ||
		slices.Max(s.Hours.Count[:]) > 1e9:
		return fmt.Errorf("%d probes per day", s.PerDay)
	case s.Probes < 0 || s.Base < 0 || s.Contacts < 0 || s.Quiet < 0 || s.Sought < 0 ||
		s.Weighed < 0 || s.Upkeep < 0:
		return fmt.Errorf("negative count")
	case len(s.Seen) > maxLooks:
		return fmt.Errorf("%d looks", len(s.Seen))
	case !(s.Loss >= leastLoss && s.Loss <= mostLoss):
		return fmt.Errorf("loss %v", s.Loss)
	case !(s.Scale >= 0 && s.Scale <= maxSpan && s.Period >= 0 && s.Period <= maxSpan) ||
		!(s.Mass >= 0 && s.Mass <= 1+1e-9):
		return fmt.Errorf("scale %v, mass %v", s.Scale, s.Mass)
	}
	claims := s.Stage == stageClaimed || s.Stage == stageAwake // which use the claim
	if s.Claimed == nil && claims || s.Claimed != nil && s.Stage != s.stage(nil) {
		return fmt.Errorf("stage %q, claim %v", s.Stage, s.Claimed)
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
	s.Hours = s.Hours.at(at)
	s.Hours.Count[0]++
}

// earliest is when the limits allow a probe after now.
func (s *learnerState) earliest(now int64) int64 {
	at := max(now+1, s.End+s.Limits.MinGap)
	if s.PerDay > 0 {
		at = s.Hours.free(at, s.PerDay)
	}
	return at
}
