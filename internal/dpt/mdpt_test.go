package dpt

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// lazy is DPT-L in ms from epoch0: it looks a (folded) standard deviation after the epoch,
// or `floor` after it if that is more, without fast retry; each further miss doubles the
// distance. It shares no code with the package.
type lazy struct {
	start, gap, cap, floor int64
	window                 []int64
	last                   int64 // newest publication
	seen                   bool
	misses                 int
	next                   int64
}

func newLazy(floor int64) *lazy {
	return &lazy{start: 60_000, gap: 1000, cap: 4 * 3600_000, floor: floor, next: 60_000}
}

func (l *lazy) stats() (median int64, sd float64) {
	w := slices.Sorted(slices.Values(l.window))
	median = int64(math.Floor(float64(w[(len(w)-1)/2]+w[len(w)/2])/2 + 0.5))
	var sum, squares float64
	for _, x := range w {
		r := float64(x) - math.Round(float64(x)/float64(median))*float64(median)
		sum, squares = sum+r, squares+r*r
	}
	n := float64(len(w))
	return median, math.Sqrt(max(squares/n-sum/n*sum/n, 0))
}

// look takes the publications that a look at now shows.
func (l *lazy) look(now int64, items []int64) {
	for _, t := range items {
		if l.seen && (len(l.window) < 3 || t-l.last <= 8*l.median()) {
			l.window = append(l.window, t-l.last)
			l.window = l.window[max(0, len(l.window)-20):]
		}
		l.last, l.seen = t, true
	}
	l.misses++
	if len(items) > 0 {
		l.misses = 0
	}
	if len(l.window) < 3 {
		l.next = now + l.start
		return
	}
	median, sd := l.stats()
	after := now
	if l.misses > 1 {
		after += min(median<<min(l.misses-1, 20), l.cap) - median
	}
	bias := max(int64(math.Ceil(sd)), l.floor)
	k := max(1, (after+l.gap-l.last-bias)/median)
	for l.last+k*median+bias <= after+l.gap {
		k++
	}
	l.next = l.last + k*median + bias
}

func (l *lazy) median() int64 {
	m, _ := l.stats()
	return m
}

func (l *lazy) expected() Expected {
	e := Expected{At: at(l.next)}
	if len(l.window) >= 3 {
		_, sd := l.stats()
		e.Late = span(int64(math.Ceil(sd)))
	}
	return e
}

// stream is a source that can be looked at.
type stream struct {
	*lazy
	items  []int64 // publications, ms
	read   int     // of them known
	looked int64
}

// take reads what has been published and is new.
func (s *stream) take(now int64) []int64 {
	from := s.read
	for s.read < len(s.items) && s.items[s.read] <= now {
		s.read++
	}
	s.looked = now
	return s.items[from:s.read]
}

// look lets the tracker know what it shows, and tells whether it is anything.
func (s *stream) look(now int64) bool {
	items := s.take(now)
	s.lazy.look(now, items)
	return len(items) > 0
}

// traffic is the publishing model of section 5.1 of the DPT paper with a phase, in ms.
func traffic(rng *rand.Rand, period, phase, sd float64, until int64, wall bool) []int64 {
	times := []int64{}
	pss, pfs := 0.95, 0.8
	t, p := phase, pss
	for slot := phase; ; {
		slot += period
		t += period
		lost := rng.Float64() >= p
		if p = pss; lost {
			p = pfs
			continue
		}
		at := t + laplace(rng, sd)
		if wall {
			at = slot + laplace(rng, sd)
		} else {
			t = at
		}
		if int64(at) > until {
			return times
		}
		if ms := int64(at); len(times) == 0 || ms > times[len(times)-1] {
			times = append(times, ms)
		}
	}
}

// reunion is a republication.
type reunion struct {
	at      int64
	ready   int
	latency float64 // seconds since m sources had published what was not known
}

// journal is what a group did.
type journal struct {
	looks    [][2]int64 // instant, source
	hits     int        // of the looks
	attempts int        // instants at which the condition could have become true
	again    int        // looks for still newer data
	met      []reunion
	from     int64 // what was before it is not judged
}

func (j *journal) republish(streams []*stream, before []int64, now int64, m, ready int) {
	due := []int64{}
	for i, s := range streams {
		first, _ := slices.BinarySearch(s.items, before[i]+1)
		if first < len(s.items) {
			due = append(due, s.items[first])
		}
	}
	slices.Sort(due)
	satisfied := due[m-1]
	if n := len(j.met); n > 0 {
		satisfied = max(satisfied, j.met[n-1].at)
	}
	j.met = append(j.met, reunion{now, ready, float64(now-satisfied) / 1000})
	for i, s := range streams {
		before[i] = s.looked
	}
}

func (j *journal) judged() (latency, hits float64) {
	n := 0
	for _, r := range j.met {
		if r.at >= j.from {
			latency += r.latency
			n++
		}
	}
	return latency / float64(n), 100 * float64(n) / float64(j.attempts)
}

// faults are what must not be in a journal.
func (j *journal) faults(m int, gap int64) (list []string) {
	last := map[int64]int64{}
	for _, l := range j.looks {
		if before, ok := last[l[1]]; ok && l[0] < before+gap {
			list = append(list, fmt.Sprintf("source %d at %d and at %d", l[1], before, l[0]))
		}
		last[l[1]] = l[0]
	}
	for _, r := range j.met {
		if r.ready < m {
			list = append(list, fmt.Sprintf("republished at %d with %d ready", r.at, r.ready))
		}
	}
	return list
}

// meet drives g over the streams until then.
func meet(t *testing.T, g *MDPT, streams []*stream, m int, until, from int64) *journal {
	t.Helper()
	j := &journal{from: from}
	before := make([]int64, len(streams))
	for i, s := range streams {
		g.Expect(i, s.expected())
	}
	for now := int64(0); ; {
		step, ok := g.Next(at(now))
		if !ok {
			t.Fatalf("at %d: stuck: %s", now, step.Why)
		}
		if now = step.At.Sub(epoch0).Milliseconds(); now > until {
			return j
		}
		if step.Republish {
			j.republish(streams, before, now, m, g.Ready())
			g.Republished()
			continue
		}
		attempt := g.Ready() < m
		if !attempt {
			j.again += len(step.Looks)
		}
		for _, i := range step.Looks {
			g.Begin(i)
		}
		for _, i := range step.Looks {
			hit := streams[i].look(now)
			g.Observe(i, at(now), hit, streams[i].expected())
			j.looks = append(j.looks, [2]int64{now, int64(i)})
			if hit {
				j.hits++
			}
		}
		if attempt && now >= from {
			j.attempts++
		}
	}
}

// algorithm3 is the paper's algorithm written down line by line, with the readings of
// MDPT, or as printed: there what was looked at in vain stays in S_c. An instant is given
// up after 10 looks at one source.
func algorithm3(streams []*stream, m, spare int, floor, gap, until int64, printed bool) *journal {
	j := &journal{}
	before := make([]int64, len(streams))
	t := make([]int64, len(streams))
	poll := func(i int, now int64) bool {
		j.looks = append(j.looks, [2]int64{now, int64(i)})
		hit := streams[i].look(now)
		e := streams[i].expected()
		t[i] = max(e.At.Sub(epoch0).Milliseconds()+max(0, floor-e.Late.Milliseconds()), now+gap)
		return hit
	}
	for i, s := range streams {
		t[i] = s.expected().At.Sub(epoch0).Milliseconds() + floor
	}
	now, again := int64(0), 0
	for {
		waiting, candidates, ready := map[int]bool{}, map[int]bool{}, map[int]bool{}
		for i := range streams {
			waiting[i] = true
		}
		for len(ready) < m {
			var order []int64
			for i := range waiting {
				order = append(order, t[i])
			}
			slices.Sort(order)
			if need := m + spare - len(ready); len(order) > 0 {
				now = max(now, order[min(need, len(order))-1])
			}
			if again++; now > until || again > 10 && printed {
				return j
			}
			for i := range streams {
				if waiting[i] && t[i] <= now {
					delete(waiting, i)
					candidates[i] = true
				}
			}
			for i := range streams {
				if !candidates[i] {
					continue
				}
				switch {
				case poll(i, now):
					ready[i] = true
					delete(candidates, i)
				case !printed:
					waiting[i] = true
					delete(candidates, i)
				}
			}
		}
		for i := range streams {
			if ready[i] && t[i] <= now {
				poll(i, now)
			}
		}
		j.republish(streams, before, now, m, len(ready))
	}
}

// drawn is a random group.
type drawn struct {
	m, spare int
	floor    int64
	streams  func() []*stream
	until    int64
}

func drawGroup(rng *rand.Rand) drawn {
	n := 1 + rng.IntN(5)
	d := drawn{m: 1 + rng.IntN(n), spare: rng.IntN(3), floor: int64(rng.IntN(3)) * 15_000,
		until: 30 * 3600_000}
	items := make([][]int64, n)
	for i := range items {
		period := math.Exp(math.Log(60_000) + rng.Float64()*math.Log(60))
		items[i] = traffic(rng, period, rng.Float64()*period, period*0.03*rng.Float64(), d.until,
			rng.IntN(2) == 0)
	}
	d.streams = func() []*stream {
		list := make([]*stream, n)
		for i := range list {
			list[i] = &stream{lazy: newLazy(0), items: items[i]}
		}
		return list
	}
	return d
}

func group(t *testing.T, n, m, spare int, floor int64) *MDPT {
	t.Helper()
	g, err := NewMDPT(Condition{Sources: n, AtLeast: m, Spare: spare, MinGap: time.Second,
		Floor: span(floor)})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// MDPT does what Algorithm 3 says, look by look.
func TestMDPTTwin(t *testing.T) {
	var rounds, refreshed, alone, failed int
	n := trials(150, 1000)
	for seed := range uint64(n) {
		d := drawGroup(rand.New(rand.NewPCG(seed, 3)))
		n := len(d.streams())
		got := meet(t, group(t, n, d.m, d.spare, d.floor), d.streams(), d.m, d.until, 0)
		want := algorithm3(d.streams(), d.m, d.spare, d.floor, 1000, d.until, false)
		for i := range min(len(got.looks), len(want.looks)) {
			if got.looks[i] != want.looks[i] {
				t.Fatalf("seed %d, %d of %d and %d: look %d at %v, twin %v", seed, d.m, n, d.spare, i,
					got.looks[i], want.looks[i])
			}
		}
		if len(got.looks) != len(want.looks) || !slices.Equal(got.met, want.met) {
			t.Fatalf("seed %d: %d looks, %d rounds; twin %d, %d", seed, len(got.looks), len(got.met),
				len(want.looks), len(want.met))
		}
		if faults := got.faults(d.m, 1000); len(faults) > 0 {
			t.Fatalf("seed %d: %v", seed, faults)
		}
		rounds += len(got.met)
		failed += got.attempts - len(got.met)
		refreshed += got.again
		if n == 1 {
			alone++
		}
	}
	if rounds < 50*n || alone < n/10 || failed < n || refreshed == 0 {
		t.Errorf("%d rounds, %d groups of one, %d attempts in vain, %d looks for still newer data",
			rounds, alone, failed, refreshed)
	}
}

// As printed, a source is looked at again and again at one instant.
func TestMDPTPrinted(t *testing.T) {
	caught := 0
	for seed := range uint64(50) {
		d := drawGroup(rand.New(rand.NewPCG(seed, 3)))
		j := algorithm3(d.streams(), d.m, d.spare, d.floor, 1000, d.until, true)
		if len(j.faults(d.m, 1000)) > 0 {
			caught++
		}
	}
	if caught < 25 {
		t.Errorf("%d of 50 groups run as printed were caught", caught)
	}
}

// One source that is needed alone is looked at as DPT-L does.
func TestMDPTAlone(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 4))
		items := traffic(rng, 300_000, 0, 10_000*rng.Float64(), 200*3600_000, seed%2 == 0)
		until := items[len(items)-1]
		got := meet(t, group(t, 1, 1, 0, 0), []*stream{{lazy: newLazy(0), items: items}}, 1, until, 0)
		alone := &stream{lazy: newLazy(0), items: items}
		for i, l := range got.looks {
			if alone.next != l[0] {
				t.Fatalf("seed %d: look %d at %d, DPT-L at %d", seed, i, l[0], alone.next)
			}
			alone.look(alone.next)
		}
		if alone.next <= until {
			t.Errorf("seed %d: no look at %d, where DPT-L looks", seed, alone.next)
		}
		if len(got.looks) < 1000 || len(got.met) < 1000 {
			t.Errorf("seed %d: %d looks, %d rounds", seed, len(got.looks), len(got.met))
		}
	}
}

// So it is with a Tracker.
func TestMDPTTracker(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 7))
	items := source{300_000, 0.9, 0.7, 10_000}.publish(rng, 1000)
	want := run(NewTracker(testParams(), epoch0), items, 0, true)
	g, tracker := group(t, 1, 1, 0, 0), NewTracker(testParams(), epoch0)
	next, _ := tracker.Next(epoch0, 1)
	g.Expect(0, Expected{At: next})
	read, rounds := 0, 0
	for _, ms := range want.polls {
		step, ok := g.Next(next.Add(-time.Hour))
		if !ok || !step.At.Equal(at(ms)) || !slices.Equal(step.Looks, []int{0}) {
			t.Fatalf("%+v %v, the tracker looks at %v", step, ok, at(ms))
		}
		o := poll(ms, visit.Unchanged)
		if read > 0 { // a log goes back to what is known, or more would be drained
			o.PublishedAt = append(o.PublishedAt, at(items[read-1]))
		}
		for ; read < len(items) && items[read] <= ms; read++ {
			o.Result, o.PublishedAt = visit.Described, append(o.PublishedAt, at(items[read]))
		}
		tracker.Observe(o)
		next, _ = tracker.Next(o.Ended, 1)
		g.Observe(0, o.Started, o.Result == visit.Described, Expected{At: next})
		if g.Ready() > 0 {
			g.Republished()
			rounds++
		}
	}
	if rounds != want.hits || rounds < 500 {
		t.Errorf("%d rounds, %d hits", rounds, want.hits)
	}
}

// wild is anything that a source may say.
func wild(rng *rand.Rand) Expected {
	if rng.IntN(8) == 0 {
		return Expected{}
	}
	ms := []int64{0, rng.Int64N(600_000), -rng.Int64(), rng.Int64()}[rng.IntN(4)]
	return Expected{At: at(ms), Late: span(rng.Int64N(60_000)), Planned: rng.IntN(4) == 0}
}

// A restored group decides as the one that was stored, whatever it is told; nothing that
// it is told makes it look twice at a source within MinGap, republish too early, or loop.
func FuzzMDPT(f *testing.F) {
	f.Add(uint64(1), []byte("0123456789abcdef"))
	f.Fuzz(func(t *testing.T, seed uint64, script []byte) {
		rng := rand.New(rand.NewPCG(seed, 6))
		n := 1 + rng.IntN(4)
		m := 1 + rng.IntN(n)
		g := group(t, n, m, rng.IntN(3), int64(rng.IntN(2))*30_000)
		now, last := epoch0, make([]time.Time, n)
		latest := epoch0 // of all that was expected
		tell := func(i int, hit bool) {
			e := wild(rng)
			g.Observe(i, now, hit, e)
			last[i] = now
			latest = slices.MaxFunc([]time.Time{latest, e.At.Add(time.Minute), now.Add(time.Minute)},
				time.Time.Compare)
		}
		for _, b := range script[:min(len(script), 1000)] {
			data, err := json.Marshal(g)
			if err != nil {
				t.Fatal(err)
			}
			var copied MDPT
			if err := json.Unmarshal(data, &copied); err != nil {
				t.Fatalf("%s: %v", data, err)
			}
			step, ok := g.Next(now)
			if again, same := copied.Next(now); same != ok || !again.At.Equal(step.At) ||
				!slices.Equal(again.Looks, step.Looks) || again.Republish != step.Republish {
				t.Fatalf("restored %+v, was %+v", again, step)
			}
			i := int(b) % n
			if !ok {
				now = now.Add(time.Duration(rng.Int64N(int64(time.Hour))))
				tell(i, b&64 != 0)
				continue
			}
			if step.At.Before(now) || step.Republish != (len(step.Looks) == 0) ||
				step.Republish && g.Ready() < m || step.At.After(latest) && step.At.After(now) {
				t.Fatalf("at %v, %d ready, expected until %v: %+v", now, g.Ready(), latest, step)
			}
			if step.At.Year() > 9000 {
				return // as it was told to
			}
			now = step.At
			for _, i := range step.Looks {
				if now.Sub(last[i]) < time.Second && !last[i].IsZero() {
					t.Fatalf("source %d at %v and %v", i, last[i], now)
				}
				g.Begin(i)
			}
			for _, i := range step.Looks {
				tell(i, rng.IntN(2) == 0)
			}
			if step.Republish {
				g.Republished()
			}
		}
	})
}

func TestMDPTRefuses(t *testing.T) {
	good := Condition{Sources: 3, AtLeast: 2, MinGap: time.Second, Floor: DefaultFloor}
	if _, err := NewMDPT(good); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Condition){
		"no source":   func(c *Condition) { c.Sources = 0 },
		"too many":    func(c *Condition) { c.Sources = 1 << 40 },
		"m of 0":      func(c *Condition) { c.AtLeast = 0 },
		"m > n":       func(c *Condition) { c.AtLeast = 4 },
		"spare < 0":   func(c *Condition) { c.Spare = -1 },
		"no gap":      func(c *Condition) { c.MinGap = 0 },
		"floor < 0":   func(c *Condition) { c.Floor = -time.Second },
		"floor > 1 h": func(c *Condition) { c.Floor = 2 * time.Hour },
	} {
		c := good
		spoil(&c)
		if _, err := NewMDPT(c); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	g := new(MDPT)
	for _, bad := range []string{`{`, `{}`, `{"m":1,"n":1000,"s":[]}`, `{"m":2,"n":1000,"s":[{}]}`,
		`{"m":1,"n":1000,"s":[{"d":9223372036854775807}]}`, `{"m":1,"s":[{}]}`} {
		if err := json.Unmarshal([]byte(bad), g); err == nil {
			t.Errorf("%s: accepted", bad)
		}
	}
}
