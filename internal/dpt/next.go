package dpt

import (
	"fmt"
	"time"
)

// Next is the instant of the next poll and its reason. The instant is after now, at
// most MaxGap*stretch after now, and at least MinGap after the end of the last visit
// unless the clock was set back. stretch >= 1 lengthens the gap from the last visit.
// Next changes nothing: the answer moves only when an outcome is observed or when it
// is overdue, so keep it rather than asking again until it is due.
func (t *Tracker) Next(now time.Time, stretch float64) (time.Time, string) {
	s := &t.s
	wanted, why := t.wanted()
	at, capped := s.Limits.clamp(s.Last, s.End, wanted, now, stretch)
	if capped {
		why = string(s.Active) + ": max gap " + rounded(float64(s.Limits.MaxGap))
	}
	if _, reason := t.Policy(); reason != "" {
		why += "; " + reason
	}
	return at, why
}

// wanted is when the next look is due if no gap binds, and the rule that says so.
func (t *Tracker) wanted() (at int64, why string) {
	s := &t.s
	at = t.rule.due() + s.Shift
	policy := string(s.Active)
	hold := rounded(float64(s.Hold - s.Last))
	switch {
	case s.Active == Fixed && s.Hold <= at:
		return at, t.rule.why()
	case s.Drain:
		return s.Last, policy + ": more data"
	case s.Hold > at && s.Asked:
		return s.Hold, "retry-after"
	case s.Hold > at && s.Silent > 0:
		return s.Hold, policy + ": silent, gap " + hold
	case s.Hold > at:
		return s.Hold, policy + ": refused, gap " + hold
	case s.Until > at && (known(t.rule) == 0 || s.Clock.countdown()):
		return s.Until, policy + ": max-age " + rounded(float64(s.Until-s.End))
	}
	why = t.rule.why()
	if s.Shift > 0 {
		why += fmt.Sprintf(", desync %.3gs", float64(s.Shift)/1000)
	}
	return at, why
}

// Stats are the believed period and deviation of the publications, both 0 while
// unknown, the described visits so far, and what the tracker does now: silent, refused,
// drain, or the word of its rule, such as bootstrap, normal, fast, period, outage,
// fixed. Where the rule is not that of the configured policy it says so.
func (t *Tracker) Stats() (median, sd time.Duration, hits int, mode string) {
	m, dev, mode := t.rule.stats()
	s := &t.s
	switch {
	case s.Active == Fixed && s.Hold <= t.rule.due():
	case s.Silent > 0:
		mode = "silent"
	case s.Hold > t.rule.due()+s.Shift:
		mode = "refused"
	case s.Drain:
		mode = "drain"
	}
	if p, reason := t.Policy(); reason != "" {
		mode += " (" + string(p) + ": " + reason + ")"
	}
	return spanOf(m), spanOf(dev), s.Hits, mode
}

// spanOf is a span of ms that may have a fraction.
func spanOf(ms float64) time.Duration {
	return time.Duration(min(ms, float64(farAway)/100) * float64(time.Millisecond))
}

// Expected is the number of polls in [from, to) if things go on as now believed: what
// the rule wants, in an outage or silence ever longer gaps.
func (t *Tracker) Expected(from, to time.Time) float64 {
	s := &t.s
	at, _ := t.Next(from, 1)
	l := s.Limits
	gap, growth := t.rule.pace()
	longest := float64(l.MaxGap)
	switch {
	case s.Errors > 0:
		gap, growth = float64(doubled(l.Bootstrap, s.Errors, l.MaxGap)), 2
	case s.Active == Fixed:
	case s.Silent > 0:
		gap, growth, longest = l.searchGap(s.Silent+1), gapGrowth, longest/widest
	case known(t.rule) == 0:
		gap = max(gap, float64(s.Until-s.End))
	}
	return expected(at, to, max(gap, float64(l.MinGap)), growth, longest)
}
