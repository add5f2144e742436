// Package search is the language in which one looks for what sensors say about
// themselves, and what its words mean: which of a sensor's links an expression finds, and
// under which terms a link is indexed so that it is found without a scan.
//
//	rt=temperature* age<10m state=fresh site=lab "greenhouse 4"
//
// It is pure: text and links in, answers out.
package search

import (
	"time"

	"github.com/crawld/crawld/internal/linkformat"
)

// Query is a parsed expression: all of its terms must hold.
type Query struct {
	Attrs  []Attr            // of a link: rt, if, ct, href, sz, obs, title, anchor ... or any other
	Words  []string          // of a title, folded to lower case; a trailing * = prefix
	Labels map[string]string // of the sensor: label.NAME=VALUE
	States []string          // of the sensor, any of them
	Sensor string            // id of the sensor, a trailing * = prefix; "" = any
	MaxAge time.Duration     // age < MaxAge; 0 = any
	MinAge time.Duration     // age >= MinAge
}

// Attr asks for a link attribute: Value as in RFC 6690 section 4.1 (linkformat.Match), and a
// trailing * for a prefix. Not turns it round.
type Attr struct {
	Name  string
	Value string
	Not   bool
}

// Term is a key of the index. Terms of one link are distinct.
type Term struct{ Name, Value string }

// Parse reads an expression. Its errors name the byte offset.
func Parse(text string) (Query, error) { panic("contract") }

// String is the expression in its canonical form; Parse of it gives the same Query.
func (q Query) String() string { panic("contract") }

// Matches tells whether the attributes and words of the query hold for a link.
func (q Query) Matches(l linkformat.Link) bool { panic("contract") }

// Terms are the index keys of a link.
func Terms(l linkformat.Link) []Term { panic("contract") }
