package testbed

import (
	"strings"

	"github.com/crawld/crawld/internal/linkformat"
)

// Places that only a client would visit that takes data for orders. The first is in a
// range for documentation (RFC 5737), the second where clouds keep credentials.
const (
	elsewhere   = "coap://192.0.2.66/.well-known/core"
	credentials = "http://169.254.169.254/latest/meta-data/"
)

// bombSize is the length of the bombs: a little less than a datagram and than the
// longest body that a client takes by default.
const bombSize = 60_000

// bodyModes transfer well what is meant ill.
var bodyModes = []Mode{
	{Name: "jumbo", Does: "sends 65 000 bytes in one datagram",
		Spec: Spec{Body: fixed(jumbo())}},
	{Name: "link-bomb", Does: "sends 15 000 links", Spec: Spec{Body: bomb("", "</>,", "</>")}},
	{Name: "attribute-bomb", Does: "sends one link with 20 000 attributes",
		Spec: Spec{Body: bomb("</>", ";a", "")}},
	{Name: "quote-bomb", Does: "sends 60 000 bytes of escaped quotes, and never closes them",
		Spec: Spec{Body: bomb(`</>;title="`, `\"`, "")}},
	{Name: "utf8", Does: "sends invalid UTF-8", Spec: Spec{
		Body: fixed("</a>;title=\"\xff\xfe\xc0\x80\"")}},
	{Name: "nul", Does: "sends NULs and control characters", Spec: Spec{
		Body: fixed("</a\x00b>;rt=\"\x1b[31m\x07\",\x00\x00</c>")}},
	{Name: "html", Does: "sends a web page with a script under the name of link format",
		Spec: Spec{Body: fixed("<html><script src=" + credentials + "></script></html>")}},
	{Name: "ssrf", Does: "sends anchors and targets that point into other networks",
		Spec: Spec{Body: fixed(pointers())}},
}

func fixed(body string) func(int) []byte { return func(int) []byte { return []byte(body) } }

// bomb repeats a part up to bombSize.
func bomb(head, part, tail string) func(int) []byte {
	return fixed(head + strings.Repeat(part, bombSize/len(part)) + tail)
}

func jumbo() string { return "</j>;title=\"" + strings.Repeat("j", 65_000-13) + `"` }

// pointers is a valid document. The last target is one that a real border router lists.
func pointers() string {
	anchor := linkformat.Attr{Name: "anchor", Value: credentials, HasValue: true, Quoted: true}
	return string(linkformat.Format([]linkformat.Link{
		{Target: elsewhere},
		{Target: credentials},
		{Target: "coap://127.0.0.1:1/x", Attrs: []linkformat.Attr{anchor}},
		{Target: "//[::1]/"},
		{Target: "file:///etc/passwd"},
		{Target: "//15001/65536"},
	}))
}
