package dpt

import (
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// Tracker says when a sensor that has answered is polled next. It serialises to JSON,
// parameters included, so that a restart does not begin anew.
//
// The rule of its policy says when to look. The tracker holds that within the gaps and
// puts it off for silence, refusals and what the sensor asks for.
type Tracker struct {
	s    state
	rule rule
}

// state is what all rules have in common; instants are Unix milliseconds, spans
// milliseconds.
type state struct {
	Limits  limits  `json:"l"`
	Active  Policy  `json:"g"`           // whose rule is in use
	Contact int64   `json:"c"`           // the first one
	Last    int64   `json:"a"`           // start of the last visit
	End     int64   `json:"e"`           // its end
	Success int64   `json:"u,omitempty"` // last visit that was described or unchanged
	Hits    int     `json:"h,omitempty"` // described visits
	Clock   clock   `json:"k"`           // of the sensor
	Timed   int     `json:"i,omitempty"` // hits in a row with publish instants
	Blind   int     `json:"b,omitempty"` // hits in a row without
	Ever    bool    `json:"v,omitempty"` // there were publish instants
	Until   int64   `json:"f,omitempty"` // the publisher says that nothing changes before
	Hold    int64   `json:"t,omitempty"` // not before this instant, whatever is due
	Asked   bool    `json:"r,omitempty"` // Hold is what the sensor asked for (Max-Age of 5.03, 4.29)
	Silent  int     `json:"s,omitempty"` // visits in a row without contact
	Errors  int     `json:"q,omitempty"` // visits in a row with contact but without description
	Drain   bool    `json:"d,omitempty"` // there is more data: look again at once
	Pulls   int     `json:"p,omitempty"` // such looks in a row
	Dry     int     `json:"y,omitempty"` // drains in a row that found nothing
	Shift   int64   `json:"j,omitempty"` // by which looks are desynchronised until the next hit
	Load    float64 `json:"w,omitempty"` // share of visits refused as busy, lately
	Seed    uint64  `json:"x"`           // of the next Shift
}

const (
	// sureHits in a row with or without publish instants change the rule.
	sureHits = 3
	// maxPulls in a row drain a backlog; a sensor that always has more data is not
	// drained for ever, nor one that had none maxDry times in a row.
	maxPulls = 100
	maxDry   = 3
	// loadMemory is the number of visits that Load remembers, leastLoad the share that
	// does not desynchronise yet: one refusal among 64 visits.
	loadMemory = 16
	leastLoad  = 1.0 / 64
)

// NewTracker begins at the first contact. The visit that made it may be observed next.
// p is as Validate accepts it.
func NewTracker(p Params, contact time.Time) *Tracker {
	at := ceilMilli(contact)
	l := newLimits(p)
	t := &Tracker{s: state{Limits: l, Contact: at, Last: at, End: at, Seed: mix(uint64(at))}}
	t.s.Active = t.s.policy()
	t.rule = newRule(t.s.Active, l, at)
	t.s.desynchronise(t.rule)
	return t
}

// Configure adopts changed parameters; what was learnt of the publications is kept.
func (t *Tracker) Configure(p Params) {
	s := &t.s
	s.Limits = newLimits(p)
	active := s.policy()
	if active == s.Active {
		configured(t.rule, s.Limits)
	} else {
		t.use(active)
	}
	s.desynchronise(t.rule)
}

// use changes the rule.
func (t *Tracker) use(p Policy) {
	t.rule = replaced(t.rule, p, t.s.Limits, t.s.Last)
	t.s.Active = p
}

// Clone is an independent copy.
func (t *Tracker) Clone() *Tracker { return &Tracker{s: t.s, rule: cloned(t.rule)} }

// Observe takes what became of a visit, whoever asked for it. A look that came before
// it was due and found nothing leaves the retries as they are; a missed visit moves
// the next one on by MinGap only.
func (t *Tracker) Observe(o visit.Outcome) {
	s, g := &t.s, read(o)
	if g.kind == unasked {
		s.End = max(s.End, g.end)
		return
	}
	back := g.start < s.Last
	if back { // our clock was set back
		s.Clock, s.Success = clock{}, 0
	}
	s.Last, s.End = g.start, g.end
	due := back || g.start-s.Shift >= t.rule.due()
	pulled := s.Drain
	s.Hold, s.Asked, s.Until, s.Drain = 0, false, 0, false
	s.load(g)
	hit := false
	switch g.kind {
	case described, unchanged:
		s.Silent, s.Errors = 0, 0
		hit = t.answered(g, due, pulled)
		s.drained(pulled, hit)
	case asleep:
		s.silent(t.rule, due)
	default:
		s.refused(g)
	}
	if hit {
		s.desynchronise(t.rule)
	} else if s.Active == Fixed {
		t.rule.miss(g.start, g.rtt)
	}
}

// answered feeds the rule and reports whether there was something new. The first body
// without publish instants is what later ones are compared with: when it was published
// is unknown.
func (t *Tracker) answered(g signal, due, pulled bool) bool {
	s := &t.s
	before := s.Success
	s.Success = g.start
	s.Clock.answer(g, before, s.Limits.MaxGap)
	s.fresh(g)
	var seen sightings
	hit := g.kind == described
	if hit {
		s.Hits++
		seen = s.sightings(g, before, pulled)
		hit = !seen.repeated && (len(seen.fresh) > 0 || before != 0)
	}
	if !hit {
		if due {
			t.rule.miss(g.start-s.Shift, g.rtt)
		}
		if g.kind == described && !seen.repeated {
			t.judge(false)
		}
		return false
	}
	s.Drain = seen.overrun && s.drains()
	t.judge(len(seen.fresh) > 0)
	t.rule.hit(max(g.start, last(seen.fresh)), seen.fresh, len(seen.fresh) > 0)
	return true
}

// last is the newest instant of those that the visit showed: it may have been published
// while the answer was under way.
func last(ascending []int64) int64 {
	if n := len(ascending); n > 0 {
		return ascending[n-1]
	}
	return -farAway
}

// sightings are the publish instants that a hit shows, if they may be used.
func (s *state) sightings(g signal, before int64, pulled bool) sightings {
	if s.Limits.Times == TimesHide {
		return sightings{}
	}
	return s.Clock.take(g, circumstances{
		before: before, slack: s.Limits.MaxGap, sure: s.Limits.Times == TimesTrust,
		pulled: pulled, drains: s.drains(),
	})
}

// drains reports whether a backlog is pulled at once.
func (s *state) drains() bool { return s.Pulls < maxPulls && s.Dry < maxDry }

// fresh keeps what a publisher says of the next change. A fixed Max-Age is a hint only
// while no period is known, and only if it is not a small one that every answer has; the
// end of a countdown is the next publication.
func (s *state) fresh(g signal) {
	if g.stated && (g.maxAge > defaultMaxAge.Milliseconds() || s.Clock.countdown()) {
		s.Until = g.end + min(g.maxAge, s.Limits.MaxGap)
	}
}

// drained ends a drain that went dry.
func (s *state) drained(pulled, hit bool) {
	switch {
	case pulled && !hit:
		s.Dry++
	case pulled:
		s.Dry = 0
	}
	s.Pulls++
	if !s.Drain {
		s.Pulls = 0
	}
}

// refused waits as long as the sensor asked for (Max-Age of 5.03 and 4.29). Any other
// error is likely to stay: its retries double from the bootstrap interval on. Neither is
// a miss of the rule.
func (s *state) refused(g signal) {
	if g.contact {
		s.Silent = 0
	}
	if g.kind == busy && !g.weak {
		s.Hold, s.Asked = s.End+min(g.retry, s.Limits.MaxGap), true
		return
	}
	s.Errors++
	s.Hold = s.Last + doubled(s.Limits.Bootstrap, s.Errors-1, s.Limits.MaxGap)
	if g.kind == busy {
		s.Hold = max(s.Hold, s.End+min(g.retry, s.Limits.MaxGap))
	}
}

// silent looks again at the next epoch after the first timeout, since a lost datagram
// is likelier than a lost phase, and then like a Search.
func (s *state) silent(r rule, due bool) {
	s.Silent++
	if !due || s.Active == Fixed {
		return
	}
	if period := known(r); s.Silent == 1 && period > 0 {
		s.Hold = grid(r.due()+s.Shift-period, period, s.Last+s.Limits.MinGap)
		return
	}
	k := s.Silent
	s.Hold = s.Last + int64(s.Limits.searchGap(k)*spacing(mix(uint64(s.Contact)), k))
}

// known is the believed period in whole ms, 0 while there is none.
func known(r rule) int64 {
	period, _, _ := r.stats()
	return int64(min(period, float64(farAway)))
}

// load follows how often the sensor refuses as busy (4.29 and 5.03).
func (s *state) load(g signal) {
	if !g.contact {
		return
	}
	now := 0.0
	if g.kind == busy {
		now = 1
	}
	if s.Load += (now - s.Load) / loadMemory; s.Load < leastLoad/loadMemory {
		s.Load = 0
	}
}

// desynchronise draws by how much the looks until the next hit come later (DPT paper,
// 6.4): up to the configured span and, where the sensor is overloaded, up to that share
// of a period.
func (s *state) desynchronise(r rule) {
	if s.Active == Fixed {
		s.Shift = 0
		return
	}
	width := float64(s.Limits.Desync)
	if s.Load >= leastLoad {
		width += s.Load * max(float64(known(r)), float64(s.Limits.Bootstrap))
	}
	width = min(width, float64(s.Limits.MaxGap))
	s.Seed = mix(s.Seed)
	s.Shift = int64(width * fraction(s.Seed))
}
