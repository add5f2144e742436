package dpt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// ruled polls as a rule says, within the limits. Like a tracker it tells the rule of
// hits and of misses that were due.
type ruled struct {
	rule
	l         limits
	last, end int64
	watch     func(hit bool)
}

func ruledBy(r rule, p Params) *ruled {
	at := epoch0.UnixMilli()
	return &ruled{rule: r, l: newLimits(p), last: at, end: at}
}

func newRuled(p Params, share float64) (*ruled, *bracketing) {
	b := newBracketing(newLimits(p), epoch0.UnixMilli(), share)
	return ruledBy(b, p), b
}

func (r *ruled) Next(now time.Time, stretch float64) (time.Time, string) {
	at, _ := r.l.clamp(r.last, r.end, r.due(), now, stretch)
	return at, r.why()
}

func (r *ruled) Observe(o visit.Outcome) {
	start, end := instants(o)
	if o.Result == visit.Missed {
		r.end = max(r.end, end)
		return
	}
	due := start >= r.due()
	r.last, r.end = start, end
	switch {
	case o.Result == visit.Described:
		r.hit(start, nil, false)
	case o.Result == visit.Unchanged && due:
		r.miss(start, o.RTT.Milliseconds())
	}
	if r.watch != nil {
		r.watch(o.Result == visit.Described)
	}
}

// onGrid is the source with wall-clock pacing: slot*period + jitter, sorted.
func (s source) onGrid(rng *rand.Rand, n int) []int64 {
	times := make([]int64, 0, n)
	p := s.pss
	for slot := 1.0; len(times) < n; slot++ {
		lost := rng.Float64() >= p
		if p = s.pss; lost {
			p = s.pfs
			continue
		}
		times = append(times, int64(slot*s.period+laplace(rng, s.sd)))
	}
	slices.Sort(times)
	return slices.Compact(times)
}

func (s source) paced(wall bool, seed uint64, n int) []int64 {
	rng := rand.New(rand.NewPCG(seed, 77))
	if wall {
		return s.onGrid(rng, n)
	}
	return s.publish(rng, n)
}

// bracketBench are means over seeds of polling with publish times hidden.
type bracketBench struct{ median, mean, ppe float64 }

func (b bracketBench) String() string { return fmt.Sprintf("%.1f/%.1f/%.2f", b.median, b.mean, b.ppe) }

func benched(src source, wall bool, seeds int, poller func() poller) (b bracketBench) {
	n := float64(seeds)
	for seed := range uint64(seeds) {
		r := run(poller(), src.paced(wall, seed, 10_000), 100, false)
		b.median, b.mean, b.ppe = b.median+r.median()/n, b.mean+r.mean()/n, b.ppe+r.ppe/n
	}
	return b
}

// uncreeping is the rule with what a hit at the first look teaches taken out: it waits
// for brackets that its own lateness prevents.
type uncreeping struct{ *bracketing }

func (u uncreeping) hit(at int64, published []int64, exact bool) {
	before := u.s
	u.bracketing.hit(at, published, exact)
	if before.Mode != bbFirst || u.s.Period == 0 || before.Period == 0 {
		return
	}
	u.s.Level, u.s.Run = before.Level, 0
	for i := range u.s.Filters {
		epochs := float64(u.s.Epoch - before.Epoch)
		u.s.Filters[i].Phase = before.Filters[i].Phase + epochs*before.Period
		u.s.Filters[i].Dev = before.Filters[i].Dev
	}
	u.s.plan(bbFirst)
}

// Publish times hidden, sources of 300 s: the rule is to have a fifth of DPT-N's median
// latency at no more than 1.55 polls per publication. Without creeping it must not.
func TestBracketingBeatsDetectionTimes(t *testing.T) {
	p := testParams()
	p.PublishTimes = TimesHide // DPT-N is to do what it can with detection times
	seeds := trials(2, 10)
	with := func(share float64) func() poller {
		return func() poller { r, _ := newRuled(p, share); return r }
	}
	for _, c := range []struct {
		name string
		src  source
		wall bool
		gate bool
	}{
		{"delay j10", source{300_000, .95, .8, 10_000}, false, true},
		{"wall j10", source{300_000, .95, .8, 10_000}, true, true},
		{"wall j2, .99", source{300_000, .99, .8, 2_000}, true, true},
		{"delay .8/.6", source{300_000, .8, .6, 10_000}, false, false},
	} {
		dptn := benched(c.src, c.wall, seeds, func() poller { return NewTracker(p, epoch0) })
		bb8, bb9 := benched(c.src, c.wall, seeds, with(0.8)), benched(c.src, c.wall, seeds, with(0.9))
		twin := benched(c.src, c.wall, seeds, func() poller {
			return ruledBy(uncreeping{newBracketing(newLimits(p), epoch0.UnixMilli(), 0.8)}, p)
		})
		t.Logf("%-12s median/mean/ppe: DPT-N %v, BB .8 %v, BB .9 %v, without creeping %v",
			c.name, dptn, bb8, bb9, twin)
		passes := func(b bracketBench) bool { return b.median <= 0.2*dptn.median && b.ppe <= 1.55 }
		if c.gate && !passes(bb8) {
			t.Errorf("%s: BB %v, DPT-N %v", c.name, bb8, dptn)
		}
		if c.gate && passes(twin) {
			t.Errorf("%s: passes without creeping: %v", c.name, twin)
		}
		if bb9.ppe >= bb8.ppe {
			t.Errorf("%s: share .9 costs %.3f polls each, .8 %.3f", c.name, bb9.ppe, bb8.ppe)
		}
	}
}

// periodKept is the share of the looks, the first 100 publications' aside, at which the
// believed period was within 5 % of the truth.
func periodKept(src source, items []int64, share float64) float64 {
	r, b := newRuled(testParams(), share)
	hits, looks, right := 0, 0, 0
	r.watch = func(hit bool) {
		if hit {
			hits++
		}
		if hits < 100 {
			return
		}
		looks++
		if math.Abs(b.s.Period/src.period-1) < 0.05 {
			right++
		}
	}
	run(r, items, 0, false)
	return float64(right) / float64(looks)
}

// For 10 000 publications the learned period stays within 5 % of the truth. Where every
// other publication is lost, that holds most of the time.
func TestBracketingKeepsThePeriod(t *testing.T) {
	seeds := uint64(trials(2, 20))
	for _, c := range []struct {
		src   source
		least float64 // mean over the seeds
	}{
		{source{300_000, .99, .8, 2_000}, 1},
		{source{300_000, .95, .8, 10_000}, 0.999},
		{source{300_000, .8, .6, 10_000}, 0.97},
		{source{300_000, .4, .6, 10_000}, 0.75},
	} {
		for _, wall := range []bool{false, true} {
			sum, worst := 0.0, 1.0
			for seed := range seeds {
				kept := periodKept(c.src, c.src.paced(wall, seed, 10_000), bbShare)
				sum, worst = sum+kept, min(worst, kept)
			}
			t.Logf("%v wall %v: period within 5 %% at %.4f of the looks, worst seed %.4f", c.src,
				wall, sum/float64(seeds), worst)
			if sum/float64(seeds) < c.least {
				t.Errorf("%v wall %v: %.4f of the looks, want %.3f", c.src, wall,
					sum/float64(seeds), c.least)
			}
		}
	}
}

// relock counts the publications from the last change until the period is within 2 % of
// the truth for good and the next ten hits come within a tenth of it.
func relock(items []int64, from int, period float64) int {
	p := testParams()
	r, b := newRuled(p, bbShare)
	read, at := 0, 0
	good := 0
	r.watch = func(hit bool) {
		now := b.s.Last - epoch0.UnixMilli()
		for read < len(items) && items[read] <= now {
			read++
		}
		if read <= from || !hit {
			return
		}
		late := float64(now - items[read-1])
		switch {
		case math.Abs(b.s.Period/period-1) > 0.02 || late > period/10 && good < 10:
			good = 0
		case good == 0:
			good, at = 1, read
		default:
			good++
		}
	}
	run(r, items, 0, false)
	if good < 10 {
		return len(items)
	}
	return at - from
}

// A changed period or phase is found again: 300 s, 600 s, 300 s, then a jump of the
// phase. When the period halves, publications between two looks show as one.
func TestBracketingRelocks(t *testing.T) {
	counts := map[string][]int{}
	for seed := range uint64(20) {
		short, long := source{300_000, .98, .8, 5_000}, source{600_000, .98, .8, 5_000}
		wall := seed%2 == 0
		then := func(a, b []int64, gap int64) []int64 {
			all := slices.Clone(a)
			for _, x := range b {
				all = append(all, x+a[len(a)-1]+gap)
			}
			return all
		}
		a, b, c := short.paced(wall, seed, 300), long.paced(wall, seed+100, 300), short.paced(wall,
			seed+200, 400)
		twice := then(a, b, 0)
		counts["300 to 600 s"] = append(counts["300 to 600 s"], relock(twice, 300, 600_000))
		counts["600 to 300 s"] = append(counts["600 to 300 s"], relock(then(twice, c, 0), 600, 300_000))
		jump := 15_000 + 13_000*int64(seed)
		counts["jump"] = append(counts["jump"], relock(then(a, c, jump), 300, 300_000))
	}
	for name, limit := range map[string]int{"300 to 600 s": 40, "600 to 300 s": 60, "jump": 40} {
		slices.Sort(counts[name])
		t.Logf("%s: publications until locked again %v", name, counts[name])
		if n := len(counts[name]); counts[name][n/2] > limit {
			t.Errorf("%s: median %d publications, want %d", name, counts[name][n/2], limit)
		}
	}
}

// A year without news from any state: some hundred looks.
func TestBracketingOutageIsLogarithmic(t *testing.T) {
	p := testParams()
	p.MaxGap = maxMaxGap
	const year = 365 * 24 * 3600_000
	seen := map[bbMode]int{}
	for seed := range uint64(300) {
		items := source{300_000, .9, .6, 20_000}.paced(seed%2 == 0, seed, 300)
		r, b := newRuled(p, bbShare)
		run(r, items[:1+rand.New(rand.NewPCG(seed, 3)).IntN(299)], 0, false)
		seen[b.s.Mode]++
		from := b.s.Last - epoch0.UnixMilli()
		polls := 0
		for now := from; now < from+year; polls++ {
			now = next(r, now)
			r.Observe(poll(now, visit.Unchanged))
		}
		if polls > 110 {
			t.Errorf("seed %d: %d looks in a year", seed, polls)
		}
		dev, period := b.s.filter().Dev, b.s.Period
		r.Observe(poll(from+2*year, visit.Described))
		if f := b.s.filter(); period > 0 && (f.Dev != dev || b.s.Period != period) {
			t.Errorf("seed %d: the outage changed %v, %v to %v, %v", seed, period, dev,
				b.s.Period, f.Dev)
		}
	}
	t.Logf("states at the start of the outage: %v", seen)
	if len(seen) < 5 {
		t.Errorf("only the states %v", seen)
	}
}

// A lost publication does not count as jitter.
func TestBracketingLostSample(t *testing.T) {
	p := testParams()
	r, b := newRuled(p, bbShare)
	run(r, source{300_000, 1, 1, 10_000}.paced(true, 1, 500), 0, false)
	b.s.Mode = bbFirst
	one, two := b.clone(), b.clone()
	_, at := b.s.firstLook(b.s.Last)
	one.hit(at, nil, false)
	two.hit(at+int64(b.s.Period), nil, false)
	if a, z := one.s.filter().Dev, two.s.filter().Dev; math.Abs(a/z-1) > 0.01 {
		t.Errorf("deviation %v ms, with a lost sample %v", a, z)
	}
	if b.s.Hits == one.s.Hits || &b.s.Marks[0] == &one.s.Marks[0] {
		t.Error("a clone shares state")
	}
}

// Open loop: shifting all times shifts all decisions, scaling scales them.
func TestBracketingInvariance(t *testing.T) {
	decisions := func(seed uint64, shift, scale int64) (all []int64, tracked int) {
		p := testParams()
		f := func(d time.Duration) time.Duration { return d * time.Duration(scale) }
		p.Bootstrap, p.MinGap, p.MaxGap = f(p.Bootstrap), f(2*time.Second), f(3*time.Hour)
		b := newBracketing(newLimits(p), shift, bbShare)
		rng := rand.New(rand.NewPCG(seed, 5))
		for now := int64(0); len(all) < 400; {
			phase := (now - 7) % 300_000
			now += 20_000 + rng.Int64N(40_000)
			if (now-7)%300_000 < phase {
				b.hit(shift+now*scale, nil, false)
			} else {
				b.miss(shift+now*scale, 0)
			}
			if b.s.Period > 0 {
				tracked++
			}
			all = append(all, b.due()-shift)
		}
		return all, tracked
	}
	const day = 24 * 3600_000
	for seed := range uint64(20) {
		base, tracked := decisions(seed, 100*day, 1)
		shifted, _ := decisions(seed, 877*day, 1)
		scaled, _ := decisions(seed, 100*day, 64)
		if tracked < 100 {
			t.Fatalf("seed %d: only %d decisions of a known period", seed, tracked)
		}
		for i := range base {
			off := math.Abs(float64(base[i]*64 - scaled[i]))
			if d := base[i] - shifted[i]; max(d, -d) > 2 || off > 5*64 {
				t.Fatalf("seed %d, decision %d: %d, shifted %d, scaled %d", seed, i, base[i],
					shifted[i], scaled[i])
			}
		}
	}
}

// laplaceWithin against sums over small steps.
func TestLaplaceWithin(t *testing.T) {
	for _, c := range [][3]float64{
		{-3, 1, 1}, {-200, 9, 10}, {4, 9, 5}, {-9, -2, 3}, {0, 1, 20}, {-150, 150, 7},
	} {
		l, u, dev := c[0], c[1], c[2]
		const n = 1_000_000
		var mass, mean, magnitude float64
		for i := range n {
			x := l + (u-l)*(float64(i)+0.5)/n
			w := math.Exp(-math.Abs(x)/dev) / (2 * dev) * (u - l) / n
			mass, mean, magnitude = mass+w, mean+w*x, magnitude+w*math.Abs(x)
		}
		gotMass, gotMean, gotMagnitude := laplaceWithin(l, u, dev)
		for _, d := range []float64{gotMass - mass, gotMean - mean/mass, gotMagnitude - magnitude/mass} {
			if math.Abs(d) > 1e-6*(u-l) {
				t.Errorf("%v: got %v %v %v, want %v %v %v", c, gotMass, gotMean, gotMagnitude, mass,
					mean/mass, magnitude/mass)
			}
		}
	}
}

func TestBracketingWhy(t *testing.T) {
	r, _ := newRuled(testParams(), bbShare)
	kinds := map[string]string{}
	r.watch = func(bool) {
		_, _, mode := r.stats()
		kinds[mode] = r.why()
	}
	run(r, source{300_000, .9, .6, 20_000}.paced(false, 4, 3000), 0, false)
	for mode, text := range kinds {
		t.Logf("%-7s %s", mode, text)
		if !strings.HasPrefix(text, "bb: ") || !strings.ContainsAny(text, "0123456789") {
			t.Errorf("mode %s: %q has no number", mode, text)
		}
	}
	if len(kinds) < int(numBBModes) {
		t.Errorf("only the modes %v", kinds)
	}
}

func TestBracketingRefuses(t *testing.T) {
	r, b := newRuled(testParams(), bbShare)
	run(r, source{300_000, .95, .8, 10_000}.paced(true, 1, 400), 0, false)
	good, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(good))
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(good, &fields); err != nil {
		t.Fatal(err)
	}
	for key, bad := range map[string]string{
		"q": "1", "m": "8", "p": "0", "b": "4", "h": "-1", "g": "0", "d": "1e18", "z": "1e9",
		"o": "-2", "t": "1", "c": "[0,0,0,0]", "l": `{"b":0}`,
		"f": `[{"p":0,"d":0,"s":0},{"p":0,"d":0,"s":0},{"p":0,"d":0,"s":0},{"p":0,"d":0,"s":0}]`,
	} {
		was, there := fields[key]
		fields[key] = json.RawMessage(bad)
		text, _ := json.Marshal(fields)
		if err := new(bracketing).UnmarshalJSON(text); err == nil {
			t.Errorf("%q: %s was accepted", key, bad)
		}
		if fields[key] = was; !there {
			delete(fields, key)
		}
	}
}

// driveBracketing feeds events to a rule and checks every decision; see drive.
func driveBracketing(data []byte, p Params) error {
	rng := rand.New(rand.NewPCG(uint64(len(data)), 13))
	now := epoch0
	end := now
	r, b := newRuled(p, bbShare)
	for ; len(data) >= 6; data = data[6:] {
		s := step{data[0], data[1], data[2], data[3], data[4], data[5]}
		due, err := check(r, r.l, now, end, 1+float64(s.stretch)/16)
		if err != nil {
			return err
		}
		if b.s.Due <= b.s.Last {
			return fmt.Errorf("due %d after a look at %d (%s)", b.s.Due, b.s.Last, b.why())
		}
		text, err := json.Marshal(b)
		if err != nil {
			return err
		}
		b = new(bracketing)
		if err := json.Unmarshal(text, b); err != nil {
			return fmt.Errorf("%w in %s", err, text)
		}
		if again, _ := json.Marshal(b); !bytes.Equal(text, again) {
			return fmt.Errorf("wrote %s, then %s", text, again)
		}
		r.rule = b
		if gap, growth := b.pace(); !(gap > 0 && growth >= 1 && growth <= 2) {
			return fmt.Errorf("pace %v, %v in %s", gap, growth, text)
		}
		o := s.outcome(s.at(due, end), rng)
		r.Observe(o)
		now, end = o.Ended, o.Ended
	}
	return nil
}

func FuzzBracketing(f *testing.F) {
	f.Add(byte(0), bytes.Repeat([]byte{1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 40))
	f.Add(byte(1), bytes.Repeat([]byte{0, 0, 1, 1, 0, 0}, 60))
	f.Add(byte(2), bytes.Repeat([]byte{0, 7, 255, 7, 40, 255, 1, 0, 0, 0, 0, 0}, 20))
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		if err := driveBracketing(data, fuzzParams(kind%3)); err != nil {
			t.Error(err)
		}
	})
}

// TestBracketingEverySequence is the fuzz target over random events: hits and misses at
// random, and hits once every so many looks so that a period is found.
func TestBracketingEverySequence(t *testing.T) {
	runs := trials(400, 1200)
	rng := rand.New(rand.NewPCG(14, 14))
	for i := range runs {
		data := make([]byte, 6*rng.IntN(300))
		cycle := 2 + rng.IntN(6)
		for j := range data {
			data[j] = byte(rng.UintN(256))
			if i%4 > 0 && j%6 != 0 && rng.IntN(50) > 0 {
				data[j] = 0
			}
			if i%4 > 0 && j%6 == 0 && rng.IntN(20) > 0 {
				data[j] = byte(visit.Unchanged)
				if j/6%cycle == 0 {
					data[j] = byte(visit.Described)
				}
			}
		}
		if err := driveBracketing(data, fuzzParams(byte(i%3))); err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
	}
}
