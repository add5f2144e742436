package config

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// decoder walks one file and collects what is wrong in it.
type decoder struct {
	problems
	// seen has the value of every key met, for checks between keys; nil where
	// nobody asks, as in long lists.
	seen map[string]*yaml.Node
}

// value is one node of the tree and the dotted path that led there.
type value struct {
	d    *decoder
	node *yaml.Node
	key  string
}

// fields says, for each key of a mapping, who reads its value.
type fields map[string]func(value)

func (v value) fail(format string, args ...any) {
	v.d.add(v.node.Line, v.node.Column, v.key, format, args...)
}

// failAt blames another place than the value's own, such as its key.
func (v value) failAt(n *yaml.Node, key, format string, args ...any) {
	v.d.add(n.Line, n.Column, key, format, args...)
}

func (v value) wrongType(want string) {
	v.fail("found %s, expected %s", describe(v.node), want)
}

// child is the value of a key below v.
func (v value) child(name string, n *yaml.Node) value {
	if v.key != "" {
		name = v.key + "." + name
	}
	return value{v.d, n, name}
}

// plain reports, with an error if not, that the node means what it says: no
// alias (a few lines of them can stand for gigabytes) and no tag of its own.
func (v value) plain() bool {
	switch tag := v.node.ShortTag(); {
	case v.node.Kind == yaml.AliasNode:
		v.fail("aliases such as *%s are not supported; write the value out", clip(v.node.Value))
	case v.node.Style&yaml.TaggedStyle != 0:
		v.fail("tags such as %s are not supported; write the bare value", clip(tag))
	default:
		return true
	}
	return false
}

// mapping reads a mapping by its table. A section without any key is empty:
// people comment all of them out.
func (v value) mapping(f fields) {
	if !v.plain() || v.node.ShortTag() == "!!null" {
		return
	}
	if v.node.Kind != yaml.MappingNode {
		v.wrongType("a mapping with keys among: " + known(f))
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key, val := v.node.Content[i], v.node.Content[i+1]
		if name, ok := v.name(key); ok {
			v.field(f, lines, name, key, val)
		}
	}
}

// name is the text of a key, or false with an error.
func (v value) name(key *yaml.Node) (string, bool) {
	switch {
	case key.Kind != yaml.ScalarNode:
		v.failAt(key, v.key, "found %s as a key, expected a word", describe(key))
	case key.ShortTag() == "!!merge":
		v.failAt(key, v.key, "merge keys (<<) are not supported; write the keys out")
	case key.Style&yaml.TaggedStyle != 0:
		v.failAt(key, v.key, "tags on keys are not supported; write the bare key")
	default:
		return key.Value, true
	}
	return "", false
}

func (v value) field(f fields, lines map[string]int, name string, key, val *yaml.Node) {
	c := v.child(name, val)
	if set, ok := f[name]; !ok {
		shown := v.child(clip(name), val).key
		v.failAt(key, shown, "unknown key; known here: %s", known(f))
	} else if first, twice := lines[name]; twice {
		v.failAt(key, c.key, "is set already in line %d; keep one of the two", first)
	} else {
		lines[name] = key.Line
		if v.d.seen != nil {
			v.d.seen[c.key] = val
		}
		set(c)
	}
}

// list hands each element to each; false where v is not a list.
func (v value) list(of string, each func(int, value)) bool {
	if !v.plain() {
		return false
	}
	if v.node.Kind != yaml.SequenceNode {
		v.wrongType("a list of " + of)
		return false
	}
	for i, n := range v.node.Content {
		each(i, value{v.d, n, v.key + "[" + strconv.Itoa(i) + "]"})
	}
	return true
}

// scalar is the text of a single value with one of the YAML types, or false
// with an error that says what was wanted.
func (v value) scalar(want string, tags ...string) (string, bool) {
	if !v.plain() {
		return "", false
	}
	if v.node.Kind != yaml.ScalarNode || !slices.Contains(tags, v.node.ShortTag()) {
		v.wrongType(want)
		return "", false
	}
	return v.node.Value, true
}

// require reports a relation between keys that does not hold. It blames the
// first of them that the file has, and is silent where one of them is wrong in
// itself.
func (d *decoder) require(holds bool, keys []string, format string, args ...any) {
	wrong := func(e Error) bool { return slices.Contains(keys, e.Key) }
	if holds || slices.ContainsFunc(d.list, wrong) {
		return
	}
	for _, k := range keys {
		if n := d.seen[k]; n != nil {
			d.add(n.Line, n.Column, k, format, args...)
			return
		}
	}
}

// describe says what a node is, in words for its writer.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.SequenceNode:
		return "a list"
	case yaml.MappingNode:
		return "a mapping"
	case yaml.AliasNode:
		return "an alias"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return "the number " + clip(n.Value)
	case "!!bool":
		return clip(n.Value)
	case "!!timestamp":
		return "the date " + clip(n.Value)
	}
	return fmt.Sprintf("the text %q", clip(n.Value))
}

// clip keeps what is quoted from a file short and printable.
func clip(s string) string {
	const most = 60
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "..."
	}
	if strings.ContainsFunc(s, unicode.IsControl) {
		q := strconv.Quote(s)
		return q[1 : len(q)-1]
	}
	return s
}

func known(f fields) string {
	return strings.Join(slices.Sorted(maps.Keys(f)), ", ")
}
