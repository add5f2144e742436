package dpt

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/crawld/crawld/internal/visit"
)

// Every answer of a sensor and what it says, row by row.
func TestSignals(t *testing.T) {
	const now = 1_000_000
	for name, c := range map[string]struct {
		change func(*visit.Outcome)
		want   signal
		awake  string
	}{
		"2.05 new": {func(o *visit.Outcome) {
			o.PublishedAt = []time.Time{at(now - 10), at(now - 300_000), at(now - 10), {}}
			o.HasMaxAge, o.MaxAge = true, 90*time.Second
		}, signal{kind: described, contact: true, stated: true, maxAge: 90_000,
			published: []int64{now - 300_000, now - 10}}, "up at start"},
		"2.03": {func(o *visit.Outcome) { o.Result, o.MaxAge = visit.Unchanged, time.Minute },
			signal{kind: unchanged, contact: true}, "up at start"},
		"2.03 to a second transmission": {func(o *visit.Outcome) {
			o.Result, o.Retransmissions = visit.Unchanged, 1
		}, signal{kind: unchanged, contact: true, resent: true}, "up at end"},
		"silence": {func(o *visit.Outcome) { o.Result, o.Contact = visit.Asleep, false },
			signal{kind: asleep}, "down at start"},
		"RST": {func(o *visit.Outcome) { o.Result, o.Reason = visit.Refused, "rst" },
			signal{kind: faulty, contact: true}, "up at start"},
		"4.04": {func(o *visit.Outcome) { o.Result, o.Code = visit.Refused, "4.04" },
			signal{kind: faulty, contact: true}, "up at start"},
		"5.03 with Max-Age": {func(o *visit.Outcome) {
			o.Result, o.RetryAfter = visit.Refused, 5*time.Minute
		}, signal{kind: busy, contact: true, retry: 300_000}, "up at start"},
		"4.29 without Max-Age": {func(o *visit.Outcome) {
			o.Result, o.RetryAfter = visit.Refused, time.Minute
		}, signal{kind: busy, contact: true, retry: 60_000, weak: true}, "up at start"},
		"4.29 with Max-Age 60": {func(o *visit.Outcome) {
			o.Result, o.RetryAfter, o.HasMaxAge = visit.Refused, time.Minute, true
		}, signal{kind: busy, contact: true, retry: 60_000}, "up at start"},
		"empty ACK, then silence": {func(o *visit.Outcome) { o.Result = visit.Failed },
			signal{kind: faulty, contact: true}, "up at start"},
		"not resolved": {func(o *visit.Outcome) { o.Result, o.Contact = visit.Failed, false },
			signal{kind: faulty}, "unknown"},
		"daemon late": {func(o *visit.Outcome) { o.Result, o.Contact = visit.Missed, false },
			signal{kind: unasked}, "unknown"},
	} {
		o := poll(now, visit.Described)
		o.Ended = at(now + 500)
		c.change(&o)
		c.want.start, c.want.end = at(now).UnixMilli(), at(now+500).UnixMilli()
		for i := range c.want.published {
			c.want.published[i] += epoch0.UnixMilli()
		}
		got := read(o)
		if d := cmp.Diff(c.want, got, cmp.AllowUnexported(signal{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
		when, awake, known := got.awake()
		text := map[bool]string{true: "up", false: "down"}[awake] + " at " +
			map[int64]string{got.start: "start", got.end: "end"}[when]
		if !known {
			text = "unknown"
		}
		if text != c.awake {
			t.Errorf("%s: %s, want %s", name, text, c.awake)
		}
	}
}

// An explicit wish is kept as it is. The default Max-Age of 60 s is weak: after several
// of them the sensor is left alone for longer.
func TestBusySensor(t *testing.T) {
	for _, weak := range []bool{false, true} {
		tr, now := learnt(t, testParams(), 300_000, 10)
		var gaps []int64
		for range 4 {
			now = next(tr, now)
			o := poll(now, visit.Refused)
			o.RetryAfter, o.HasMaxAge = time.Minute, !weak
			tr.Observe(o)
			gaps = append(gaps, (next(tr, now)-now)/1000)
		}
		want := []int64{60, 60, 60, 60}
		if weak {
			want = []int64{60, 120, 240, 480}
		}
		if !slices.Equal(gaps, want) {
			t.Errorf("weak %v: gaps %v s, want %v", weak, gaps, want)
		}
		if r := tr.rule.(*publications).s; r.Mode != normal || r.Tries != 0 {
			t.Errorf("weak %v: a refusal was taken for a miss: %+v", weak, r)
		}
	}
}

// packs is a sensor that keeps its last publications and shows them all.
type packs struct {
	items []int64
	size  int
	known int // newest item shown
}

func (p *packs) answer(now int64) visit.Outcome {
	n, _ := slices.BinarySearch(p.items, now+1)
	o := poll(now, visit.Unchanged)
	if n > p.known {
		o.Result, p.known = visit.Described, n
	}
	for _, ms := range p.items[max(0, n-p.size):n] {
		o.PublishedAt = append(o.PublishedAt, at(ms))
	}
	return o
}

// A pack of nothing but news may not be all: the sensor is asked again at once, without
// desynchronisation, and not for ever if it never has more.
func TestMoreData(t *testing.T) {
	p := testParams()
	p.Desync = time.Minute
	tr := NewTracker(p, epoch0)
	src := &packs{size: 4}
	for i := range 400 {
		src.items = append(src.items, int64(i+1)*300_000)
	}
	now, pulls := int64(0), 0
	for now < 100_000_000 {
		now = next(tr, now)
		if now%20_000_000 < 300_000 { // out of reach until four more were published
			now += 5 * 300_000
		}
		tr.Observe(src.answer(now))
		if a, why := tr.Next(at(now), 3); strings.HasSuffix(why, "more data") {
			pulls++
			if !a.Equal(at(now + 1000)) {
				t.Errorf("more data is pulled after %v", a.Sub(at(now)))
			}
		}
	}
	t.Logf("%d pulls", pulls)
	if pulls == 0 || pulls > maxDry {
		t.Errorf("%d pulls of a sensor that has never more, want 1 .. %d", pulls, maxDry)
	}
}

// A backlog that comes in parts is drained at the least gap, up to maxPulls looks.
func TestDrain(t *testing.T) {
	p := testParams()
	p.Desync = time.Minute
	tr, now := learnt(t, p, 300_000, 10)
	begin, parts, shown := now+3_000_000, 0, now
	now = begin
	for {
		o := poll(now, visit.Described)
		for range 3 {
			shown += 5_000
			o.PublishedAt = append(o.PublishedAt, at(shown))
		}
		tr.Observe(o)
		parts++
		n := next(tr, now)
		if n != now+1000 {
			break
		}
		now = n
	}
	if parts != maxPulls+1 {
		t.Errorf("drained %d parts, want %d", parts, maxPulls+1)
	}
	if m, _, _, _ := tr.Stats(); m != 5*time.Minute && m != 5*time.Second {
		t.Errorf("the backlog made the period %v", m)
	}
}
