package linkformat

import (
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The examples of RFC 3986 section 5.4.
func TestResolveExamples(t *testing.T) {
	for _, line := range strings.Split(strings.TrimSpace(`
g:h g:h
g http://a/b/c/g
./g http://a/b/c/g
g/ http://a/b/c/g/
/g http://a/g
//g http://g
?y http://a/b/c/d;p?y
g?y http://a/b/c/g?y
#s http://a/b/c/d;p?q#s
g#s http://a/b/c/g#s
g?y#s http://a/b/c/g?y#s
;x http://a/b/c/;x
g;x http://a/b/c/g;x
g;x?y#s http://a/b/c/g;x?y#s
. http://a/b/c/
./ http://a/b/c/
.. http://a/b/
../ http://a/b/
../g http://a/b/g
../.. http://a/
../../ http://a/
../../g http://a/g
../../../g http://a/g
../../../../g http://a/g
/./g http://a/g
/../g http://a/g
g. http://a/b/c/g.
.g http://a/b/c/.g
g.. http://a/b/c/g..
..g http://a/b/c/..g
./../g http://a/b/g
./g/. http://a/b/c/g/
g/./h http://a/b/c/g/h
g/../h http://a/b/c/h
g;x=1/./y http://a/b/c/g;x=1/y
g;x=1/../y http://a/b/c/y
g?y/./x http://a/b/c/g?y/./x
g?y/../x http://a/b/c/g?y/../x
g#s/./x http://a/b/c/g#s/./x
g#s/../x http://a/b/c/g#s/../x
http:g http:g`), "\n") {
		ref, want, _ := strings.Cut(line, " ")
		if got := resolve("http://a/b/c/d;p?q", ref); got != want {
			t.Errorf("%s: %s, want %s", ref, got, want)
		}
	}
	if got := resolve("http://a/b/c/d;p?q", ""); got != "http://a/b/c/d;p?q" {
		t.Errorf("empty reference: %s", got)
	}
}

// resolve is what net/url does where that leaves the bytes alone.
func TestResolveTwin(t *testing.T) {
	parts := []string{"a", "b.c", "..", ".", "/", "/", "//", "?q", "#f", ":", "1", "%41", ";x=1", ""}
	compared := 0
	for seed := range uint64(20_000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		ref := ""
		for range rng.IntN(7) {
			ref += parts[rng.IntN(len(parts))]
		}
		base := []string{"coap://h", "coap://h/", "coap://h:1/a/b?q", "coap://[::1]/x/../y/"}[rng.IntN(4)]
		if checkReference(ref, false) != "" {
			continue
		}
		b, err := url.Parse(base)
		if err != nil {
			t.Fatal(err)
		}
		r, err := url.Parse(ref)
		if err != nil || r.String() != ref || r.Opaque != "" {
			continue // such as http:g, or an empty query
		}
		// net/url takes a path's empty segments for nothing at times, and cleans the base.
		if strings.Contains(ref, "//") && !strings.HasPrefix(ref, "//") || strings.Count(ref, "//") > 1 ||
			(ref == "" || strings.ContainsAny(ref[:1], "?#")) && strings.Contains(base, "..") ||
			strings.HasPrefix(ref, "///") {
			continue
		}
		compared++
		want := b.ResolveReference(r).String()
		if got := resolve(base, ref); got != want && got+"/" != want {
			t.Fatalf("%s + %s: %s, net/url has %s", base, ref, got, want)
		}
	}
	if compared < 3000 {
		t.Errorf("only %d compared", compared)
	}
}

func TestAbsolute(t *testing.T) {
	const base = "coap://[2001:db8::1]:61616/.well-known/core?x"
	for body, want := range map[string]string{
		`</sensors/temp>;rt="t";if=s`: `<coap://[2001:db8::1]:61616/sensors/temp>;rt="t";if=s` +
			`;anchor="coap://[2001:db8::1]:61616"`,
		`<temp>;obs`: `<coap://[2001:db8::1]:61616/temp>;obs;anchor="coap://[2001:db8::1]:61616"`,
		`<>`:         `<coap://[2001:db8::1]:61616/>;anchor="coap://[2001:db8::1]:61616"`,
		`<http://www.example.com/sensors/t123>;anchor="/sensors/temp";rel="describedby"`: `<` +
			`http://www.example.com/sensors/t123>;rel="describedby";` +
			`anchor="coap://[2001:db8::1]:61616/sensors/temp"`,
		`</t>;anchor="/sensors/temp";rel="alternate"`: `<coap://[2001:db8::1]:61616/t>` +
			`;rel="alternate";anchor="coap://[2001:db8::1]:61616/sensors/temp"`,
		`<t>;Anchor="coap://other/a/b";anchor="/c"`: `<coap://other/a/t>;anchor="coap://other/a/b"`,
		`<//other/x?y>;ct=40`:                       `<coap://other/x?y>;ct=40;anchor="coap://other"`,
		`<urn:dev:1>`:                               `<urn:dev:1>;anchor="coap://[2001:db8::1]:61616"`,
		`<coap://h?q>`:                              `<coap://h?q>;anchor="coap://h"`,
		`</ü>;title="Wärme"`: `<coap://[2001:db8::1]:61616/%C3%BC>;title="Wärme"` +
			`;anchor="coap://[2001:db8::1]:61616"`,
		`</a>;anchor`: `<coap://[2001:db8::1]:61616/a>;anchor="coap://[2001:db8::1]:61616"`,
	} {
		parsed := Parse([]byte(body))
		if len(parsed.Links) != 1 {
			t.Fatalf("%s: %v", body, parsed.Err)
		}
		if got := string(parsed.Links[0].Absolute(base).Append(nil)); got != want {
			t.Errorf("%s\n got %s\nwant %s", body, got, want)
		}
	}
}

// What a document has become is valid, has as many links, and stays as it is wherever it
// stands.
func FuzzAbsolute(f *testing.F) {
	files, err := filepath.Glob("testdata/corpus/*.wlc")
	if err != nil || len(files) == 0 {
		f.Fatal(err, "no corpus")
	}
	for _, file := range files {
		if body, err := os.ReadFile(file); err == nil {
			f.Add(body)
		}
	}
	f.Add([]byte(`</a b>;title=Room 1, <ü/../x>;anchor="?";x*=UTF-8''a`))
	f.Fuzz(func(t *testing.T, body []byte) {
		links := Parse(body).Links
		for i, l := range links {
			links[i] = l.Absolute("coap://h/.well-known/core")
			if again := links[i].Absolute("coap://elsewhere/"); again.key() != links[i].key() {
				t.Fatalf("%+v\nagain %+v", links[i], again)
			}
		}
		for i := range links {
			if n := len(links[i].Attrs); n > MaxAttrs {
				links[i].Attrs = links[i].Attrs[n-MaxAttrs:]
			}
			for _, a := range links[i].Attrs {
				if len(a.Value) > MaxValue {
					return
				}
			}
		}
		text := Format(links)
		if got := Parse(text); got.Verdict != Valid || len(got.Links) != len(links) {
			t.Fatalf("%q\n%s: %v", body, text, got.Err)
		}
	})
}
