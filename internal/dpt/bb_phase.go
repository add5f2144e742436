package dpt

import "math"

// bbGains are those of the filters: 1 follows a source whose jitter adds up (delay
// pacing), 0.05 one that keeps to a grid (wall-clock pacing).
var bbGains = [...]float64{1, 0.5, 0.2, 0.05}

const (
	bbMemory  = 0.03 // weight of a new observation in the means
	unlikely  = 1e-3 // probability below which an observation is an outlier
	levelGain = 0.1  // of the quantile tracker, in deviations
)

// bbFilter tracks the phase. Of each publication it is told bounds. Their distance from
// the predicted epoch is to it Laplace with mean 0 and mean magnitude Dev; it replaces
// the unknown deviation and its magnitude by their expectations within the bounds and
// moves Phase and Dev by a share of that.
type bbFilter struct {
	Phase float64 `json:"p"` // estimated publish instant of the newest epoch, Unix ms
	Dev   float64 `json:"d"` // mean deviation from the prediction, ms
	Score float64 `json:"s"` // mean log-likelihood of what was observed
}

// observe takes a publication in (low, high], d periods after the newest epoch. n is how
// many there were before, floor the least deviation.
func (f *bbFilter) observe(gain, period float64, d, low, high int64, floor float64, n int) {
	predicted := f.Phase + float64(d)*period
	u := float64(high) - predicted
	l := min(max(float64(low)-predicted, -period/2), u-1)
	mass, mean, magnitude := laplaceWithin(l, u, f.Dev)
	if mass < unlikely {
		mean = (l + u) / 2
		magnitude = min(math.Abs(mean), 4*f.Dev)
	}
	f.Score += bbMemory * (math.Log(max(mass, unlikely)) - f.Score)
	f.Phase = predicted + gain*mean
	f.Dev += max(bbMemory, 1/float64(n+2)) * (magnitude - f.Dev)
	f.Dev = min(max(f.Dev, floor), period/8)
}

// laplaceBelow is P(X <= x) of a Laplace variable with mean magnitude dev.
func laplaceBelow(x, dev float64) float64 {
	tail := math.Exp(-math.Abs(x)/dev) / 2
	if x < 0 {
		return tail
	}
	return 1 - tail
}

// laplaceWithin is the probability of (l, u] and the expectations of the variable and of
// its magnitude there; these are 0 where it is unlikely.
func laplaceWithin(l, u, dev float64) (mass, mean, magnitude float64) {
	mass = laplaceBelow(u, dev) - laplaceBelow(l, dev)
	if mass < unlikely {
		return mass, 0, 0
	}
	// moment is the integral of x times the density from 0 to |x|.
	moment := func(x float64) float64 {
		x = math.Abs(x)
		return (dev - (x+dev)*math.Exp(-x/dev)) / 2
	}
	mean = (moment(u) - moment(l)) / mass
	magnitude = (math.Copysign(moment(u), u) - math.Copysign(moment(l), l)) / mass
	return mass, mean, magnitude
}

// leastDev keeps looks apart of which the second could tell nothing: those closer than
// clocks resolve, or than the least gap.
func (s *bbState) leastDev() float64 { return float64(max(s.Limits.MinGap, resolution)) / 4 }

// steer holds the first look at the quantile Share of the publications.
func (s *bbState) steer(at, d int64) {
	switch {
	case d > bbOutage:
		s.Run = s.doubtful()
	case s.Mode == bbAgain:
		s.Run = 0
		s.Level += levelGain * s.Share
	case s.Mode == bbFirst && float64(at-s.Due) <= s.filter().Dev:
		s.Run++
		s.Level -= levelGain * (1 - s.Share)
	}
	s.Level = min(max(s.Level, -4), 8)
}

// doubtful is the number of hits at the first look in a row that make the phase
// doubtful: by chance about one run in ten becomes as long.
func (s *bbState) doubtful() int { return int(math.Ceil(2.2 / (1 - s.Share))) }

// ahead is how long before the first look another one asks whether the phase is late:
// half a period when it becomes doubtful; if the run goes on, ever less, down to what is
// jitter. 0 = no such look is needed.
func (s *bbState) ahead() float64 {
	n := s.doubtful()
	if s.Run == n {
		return s.Period / 2
	}
	part := s.Run - n - n/2
	if part < 0 {
		return 0
	}
	ahead := s.Period / math.Exp2(float64(part+2))
	if ahead < 6*s.filter().Dev {
		s.Run = 0
		return 0
	}
	return ahead
}

// seek plans the look at the middle of the span of the next publication, or, when the
// seeking begins, at its start: if the phase is late nothing comes before; if the period
// has become a half, the hits that made the phase doubtful were at every other epoch, and
// one is there too.
func (s *bbState) seek() {
	if behind := float64(s.Last+s.Limits.MinGap) - s.High; behind >= 0 {
		n := math.Floor(behind/s.Period) + 1
		s.Low, s.High = s.Low+n*s.Period, s.High+n*s.Period
	}
	due := int64((s.Low + s.High) / 2)
	if start := int64(math.Ceil(s.Low)); start > s.Last+s.Limits.MinGap && s.Mode == bbEarly {
		due = start
	}
	s.Mode, s.Due = bbSeek, max(due, s.Last+s.Limits.MinGap)
}

// sought takes a miss while seeking: at the start it is followed by a look at the middle,
// there by one at the end, there by longer and longer waits.
func (s *bbState) sought() {
	end := math.Ceil(s.High)
	switch {
	case float64(s.Last) < s.Low+1:
		end = (s.Low + s.High) / 2
		s.Close = max(s.Close-1, 0)
	case float64(s.Last) >= s.High-1:
		step := doubled(int64(s.Period), s.Tries, s.Limits.MaxGap)
		s.Tries++
		n := max(1, math.Round(float64(step)/s.Period))
		s.Low, s.High = s.Low+n*s.Period, s.High+n*s.Period
		end = math.Ceil(s.High)
	}
	s.Due = max(int64(end), s.Last+s.Limits.MinGap)
}

// found takes a hit while seeking. One that came too late for the span tells nothing.
func (s *bbState) found(low, at int64) {
	if float64(at) > s.High+s.Period/8 {
		return
	}
	if s.Missed {
		s.Low = max(s.Low, float64(low))
	}
	s.High = min(s.High, float64(at))
	if s.High <= s.Low { // it was not where it had to be
		s.High = float64(at)
		s.Low = s.High - s.Period
	}
	s.narrow()
}

// narrow ends the seeking when the span is as wide as the jitter. Marks from before are
// moved by as much as the phase has jumped, so that they still tell the period.
func (s *bbState) narrow() {
	if s.High-s.Low > 6*s.filter().Dev {
		s.Low, s.High = s.Low+s.Period, s.High+s.Period
		return
	}
	phase := (s.Low + s.High) / 2
	moved := phase - s.filter().Phase
	epochs := math.Round(moved / s.Period)
	for i := range s.Filters {
		s.Filters[i].Phase = phase
	}
	for i := range s.Marks {
		s.Marks[i].At += moved - epochs*s.Period
	}
	s.Epoch += int64(epochs)
	s.Run, s.Low, s.High = 0, 0, 0
	s.Middles = max(s.Middles, 4)
}
