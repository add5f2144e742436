package linkformat

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestTypedRules(t *testing.T) {
	for _, c := range []struct{ params, want string }{
		{`rt=a.b-1`, ""}, {`rt="a  b"`, ""}, {`rt="urn:x:y a"`, ""}, {`rt=tag:x@y`, ""},
		{`rt=A`, "rt-registered4"}, {`rt="a B C"`, "rt-registered4"}, {`rt=""`, "rt-registered4"},
		{`rt`, "rt-registered4"}, {`rt=" a"`, "rt-registered4"}, {`rt="a "`, "rt-registered4"},
		{`rt=1a`, "rt-registered4"}, {`if="a\"b"`, "if-registered4"}, {`rel=A`, "rel-registered4"},
		{`rev=A`, "rev-registered4"},
		{`RT=A`, "rt-registered4"},
		{`anchor="/a"`, ""}, {`anchor=/a`, "anchor-uri4"}, {`anchor="a b"`, "anchor-uri4"},
		{`hreflang=de-AT;hreflang=en`, ""}, {`hreflang="de"`, "hreflang-tag4"},
		{`hreflang=1`, "hreflang-tag4"},
		{`media=print`, ""}, {`media`, "media-value4"},
		{`title="x"`, ""}, {`title=x`, "title-quoted4"},
		{`type=text/plain`, ""}, {`type="text/plain"`, ""}, {`type=text`, "type-media4"},
		{"type=" + strings.Repeat("a", 127) + "/a", ""},
		{"type=a/" + strings.Repeat("a", 128), "type-media4"},
		{`sz=0`, ""}, {`sz=1700`, ""}, {`sz="1"`, "sz-decimal4"}, {`sz=01`, "sz-decimal4"},
		{`sz`, "sz-decimal4"},
		{`ct=0`, ""}, {`ct="0 40"`, ""}, {`ct="40"`, ""}, {`ct="0 x"`, "ct-decimal4"},
		{`ct=""`, "ct-decimal4"},
		{`obs;osc`, ""}, {`obs=1`, "obs-flag4"}, {`osc=""`, "osc-flag4"},
		{`rt=a;rt=b`, "one-rt9"}, {`rel=a;REL=B;rel=c`, "rel-registered10 one-rel10 one-rel16"},
		{`title="a";title="b"`, "one-title14"}, {`title*=UTF-8''a;title="a"`, ""},
		{`x=1;x=2;x`, ""}, {`anchor="/a";anchor="/b"`, ""},
	} {
		r := Parse([]byte("<a>;" + c.params))
		if got := rules(r.Warnings); r.Verdict != Valid || got != c.want {
			t.Errorf("%s: %s, %q, want %q", c.params, r.Verdict, got, c.want)
		}
	}
}

func TestResultAsJSON(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{``, `{"verdict":"valid","links":[],"recovered":[],"warnings":[]}`},
		{`</a>;obs;A="";rt=X`, `{"verdict":"valid",` +
			`"links":[{"target":"/a","attrs":[["obs",null],["A",""],["rt","X"]]}],` +
			`"recovered":[],"warnings":[{"rule":"rt-registered","offset":14}]}`},
		{`</a>,`, `{"verdict":"recovered","links":[{"target":"/a","attrs":[]}],` +
			`"recovered":[{"rule":"E","offset":4}],"warnings":[],` +
			`"error":{"offset":5,"message":"expected '\u003c'"}}`},
		{`!`, `{"verdict":"invalid","links":[],"recovered":[],"warnings":[],` +
			`"error":{"offset":0,"message":"expected '\u003c'"}}`},
	} {
		got, err := json.Marshal(Parse([]byte(c.body)))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v\nwant %s", c.body, got, err, c.want)
		}
	}
}
