package search

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits on what Parse takes: a question that a person writes is far below them.
const (
	MaxQuery = 4096 // bytes
	MaxTerms = 32
)

// Prefixes of names.
const (
	labelPrefix = "label."
	linkPrefix  = "link."
)

// states are those that the daemon tells.
var states = strings.Fields("fresh due overdue asleep unreachable learning unknown")

// States lists what a state term may ask for.
func States() []string { return slices.Clone(states) }

// Error is what is wrong with an expression, and where.
type Error struct {
	Offset  int // byte in the expression, in [0, its length]
	Message string
}

// Error names the byte.
func (e *Error) Error() string { return fmt.Sprintf("byte %d: %s", e.Offset, e.Message) }

// parser reads an expression from left to right; pos never goes back.
type parser struct {
	text string
	pos  int
	q    Query
	seen map[string]bool // terms of which there may be one
}

// Parse reads an expression. Its errors are of type *Error.
func Parse(text string) (Query, error) {
	if len(text) > MaxQuery {
		return Query{}, &Error{MaxQuery, fmt.Sprintf("an expression has at most %d bytes", MaxQuery)}
	}
	for i, r := range text {
		if _, n := utf8.DecodeRuneInString(text[i:]); r == utf8.RuneError && n == 1 {
			return Query{}, &Error{i, "not UTF-8"}
		}
	}
	p := parser{text: text, seen: map[string]bool{}}
	for terms := 0; ; terms++ {
		p.pos += len(text[p.pos:]) - len(strings.TrimLeftFunc(text[p.pos:], unicode.IsSpace))
		if p.pos == len(text) {
			p.q.settle()
			return p.q, nil
		}
		if terms == MaxTerms {
			return Query{}, p.fault(p.pos, "an expression has at most %d terms", MaxTerms)
		}
		if err := p.term(); err != nil {
			return Query{}, err
		}
	}
}

func (p *parser) fault(at int, format string, args ...any) error {
	return &Error{at, fmt.Sprintf(format, args...)}
}

// run takes the characters up to white space, the end, or one of those given.
func (p *parser) run(until string) string {
	rest := p.text[p.pos:]
	end := strings.IndexFunc(rest, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(until, r)
	})
	if end < 0 {
		end = len(rest)
	}
	p.pos += end
	return rest[:end]
}

// operators, the longer ones first. The "!" of "!=" is at the end of a run.
var operators = []string{"!=", ">=", "<=", "=", "<", ">"}

// term reads one term, from its first character on.
func (p *parser) term() error {
	start := p.pos
	if p.text[p.pos] == '"' {
		text, err := p.quoted()
		if err != nil {
			return err
		}
		return p.words(start, text)
	}
	head := p.run(`"=<>`)
	if strings.HasPrefix(p.text[p.pos:], "=") && strings.HasSuffix(head, "!") {
		head = head[:len(head)-1]
		p.pos--
	}
	for _, op := range operators {
		if strings.HasPrefix(p.text[p.pos:], op) {
			return p.named(start, head, op)
		}
	}
	if p.pos < len(p.text) && p.text[p.pos] == '"' {
		return p.fault(p.pos, "expected white space before a quote, or = for a value")
	}
	return p.words(start, head)
}

// quoted reads a quoted text; the opening quote is ahead.
func (p *parser) quoted() (string, error) {
	start := p.pos
	var b strings.Builder
	for p.pos++; p.pos < len(p.text); p.pos++ {
		c := p.text[p.pos]
		switch {
		case c == '"':
			p.pos++
			next, _ := utf8.DecodeRuneInString(p.text[p.pos:])
			if p.pos < len(p.text) && !unicode.IsSpace(next) {
				return "", p.fault(p.pos, "expected white space after the closing quote")
			}
			return b.String(), nil
		case c == '\\' && p.pos+1 < len(p.text):
			p.pos++
			c = p.text[p.pos]
		}
		b.WriteByte(c)
	}
	return "", p.fault(start, "expected a closing quote")
}

// value reads what stands behind an operator.
func (p *parser) value() (string, error) {
	if strings.HasPrefix(p.text[p.pos:], `"`) {
		return p.quoted()
	}
	start := p.pos
	value := p.run(`"`)
	switch {
	case value == "":
		return "", p.fault(start, `expected a value; the empty one is written ""`)
	case strings.HasPrefix(p.text[p.pos:], `"`):
		return "", p.fault(p.pos, `expected white space; a value with " is written "...\"..."`)
	}
	return value, nil
}

// named reads a term with an operator, which is ahead.
func (p *parser) named(start int, name, op string) error {
	at := p.pos
	p.pos += len(op)
	name = keyword(name)
	switch {
	case name == "age":
		return p.age(at, op)
	case op != "=" && op != "!=":
		return p.fault(at, "expected = or !=; only age is compared with < and >=")
	}
	key, isLabel := strings.CutPrefix(name, labelPrefix)
	if name != "sensor" && name != "state" && !isLabel {
		return p.attribute(start, name, op == "!=")
	}
	if op != "=" {
		return p.fault(at, "expected =; != is for attributes of links")
	}
	if p.seen[name] {
		return p.fault(start, "%s is given twice", name)
	}
	p.seen[name] = true
	valueAt := p.pos
	value, err := p.value()
	switch {
	case err != nil:
		return err
	case isLabel && key == "":
		return p.fault(start+len(labelPrefix), "expected the name of a label")
	case isLabel:
		if p.q.Labels == nil {
			p.q.Labels = map[string]string{}
		}
		p.q.Labels[key] = value
	case name == "state":
		return p.states(valueAt, value)
	case value == "":
		return p.fault(valueAt, "expected the id of a sensor, or how it begins and *")
	default:
		p.q.Sensor = value
	}
	return nil
}

// keyword puts what is no name of an attribute, or stands before one, into lower case.
func keyword(name string) string {
	head, rest := strings.ToLower(name), ""
	if dot := strings.IndexByte(name, '.'); dot >= 0 {
		head, rest = strings.ToLower(name[:dot+1]), name[dot+1:]
	}
	if head+rest != name && reserved(head) {
		return head + rest
	}
	return name
}

func (p *parser) states(at int, value string) error {
	for state := range strings.SplitSeq(value, ",") {
		if !slices.Contains(states, state) {
			return p.fault(at, "expected states with commas between them, of %s",
				strings.Join(states, ", "))
		}
		p.q.States = append(p.q.States, state)
	}
	return nil
}

func (p *parser) age(at int, op string) error {
	if op != "<" && op != ">=" {
		return p.fault(at, "expected age< or age>=")
	}
	if p.seen["age"+op] {
		return p.fault(at, "age%s is given twice", op)
	}
	p.seen["age"+op] = true
	start := p.pos
	d, ok := parseDuration(p.run(""))
	if !ok || op == "<" && d == 0 {
		return p.fault(start, "expected a duration such as 90s, 10m, 1h30m or 2d")
	}
	if op == "<" {
		p.q.MaxAge = d
	} else {
		p.q.MinAge = d
	}
	return nil
}

// parseDuration reads Go's syntax, without a sign, and days before it.
func parseDuration(text string) (time.Duration, bool) {
	const most = math.MaxInt64 / 4 // the sum of two parts stays one
	var days time.Duration
	if head, tail, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseUint(head, 10, 32)
		if err != nil || n > uint64(most/day) {
			return 0, false
		}
		if days = time.Duration(n) * day; tail == "" {
			return days, true
		}
		text = tail
	}
	d, err := time.ParseDuration(text)
	return days + d, err == nil && d >= 0 && d <= most && text[0] != '+' && text[0] != '-'
}

func (p *parser) attribute(start int, name string, not bool) error {
	if rest, cut := strings.CutPrefix(name, linkPrefix); cut {
		start, name = start+len(linkPrefix), rest
	}
	if bad := strings.IndexFunc(strings.TrimSuffix(name, "*"), func(r rune) bool {
		return r >= utf8.RuneSelf || !attrChar(byte(r))
	}); bad >= 0 {
		return p.fault(start+bad, "expected the name of an attribute before the operator")
	}
	if strings.TrimSuffix(name, "*") == "" {
		return p.fault(start, "expected the name of an attribute before the operator")
	}
	value, err := p.value()
	if err != nil {
		return err
	}
	p.q.Attrs = append(p.q.Attrs, Attr{Name: foldText(name), Value: value, Not: not})
	return nil
}

// attrChar is attr-char of RFC 5987, what parmname of RFC 6690 is made of.
func attrChar(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' ||
		strings.IndexByte("!#$&+-.^_`|~", c) >= 0
}

// reserved tells the names that mean something else without linkPrefix.
func reserved(name string) bool {
	return name == "age" || name == "state" || name == "sensor" ||
		strings.HasPrefix(name, labelPrefix) || strings.HasPrefix(name, linkPrefix)
}

// words takes the words of a text, which began at start.
func (p *parser) words(start int, text string) error {
	words := foldedWords(text)
	if len(words) == 0 {
		return p.fault(start, "expected words, or name=value")
	}
	phrase := strings.Join(words, " ")
	if strings.HasSuffix(text, "*") {
		phrase += "*"
	}
	p.q.Words = append(p.q.Words, phrase)
	return nil
}
