package linkformat

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func FuzzParse(f *testing.F) {
	for _, d := range corpus(f) {
		f.Add(d.body)
	}
	for _, h := range hostile() {
		f.Add(h.body(300))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		r := Parse(body)
		if !bytes.Equal(before, body) {
			t.Fatal("Parse altered the body")
		}
		checkPlaces(t, body, r)
		checkShape(t, r)
		checkReparse(t, r)
	})
}

// checkShape holds the parts of a Result against its verdict and the limits.
func checkShape(t *testing.T, r Result) {
	t.Helper()
	switch {
	case (r.Verdict == Valid) != (r.Err == nil),
		(r.Verdict == Recovered) != (len(r.Recovered) > 0),
		r.Verdict != Valid && len(r.Warnings) > 0,
		r.Verdict == Invalid && len(r.Links) > 0,
		len(r.Links) > MaxLinks:
		t.Fatalf("inconsistent: %+v", r)
	}
	for _, l := range r.Links {
		if len(l.Attrs) > MaxAttrs {
			t.Fatalf("%d attributes", len(l.Attrs))
		}
		for _, a := range l.Attrs {
			if len(a.Value) > MaxValue || !a.HasValue && a.Value != "" {
				t.Fatalf("value of %d bytes, HasValue %v", len(a.Value), a.HasValue)
			}
		}
	}
	if _, err := json.Marshal(r); err != nil {
		t.Fatal(err)
	}
}

// checkReparse prints the links and reads them again: strictly, unless a raw
// UTF-8 target or a starred value keeps them outside the grammar.
func checkReparse(t *testing.T, r Result) {
	t.Helper()
	printed := Format(r.Links)
	again := Parse(printed)
	want := Valid
	for _, l := range r.Links {
		if checkReference(l.Target, false) != "" {
			want = Recovered
		}
		for _, a := range l.Attrs {
			if isStarred(a.Name) && !isExtValue(a.Value) {
				want = Recovered
			}
		}
	}
	if again.Verdict != want || r.Verdict == Valid && want != Valid {
		t.Fatalf("%s, printed as %q is %s, want %s; %v",
			r.Verdict, printed, again.Verdict, want, again.Err)
	}
	if !cmp.Equal(r.Links, again.Links, sameLink) || !SameSet(r.Links, again.Links) {
		t.Fatalf("%q came back as %q", printed, Format(again.Links))
	}
}
