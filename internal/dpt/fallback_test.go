package dpt

import (
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// What each policy becomes where publish times are shown, are not shown, or are hidden by
// the operator, and that it says so.
func TestFallback(t *testing.T) {
	const no = "no publish times, instead of "
	hidden := map[Policy]string{HZ: "bb publish times hidden, instead of hz"}
	blind := map[Policy]string{}
	for _, p := range []Policy{DPTA, DPTN, DPTL, Bimodal, HZ} {
		blind[p] = "bb " + no + string(p)
	}
	for _, policy := range Policies() {
		for _, c := range []struct {
			times PublishTimes
			shown bool
			want  map[Policy]string
		}{
			{TimesAuto, true, nil}, {TimesTrust, true, nil}, {TimesHide, true, hidden},
			{TimesAuto, false, blind}, {TimesTrust, false, blind}, {TimesHide, false, hidden},
		} {
			p := testParams()
			p.Policy, p.PublishTimes = policy, c.times
			tr := NewTracker(p, epoch0)
			now := int64(0)
			for range 6 {
				now += 100_000
				o := poll(now, visit.Described)
				if c.shown {
					o.PublishedAt = []time.Time{at(now - 7)}
				}
				tr.Observe(o)
			}
			want := c.want[policy]
			if want == "" {
				want = string(policy) + " "
			}
			active, reason := tr.Policy()
			if got := string(active) + " " + reason; got != want {
				t.Errorf("%s, publish times %s, shown %v: %q, want %q", policy, c.times, c.shown, got, want)
			}
			_, why := tr.Next(at(now), 1)
			_, _, _, mode := tr.Stats()
			if told := strings.Contains(why, reason) && strings.Contains(mode, reason); !told {
				t.Errorf("%s: why %q, mode %q, want %q in both", policy, why, mode, reason)
			}
		}
	}
}

// Another policy goes on from what was learnt where it can.
func TestConfigurePolicy(t *testing.T) {
	tr, now := learnt(t, testParams(), 300_000, 10)
	for _, policy := range []Policy{DPTL, DPTA, Bimodal, DPTN} {
		p := testParams()
		p.Policy = policy
		tr.Configure(p)
		if m, _, _, mode := tr.Stats(); m != 5*time.Minute || mode != "normal" {
			t.Errorf("%s: median %v, mode %s", policy, m, mode)
		}
		if a, why := tr.Next(at(now), 1); !a.Equal(at(now+300_000)) || !strings.HasPrefix(why, string(policy)) {
			t.Errorf("%s: %v %q", policy, a.Sub(at(now)), why)
		}
	}
	p := testParams()
	p.Policy = Fixed
	tr.Configure(p)
	if _, why := tr.Next(at(now), 1); why != "fixed 1m0s" {
		t.Errorf("fixed: %q", why)
	}
	p.Policy = BB
	tr.Configure(p)
	if active, reason := tr.Policy(); active != BB || reason != "" {
		t.Errorf("%s %q", active, reason)
	}
	p.Policy = HZ // publish times were seen all the time
	tr.Configure(p)
	if active, reason := tr.Policy(); active != HZ || reason != "" {
		t.Errorf("%s %q", active, reason)
	}
}
