package testbed

import (
	"math/rand/v2"
	"testing"
	"time"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return epoch.Add(time.Duration(seconds * float64(time.Second)))
}

// seen is a log entry of a complete answer that left at an instant.
func seen(sensor string, seconds float64, seq int) Request {
	return Request{Sensor: sensor, At: at(seconds), Sent: at(seconds), Kind: KindGet,
		Answered: true, Code: "2.05", Seq: seq, Complete: true}
}

func TestMeasureLatencyByHand(t *testing.T) {
	events := []Event{
		{"a", at(1), 1}, {"a", at(4), 2}, {"b", at(5), 1}, {"a", at(9), 3}, {"a", at(12), 4},
	}
	block := seen("a", 5, 2)
	block.Kind, block.Complete = KindBlock, false
	lost := seen("b", 6, 1)
	lost.Answered, lost.Dropped = false, DroppedLoss
	requests := []Request{
		seen("a", 2, 1), // event 1 after 1 s
		block,           // sees nothing yet
		lost,
		seen("a", 7, 2),  // event 2 after 3 s
		seen("a", 8, 2),  // nothing new
		seen("b", 9, 1),  // b's event after 4 s
		seen("a", 11, 3), // event 3 after the range
	}
	for _, test := range []struct {
		name     string
		from, to float64
		include  func(string) bool
		want     Latency
	}{
		{"all but the last", 0, 10, nil, Latency{3, 1, 9 * time.Second}},
		{"longer range", 0, 14, nil, Latency{4, 1, 12 * time.Second}},
		{"one sensor", 0, 10, func(s string) bool { return s == "b" }, Latency{1, 0, 4 * time.Second}},
		{"half-open: the event at from, not the one at to", 1, 4, nil, Latency{1, 0, time.Second}},
		{"an answer at to is in time", 4, 7, nil, Latency{1, 1, 5 * time.Second}},
		{"nothing happened", 20, 30, nil, Latency{}},
	} {
		got := MeasureLatency(events, requests, at(test.from), at(test.to), test.include)
		if got != test.want {
			t.Errorf("%s: got %+v, want %+v", test.name, got, test.want)
		}
	}
	mean := MeasureLatency(events, requests, at(0), at(10), nil).Mean()
	if mean != 2250*time.Millisecond || (Latency{}).Mean() != 0 {
		t.Errorf("mean of four events is %v, want 2.25s", mean)
	}
}

// slowLatency asks of each event which answer saw it first.
func slowLatency(events []Event, requests []Request, from, to time.Time) Latency {
	var l Latency
	for _, e := range events {
		if e.At.Before(from) || !e.At.Before(to) {
			continue
		}
		first := time.Time{}
		for _, r := range requests {
			sees := r.Sensor == e.Sensor && r.Answered && r.Complete && r.Seq >= e.Seq
			if sees && !r.Sent.After(to) && (first.IsZero() || r.Sent.Before(first)) {
				first = r.Sent
			}
		}
		if first.IsZero() {
			l.Unseen++
			l.Sum += to.Sub(e.At)
			continue
		}
		l.Captured++
		l.Sum += first.Sub(e.At)
	}
	return l
}

// randomLog is 100 s of three sensors. Answers take up to 5 s, so they may leave
// in another order than their requests came in.
func randomLog(rng *rand.Rand) (events []Event, requests []Request) {
	for _, name := range []string{"a", "b", "c"} {
		var times []float64
		for x := rng.ExpFloat64() * 5; x < 100; x += rng.ExpFloat64() * 5 {
			times = append(times, x)
			events = append(events, Event{name, at(x), len(times)})
		}
		for x := rng.ExpFloat64() * 8; x < 100; x += rng.ExpFloat64() * 8 {
			seq := 0
			for seq < len(times) && times[seq] < x {
				seq++
			}
			r := seen(name, x, seq)
			r.Sent = at(x + 5*rng.Float64())
			r.Answered, r.Complete = rng.IntN(4) > 0, rng.IntN(4) > 0
			requests = append(requests, r)
		}
	}
	rng.Shuffle(len(requests), func(i, j int) {
		requests[i], requests[j] = requests[j], requests[i]
	})
	return events, requests
}

func TestMeasureLatencyAgainstSlowTwin(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		events, requests := randomLog(rng)
		from, to := rng.Float64()*40, 50+rng.Float64()*60
		want := slowLatency(events, requests, at(from), at(to))
		got := MeasureLatency(events, requests, at(from), at(to), nil)
		if got != want {
			t.Fatalf("range %v .. %v: got %+v, the twin %+v", from, to, got, want)
		}
	}
}

// Negative control: a measurement that reads the log wrongly in one respect must
// come out different from the twin's on most logs.
func TestTwinCatchesWrongReadings(t *testing.T) {
	wrong := map[string]func(*Request){
		"blocks complete a transfer": func(r *Request) { r.Complete = true },
		"lost answers count":         func(r *Request) { r.Answered = true },
		"seen when asked":            func(r *Request) { r.Sent = r.At },
		"an event late":              func(r *Request) { r.Seq-- },
		"sensors mixed up":           func(r *Request) { r.Sensor = "a" },
	}
	for name, misread := range wrong {
		rng := rand.New(rand.NewPCG(3, 4))
		caught := 0
		for range 100 {
			events, requests := randomLog(rng)
			want := slowLatency(events, requests, at(0), at(100))
			for i := range requests {
				misread(&requests[i])
			}
			if MeasureLatency(events, requests, at(0), at(100), nil) != want {
				caught++
			}
		}
		if caught < 90 {
			t.Errorf("%s: %d of 100 logs tell, want at least 90", name, caught)
		}
	}
}

func TestBedMeasuresItself(t *testing.T) {
	b := newBed(t)
	s := add(t, b, Spec{Name: "s"})
	p := dial(t, s)
	from := time.Now()
	first := s.Publish()
	p.ask(get(1, "a"))
	p.ask(get(2, "b"))
	second := s.Publish()
	r := settled(t, b, 2)
	to := second.At.Add(time.Minute)
	got := b.Latency(from, to, nil)
	want := Latency{1, 1, r[0].Sent.Sub(first.At) + time.Minute}
	if got != want || got.Sum < time.Minute {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if r[0].Seq != 1 || !r[0].Complete || r[0].Sent.Before(first.At) {
		t.Errorf("first answer is logged as %+v", r[0])
	}
}
