package dpt

import (
	"encoding/json"
	"errors"
	"fmt"
)

// stored is a tracker as it is written.
type stored struct {
	state
	Rule json.RawMessage `json:"z"`
}

// MarshalJSON writes the state, parameters included: 300 to 500 bytes with Data
// Publication Tracking.
func (t *Tracker) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(t.rule)
	if err != nil {
		return nil, fmt.Errorf("dpt: store tracker: %w", err)
	}
	return json.Marshal(stored{t.s, data})
}

// UnmarshalJSON restores what MarshalJSON wrote, and what it wrote when there were no
// policies but dpt-n and fixed. It refuses values that no tracker can have and leaves t
// as it was then. Of a policy that is not known here only the common part is restored;
// dpt-n takes its place until Configure names another.
func (t *Tracker) UnmarshalJSON(data []byte) error {
	restored, err := restore(data)
	if err != nil {
		return fmt.Errorf("dpt: restore tracker: %w", err)
	}
	*t = *restored
	return nil
}

func restore(data []byte) (*Tracker, error) {
	var form struct {
		Rule json.RawMessage `json:"z"`
	}
	if err := json.Unmarshal(data, &form); err != nil {
		return nil, err
	}
	if len(form.Rule) == 0 {
		return restoreFirst(data)
	}
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	unknown := s.forgetUnknown()
	if err := s.check(); err != nil {
		return nil, err
	}
	if unknown {
		return &Tracker{s: s, rule: newRule(s.Active, s.Limits, s.Last)}, nil
	}
	r, err := restoredRule(s.Active, s.Limits, s.Contact, form.Rule)
	if err != nil {
		return nil, err
	}
	return &Tracker{s: s, rule: r}, nil
}

// forgetUnknown puts dpt-n in the place of a policy that does not exist here and reports
// whether the stored rule is of none that does.
func (s *state) forgetUnknown() bool {
	_, err := ParsePolicy(string(s.Active))
	if _, errWanted := ParsePolicy(string(s.Limits.Policy)); errWanted != nil {
		s.Limits.Policy, err = DPTN, errWanted
	}
	if err != nil {
		s.Active = ""
		s.Active = s.policy()
	}
	return err != nil
}

// first is the state as it was stored when Data Publication Tracking and the fixed
// interval were in one.
type first struct {
	Limits  limits  `json:"l"`
	Contact int64   `json:"c"`
	Last    int64   `json:"a"`
	End     int64   `json:"e"`
	Mode    mode    `json:"m"`
	Due     int64   `json:"d"`
	Tries   int     `json:"n"`
	Known   bool    `json:"k"`
	Exact   bool    `json:"x"`
	Pub     int64   `json:"p"`
	Success int64   `json:"u"`
	Window  []int64 `json:"w"`
	Outages int     `json:"o"`
	Hits    int     `json:"h"`
	Fresh   int64   `json:"f"`
	Hold    int64   `json:"t"`
	Asked   bool    `json:"r"`
	Silent  int     `json:"s"`
	Errors  int     `json:"q"`
}

func restoreFirst(data []byte) (*Tracker, error) {
	var f first
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	s := state{
		Limits: f.Limits, Active: f.Limits.Policy, Contact: f.Contact, Last: f.Last, End: f.End,
		Success: f.Success, Hits: f.Hits, Hold: f.Hold, Asked: f.Asked, Silent: f.Silent,
		Errors: f.Errors, Seed: mix(uint64(f.Contact)),
	}
	if f.Exact {
		s.Clock = clock{Known: true, Shown: f.Pub, Given: f.Pub}
		s.Timed, s.Ever = sureHits, true
	}
	if f.Fresh > 0 {
		s.Until = f.Last + f.Fresh
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	if s.Active == Fixed {
		fixed := newFixedInterval(s.Limits, f.Contact)
		fixed.looked(f.Last)
		return &Tracker{s: s, rule: fixed}, nil
	}
	r := newPublications(s.Active, s.Limits, f.Contact)
	r.s = publicationState{
		Mode: f.Mode, Due: f.Due, At: f.Last, Missed: f.Tries > 0, Tries: f.Tries, Known: f.Known,
		Exact: f.Exact, Pub: f.Pub, Window: f.Window, Outages: f.Outages,
	}
	if f.Mode == fast { // there was only one fast look, which was not counted
		r.s.Tries = 1
	}
	if err := r.s.check(s.Limits.Window); err != nil {
		return nil, err
	}
	return &Tracker{s: s, rule: r}, nil
}

// check refuses what UnmarshalJSON must not let in.
func (s *state) check() error {
	if err := s.Limits.check(); err != nil {
		return err
	}
	switch {
	case s.Active != s.Limits.Policy && (s.Active != BB || !s.Limits.timed()):
		return fmt.Errorf("rule of %s with policy %s", s.Active, s.Limits.Policy)
	case min(s.Hits, s.Timed, s.Blind, s.Silent, s.Errors, s.Pulls, s.Dry) < 0:
		return errors.New("negative count")
	case s.Shift < 0 || s.Shift > s.Limits.MaxGap:
		return fmt.Errorf("desynchronised by %d ms", s.Shift)
	case !(s.Load >= 0 && s.Load <= 1):
		return fmt.Errorf("load %v", s.Load)
	}
	return errors.Join(outside("instant", seenBy, s.Contact, s.Last, s.End, s.Success),
		outside("instant", plannedBy, s.Hold, s.Until), s.Clock.check())
}
