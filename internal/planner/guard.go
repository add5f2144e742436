package planner

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// learnGuard takes what a visit says of how long before the end of its window the
// sensor was still awake. One that only a later transmission reached was awake then.
func (p *Planner) learnGuard(s *sensor, o visit.Outcome) {
	w, awake := s.Plan.Window(o.Started)
	if !awake || w.Duration() > 2*p.par.Range || o.Kind != visit.Planned && o.Kind != visit.Retry ||
		!o.Contact && (o.Result != visit.Asleep || o.NON) {
		return
	}
	at := o.Started
	if o.Contact && o.Retransmissions > 0 {
		at = o.Ended
	}
	s.rec.Margins.Note(w.End.Sub(at), o.Contact)
	p.pool.Note(w.End.Sub(at), o.Contact)
	if p.pooled++; !o.Contact || p.pooled%weighPool == 0 {
		p.typical = p.pool.typical()
	}
	if o.Contact && s.rec.Visits > alwaysWeigh && s.rec.Visits%weighEvery != 0 {
		return // one more success moves little
	}
	collected := s.rec.Collected
	if collected == 0 {
		collected = w.Duration()
	}
	s.rec.Guard, _ = s.rec.Margins.Guard(collected, p.typical)
}

// The evidence is weighed at each of the first visits and at each failure, else at
// every eighth visit: weighing costs more than the rest of Observe.
const (
	alwaysWeigh = 16
	weighEvery  = 8
	weighPool   = 32
)

// collect keeps a running mean of the awake time in seconds that a success has waited
// for.
func (s *sensor) collect(exposure float64) {
	d := seconds(exposure)
	if s.rec.Collected == 0 {
		s.rec.Collected = d
	}
	s.rec.Collected += (d - s.rec.Collected) / weighEvery
}

// Margins is what visits near window ends have shown of a sensor's clock: how long
// before the end its windows were met, and how long before it was asleep already.
// They are kept per half octave of the margin.
//
// The model: in each window the sensor falls asleep earlier or later than its plan
// says by an error of mean 0 and standard deviation sigma, and a share q of the
// visits fails for other reasons. So a visit that starts x before the end fails
// with probability q + (1-q) (1 - Phi(x/sigma)).
type Margins []margin

// margin holds the visits with a margin in [2^(Half/2), 2^((Half+1)/2)) seconds.
type margin struct {
	Half int     `json:"x"`
	Hit  float64 `json:"h,omitempty"`
	Miss float64 `json:"m,omitempty"`
}

// The margins that are told apart: 1/16 s, below which no clock matters, to an hour.
const (
	leastHalf   = -8
	largestHalf = 23
)

// memoryVisits is how many visits the evidence weighs at most; a clock that gets
// worse is noticed within about as many.
const memoryVisits = 200

// The sigmas that are weighed against each other, in seconds, half an octave
// apart, and their prior: lognormal. Ordinary crystals and schedulers are within a
// second; the prior alone gives a guard of 2 to 3 s in windows of minutes.
const (
	leastSigma  = 0.05
	sigmas      = 23  // to 100 s
	priorSigma  = 0.3 // median
	priorSpread = 0.8 // standard deviation of ln sigma in a fleet whose median is known
	fleetSpread = 1.6 // of the median's own
)

// background is the share of visits that fail for other reasons, with the weight
// that each value has at first.
var background = [...][2]float64{{.002, .15}, {.005, .2}, {.01, .2}, {.02, .15}, {.05, .12},
	{.1, .09}, {.2, .06}, {.4, .03}}

// Note takes in a visit that met the sensor, or did not, that long before the end of
// a window.
func (m *Margins) Note(before time.Duration, met bool) {
	half := largestHalf
	if s := before.Seconds(); s < math.Exp2(largestHalf/2.) {
		half = max(leastHalf, int(math.Floor(2*math.Log2(max(s, 1e-9)))))
	}
	next := slices.Clone(*m) // records share it with their copies
	i, found := slices.BinarySearchFunc(next, half, func(b margin, half int) int {
		return cmp.Compare(b.Half, half)
	})
	if !found {
		next = slices.Insert(next, i, margin{Half: half})
	}
	if met {
		next[i].Hit++
	} else {
		next[i].Miss++
	}
	var visits float64
	for _, b := range next {
		visits += b.Hit + b.Miss
	}
	if keep := memoryVisits / visits; keep < 1 {
		for k := range next {
			next[k].Hit *= keep
			next[k].Miss *= keep
		}
	}
	*m = next
}

// sane tells whether stored evidence can be ours.
func (m Margins) sane() bool {
	for i, b := range m {
		if b.Half < leastHalf || b.Half > largestHalf || !(b.Hit >= 0) || !(b.Miss >= 0) ||
			b.Hit > 2*memoryVisits || b.Miss > 2*memoryVisits || i > 0 && b.Half <= m[i-1].Half {
			return false
		}
	}
	return true
}

// sigma is the posterior of the standard deviation: a weight for each of the grid's
// values, 1 in all. median, in seconds, and spread are the prior's.
func (m Margins) sigma(median, spread float64) (weights [sigmas]float64) {
	t := clockTables()
	var logs [sigmas][len(background)]float64
	most := math.Inf(-1)
	for k := range sigmas {
		z := math.Log(gridSigma(k)/median) / spread
		for j, q := range background {
			l := math.Log(q[1]) - z*z/2
			for _, b := range m {
				seen := &t.likelihood[b.Half-leastHalf][k][j]
				l += b.Hit*seen[0] + b.Miss*seen[1]
			}
			logs[k][j] = l
			most = max(most, l)
		}
	}
	var sum float64
	for k := range sigmas {
		for _, l := range logs[k] {
			weights[k] += math.Exp(l - most)
		}
		sum += weights[k]
	}
	for k := range weights {
		weights[k] /= sum
	}
	return weights
}

// typical is the geometric mean of sigma over the posterior: of all sensors' visits, it
// is what to expect of the next sensor. Sensors of one make have one kind of clock, and
// a fleet need not find that out sensor by sensor.
func (m Margins) typical() float64 {
	var mean float64
	for k, weight := range m.sigma(priorSigma, fleetSpread) {
		mean += weight * math.Log(gridSigma(k))
	}
	return math.Exp(mean)
}

// guards is how many guards are compared: 0.05 s to two minutes, a fifth of an octave
// apart.
const guards = 57

func gridGuard(k int) float64 { return leastSigma * math.Exp2(float64(k)/5) }

// likelihoods holds what does not depend on evidence.
type likelihoods struct {
	// likelihood is the ln of P(met) and P(not met) by margin, sigma and background.
	likelihood [largestHalf - leastHalf + 1][sigmas][len(background)][2]float64
	late       [guards][sigmas]float64 // P(error > guard)
}

var clockTables = sync.OnceValue(func() *likelihoods {
	var t likelihoods
	for k := range sigmas {
		for h := range t.likelihood {
			asleep := tail(math.Exp2((float64(h+leastHalf)+.5)/2) / gridSigma(k))
			for j, q := range background {
				t.likelihood[h][k][j] = [2]float64{
					math.Log((1 - q[0]) * (1 - asleep)), math.Log(q[0] + (1-q[0])*asleep)}
			}
		}
		for g := range guards {
			t.late[g][k] = tail(gridGuard(g) / gridSigma(k))
		}
	}
	return &t
})

// gridSigma is the k-th sigma in seconds.
func gridSigma(k int) float64 { return leastSigma * math.Exp2(float64(k)/2) }

// tail is the share of a normal distribution beyond z.
func tail(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }

// Guard is the guard that costs least: a guard of g makes what is collected wait g
// longer, a crawl that comes too late loses the awake time that it would have
// collected, W. For a known sigma the minimum of g + W (1 - Phi(g/sigma)) stands at
// sigma sqrt(2 ln(W / (sigma sqrt(2 pi)))), or at 0 where W is below sigma sqrt(2 pi);
// here the sigmas are weighed by what is known of them. typical is the sigma, in
// seconds, that a sensor of the fleet is taken to have before it has shown its own. It
// returns the mean of sigma too.
func (m Margins) Guard(collected time.Duration, typical float64) (guard, sigma time.Duration) {
	weights := m.sigma(typical, priorSpread)
	w := collected.Seconds()
	best, least := 0.0, w/2
	t := clockTables()
	for g := range guards {
		cost, late := gridGuard(g), &t.late[g]
		for k, weight := range weights {
			cost += w * weight * late[k]
		}
		if cost < least {
			best, least = gridGuard(g), cost
		}
	}
	var mean float64
	for i, weight := range weights {
		mean += weight * gridSigma(i)
	}
	return seconds(best), seconds(mean)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
