package planner

import (
	"cmp"
	"math"
	"slices"
)

// Memory of a rate. Evidence beyond it is scaled down, so that the weight of an event
// falls to 1/e after memoryEvents more and a rate that drifts is followed. The standard
// error then stays near 5 %, which is cheap: errors of 10 % cost .4 % of the objective.
// A sensor that shows nothing forgets by exposure, about four months awake.
const (
	memoryEvents   = 300
	memoryExposure = 1e7 // awake seconds
)

// priorEvents is the weight of a configured rate, in events. At one event the noise of
// the first few visits costs more latency than a wrong prior does: by the square-root
// rule an error of a factor e costs 30 %, one of 10 % costs .4 %.
const priorEvents = 3

// maxRate bounds every estimate, events per awake second, as the configuration does.
const maxRate = 1e6

// shortestBit is the exposure in awake seconds below which a changed visit says no more
// than that there was an event.
const shortestBit = 1e-3

// Rate is what is believed of a sensor's event rate lambda, in events per awake second.
//
// The prior is Gamma with shape priorEvents and its mean at the configured rate: it weighs
// as that many events. A visit whose description logs n events adds n and its exposure, the posterior
// stays Gamma. A visit that says only whether something changed has the likelihood
// 1-exp(-lambda I) or exp(-lambda I), I being the awake time since the last success (Cho
// and Garcia-Molina, Estimating Frequency of Change, 2003, with awake time for I). Of
// the unchanged ones the sum of I is all that counts. The changed ones are kept as count
// and sum of I per half octave of I, at most 68 and usually a few: against keeping each I
// the estimate moves by .04 % on the average, not at all where the intervals are equal,
// and by less than 4 % or a third of a standard error where they are chosen to do harm.
//
// The estimate maximises the posterior density of log lambda,
//
//	(k+p) log lambda - (E+b) lambda + sum over changed visits of log(1-exp(-lambda I)),
//
// p = priorEvents, b = p/prior. Without one-bit visits this is (k+p)/(E+b), the mean of the Gamma
// posterior; without any visit it is the prior.
//
// A prior of 0 stays 0 until there is an event; it then becomes one event in all that
// was watched so far. The first description ever is no event: do not report it.
//
// Rate is stored as JSON. A copy shares no memory that a method of the other writes to.
type Rate struct {
	Prior   float64  `json:"p"`           // configured rate, >= 0
	Fixed   bool     `json:"f,omitempty"` // Prior is the truth, evidence is ignored
	Watched float64  `json:"b,omitempty"` // awake seconds of the prior's events; 0 = never
	Logged  float64  `json:"k,omitempty"` // events counted in logs
	Quiet   float64  `json:"e,omitempty"` // awake seconds of logged and of unchanged visits
	Changed []oneBit `json:"c,omitempty"` // visits that only said changed, by exposure
}

// oneBit holds the changed visits whose exposure lies in [2^(Half/2), 2^((Half+1)/2)) s.
type oneBit struct {
	Half  int     `json:"x"`
	Count float64 `json:"n"`
	Sum   float64 `json:"s"` // of their exposures, awake seconds
}

// NewRate starts from a configured rate in events per awake second, >= 0. fixed says
// that it is the truth and not a prior.
func NewRate(prior float64, fixed bool) Rate {
	r := Rate{Prior: prior, Fixed: fixed}
	if prior > 0 {
		r.Watched = priorEvents / prior
	}
	return r
}

// rescale makes exposure that was counted by one clock count by another, factor times as
// long: of life and of awake time. A configured prior is per awake second by either.
func (r *Rate) rescale(factor float64) {
	if factor == 1 || !(factor > 0) {
		return
	}
	if r.Watched != NewRate(r.Prior, false).Watched {
		r.Watched *= factor // it has been learned
	}
	r.Quiet = sane(r.Quiet * factor)
	changed := r.Changed
	r.Changed = nil
	for _, b := range changed {
		b.Sum *= factor
		each := b.Sum / b.Count
		if each < shortestBit {
			r.Logged += b.Count
			continue
		}
		b.Half = int(math.Floor(2 * math.Log2(each)))
		if n := len(r.Changed); n > 0 && r.Changed[n-1].Half == b.Half {
			r.Changed[n-1].Count += b.Count
			r.Changed[n-1].Sum += b.Sum
			continue
		}
		r.Changed = append(r.Changed, b)
	}
}

func (r Rate) clone() Rate {
	r.Changed = slices.Clone(r.Changed)
	return r
}

// Events takes a visit whose description logs n events since the last success, exposure
// awake seconds ago. What is negative or not a number counts as 0.
func (r *Rate) Events(n int, exposure float64) {
	r.Quiet += sane(exposure)
	r.Logged += float64(min(max(n, 0), maxRate))
	r.learn(n > 0)
}

// Visit takes a visit that says only whether anything changed since the last success,
// exposure awake seconds ago.
func (r *Rate) Visit(changed bool, exposure float64) {
	exposure = sane(exposure)
	switch {
	case !changed:
		r.Quiet += exposure
	case exposure < shortestBit: // the limit for I -> 0 of 1-exp(-lambda I)
		r.Logged++
	default:
		half := int(math.Floor(2 * math.Log2(exposure)))
		i, found := slices.BinarySearchFunc(r.Changed, half, func(b oneBit, half int) int {
			return cmp.Compare(b.Half, half)
		})
		r.Changed = slices.Clone(r.Changed)
		if !found {
			r.Changed = slices.Insert(r.Changed, i, oneBit{Half: half})
		}
		r.Changed[i].Count++
		r.Changed[i].Sum += exposure
	}
	r.learn(changed)
}

func sane(exposure float64) float64 {
	if !(exposure > 0) {
		return 0
	}
	return min(exposure, memoryExposure)
}

// learn gives a prior of 0 its scale at the first event and forgets. When events are
// forgotten, the prior's events move to what was learnt: a configured rate that is
// far too low would else hold the estimate down for ever.
func (r *Rate) learn(event bool) {
	if event && r.Watched == 0 {
		r.Watched = priorEvents * max(r.Exposure(), 1)
	}
	events, exposure := r.Logged, r.Exposure()
	for _, b := range r.Changed {
		events += b.Count
	}
	if events > memoryEvents {
		r.Watched = priorEvents / r.estimate()
	}
	keep := min(1, memoryEvents/max(events, 1), memoryExposure/max(exposure, 1))
	if keep == 1 {
		return
	}
	r.Logged *= keep
	r.Quiet *= keep
	faded := make([]oneBit, 0, len(r.Changed))
	for _, b := range r.Changed {
		if b.Count *= keep; b.Count > 1e-6 {
			b.Sum *= keep
			faded = append(faded, b)
		}
	}
	r.Changed = faded
}

// Exposure is the awake time, in seconds, that the estimate rests on; forgotten time
// does not count.
func (r Rate) Exposure() float64 {
	sum := r.Quiet
	for _, b := range r.Changed {
		sum += b.Sum
	}
	return sum
}

// Mean is the estimate of lambda in events per awake second.
func (r Rate) Mean() float64 {
	if r.Fixed {
		return r.Prior
	}
	return r.estimate()
}

// Sd is the posterior standard deviation of lambda: exact where all visits log their
// events, else from the curvature at the estimate (Laplace). 0 for a fixed rate.
func (r Rate) Sd() float64 {
	lambda := r.Mean()
	if r.Fixed || lambda == 0 {
		return 0
	}
	_, slope := r.score(lambda)
	return lambda / math.Sqrt(-lambda*slope)
}

// Moved reports whether the estimate differs by more than a third from since, the rate
// that a plan was made with.
func (r Rate) Moved(since float64) bool { return math.Abs(r.Mean()-since) > since/3 }

// estimate is the root of the score. The score is convex and decreasing, and not
// negative at the start, so that Newton's method approaches the root from below.
func (r Rate) estimate() float64 {
	if r.Watched == 0 {
		return 0
	}
	lambda := (r.Logged + priorEvents) / (r.Quiet + r.Watched)
	for range 100 {
		if len(r.Changed) == 0 {
			break
		}
		score, slope := r.score(lambda)
		step := -score / slope
		lambda += step
		if step < 1e-12*lambda {
			break
		}
	}
	return min(lambda, maxRate)
}

// score is the derivative of the log posterior density of log lambda, and its own
// derivative by lambda. A changed visit contributes psi(x) = x/(e^x-1), x = lambda I.
func (r Rate) score(lambda float64) (score, slope float64) {
	exposure := r.Quiet + r.Watched
	score, slope = r.Logged+priorEvents-lambda*exposure, -exposure
	for _, b := range r.Changed {
		i := b.Sum / b.Count
		x := lambda * i
		em := math.Expm1(x)
		psi, dpsi := 1-x/2, -0.5
		if x > 1e-6 {
			psi, dpsi = x/em, (1-x-x/em)/em
		}
		score += b.Count * psi
		slope += b.Count * dpsi * i
	}
	return score, slope
}
