package dpt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// check holds one decision against property 1: after now, at most MaxGap*stretch
// later, at least MinGap after the last visit, the same when asked twice.
func check(p poller, l limits, now, end time.Time, stretch float64) (time.Time, error) {
	a, why := p.Next(now, stretch)
	if b, _ := p.Next(now, stretch); !a.Equal(b) {
		return a, fmt.Errorf("asked twice: %v and %v", a, b)
	}
	longest := time.Duration(float64(span(l.MaxGap)) * stretch)
	switch {
	case why == "":
		return a, fmt.Errorf("no reason for %v", a)
	case !a.After(now):
		return a, fmt.Errorf("next poll %v is not after now %v (%s)", a, now, why)
	case a.After(now.Add(longest)):
		return a, fmt.Errorf("next poll %v after now, MaxGap %v (%s)", a.Sub(now), longest, why)
	case !now.Before(end) && a.Before(end.Add(span(l.MinGap))):
		return a, fmt.Errorf("next poll %v after the last one (%s)", a.Sub(end), why)
	}
	return a, nil
}

// step is one fuzzed event: what came of a visit, when, and how long it took.
type step struct {
	result  byte
	wait    byte // polls when due (0) or that many 3 s steps after the last visit
	took    byte
	times   byte // publish times
	stretch byte
	jump    byte // the clock: 255 jumps a year ahead, 254 an hour back
}

// at is when the visit is made that was due then, after one that ended at end.
func (s step) at(due, end time.Time) time.Time {
	now := due
	if s.wait > 0 {
		now = end.Add(time.Duration(s.wait) * 3 * time.Second)
	}
	switch s.jump {
	case 255:
		return now.AddDate(1, 0, 0)
	case 254:
		return now.Add(-time.Hour)
	}
	return now
}

func (s step) outcome(now time.Time, rng *rand.Rand) visit.Outcome {
	o := visit.Outcome{
		Visit: visit.Visit{At: now}, Result: visit.Result(s.result % 7), Started: now,
		Ended: now.Add(time.Duration(s.took) * 313 * time.Millisecond),
	}
	o.Contact = o.Result.Success() || s.result&64 != 0
	if s.result&128 != 0 {
		o.RetryAfter = time.Duration(rng.Int64N(int64(time.Hour) << (s.took % 20)))
	}
	if s.times&128 != 0 {
		o.HasMaxAge, o.MaxAge = true, time.Duration(s.took)*time.Hour
	}
	for range s.times % 5 {
		back := time.Duration(rng.Int64N(int64(time.Second) << (s.times / 8)))
		o.PublishedAt = append(o.PublishedAt, now.Add(time.Minute/2-back))
	}
	return o
}

// drive feeds the events to a tracker and a search and checks every decision.
func drive(data []byte, p Params) error {
	rng := rand.New(rand.NewPCG(uint64(len(data)), 11))
	now := epoch0.Add(123456789 * time.Nanosecond)
	end := now
	tr, se := NewTracker(p, now), NewSearch(p, now, uint64(len(data)))
	l := newLimits(p)
	for ; len(data) >= 6; data = data[6:] {
		s := step{data[0], data[1], data[2], data[3], data[4], data[5]}
		stretch := 1 + float64(s.stretch)/16
		due, err := check(tr, l, now, end, stretch)
		if err != nil {
			return fmt.Errorf("tracker: %w", err)
		}
		if _, err := check(se, l, now, end, stretch); err != nil {
			return fmt.Errorf("search: %w", err)
		}
		if tr, se, err = restored(tr, se); err != nil {
			return err
		}
		if again, _ := tr.Next(now, stretch); !again.Equal(due) {
			return fmt.Errorf("restored tracker says %v, not %v", again, due)
		}
		o := s.outcome(s.at(due, end), rng)
		tr.Observe(o)
		se.Observe(o)
		now, end = o.Ended, o.Ended
		if e := tr.Expected(now, now.Add(time.Hour)); !(e >= 0 && e <= 3600_001) {
			return fmt.Errorf("%v polls expected in an hour", e)
		}
		if r, ok := tr.rule.(*publications); ok {
			for _, x := range r.s.Window {
				if x <= 0 {
					return fmt.Errorf("interval %d in the window", x)
				}
			}
		}
	}
	return nil
}

// restored writes and reads both; what is written again must be the same bytes.
func restored(tr *Tracker, se *Search) (*Tracker, *Search, error) {
	a, err := json.Marshal(tr)
	if err != nil {
		return nil, nil, err
	}
	b, err := json.Marshal(se)
	if err != nil {
		return nil, nil, err
	}
	tr2, se2 := new(Tracker), new(Search)
	if err := json.Unmarshal(a, tr2); err != nil {
		return nil, nil, fmt.Errorf("%w in %s", err, a)
	}
	if err := json.Unmarshal(b, se2); err != nil {
		return nil, nil, fmt.Errorf("%w in %s", err, b)
	}
	if again, _ := json.Marshal(tr2); !bytes.Equal(a, again) {
		return nil, nil, fmt.Errorf("wrote %s, then %s", a, again)
	}
	return tr2, se2, nil
}

// fuzzParams takes the policy and the gaps from one byte.
func fuzzParams(kind byte) Params {
	p := testParams()
	p.Policy = Policies()[int(kind)%7]
	switch kind / 7 % 5 {
	case 1:
		p.MaxGap, p.Desync, p.SD = time.Hour, 10*time.Minute, SDRaw
	case 2:
		p.MinGap, p.Bootstrap, p.MaxGap = time.Minute, time.Minute, time.Minute
	case 3:
		p.PublishTimes, p.PollsPerPublication = TimesTrust, 1.2
	case 4:
		p.PublishTimes, p.Price = TimesHide, 10*time.Second
	}
	return p
}

func FuzzTracker(f *testing.F) {
	f.Add(byte(1), []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	for kind := range byte(35) {
		f.Add(kind, bytes.Repeat([]byte{0, 0, 1, 1, 0, 0}, 30))
		f.Add(kind, bytes.Repeat([]byte{2, 0, 255, 7, 40, 255}, 10))
		f.Add(kind, bytes.Repeat([]byte{131, 9, 255, 250, 0, 254}, 10))
	}
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		if err := drive(data, fuzzParams(kind)); err != nil {
			t.Error(err)
		}
	})
}

// FuzzRestored takes any JSON for a tracker's. What is accepted must write itself, and
// decide within the gaps whatever then happens.
func FuzzRestored(f *testing.F) {
	for _, first := range firstTrackers(f) {
		f.Add([]byte(first.Record), []byte("\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	}
	for _, policy := range Policies() {
		record, err := json.Marshal(grown(policy))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(record, bytes.Repeat([]byte{0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0}, 9))
	}
	f.Fuzz(func(t *testing.T, record, data []byte) {
		if err := driveRestored(record, data); err != nil {
			t.Error(err)
		}
	})
}

// grown is a tracker that has lived through most of what there is.
func grown(policy Policy) *Tracker {
	p := testParams()
	p.Policy, p.Desync = policy, time.Minute
	tr := NewTracker(p, epoch0)
	now := epoch0
	for i := range 60 {
		now, _ = tr.Next(now, 1)
		o := poll(now.Sub(epoch0).Milliseconds(), visit.Result(i%7%3))
		o.HasMaxAge, o.MaxAge = i%3 == 0, 100*time.Second
		for k := range i % 4 {
			o.PublishedAt = append(o.PublishedAt, now.Add(-time.Duration(k)*time.Minute))
		}
		tr.Observe(o)
	}
	return tr
}

// driveRestored is drive for a tracker that came from somewhere. Its limits are whatever
// was accepted; they must be such as Validate accepts.
func driveRestored(record, data []byte) error {
	tr := new(Tracker)
	if json.Unmarshal(record, tr) != nil {
		return nil
	}
	if err := tr.s.Limits.check(); err != nil {
		return err
	}
	rng := rand.New(rand.NewPCG(uint64(len(data)), 11))
	now, end := epoch0, time.UnixMilli(tr.s.End)
	if end.Sub(epoch0) > 200*365*24*time.Hour { // the clock was set back: to 200 years ahead
		end = epoch0.Add(-time.Hour)
	}
	for ; len(data) >= 6; data = data[6:] {
		due, err := check(tr, tr.s.Limits, now, end, 1)
		if err != nil {
			return err
		}
		again, _, err := restored(tr, NewSearch(testParams(), now, 1))
		if err != nil {
			return err
		}
		tr = again
		s := step{data[0], data[1], data[2], data[3], data[4], data[5]}
		if now = due; s.wait > 0 {
			now = end.Add(time.Duration(s.wait) * 3 * time.Second)
		}
		o := s.outcome(now, rng)
		tr.Observe(o)
		now, end = o.Ended, o.Ended
		tr.Stats()
		if e := tr.Expected(now, now.Add(time.Hour)); !(e >= 0) {
			return fmt.Errorf("%v polls expected in an hour", e)
		}
	}
	return nil
}

// TestEverySequence is the fuzz target over random events, mostly hits and misses.
func TestEverySequence(t *testing.T) {
	rng := rand.New(rand.NewPCG(12, 12))
	accepted := 0
	for i := range trials(210, 1400) {
		data := make([]byte, 6*rng.IntN(200))
		for j := range data {
			data[j] = byte(rng.UintN(256))
			if quiet := rng.IntN(3) > 0; quiet && j%6 != 5 {
				data[j] %= 3
			}
		}
		if err := drive(data, fuzzParams(byte(i))); err != nil {
			t.Fatalf("run %d: %v", i, err)
		}
		record := []byte(mutated(rng, grown(Policies()[i%7])))
		if json.Unmarshal(record, new(Tracker)) == nil {
			accepted++
		}
		if err := driveRestored(record, data); err != nil {
			t.Fatalf("run %d: %v\n%s", i, err, record)
		}
	}
	t.Logf("%d changed records accepted", accepted)
	if accepted < 30 {
		t.Errorf("only %d changed records were accepted", accepted)
	}
}

// mutated is the tracker's JSON with some of its numbers changed.
func mutated(rng *rand.Rand, tr *Tracker) string {
	record, _ := json.Marshal(tr)
	number := regexp.MustCompile(`-?[0-9]+`)
	return number.ReplaceAllStringFunc(string(record), func(s string) string {
		switch rng.IntN(60) {
		case 0:
			return "-" + s
		case 1:
			return s + "00"
		case 2:
			return "0"
		case 3:
			return "315576000000000"
		}
		return s
	})
}

// The algorithm as printed starts with all variables zero: a hit plans the next poll at
// once, and so does every miss after it. The checks above must see that.
func TestPrintedColdStartIsCaught(t *testing.T) {
	p := &paperDPT{rule: printed, fasts: 1, cap: 48 * 3600_000}
	now, caught := epoch0, 0
	for i := range 50 {
		a, err := check(p, newLimits(testParams()), now, now, 1)
		if err != nil {
			caught++
		}
		now = a
		p.Observe(poll(now.Sub(epoch0).Milliseconds(), visit.Result(min(i, 1))))
	}
	if caught != 50 {
		t.Errorf("caught %d of 50 polls without delay", caught)
	}
	if !now.Equal(epoch0) {
		t.Errorf("the printed algorithm advanced to %v", now)
	}
}
