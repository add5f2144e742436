package dpt

import (
	"fmt"
	"math"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// claimState is a Claim in storage; s, and s from Ref.
type claimState struct {
	Always     bool    `json:"a,omitempty"`
	Ref        int64   `json:"r"` // Unix ms
	Period     float64 `json:"p"`
	Start      float64 `json:"s"`
	End        float64 `json:"e"`
	Daily      bool    `json:"d,omitempty"`
	On         [7]bool `json:"o,omitzero"` // by cycle from Ref, modulo 7
	Guard      float64 `json:"g"`
	Confidence float64 `json:"c"`
	Since      int64   `json:"t"` // Unix ms
	Probes     int     `json:"n"`
}

func (c *claimState) check() error {
	if c.Ref > 2*farAway || c.Ref < -2*farAway || c.Since > 2*farAway || c.Since < -2*farAway {
		return fmt.Errorf("claim since %d ms", c.Since)
	}
	ok := inSpan(c.Start, c.End, c.Period, c.Guard) && c.Confidence >= 0 && c.Confidence <= 1
	if !c.Always {
		ok = ok && c.Period >= minPeriod/16 && c.Start < c.End && c.End-c.Start < c.Period && c.Guard >= 0
	}
	if !ok {
		return fmt.Errorf("claim of period %v s, window %v .. %v s", c.Period, c.Start, c.End)
	}
	return nil
}

// What a claim needs.
const (
	claimMass  = 0.99 // weight of the period
	claimEdge  = 0.06 // standard deviation of each edge, in windows
	claimDrift = 0.12 // that of the period times ahead, in windows
	ahead      = 60   // windows for which a claim has to hold
	claimHits  = 5    // windows met in their middle after the period was found
	claimOdds  = 4.0  // log of the odds against a sensor that wakes at random
)

// judge claims what the belief allows, and keeps an older claim else.
func (s *learnerState) judge(b *belief) {
	if s.Base == 0 {
		s.Base = s.Probes
	}
	now := s.Last
	if !b.periodic() {
		if b.alwaysAwake(s) {
			s.claim(claimState{Always: true, Ref: b.ref, Confidence: b.answeredShare()}, now)
		}
		return
	}
	if s.Claimed != nil && s.Claimed.Always {
		s.Claimed = nil // it sleeps after all
	}
	f := b.fits[0]
	if b.mass < claimMass || !b.sharpEdges() || !b.allDays(f) {
		return
	}
	hits, misses := b.fresh(f, seconds(max(s.Settled, s.Revoked)-b.ref))
	if hits < claimHits || float64(misses) > 1+0.3*float64(hits) {
		return
	}
	if s.Claimed == nil && b.evidenceLog-b.random() < claimOdds {
		return
	}
	s.claim(b.claimed(f), now)
}

// claim stores a claim; a running one keeps its age.
func (s *learnerState) claim(c claimState, now int64) {
	c.Since, c.Probes = now, s.Probes
	if old := s.Claimed; old != nil && old.Always == c.Always {
		c.Since, c.Probes = old.Since, old.Probes
	}
	s.Claimed = &c
}

// sharpEdges reports whether both edges are known, now and some windows ahead.
func (b *belief) sharpEdges() bool {
	f := b.fits[0]
	width := f.end - f.start
	return max(f.startSD, f.endSD) < claimEdge*width && b.sd*ahead < claimDrift*width
}

// allDays reports whether it is known of every weekday whether the sensor wakes.
func (b *belief) allDays(f *fit) bool {
	for _, on := range f.on {
		if f.daily && on > 0.1 && on < 0.9 {
			return false
		}
	}
	return true
}

// fresh counts the windows that were looked at in their middle half after t: those with
// contact, and those without.
func (b *belief) fresh(f *fit, t float64) (hits, misses int) {
	last, hit := math.Inf(-1), false
	for _, l := range b.looks {
		k := f.cycle(l.at)
		if l.at < t || !f.core(l.at) || f.daily && f.on[mod7(k)] < 0.5 {
			continue
		}
		switch {
		case k != last && l.awake:
			hits, hit = hits+1, true
		case k != last:
			misses, hit = misses+1, false
		case l.awake && !hit:
			hits, misses, hit = hits+1, misses-1, true
		}
		last = k
	}
	return hits, misses
}

// alwaysAwake reports whether the sensor was awake for more than a day without a break.
func (b *belief) alwaysAwake(s *learnerState) bool {
	run, longest := 0, 0
	for _, l := range b.looks {
		if run++; l.awake || l.at < b.oldest {
			run = 0
		}
		longest = max(longest, run)
	}
	return -b.oldest > 1.1*day && s.Contacts >= 20 && longest < 3 && b.answeredShare() > 0.7
}

// answeredShare is the share of answered looks since the first contact.
func (b *belief) answeredShare() float64 {
	all, contacts := 0.0, 0.0
	for _, l := range b.looks {
		if l.at < b.oldest {
			continue
		}
		all++
		if l.awake {
			contacts++
		}
	}
	return contacts / all
}

// claimed is the claim that the belief implies.
func (b *belief) claimed(f *fit) claimState {
	c := claimState{Ref: b.ref, Period: b.period, Start: f.start, End: f.end, Daily: f.daily}
	if f.Step == 0 && f.weight > 0.5 {
		c.Period = f.Period
	}
	for i, on := range f.on {
		c.On[i] = on > 0.5
	}
	width := f.end - f.start
	cycles := max(1, 2*keepEvery(f.Period)/f.Period)
	drift := b.sd * cycles
	sd := max(f.startSD, f.endSD)
	c.Guard = min(2*math.Sqrt(sd*sd+drift*drift), width/3)
	overlap := 1 - (f.startSD+f.endSD+b.sd*ahead)/width
	c.Confidence = min(max(b.mass*overlap, 0), 1)
	return c
}

// keepEvery is how often a claimed window is looked after, s.
func keepEvery(period float64) float64 { return max(day/2, 3*period) }

// Claim is the plan that was learned; false while there is none.
func (l *Learner) Claim() (Claim, bool) {
	c := l.s.Claimed
	if c == nil {
		return Claim{}, false
	}
	claim := Claim{
		Confidence: c.Confidence, Since: time.UnixMilli(c.Since).UTC(), Probes: c.Probes,
		Period: nanos(c.Period), Awake: nanos(c.End - c.Start), Guard: nanos(c.Guard),
	}
	if c.Always {
		claim.Plan = sleepplan.AlwaysOn()
		return claim, true
	}
	start := time.UnixMilli(c.Ref).UTC().Add(nanos(c.Start))
	var err error
	if c.Daily && c.On != [7]bool{true, true, true, true, true, true, true} {
		claim.Plan, err = c.weekly(start, claim.Awake)
		for d := range time.Saturday + 1 {
			if c.On[(int(d-start.Weekday())+7)%7] {
				claim.Weekdays = append(claim.Weekdays, d)
			}
		}
	} else {
		claim.Plan, err = sleepplan.Cycle(claim.Period, claim.Awake, start)
	}
	return claim, err == nil
}

func nanos(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }

// weekly writes the windows as an operator would, to the second.
func (c *claimState) weekly(start time.Time, awake time.Duration) (sleepplan.Plan, error) {
	const clock = "15:04:05"
	hours := start.Format(clock) + "-" + start.Add(awake).Format(clock)
	var entries []string
	for k, on := range c.On {
		if on {
			day := start.AddDate(0, 0, k).Weekday().String()[:3]
			entries = append(entries, day+" "+hours)
		}
	}
	return sleepplan.Weekly(entries, "", nil)
}
