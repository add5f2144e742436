package linkformat

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// rules prints notes as "W4 E7".
func rules(notes []Note) string {
	var words []string
	for _, n := range notes {
		words = append(words, fmt.Sprintf("%s%d", n.Rule, n.Offset))
	}
	return strings.Join(words, " ")
}

func TestRecoveryRules(t *testing.T) {
	for _, c := range []struct{ body, strict, rules string }{
		{" </a>", `</a>`, "W0"},
		{"</a> ;\tct=0", `</a>;ct=0`, "W4"},
		{"</a>;ct\n=\r\n0 ,</b>", `</a>;ct=0,</b>`, "W7 W12"},
		{"</a>;obs ;ct = \"0\"", `</a>;obs;ct="0"`, "W8 W12"},
		{"\n", ``, "W0"},
		{",", ``, "E0"},
		{"</a>,,, ,</b>,", `</a>,</b>`, "E5 W7 E13"},
		{"</a>;;ct=0;,</b>;", `</a>;ct=0,</b>`, "E4 E10 E16"},
		{"</a>;</b>; </c>", `</a>,</b>,</c>`, "S4 S9 W10"},
		{"</a>;ct=0\r\n</b>\n\n</c>\n", `</a>;ct=0,</b>,</c>`, "S9 S15 W21"},
		{"</a>;\n</b>", `</a>,</b>`, "S4 W5"},
		{"</a>rt=x;ct=0,</b>obs", `</a>;rt=x;ct=0,</b>;obs`, "A4 A18"},
		{"</a> rt=x", `</a>;rt=x`, "W4 A5"},
		{"</a>;ct=40\\,</b>", `</a>;ct="40\\",</b>`, "Q8"},
		{"</a>;title=Two words ;ct=0", `</a>;title="Two words";ct=0`, "Q11 W20"},
		{"</a>;title=bl\u00e5;ct=0", "</a>;title=\"bl\u00e5\";ct=0", "Q11"},
		{"</a>;title=5\" pipe,</b>", `</a>;title="5\" pipe",</b>`, "Q11"},
		{"</a>;title*=u''a b;ct=0", "", "Q12"},
		{"</\U0001fffd>", "", "U1"},
		{"\ufeff</a>", `</a>`, "B0"},
		{"\ufeff\n</a>;ct=0\x00\x00\n", `</a>;ct=0`, "B0 W3 B13 W15"},
		{"</a>\x00,</b>", `</a>,</b>`, "B4"},
		{" \x00</a>\x00\n</b>", `</a>,</b>`, "W0 B1 B6 S7"},
	} {
		r := Parse([]byte(c.body))
		if r.Verdict != Recovered || rules(r.Recovered) != c.rules {
			t.Errorf("%q: %s %q, want recovered %q; %v",
				c.body, r.Verdict, rules(r.Recovered), c.rules, r.Err)
		}
		if c.strict == "" && len(r.Links) > 0 {
			continue // what rules U and Q let through has no strict spelling
		}
		if want := mustParse(t, c.strict); !cmp.Equal(want, r.Links, sameLink) {
			t.Errorf("%q recovered as %s, want %s", c.body, Format(r.Links), c.strict)
		}
	}
}

// sameLink ignores where a link stands and how its values were spelled.
var sameLink = cmp.Options{
	cmpopts.IgnoreFields(Link{}, "Offset"),
	cmpopts.IgnoreFields(Attr{}, "Offset", "Quoted"),
	cmpopts.EquateEmpty(),
}

func mustParse(t testing.TB, body string) []Link {
	t.Helper()
	r := Parse([]byte(body))
	if r.Verdict != Valid {
		t.Fatalf("%q: %v", body, r.Err)
	}
	return r.Links
}

func TestNotRecovered(t *testing.T) {
	for _, c := range []struct {
		body   string
		offset int
		says   string
	}{
		{"<html><head></head></html>", 6, "unexpected byte 0x3c"},
		{"<html>\n<head>\n</head>\n</html>", 6, "HTML"},
		{"<html>\n<x>", 6, "HTML"},
		{"</a>\nrt=x", 4, "recovery gave up at byte 5: unexpected byte 0x72"},
		{"</a>\x00rt=x", 4, "recovery gave up at byte 5: unexpected byte 0x72"},
		{"</\ufffd>", 1, "non-ASCII character"},
		{"</\U0001ffff>", 1, "non-ASCII character"},
		{"<!DOCTYPE html>\n<p>", 1, "illegal character in path"},
		{"</a>,\n<b>404\n</b>", 5, "recovery gave up at byte 13: HTML"},
		{`[{"href":"/a"}]`, 0, "expected '<'"},
		{"Not found", 0, "expected '<'"},
		{"</a>;title=\"\xe9\"", 12, "invalid UTF-8 in quoted-string"},
		{"</a>;title=a\xe9", 12, "recovery gave up at byte 11: invalid UTF-8"},
		{"</\xe9>", 1, "invalid UTF-8"},
		{`</a>;title="Temp`, 11, "unterminated quoted-string"},
		{"</a>; ct=0;title=\"a\n", 5, "recovery gave up at byte 17: unterminated"},
		{"</a>,</sens", 5, "unterminated '<'"},
		{"</a%2>", 1, "bad percent-encoding in path"},
		{"</a>,</b c>", 6, "illegal character in path"},
		{"<:a>", 1, "bad scheme"},
		{"<//h:x/>", 1, "bad authority"},
		{"</?{>", 1, "illegal character in query"},
		{"</#{>", 1, "illegal character in fragment"},
		{"</a>,rt=x", 5, "expected '<'"},
		{"</a>;rt=", 8, "empty or illegal unquoted value"},
		{"</a>;rt=;ct=0", 8, "empty or illegal unquoted value"},
		{"</a>;title*=\"x\"", 12, "empty or illegal unquoted value"},
		{"</a>;title*", 11, "expected '='"},
		{"</a></b>", 4, "unexpected byte 0x3c"},
		{"</a> </b>", 4, "unexpected byte 0x20"},
		{"</a>;ct=0 </b>", 9, "recovery gave up at byte 10"},
		{"</a>;rt=\"a\"b", 11, "unexpected byte 0x62"},
		{"</a>;title=\"a\nb\"", 13, "control character 0x0a"},
		{"</a>;ct=0\x01", 9, "unexpected byte 0x01"},
		{"</a>;\"x\"", 5, "expected parmname"},
		{"</\u0085>", 1, "non-ASCII character"},
	} {
		r := Parse([]byte(c.body))
		if r.Verdict != Invalid || len(r.Links)+len(r.Recovered)+len(r.Warnings) > 0 {
			t.Errorf("%q: %s %s %v", c.body, r.Verdict, Format(r.Links), r.Recovered)
			continue
		}
		if r.Err.Offset != c.offset || !strings.Contains(r.Err.Message, c.says) {
			t.Errorf("%q: %v, want %q at byte %d", c.body, r.Err, c.says, c.offset)
		}
	}
}

// A body that lost its last block inside a quoted-string must not pass as a
// shorter description.
func TestCutInsideQuotesIsInvalid(t *testing.T) {
	cuts := 0
	for _, d := range corpus(t) {
		for _, l := range Parse(d.body).Links {
			for _, a := range l.Attrs {
				open := a.Offset + len(a.Name) + 2
				if !a.Quoted || d.strict == nil {
					continue
				}
				for cut := open; cut < open+len(a.Value); cut++ {
					cuts++
					if r := Parse(d.body[:cut]); r.Verdict != Invalid {
						t.Errorf("%s cut at byte %d is %s", d.name, cut, r.Verdict)
					}
				}
			}
		}
	}
	if cuts < 1000 {
		t.Errorf("only %d cuts tried", cuts)
	}
}

// However separators are mangled, the links come back and the rules name the
// damage.
func TestRecoversAnyNoiseBetweenLinks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		links := anyLinks(t)
		var body bytes.Buffer
		front := rapid.SampledFrom([]string{"", "\ufeff", " \n", ",", "\x00,;"})
		blank := rapid.SampledFrom([]string{"", "", " ", "\t\t", "\r\n", "\x00", "\ufeff "})
		comma := rapid.SampledFrom([]string{",", ",", ";", "\n", ",,", ";,", ",;\n"})
		semi := rapid.SampledFrom([]string{";", ";;", "; ;"})
		body.WriteString(front.Draw(t, "front"))
		for i, l := range links {
			if i > 0 {
				body.WriteString(blank.Draw(t, "before"))
				body.WriteString(comma.Draw(t, "comma"))
				body.WriteString(blank.Draw(t, "after"))
			}
			body.WriteString("<" + l.Target + ">")
			for _, a := range l.Attrs {
				body.WriteString(blank.Draw(t, "before"))
				body.WriteString(semi.Draw(t, "semi"))
				body.WriteString(blank.Draw(t, "after"))
				body.Write(Link{Attrs: []Attr{a}}.Append(nil)[len("<>;"):])
			}
		}
		body.WriteString(rapid.SampledFrom([]string{"", "\x00", " ", ",", ";", ";\r\n,"}).Draw(t, "back"))
		r := Parse(body.Bytes())
		if r.Verdict == Invalid || !cmp.Equal(links, r.Links, sameLink) {
			t.Fatalf("%q: %s %s, %v", body.Bytes(), r.Verdict, Format(r.Links), r.Err)
		}
		if strings.Trim(rules(r.Recovered), "WESB0123456789 ") != "" {
			t.Fatalf("%q: rules %s", body.Bytes(), rules(r.Recovered))
		}
	})
}
