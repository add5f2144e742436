package dpt

import (
	"cmp"
	"fmt"
	"math"
	"slices"
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
		ok = ok && c.Period >= minPeriod/32 && c.Start < c.End && c.End-c.Start < c.Period && c.Guard >= 0
	}
	if !ok {
		return fmt.Errorf("claim of period %v s, window %v .. %v s", c.Period, c.Start, c.End)
	}
	return nil
}

// cycle is the time after which the claimed plan repeats itself, s.
func (c *claimState) cycle() float64 {
	if c.masked() {
		return 7 * c.Period
	}
	return c.Period
}

// masked reports whether the sensor leaves out days of the week.
func (c *claimState) masked() bool { return c.Daily && c.On != everyDay }

// everyDay is the mask of a sensor that leaves out no day.
var everyDay = [7]bool{true, true, true, true, true, true, true}

// agrees reports whether a look at t, s after Ref, is what the claim says, well away from
// the edges of its windows.
func (c *claimState) agrees(t float64, awake bool) bool {
	width := c.End - c.Start
	mid := (c.Start + c.End) / 2
	k := math.Round((t - mid) / c.Period)
	off := math.Abs(t - mid - k*c.Period)
	clear := max(c.Guard, width/8)
	if awake {
		return off < width/2-clear && (!c.Daily || c.On[mod7(k)])
	}
	return off > width/2+clear || c.Daily && !c.On[mod7(k)]
}

// What a claim needs.
const (
	claimMass   = 0.95  // weight of the period
	claimOthers = 0.003 // weight of the periods far from it
	claimEdge   = 0.07  // share of a window to which each edge is known
	claimDrift  = 0.15  // the same some windows ahead
	ahead       = 60    // windows for which a claim has to hold
	keptEdge    = 0.03  // the same while a claim is kept up
	claimHits   = 4     // windows met in their middle after the period was found
	claimOdds   = 2.5   // log of the odds against a sensor that wakes at random
)

// judge claims what the belief allows, and keeps an older claim else.
func (s *learnerState) judge(b *belief) {
	if s.Base == 0 {
		s.Base = s.Probes
	}
	now := s.Last
	if s.claimedPeriod() == 0 && (!b.periodic() || s.Poor || !b.settled()) {
		if b.alwaysAwake() {
			s.claim(claimState{Always: true, Ref: b.ref, Confidence: b.answeredShare()}, now)
		}
		return
	}
	if !b.periodic() {
		return
	}
	if s.Claimed != nil && s.Claimed.Always {
		s.Claimed = nil // it sleeps after all
	}
	f := b.fits[0]
	if !b.settled() || !b.sharpEdges() || !b.allDays(f) {
		return
	}
	if s.Claimed == nil && !s.tried(b) {
		return
	}
	s.claim(b.claimed(), now)
}

// tried reports whether windows were met in their middle, over a long enough time, and
// whether that cannot be chance.
func (s *learnerState) tried(b *belief) bool {
	few := func(hits, misses int) bool { return float64(misses) <= 1+missedShare*float64(hits) }
	hits, misses := b.fresh(b.fits[0], seconds(max(s.Settled, s.Revoked)-b.ref))
	return hits >= claimHits && few(hits, misses) &&
		few(b.fresh(b.fits[0], seconds(s.Revoked-b.ref))) &&
		b.span() >= tested(b.period) && b.evidenceLog-b.random() >= claimOdds &&
		len(b.unmet(b.fits[0])) == 0
}

// A turn are the windows whose number leaves rest after division by every.
type turn struct{ every, rest int }

func (t turn) has(k float64) bool {
	return wrap(k, float64(t.every)) == float64(t.rest)
}

// unmet are the turns in which there was no contact yet: a sensor that leaves out every
// second, third or fourth window has another plan. Those that wake some times a day at
// most are left to the days of the week.
func (b *belief) unmet(f *fit) []turn {
	if f.Period > day/4 {
		return nil
	}
	var turns []turn
	for every := 2; every <= 4; every++ {
		for rest := range every {
			t := turn{every, rest}
			if !slices.ContainsFunc(b.looks, func(l look) bool {
				return l.awake && l.trust > revokedTrust && t.has(f.cycle(l.at))
			}) {
				turns = append(turns, t)
			}
		}
	}
	return turns
}

// missedShare is how many windows may be missed per window met, beyond one: more than
// losses explain, and the sensor leaves windows out.
const missedShare = 0.2

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
	return b.known(f.start, claimEdge*width) && b.known(f.end, claimEdge*width) &&
		b.known(f.start+ahead*f.Period, claimDrift*width) &&
		b.known(f.end+ahead*f.Period, claimDrift*width)
}

// What a day needs to be taken for one without a window.
const (
	offLooks = 2    // unanswered looks in the middle of windows
	offLost  = 1e-3 // chance that all of them, and those of a day off beside it, were lost
)

// allDays reports whether it is known of every weekday whether the sensor wakes.
func (b *belief) allDays(f *fit) bool {
	for c, on := range f.on {
		if f.daily && (on > 0.1 && on < 0.9 || on <= 0.1 && !b.off(f, c)) {
			return false
		}
	}
	return true
}

// off reports whether it is beyond doubt that the sensor leaves out the days c. Two days in
// a row, such as weekends, speak for each other.
func (b *belief) off(f *fit, c int) bool {
	silent := [7]float64{}
	for _, l := range b.looks {
		if !l.awake && f.core(l.at) {
			silent[mod7(f.cycle(l.at))] += l.trust
		}
	}
	both := 0.0
	for _, d := range []int{(c + 1) % 7, (c + 6) % 7} {
		if f.on[d] < 0.5 {
			both = max(both, silent[d])
		}
	}
	return silent[c] > offLooks-0.5 &&
		(silent[c]+both)*math.Log(max(b.loss, initialLoss)) < math.Log(offLost)+0.5
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

// tested is the time that contacts have to span before a claim, s: a nice period that is
// wrong by little shows only then.
func tested(period float64) float64 { return min(ahead*period, 4*day) }

// span is the time between the oldest and the newest contact.
func (b *belief) span() float64 { return -b.oldest }

// What tells a sensor that never sleeps.
const (
	awakeSpan  = 1.1 * day
	awakeShare = 0.7  // of looks answered
	awakeLooks = 40   // looks
	rareBreaks = 0.02 // share of silences that losses alone explain
	soonAgain  = 60   // s after a silence: one that sleeps is likely still asleep
	awakeOdds  = 3    // log of the odds against a sleeper that those looks have to come to
)

// The chances that a look soon after a silence is silent too, of a sensor that sleeps for
// half a minute or more, and of one that never sleeps but loses a sixth of its answers.
const (
	asleepAgain = 0.6
	lostAgain   = 1. / 6
)

// alwaysAwake reports whether the sensor was awake for more than a day: that it was silent
// says little, as answers get lost, but if it sleeps then silences come in runs. A sleeper
// that is silent for a few seconds at a time is not told from one that loses answers.
func (b *belief) alwaysAwake() bool {
	if b.span() < awakeSpan || b.answeredShare() < awakeShare {
		return false
	}
	looks, silent, odds := 0.0, 0.0, 0.0
	last := look{awake: true}
	for _, l := range b.looks {
		if l.at < b.oldest {
			continue
		}
		switch again := !last.awake && l.at-last.at <= soonAgain; {
		case again && l.awake:
			odds += math.Log((1 - lostAgain) / (1 - asleepAgain))
		case again:
			odds += math.Log(lostAgain / asleepAgain)
		case !l.awake:
			silent++
			fallthrough
		default:
			looks++
		}
		last = l
	}
	return looks >= awakeLooks && (silent <= rareBreaks*looks || odds >= awakeOdds)
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
func (b *belief) claimed() claimState {
	f := b.fits[0]
	m := b.rhythm(f)
	c := claimState{Ref: b.ref, Period: m.period, Start: m.start, End: m.end, Daily: f.daily}
	if f.Step == 0 && f.weight > 0.5 {
		c.Period, c.Start, c.End = f.Period, f.start, f.end
	}
	for i, on := range f.on {
		c.On[i] = on > 0.5
	}
	c.Guard = max(b.guard(c), b.fuzz(c))
	overlap := 1 - (f.startSD+f.endSD+b.sd*ahead)/(c.End-c.Start)
	c.Confidence = min(max(b.mass*overlap, 0), 1)
	return c
}

// guard is how far from the edges the sensor is awake with probability .95, now and when
// the claim will have been looked after again; at most a third of the window.
func (b *belief) guard(c claimState) float64 {
	const steps = 64
	width := c.End - c.Start
	later := math.Ceil(2*keepEvery(c.Period)/c.Period) * c.Period
	for i := range steps {
		g := width / 3 * float64(i) / steps
		if min(b.sureAt(c.Start+g), b.sureAt(c.End-g), b.sureAt(c.Start+g+later),
			b.sureAt(c.End-g+later)) > 0.95 {
			return g
		}
	}
	return width / 3
}

// fuzz is how far into the window silences reach that losses do not explain: the start of
// each window jitters by about that much. At most a third of the window.
func (b *belief) fuzz(c claimState) float64 {
	third := (c.End - c.Start) / 3
	var depths []float64 // of the looks in the outer thirds, silences negative
	for _, l := range b.looks {
		from := wrap(l.at-c.Start, c.Period)
		d := min(from, c.End-c.Start-from)
		if d < 0 || d > third {
			continue
		}
		if !l.awake {
			d = -d
		}
		depths = append(depths, d)
	}
	slices.SortFunc(depths, func(x, y float64) int { return cmp.Compare(math.Abs(y), math.Abs(x)) })
	all, silent := 0.0, 0.0
	for _, d := range depths {
		if all++; d < 0 {
			silent++
		}
		if silent > 2*b.loss*all+1 {
			return math.Abs(d)
		}
	}
	return 0
}

// sureAt is the chance of being awake at t if the sensor has a window then at all.
func (b *belief) sureAt(t float64) float64 {
	p := 0.0
	for _, f := range b.fits {
		q := f.awake(t)
		if f.daily {
			q /= max(f.on[mod7(f.cycle(t))], 1e-9)
		}
		p += f.weight * q
	}
	return p
}

// keepEvery is how often a claimed window is looked after, s.
func keepEvery(period float64) float64 { return max(day/2, 3*period) }

// wideGuard is the share of a window at which a claim is looked after more often.
const wideGuard = 0.1

// keep is how long the next probe waits after the last one, s.
func (s *learnerState) keep() float64 {
	c := s.Claimed
	if c.Guard > wideGuard*(c.End-c.Start) {
		return min(max(seconds(s.Limits.MaxGap), 3*c.Period), keepEvery(c.Period))
	}
	return keepEvery(c.Period)
}

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
	if c.masked() {
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
