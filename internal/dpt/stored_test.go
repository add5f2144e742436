package dpt

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// firstTracker is a record as it was written before there were other policies than dpt-n
// and fixed, and what that tracker did next.
type firstTracker struct {
	Name   string          `json:"name"`
	Record json.RawMessage `json:"record"`
	Now    int64           `json:"now"`
	Next   int64           `json:"next"`
	Why    string          `json:"why"`
	Misses []int64         `json:"misses"` // polls that follow if none finds anything
}

func firstTrackers(t testing.TB) (all []firstTracker) {
	t.Helper()
	data, err := os.ReadFile("testdata/first_trackers.json")
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil || len(all) != 12 {
		t.Fatalf("%d records, %v", len(all), err)
	}
	return all
}

// A tracker stored by the first version goes on as if nothing had happened.
func TestFirstTrackers(t *testing.T) {
	for _, f := range firstTrackers(t) {
		tr := new(Tracker)
		if err := json.Unmarshal(f.Record, tr); err != nil {
			t.Errorf("%s: %v", f.Name, err)
			continue
		}
		if a, why := tr.Next(at(f.Now), 1); !a.Equal(at(f.Next)) || why != f.Why {
			t.Errorf("%s: next %v %q, was %v %q", f.Name, a, why, at(f.Next), f.Why)
		}
		now, misses := f.Now, []int64(nil)
		for range f.Misses {
			now = next(tr, now)
			misses = append(misses, now)
			tr.Observe(poll(now, visit.Unchanged))
		}
		if !slices.Equal(misses, f.Misses) {
			t.Errorf("%s: polls %v, were %v", f.Name, misses, f.Misses)
		}
		bad := strings.Replace(string(f.Record), `"n":1000`, `"n":0`, 1)
		if new(Tracker).UnmarshalJSON([]byte(bad)) == nil {
			t.Errorf("%s: %s is accepted", f.Name, bad)
		}
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	p := testParams()
	p.Desync = time.Minute
	tr, _ := learnt(t, p, 300_000, 10)
	good, err := json.Marshal(tr)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes: %s", len(good), good)
	for old, bad := range map[string]string{
		`"m":1`: `"m":9`, `300000,300000]`: `300000,0]`, `"h":10`: `"h":-1`,
		`"n":1000`: `"n":0`, `"p":"dpt-n"`: `"p":"fixed"`, `"a":17`: `"a":-17000000`,
		`"g":"dpt-n"`: `"g":"dpt-l"`, `"j":`: `"j":-`, `"i":3`: `"i":-3`, `"k":{"k":true`: `"k":{"n":3`,
		`"z":{`: `"z":[{`, `,"z":`: `,"Z":`,
	} {
		if !strings.Contains(string(good), old) {
			t.Fatalf("no %s in %s", old, good)
		}
		broken := new(Tracker)
		err := broken.UnmarshalJSON([]byte(strings.Replace(string(good), old, bad, 1)))
		if err == nil && bad != `,"Z":` {
			t.Errorf("%s was accepted", bad)
		}
		if err != nil && (broken.rule != nil || !strings.HasPrefix(err.Error(), "dpt: restore tracker: ")) {
			t.Errorf("%s: %v, left %+v", bad, err, broken)
		}
	}
}

// Of a policy that does not exist here, the common part is kept and the configured one
// begins.
func TestUnknownPolicy(t *testing.T) {
	tr, now := learnt(t, testParams(), 300_000, 10)
	good, err := json.Marshal(tr)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range [][2]string{
		{`"p":"dpt-n"`, `"p":"oracle"`}, {`"g":"dpt-n"`, `"g":"oracle"`},
	} {
		text := strings.ReplaceAll(string(good), change[0], change[1])
		text = strings.Replace(text, `"z":{`, `"z":{"unheard":"of",`, 1)
		got := new(Tracker)
		if err := json.Unmarshal([]byte(text), got); err != nil {
			t.Errorf("%v: %v", change, err)
			continue
		}
		if p, reason := got.Policy(); p != DPTN || reason != "" {
			t.Errorf("%v: policy %s %q", change, p, reason)
		}
		if _, _, hits, mode := got.Stats(); hits != 10 || mode != "bootstrap" {
			t.Errorf("%v: %d hits, mode %s", change, hits, mode)
		}
		if n := next(got, now); n != now+60_000 {
			t.Errorf("%v: next poll %v later", change, span(n-now))
		}
		p := testParams()
		p.Policy, p.Bootstrap = Fixed, 7*time.Minute
		got.Configure(p)
		if a, why := got.Next(at(now), 1); why != "fixed 7m0s" || !a.After(at(now)) {
			t.Errorf("%v: configured %v %q", change, a, why)
		}
	}
}
