package fleet

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParseURINormalises(t *testing.T) {
	for raw, want := range map[string]string{
		"coap://h":                             "coap://h/.well-known/core",
		"coap://h/":                            "coap://h/.well-known/core",
		"COAP://Gate.Example/Path":             "coap://gate.example/Path",
		"coap://h:/x":                          "coap://h/x",
		"coap://h:5683/x":                      "coap://h/x",
		"coap://h:05683/x":                     "coap://h/x",
		"coap://h:05684/x":                     "coap://h:5684/x",
		"coap://h:1/x":                         "coap://h:1/x",
		"coaps://h:5684/x":                     "coaps://h/x",
		"coaps://h:5683/x":                     "coaps://h:5683/x",
		"COAP+TCP://H:5683":                    "coap+tcp://h/.well-known/core",
		"coaps+tcp://[2001:DB8::1]:05684/x":    "coaps+tcp://[2001:db8::1]/x",
		"coap://h:65535/x":                     "coap://h:65535/x",
		"coap://192.0.2.1:5683":                "coap://192.0.2.1/.well-known/core",
		"coap://[2001:DB8::1]:5683/x":          "coap://[2001:db8::1]/x",
		"coap://[2001:DB8::1]:61616/x":         "coap://[2001:db8::1]:61616/x",
		"coap://[FE80::1%25Eth0]/x":            "coap://[fe80::1%25Eth0]/x",
		"coap://[FE80::1%25Eth0]:5684/x":       "coap://[fe80::1%25Eth0]:5684/x",
		"coap://h?rt=a%20b":                    "coap://h/.well-known/core?rt=a%20b",
		"coap://h/a//b/":                       "coap://h/a//b/",
		"coap://h/a%2Fb;c,d":                   "coap://h/a%2Fb;c,d",
		"coap://h/a b/é":                       "coap://h/a%20b/%C3%A9",
		"coap://%C3%84/x":                      "coap://%C3%84/x",
		"coap://h/" + strings.Repeat("x", 255): "coap://h/" + strings.Repeat("x", 255),
	} {
		u, err := ParseURI(raw)
		if err != nil {
			t.Error(err)
		} else if u.String() != want {
			t.Errorf("%q became %q, want %q", raw, u, want)
		}
	}
}

func TestParseURIRefuses(t *testing.T) {
	long := strings.Repeat("%41", 256)
	for raw, want := range map[string]string{
		"":                          "uri is missing",
		" \t":                       "uri is missing",
		"h":                         "scheme must be coap",
		"//h/x":                     "scheme must be coap",
		"http://h/":                 "scheme must be coap",
		"coap:h":                    "host is missing",
		"coap:///x":                 "host is missing",
		"coap://:5683/x":            "host is missing",
		"coap://u@h/":               "no user part",
		"coap://u:p@h/":             "no user part",
		"coap://@h/":                "no user part",
		"coap://h/#":                "no fragment",
		"coap://h/x#f":              "no fragment",
		"coap://h:0/":               "port must lie in 1 .. 65535",
		"coap://h:65536/":           "port must lie in 1 .. 65535",
		"coap://h:99999999999/":     "port must lie in 1 .. 65535",
		"coap://h:-1/":              "invalid port",
		"coap://h:http/":            "invalid port",
		"coap://2001:db8::1/":       "an IPv6 address needs brackets",
		"coap://00000::/":           "an IPv6 address needs brackets",
		"coap://[fe80::1%eth0]":     "invalid URL escape",
		"coap://[zz]/":              "invalid host",
		"coap://[fe80::1%25é]/":     "must be an interface's name or number",
		"coap://[fe80::1%25a%20b]/": "must be an interface's name or number",
		"coap://[::1/":              "missing ']'",
		"coap://%FF/":               "host must be UTF-8",
		"coap://" + long[:256]:      "",
		"coap://h/%zz":              "invalid URL escape",
		"coap://h/x?%zz":            "invalid URL escape",
		"coap://h/a/../b":           `a path segment must not be ".."`,
		"coap://h/%2E":              `a path segment must not be "."`,
		"coap://h/x\n":              "invalid control character",
		"coap://h/" + long:          "a path segment is longer than 255 bytes",
		"coap://h/x?a&" + long:      "a query parameter is longer than 255 bytes",
		"coap://" + strings.Repeat("h", 256) + "/": "host must be UTF-8 of at most 255 bytes",
	} {
		_, err := ParseURI(raw)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", raw, err, want)
		}
		if errors.Is(err, ErrTransport) {
			t.Errorf("%q: %v is no transport of CoAP", raw, err)
		}
	}
}

// RFC 7252 section 6.2, RFC 8323 section 8: known, but never tried in plain.
func TestParseURITransports(t *testing.T) {
	for _, scheme := range []string{"coap+ws", "coaps+ws", "CoAPS+WS"} {
		_, err := ParseURI(scheme + "://192.0.2.1/x")
		if !errors.Is(err, ErrTransport) || !strings.Contains(err.Error(), strings.ToLower(scheme)) {
			t.Errorf("%s: %v", scheme, err)
		}
		if _, err := New([]Sensor{{ID: "x", URI: scheme + "://h/"}}); !errors.Is(err, ErrTransport) {
			t.Errorf("New with %s: %v", scheme, err)
		}
	}
}

// checkNormal holds what every caller builds on: the normal form is its own
// normal form and means the same host, and the options of a request hold it.
func checkNormal(
	t interface{ Fatalf(string, ...any) }, raw string, parse func(string) (*url.URL, error),
) {
	u, err := parse(raw)
	if err != nil {
		return
	}
	normal := u.String()
	again, err := parse(normal)
	if err != nil {
		t.Fatalf("%q became %q, which is refused: %v", raw, normal, err)
	}
	if again.String() != normal || again.Host != u.Host {
		t.Fatalf("%q became %q, then %q", raw, normal, again)
	}
	listed, err := url.Parse(raw)
	if err != nil || !strings.EqualFold(listed.Hostname(), u.Hostname()) {
		t.Fatalf("%q became %q: another host", raw, normal)
	}
	port, known := defaultPorts[u.Scheme]
	if !known || !strings.HasPrefix(u.Path, "/") || u.Path == "/" || u.Port() == port {
		t.Fatalf("%q became %q", raw, normal)
	}
}

func TestParseURIIsIdempotent(t *testing.T) {
	piece := rapid.SampledFrom([]string{"coap", "COAP", "://", "//", "/", ":", "@", "#", "?",
		"&", "[", "]", "%", "%25", "%2F", "%FF", "%C3%84", "::1", "fe80::1", "5683", "05684", "h", "H.Example", "Eth0",
		"..", ".", "x=1", " ", "é", "Ⱥ", "K"})
	rapid.Check(t, func(t *rapid.T) {
		begin := rapid.SampledFrom([]string{"coap://", "coap://h", "coap://[fe80::1%25",
			"coap://[::1]:", ""})
		checkNormal(t, begin.Draw(t, "begin")+
			strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "rest"), ""), ParseURI)
	})
}

func FuzzParseURI(f *testing.F) {
	for _, seed := range []string{"coap://h", "COAP://[FE80::1%25Eth0]:05683/A/%2e?q=%41&r#",
		"coap://00000::", "coaps://u:p@h:1/x", "coaps+tcp://h:05684", "coaps://h:5683/x",
		"coap://%FF", "coap://h//?", "coap:h", "coap://ȺȺ:5684/;,="} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) { checkNormal(t, raw, ParseURI) })
}

// The property must fail for a normal form that is none.
func TestCheckNormalCatchesABrokenForm(t *testing.T) {
	var caught recorder
	checkNormal(&caught, "coap://h/x", func(raw string) (*url.URL, error) {
		u, err := ParseURI(raw)
		return u.JoinPath("x"), err
	})
	if len(caught) == 0 {
		t.Error("a path that grows with every call goes unseen")
	}
}

type recorder []string

func (r *recorder) Fatalf(format string, args ...any) {
	*r = append(*r, fmt.Sprintf(format, args...))
}
