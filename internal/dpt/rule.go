package dpt

import (
	"encoding/json"
	"fmt"
)

// rule says from hits and misses alone when a sensor is looked at next. A Tracker holds
// one, keeps its looks within the gaps, and puts off what silence, a refusal or the
// sensor's own wish puts off; of none of these does a rule hear. It is restored into
// what newRule has made.
//
// Instants are Unix milliseconds, spans milliseconds. A rule is a value that serialises
// to JSON and never reads a clock; chance comes from a seed in its state. An instant
// before the last one means that the clock was set back.
type rule interface {
	// hit takes a look at `at` that showed something new: the publish instants it
	// showed since the last hit, ascending, or, where exact is false, none: all that
	// is known then is that it was published after the last look and not after `at`.
	hit(at int64, published []int64, exact bool)
	// miss takes a look at `at`, round trip rtt, that was due and found nothing new.
	miss(at, rtt int64)
	// due is when it wants to look.
	due() int64
	// why names what set due, with its number.
	why() string
	// pace is the gap expected after due, and the factor by which later gaps grow if
	// nothing is found.
	pace() (gap, growth float64)
	// stats are the believed period and the spread of publications around it, both 0
	// while unknown, and what the rule is doing, in one word.
	stats() (period, spread float64, mode string)
}

// newRule begins the rule of a policy at a contact, ms.
func newRule(p Policy, l limits, contact int64) rule {
	switch p {
	case Fixed:
		return newFixedInterval(l, contact)
	case HZ:
		return newHZ(l.hz(), contact)
	case BB:
		return newBracketing(l, contact, bbShare)
	}
	return newPublications(p, l, contact)
}

// cloned is an independent copy.
func cloned(r rule) rule {
	switch r := r.(type) {
	case *publications:
		return r.clone()
	case *fixedInterval:
		c := *r
		return &c
	case *hz:
		return r.clone()
	case *bracketing:
		return r.clone()
	}
	panic(fmt.Sprintf("dpt: rule %T", r))
}

// configured adopts changed limits and keeps what was learnt.
func configured(r rule, l limits) {
	switch r := r.(type) {
	case *publications:
		r.configure(l)
	case *fixedInterval:
		r.configure(l)
	case *hz:
		r.configure(l.hz())
	case *bracketing:
		r.s.Limits = l
	}
}

// hz is what the rule of that name takes of the limits.
func (l limits) hz() hzParams {
	return hzParams{Price: l.Price, Target: l.Polls, Bootstrap: l.Bootstrap, MinGap: l.MinGap,
		MaxGap: l.MaxGap}
}

// replaced begins the rule of a policy at an instant in place of one that was in use, and
// tells it what that one knows of publications.
func replaced(old rule, p Policy, l limits, at int64) rule {
	r := newRule(p, l, at)
	if was, ok := old.(*publications); ok {
		if is, ok := r.(*publications); ok {
			is.adopt(was)
			return r
		}
		if p != BB { // which has no use for publish instants
			was.tell(r, at)
		}
	}
	return r
}

// restoredRule reads what a rule has written.
func restoredRule(p Policy, l limits, contact int64, data json.RawMessage) (rule, error) {
	r := newRule(p, l, contact)
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("rule %s: %w", p, err)
	}
	if h, ok := r.(*hz); ok { // the others check as they read
		if err := h.check(); err != nil {
			return nil, fmt.Errorf("rule %s: %w", p, err)
		}
	}
	return r, nil
}
