package dpt

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// epoch0 is where test time begins.
var epoch0 = time.Date(2024, 3, 1, 0, 0, 0, 0, time.UTC)

func at(ms int64) time.Time { return epoch0.Add(span(ms)) }

// poller is what a harness drives: a Tracker, a Search or one of the twins below.
type poller interface {
	Next(now time.Time, stretch float64) (time.Time, string)
	Observe(o visit.Outcome)
}

// source is the traffic model of section 5.1 of the DPT paper: two-state Markov loss,
// Laplace jitter on each interval (eq. 1, delay pacing). Times in ms.
type source struct{ period, pss, pfs, sd float64 }

func (s source) publish(rng *rand.Rand, n int) []int64 {
	times := make([]int64, 0, n)
	t := 0.0
	for len(times) < n {
		k := 0
		for p := s.pss; rng.Float64() >= p; p = s.pfs {
			k++
		}
		t += float64(k+1)*s.period + laplace(rng, s.sd)
		if ms := int64(t); len(times) == 0 || ms > times[len(times)-1] {
			times = append(times, ms)
		}
	}
	return times
}

func laplace(rng *rand.Rand, sd float64) float64 {
	u := rng.Float64() - 0.5
	return -math.Copysign(sd/math.Sqrt2*math.Log(1-2*math.Abs(u)), u)
}

// result of a run; latencies in seconds, sorted.
type result struct {
	polls     []int64 // instants, ms
	latencies []float64
	hits      int
	ppe       float64 // polls per publication
}

func (r result) median() float64 { return r.latencies[len(r.latencies)/2] }

func (r result) mean() float64 {
	sum := 0.0
	for _, l := range r.latencies {
		sum += l
	}
	return sum / float64(len(r.latencies))
}

// run drives p over the publications, which a poll shows all at once; the first skip
// publications are not judged.
func run(p poller, items []int64, skip int, visible bool) result {
	var r result
	now, read, judged := int64(0), 0, 0
	for read < len(items) {
		next, _ := p.Next(at(now), 1)
		now = next.Sub(epoch0).Milliseconds()
		r.polls = append(r.polls, now)
		o := poll(now, visit.Unchanged)
		if visible && read > 0 { // a pack shows what was shown before, too
			o.PublishedAt = append(o.PublishedAt, at(items[read-1]))
		}
		for read < len(items) && items[read] <= now {
			o.Result = visit.Described
			if visible {
				o.PublishedAt = append(o.PublishedAt, at(items[read]))
			}
			if read >= skip {
				r.latencies = append(r.latencies, float64(now-items[read])/1000)
			}
			read++
		}
		if o.Result == visit.Described {
			r.hits++
		}
		if read >= skip {
			judged++
		}
		p.Observe(o)
	}
	slices.Sort(r.latencies)
	r.ppe = float64(judged) / float64(len(r.latencies))
	return r
}

// poll is an instantaneous visit.
func poll(ms int64, r visit.Result) visit.Outcome {
	return visit.Outcome{
		Result: r, Contact: r != visit.Asleep && r != visit.Missed,
		Visit: visit.Visit{Kind: visit.Poll, At: at(ms)}, Started: at(ms), Ended: at(ms),
	}
}

// biasRule says how a period retry is placed after the fast ones (Algorithm 2, step 5).
type biasRule int

const (
	aligned biasRule = iota // the corrected reading: on the epoch grid
	printed                 // next_delay_bias = current - success, added
	minus                   // the same, subtracted
	none                    // no bias
	late                    // on the grid, one deviation late
)

// paperDPT is DPT after Algorithms 1 and 2 in ms from epoch0, with the choices that are
// in doubt as fields. It shares no code with the package.
type paperDPT struct {
	rule    biasRule
	bias    float64 // VARIANT_BIAS
	fasts   int     // VARIANT_FAST_TRIES
	fold    bool    // standard deviation of folded intervals, outages left out
	start   int64   // bootstrap interval; 0 = cold start as printed
	minGap  int64   // 0 = none, as printed
	cap     int64   // of the doubled delay
	window  []int64
	last    int64 // newest publication
	seen    bool
	success int64 // poll of the last hit
	mode    string
	tries   int
	misses  int
	delay   int64
	extra   int64 // next_delay_bias
	prev    int64
}

func (p *paperDPT) Next(time.Time, float64) (time.Time, string) {
	next := p.prev + p.delay + p.extra
	return at(max(next, p.prev+p.minGap)), p.mode
}

func (p *paperDPT) stats() (median int64, sd float64) {
	if len(p.window) == 0 {
		return 0, 0
	}
	w := append([]int64(nil), p.window...)
	slices.Sort(w)
	lo, hi := w[(len(w)-1)/2], w[len(w)/2]
	median = int64(math.Floor(float64(lo+hi)/2 + 0.5))
	res := make([]float64, len(w))
	mean := 0.0
	for i, x := range p.window {
		res[i] = float64(x)
		if p.fold {
			res[i] -= math.Round(float64(x)/float64(median)) * float64(median)
		}
		mean += res[i] / float64(len(w))
	}
	for _, x := range res {
		sd += (x - mean) * (x - mean) / float64(len(w))
	}
	return median, math.Sqrt(sd)
}

func (p *paperDPT) Observe(o visit.Outcome) {
	now := o.Started.Sub(epoch0).Milliseconds()
	p.prev, p.extra = now, 0
	if o.Result != visit.Described {
		p.miss(now)
		return
	}
	for _, t := range o.PublishedAt {
		ms := t.Sub(epoch0).Milliseconds()
		if p.seen && ms <= p.last {
			continue
		}
		if p.seen {
			p.push(ms - p.last)
		}
		p.last, p.seen = ms, true
	}
	p.success, p.mode, p.misses = now, "SUCCESS", 0
	median, sd := p.stats()
	p.delay = median + int64(math.Round(p.bias*sd))
	switch {
	case p.start > 0 && len(p.window) < 3:
		p.delay = p.start
	case p.rule == aligned || p.rule == late:
		p.delay = p.next(now, p.bias) - now
	default:
		p.prev = p.last // step (4)
	}
}

func (p *paperDPT) push(x int64) {
	if m, _ := p.stats(); p.fold && len(p.window) >= 3 && x > 8*m {
		return
	}
	p.window = append(p.window, x)
	if len(p.window) > 20 {
		p.window = p.window[1:]
	}
}

func (p *paperDPT) next(now int64, bias float64) int64 {
	median, sd := p.stats()
	t := p.last + median + int64(math.Round(bias*sd))
	for t <= now+p.minGap {
		t += median
	}
	return t
}

// miss is Algorithm 2 with PERIOD going on for ever (bimodal_median unknown).
func (p *paperDPT) miss(now int64) {
	median, sd := p.stats()
	if p.start > 0 && len(p.window) < 3 {
		p.misses++
		p.delay = int64(float64(p.start) * math.Pow(1.25, float64(max(p.misses-8, 0))))
		return
	}
	if p.mode == "SUCCESS" || p.mode == "" {
		p.mode, p.tries = "FAST", 0
	}
	switch p.mode {
	case "FAST":
		p.tries++
		p.delay = max(int64(math.Ceil(sd)), p.minGap)
		onGrid := p.rule == aligned || p.rule == late
		if p.tries > p.fasts || onGrid && now+p.delay >= p.next(now, p.bias) {
			p.period(now, median)
		}
	case "PERIOD":
		p.tries++
		if p.tries == 2 && (p.rule == aligned || p.rule == late) {
			p.delay = median
		}
		p.delay = min(2*p.delay, p.cap)
	}
}

func (p *paperDPT) period(now, median int64) {
	p.mode, p.tries, p.delay = "PERIOD", 1, median
	switch p.rule {
	case aligned:
		p.delay = p.next(now, p.bias) - now
	case late:
		p.delay = p.next(now, p.bias) - now + p.next(0, 1) - p.next(0, p.bias)
	case printed:
		p.extra = now - p.success
	case minus:
		p.extra = p.success - now
	case none:
	}
}

// testParams are those of the simulations: gaps that bind nowhere.
func testParams() Params {
	return Params{
		Policy: DPTN, Bootstrap: time.Minute, MinGap: time.Second, MaxGap: 48 * time.Hour,
	}
}

func newTwin(rule biasRule, policy Policy, fold bool) *paperDPT {
	p := &paperDPT{
		rule: rule, fold: fold, start: 60_000, delay: 60_000, minGap: 1000, cap: 48 * 3600_000,
	}
	switch policy {
	case DPTA:
		p.bias, p.fasts = -1, 2
	case DPTN:
		p.bias, p.fasts = 0, 1
	default:
		p.bias, p.fasts = 1, 0
	}
	return p
}

func policyParams(policy Policy, fold bool) Params {
	p := testParams()
	p.Policy, p.SD = policy, SDRaw
	if fold {
		p.SD = SDFolded
	}
	return p
}
