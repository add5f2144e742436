package planner

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// The account of moved rates is what a recount over the sensors gives.
func TestStakeIsTheVarianceOfMovedRates(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 4))
		p := &Planner{}
		var sensors []*sensor
		for range 1 + rng.IntN(30) {
			s := &sensor{rec: &Record{Rate: NewRate(rng.Float64(), true)}}
			p.settled(s, s.rec.Rate.Mean(), 100*rng.Float64())
			sensors = append(sensors, s)
		}
		for range 200 {
			s := sensors[rng.IntN(len(sensors))]
			s.rec.Rate.Prior = s.base * math.Exp(rng.NormFloat64())
			p.restake(s)
		}
		var shares, mean, variance float64
		for _, s := range sensors {
			shares += s.share
			mean += s.share * math.Log(s.rec.Rate.Prior/s.base)
		}
		mean /= shares
		for _, s := range sensors {
			off := math.Log(s.rec.Rate.Prior/s.base) - mean
			variance += s.share * off * off / shares
		}
		if got, want := p.drift.stake(), variance/4; math.Abs(got-want) > 1e-9*(1+want) {
			t.Fatalf("seed %d: stake %v, want %v", seed, got, want)
		}
	}
}

// movingFleet has rates that a reload will change, in windows of all kinds.
func movingFleet(t *testing.T, n int, rate func(i int) float64) *fleet.Fleet {
	t.Helper()
	rng := rand.New(rand.NewPCG(9, 9))
	var list []fleet.Sensor
	for i := range n {
		period := time.Duration(20+rng.IntN(100)) * time.Second
		plan, err := sleepplan.Cycle(period, period/4, start.Add(time.Duration(rng.IntN(60))*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		limit := fleet.NoCap
		if i%5 == 0 {
			limit = 4
		}
		list = append(list, fleet.Sensor{ID: fmt.Sprintf("s%03d", i), Weight: 1, MaxCrawls: limit,
			URI: fmt.Sprintf("coap://192.0.2.%d/", i), Rate: rate(i), Plan: plan})
	}
	f, err := fleet.New(list)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// logged makes a visit whose description logs what the sensor captured: learning is fast.
func (d *driver) logged(v visit.Visit, rate func(i int) float64, rng *rand.Rand) {
	d.t.Helper()
	var i int
	fmt.Sscanf(v.Sensor, "s%d", &i)
	o := visit.Outcome{Visit: v, Result: visit.Described, Started: d.now, Contact: true,
		Ended: d.now.Add(10 * time.Millisecond), Hash: fmt.Sprint(d.now.UnixNano())}
	rec := d.p.Record(v.Sensor)
	if !rec.Source.IsZero() {
		awake := d.p.exposure(d.p.sensors[i], rec.Source, d.now)
		for t := rng.ExpFloat64() / rate(i); t < awake; t += rng.ExpFloat64() / rate(i) {
			o.PublishedAt = append(o.PublishedAt, d.now.Add(-time.Millisecond))
		}
	}
	d.p.Observe(o, o.Ended)
}

// Rates that turn out to be other than listed are reason to solve the rest of the range
// anew. Doing so holds theta and every cap over the whole range, and gives plans
// versions of their own.
func TestRestOfTheRangeIsSolvedAnew(t *testing.T) {
	truth := func(i int) float64 {
		if i%3 == 0 {
			return 1.0 / 6
		}
		return 1.0 / 60
	}
	par := parameters()
	par.PerSensor = 6
	d := newDriver(t, movingFleet(t, 40, func(int) float64 { return 1.0 / 60 }), par)
	rng := rand.New(rand.NewPCG(1, 1))
	attempts, per := 0, map[string]int{}
	versions := map[uint64]bool{}
	mended := 0
	for d.now.Before(start.Add(3 * par.Range)) {
		range0 := d.p.rec.Range
		v := d.next()
		if !d.p.rec.Range.Equal(range0) {
			attempts, per = 0, map[string]int{}
		}
		versions[d.p.rec.Version] = true
		mended = max(mended, d.p.rec.Mended)
		if v.Deadline.After(d.now) {
			attempts++
			per[v.Sensor]++
			i, _ := d.p.fleet.Find(v.Sensor)
			if attempts > d.p.rec.Theta || per[v.Sensor] > d.p.sensors[i].limit() {
				t.Fatalf("%d attempts of %d, %d at %s", attempts, d.p.rec.Theta, per[v.Sensor], v.Sensor)
			}
		}
		d.logged(v, truth, rng)
	}
	if mended == 0 {
		t.Error("the rest of no range was solved anew")
	}
	if len(versions) < 3+mended {
		t.Errorf("%d versions of plans, %d mended in one range", len(versions), mended)
	}
	// What was learned shows: the busy third has more than its share of the crawls.
	busy, all := 0, 0
	for i, s := range d.p.sensors {
		if i%5 != 0 {
			all += s.rec.Used + len(s.rec.Instants)
			if i%3 == 0 {
				busy += s.rec.Used + len(s.rec.Instants)
			}
		}
	}
	if share := float64(busy) / float64(all); share < 0.4 {
		t.Errorf("sensors with ten times the events have %.2f of the crawls", share)
	}
}

// Fixed rates and visits that succeed give no reason to.
func TestNothingIsSolvedAnewWithoutReason(t *testing.T) {
	par := parameters()
	f := movingFleet(t, 40, func(int) float64 { return 1.0 / 60 })
	var list []fleet.Sensor
	for _, s := range f.All() {
		s := *s
		s.RateFixed = true
		list = append(list, s)
	}
	f, err := fleet.New(list)
	if err != nil {
		t.Fatal(err)
	}
	d := newDriver(t, f, par)
	for d.now.Before(start.Add(3 * par.Range)) {
		d.tell(d.next(), visit.Described)
		if d.p.rec.Mended > 0 {
			t.Fatal("solved anew although nothing has changed")
		}
	}
}

// A plan of the rest of a range that comes after the range is dropped, and one that
// comes while sensors have been visited leaves those to their price.
func TestLateMend(t *testing.T) {
	par := parameters()
	d := newDriver(t, movingFleet(t, 20, func(int) float64 { return 1.0 / 60 }), par)
	for range 5 {
		d.tell(d.next(), visit.Described)
	}
	d.p.mending = true
	snap := d.p.snapshotRest(d.now)
	plan, err := snap.Solve(1)
	if err != nil {
		t.Fatal(err)
	}
	v := d.next()
	d.tell(v, visit.Asleep)
	before := d.p.rec.Version
	d.p.Adopt(plan, d.now)
	if d.p.rec.Version == before || d.p.rec.Mended != 1 {
		t.Fatal("the plan was not taken")
	}
	i, _ := d.p.fleet.Find(v.Sensor)
	for _, at := range d.p.sensors[i].rec.Instants {
		if !at.After(d.now) {
			t.Errorf("crawl at %v is planned at %v", at, d.now)
		}
	}
	if spent, left := d.p.spent, d.p.left; spent+left > d.p.rec.Theta {
		t.Errorf("%d spent and %d planned of %d", spent, left, d.p.rec.Theta)
	}
	d.p.Adopt(plan, d.now)
	if d.p.rec.Mended != 1 {
		t.Error("a plan was taken twice")
	}
	d.p.mending = true
	late := d.p.snapshotRest(d.now)
	if plan, err = late.Solve(1); err != nil {
		t.Fatal(err)
	}
	d.now = d.p.end().Add(time.Second)
	d.p.roll(d.now)
	version := d.p.rec.Version
	d.p.Adopt(plan, d.now)
	if d.p.rec.Version != version {
		t.Error("a plan of a range that is over was taken")
	}
}

// A sensor that often fails has to offer more for an attempt, one that does not less.
func TestFailuresLowerTheYield(t *testing.T) {
	plan := cycle(t, time.Minute, 20*time.Second, 0)
	d := newDriver(t, testFleet(t, plan, plan), parameters())
	for range 60 {
		v := d.next()
		result := visit.Described
		if v.Sensor == "s0" && d.p.Record("s0").Visits%2 == 1 {
			result = visit.Failed
		}
		d.tell(v, result)
	}
	bad, good := d.p.yield(d.p.sensors[0]), d.p.yield(d.p.sensors[1])
	if bad > 0.85 || good < 0.9 || good > 1 {
		t.Errorf("yields %.2f and %.2f", bad, good)
	}
	if e, _ := d.p.Explain("s0", d.now); math.Abs(e.FailShare-(1-bad)) > 1e-12 {
		t.Errorf("explained failure share %v", e.FailShare)
	}
}
