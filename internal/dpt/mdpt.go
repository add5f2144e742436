package dpt

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// MDPT is the rendezvous of several sources (DPT paper, section 6.5 and Algorithm 3): a
// group is republished as soon as m of its n sources have published since it was last
// republished, and its sources are looked at when that many are expected to have.
//
// MDPT holds no tracker. It is told what each source's own tracker, or plan, expects, and
// says when which sources are looked at; what became of a look goes to the tracker first
// and then, with what the tracker expects now, to MDPT. The printed algorithm is read as
// follows.
//
//   - A source that was looked at in vain is no candidate any more: it is expected again
//     when its tracker would retry, MinGap later at the least. As printed it stays a
//     candidate, is looked at again at once for as long as the round lasts, and the sources
//     to wait for run out.
//   - A candidate is looked at Floor after its expected publication at the least, since a
//     look that comes early costs a whole period of that source.
//   - With the candidate threshold that the paper describes and leaves out, looks begin when
//     m + Spare sources are expected; m of them suffice to republish.
//   - Sources that a plan crawls count, and are not looked at for the group's sake.
//
// n = m = 1 looks whenever the tracker would. It serialises to JSON; looks under way are
// not stored, as those of a process that was killed never end.
type MDPT struct{ s groupState }

// Condition says when a group is republished.
type Condition struct {
	Sources int           // n, 1 .. 1000
	AtLeast int           // m, 1 .. Sources
	Spare   int           // sources expected beyond m before any is looked at, >= 0
	MinGap  time.Duration // from one look at a source to the next, 1ms .. 366 days
	Floor   time.Duration // least lateness of a look, 0 .. 1 h; see DefaultFloor
}

// DefaultFloor of looks at a group's sources: half a minute late costs every snapshot half
// a minute, a second early costs some of them a period.
const DefaultFloor = 30 * time.Second

// MaxSources bounds a group.
const MaxSources = 1000

// Expected is what the tracker or the plan of a source says now. Its zero value says that
// the source is not expected: it has not been found yet, or nothing is planned for it.
type Expected struct {
	At   time.Time     // next look of its own, be it the first at an epoch or a retry
	Late time.Duration // how far At lies behind the publication; DPT-L: a standard deviation
	// Planned: the source is crawled at At whatever the group does.
	Planned bool
}

// Step is what a group wants next.
type Step struct {
	At        time.Time
	Looks     []int // sources to look at then, ascending
	Republish bool  // nothing more to look at: republish and call Republished
	Why       string
}

type groupState struct {
	AtLeast int           `json:"m"`
	Spare   int           `json:"k,omitempty"`
	MinGap  int64         `json:"n"`
	Floor   int64         `json:"f,omitempty"`
	Met     int64         `json:"t,omitempty"` // when the condition became true, if it has
	Sources []sourceState `json:"s"`
}

// sourceState is a member of one of the paper's sets: S_r if ready, S_c if asked, else S_n.
type sourceState struct {
	Known   bool  `json:"k,omitempty"` // it is expected
	Planned bool  `json:"p,omitempty"`
	Due     int64 `json:"d,omitempty"` // when it is expected, Floor included
	Looked  bool  `json:"l,omitempty"` // Look is known
	Look    int64 `json:"a,omitempty"` // start of the last look
	Ready   bool  `json:"r,omitempty"` // published since the group was last republished
	asked   bool  // a look at it is under way
}

// NewMDPT begins with no source expected and none ready. The error names the number that is
// out of range.
func NewMDPT(c Condition) (*MDPT, error) {
	s := groupState{AtLeast: c.AtLeast, Spare: c.Spare,
		MinGap: int64((c.MinGap + time.Millisecond - 1) / time.Millisecond),
		Floor:  int64((c.Floor + time.Millisecond - 1) / time.Millisecond)}
	if c.Sources >= 1 && c.Sources <= MaxSources {
		s.Sources = make([]sourceState, c.Sources)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("dpt: group of %d sources: %w", c.Sources, err)
	}
	return &MDPT{s}, nil
}

// Expect takes what source says now where no look has ended, such as a new plan.
func (g *MDPT) Expect(source int, e Expected) {
	s := &g.s.Sources[source]
	s.Known, s.Planned = !e.At.IsZero(), e.Planned
	s.Due = clipped(ceilMilli(e.At))
	if !e.Planned {
		s.Due += max(0, g.s.Floor-e.Late.Milliseconds())
	}
}

// Begin takes that a look at source which a Step asked for has begun. Until Observe takes
// what became of it the group wants nothing else.
func (g *MDPT) Begin(source int) { g.s.Sources[source].asked = true }

// Observe takes a look at source, whoever asked for it, that began at `at`: hit tells
// whether it found something new, e what the source's tracker or plan says after it.
func (g *MDPT) Observe(source int, at time.Time, hit bool, e Expected) {
	s := &g.s.Sources[source]
	s.asked = false
	s.Looked, s.Look = true, clipped(ceilMilli(at))
	if hit && !s.Ready {
		s.Ready = true
		if g.count() == g.s.AtLeast {
			g.s.Met = s.Look
		}
	}
	g.Expect(source, e)
}

// Republished begins the next round. Every source that was ready is part of what has been
// republished.
func (g *MDPT) Republished() {
	for i := range g.s.Sources {
		g.s.Sources[i].Ready = false
	}
	g.s.Met = 0
}

// Ready is the number of sources with something new since the last republication.
func (g *MDPT) Ready() int { return g.count() }

// Next says what the group wants next, or with false why it can only wait. It changes
// nothing. Step.At is not before now. Two looks at one source are at least MinGap apart
// unless the clock was set back.
func (g *MDPT) Next(now time.Time) (Step, bool) {
	ready, ms := g.count(), clipped(ceilMilli(now))
	under := fmt.Sprintf("mdpt: %d of %d ready", ready, g.s.AtLeast)
	asked := slices.ContainsFunc(g.s.Sources, func(s sourceState) bool { return s.asked })
	switch {
	case asked:
		return Step{Why: under + ", looks under way"}, false
	case ready >= g.s.AtLeast:
		return g.complete(now, under), true
	}
	order := g.expected(ms)
	need := min(g.s.AtLeast+g.s.Spare-ready, len(order))
	if need == 0 {
		return Step{Why: under + ", no source is expected"}, false
	}
	at := max(g.due(order[need-1], ms), ms)
	step := Step{At: instantOf(at, now), Why: fmt.Sprintf("%s, %d more expected", under, need)}
	for _, i := range order {
		if g.due(i, ms) <= at && !g.s.Sources[i].Planned {
			step.Looks = append(step.Looks, i)
		}
	}
	if len(step.Looks) == 0 {
		return Step{Why: under + ", the others are crawled by plan"}, false
	}
	slices.Sort(step.Looks)
	return step, true
}

// complete looks once more at the ready sources that have published again since, and then
// republishes.
func (g *MDPT) complete(now time.Time, why string) Step {
	step := Step{At: instantOf(clipped(ceilMilli(now)), now), Why: why}
	for i, s := range g.s.Sources {
		if s.Ready && s.Known && !s.Planned && g.due(i, g.s.Met) <= g.s.Met {
			step.Looks = append(step.Looks, i)
		}
	}
	if step.Republish = len(step.Looks) == 0; !step.Republish {
		step.Why += ", looks for still newer data"
	}
	return step
}

// expected are the sources that are not ready and expected, the first one first.
func (g *MDPT) expected(now int64) []int {
	var order []int
	for i, s := range g.s.Sources {
		if s.Known && !s.Ready {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(g.due(a, now), g.due(b, now))
	})
	return order
}

// due is when source i is expected, MinGap after the last look at it. A look in the future
// says that the clock was set back since.
func (g *MDPT) due(i int, now int64) int64 {
	s := g.s.Sources[i]
	if s.Looked && s.Look <= now {
		return max(s.Due, s.Look+g.s.MinGap)
	}
	return s.Due
}

func (g *MDPT) count() (ready int) {
	for _, s := range g.s.Sources {
		if s.Ready {
			ready++
		}
	}
	return ready
}

// MarshalJSON writes the state, the condition included: about 60 bytes a source.
func (g *MDPT) MarshalJSON() ([]byte, error) { return json.Marshal(g.s) }

// UnmarshalJSON restores what MarshalJSON wrote. It refuses numbers out of range and leaves
// g as it was then.
func (g *MDPT) UnmarshalJSON(data []byte) error {
	var s groupState
	err := json.Unmarshal(data, &s)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return fmt.Errorf("dpt: restore group: %w", err)
	}
	g.s = s
	return nil
}

func (s *groupState) check() error {
	const hour, longest = int64(time.Hour / time.Millisecond), int64(maxMaxGap / time.Millisecond)
	n := len(s.Sources)
	switch {
	case n < 1 || n > MaxSources:
		return fmt.Errorf("sources must be 1 .. %d", MaxSources)
	case s.AtLeast < 1 || s.AtLeast > n:
		return fmt.Errorf("at least %d: must lie in 1 .. %d", s.AtLeast, n)
	case s.Spare < 0 || s.Spare > MaxSources:
		return fmt.Errorf("spare %d: must lie in 0 .. %d", s.Spare, MaxSources)
	case s.MinGap < 1 || s.MinGap > longest:
		return fmt.Errorf("min gap %d ms: must lie in 1ms .. %v", s.MinGap, maxMaxGap)
	case s.Floor < 0 || s.Floor > hour:
		return fmt.Errorf("floor %d ms: must lie in 0 .. 1h", s.Floor)
	}
	for i, src := range s.Sources {
		for _, ms := range []int64{src.Due, src.Look, s.Met} {
			if ms != min(max(ms, -farAway), farAway+hour) {
				return fmt.Errorf("source %d: instant %d ms", i, ms)
			}
		}
	}
	return nil
}

// clipped keeps an instant where sums of it do not overflow.
func clipped(ms int64) int64 { return min(max(ms, -farAway), farAway) }

// instantOf is an instant of the package, not before now.
func instantOf(ms int64, now time.Time) time.Time {
	if at := time.UnixMilli(ms).UTC(); at.After(now) {
		return at
	}
	return now
}
