package dpt

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// The stages of learning.
const (
	stageSearch    = "search"    // no contact yet
	stageFollow    = "follow"    // in the first window
	stageGap       = "gap"       // after the first window
	stagePeriod    = "period"    // several windows, several periods or unknown edges
	stageValidate  = "validate"  // one period, known edges
	stageClaimed   = "claimed"   // a plan is claimed
	stageAwake     = "awake"     // claimed: never sleeps
	stageIrregular = "irregular" // much was spent and no plan found: few probes more
)

// plan stores the next decision.
func (l *Learner) plan(b *belief) {
	s := &l.s
	if s.Stage = s.stage(b); s.Stage == stageIrregular && s.rested() {
		s.Base, s.Cells, s.Lag = s.Probes, nil, 0
		s.Stage = s.stage(b)
	}
	s.Due, s.Why = l.choose(b, max(s.End, s.Last))
}

func (s *learnerState) stage(b *belief) string {
	switch {
	case s.Claimed != nil && s.Claimed.Always:
		return stageAwake
	case s.Claimed != nil:
		return stageClaimed
	case b == nil:
		return stageSearch
	case s.Probes-s.Base > s.effort():
		return stageIrregular
	case (!b.periodic() || s.Poor) && b.following(s):
		return stageFollow
	case !b.periodic() || s.Poor:
		return stageGap
	case b.settled() && b.sharpEdges():
		return stageValidate
	}
	return stagePeriod
}

// effort is how many probes after the first contact are spent before the sensor is
// taken for irregular.
const effort = 150

// effort grows with what was spent before.
func (s *learnerState) effort() int { return effort + s.Base/2 }

// pause is after how many times the effort a sensor that was taken for irregular is looked
// at closely again: it may have been misjudged, or have changed.
const pause = 4

func (s *learnerState) rested() bool { return s.Probes-s.Base > pause*s.effort() }

// choose is the next probe after now, ms.
func (l *Learner) choose(b *belief, now int64) (int64, string) {
	s := &l.s
	from := s.earliest(now)
	switch s.Stage {
	case stageFollow:
		return s.follow(b, from)
	case stageGap:
		return s.nextWindow(b, from)
	case stagePeriod, stageValidate:
		return s.disagreement(b, from)
	case stageClaimed:
		if s.Claimed.masked() && s.Probes%3 == 0 {
			return s.upkeep(from)
		}
		at, why := s.disagreement(b, max(from, s.Spent+int64(s.keep()*1000)))
		return at, "claimed: " + why
	case stageAwake:
		at := max(from, s.Last+(6*time.Hour).Milliseconds())
		return at, "awake: gap 6h0m0s"
	case stageIrregular:
		return s.search(from, "irregular")
	}
	return s.search(from, "search")
}

// upkeep is a look at the start or the end of a claimed window in turn. A plan that leaves
// out days has every third look in the middle of a window left out: a day that was left out
// for want of answers comes back.
func (s *learnerState) upkeep(from int64) (int64, string) {
	c := s.Claimed
	from = max(from, s.Spent+int64(s.keep()*1000))
	edge, on, why := c.Start, true, "claimed: start of a window"
	switch {
	case c.masked() && s.Probes%3 == 0:
		edge, on, why = (c.Start+c.End)/2, false, "claimed: a day without a window"
	case s.Probes%2 == 1:
		edge, why = c.End, "claimed: end of a window"
	}
	k := math.Ceil((seconds(from-c.Ref) - edge) / c.Period)
	for range 7 {
		if !c.Daily || c.On[mod7(k)] == on {
			break
		}
		k++
	}
	return c.Ref + int64(math.Ceil((edge+k*c.Period)*1000)), why
}

// search is the search at golden-ratio spacing; of a sensor that was never met and is
// rarely awake, the sweep.
func (s *learnerState) search(from int64, stage string) (int64, string) {
	l := s.Limits
	gap := float64(l.Bootstrap)
	wanted := gap * fraction(s.Seed)
	if k := s.Quiet; k > 0 || s.Contacts > 0 {
		if s.Contacts > 0 {
			k = s.Probes
		}
		gap = l.searchGap(k)
		if wanted = gap * spacing(s.Seed, s.Probes); s.Contacts == 0 && s.Quiet >= sweepFrom {
			wanted = s.sweep(gap)
		}
	}
	return max(from, s.Last+int64(wanted)), stage + ": gap " + rounded(gap)
}

// firstStep is the first look after the first contact, s.
const firstStep = 2

// longerFrom is the age of a window from which on steps are longer, s.
const longerFrom = 90

// following reports whether the sensor may still be in its first window: two silences in
// a row end it, three where there were so many looks that two losses are to be expected.
func (b *belief) following(s *learnerState) bool {
	need := 2
	if s.Contacts > 6 {
		need = 3
	}
	return s.Quiet < need
}

// follow about doubles the time since the first contact with each look, in steps up to
// MaxGap or, after the first window, to half of one. A silence is looked at again soon.
func (s *learnerState) follow(b *belief, from int64) (int64, string) {
	age := -b.recent()
	longest, step := seconds(s.Limits.MaxGap), max(age, firstStep)
	switch {
	case len(b.meetings()) > 1: // a window was followed before
		longest, step = max(longest, b.scale/2), max(step, b.scale/8)
	case age > longerFrom:
		step *= 2 // most windows are shorter, and the others long
	}
	step = min(step, longest)
	if s.Quiet > 0 {
		if step = max(step/8, firstStep); age > soonAgain*soonAgain {
			step = firstStep // a lost answer, or a short sleep
		}
	}
	// Even steps would be in phase with some period.
	step *= 0.75 + 0.5*fraction(s.Seed+uint64(s.Probes)*weyl)
	at := max(from, s.Last+int64(step*1000))
	return at, fmt.Sprintf("follow: awake for %v so far", rounded(age*1000))
}

// nextWindow looks for the second window. First come instants at which many of the nice
// periods have a window. When there are none left, looks follow as far apart as the
// window is likely to be long: they cannot step over the next one often.
func (s *learnerState) nextWindow(b *belief, from int64) (int64, string) {
	length := max(-b.recent(), b.scale)
	mid := b.recent() / 2
	patience := max(1.1*3600, 6*length*float64(b.before()+2))
	if s.Quiet > max(impatient, 3*b.before()) {
		patience = day
	}
	patience = min(patience, 1.1*day)
	t, share := b.jackpot(mid, seconds(from-b.ref), patience)
	if share >= b.worth() || share > 0 && s.Quiet > inVain && s.Quiet%4 == 0 {
		return b.ref + int64(math.Round(t*1000)),
			fmt.Sprintf("gap: %.0f%% of the likely periods have a window then", share*100)
	}
	// What was seen of the window may be its very end. But a sensor that was met after n
	// looks is awake for about one part in n, and it was asleep for this long already.
	step := wideStep * length * math.Pow(stepGrowth, float64(min(s.Quiet, mostGrown)))
	step = max(step, 1.5*b.covered()/float64(b.before()+2))
	gap := min(step, max(longStep*length, seconds(s.Limits.MaxGap)))
	at := max(from, s.Last+int64(gap*1000))
	return at, "gap: " + rounded(gap*1000) + " apart for the next window"
}

// Steps to the next window. Those longer than a window cost no more probes than those
// that are shorter: they step over some, but there are fewer up to each. So they start
// longer than what was seen of the window, and grow.
const (
	wideStep   = 4    // in lengths of what was seen
	longStep   = 2.5  // the same where that is more than the largest gap
	stepGrowth = 1.05 // per silence
	mostGrown  = 80   // silences up to which they grow
)

// inVain is the number of silences after which every fourth look goes where a nice period has
// a window, however little the chance: a rare window is not met on the way.
const inVain = 20

// impatient is the number of silences after which one more is worth a day's wait.
const impatient = 60

// before is the number of looks before the first contact.
func (b *belief) before() int {
	n := 0
	for _, l := range b.looks {
		if l.at < b.oldest {
			n++
		}
	}
	return n
}

// after is the number of looks since the newest contact.
func (b *belief) after() int {
	n := 0
	for _, l := range b.looks {
		if l.at > 0 {
			n++
		}
	}
	return n
}

// covered is the longest time since the newest contact that was looked through without
// larger steps than a window may be long.
func (b *belief) covered() float64 {
	longest, from, last := 0.0, 0.0, 0.0
	for _, l := range b.looks {
		if l.at <= 0 {
			continue
		}
		if l.at-last > max(8*b.scale, (last-from)/2) {
			from = l.at
		}
		last = l.at
		longest = max(longest, last-from)
	}
	return longest
}

// afar is what the silences say of a range of periods that are too far from ref to be
// brought into phase: each is one where the sensor is awake for some share of the time.
func (b *belief) afar(f *fit) float64 {
	reach, silent := b.reach(f.hypothesis), 0.0
	for _, l := range b.looks {
		if !l.awake && math.Abs(l.at) > reach {
			silent += l.trust
		}
	}
	duty := min((f.end-f.start)/f.Period, 1)
	return silent * math.Log(1-duty*(1-b.loss))
}

// Chances of a window for which the search for the next one waits.
const (
	worthWaiting = 0.2  // at any rate
	leastWaiting = 0.02 // never for less
	easilyFound  = 48   // looks before the first contact; after more the walk is hopeless
	waitingGain  = 4    // for so much more than a look on the way offers
)

// worth is the least chance of a window for which it is waited. A look on the way meets one
// with the chance of one in so many as there were before the first contact, and less the
// longer none did.
func (b *belief) worth() float64 {
	looks := float64(b.before()+2) + float64(b.after())/2
	return min(worthWaiting, max(waitingGain/looks, leastWaiting))
}

// jackpot is the instant after from at which the sensor is most likely awake if its
// period is a nice one, and how likely.
func (b *belief) jackpot(mid, from, patience float64) (at, share float64) {
	bn := &bench{}
	var fits []*fit
	best, elusive := math.Inf(-1), b.before() > easilyFound
	add := func(h hypothesis) *fit {
		f := b.fit(h, bn, h.Step == 0)
		if math.IsInf(f.logw, -1) {
			return nil
		}
		if elusive {
			f.logw += b.afar(f)
		}
		best = max(best, f.logw)
		return f
	}
	for _, p := range nicePeriods {
		if f := add(hypothesis{Period: p}); f != nil {
			fits = append(fits, f)
		}
	}
	// The others, as far as they are longer than what was looked through.
	var rest []*fit
	for p := max(2*b.scale, b.covered()); p < 2*week; p *= 1.25 {
		if f := add(hypothesis{p, p * 0.25}); f != nil {
			rest = append(rest, f)
		}
	}
	sum := 0.0
	for _, f := range slices.Concat(fits, rest) {
		f.weight = math.Exp(f.logw - best)
		sum += f.weight
	}
	for _, lag := range nicePeriods {
		t := mid + lag*math.Max(1, math.Ceil((from-mid)/lag))
		if t-from > patience {
			continue
		}
		p := 0.0
		for _, f := range fits {
			p += f.weight / sum * f.awake(t)
		}
		if p > 1.1*share {
			at, share = t, p
		}
	}
	return at, share
}
