package linkformat

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// anyLinks draws links that are grammatical, but otherwise as odd as possible.
func anyLinks(t *rapid.T) []Link {
	target := rapid.StringMatching(`(|coap://(\[2001:db8::[0-9a-f]{1,4}\]|h)(:56)?)` +
		`(/[a-z,;=0-9.~]{0,4}){1,3}(\?[a-z=&,;]{0,5})?`)
	known := rapid.SampledFrom([]string{"rt", "if", "CT", "obs", "title*"})
	other := rapid.StringMatching("[a-z!#$&+.^_`|~-]{1,4}")
	ext := rapid.StringMatching(`UTF-8'(de-AT)?'(%c3|[a-z!#.~])*`)
	token := rapid.StringMatching("[!#-+./0-9:<=>?@A-Z\\[\\]^-~-]{1,9}")
	text := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\"\\,;<> \t\r\n\x00"))))
	attr := rapid.Custom(func(t *rapid.T) Attr {
		a := Attr{Name: rapid.OneOf(known, other).Draw(t, "name")}
		switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
		case isStarred(a.Name):
			a.Value, a.HasValue = ext.Draw(t, "ext"), true
		case kind == 1:
			a.Value, a.HasValue = token.Draw(t, "token"), true
		case kind > 1:
			a.Value, a.HasValue, a.Quoted = strings.ToValidUTF8(text.Draw(t, "text"), ""), true, true
			if len(a.Value) > MaxValue {
				a.Value = ""
			}
		}
		return a
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Link {
		attrs := rapid.SliceOfN(attr, 0, 6)
		return Link{Target: target.Draw(t, "target"), Attrs: attrs.Draw(t, "attrs")}
	}), 0, 6).Draw(t, "links")
}

func TestPrintThenParse(t *testing.T) {
	same := cmp.Options{
		cmpopts.IgnoreFields(Link{}, "Offset"),
		cmpopts.IgnoreFields(Attr{}, "Offset"),
		cmpopts.EquateEmpty(),
	}
	rapid.Check(t, func(t *rapid.T) {
		links := anyLinks(t)
		body := Format(links)
		r := Parse(body)
		if r.Verdict != Valid {
			t.Fatalf("%q: %v", body, r.Err)
		}
		if diff := cmp.Diff(links, r.Links, same); diff != "" {
			t.Fatalf("%q (-printed +parsed):\n%s", body, diff)
		}
		if again := Format(r.Links); string(again) != string(body) {
			t.Fatalf("printed %q, then %q", body, again)
		}
		if !SameSet(links, r.Links) {
			t.Fatalf("%q is another set of links", body)
		}
	})
}

func TestCorpusPrintsAsItWas(t *testing.T) {
	for _, d := range corpus(t) {
		r := Parse(d.body)
		if printed := Format(r.Links); d.strict != nil && string(printed) != string(d.body) {
			t.Errorf("%s: printed %q, was %q", d.name, printed, d.body)
		}
	}
}

func TestAppendQuotesWhatAPtokenCannotHold(t *testing.T) {
	l := Link{Target: "/a", Attrs: []Attr{
		{Name: "a", HasValue: true, Value: "x"}, {Name: "b", HasValue: true},
		{Name: "c", HasValue: true, Value: "two words"}, {Name: "d", HasValue: true, Value: `q"\`},
		{Name: "e", HasValue: true, Value: "\x00\t\n"}, {Name: "f"},
	}}
	want := `prefix</a>;a=x;b="";c="two words";d="q\"\\";e="\` + "\x00\t\\\n" + `";f`
	if got := string(l.Append([]byte("prefix"))); got != want {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestDiff(t *testing.T) {
	for _, c := range []struct{ name, old, new, added, removed string }{
		{"same", `</a>;ct=0,</b>`, `</a>;ct=0,</b>`, ``, ``},
		{"order of links", `</a>,</b>`, `</b>,</a>`, ``, ``},
		{"repeated link", `</a>`, `</a>,</a>`, ``, ``},
		{"order of attributes", `</a>;ct=0;rt=x`, `</a>;rt="x";CT=0`, ``, ``},
		{"first one counts", `</a>;rt=x;rt=y`, `</a>;rt=y;rt=x`, `</a>;rt=y;rt=x`, `</a>;rt=x;rt=y`},
		{"flag is not empty value", `</a>;obs`, `</a>;obs=""`, `</a>;obs=""`, `</a>;obs`},
		{"one more", `</a>`, `</b>,</a>,</c>,</b>`, `</b>,</c>`, ``},
		{"one less", `</a>,</b>`, ``, ``, `</a>,</b>`},
		{"changed", `</a>;ct=0`, `</a>;ct=40`, `</a>;ct=40`, `</a>;ct=0`},
	} {
		old, now := mustParse(t, c.old), mustParse(t, c.new)
		added, removed := Diff(old, now)
		if string(Format(added)) != c.added || string(Format(removed)) != c.removed {
			t.Errorf("%s: added %s removed %s", c.name, Format(added), Format(removed))
		}
		if SameSet(old, now) != (c.added+c.removed == "") {
			t.Errorf("%s: SameSet disagrees with Diff", c.name)
		}
	}
}
