package search

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Query is a parsed expression: all of its terms must hold. The zero value finds
// everything.
type Query struct {
	Attrs  []Attr            // of a link: rt, if, ct, href, sz, obs, title, anchor ... or any other
	Words  []string          // folded words or phrases of a title; a trailing * = prefix
	Labels map[string]string // of the sensor; a trailing * = prefix; nil = any
	States []string          // of the sensor, any of them; none = any
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

func (a Attr) compare(b Attr) int {
	order := func(not bool) int {
		if not {
			return 1
		}
		return 0
	}
	return cmp.Or(strings.Compare(a.Name, b.Name), order(a.Not)-order(b.Not),
		strings.Compare(a.Value, b.Value))
}

// settle makes one Query of all expressions that say the same in another order or twice.
func (q *Query) settle() {
	slices.SortFunc(q.Attrs, Attr.compare)
	q.Attrs = slices.Compact(q.Attrs)
	slices.Sort(q.Words)
	q.Words = slices.Compact(q.Words)
	slices.Sort(q.States)
	q.States = slices.Compact(q.States)
}

// String is the expression in its canonical form; Parse of it gives the same Query.
func (q Query) String() string {
	var terms []string
	add := func(parts ...string) { terms = append(terms, strings.Join(parts, "")) }
	if q.Sensor != "" {
		add("sensor=", quoted(q.Sensor))
	}
	for _, key := range slices.Sorted(maps.Keys(q.Labels)) {
		add(labelPrefix, key, "=", quoted(q.Labels[key]))
	}
	if len(q.States) > 0 {
		add("state=", strings.Join(q.States, ","))
	}
	if q.MaxAge > 0 {
		add("age<", duration(q.MaxAge))
	}
	if q.MinAge > 0 {
		add("age>=", duration(q.MinAge))
	}
	for _, a := range q.Attrs {
		name, op := a.Name, "="
		if reserved(name) {
			name = linkPrefix + name
		}
		if a.Not {
			op = "!="
		}
		add(name, op, quoted(a.Value))
	}
	for _, w := range q.Words {
		add(quoted(w))
	}
	return strings.Join(terms, " ")
}

// quoted is a value as it has to be written.
func quoted(value string) string {
	bare := func(r rune) bool { return r == '"' || unicode.IsSpace(r) }
	if value != "" && strings.IndexFunc(value, bare) < 0 {
		return value
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(value) + `"`
}

const day = 24 * time.Hour

// duration is what parseDuration reads, in its shortest form.
func duration(d time.Duration) string {
	text := ""
	if days := d / day; days > 0 {
		text = strconv.FormatInt(int64(days), 10) + "d"
		if d %= day; d == 0 {
			return text
		}
	}
	rest := d.String()
	if strings.HasSuffix(rest, "m0s") {
		rest = strings.TrimSuffix(rest, "0s")
	}
	if strings.HasSuffix(rest, "h0m") {
		rest = strings.TrimSuffix(rest, "0m")
	}
	return text + rest
}
