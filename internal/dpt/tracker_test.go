package dpt

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// learnt is a tracker that has seen n publications, one each period ms, each at the
// poll that was due; the last one is at the returned instant.
func learnt(t *testing.T, p Params, period int64, n int) (*Tracker, int64) {
	t.Helper()
	tr := NewTracker(p, epoch0)
	now := int64(0)
	for range n {
		now += period
		o := poll(now, visit.Described)
		o.PublishedAt = []time.Time{at(now)}
		tr.Observe(o)
	}
	return tr, now
}

func windowOf(t *Tracker) []int64 { return t.rule.(*publications).s.Window }

func next(p poller, now int64) int64 {
	a, _ := p.Next(at(now), 1)
	return a.Sub(epoch0).Milliseconds()
}

// Misses go from the epoch to the fast look and on to the grid k = 2, 4, 8, 16, until
// MaxGap cuts the step (polling at a 300 s source with no jitter: fast look after 1 s).
func TestEpochGrid(t *testing.T) {
	p := testParams()
	p.MaxGap = 3 * time.Hour
	tr, pub := learnt(t, p, 300_000, 6)
	want := []string{
		"5m0s dpt-n: period 300s k=1", "5m1s dpt-n: fast sd 0s", "10m0s dpt-n: period 300s k=2",
		"20m0s dpt-n: period 300s k=4", "40m0s dpt-n: period 300s k=8",
		"1h20m0s dpt-n: period 300s k=16", "2h40m0s dpt-n: period 300s k=32",
		"5h20m0s dpt-n: period 300s k=64", "8h20m0s dpt-n: period 300s k=100",
	}
	now := pub
	for _, w := range want {
		a, why := tr.Next(at(now), 1)
		now = a.Sub(epoch0).Milliseconds()
		if got := span(now-pub).String() + " " + why; got != w {
			t.Errorf("got %q, want %q", got, w)
		}
		tr.Observe(poll(now, visit.Unchanged))
	}
	if _, _, hits, mode := tr.Stats(); mode != "outage" || hits != 6 {
		t.Errorf("mode %q, %d hits; want outage, 6", mode, hits)
	}
}

func TestEarlyLooksChangeNothing(t *testing.T) {
	tr, pub := learnt(t, testParams(), 300_000, 6)
	due := next(tr, pub)
	tr.Observe(poll(pub+100_000, visit.Unchanged))
	if got := next(tr, pub+100_000); got != due {
		t.Errorf("an early look moved the epoch from %d to %d ms", due, got)
	}
	// A look that MaxGap asks for is early too.
	p := testParams()
	p.MaxGap = time.Hour
	tr, pub = learnt(t, p, 2*3600_000, 6)
	at1, why := tr.Next(at(pub), 1)
	if want := at(pub + 3600_000); !at1.Equal(want) || why != "dpt-n: max gap 1h0m0s" {
		t.Errorf("got %v %q, want %v", at1, why, want)
	}
	tr.Observe(poll(pub+3600_000, visit.Unchanged))
	if got := next(tr, pub+3600_000); got != pub+2*3600_000 {
		t.Errorf("after the early look %d ms, want the epoch %d", got, pub+2*3600_000)
	}
}

// One year without news: 40 doublings at most; without a known period 8 polls at the
// bootstrap interval and then a geometric series.
func TestOutageIsLogarithmic(t *testing.T) {
	for _, policy := range Policies() {
		if policy != Fixed {
			testOutage(t, policy)
		}
	}
}

func testOutage(t *testing.T, policy Policy) {
	p := testParams()
	p.Policy, p.MaxGap, p.Desync = policy, maxMaxGap, time.Minute
	for _, r := range []visit.Result{visit.Unchanged, visit.Asleep, visit.Refused} {
		for _, n := range []int{0, 1, 6, 30} {
			tr, pub := learnt(t, p, 300_000, n)
			polls := 0
			for now := pub; now < pub+year; polls++ {
				now = next(tr, now)
				tr.Observe(poll(now, r))
			}
			if polls > 80 {
				t.Errorf("%s, %v, %d intervals: %d polls in a year", policy, r, n, polls)
			}
			rule, ok := tr.rule.(*publications)
			if !ok || n <= 3 {
				continue
			}
			o := poll(pub+year+1, visit.Described)
			o.PublishedAt = []time.Time{at(pub + year)}
			before := slices.Clone(rule.s.Window)
			tr.Observe(o)
			late := next(tr, pub+year+1) - tr.s.Shift - pub - year
			if !slices.Equal(before, rule.s.Window) || late != 300_000 {
				t.Errorf("%s, %v: the outage made the delay after a hit %d ms", policy, r, late)
			}
		}
	}
}

// Open loop: shifting all times shifts all decisions, scaling scales them.
func TestInvariance(t *testing.T) {
	policies := []Policy{DPTN, DPTA, DPTL, Bimodal}
	decisions := func(seed uint64, shift, scale int64) []int64 {
		rng := rand.New(rand.NewPCG(seed, 3))
		f := func(d time.Duration) time.Duration { return d * time.Duration(scale) }
		p := testParams()
		p.Policy, p.PublishTimes = policies[seed%4], TimesTrust
		p.Bootstrap, p.MinGap, p.MaxGap = f(p.Bootstrap), f(p.MinGap), f(3*time.Hour)
		tr := NewTracker(p, at(shift))
		var all []int64
		now := int64(0)
		for range 200 {
			now += 10_000 + rng.Int64N(600_000)
			o := poll(shift+now*scale, []visit.Result{
				visit.Described, visit.Described, visit.Unchanged, visit.Asleep, visit.Refused,
			}[rng.IntN(5)])
			if o.Result == visit.Described {
				o.PublishedAt = []time.Time{at(shift + (now-rng.Int64N(10_000))*scale)}
			}
			tr.Observe(o)
			all = append(all, next(tr, shift+now*scale)-shift)
		}
		return all
	}
	for seed := range uint64(20) {
		base := decisions(seed, 0, 1)
		// Silence has phases of its own, which the first contact seeds.
		shifted, scaled := decisions(seed, 86_400_000*777, 1), decisions(seed, 0, 1000)
		same, near := 0, 0
		for i := range base {
			if base[i] == shifted[i] {
				same++
			}
			if math.Abs(float64(base[i]*1000-scaled[i])) <= 10_000 {
				near++
			}
		}
		if same < len(base)*9/10 || near < len(base)*9/10 {
			t.Errorf("seed %d: %d and %d of %d decisions alike", seed, same, near, len(base))
		}
	}
}

// A source without jitter and loss: never more than MinGap late, one poll each.
func TestPerfectSource(t *testing.T) {
	for _, period := range []float64{60_000, 299_999.7, 3600_000} {
		items := source{period, 1, 1, 0}.publish(rand.New(rand.NewPCG(4, 4)), 300)
		r := run(NewTracker(testParams(), epoch0), items, 20, true)
		l := run(NewTracker(policyParams(DPTL, true), epoch0), items, 20, true)
		if l.latencies[len(l.latencies)-1] > 1 || l.ppe > 1.02 {
			t.Errorf("dpt-l, period %v ms: %v s, %v polls each", period, l.latencies, l.ppe)
		}
		t.Logf("period %.1f s: worst latency %.3f s, ppe %.3f", period/1000,
			r.latencies[len(r.latencies)-1], r.ppe)
		if r.latencies[len(r.latencies)-1] > 1 || r.ppe > 2 {
			t.Errorf("period %v ms: worst latency %v s, %v polls each", period,
				r.latencies[len(r.latencies)-1], r.ppe)
		}
	}
}

// A lost sample joins two intervals; the folded deviation does not see it, the raw one
// quadruples.
func TestLostSample(t *testing.T) {
	window := []int64{}
	rng := rand.New(rand.NewPCG(6, 6))
	for range 19 {
		window = append(window, 300_000+int64(laplace(rng, 10_000)))
	}
	m, _ := estimate(window, false)
	_, whole := estimate(append(window, m+7_000, m), false)
	_, lost := estimate(append(window, m+7_000, 2*m), false)
	if math.Abs(lost/whole-1) > 0.01 {
		t.Errorf("sd %.0f ms, with a lost sample %.0f", whole, lost)
	}
}

// A sensor that becomes slower or faster is followed within 25 publications, by any
// variant. One that becomes ten times faster seems to catch up first: three looks long.
func TestPeriodChange(t *testing.T) {
	for _, policy := range []Policy{DPTA, DPTN, DPTL, Bimodal} {
		for _, factor := range []float64{2, 10, 0.5, 0.1} {
			rng := rand.New(rand.NewPCG(13, uint64(factor*10)))
			items := source{300_000, 1, 1, 3000}.publish(rng, 60)
			changed := items[len(items)-1]
			for range 60 {
				changed += int64(factor*300_000 + laplace(rng, 3000))
				items = append(items, changed)
			}
			tr := NewTracker(policyParams(policy, true), epoch0)
			seen := 25
			if factor == 0.1 {
				seen = 45
			}
			run(tr, items[:60+seen], 0, true)
			m, _, _, mode := tr.Stats()
			if got := m.Seconds() / 300 / factor; math.Abs(got-1) > 0.02 {
				t.Errorf("%s: period x%v: median %v, mode %s", policy, factor, m, mode)
			}
		}
	}
}

// The period stays the true one when samples are lost, and when what was lost comes later
// in a burst. (The median of 20 intervals needs a p_ss of about .8 for that: at .7 it is two
// periods in one window of 20, below .5 in most. Such is the algorithm.) The control
// admits every interval.
func TestLearntPeriod(t *testing.T) {
	for _, pss := range []float64{.8, .95} {
		for _, burst := range []int{0, 40} {
			rng := rand.New(rand.NewPCG(14, uint64(burst)))
			plain := source{300_000, pss, .8, 3000}.publish(rng, 600)
			items := plain[:0:0]
			for i, ms := range plain {
				items = append(items, ms)
				if i%50 == 49 {
					for k := range int64(burst) {
						items = append(items, ms+100*(k+1))
					}
				}
			}
			tr, control := NewTracker(testParams(), epoch0), newTwin(aligned, DPTN, true)
			worst, worstControl := 0.0, 0.0
			for i := 100; i < len(items); i += 37 {
				tr = NewTracker(testParams(), epoch0)
				control = newTwin(aligned, DPTN, true)
				run(tr, items[max(0, i-100):i], 0, true)
				run(control, items[max(0, i-100):i], 0, true)
				m, _, _, _ := tr.Stats()
				c, _ := control.stats()
				worst = max(worst, math.Abs(m.Seconds()/300-1))
				worstControl = max(worstControl, math.Abs(float64(c)/300_000-1))
			}
			t.Logf("p_ss %v, bursts of %d: period wrong by %.1f %%, control %.1f %%", pss, burst,
				100*worst, 100*worstControl)
			if worst > 0.02 {
				t.Errorf("p_ss %v, bursts of %d: period wrong by %.1f %%", pss, burst, 100*worst)
			}
			if burst > 0 && worstControl < 0.5 {
				t.Errorf("the control is wrong by %.1f %% only", 100*worstControl)
			}
		}
	}
}

// Timeouts leave what is known of publications alone, whatever their number and whatever
// the rule.
func TestTimeouts(t *testing.T) {
	for _, policy := range Policies() {
		if policy == Fixed {
			continue
		}
		p := testParams()
		p.Policy, p.MaxGap = policy, time.Hour
		tr, pub := learnt(t, p, 300_000, 10)
		before, err := json.Marshal(tr.rule)
		if err != nil {
			t.Fatal(err)
		}
		now := pub
		var gaps []string
		for range 12 {
			n := next(tr, now)
			gaps = append(gaps, span(n-now).Truncate(time.Second).String())
			now = n
			tr.Observe(poll(now, visit.Asleep))
		}
		if _, why := tr.Next(at(now), 1); !strings.HasPrefix(why, string(policy)+": silent, gap") {
			t.Errorf("why %q", why)
		}
		if now-pub > 12*3600_000 || now-pub < 1800_000 {
			t.Errorf("12 timeouts took %v, gaps %v", span(now-pub), gaps)
		}
		after, err := json.Marshal(tr.rule)
		if err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s: timeouts changed %s to %s, %v", policy, before, after, err)
		}
		tr.Observe(poll(now+1000, visit.Unchanged))
		if _, why := tr.Next(at(now+1000), 1); strings.Contains(why, "silent") {
			t.Errorf("after an answer: %q, want the next epoch", why)
		}
	}
}

// A datagram is lost more often than a phase: after the first timeout it looks again at
// the next epoch.
func TestFirstTimeout(t *testing.T) {
	tr, pub := learnt(t, testParams(), 300_000, 10)
	now := next(tr, pub)
	tr.Observe(poll(now+700, visit.Asleep))
	if got := next(tr, now+700); got != pub+600_000 {
		t.Errorf("next look %v after the last publication", span(got-pub))
	}
}

func TestRefusals(t *testing.T) {
	tr, pub := learnt(t, testParams(), 300_000, 10)
	now := next(tr, pub)
	o := poll(now, visit.Refused)
	o.RetryAfter = 20 * time.Minute
	tr.Observe(o)
	if a, why := tr.Next(at(now), 1); !a.Equal(at(now+20*60_000)) || why != "retry-after" {
		t.Errorf("got %v %q", a, why)
	}
	for i, want := range []string{"1m0s", "2m0s", "4m0s"} {
		now = next(tr, now)
		tr.Observe(poll(now, visit.Refused))
		a, why := tr.Next(at(now), 1)
		if !a.Equal(at(now+60_000<<i)) || why != "dpt-n: refused, gap "+want {
			t.Errorf("refusal %d: %v %q", i, a.Sub(at(now)), why)
		}
	}
}

// Publish times that cannot be: in the future, repeated, before those already shown,
// years behind. No interval of the window may come from them.
func TestOddPublishTimes(t *testing.T) {
	odd := map[string]func(now int64) []time.Time{
		"future":    func(now int64) []time.Time { return []time.Time{at(now + 1500), at(now * 1000)} },
		"repeated":  func(int64) []time.Time { return []time.Time{at(3000_000), at(3000_000)} },
		"regressed": func(int64) []time.Time { return []time.Time{at(2000_000), at(1000_000)} },
		"years":     func(now int64) []time.Time { return []time.Time{at(now).AddDate(-30, 0, 0)} },
		"absurd":    func(int64) []time.Time { return []time.Time{time.Unix(math.MinInt64, 0), {}} },
	}
	for name, times := range odd {
		tr, now := learnt(t, testParams(), 300_000, 10)
		before := slices.Clone(windowOf(tr))
		now += 300_000
		o := poll(now, visit.Described)
		o.PublishedAt = times(now)
		tr.Observe(o)
		if !slices.Equal(before, windowOf(tr)) {
			t.Errorf("%s: window %v", name, windowOf(tr))
		}
		if n := next(tr, now); n <= now || n > now+600_000 {
			t.Errorf("%s: next poll %v later", name, span(n-now))
		}
	}
}

// Without publish times the learnt period is that of the polls; the phase stays late.
func TestDetectionTimes(t *testing.T) {
	items := source{300_000, 1, 1, 2_000}.publish(rand.New(rand.NewPCG(8, 8)), 2000)
	p := testParams()
	p.PublishTimes = TimesHide
	r := run(NewTracker(p, epoch0), items, 100, false)
	t.Logf("detection times only: median latency %.1f s, ppe %.2f", r.median(), r.ppe)
	if r.ppe > 2.5 || r.median() > 600 {
		t.Errorf("median %v s, ppe %v", r.median(), r.ppe)
	}
}

func TestBootstrapWaitsForMaxAge(t *testing.T) {
	p := testParams()
	p.PublishTimes = TimesHide
	for stated, want := range map[time.Duration]string{
		10 * time.Minute: "10m0s dpt-n: max-age 10m0s", time.Minute: "1m0s dpt-n: bootstrap 1m0s",
		1000 * time.Hour: "48h0m0s dpt-n: max-age 48h0m0s",
	} {
		tr := NewTracker(p, epoch0)
		o := poll(0, visit.Described)
		o.HasMaxAge, o.MaxAge = true, stated
		tr.Observe(o)
		a, why := tr.Next(epoch0, 1)
		if got := a.Sub(epoch0).String() + " " + why; got != want {
			t.Errorf("max-age %v: got %q, want %q", stated, got, want)
		}
	}
	tr, now := learnt(t, p, 300_000, 10) // a known period says more
	o := poll(now+300_000, visit.Described)
	o.HasMaxAge, o.MaxAge = true, time.Hour
	tr.Observe(o)
	if got := next(tr, now+300_000); got != now+600_000 {
		t.Errorf("next poll after %v", span(got-now-300_000))
	}
}

// Fixed polls at its interval and finds news half an interval late.
func TestFixed(t *testing.T) {
	p := testParams()
	p.Policy, p.Bootstrap = Fixed, 10*time.Minute
	items := source{271_000, 1, 1, 5_000}.publish(rand.New(rand.NewPCG(9, 9)), 6000)
	r := run(NewTracker(p, epoch0), items, 0, true)
	if math.Abs(r.mean()-300) > 6 {
		t.Errorf("mean latency %.1f s, want half the interval, 300", r.mean())
	}
	tr := NewTracker(p, epoch0)
	for _, res := range []visit.Result{visit.Asleep, visit.Asleep, visit.Unchanged} {
		now := next(tr, tr.s.Last-epoch0.UnixMilli())
		tr.Observe(poll(now, res))
	}
	if a, why := tr.Next(at(1800_000), 1); !a.Equal(at(2400_000)) || why != "fixed 10m0s" {
		t.Errorf("got %v %q", a.Sub(epoch0), why)
	}
}

// Expected is what a run with 10 % loss really spends, within 15 %.
func TestExpected(t *testing.T) {
	src := source{300_000, 0.95, 0.8, 10_000}
	items := src.publish(rand.New(rand.NewPCG(5, 5)), 2100)
	tr := NewTracker(testParams(), epoch0)
	run(tr, items[:100], 0, true)
	day := at(items[99])
	forecast := tr.Expected(day, day.Add(24*time.Hour))
	r := run(tr, items, 100, true)
	spent := 0
	for _, ms := range r.polls {
		if ms > items[99] && ms <= items[99]+24*3600_000 {
			spent++
		}
	}
	t.Logf("expected %.1f, spent %d", forecast, spent)
	if math.Abs(forecast/float64(spent)-1) > 0.15 {
		t.Errorf("expected %.1f polls, spent %d", forecast, spent)
	}
	if e := tr.Expected(epoch0, epoch0); e != 0 {
		t.Errorf("empty range: %v polls", e)
	}
	tr = NewTracker(testParams(), epoch0)
	if e := tr.Expected(epoch0, at(3600_000)); math.Abs(e-60) > 1 {
		t.Errorf("bootstrap: %v polls in an hour, want 60", e)
	}
}

func TestConfigure(t *testing.T) {
	tr, now := learnt(t, testParams(), 300_000, 10)
	p := testParams()
	p.Window, p.MaxGap = 5, 2*time.Minute
	tr.Configure(p)
	if len(windowOf(tr)) != 5 || next(tr, now) != now+120_000 {
		t.Errorf("window %v, next %v", windowOf(tr), span(next(tr, now)-now))
	}
	if m, _, _, _ := tr.Stats(); m != 5*time.Minute {
		t.Errorf("median %v", m)
	}
}
