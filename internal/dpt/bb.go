package dpt

import (
	"math"
	"slices"
)

// bracketing is the rule for sensors of which only changed or unchanged is visible.
//
// A miss followed by a hit brackets the publish instant. A hit at the first look of an
// epoch says only that it was published before, and a rule whose first looks all hit
// stays late for ever. So the first look is held where a set share of the publications
// is found by it (a phase-locked loop that tracks a quantile): every such hit moves it
// earlier until one misses, and after a miss it looks again soon.
//
// What looks tell of the phase goes to filters of several gains as censored data of a
// Laplace distribution (DPT paper, 5.1). The period comes from brackets only.
//
// It is wrong in one of these ways when the source changes:
//   - the phase is late, so that all first looks hit: after doubtful() of them in a row
//     some epochs get a look half a period before it, then a quarter, an eighth, ..
//   - it is early, so that each publication is found an epoch later: after a hit at a
//     later epoch it looks once more a while after it
//   - the period is a multiple of the true one: looks between two epochs, twelve when it
//     was found and one every so many hits, meet publications that are too close
//   - the period is a fraction of the true one: wholeRun distances, in epochs, are all
//     multiples of one number
//   - the sensor is silent: looks at the epochs 1, 2, 4, 8, .. after the last one found
type bracketing struct{ s bbState }

// bbMode says which look comes next.
type bbMode uint8

const (
	bbSurvey bbMode = iota // the period is unknown: looks a gap apart
	bbFirst                // the first look at the next epoch
	bbEarly                // before it: is the phase late?
	bbMiddle               // between two epochs: is the period a multiple?
	bbLate                 // after a hit at a later epoch: is the phase early?
	bbSeek                 // the phase is known to lie in a span: halve that
	bbAgain                // soon after a first look that missed
	bbGrid                 // the first look at epoch 2, 4, 8, .. after the newest found
	numBBModes
)

const (
	bbShare  = 0.8  // of the publications is to be found by the first look
	bbOutage = 15   // epochs beyond which a gap says nothing of losses and jitter
	lookable = 0.15 // least chance of a publication still to come that is worth a look
	lateDevs = 12   // bbLate comes that many deviations after the hit
)

// again is how long after a look the next one at the same epoch comes, in deviations;
// the tail of a Laplace distribution has no memory.
var again = [...]float64{1.5, 5}

// bbState is what is stored; instants are Unix milliseconds, spans milliseconds.
type bbState struct {
	Limits limits   `json:"l"`
	Share  float64  `json:"q"`           // of publications found by the first look
	Mode   bbMode   `json:"m,omitempty"` // which look is due
	Due    int64    `json:"d"`
	Last   int64    `json:"a"`           // the last look
	Hit    int64    `json:"i"`           // the last one that hit, or the first contact
	Missed bool     `json:"s,omitempty"` // Last missed, so that a bracket begins there
	Hits   int      `json:"h,omitempty"` // since the period was found
	Tries  int      `json:"n,omitempty"` // misses in a row: in a survey all, else epochs
	Looks  int      `json:"k,omitempty"` // looks again at this epoch
	Gap    float64  `json:"g"`           // mean one of the survey
	Probes int      `json:"u,omitempty"` // looks of surveys
	Marks  []bbMark `json:"w,omitempty"` // bracketed publications, oldest first

	Period  float64                `json:"p,omitempty"` // 0 = unknown
	Epoch   int64                  `json:"e,omitempty"` // number of the newest one found
	Filters [len(bbGains)]bbFilter `json:"f"`
	Best    int                    `json:"b,omitempty"` // the filter that is believed
	Level   float64                `json:"z"`           // first look after the epoch, deviations
	Chain   bbChain                `json:"c"`
	Run     int                    `json:"r,omitempty"` // hits at the first look in a row
	Common  int64                  `json:"o,omitempty"` // divisor of the newest distances
	Whole   int                    `json:"y,omitempty"` // how many they are
	Middles int                    `json:"v,omitempty"` // looks between epochs to make
	Close   int                    `json:"x,omitempty"` // times that they hit
	Low     float64                `json:"j,omitempty"` // seeking: the next publication is
	High    float64                `json:"t,omitempty"` // expected in (Low, High]; 0 = not
}

// newBracketing begins at a contact, ms. share, 0 < share < 1, is that of publications
// which the first look at their epoch is to find: more saves looks and costs latency.
func newBracketing(l limits, contact int64, share float64) *bracketing {
	s := bbState{Limits: l, Share: share, Last: contact, Hit: contact}
	s.survey(float64(l.Bootstrap))
	return &bracketing{s}
}

func (b *bracketing) due() int64 { return b.s.Due }

func (b *bracketing) clone() *bracketing {
	c := *b
	c.s.Marks = slices.Clone(b.s.Marks)
	return &c
}

// hit takes a look that showed something new. Publish times are not used: a rule that
// does is better where they are to be had.
func (b *bracketing) hit(at int64, _ []int64, _ bool) {
	s := &b.s
	low := s.Hit
	if s.Missed {
		low = s.Last
	}
	if at <= low { // the clock was set back
		s.Last, s.Hit, s.Missed = at, at, false
		s.survey(s.Gap)
		return
	}
	was := s.Mode
	if s.Period == 0 {
		s.surveyed(low, at)
	} else {
		s.tracked(low, at)
	}
	s.Last, s.Hit, s.Missed = at, at, false
	s.Tries, s.Looks = 0, 0
	if s.Period == 0 {
		s.probe()
		return
	}
	s.plan(was)
}

// plan is made after a hit.
func (s *bbState) plan(was bbMode) {
	if s.High > 0 {
		s.seek()
		return
	}
	k, first := s.firstLook(s.Last)
	s.Mode, s.Due = bbFirst, first
	if was == bbGrid {
		s.before(first, bbLate, s.Last+max(int64(lateDevs*s.filter().Dev), resolution))
		return
	}
	if k > 1 {
		return
	}
	if ahead := s.ahead(); ahead > 0 {
		s.before(first, bbEarly, first-int64(ahead))
	} else if low, known := s.notBefore(); known && s.Middles > 0 {
		s.before(first, bbMiddle, int64(low+0.7*s.Period))
	}
}

// before puts a look before the first one at the next epoch if there is time for it.
func (s *bbState) before(first int64, m bbMode, due int64) {
	if due > s.Last+s.Limits.MinGap && due < first-s.Limits.MinGap {
		s.Mode, s.Due = m, due
	}
}

// firstLook is the first look at an epoch that is due after the instant, and how many
// periods that epoch is after the newest one found.
func (s *bbState) firstLook(after int64) (k, at int64) {
	base := s.filter().Phase + s.aim()
	k = max(1, int64(math.Floor((float64(after+s.Limits.MinGap)-base)/s.Period))+1)
	return k, int64(math.Ceil(base + float64(k)*s.Period))
}

// aim is how long after an epoch the first look comes.
func (s *bbState) aim() float64 { return s.Level * s.filter().Dev }

func (s *bbState) filter() bbFilter { return s.Filters[s.Best] }

// miss takes a look that was due and found nothing new.
func (b *bracketing) miss(at, rtt int64) {
	s := &b.s
	back := at < s.Last
	s.Last, s.Missed = at, true
	switch {
	case back: // the clock was set back
		s.Hit = at
		s.survey(s.Gap)
	case s.Mode == bbSurvey:
		s.Tries++
		s.probe()
	case s.Mode == bbMiddle:
		s.Middles, s.Close = s.Middles-1, max(s.Close-1, 0)
		s.toFirst()
	case s.Mode == bbEarly, s.Mode == bbLate:
		s.toFirst()
	case s.Mode == bbSeek:
		s.sought()
	default:
		if !s.lookAgain(max(s.Limits.MinGap, resolution+rtt)) {
			s.toGrid()
		}
	}
}

func (s *bbState) toFirst() {
	s.Mode = bbFirst
	_, s.Due = s.firstLook(s.Last)
}

// lookAgain plans another look at the same epoch if that is worth it: at the first two
// epochs only, for in an outage it is not.
func (s *bbState) lookAgain(floor int64) bool {
	if s.Looks >= len(again) || s.Tries > 1 {
		return false
	}
	f := s.filter()
	step := max(int64(min(again[s.Looks]*f.Dev, s.Period/6)), floor)
	k, next := s.firstLook(s.Last)
	if s.Last+2*step >= next {
		return false
	}
	published := s.Chain.chance(k - 1)
	predicted := f.Phase + float64(k-1)*s.Period
	late := published * (1 - laplaceBelow(float64(s.Last)-predicted, f.Dev))
	if late < lookable*(late+1-published) {
		return false
	}
	s.Mode, s.Due = bbAgain, s.Last+step
	s.Looks++
	return true
}

// toGrid goes on to the epochs 2, 4, 8, .. after the newest publication, until the
// distance reaches the largest gap.
func (s *bbState) toGrid() {
	s.Mode, s.Looks = bbGrid, 0
	step := doubled(int64(s.Period), max(s.Tries-1, 0), s.Limits.MaxGap)
	s.Tries++
	if step >= s.Limits.MaxGap {
		s.Due = s.Last + s.Limits.MaxGap
		return
	}
	_, s.Due = s.firstLook(s.Last + step - int64(s.Period))
}
