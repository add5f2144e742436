package dpt

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

const hour = 3600_000

// nights publishes every base ms for twelve hours a day. What was measured by day comes
// all at once at dusk, which is uniform within jitter.
func nights(rng *rand.Rand, base, jitter float64, days int) (items, dusks []int64) {
	for day := range days {
		dusk := float64(day*24*hour) + 12*hour + rng.Float64()*jitter
		dusks = append(dusks, int64(dusk))
		for i := range int(12 * hour / base) {
			items = append(items, int64(dusk)+int64(i)*50)
		}
		dawn := float64(day*24*hour + 24*hour)
		for t := dusk + base; t < dawn; t += base + laplace(rng, base/60) {
			items = append(items, int64(t))
		}
	}
	slices.Sort(items)
	return slices.Compact(items), dusks
}

// After a few days the gap is known: then few polls a day are spent on it, and what it
// ends with is read soon. DPT-L without a second mode reads it hours late.
func TestBimodal(t *testing.T) {
	for _, base := range []float64{120_000, 300_000, 1800_000} {
		for _, jitter := range []float64{300_000, 1800_000} {
			rng := rand.New(rand.NewPCG(uint64(base+jitter), 5))
			items, dusks := nights(rng, base, jitter, trials(24, 90))
			skip := slices.IndexFunc(items, func(x int64) bool { return x > 8*24*hour })
			p := policyParams(Bimodal, true)
			r := run(NewTracker(p, epoch0), items, skip, true)
			p.Policy = DPTL
			plain := run(NewTracker(p, epoch0), items, skip, true)
			t.Logf("base %3.0f s, dusk jitter %4.0f s: mean %.1f min, hit %.0f %%; dpt-l %.1f min, %.0f %%",
				base/1000, jitter/1000, r.mean()/60, r.hitShare(), plain.mean()/60, plain.hitShare())
			if r.mean() > 60*25 || r.mean() > plain.mean()/4 {
				t.Errorf("mean latency %.0f s, dpt-l %.0f s", r.mean(), plain.mean())
			}
			for _, dusk := range dusks[8:] {
				first, _ := slices.BinarySearch(items, dusk)
				read, _ := slices.BinarySearch(r.polls, items[first-1])
				end, _ := slices.BinarySearch(r.polls, dusk)
				if misses := end - read - 1; misses > defaultPeriodTries+3 {
					t.Errorf("base %v: %d polls in the gap before %v", base, misses, span(dusk))
				}
			}
		}
	}
}

// A gap is known by its size, whatever look has found its end.
func TestGapClassification(t *testing.T) {
	const base, gap = 300_000, 12 * hour
	found := map[string]int{}
	var first publicationState
	for extra := range int64(40) {
		tr, pub := learnt(t, policyParams(Bimodal, true), base, 20)
		end := pub + gap + extra*20*60_000
		now := pub
		for {
			if n := next(tr, now); n < end {
				now = n
				tr.Observe(poll(now, visit.Unchanged))
				continue
			}
			break
		}
		if extra%4 == 0 { // somebody else looks, too early for any plan
			now = pub
			tr, _ = learnt(t, policyParams(Bimodal, true), base, 20)
		}
		_, _, _, mode := tr.Stats()
		found[mode]++
		o := poll(end, visit.Described)
		o.PublishedAt = []time.Time{at(end)}
		tr.Observe(o)
		s := tr.rule.(*publications).s
		if len(s.Gaps) != 1 || s.Gaps[0] != end-pub {
			t.Errorf("found in mode %s: gaps %v, want %d", mode, s.Gaps, end-pub)
		}
		if extra == 0 {
			first = s
		}
		late := s.Due - s.Pub - (first.Due - first.Pub)
		if !slices.Equal(s.Window, first.Window) || s.Mode != first.Mode || late != 0 {
			t.Errorf("found in mode %s: window %v, next look %d after", mode, s.Window, s.Due-s.Pub)
		}
	}
	t.Log(found)
	if len(found) < 2 {
		t.Errorf("the gap ended in %v only", found)
	}
}

// The second interval is waited for after PERIOD_TRIES, before its end is passed over,
// and at once when it is sure and a publication is overdue by eight epochs.
func TestSecondInterval(t *testing.T) {
	looks := func(base, gap int64, days int) (after []string) {
		tr, now := learnt(t, policyParams(Bimodal, true), base, 20)
		for range days {
			now += gap
			for i := range int64(21) {
				o := poll(now+i*base, visit.Described)
				o.PublishedAt = []time.Time{at(now + i*base)}
				tr.Observe(o)
			}
			now += 20 * base
		}
		pub := now
		for range 12 {
			now = next(tr, now)
			after = append(after, span(now-pub).String())
			tr.Observe(poll(now, visit.Unchanged))
		}
		return after
	}
	for _, c := range []struct {
		base, gap int64
		days      int
		want      []string
	}{
		{60_000, 12 * hour, 1, []string{"1m0s", "2m0s", "4m0s", "8m0s", "16m0s", "32m0s", "1h4m0s",
			"2h8m0s", "12h0m0s", "12h1m0s", "12h3m0s", "12h7m0s"}},
		{hour, 12 * hour, 1, []string{"1h0m0s", "2h0m0s", "4h0m0s", "8h0m0s", "12h0m0s", "13h0m0s",
			"15h0m0s", "19h0m0s", "27h0m0s"}},
		{60_000, 12 * hour, 3, []string{"1m0s", "2m0s", "4m0s", "8m0s", "12h0m0s", "12h1m0s"}},
	} {
		got := looks(c.base, c.gap, c.days)
		if !slices.Equal(got[:len(c.want)], c.want) {
			t.Errorf("base %v, %d gaps known: looks after %v, want %v", span(c.base), c.days, got, c.want)
		}
	}
}

// Data that were kept back carry the instants at which they were measured. The gap is as
// long as nothing was visible.
func TestKeptBackData(t *testing.T) {
	const base = 300_000
	tr, pub := learnt(t, policyParams(Bimodal, true), base, 20)
	now := pub
	for now < pub+10*hour {
		now = next(tr, now)
		tr.Observe(poll(now, visit.Unchanged))
	}
	o := poll(now+hour, visit.Described)
	for at0 := pub + base; at0 <= now+hour; at0 += base {
		o.PublishedAt = append(o.PublishedAt, at(at0))
	}
	tr.Observe(o)
	s := tr.rule.(*publications).s
	if m, _ := estimate(s.Window, false); m != base {
		t.Errorf("period %d", m)
	}
	if len(s.Gaps) != 1 || s.Gaps[0] < now-pub || s.Gaps[0] > now-pub+base {
		t.Errorf("gaps %v, want about %d", s.Gaps, now-pub)
	}
}
