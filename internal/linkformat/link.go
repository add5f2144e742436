package linkformat

import (
	"encoding/json"
	"strings"
)

// Limits on what Parse accepts. Real bodies stay far below: the largest of the
// test corpus has 28 links.
const (
	MaxLinks = 1000 // links per document
	MaxAttrs = 32   // attributes per link
	MaxValue = 1024 // bytes of an attribute value, after unescaping
)

// Attr is one link-param. A flag such as obs has no value, which is not the
// same as the empty value of A="".
type Attr struct {
	Name     string // as sent; "title*" keeps its star
	Value    string // quoted-pairs resolved, an ext-value (RFC 5987) kept raw
	HasValue bool
	Quoted   bool // the value stood in a quoted-string
	Offset   int  // byte of the name in the body
}

// MarshalJSON prints the pair [name, value], value being null for a flag.
func (a Attr) MarshalJSON() ([]byte, error) {
	if !a.HasValue {
		return json.Marshal([2]any{a.Name, nil})
	}
	return json.Marshal([2]any{a.Name, a.Value})
}

// Link is one link-value. Target is as sent: neither resolved against the
// sensor's address nor percent-decoded. Attrs keeps order and repeats.
type Link struct {
	Target string
	Attrs  []Attr
	Offset int // byte of the "<" in the body
}

// MarshalJSON prints {"target": ..., "attrs": [[name, value], ...]}; attrs is
// never null.
func (l Link) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Target string `json:"target"`
		Attrs  []Attr `json:"attrs"`
	}{l.Target, orEmpty(l.Attrs)})
}

// Get returns the value of the first attribute of that name and whether there
// is one; a flag has the value "". Names compare without regard to case (RFC
// 8288 appendix B.3) and later occurrences do not count.
func (l Link) Get(name string) (string, bool) {
	for _, a := range l.Attrs {
		if strings.EqualFold(a.Name, name) {
			return a.Value, true
		}
	}
	return "", false
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}
