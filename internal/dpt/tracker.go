package dpt

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// Tracker says when a sensor that has answered is polled next. It serialises to JSON,
// parameters included, so that a restart does not begin anew.
type Tracker struct {
	s state
}

// mode is where the publication rule stands (retry_mode of Algorithms 1 and 2).
// Transitions: bootstrap -> normal when minIntervals are known; normal -> fast on a
// miss; fast -> period on a miss (normal -> period where a fast look would come too
// late); anything -> normal on a hit; anything -> bootstrap when the period changed.
type mode uint8

const (
	bootstrap mode = iota // the period is unknown
	normal                // the next look is the first at its epoch
	fast                  // one look after a standard deviation
	period                // looks at later epochs, 2, 4, 8, ... after the last publication
	fixed                 // policy Fixed
	numModes
)

// state is what is stored; instants are Unix milliseconds, spans milliseconds.
type state struct {
	Limits  limits  `json:"l"`
	Contact int64   `json:"c"`           // the first one; origin of Fixed
	Last    int64   `json:"a"`           // start of the last visit
	End     int64   `json:"e"`           // its end
	Mode    mode    `json:"m,omitempty"` // of the publication rule
	Due     int64   `json:"d"`           // when the publication rule wants to look
	Tries   int     `json:"n,omitempty"` // misses in bootstrap and period mode
	Known   bool    `json:"k,omitempty"` // Pub is known
	Exact   bool    `json:"x,omitempty"` // Pub is a publish time, not a detection
	Pub     int64   `json:"p,omitempty"` // newest publication
	Success int64   `json:"u,omitempty"` // last visit that was described or unchanged
	Window  []int64 `json:"w,omitempty"` // newest publication intervals, oldest first
	Outages int     `json:"o,omitempty"` // outages in a row, without an interval between
	Hits    int     `json:"h,omitempty"` // described visits
	Fresh   int64   `json:"f,omitempty"` // Max-Age of the last answer, lengthens bootstrap
	Hold    int64   `json:"t,omitempty"` // not before this instant, whatever is due
	Asked   bool    `json:"r,omitempty"` // Hold is what the sensor asked for (Max-Age of 5.03, 4.29)
	Silent  int     `json:"s,omitempty"` // visits in a row without contact
	Errors  int     `json:"q,omitempty"` // visits in a row with contact but without description
}

// NewTracker begins at the first contact. The visit that made it may be observed next.
// p is as Validate accepts it.
func NewTracker(p Params, contact time.Time) *Tracker {
	at := ceilMilli(contact)
	t := &Tracker{state{Limits: newLimits(p), Contact: at, Last: at, End: at}}
	t.s.restart()
	return t
}

// Configure adopts changed parameters; what was learnt of the publications is kept.
func (t *Tracker) Configure(p Params) {
	t.s.Limits = newLimits(p)
	t.s.trim()
	t.s.restart()
}

// Clone is an independent copy.
func (t *Tracker) Clone() *Tracker {
	c := *t
	c.s.Window = slices.Clone(t.s.Window)
	return &c
}

// Next is the instant of the next poll and its reason. The instant is after now, at
// most MaxGap*stretch after now, and at least MinGap after the end of the last visit
// unless the clock was set back. stretch >= 1 lengthens the gap from the last visit.
// Next changes nothing: the answer moves only when an outcome is observed or when it
// is overdue, so keep it rather than asking again until it is due.
func (t *Tracker) Next(now time.Time, stretch float64) (time.Time, string) {
	s := &t.s
	at, capped := s.Limits.clamp(s.Last, s.End, max(s.Due, s.Hold), now, stretch)
	why := s.why()
	if capped {
		why = string(s.Limits.Policy) + ": max gap " + rounded(float64(s.Limits.MaxGap))
	}
	return at, why
}

// Observe takes what became of a visit, whoever asked for it. A look that came before
// it was due and found nothing leaves the retries as they are; a missed visit moves
// the next one on by MinGap only.
func (t *Tracker) Observe(o visit.Outcome) {
	s := &t.s
	start, end := instants(o)
	if o.Result == visit.Missed {
		s.End = max(s.End, end)
		return
	}
	s.Last, s.End = start, end
	if s.Known && s.Pub > end { // the clock was set back: what was last seen is not newer
		s.Pub = start
		s.Due = min(s.Due, start)
	}
	due := start >= s.Due
	s.Hold, s.Asked = 0, false
	switch {
	case o.Result.Success():
		s.answered(o, due)
	case answered(o):
		s.refused(o)
	default:
		s.silent(due)
	}
	if s.Limits.Policy == Fixed {
		s.Due = grid(s.Contact, s.Limits.Bootstrap, start+s.Limits.MinGap)
	}
}

// answered feeds the publication rule; Max-Age is kept where it is a statement of the
// publisher, not the default of RFC 7252 section 5.10.5.
func (s *state) answered(o visit.Outcome, due bool) {
	s.Silent, s.Errors, s.Fresh = 0, 0, 0
	if o.HasMaxAge && o.MaxAge > time.Minute {
		s.Fresh = min(o.MaxAge.Milliseconds(), s.Limits.MaxGap)
	}
	hit := o.Result == visit.Described && s.described(o)
	s.Success = s.Last
	if s.Limits.Policy == Fixed {
		return
	}
	switch {
	case hit:
		s.restart()
	case due:
		s.miss(o.RTT.Milliseconds())
	}
}

// refused waits as long as the sensor asked for (Max-Age of 5.03 and 4.29; RFC 7252
// section 5.9.3.4, RFC 8516). Any other error is likely to stay: its retries double
// from the bootstrap interval on. Neither is a miss of the publication rule.
func (s *state) refused(o visit.Outcome) {
	s.Silent = 0
	if o.RetryAfter > 0 {
		s.Hold, s.Asked = s.End+min(o.RetryAfter.Milliseconds(), s.Limits.MaxGap), true
		return
	}
	s.Errors++
	s.Hold = s.Last + doubled(s.Limits.Bootstrap, s.Errors-1, s.Limits.MaxGap)
}

// silent looks again at the next epoch after the first timeout, since a lost datagram
// is likelier than a lost phase, and then like a Search.
func (s *state) silent(due bool) {
	s.Silent++
	if !due || s.Mode == fixed {
		return
	}
	if s.Silent == 1 && s.Mode != bootstrap {
		s.Hold = s.epoch(s.Last)
		return
	}
	k := s.Silent
	s.Hold = s.Last + int64(s.Limits.searchGap(k)*spacing(mix(uint64(s.Contact)), k))
}

// Stats are the estimated median and (folded) standard deviation of the publication
// intervals, both 0 while no interval is known, the described visits so far, and what
// the tracker does now: bootstrap, normal, fast, period, outage, silent, refused, fixed.
func (t *Tracker) Stats() (median, sd time.Duration, hits int, mode string) {
	m, dev := estimate(t.s.Window)
	return span(m), time.Duration(dev * float64(time.Millisecond)), t.s.Hits, t.s.modeName()
}

func (s *state) modeName() string {
	names := [numModes]string{"bootstrap", "normal", "fast", "period", "fixed"}
	switch {
	case s.Silent > 0 && s.Mode != fixed:
		return "silent"
	case s.Hold > s.Due:
		return "refused"
	case s.Mode == period && s.Tries > s.Limits.PeriodTries:
		return "outage"
	}
	return names[s.Mode]
}

// why names the rule that set max(Due, Hold), and its number.
func (s *state) why() string {
	policy := string(s.Limits.Policy)
	median, sd := estimate(s.Window)
	switch {
	case s.Hold > s.Due && s.Asked:
		return "retry-after"
	case s.Hold > s.Due && s.Silent > 0:
		return policy + ": silent, gap " + rounded(float64(s.Hold-s.Last))
	case s.Hold > s.Due:
		return policy + ": refused, gap " + rounded(float64(s.Hold-s.Last))
	case s.Mode == fixed:
		return policy + " " + rounded(float64(s.Limits.Bootstrap))
	case s.Mode == bootstrap:
		return policy + ": bootstrap " + rounded(float64(s.Due-s.Last))
	case s.Mode == fast:
		return fmt.Sprintf("%s: fast sd %.3gs", policy, sd/1000)
	}
	k := math.Round(float64(s.Due-s.Pub) / float64(median))
	return fmt.Sprintf("%s: period %gs k=%.0f", policy, float64(median)/1000, k)
}

// Expected is the number of polls in [from, to) if things go on as now believed: in
// normal mode one look per epoch and a second one at every other (DPT paper, 6.2), in
// an outage or silence ever longer gaps.
func (t *Tracker) Expected(from, to time.Time) float64 {
	at, _ := t.Next(from, 1)
	gap, growth := t.s.pace()
	l := t.s.Limits
	longest := float64(l.MaxGap)
	if t.s.Silent > 0 {
		longest /= widest
	}
	return expected(at, to, max(gap, float64(l.MinGap)), growth, longest)
}

// pace is the gap after the next poll and the factor by which later ones grow.
func (s *state) pace() (gap, growth float64) {
	l := s.Limits
	median, _ := estimate(s.Window)
	switch {
	case s.Errors > 0:
		return float64(doubled(l.Bootstrap, s.Errors, l.MaxGap)), 2
	case s.Mode == fixed:
		return float64(l.Bootstrap), 1
	case s.Silent > 0:
		return l.searchGap(s.Silent + 1), gapGrowth
	case s.Mode == bootstrap && s.Tries < patience:
		return s.bootstrapGap(0), 1
	case s.Mode == bootstrap:
		return s.bootstrapGap(s.Tries + 1), gapGrowth
	case s.Mode == period && s.Tries > 1:
		return float64(doubled(median, s.Tries, l.MaxGap)), 2
	}
	return float64(median) / 1.5, 1
}

// MarshalJSON writes the state, parameters included, in 200 to 400 bytes.
func (t *Tracker) MarshalJSON() ([]byte, error) { return json.Marshal(t.s) }

// UnmarshalJSON restores what MarshalJSON wrote. It refuses values that no tracker can
// have and leaves t as it was then.
func (t *Tracker) UnmarshalJSON(data []byte) error {
	var s state
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("dpt: restore tracker: %w", err)
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("dpt: restore tracker: %w", err)
	}
	t.s = s
	return nil
}
