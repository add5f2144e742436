package dpt

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// A look is one instant at which it was seen whether the sensor answers. Seconds from
// evidence.ref.
type look struct {
	at    float64
	awake bool
	trust float64 // 0 .. 1, multiplies the log-likelihood of the look
	// weight is by how much the log-likelihood rises if the look moves into the window.
	weight float64
}

// evidence is the history in the form the fits want it: looks ascending in time.
//
// A look inside an awake window is answered with probability 1-loss, one outside with
// probability stray. So moving a look from outside to inside multiplies the likelihood
// by (1-loss)/stray if it was answered and by loss/(1-stray) if not.
type evidence struct {
	ref     int64 // newest contact, Unix ms
	looks   []look
	loss    float64
	stray   float64 // log of the chance of an answer outside of a window
	scale   float64 // rough length of an awake window, s
	oldest  float64 // oldest contact, s
	chain   float64 // see farthest; 0 = not worked out
	middle  int     // number of the first look from ref on; 0 = not worked out
	weekday int     // UTC weekday of ref
}

const (
	// stray is the chance of an answer outside of a window: a late timer or a jump of
	// a clock, not a rule.
	stray = 1e-3
	// strayFirst is the same of the first fewContacts answers: after hundreds of silences
	// it would be likelier that the one answer is no sign of a window than that the window
	// is as short as it must be.
	strayFirst  = 1e-8
	fewContacts = 8
	// halfTrust is the age at which a look counts half: the clock of a sensor that
	// paces itself by delays walks away from where it once was.
	halfTrust = 14 * day
	// revokedTrust is what a look from before a revocation counts.
	revokedTrust = 0.1

	initialLoss = 0.1
	leastLoss   = 0.03
	mostLoss    = 0.3
)

// maxLooks bounds the history. A sensor awake for one part in 400 takes some 250 looks.
// Of a claimed plan those near the edges are enough.
const (
	maxLooks  = 320
	keptLooks = 128
)

// sighting is a look in storage: Unix ms times two, plus one if it was answered.
type sighting int64

func newSighting(ms int64, awake bool) sighting {
	s := sighting(ms) << 1
	if awake {
		s |= 1
	}
	return s
}

func (s sighting) ms() int64   { return int64(s >> 1) }
func (s sighting) awake() bool { return s&1 == 1 }

// seen is what a visit shows of the sensor's sleep, if anything. A confirmable request
// that a later transmission got answered shows the sensor awake at the end of the
// exchange; of the transmissions before it nothing is known, as the answer may be to
// any of them. Of one that was never answered only the first transmission has a known
// instant. A visit that failed without contact is no evidence.
func seen(o visit.Outcome) (at int64, awake, ok bool) {
	start, end := instants(o)
	switch {
	case o.Result == visit.Missed:
		return 0, false, false
	case answered(o) && o.Retransmissions > 0:
		return end, true, true
	case answered(o):
		return start, true, true
	case o.Result == visit.Asleep:
		return start, false, true
	}
	return 0, false, false
}

// remember puts a look into its place in the history and drops what is over the bound.
func (s *learnerState) remember(at int64, awake bool) {
	if awake {
		s.Contacts++
		s.Quiet = 0
	} else {
		s.Quiet++
	}
	x := newSighting(at, awake)
	i := sort.Search(len(s.Seen), func(i int) bool { return s.Seen[i] > x })
	s.Seen = slices.Insert(s.Seen, i, x)
	limit := maxLooks
	if s.Claimed != nil {
		limit = keptLooks
	}
	for len(s.Seen) > limit {
		drop := s.leastTelling()
		s.Seen = slices.Delete(s.Seen, drop, drop+1)
	}
}

// allied is how many looks to either side in the fold have to agree with a look for it to
// tell nothing: fewer could be losses.
const allied = 3

// leastTelling is the oldest look that its neighbours in the fold agree with: it says
// nothing that they do not. Of answers and silences it is what there is more of, as visits
// follow the claim: they bring hardly any silence, and a window has to end somewhere.
// Without a claimed period it is the silence among silences whose neighbours are nearest to
// each other: steps through a gap say less than looks far apart, but there are more of them.
func (s *learnerState) leastTelling() int {
	n := len(s.Seen)
	if s.Contacts == 0 {
		return 0 // the sweep takes it up again first
	}
	if s.Claimed == nil || s.Claimed.Always {
		return s.narrowest()
	}
	keys := make([]uint64, n)
	for i, x := range s.Seen {
		phase := wrap(seconds(x.ms()-s.Claimed.Ref)-s.Claimed.Start, s.Claimed.Period)
		keys[i] = uint64(phase/s.Claimed.Period*(1<<50))<<phaseShift | uint64(i)
	}
	slices.Sort(keys)
	at := func(k int) sighting { return s.Seen[keys[(k+n)%n]&(1<<phaseShift-1)] }
	answers := 0
	for _, x := range s.Seen {
		if x.awake() {
			answers++
		}
	}
	drop, run := n, 0 // run counts equal looks before k
	for k := -2 * allied; k < n+allied; k++ {
		if run++; at(k).awake() != at(k-1).awake() {
			run = 1
		}
		if run > 2*allied && at(k).awake() == (2*answers > n) {
			drop = min(drop, int(keys[(k-allied+n)%n]&(1<<phaseShift-1)))
		}
	}
	if drop < n {
		return drop
	}
	return max(slices.IndexFunc(s.Seen, func(x sighting) bool {
		return x.awake() == (2*answers > n)
	}), 0)
}

// narrowest is the silence between two silences that are nearest to each other, the oldest
// of equals; the oldest look if there is none.
func (s *learnerState) narrowest() int {
	best, drop := int64(math.MaxInt64), 0
	for i := 1; i+1 < len(s.Seen); i++ {
		a, x, b := s.Seen[i-1], s.Seen[i], s.Seen[i+1]
		if gap := b.ms() - a.ms(); gap < best && !a.awake() && !x.awake() && !b.awake() {
			best, drop = gap, i
		}
	}
	return drop
}

// evidence prepares the history; false without any contact.
func (s *learnerState) evidence() (*evidence, bool) {
	last := -1
	for i, x := range s.Seen {
		if x.awake() {
			last = i
		}
	}
	if last < 0 {
		return nil, false
	}
	e := &evidence{ref: s.Seen[last].ms(), loss: s.Loss, looks: make([]look, len(s.Seen))}
	e.stray = math.Log(stray)
	if s.Contacts < fewContacts {
		e.stray = math.Log(strayFirst)
	}
	up, down := math.Log(1-e.loss)-e.stray, math.Log(e.loss/(1-stray))
	e.weekday = int(time.UnixMilli(e.ref).UTC().Weekday())
	newest := s.Seen[len(s.Seen)-1].ms()
	half := max(halfTrust, 30*s.Period)
	for i, x := range s.Seen {
		trust := math.Exp2(-seconds(newest-x.ms()) / half)
		if x.ms() < s.Revoked {
			trust *= revokedTrust
		}
		e.looks[i] = look{seconds(x.ms() - e.ref), x.awake(), trust, down * trust}
		if !x.awake() {
			continue
		}
		e.looks[i].weight = up * trust
		if e.oldest == 0 {
			e.oldest = e.looks[i].at
		}
	}
	e.scale = s.Scale
	if e.scale == 0 {
		e.scale = e.firstScale()
	}
	return e, true
}

func seconds(ms int64) float64 { return float64(ms) / 1000 }

// A meeting is a run of contacts in one awake window, as far as was seen.
type meeting struct {
	first, last   float64 // contacts
	before, after float64 // the second silences to either side, else +-Inf
}

// meetings are the runs of contacts in one window each, oldest first.
func (e *evidence) meetings() []meeting {
	var ms []meeting
	for i := 0; i < len(e.looks); i++ {
		if !e.looks[i].awake {
			continue
		}
		j := i
		for {
			next := e.joined(i, j)
			if next == j {
				break
			}
			j = next
		}
		ms = append(ms, meeting{e.looks[i].at, e.looks[j].at, e.silence(i, -1), e.silence(j, 1)})
		i = j
	}
	return ms
}

// Two contacts are in one window as long as they are not further apart than oneWindow times
// what was seen of it until then, windowSoon or half of the length that windows are known to
// have. A single silence between them is a lost answer then, up to lostLate. A window taken
// for two would show a period that is none, two taken for one would hide the period.
const (
	oneWindow  = 3
	windowSoon = 15 // s
	lostLate   = 60 // s
)

// joined is the contact after look j that belongs to the run from look i on; j if it ends.
func (e *evidence) joined(i, j int) int {
	least := max(windowSoon, oneWindow*(e.looks[j].at-e.looks[i].at))
	for k := j + 1; k < len(e.looks) && k <= j+2; k++ {
		if gap := e.looks[k].at - e.looks[j].at; e.looks[k].awake {
			if k == j+1 && gap <= max(least, e.scale/2) || k == j+2 && gap <= min(least, lostLate) {
				return k
			}
			return j
		}
	}
	return j
}

// recent is the first contact of the newest window, as far as two silences in a row tell
// windows apart.
func (e *evidence) recent() float64 {
	first, run := 0.0, 0
	for i := len(e.looks) - 1; i >= 0; i-- {
		l := e.looks[i]
		switch {
		case l.at > 0:
		case l.awake:
			first, run = l.at, 0
		default:
			if run++; run == 2 {
				return first
			}
		}
	}
	return first
}

// silence is the second silent look before or after look i.
func (e *evidence) silence(i, dir int) float64 {
	count := 0
	for i += dir; i >= 0 && i < len(e.looks); i += dir {
		if !e.looks[i].awake {
			if count++; count == 2 {
				return e.looks[i].at
			}
		}
	}
	return math.Inf(dir)
}

// firstScale is the length of the longest meeting or, if that was one contact, half the
// distance to the nearest silence.
func (e *evidence) firstScale() float64 {
	scale := 0.0
	nearest := math.Inf(1)
	for i, l := range e.looks {
		if i > 0 && l.awake != e.looks[i-1].awake {
			nearest = min(nearest, l.at-e.looks[i-1].at)
		}
	}
	for _, m := range e.meetings() {
		scale = max(scale, m.last-m.first)
	}
	if scale == 0 && !math.IsInf(nearest, 1) {
		scale = nearest / 2
	}
	return max(scale, 0.5)
}
