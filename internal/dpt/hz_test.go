package dpt

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// train shows h every item 50 ms after its publication.
func train(h *hz, items []int64) {
	for _, x := range items {
		h.hit(x+50, []int64{x}, true)
	}
}

// trained has seen n publications of m.
func trained(p hzParams, m hzSource, seed uint64, n int) *hz {
	h := newHZ(p, 0)
	train(h, m.publications(rand.New(rand.NewPCG(seed, 3)), n))
	return h
}

// TestHZTranslation: all decisions move with the times, to the millisecond.
func TestHZTranslation(t *testing.T) {
	const shift = 1_709_251_200_123
	for _, m := range []hzSource{hzDelay, hzLossy, hzOutages} {
		items := m.publications(rand.New(rand.NewPCG(1, 1)), 600)
		later := slices.Clone(items)
		for i := range later {
			later[i] += shift
		}
		a := hzFollow(newHZ(targeted(1.3), 0), items, 0)
		b := hzFollow(newHZ(targeted(1.3), shift), later, 0)
		for i := range b.polls {
			b.polls[i] -= shift
		}
		if !slices.Equal(a.polls, b.polls) {
			t.Errorf("%+v: polls differ", m)
		}
	}
}

// TestHZScale: with all spans eight times as long, so are the waits. The clock's
// milliseconds are the one thing that stays, so that few looks differ by more.
func TestHZScale(t *testing.T) {
	const scale = 8
	m := hzDelay
	m.period, m.sd = 16*m.period, 16*m.sd
	items := m.publications(rand.New(rand.NewPCG(1, 1)), 1500)
	longer := slices.Clone(items)
	for i := range longer {
		longer[i] *= scale
	}
	p := hzParams{Bootstrap: 960_000, MinGap: 16_000, MaxGap: 64 * 3600_000, Price: 144_000}
	q := p
	q.Bootstrap, q.MinGap, q.MaxGap, q.Price =
		scale*p.Bootstrap, scale*p.MinGap, scale*p.MaxGap, scale*p.Price
	a, b := hzFollow(newHZ(p, 0), items, 0), hzFollow(newHZ(q, 0), longer, 0)
	differ := 0
	for i := range a.latencies {
		if math.Abs(b.latencies[i]-scale*a.latencies[i]) > scale*.1 {
			differ++
		}
	}
	f, g := a.figures(), b.figures()
	if differ > len(a.latencies)/20 || math.Abs(g.mean/f.mean/scale-1) > .01 ||
		math.Abs(g.ppe-f.ppe) > .01 {
		t.Errorf("%d of %d latencies differ: %v and %v", differ, len(a.latencies), f, g)
	}
}

// TestHZPerfectSource: no jitter, no loss, periods that are no whole milliseconds too.
func TestHZPerfectSource(t *testing.T) {
	for _, period := range []float64{300_000, 300_123.4, 10_000, 3600_000, 86400_000} {
		m := hzSource{period: period, pss: 1, pfs: 1}
		p := hzTestParams(period)
		p.MaxGap = 48 * 3600_000
		run := hzFollow(newHZ(p, 0), m.publications(rand.New(rand.NewPCG(1, 1)), 320), 20)
		f := run.figures()
		if worst := slices.Max(run.latencies); worst > 1 || f.ppe > 1.02 {
			t.Errorf("period %.1f ms: worst latency %.3f s, polls per publication %.3f", period,
				worst, f.ppe)
		}
	}
}

// TestHZWholeSeconds: a sensor stamps whole seconds, rounded down. That is noticed, and
// makes it cheaper to find its publications.
func TestHZWholeSeconds(t *testing.T) {
	m := hzSource{period: 60_370, sd: 400, pss: 1, pfs: 1}
	items := m.publications(rand.New(rand.NewPCG(1, 1)), 1500)
	cost := func(r rule, h *hz) float64 {
		f := hzFollow(r, items, 100).figures()
		t.Logf("whole seconds %t: %.3f/%.3f/%.3f/%.3f", h.wholeSeconds(), f.median, f.mean, f.p95, f.ppe)
		return f.mean + f.ppe
	}
	p := hzTestParams(m.period)
	p.MinGap, p.Price = 200, 1000
	exact, whole, fooled := newHZ(p, 0), newHZ(p, 0), newHZ(p, 0)
	best, good := cost(exact, exact), cost(stamped{whole}, whole)
	bad := cost(shown{fooled}, fooled)
	if exact.wholeSeconds() || !whole.wholeSeconds() || fooled.wholeSeconds() {
		t.Error("resolution not told apart")
	}
	if good > .95*bad || good < best {
		t.Errorf("cost %.3f s, %.3f s not noticed, %.3f s with an exact clock", good, bad, best)
	}
}

// shown stamps whole seconds and one millisecond now and then, which hides that they are.
type shown struct{ *hz }

func (s shown) hit(at int64, published []int64, exact bool) {
	rounded := slices.Clone(published)
	for i := range rounded {
		rounded[i] -= rounded[i] % 1000
		rounded[i] += rounded[i] / 1000 % 2
	}
	s.hz.hit(at, rounded, exact)
}

// stamped rounds publish instants down to the second.
type stamped struct{ *hz }

func (s stamped) hit(at int64, published []int64, exact bool) {
	rounded := slices.Clone(published)
	for i := range rounded {
		rounded[i] -= rounded[i] % 1000
	}
	s.hz.hit(at, rounded, exact)
}

// TestHZPriceFloor: the price of a sensor with an exact clock falls to one round trip,
// well below a thousandth of its period.
func TestHZPriceFloor(t *testing.T) {
	m := hzSource{period: 3600_000, sd: 200, pss: 1, pfs: 1}
	p := hzTestParams(m.period)
	p.Target, p.MinGap = 4, 100
	h := newHZ(p, 0)
	f := hzFollow(h, m.publications(rand.New(rand.NewPCG(1, 1)), 1200), 300).figures()
	if h.price() >= m.period/1000 || f.median > .5 {
		t.Errorf("price %.0f ms, %v", h.price(), f)
	}
	for range 100 {
		h.miss(h.due(), 700)
	}
	if c := h.price(); math.Abs(c-700) > 1 {
		t.Errorf("price %.0f ms with a round trip of 700 ms", c)
	}
}

// TestHZOutage: polls grow with the logarithm of an outage's length until the largest
// gap, and what follows is found as before.
func TestHZOutage(t *testing.T) {
	for _, days := range []float64{.05, 1, 30, 365} {
		h := trained(hzTestParams(300_000), hzDelay, 1, 300)
		h.Params.MaxGap = int64(maxMaxGap / 1e6)
		before, lambda, spread := h.Due-h.Last, h.Lambda, h.spread()
		end := h.Last + int64(days*86400_000)
		polls := 0
		for ; h.due() < end; polls++ {
			h.miss(h.due(), 0)
		}
		if bound := 20 + math.Log(days*288+1)/math.Log(tailGrowth); float64(polls) > bound {
			t.Errorf("%g days: %d polls, at most %.0f", days, polls, bound)
		}
		h.hit(h.due(), []int64{h.due() - 3000}, true)
		h.Looks, h.By = nil, nil
		h.At = h.Last + 50
		h.replan()
		if moved := h.Due - h.Last - before; math.Abs(float64(moved)) > spread {
			t.Errorf("%g days: first look moved by %d ms", days, moved)
		}
		if h.Lambda != lambda {
			t.Errorf("%g days: period %g, before %g", days, h.Lambda, lambda)
		}
	}
}

// TestHZLostSample: one publication more that is lost changes nothing much.
func TestHZLostSample(t *testing.T) {
	for seed := range uint64(20) {
		m := hzDelay
		m.pss, m.pfs = 1, 1
		items := m.publications(rand.New(rand.NewPCG(seed, 1)), 80)
		a, b := newHZ(hzTestParams(m.period), 0), newHZ(hzTestParams(m.period), 0)
		train(a, items)
		train(b, slices.Delete(slices.Clone(items), 70, 71))
		moved := math.Abs(float64(a.Due - b.Due))
		if math.Abs(a.Lambda/b.Lambda-1) > .01 || moved > a.spread() {
			t.Errorf("seed %d: periods %.0f and %.0f ms, looks %.0f ms apart", seed, a.Lambda,
				b.Lambda, moved)
		}
	}
}

// TestHZMissTeachesNothing: a look without a find moves on in the plan only.
func TestHZMissTeachesNothing(t *testing.T) {
	h := trained(hzTestParams(300_000), hzDelay, 1, 100)
	a := h.clone()
	for range 30 {
		h.miss(h.due(), 0)
	}
	a.At, a.Due, a.Misses = h.At, h.Due, h.Misses
	if !reflect.DeepEqual(a, h) {
		t.Errorf("before %+v, after %+v", a, h)
	}
}

// TestHZOddTimes: duplicates, the past, the future and disorder teach nothing; nothing
// else in a hit is as good as no publish time.
func TestHZOddTimes(t *testing.T) {
	h := trained(hzTestParams(300_000), hzDelay, 1, 100)
	last := h.Last
	for _, published := range [][]int64{
		{last}, {last, last}, {last - 1000}, {last - 5, last - 9}, {math.MinInt64}, {math.MaxInt64},
		{last + 400_000}, {}, nil,
	} {
		c := h.clone()
		c.hit(last+1000, published, true)
		if c.Last != last || c.Count != h.Count || !c.refused() || c.Lambda != h.Lambda {
			t.Errorf("published %d: last %d, was %d", published, c.Last, last)
		}
	}
	c := h.clone()
	c.hit(last+301_000, []int64{last, last + 300_000, last + 300_000, last + 9, last + 900_000}, true)
	if c.Last != last+300_000 || c.Count != h.Count+1 || c.refused() {
		t.Errorf("mixed times: last %d", c.Last-last)
	}
	at := last - 86400_000 // the crawler's clock is set back
	c.miss(at, 0)
	if !c.refused() || c.Last != at || c.due() != at+c.Params.Bootstrap {
		t.Errorf("clock set back: last %d, next look %d ms later", c.Last-last, c.due()-at)
	}
	c.hit(at+60_000, []int64{at + 59_000}, true)
	look := c.due() - at - 359_000
	if c.refused() || math.Abs(c.Lambda/h.Lambda-1) > .01 || max(look, -look) > 60_000 {
		t.Errorf("after a clock set back: %s, in %d ms", c.why(), c.due()-at)
	}
}

// TestHZRefuses detection times and recovers with publish times; what was published
// meanwhile counts neither as lost nor as an outage.
func TestHZRefuses(t *testing.T) {
	h := trained(hzTestParams(300_000), hzDelay, 1, 300)
	chain, gaps := h.Chain, slices.Clone(h.Gaps)
	at := h.At
	for i := range 10 {
		at += 300_000
		h.hit(at, nil, false)
		if _, _, mode := h.stats(); !h.refused() || mode != "refused" {
			t.Fatalf("hit %d: refused %v, mode %s", i, h.refused(), mode)
		}
		if gap := h.due() - at; gap != h.Params.Bootstrap {
			t.Fatalf("hit %d: gap %d ms", i, gap)
		}
	}
	for i, x := range []int64{300_000, 12 * 300_000, 400 * 300_000} {
		h.hit(at, nil, false)
		at += x
		h.hit(at+50, []int64{at}, true)
		if h.refused() || h.Chain != chain || !slices.Equal(h.Gaps, gaps) {
			t.Errorf("recovery %d: refused %v, chain %+v, before %+v", i, h.refused(), h.Chain, chain)
		}
	}
	at += 300_000
	h.hit(at+50, []int64{at}, true)
	if h.Chain == chain || h.Gaps[len(h.Gaps)-1] != 300_000 {
		t.Errorf("nothing learnt after the recovery")
	}
}

// paperHZ is the tracking of phase and loss in instants, as one would write it down.
type paperHZ struct {
	ph, dev [4]float64
	counts  [4]float64
	times   []float64
	epochs  []float64
	lambda  float64
}

func (p *paperHZ) publication(t float64) {
	best := 0
	for i := range p.dev {
		if p.dev[i] < p.dev[best] {
			best = i
		}
	}
	d := math.Round((t - p.ph[best]) / p.lambda)
	for i := range p.counts {
		p.counts[i] *= .99
	}
	if d == 1 {
		p.counts[0]++
	} else {
		p.counts[1]++
		p.counts[2]++
		p.counts[3] += d - 2
	}
	for i, g := range []float64{1, .5, .2, .05} {
		r := t - (p.ph[i] + d*p.lambda)
		p.ph[i] += d*p.lambda + g*r
		p.dev[i] = .95*p.dev[i] + .05*math.Abs(r)
	}
	p.times = append(p.times, t)
	p.epochs = append(p.epochs, p.epochs[len(p.epochs)-1]+d)
	if n := len(p.times) - memory; n > 0 {
		p.times, p.epochs = p.times[n:], p.epochs[n:]
	}
	n := len(p.times)
	if n < 8 {
		return
	}
	var slopes []float64
	for i := range n - n/2 {
		slopes = append(slopes, (p.times[i+n/2]-p.times[i])/(p.epochs[i+n/2]-p.epochs[i]))
	}
	slices.Sort(slopes)
	p.lambda = (slopes[(len(slopes)-1)/2] + slopes[len(slopes)/2]) / 2
}

// TestHZTwin follows phases, period and chances beside the twin, from the first lock on.
func TestHZTwin(t *testing.T) {
	compared := 0
	for seed := range uint64(trials(20, 60)) {
		rng := rand.New(rand.NewPCG(seed, 8))
		m := hzSource{
			period: 300_000, sd: 15_000 * rng.Float64(), pss: .8 + .2*rng.Float64(),
			pfs: .5 + .5*rng.Float64(), wall: seed%2 == 0,
		}
		items := m.publications(rng, 400)
		h := newHZ(hzTestParams(m.period), 0)
		train(h, items[:4])
		p := &paperHZ{lambda: h.Lambda, counts: [4]float64{9, 1, 1, 1}}
		e := 0.0
		for i, x := range items[:4] {
			if i > 0 {
				e += float64(h.Epochs[i-1])
			}
			p.times, p.epochs = append(p.times, float64(x)), append(p.epochs, e)
		}
		for i := range p.ph {
			p.ph[i], p.dev[i] = float64(items[3]), h.Filters[i].Dev
		}
		for i, x := range items[4:] {
			h.hit(x+50, []int64{x}, true)
			if h.Window < min(i+4, memory-1) || h.Chain == newHZChain() || h.Filters[0].Offset != 0 {
				break // a new lock or a second one in an epoch, which the twin has not
			}
			p.publication(float64(x))
			c := h.Chain
			for j := range p.ph {
				if math.Abs(p.ph[j]-float64(x)-h.Filters[j].Offset) > .01 {
					t.Fatalf("seed %d, publication %d, gain %g: phase %.3f, twin %.3f", seed, i,
						hzGains[j], h.Filters[j].Offset, p.ph[j]-float64(x))
				}
				if got := []float64{c.SS, c.SF, c.FS, c.FF}[j]; math.Abs(got-p.counts[j]) > 1e-5 {
					t.Fatalf("seed %d, publication %d: counts %v, twin %v", seed, i, c, p.counts)
				}
			}
			if math.Abs(h.Lambda-p.lambda) > 1e-6 {
				t.Fatalf("seed %d, publication %d: period %g, twin %g", seed, i, h.Lambda, p.lambda)
			}
			compared++
		}
	}
	if compared < 5000 {
		t.Errorf("%d publications compared", compared)
	}
}

// TestHZDensity: weights are no less than 0 and sum up to 1, candidates ascend, F grows
// from 0 to 1, and looks lie at least MinGap apart.
func TestHZDensity(t *testing.T) {
	planned := 0
	for i := range trials(60, 200) {
		rng := rand.New(rand.NewPCG(uint64(i), 9))
		h := randomHZ(rng)
		s := h.inspection()
		if len(s.cells) == 0 {
			continue
		}
		planned++
		sum := 0.0
		for j, c := range s.cells[1:] {
			sum += c.weight
			if c.weight < 0 || c.at <= s.cells[j].at || c.past < s.cells[j].past || c.past > 1+1e-9 ||
				c.weight > 0 && (c.mean > c.at+1e-6 || c.mean < s.cells[0].at) {
				t.Fatalf("state %d: cell %d %+v after %+v", i, j+1, c, s.cells[j])
			}
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("state %d: weights sum up to %g", i, sum)
		}
		last := h.At
		for _, x := range h.Looks {
			if h.Last+x < last+h.Params.MinGap {
				t.Fatalf("state %d: looks %d ms apart", i, h.Last+x-last)
			}
			last = h.Last + x
		}
	}
	if planned < 40 {
		t.Errorf("%d plans only", planned)
	}
}

// randomHZ has followed a random source for a while and looked at random.
func randomHZ(rng *rand.Rand) *hz {
	p := hzTestParams(300_000)
	p.Price = int64(math.Pow(10, 7*rng.Float64()))
	p.MinGap = 1 + rng.Int64N(20_000)
	m := hzSource{
		period: 300_000, sd: 300_000 * math.Pow(rng.Float64(), 4), pss: .1 + .9*rng.Float64(),
		pfs: .1 + .9*rng.Float64(), wall: rng.IntN(2) == 0,
	}
	h := newHZ(p, 0)
	read, items := 0, m.publications(rng, 5+rng.IntN(120))
	for read < len(items) {
		at := max(items[read], h.At+p.MinGap) + rng.Int64N(200_000)
		from := read
		for read < len(items) && items[read] <= at {
			read++
		}
		h.hit(at, items[from:read], true)
	}
	return h
}

// TestHZState: what is restored goes on in the same way; it stays small.
func TestHZState(t *testing.T) {
	largest := 0
	for i := range trials(40, 100) {
		rng := rand.New(rand.NewPCG(uint64(i), 10))
		h := randomHZ(rng)
		data, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		largest = max(largest, len(data))
		r := new(hz)
		if err := json.Unmarshal(data, r); err != nil {
			t.Fatal(err)
		}
		if err := r.check(); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		c := h.clone()
		for range 20 {
			at := h.due()
			published := []int64{at - rng.Int64N(30_000)}
			hit := rng.IntN(2) == 0
			for _, x := range []*hz{h, r} {
				if hit {
					x.hit(at, published, true)
				} else {
					x.miss(at, 30)
				}
			}
			if r.due() != h.due() || r.why() != h.why() {
				t.Fatalf("restored %s at %d, original %s at %d", r.why(), r.due(), h.why(), h.due())
			}
		}
		if again, _ := json.Marshal(c); !bytes.Equal(again, data) {
			t.Fatalf("clone moved with its original: %s", again)
		}
	}
	t.Logf("largest state %d bytes", largest)
	if largest > 4096 {
		t.Errorf("a state of %d bytes", largest)
	}
}

// TestHZWhy names what is looked for and with what chance.
func TestHZWhy(t *testing.T) {
	p := hzTestParams(300_000)
	p.Price = 9000
	h := newHZ(p, 0)
	if got := h.why(); got != "hz: bootstrap 1m0s" {
		t.Error(got)
	}
	h = trained(p, hzDelay, 1, 100)
	for _, want := range []string{"epoch 1, ", " % by then, price 9 s"} {
		if !strings.Contains(h.why(), want) {
			t.Errorf("%q: no %q", h.why(), want)
		}
	}
	for range 40 {
		h.miss(h.due(), 0)
	}
	if got := h.why(); got != "hz: silent, gap 1h20m0s" {
		t.Error(got)
	}
	for range 1000 {
		h.miss(h.due(), 0)
	}
	if got := h.why(); got != "hz: max gap 4h0m0s" {
		t.Error(got)
	}
	h.hit(h.due(), nil, false)
	if got := h.why(); got != "hz: no publish times, gap 1m0s" {
		t.Error(got)
	}
}

// TestHZCountsForYears: the counts of a source that loses nothing fall to their floor.
func TestHZCountsForYears(t *testing.T) {
	c := newHZChain()
	for range 200_000 {
		c.add(1)
	}
	if !(c.pss() > .999) || !(c.pfs() > 0 && c.pfs() <= 1) || !(c.share() > .99) {
		t.Errorf("p_ss %g, p_fs %g, share %g of %+v", c.pss(), c.pfs(), c.share(), c)
	}
}
