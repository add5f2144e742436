package sim

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/visit"
)

// slowReplay polls by the same tracker, but keeps a list of instants and looks for the
// first poll of each publication from the beginning. late counts a poll at the instant
// of the publication as too early: the negative control.
func slowReplay(t *testing.T, params dpt.Params, publications []time.Time, hidden, late bool) (
	polls []time.Time, latencies []float64) {
	t.Helper()
	tracker := dpt.NewTracker(params, publications[0])
	last := publications[len(publications)-1]
	previous := time.Time{}
	for now := publications[0]; ; now, _ = tracker.Next(now, 1) {
		polls = append(polls, now)
		o := visit.Outcome{Visit: visit.Visit{At: now, Kind: visit.Poll}, Result: visit.Unchanged,
			Contact: true, Started: now, Ended: now}
		var known time.Time
		for _, at := range publications {
			if !at.After(previous) {
				known = at
			} else if !at.After(now) {
				o.Result = visit.Described
				o.PublishedAt = append(o.PublishedAt, at)
			}
		}
		if o.Result == visit.Described && !known.IsZero() {
			o.PublishedAt = slices.Insert(o.PublishedAt, 0, known)
		}
		if hidden {
			o.PublishedAt = nil
		}
		tracker.Observe(o)
		previous = now
		if !now.Before(last) {
			break
		}
	}
	for _, at := range publications {
		i := slices.IndexFunc(polls, func(p time.Time) bool {
			return p.After(at) || !late && p.Equal(at)
		})
		if i < 0 {
			i = len(polls) - 1
		}
		latencies = append(latencies, polls[i].Sub(at).Seconds())
	}
	return polls, latencies
}

func drawTraffic(rng *rand.Rand) Traffic {
	period := time.Duration(math.Exp(rng.Float64()*8) * float64(5*time.Second))
	return Traffic{Period: period, PSS: 0.3 + 0.7*rng.Float64(), PFS: 0.3 + 0.7*rng.Float64(),
		Jitter: time.Duration(rng.Float64() * float64(period) / 10),
		Pacing: []Pacing{DelayPacing, WallClockPacing}[rng.IntN(2)], OutageChance: 0.02,
		Outage: time.Duration(rng.Float64() * 40 * float64(period))}
}

func TestReplayAgreesWithASlowOne(t *testing.T) {
	t.Parallel()
	counted, caught := map[dpt.Policy]int{}, 0
	for trial := range uint64(trials(150, 1500)) {
		rng := rand.New(rand.NewPCG(trial, 1))
		n := 20 + rng.IntN(60)
		if rng.IntN(10) == 0 {
			n = 2*unjudged + 1 + rng.IntN(20)
		}
		publications, err := drawTraffic(rng).Publish(trial, Epoch, n)
		if err != nil {
			t.Fatal(err)
		}
		publications = slices.CompactFunc(publications, time.Time.Equal)
		policies := dpt.Policies()
		p := Polling{Policy: policies[rng.IntN(len(policies))], Hidden: rng.IntN(3) == 0}
		got, err := p.run("model", publications, 0)
		if err != nil {
			t.Fatal(err)
		}
		params, err := p.params("model", publications)
		if err != nil {
			t.Fatal(err)
		}
		polls, want := slowReplay(t, params, publications, p.Hidden, false)
		if !slices.Equal(got.latencies, want[got.skip:]) {
			t.Fatalf("trial %d, %+v: other latencies than the slow replay", trial, p)
		}
		hits := 0
		for _, at := range polls {
			if got.skip > 0 && !at.After(publications[got.skip-1]) {
				continue
			}
			hits++
		}
		if d := hits - got.polls; d < 0 || d > 1 {
			t.Fatalf("trial %d, %+v: %d polls, want %d", trial, p, got.polls, hits)
		}
		if _, wrong := slowReplay(t, params, publications, p.Hidden, true); !slices.Equal(
			got.latencies, wrong[got.skip:]) {
			caught++
		}
		counted[p.Policy]++
	}
	if len(counted) != len(dpt.Policies()) || caught == 0 {
		t.Errorf("cases %v, %d wrong replays caught", counted, caught)
	}
	t.Log(counted, caught)
}

// Fixed polling has closed forms.
func TestFixedPolling(t *testing.T) {
	t.Parallel()
	exact := make([]time.Time, 2000)
	for i := range exact {
		exact[i] = Epoch.Add(time.Duration(i) * 300 * time.Second)
	}
	for _, interval := range []time.Duration{7 * time.Second, 97 * time.Second, 331 * time.Second,
		1009 * time.Second} {
		r, err := Polling{Policy: dpt.Fixed, Period: interval}.Replay("exact", exact)
		if err != nil {
			t.Fatal(err)
		}
		if want := interval.Seconds() / 2; math.Abs(r.Latency.Mean/want-1) > 0.02 {
			t.Errorf("interval %v: mean latency %.2f s, want %.2f", interval, r.Latency.Mean, want)
		}
	}
	for _, phase := range []float64{0.05, 0.25, 0.5, 0.75, 0.95} {
		r, err := Polling{Policy: dpt.Fixed, Period: 300 * time.Second}.run("exact", exact, phase)
		if err != nil {
			t.Fatal(err)
		}
		got := r.result(dpt.Fixed, "exact").Latency
		if want := 300 * (1 - phase); math.Abs(got.Mean-want) > 0.001 || got.SD > 0.001 {
			t.Errorf("phase %v: latency %+v, want %v", phase, got, want)
		}
	}
}

// allShipped are the traces beside the documents.
func allShipped(t *testing.T, names ...string) []Trace {
	t.Helper()
	var all []Trace
	for _, name := range names {
		trace := shipped(t, name)
		trace.Name = name
		all = append(all, trace)
	}
	return all
}

// The paper's headline, 10 to 30 % of fixed polling, holds for the median of DPT-L on the
// traces with jitter.
func TestLazyAgainstFixedOnTraces(t *testing.T) {
	t.Parallel()
	for _, trace := range allShipped(t, "uci_occ_detection", "uci_occ_estimation") {
		var median [2]float64
		for i, p := range []dpt.Policy{dpt.DPTL, dpt.Fixed} {
			r, err := Polling{Policy: p}.Replay(trace.Name, trace.Instants)
			if err != nil {
				t.Fatal(err)
			}
			median[i] = r.Latency.Median
		}
		if ratio := median[0] / median[1]; ratio > 0.32 {
			t.Errorf("%s: median of DPT-L %.3f of fixed polling, want at most 0.32", trace.Name, ratio)
		}
	}
}

func factOf(t *testing.T, f *figure.Figure, name string) float64 {
	t.Helper()
	for _, fact := range f.Facts {
		if fact.Name == name {
			return fact.Value
		}
	}
	t.Fatalf("%s: no fact %q", f.ID, name)
	return 0
}

type wantFact struct {
	name     string
	from, to float64
}

func checkFacts(t *testing.T, number string, runs int, wants []wantFact) {
	t.Helper()
	s := PollingStudy{Runs: runs, Seed: 1, Workers: 2}
	if PollingNeedsTraces(number) {
		s.Traces = allShipped(t, "uci_occ_detection", "uci_occ_estimation", "uci_airquality")
	}
	f, err := s.Figure(number)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range wants {
		if got := factOf(t, f, w.name); !(got >= w.from && got <= w.to) {
			t.Errorf("figure %s: %s: %.4g, want %g .. %g", number, w.name, got, w.from, w.to)
		}
	}
}

// What the paper reports and can be reproduced.
func TestPollingFigures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		number      string
		quick, full int
		wants       []wantFact
	}{
		{"4", 20, 20, []wantFact{{"mean latency, interval 600 s", 290, 310},
			{"mean latency, interval 150 s", 73, 77}, {"mean latency, interval 5 s", 2.45, 2.55},
			{"polls in vain, interval 5 s", 98, 99},
			{"mean latency, interval 300 s, best phase", 0, 30},
			{"mean latency, interval 300 s, worst phase", 270, 299}}},
		{"20", 1, 40, []wantFact{{"mean latency at p_ss 0.95, fixed", 110, 190},
			{"mean latency at p_ss 0.95, DPT-N / best fixed phase", 0, 1},
			{"mean latency at p_ss 0.95, DPT-L / best fixed phase", 0, 1},
			{"hits at p_ss 0.95, DPT-A", 36, 43}, {"hits at p_ss 0.95, DPT-N", 58, 64},
			{"hits at p_ss 0.95, DPT-L", 86, 91}, {"hits at p_ss 0.95, fixed", 91, 95}}},
		{"22", 1, 10, []wantFact{{"mean latency at 5 min, fixed, 1 day", 0, 1440},
			{"hits at 5 min, fixed, 1 day", 98, 100}, {"hits at 5 min, fixed, 1 h", 50, 58},
			{"mean latency at 5 min, DPT-L, bimodal", 0, 24},
			{"hits at 5 min, DPT-L, bimodal", 59, 100}}},
		{"23", 2, 10, []wantFact{{"republishing latency, fixed, 60 min", 20, 55},
			{"republishing hits, fixed, 60 min", 97, 100},
			{"republishing latency, fixed, 15 min", 6, 9.5},
			{"republishing hits, fixed, 15 min", 41, 53},
			{"republishing latency, MDPT", 0.6, 1.2}, {"republishing hits, MDPT", 88, 98}}},
		{"24", 2, 10, []wantFact{{"republishing latency, MDPT", 0.3, 1.5},
			{"republishing hits, MDPT", 89, 100}}},
		{"10", 1, 1, []wantFact{{"K-S distance of normal, uci_occ_detection, 1 period", 0, 0.1}}},
	} {
		t.Run(c.number, func(t *testing.T) {
			t.Parallel()
			checkFacts(t, c.number, trials(c.quick, c.full), c.wants)
		})
	}
}

// Figures are the same for the same seed, whatever the number of workers, and others for
// another one.
func TestPollingFiguresAreDeterministic(t *testing.T) {
	t.Parallel()
	traces := allShipped(t, "uci_occ_estimation")
	traces[0].Instants = traces[0].Instants[:1000]
	for _, number := range []string{"8", "9", "10", "11", "14", "17", "21", "23", "24"} {
		draw := func(seed uint64, workers int) string {
			s := PollingStudy{Traces: traces, Runs: 1, Seed: seed, Workers: workers}
			f, err := s.Figure(number)
			if err != nil {
				t.Fatal(number, err)
			}
			var out bytes.Buffer
			for _, format := range figure.Formats() {
				if err := f.Write(&out, format); err != nil {
					t.Fatal(number, err)
				}
			}
			return out.String()
		}
		once := draw(1, 1)
		if once != draw(1, 4) {
			t.Errorf("figure %s: not the same twice", number)
		}
		if number == "21" && once == draw(2, 1) {
			t.Errorf("figure %s: the seed changes nothing", number)
		}
	}
}

func TestPollingRefuses(t *testing.T) {
	t.Parallel()
	instants := []time.Time{Epoch, Epoch.Add(time.Hour), Epoch.Add(2 * time.Hour)}
	for _, c := range []struct {
		polling Polling
		source  []time.Time
		want    string
	}{
		{Polling{Policy: dpt.DPTN}, instants[:1], "polling s: 1 publications, need 2"},
		{Polling{Policy: dpt.DPTN, Period: time.Millisecond}, instants, "period 1ms: must be at least"},
		{Polling{Policy: "odd"}, instants, `unknown policy "odd"`},
		{Polling{Policy: dpt.DPTN, MaxGap: time.Second}, instants, "max gap 1s"},
		{Polling{Policy: dpt.HZ, Price: time.Second, PPE: 1}, instants, "exclude each other"},
	} {
		_, err := c.polling.Replay("s", c.source)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.polling, err, c.want)
		}
	}
	if _, err := (PollingStudy{}).Figure("8"); err == nil {
		t.Error("figure 8 without a trace")
	}
	if _, err := (PollingStudy{}).Figure("5"); err == nil {
		t.Error("figure 5")
	}
}

// At as many polls HZ leaves DPT's mean and 95th percentile far behind.
func TestHZAtEqualLoad(t *testing.T) {
	t.Parallel()
	for _, pacing := range []Pacing{DelayPacing, WallClockPacing} {
		for seed := range uint64(trials(1, 3)) {
			source, err := Traffic{Period: paperPeriod, PSS: 0.95, PFS: 0.8, Jitter: paperJitter,
				Pacing: pacing}.Publish(seed, Epoch, trials(3000, 10000))
			if err != nil {
				t.Fatal(err)
			}
			for policy, want := range map[dpt.Policy][2]float64{dpt.DPTN: {0.22, 0.12},
				dpt.DPTL: {0.4, 0.2}} {
				base, hz := againstHZ(t, Polling{Policy: policy, SD: dpt.SDRaw}, source, 0)
				mean, p95 := hz.Latency.Mean/base.Latency.Mean, hz.Latency.P95/base.Latency.P95
				if mean > want[0] || p95 > want[1] || math.Abs(hz.PPE-base.PPE) > 0.03 {
					t.Errorf("%s, seed %d: HZ in %s: mean %.3f, p95 %.3f, want at most %v; polls per "+
						"publication %.3f, %.3f", pacing, seed, policy, mean, p95, want, hz.PPE, base.PPE)
				}
			}
		}
	}
}

// againstHZ is a policy, and HZ at that many polls per publication or one, and some more.
func againstHZ(t *testing.T, p Polling, source []time.Time, more float64) (base, hz PollingResult) {
	t.Helper()
	base, err := p.Replay("source", source)
	if err != nil {
		t.Fatal(err)
	}
	hz, err = Polling{Policy: dpt.HZ, PPE: max(base.PPE, 1) + more}.Replay("source", source)
	if err != nil {
		t.Fatal(err)
	}
	return base, hz
}

// On traces its mean and its 95th percentile are no worse. The mean is that of two and of
// four outages: by how much the last gap of each overshot is luck, so it is judged over
// several largest gaps.
func TestHZOnTraces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		period float64
		gaps   []time.Duration
	}{
		{"uci_occ_detection", 60, []time.Duration{0, 150 * time.Minute, 3 * time.Hour,
			210 * time.Minute, 5 * time.Hour, 350 * time.Minute}},
		{"uci_occ_estimation", 30.6, []time.Duration{0, 150 * time.Minute, 3 * time.Hour,
			210 * time.Minute, 5 * time.Hour, 350 * time.Minute}},
		{"uci_airquality", 3600, []time.Duration{0}},
	} {
		trace := shipped(t, c.name)
		for _, policy := range []dpt.Policy{dpt.DPTL, dpt.DPTN}[:trials(1, 2)] {
			gaps := c.gaps[:min(trials(3, len(c.gaps)), len(c.gaps))]
			mean, baseMean := 0.0, 0.0
			for _, gap := range gaps {
				base, hz := againstHZ(t, Polling{Policy: policy, MaxGap: gap}, trace.Instants, 0.02)
				if hz.PPE > max(base.PPE, 1)+0.05 {
					t.Errorf("%s: %.3f polls per publication, %s has %.3f", c.name, hz.PPE, policy,
						base.PPE)
				}
				if want := base.Latency.P95*1.02 + c.period/1000; hz.Latency.P95 > want {
					t.Errorf("%s: p95 %.2f s, want at most %.2f as %s", c.name, hz.Latency.P95, want,
						policy)
				}
				mean += hz.Latency.Mean
				baseMean += base.Latency.Mean
			}
			n := float64(len(gaps))
			t.Logf("%s: mean %.1f s, %s %.1f", c.name, mean/n, policy, baseMean/n)
			if mean > baseMean {
				t.Errorf("%s: mean %.1f s, %s has %.1f", c.name, mean/n, policy, baseMean/n)
			}
		}
	}
}
