package dpt

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

var bbNames = [numBBModes]string{
	"survey", "track", "early", "middle", "late", "seek", "again", "grid",
}

// pace: an epoch has a look, some more where the publication is late or lost, and every
// other publication that is not found at first costs about one.
func (b *bracketing) pace() (gap, growth float64) {
	s := &b.s
	switch {
	case s.Mode == bbSurvey && s.Tries < patience:
		return s.Gap, 1
	case s.Mode == bbSurvey:
		return s.Gap * math.Pow(gapGrowth, float64(min(s.Tries-patience, 1000))), gapGrowth
	case s.Tries > 1:
		return float64(doubled(int64(s.Period), s.Tries-1, s.Limits.MaxGap)), 2
	}
	return s.Period / (1 + 1.5*(1-s.Share*s.Chain.chance(1))), 1
}

// stats give the mode: survey, track, early, middle, late, seek, again, grid, or outage
// when it has gone on for long.
func (b *bracketing) stats() (period, spread float64, mode string) {
	s := &b.s
	mode = bbNames[s.Mode]
	if s.Mode != bbSurvey && s.Tries > s.Limits.PeriodTries {
		mode = "outage"
	}
	if s.Period == 0 {
		return 0, 0, mode
	}
	return s.Period, math.Sqrt2 * s.filter().Dev, mode
}

func (b *bracketing) why() string {
	s := &b.s
	period, dev := s.Period/1000, s.filter().Dev/1000
	switch s.Mode {
	case bbSurvey:
		return fmt.Sprintf("bb: survey, gap %s, %d brackets", rounded(float64(s.Due-s.Last)),
			len(s.Marks))
	case bbEarly:
		return fmt.Sprintf("bb: early, %d first looks hit", s.Run)
	case bbMiddle:
		return fmt.Sprintf("bb: between epochs of %.4gs, %d to go", period, s.Middles)
	case bbLate:
		return fmt.Sprintf("bb: late, %.3gs after the hit", float64(s.Due-s.Last)/1000)
	case bbSeek:
		return fmt.Sprintf("bb: seek the phase in %.3gs", (s.High-s.Low)/1000)
	case bbAgain:
		return fmt.Sprintf("bb: again, look %d, deviation %.3gs", s.Looks+1, dev)
	}
	k := math.Round((float64(s.Due) - s.aim() - s.filter().Phase) / s.Period)
	return fmt.Sprintf("bb: period %.4gs k=%.0f, aim %+.3gs", period, k, s.aim()/1000)
}

// MarshalJSON writes the state, limits included, in 400 bytes to 3 KB: most of it are
// the marks.
func (b *bracketing) MarshalJSON() ([]byte, error) { return json.Marshal(b.s) }

// UnmarshalJSON restores what MarshalJSON wrote. It refuses values that the rule cannot
// have and leaves b as it was then.
func (b *bracketing) UnmarshalJSON(data []byte) error {
	var s bbState
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("dpt: restore bb: %w", err)
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("dpt: restore bb: %w", err)
	}
	b.s = s
	return nil
}

// check refuses what would divide by zero, index out of range or loop.
func (s *bbState) check() error {
	if err := s.Limits.check(); err != nil {
		return err
	}
	switch {
	case !(s.Share > 0 && s.Share < 1):
		return fmt.Errorf("share %v", s.Share)
	case s.Mode >= numBBModes, (s.Mode == bbSurvey) != (s.Period == 0):
		return fmt.Errorf("mode %d with period %v ms", s.Mode, s.Period)
	case (s.Mode == bbSeek) != (s.High != 0):
		return fmt.Errorf("mode %d with a span up to %v ms", s.Mode, s.High)
	case s.Best < 0 || s.Best >= len(s.Filters):
		return fmt.Errorf("filter %d", s.Best)
	case len(s.Marks) > maxMarks:
		return fmt.Errorf("%d marks", len(s.Marks))
	case min(s.Hits, s.Tries, s.Looks, s.Probes, s.Run, s.Whole, s.Middles, s.Close) < 0:
		return errors.New("negative count")
	}
	return errors.Join(s.checkTimes(), s.checkTracking())
}

func (s *bbState) checkTimes() error {
	instants := []float64{
		float64(s.Due), float64(s.Last), float64(s.Hit), s.Low, s.High, float64(s.Epoch),
	}
	for _, m := range s.Marks {
		instants = append(instants, m.At, float64(m.Epoch))
	}
	for _, f := range s.Filters {
		instants = append(instants, f.Phase)
	}
	for _, at := range instants {
		if math.Abs(at) > float64(farAway) {
			return fmt.Errorf("instant or epoch %v", at)
		}
	}
	if !(s.Gap > 0 && s.Gap <= float64(s.Limits.Bootstrap)) {
		return fmt.Errorf("survey gap %v ms", s.Gap)
	}
	return nil
}

func (s *bbState) checkTracking() error {
	if s.Period == 0 {
		return nil
	}
	if s.Period < 1 || s.Period > float64(farAway) {
		return fmt.Errorf("period %v ms", s.Period)
	}
	if s.High != 0 && (s.High <= s.Low || s.High-s.Low > 2*s.Period) {
		return fmt.Errorf("span of %v ms for a period of %v", s.High-s.Low, s.Period)
	}
	if math.Abs(s.Level) > 100 || s.Common < 0 {
		return fmt.Errorf("level %v, divisor %d", s.Level, s.Common)
	}
	for _, f := range s.Filters {
		if f.Dev <= 0 || f.Dev > s.Period {
			return fmt.Errorf("deviation %v ms for a period of %v", f.Dev, s.Period)
		}
	}
	for _, n := range s.Chain {
		if !(n > 0 && n < 1e6) {
			return fmt.Errorf("%v epochs counted", n)
		}
	}
	return nil
}
