package coapclient

import (
	"slices"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/crawld/crawld/internal/visit"
)

func TestPublishedAt(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(seconds ...float64) (ts []time.Time) {
		for _, s := range seconds {
			ts = append(ts, time.UnixMicro(int64(s*1e6)).UTC())
		}
		return ts
	}
	for _, x := range []struct {
		name, body string
		want       []time.Time
	}{
		{"absolute, unsorted, doubled", `[{"bn":"s","bt":1.7e9,"n":"t","v":1,"t":5},
			{"n":"t","v":2},{"n":"h","v":2},{"n":"t","v":3,"t":-1.5}]`,
			at(1.7e9-1.5, 1.7e9, 1.7e9+5)},
		{"relative to the response", `[{"n":"t","v":1,"t":-60},{"n":"t","v":2}]`,
			[]time.Time{now.Add(-time.Minute), now}},
		{"must be understood", `[{"n":"t","v":1,"t":1.7e9,"x_":1}]`, nil},
		{"may be ignored", `[{"n":"t","v":1,"t":1.7e9,"x":1}]`, at(1.7e9)},
		{"not JSON", `[{"n":"t"`, nil},
		{"not a pack", `{"n":"t","v":1}`, nil},
		{"no value", `[{"n":"t","t":1.7e9}]`, nil},
		{"beyond any calendar", `[{"n":"t","v":1,"t":1e300},{"n":"t","v":1,"t":-1e300}]`, nil},
		{"empty", `[]`, nil},
	} {
		got := publishedAt([]byte(x.body), 110, now)
		if !slices.EqualFunc(got, x.want, time.Time.Equal) {
			t.Errorf("%s: got %v, want %v", x.name, got, x.want)
		}
	}
	for label, want := range map[any][]time.Time{7: at(1.7e9), "x": at(1.7e9), "x_": nil} {
		body, err := cbor.Marshal([]map[any]any{{0: "t", 2: 21.5, 6: 1.7e9, label: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if got := publishedAt(body, 112, now); !slices.EqualFunc(got, want, time.Time.Equal) {
			t.Errorf("CBOR with label %v: got %v, want %v", label, got, want)
		}
	}
}

func TestSenMLVisit(t *testing.T) {
	for body, want := range map[string]int{`[{"n":"t","v":21.5,"t":1.7e9}]`: 1, `[broken`: 0} {
		s := newSensor(t, func(s *sensor, q query) {
			s.piggyback(q, content, []byte(body), num(12, 110))
		})
		out := fetch(t, newClient(t, Options{}), visitTo(s.uri()))
		is(t, out, visit.Described, "", true) // whatever its text
		if len(out.PublishedAt) != want || out.Format != 110 || out.Verdict != "" {
			t.Errorf("%s: published %v, format %d, verdict %q", body, out.PublishedAt, out.Format,
				out.Verdict)
		}
	}
}

func FuzzPublishedAt(f *testing.F) {
	f.Add([]byte(`[{"bn":"s","bt":1.7e9,"n":"t","v":1}]`), true)
	f.Add([]byte{0x81, 0xa3, 0, 0x61, 't', 2, 1, 6, 0x1a, 0x65, 0x53, 0xf1, 0}, false)
	f.Fuzz(func(t *testing.T, body []byte, json bool) {
		format := 112
		if json {
			format = 110
		}
		got := publishedAt(body, format, time.Unix(1.7e9, 0))
		if !slices.IsSortedFunc(got, time.Time.Compare) {
			t.Errorf("times not ascending: %v", got)
		}
		for _, x := range got {
			if _, err := x.MarshalText(); err != nil {
				t.Errorf("%v cannot be written down: %v", x, err)
			}
		}
	})
}
