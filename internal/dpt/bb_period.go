package dpt

import (
	"math"
	"slices"
)

const (
	minBracket = 5  // brackets that a survey needs at least
	maxBracket = 16 // after which it ends with whatever period fits best
	maxMarks   = 32 // that the period is measured on
	minMarks   = 6  // before which it stays as the survey found it
	wholeRun   = 22 // distances with a common divisor that make the period longer
	middles    = 12 // looks between epochs after the period was found
	middleEach = 64 // hits for every later one
	// surveyFloor is the least mean gap of a survey, in parts of the bootstrap interval:
	// a sensor that shows something new at every look is not polled without end.
	surveyFloor = 16
)

// bbMark is a bracketed publication: its epoch (in a survey 0), the estimated instant
// and the width of the bracket.
type bbMark struct {
	Epoch int64   `json:"e"`
	At    float64 `json:"t"`
	Width float64 `json:"w"`
}

// bbChain are decaying counts of epochs by what came after what: success after success,
// failure after success, success after failure, failure after failure (DPT paper, eq. 3).
type bbChain [4]float64

// freshChain believes in nine of ten until it knows better.
var freshChain = bbChain{9, 1, 1, 1}

// add counts the distance d, in epochs, between two publications.
func (c *bbChain) add(d int64) {
	for i := range c {
		c[i] *= 0.98
	}
	if d == 1 {
		c[0]++
		return
	}
	c[1]++
	c[2]++
	c[3] += float64(d - 2)
}

// chance that the epoch k after the newest one found has a publication.
func (c bbChain) chance(k int64) float64 {
	if k <= 1 {
		return c[0] / (c[0] + c[1])
	}
	return c[2] / (c[2] + c[3])
}

// survey starts to look for the period, gap ms apart on the average.
func (s *bbState) survey(gap float64) {
	s.Gap = min(max(gap, s.surveyLeast()), float64(s.Limits.Bootstrap))
	s.Period, s.Epoch, s.Marks, s.Tries, s.Looks, s.Low, s.High = 0, 0, nil, 0, 0, 0, 0
	s.probe()
}

func (s *bbState) surveyLeast() float64 {
	return max(float64(s.Limits.Bootstrap)/surveyFloor, float64(s.Limits.MinGap))
}

// probe plans the next look of a survey. Their gaps grow while all miss; they vary, for
// even ones suggest periods that are multiples of the gap.
func (s *bbState) probe() {
	gap := s.Gap * math.Pow(gapGrowth, float64(min(max(s.Tries-patience, 0), 1000)))
	s.Probes++
	gap *= spacing(0, s.Probes)
	s.Mode, s.Due = bbSurvey, s.Last+int64(math.Ceil(min(gap, float64(s.Limits.MaxGap))))
}

// surveyed takes a hit of the survey. Fewer than two misses before it say that the gap
// is too wide to tell publications apart. The survey ends when the brackets' ends leave
// less than 3 % of doubt in the period.
func (s *bbState) surveyed(low, at int64) {
	if s.Tries < 2 {
		if s.Gap /= 2; s.Gap < s.surveyLeast() {
			s.Gap, s.Marks = float64(s.Limits.Bootstrap), nil // always something new
		}
	}
	if s.Tries == 0 {
		return
	}
	width := float64(at - low)
	s.Marks = append(s.Marks, bbMark{At: float64(at) - width/2, Width: width})
	n, first := len(s.Marks), s.Marks[0]
	precise := (first.Width+width)/2 < 0.03*(s.Marks[n-1].At-first.At)
	if n < minBracket || !precise && n < maxBracket {
		return
	}
	if period, fits := commonPeriod(s.Marks, widest*s.Gap); fits || n >= maxBracket {
		s.lock(period)
	}
}

// commonPeriod is the longest span of which the distances between the marks are about
// multiples, a third of the least one or more; fits tells whether there is one.
// Distances beyond four times the least do not count, nor those of marks wider than
// width, for which the survey had slowed down.
func commonPeriod(marks []bbMark, width float64) (period float64, fits bool) {
	least := math.Inf(1)
	for i := range marks[1:] {
		least = min(least, marks[i+1].At-marks[i].At)
	}
	near := distances(marks, 4.5*least, width)
	if len(near) == 0 {
		return least, false
	}
	enough := 0.6 * float64(max(len(near), minBracket-1))
	best := math.Inf(-1)
	for p := 2 * least; p > 0.3*least && !fits; p *= 0.99 {
		if f := harmony(near, p); f > best {
			best, period = f, p
		} else {
			fits = best > enough && period > p
		}
	}
	sum, epochs := 0.0, 0.0
	for _, x := range near {
		sum, epochs = sum+x, epochs+max(1, math.Round(x/period))
	}
	return sum / epochs, fits
}

// distances are those between neighbouring marks, not wider than width, that are less
// than limit.
func distances(marks []bbMark, limit, width float64) []float64 {
	var near []float64
	for i := range marks[1:] {
		if max(marks[i].Width, marks[i+1].Width) > width+1 {
			continue
		}
		if x := marks[i+1].At - marks[i].At; x > 0 && x < limit {
			near = append(near, x)
		}
	}
	return near
}

// harmony is the Fourier coefficient of the distances at a period: their number if all
// are multiples of it.
func harmony(distances []float64, period float64) (sum float64) {
	for _, x := range distances {
		sum += math.Cos(2 * math.Pi * x / period)
	}
	return sum
}

// lock begins to track with a period, at the newest mark.
func (s *bbState) lock(period float64) {
	newest := s.Marks[len(s.Marks)-1]
	for i := range s.Marks {
		s.Marks[i].Epoch = int64(math.Round((s.Marks[i].At - newest.At) / period))
	}
	s.Period, s.Epoch, s.Best, s.Hits = period, 0, 0, 0
	dev := min(max(newest.Width/4+0.02*period, s.leastDev()), period/8)
	for i := range s.Filters {
		s.Filters[i] = bbFilter{Phase: newest.At, Dev: dev}
	}
	s.Level = -math.Log(2 * (1 - s.Share))
	if s.Share < 0.5 {
		s.Level = math.Log(2 * s.Share)
	}
	s.Run, s.Low, s.High = 0, 0, 0
	s.doubtPeriod()
}

// doubtPeriod forgets what was counted in epochs of another length.
func (s *bbState) doubtPeriod() {
	s.Chain, s.Common, s.Whole, s.Close, s.Middles = freshChain, 0, 0, 0, middles
}

// tracked takes a hit: the publication came in (low, at].
func (s *bbState) tracked(low, at int64) {
	bracketed := s.Missed && float64(at-low) < s.Period/4
	switch {
	case s.High > 0 && float64(at) < s.Low+1: // there is none before the span
		s.Low, s.High = 0, 0
		if s.tooClose(); s.Period == 0 {
			return
		}
	case s.High > 0:
		s.found(low, at)
		return
	case s.Mode == bbEarly && float64(at-s.Due) < s.Period/8:
		ahead := s.ahead()
		s.Low, s.High = max(float64(s.Due)-ahead, float64(low)), float64(at)
		s.narrow()
		return
	case s.Mode == bbMiddle:
		s.tooClose()
		return
	case s.Mode == bbLate:
		for i := range s.Filters {
			s.Filters[i].Phase = float64(low+at) / 2
		}
		s.mark(at-low, bracketed)
		return
	}
	seen := float64(at) - s.aim()
	if bracketed {
		seen = float64(low+at) / 2
	}
	if d := int64(math.Round((seen - s.filter().Phase) / s.Period)); d > 0 {
		s.epoch(d, low, at)
		s.mark(at-low, bracketed && d <= bbOutage)
		s.doubt()
	}
}

// epoch takes a publication d epochs after the newest one.
func (s *bbState) epoch(d, low, at int64) {
	s.steer(at, d)
	s.Epoch += d
	if s.Hits++; s.Hits%middleEach == 0 {
		s.Middles = max(s.Middles, 1)
	}
	if d > bbOutage {
		for i := range s.Filters {
			s.Filters[i].Phase += float64(d) * s.Period
		}
		return
	}
	for i := range s.Filters {
		f := &s.Filters[i]
		f.observe(bbGains[i], s.Period, d, low, at, s.leastDev(), s.Hits)
		if f.Score > s.Filters[s.Best].Score {
			s.Best = i
		}
	}
	s.Chain.add(d)
	if s.Common = gcd(s.Common, d); s.Common == 1 {
		s.Common, s.Whole = d, 0
	}
	s.Whole++
}

func gcd(a, b int64) int64 {
	for a != 0 {
		a, b = b%a, a
	}
	return b
}

// notBefore is when the bracket of the newest publication begins, if it has one.
func (s *bbState) notBefore() (low float64, known bool) {
	n := len(s.Marks) - 1
	if n < 0 || s.Marks[n].Epoch != s.Epoch {
		return 0, false
	}
	return float64(s.Hit) - s.Marks[n].Width, true
}

// tooClose takes a publication within three quarters of a period after another one.
func (s *bbState) tooClose() {
	s.Close++
	s.Middles = max(s.Middles, 4)
	if s.Close > 1 {
		s.survey(s.Period / 8)
	}
}

// mark keeps the newest publication if its bracket is narrow, and measures the period.
func (s *bbState) mark(width int64, narrow bool) {
	if !narrow {
		return
	}
	s.Marks = append(s.Marks, bbMark{s.Epoch, s.Filters[0].Phase, float64(width)})
	if n := len(s.Marks) - maxMarks; n > 0 {
		s.Marks = slices.Clone(s.Marks[n:])
	}
	if len(s.Marks) >= minMarks {
		s.measure()
	}
}

// measure takes the period from the marks. The median slope between their halves is
// exact unless epochs were miscounted. Short distances show that: how many epochs they
// span is sure.
func (s *bbState) measure() {
	h := len(s.Marks) / 2
	var slopes []float64
	for i := range s.Marks[h:] {
		a, b := s.Marks[i], s.Marks[i+h]
		if b.Epoch > a.Epoch {
			slopes = append(slopes, (b.At-a.At)/float64(b.Epoch-a.Epoch))
		}
	}
	rough := s.Period
	near := distances(s.Marks, 6*s.Period, s.Period)
	if len(near) >= 8 {
		rough = roughPeriod(near, s.Period)
	}
	if len(slopes) > 0 {
		if fine := medianOf(slopes); math.Abs(fine/rough-1) < 0.04 {
			s.Period = fine
			return
		}
	}
	if len(near) >= 12 {
		s.Period = rough
	}
}

// roughPeriod is the period, up to 1.45 times longer or shorter than the given one, of
// which the distances are multiples most nearly. It must be much the better one.
func roughPeriod(distances []float64, period float64) float64 {
	n := float64(len(distances))
	best, most := period, max(0.6*n, harmony(distances, period)+0.35*n)
	if most >= n {
		return period
	}
	for i := -50; i <= 50; i++ {
		p := period * math.Exp(float64(i)*0.0075)
		if f := harmony(distances, p); f > most {
			best, most = p, f
		}
	}
	if best == period {
		return period
	}
	each := make([]float64, len(distances))
	for i, x := range distances {
		each[i] = x / max(1, math.Round(x/best))
	}
	return medianOf(each)
}

// medianOf is the median; it sorts x.
func medianOf(x []float64) float64 {
	slices.Sort(x)
	n := len(x)
	return (x[(n-1)/2] + x[n/2]) / 2
}

// doubt changes a period that cannot be: all distances are multiples of more than one
// epoch, or hardly any is one.
func (s *bbState) doubt() {
	if s.Common > 1 && s.Whole >= wholeRun {
		s.Period *= float64(s.Common)
		s.Marks, s.Epoch = nil, 0
		s.doubtPeriod()
		return
	}
	if s.Chain.chance(1) < 0.1 {
		s.survey(s.Period / 8)
	}
}
