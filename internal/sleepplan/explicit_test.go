package sleepplan

import (
	"slices"
	"strings"
	"testing"
)

func TestExplicitSortsAndMerges(t *testing.T) {
	a, b, c, d := at("2026-01-01"), at("2026-01-02"), at("2026-01-03"), at("2026-01-04")
	e := at("2026-01-05")
	p := must(Explicit([]Window{{d, e}, {b, c}, {a, b}}))
	want := []Window{{a, c}, {d, e}}
	if got := p.Windows(a.Add(-day), e.Add(day)); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !p.Equal(must(Explicit(want))) || p.Equal(must(Explicit(want[:1]))) {
		t.Error("Equal must compare merged windows")
	}
	if until, ends := p.KnownUntil(); !ends || until != e {
		t.Errorf("known until %v %t, want %v", until, ends, e)
	}
	if next, ok := p.NextAwake(e); ok {
		t.Errorf("awake at %v after the last window", next)
	}
	if w, ok := p.NextWindow(c); !ok || w != want[1] {
		t.Errorf("next window %v %t", w, ok)
	}
	one := must(Explicit([]Window{{a, b}}))
	if got, want := one.String(), "1 window until 2026-01-02T00:00:00Z"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestExplicitErrors(t *testing.T) {
	a, b, c := at("2026-01-01"), at("2026-01-02"), at("2026-01-03")
	for want, ws := range map[string][]Window{
		"list is empty": nil,
		"windows[1]: end 2026-01-02T00:00:00Z is not after start 2026-01-02T00:00:00Z": {{a, b}, {b, b}},
		"windows[0]: end":                     {{c, a}},
		"windows[0]: starts at 2026-01-02T":   {{b, c}, {a, c}},
		"before windows[1] ends at 2026-01-0": {{b, c}, {a, c}},
		"windows[1]: starts at":               {{a, b}, {a, b}},
		// Named are indices of the caller's list, not of the sorted one.
		"windows[2]: starts at 2026-01-02T00:00:00Z, before windows[0]": {
			{a, c}, {c, c.Add(1)}, {b, b.Add(1)}},
	} {
		_, err := Explicit(ws)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", ws, err, want)
		}
	}
}
