package sim

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/stat"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/visit"
)

// seedsOf is how many seeds a statistical test takes: more where time is set aside.
func seedsOf(quick, full int) uint64 {
	return uint64(trials(quick, full))
}

// fiveMinutes is the source of the paper's simulations.
func fiveMinutes(pss, pfs float64, jitter time.Duration, pacing Pacing) Traffic {
	return Traffic{Period: 5 * time.Minute, PSS: pss, PFS: pfs, Jitter: jitter, Pacing: pacing}
}

func published(t *testing.T, m Traffic, seed uint64, n int) []time.Time {
	t.Helper()
	at, err := m.Publish(seed, Epoch, n)
	if err != nil {
		t.Fatal(err)
	}
	if len(at) != n || !slices.IsSortedFunc(at, time.Time.Compare) {
		t.Fatalf("%d instants, want %d in order", len(at), n)
	}
	return at
}

func fitted(t *testing.T, m Traffic, seed uint64, n int) TrafficFit {
	t.Helper()
	f, err := FitTraffic(Trace{Name: "generated", Instants: published(t, m, seed, n)})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTrafficValidate(t *testing.T) {
	good := fiveMinutes(0.95, 0.8, time.Second, DelayPacing)
	for want, change := range map[string]func(*Traffic){
		"period 0s":        func(m *Traffic) { m.Period = 0 },
		"p_ss 1.5":         func(m *Traffic) { m.PSS = 1.5 },
		"p_ss NaN":         func(m *Traffic) { m.PSS = math.NaN() },
		"p_fs 0":           func(m *Traffic) { m.PFS = 0 },
		"jitter -1s":       func(m *Traffic) { m.Jitter = -time.Second },
		`pacing "slow"`:    func(m *Traffic) { m.Pacing = "slow" },
		"outage chance 2":  func(m *Traffic) { m.OutageChance = 2 },
		"outage -1s":       func(m *Traffic) { m.Outage = -time.Second },
		"batches silent":   func(m *Traffic) { m.Batches = &Batches{Silent: day} },
		"spacing -1s":      func(m *Traffic) { m.Batches = &Batches{Online: 1, Spacing: -time.Second} },
		"two times of day": func(m *Traffic) { m.Batches = &Batches{} },
	} {
		m := good
		change(&m)
		if _, err := m.Publish(1, Epoch, 1); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

func TestTrafficSeed(t *testing.T) {
	m := fiveMinutes(0.9, 0.6, 10*time.Second, WallClockPacing)
	m.OutageChance, m.Outage = 0.01, 6*time.Hour
	a, b, c := published(t, m, 7, 500), published(t, m, 7, 500), published(t, m, 8, 500)
	if !slices.Equal(a, b) || slices.Equal(a, c) {
		t.Error("a seed must give the same instants, another one others")
	}
}

// With delay pacing jitter adds up, with wall-clock pacing it does not: after n
// publications the distance from the grid has sd*sqrt(n), or sd.
func TestPacings(t *testing.T) {
	for pacing, want := range map[Pacing]float64{DelayPacing: 10 * 20, WallClockPacing: 10} {
		var off []float64
		for seed := range uint64(400) {
			at := published(t, fiveMinutes(1, 1, 10*time.Second, pacing), seed, 400)
			off = append(off, at[399].Sub(Epoch).Seconds()-400*300)
		}
		if sd := stat.StdDev(off, nil); math.Abs(sd/want-1) > 0.15 {
			t.Errorf("%s: sd %.1f s after 400 publications, want %.0f", pacing, sd, want)
		}
	}
}

// P(X > sd) = exp(-sqrt 2)/2 of Laplace jitter on either side.
func TestLaplaceTails(t *testing.T) {
	at := published(t, fiveMinutes(1, 1, 10*time.Second, DelayPacing), 3, 100_000)
	early, late := 0.0, 0.0
	for i := range at[1:] {
		switch x := at[i+1].Sub(at[i]).Seconds() - 300; {
		case x > 10:
			late++
		case x < -10:
			early++
		}
	}
	t.Logf("beyond one standard deviation: %.2f %% early, %.2f %% late", early/1000, late/1000)
	want := math.Exp(-math.Sqrt2) / 2
	for _, share := range []float64{early / 100_000, late / 100_000} {
		if math.Abs(share-want) > 3*math.Sqrt(want*(1-want)/100_000) {
			t.Errorf("%.4f, want %.4f", share, want)
		}
	}
}

func TestTrafficOutages(t *testing.T) {
	for _, pacing := range []Pacing{DelayPacing, WallClockPacing} {
		m := fiveMinutes(0.95, 0.8, 10*time.Second, pacing)
		m.OutageChance, m.Outage = 0.005, 6*time.Hour
		f := fitted(t, m, 5, 20_000)
		if n := float64(f.Outages.Number); math.Abs(n-100) > 3*math.Sqrt(100) {
			t.Errorf("%s: %v outages of 20 000 publications, want 100", pacing, n)
		}
		if math.Abs(f.Outages.Median-6*3600-300) > 150 {
			t.Errorf("%s: outages of %.0f s, want 6 h and a period", pacing, f.Outages.Median)
		}
		if again := f.Traffic(); math.Abs(again.OutageChance/0.005-1) > 0.35 ||
			again.Outage < 6*time.Hour-time.Minute || again.Outage > 6*time.Hour+10*time.Minute {
			t.Errorf("%s: fitted model %+v", pacing, again)
		}
	}
}

// Batches lose nothing and leave what is taken online as it is; what is taken while
// silent appears at the end of the silence.
func TestBatches(t *testing.T) {
	plain := fiveMinutes(1, 1, time.Second, DelayPacing)
	for _, b := range []Batches{
		{Silent: 6 * time.Hour, Online: 18 * time.Hour, Spacing: time.Second},
		{Silent: 20 * time.Hour, Online: 8 * time.Hour, Jitter: 10 * time.Minute},
	} {
		m := plain
		m.Batches = &b
		in, out := published(t, plain, 2, 3000), published(t, m, 2, 3000)
		held := 0
		for _, x := range in {
			_, silent := b.until(x)
			_, there := slices.BinarySearchFunc(out, x, time.Time.Compare)
			if silent {
				held++
			} else if !there {
				t.Errorf("%+v: %v was moved", b, x)
			}
		}
		burst := 0
		for i, x := range out {
			end, silent := b.until(x)
			if silent && end.Sub(x) > 2*time.Hour {
				t.Errorf("%+v: published at %v", b, x)
			}
			if i > 0 && x.Sub(out[i-1]) <= b.Spacing {
				burst++
			}
		}
		days := out[2999].Sub(Epoch).Hours() / 24
		t.Logf("%+v: %d of 3000 held back, %d in bursts, %.1f days", b, held, burst, days)
		if math.Abs(float64(held)-144*days) > 150 || burst < held-2*int(days+1)-20 {
			t.Errorf("%+v: %d of 3000 held back in %.1f days, %d in bursts", b, held, days, burst)
		}
	}
}

// polled drives the daemon's fixed polling over the publications: latencies in seconds
// and the share of polls that found something.
func polled(t *testing.T, at []time.Time, interval, phase time.Duration) (mean, hits float64) {
	t.Helper()
	tr := dpt.NewTracker(dpt.Params{Policy: dpt.Fixed, Bootstrap: interval, MinGap: time.Millisecond,
		MaxGap: day}, Epoch.Add(phase))
	now, read, polls := Epoch.Add(phase), 0, 0.0
	for read < len(at) {
		now, _ = tr.Next(now, 1)
		polls++
		o := visit.Outcome{Visit: visit.Visit{At: now}, Result: visit.Unchanged, Contact: true,
			Started: now, Ended: now}
		for read < len(at) && !at[read].After(now) {
			o.Result = visit.Described
			mean += now.Sub(at[read]).Seconds()
			read++
		}
		if o.Result == visit.Described {
			hits++
		}
		tr.Observe(o)
	}
	return mean / float64(len(at)), hits / polls
}

// Fixed polling has closed forms (DPT paper, fig. 4): where interval and period do not
// match the mean latency is half of the interval; where they do it follows the phase.
func TestFixedPollingClosedForms(t *testing.T) {
	near := func(what string, got, want float64) {
		t.Logf("%s: %.2f, closed form %.2f", what, got, want)
		if math.Abs(got/want-1) > 0.02 {
			t.Errorf("%s: %.3f, want %.3f", what, got, want)
		}
	}
	at := published(t, fiveMinutes(0.95, 0.8, 10*time.Second, DelayPacing), 1, 20_000)
	for _, interval := range []time.Duration{61, 173, 423} {
		mean, _ := polled(t, at, interval*time.Second, 0)
		near("incommensurate "+(interval*time.Second).String(), mean, interval.Seconds()*5e8)
	}
	mean, hits := polled(t, at[:3000], 5*time.Second, 0)
	near("every 5s", mean, 2.5)
	near("every 5s, unfruitful", 1-hits, 1-5.0/300/(1+0.05/0.8)) // (1+.05/.8) periods each
	for _, interval := range []time.Duration{150, 600} {         // the paper's; mean of the phases
		mean := 0.0
		for k := range time.Duration(8) {
			m, _ := polled(t, at[:10_000], interval*time.Second, k*interval*time.Second/8)
			mean += m / 8
		}
		near("every "+(interval*time.Second).String(), mean, interval.Seconds()*5e8)
	}

	const jitter = 5.0
	at = published(t, fiveMinutes(0.95, 0.8, 5*time.Second, WallClockPacing), 1, 40_000)
	tail := func(x float64) float64 { // P(X > x), Laplace
		if x < 0 {
			return 1 - math.Exp(x*math.Sqrt2/jitter)/2
		}
		return math.Exp(-x*math.Sqrt2/jitter) / 2
	}
	sum := 0.0
	for phase := 15.0; phase < 300; phase += 30 {
		// A poll comes phase after the slot: what is later waits a period, what was early
		// enough for the poll before went with that.
		want := phase + 300*tail(phase) - 300*(1-tail(phase-300))
		mean, _ := polled(t, at, 5*time.Minute, time.Duration(phase*1e9))
		near("matched, phase "+time.Duration(phase*1e9).String(), mean, want)
		sum += mean / 10
	}
	near("matched, mean of the phases", sum, 150)
}
