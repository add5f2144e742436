package linkformat

import (
	"fmt"
	"strings"
	"testing"
)

func TestLimits(t *testing.T) {
	link := func(attrs, value int) string {
		return "</a>" + strings.Repeat(";a", attrs-1) + `;b="` + strings.Repeat(`\x`, value) + `"`
	}
	many := func(n int) string { return strings.Repeat("<>,", n-1) + "<>" }
	for _, c := range []struct {
		body, says string
		offset     int
	}{
		{body: many(MaxLinks)},
		{many(MaxLinks + 1), "more than 1000 links", 3 * MaxLinks},
		{many(MaxLinks+1) + "\n!", "more than 1000 links", 3 * MaxLinks},
		{body: link(MaxAttrs, 1)},
		{link(MaxAttrs+1, 1), "more than 32 attributes", 4 + 2*MaxAttrs + 1},
		{body: link(1, MaxValue)},
		{link(1, MaxValue+1), "longer than 1024 bytes", 7},
		{"</a>;b=" + strings.Repeat("x", MaxValue+1), "longer than 1024 bytes", 7},
		{"</a>; b=" + strings.Repeat("x", MaxValue+1), "byte 8: attribute value longer than 1024", 5},
		{" " + many(MaxLinks+1), "more than 1000 links", 0},
	} {
		r := Parse([]byte(c.body))
		switch {
		case c.says == "":
			if r.Verdict != Valid {
				t.Errorf("%.20q at a limit: %v", c.body, r.Err)
			}
		case r.Verdict != Invalid || len(r.Links) > 0:
			t.Errorf("%.20q over a limit: %s", c.body, r.Verdict)
		case r.Err.Offset != c.offset || !strings.Contains(r.Err.Message, c.says):
			t.Errorf("%.20q: %v, want %q at byte %d", c.body, r.Err, c.says, c.offset)
		}
	}
}

// attack is front, unit repeated until the body is full, back.
type attack struct{ name, front, unit, back string }

func (a attack) body(size int) []byte {
	n := max(0, size-len(a.front)-len(a.back)) / len(a.unit)
	return []byte(a.front + strings.Repeat(a.unit, n) + a.back)
}

func hostile() []attack {
	return []attack{
		{"open angles", "", "<", ""}, {"empty links", "", "<>,", ""}, {"links in lines", "", "<>\n", ""},
		{"open quote", `</a>;t="`, "x", ""}, {"open escapes", `</a>;t="`, `\"`, ""},
		{"long string", `</a>;t="`, "x", `"`}, {"backslashes", `</a>;t="`, `\\`, `"`},
		{"escaped quotes", `</a>;t="`, `\"`, `"`}, {"quoted flags", "</a>", `;a="`, ""},
		{"CR in quotes", `</a>;t="`, "\r", `"`}, {"NUL in quotes", `</a>;t="`, "\x00", `"`},
		{"invalid UTF-8", `</a>;t="`, "\xff", `"`}, {"relations", `</a>;rt="`, "A ", `B"`},
		{"NUL", "", "\x00", ""}, {"NUL behind value", "</a>;ct=0", "\x00", ""},
		{"BOM", "", "\ufeff", ""},
		{"half a BOM", "</a>;t= ", "\xef\xbb", ""},
		{"blanks", "</a>;t=x", " ", ""},
		{"blanks in a value", "</a>;t=x", " x", ""},
		{"blanks before angles", "</a>;t=x", " <", ""},
		{"commas", "</a>", ",", ""}, {"semicolons", "</a>", ";", ""},
		{"commas and blanks", "</a>", ", ", ""},
		{"semicolons and lines", "</a>", ";\n", ""},
		{"flags", "</a>", "; a", ""}, {"equals", "</a>;t", "=", ""},
		{"stars", "</a>;t", "*", ""}, {"long name", "</a>;", "a", ""},
		{"quotes in a value", "</a>;t=", `x"`, ""},
		{"language", "</a>;t*=u'", "a-", "a'"}, {"ext-value", "</a>;t*=u''", "%41", ""},
		{"UTF-8 value", "</a>;t=", "\u00e9", ""}, {"UTF-8 target", "</", "\u00e9", ">"},
		{"percent", "</", "%41", ">"}, {"colons", "<coap://[", ":", "]>"}, {"ats", "<//", "@", ">"},
		{"brackets", "<//", "[", ">"}, {"dots", "<coap://[", "1.", "]>"}, {"scheme", "<", "a", ":>"},
		{"segments", "<", "/", ">"}, {"questions", "<", "?", ">"},
	}
}

// Nothing a megabyte can hold makes Parse return more than the limits allow.
func TestHostileMegabyte(t *testing.T) {
	for _, a := range hostile() {
		body := a.body(1 << 20)
		r := Parse(body)
		if len(r.Links) > MaxLinks || len(r.Recovered)+len(r.Warnings) > 4*MaxLinks*MaxAttrs {
			t.Errorf("%s: %d links, %d notes", a.name, len(r.Links), len(r.Recovered)+len(r.Warnings))
		}
		if r.Err != nil && len(r.Err.Message) > 200 {
			t.Errorf("%s: a message of %d bytes", a.name, len(r.Err.Message))
		}
		checkShape(t, r)
		checkPlaces(t, body, r)
	}
}

// BenchmarkHostile shows that work is linear: ns/B stays level, or falls where
// a limit ends the parse, when the body grows fourfold.
func BenchmarkHostile(b *testing.B) {
	for _, a := range hostile() {
		for _, kib := range []int{64, 256, 1024} {
			body := a.body(kib << 10)
			b.Run(fmt.Sprintf("%s/%dKiB", a.name, kib), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					Parse(body)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(body)), "ns/B")
			})
		}
	}
}

func BenchmarkCorpus(b *testing.B) {
	docs := corpus(b)
	total := 0
	for _, d := range docs {
		total += len(d.body)
	}
	b.SetBytes(int64(total))
	b.ReportAllocs()
	for b.Loop() {
		for _, d := range docs {
			Parse(d.body)
		}
	}
}
