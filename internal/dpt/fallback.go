package dpt

// timed reports whether the policy goes wrong with detection times: HZ and what tracks
// publications then take the poll for the publication and stay late for ever. Whoever
// hides the publish instants on purpose gets what he asks for, but not of HZ.
func (l limits) timed() bool {
	switch l.Policy {
	case Fixed, BB:
		return false
	case HZ:
		return true
	}
	return l.Times != TimesHide
}

// policy is the one whose rule fits what the sensor has shown so far.
func (s *state) policy() Policy {
	want := s.Limits.Policy
	switch {
	case !s.Limits.timed():
		return want
	case s.Limits.Times == TimesHide:
		return BB
	case s.Blind >= sureHits, s.Blind > 0 && !s.Ever:
		return BB
	case s.Timed >= sureHits:
		return want
	case s.Active == BB && s.Timed+s.Blind > 0: // not sure yet
		return BB
	}
	return want
}

// judge counts hits with and without publish instants and changes the rule when they
// come or stop coming.
func (t *Tracker) judge(timed bool) {
	s := &t.s
	if timed {
		s.Timed, s.Blind, s.Ever = min(s.Timed+1, sureHits), 0, true
	} else {
		s.Timed, s.Blind = 0, min(s.Blind+1, sureHits)
	}
	if p := s.policy(); p != s.Active {
		t.use(p)
	}
}

// Policy is the policy in use. reason says why it is not the configured one, "" where
// it is.
func (t *Tracker) Policy() (p Policy, reason string) {
	s := &t.s
	switch {
	case s.Active == s.Limits.Policy:
		return s.Active, ""
	case s.Limits.Times == TimesHide:
		return s.Active, "publish times hidden, instead of " + string(s.Limits.Policy)
	}
	return s.Active, "no publish times, instead of " + string(s.Limits.Policy)
}
