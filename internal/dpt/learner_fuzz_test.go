package dpt

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// learnerSteps drives a learner by three bytes per visit and holds every decision against
// the limits. It returns the stages that were seen.
func learnerSteps(data []byte, p LearnerParams) (map[string]bool, error) {
	l, now := NewLearner(p, epoch0, 5), epoch0
	end, longest := epoch0, max(p.MaxGap, longestWait)
	stages := map[string]bool{}
	for ; len(data) >= 3; data = data[3:] {
		stretch := 1.0
		if data[2] >= 250 {
			stretch = float64(data[2] - 248)
		}
		at, why := l.Next(now, stretch)
		if again, _ := l.Next(now, stretch); !again.Equal(at) {
			return nil, fmt.Errorf("asked twice: %v and %v", at, again)
		}
		name, sure, _ := l.State()
		stages[name] = true
		switch {
		case why == "" || name == "" || !(sure >= 0 && sure <= 1+1e-9):
			return nil, fmt.Errorf("%q %q %v", name, why, sure)
		case !at.After(now) || !now.Before(end) && at.Before(end.Add(p.MinGap)):
			return nil, fmt.Errorf("%s: probe at %v, now %v, last ended %v", name, at, now, end)
		case at.After(now.Add(time.Duration(float64(longest) * stretch))):
			return nil, fmt.Errorf("%s: probe %v ahead", name, at.Sub(now))
		}
		o := visit.Outcome{Visit: visit.Visit{At: at, Kind: visit.Probe, NON: true}, Started: at,
			Result: visit.Asleep, Ended: at.Add(time.Duration(data[1]) * 40 * time.Millisecond)}
		switch k := data[0]; {
		case k >= 252:
			l.Revoke(now)
			continue
		case k >= 244: // another's visit, some time before
			o.Kind, o.Started = visit.Planned, now.Add(at.Sub(now)/2)
			o.Result, o.Contact, o.Ended = visit.Unchanged, true, o.Started.Add(time.Second)
		case k >= 240: // the clock is set back
			o.Started, o.Ended = now.Add(-time.Hour), now.Add(-time.Hour)
		case k >= 236:
			o.Result = visit.Missed
		case k >= 128 || k < 64 && at.Unix()%(300+int64(k)) < 40:
			o.Result, o.Contact = visit.Unchanged, true
		}
		l.Observe(o)
		if now = o.Ended; o.Result != visit.Missed {
			end = now
		}
	}
	return stages, sameRestored(l, now)
}

// sameRestored reports whether a learner that was stored decides otherwise.
func sameRestored(l *Learner, now time.Time) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if len(text) >= 4096 {
		return fmt.Errorf("%d bytes", len(text))
	}
	var r Learner
	if err := json.Unmarshal(text, &r); err != nil {
		return err
	}
	a, _ := l.Next(now, 1)
	b, _ := r.Next(now, 1)
	again, err := json.Marshal(&r)
	if err != nil || !a.Equal(b) || !bytes.Equal(text, again) {
		return fmt.Errorf("restored: %v and %v, %w\n%s\n%s", a, b, err, text, again)
	}
	return nil
}

func FuzzLearner(f *testing.F) {
	rng := rand.New(rand.NewPCG(1, 8))
	for range 6 {
		f.Add(randomSteps(rng, 60))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := learnerSteps(data[:min(len(data), 900)], testLearner()); err != nil {
			t.Error(err)
		}
	})
}

// randomSteps are visits to a sensor of a random temper.
func randomSteps(rng *rand.Rand, n int) []byte {
	kind := byte(rng.IntN(256))
	var data []byte
	for range n {
		k := kind
		if rng.IntN(10) == 0 {
			k = byte(rng.IntN(256))
		}
		data = append(data, k, byte(rng.IntN(256)), byte(rng.IntN(256)))
	}
	return data
}

// In every state the next probe is bounded from below and above.
func TestLearnerRandomSteps(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 8))
	seen := map[string]int{}
	for i := range longTrials(30, 40, 100) {
		p := testLearner()
		if i%3 == 0 {
			p.MinGap, p.MaxGap = 10*time.Second, 10*time.Minute
		}
		data := randomSteps(rng, 100+rng.IntN(200))
		stages, err := learnerSteps(data, p)
		if err != nil {
			t.Fatalf("%x: %v", data, err)
		}
		for name := range stages {
			seen[name]++
		}
	}
	for _, name := range []string{stageSearch, stageFollow, stageGap, stagePeriod, stageIrregular} {
		if seen[name] == 0 {
			t.Errorf("stage %s never seen: %v", name, seen)
		}
	}
}

// A learner keeps to the probes that a day may have, in any 24 hours.
func TestLearnerCap(t *testing.T) {
	for _, limit := range []int{1, 5, 30, 200} {
		s, from := newSleeper(truths[0], 3, 0.1)
		p := testLearner()
		p.MaxPerDay = limit
		l, now := NewLearner(p, from, 3), from
		var all []time.Time
		for now.Sub(from) < 9*24*time.Hour {
			at, _ := l.Next(now, 1)
			o := s.probe(at)
			l.Observe(o)
			all, now = append(all, at), o.Ended
		}
		for i := limit; i < len(all); i++ {
			if all[i].Sub(all[i-limit]) < 24*time.Hour {
				t.Fatalf("limit %d: probes %d and %d are %v apart", limit, i-limit, i,
					all[i].Sub(all[i-limit]))
			}
		}
		if len(all) < min(8*limit, 30) {
			t.Errorf("limit %d: only %d probes", limit, len(all))
		}
	}
}

// FuzzLearnerRestored takes anything for a stored learner: what is accepted decides within
// bounds and writes itself as it was.
func FuzzLearnerRestored(f *testing.F) {
	for _, i := range []int{0, 4, 6} {
		s, from := newSleeper(truths[i], 1, 0.1)
		l, now := NewLearner(testLearner(), from, 1), from
		for k := range 220 {
			at, _ := l.Next(now, 1)
			o := s.probe(at)
			l.Observe(o)
			now = o.Ended
			if k%55 == 0 {
				text, err := json.Marshal(l)
				if err != nil {
					f.Fatal(err)
				}
				f.Add(text)
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var l Learner
		if json.Unmarshal(text, &l) != nil {
			return
		}
		now := time.UnixMilli(l.s.End).UTC()
		for range 3 {
			at, _ := l.Next(now, 1)
			if !at.After(now) {
				t.Fatalf("probe at %v, now %v", at, now)
			}
			o := visit.Outcome{Visit: visit.Visit{At: at, Kind: visit.Probe, NON: true}, Started: at,
				Ended: at, Result: visit.Unchanged, Contact: true}
			l.Observe(o)
			l.Claim()
			now = at
		}
		if _, err := json.Marshal(&l); err != nil {
			t.Error(err)
		}
	})
}

// Damage of a stored learner is found or harmless, and it never replaces what there is.
func TestLearnerRefusesDamage(t *testing.T) {
	s, from := newSleeper(truths[0], 1, 0.1)
	l, now := NewLearner(testLearner(), from, 1), from
	for range 80 {
		at, _ := l.Next(now, 1)
		o := s.probe(at)
		l.Observe(o)
		now = o.Ended
	}
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to string }{
		{`"h":"`, `"h":"//////////////8B`}, {`"p":"`, `"p":"AAAA`}, {`"o":0.`, `"o":7.`},
		{`"n":`, `"n":-`}, {`"c":`, `"c":-`}, {`"u":`, `"u":99999999999`},
		{`"k":{"r":`, `"k":{"r":9999999`},
	} {
		damaged := bytes.Replace(text, []byte(c.from), []byte(c.to), 1)
		if bytes.Equal(damaged, text) {
			t.Errorf("%s: not found in %s", c.from, text)
		}
		keep := l.Clone()
		if err := json.Unmarshal(damaged, keep); err == nil {
			t.Errorf("%s: accepted: %s", c.to, damaged)
		}
		if again, _ := json.Marshal(keep); !bytes.Equal(again, text) {
			t.Errorf("%s: changed what was there", c.to)
		}
	}
}
