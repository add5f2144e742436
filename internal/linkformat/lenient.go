package linkformat

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// lenient reads the forgiving grammar:
//
//	document = gap *( link separator )
//	link     = target *( ( ";" / A ) param )
//
// with a gap (blanks, NUL, BOM) allowed beside every separator. It differs from
// the strict one in what may stand between tokens; of the tokens themselves only
// targets (rule U) and unquoted values (rule Q) are wider.
type lenient struct {
	scanner
	notes  []Note
	marked int // notes[marked:] belong to the current gap
}

// note reports a rule once per gap, or a line of a million commas would
// become a million notes.
func (s *lenient) note(rule string, offset int) {
	for _, n := range s.notes[s.marked:] {
		if n.Rule == rule {
			return
		}
	}
	s.notes = append(s.notes, Note{rule, offset})
}

// endGap lets the next gap report its rules anew.
func (s *lenient) endGap() { s.marked = len(s.notes) }

// parseLenient returns the links and the rules that were needed, or where even
// recovery is stuck.
func parseLenient(body []byte) ([]Link, []Note, *SyntaxError) {
	s := lenient{scanner: scanner{body: body}}
	var links []Link
	s.members()
	for !s.atEnd() {
		l, err := s.link(len(links))
		if err != nil {
			return nil, nil, err
		}
		links = append(links, l)
	}
	if l := markup(links); l != nil {
		return nil, nil, syntaxError(l.Offset, "HTML or XML, not link format")
	}
	return links, s.notes, nil
}

// members passes what may stand before a link: blanks and empty members.
func (s *lenient) members() {
	s.take(s.gap())
	for s.peek() == ',' || s.peek() == ';' {
		s.note("E", s.pos)
		s.pos++
		s.take(s.gap())
	}
}

// link reads one link and the separator behind it, so that afterwards either
// the body is at its end or another link has to begin.
func (s *lenient) link(before int) (Link, *SyntaxError) {
	l, err := s.target(before, true)
	if err != nil {
		return l, err
	}
	s.endGap()
	if !isASCII(l.Target) {
		s.note("U", l.Offset+1)
	}
	more := s.firstParam()
	for {
		if !more {
			if more, err = s.separator(); err != nil || !more {
				return l, err
			}
		}
		a, err := s.param(len(l.Attrs))
		if err != nil {
			return l, err
		}
		l.Attrs = append(l.Attrs, a)
		more = false
	}
}

// firstParam applies rule A: right after ">", or with blanks in between but
// not on another line, a name begins a parameter. Only there: behind a value a
// missing ";" could as well be a value that lost its quotes.
func (s *lenient) firstParam() bool {
	g := s.gap()
	if g.newline >= 0 || g.junk >= 0 || !isAttrChar(s.at(g)) {
		return false
	}
	s.take(g)
	s.note("A", s.pos)
	return true
}

// separator passes what stands behind a target or a parameter and reports
// whether another parameter of the same link follows.
func (s *lenient) separator() (more bool, err *SyntaxError) {
	s.endGap()
	for {
		g := s.gap()
		if g.newline >= 0 && s.at(g) == '<' {
			s.takeLine(g)
			return false, nil
		}
		s.take(g)
		switch {
		case s.atEnd():
			return false, nil
		case s.peek() == ',':
			s.comma()
			return false, nil
		case s.peek() != ';':
			return false, s.unexpected()
		}
		switch next := s.semicolon(); {
		case isAttrChar(next):
			return true, nil
		case next == '<':
			return false, nil
		case !s.atEnd() && next != ',' && next != ';':
			return false, syntaxError(s.pos, "expected parmname")
		}
	}
}

// comma passes a "," and empty members behind it; as the last one it is empty
// itself.
func (s *lenient) comma() {
	at := s.pos
	s.pos++
	if s.gap().end == len(s.body) {
		s.note("E", at)
	}
	s.members()
}

// semicolon passes a ";", tells whether it stands in for a "," (rule S) or is
// one too many (rule E), and returns the byte behind it and its gap.
func (s *lenient) semicolon() byte {
	at := s.pos
	s.pos++
	g := s.gap()
	next := s.at(g)
	switch {
	case next == '<':
		s.note("S", at)
	case g.end == len(s.body) || next == ',' || next == ';':
		s.note("E", at)
	}
	s.take(g)
	return next
}

// param reads a parameter from its name on. Blanks behind a name belong to it
// only if "=" follows; behind a flag they are the next separator's.
func (s *lenient) param(before int) (Attr, *SyntaxError) {
	a, err := s.name(before)
	if err != nil {
		return a, err
	}
	s.endGap()
	if g := s.gap(); s.at(g) == '=' {
		s.take(g)
		s.pos++
		s.take(s.gap())
		if s.peek() == '"' && !isStarred(a.Name) {
			return a, s.quoted(&a)
		}
		return a, s.loose(&a)
	}
	if isStarred(a.Name) {
		return a, syntaxError(s.pos, "expected '=' after '*'")
	}
	return a, nil
}

// loose reads an unquoted value to the next separator, whatever characters it
// is made of (rule Q); blanks behind it belong to the gap.
func (s *lenient) loose(a *Attr) *SyntaxError {
	start := s.pos
	end := looseEnd(s.body, start)
	raw := s.body[start:end]
	switch {
	case end == start || isStarred(a.Name) && raw[0] == '"':
		return syntaxError(start, "empty or illegal unquoted value")
	case !utf8.Valid(raw):
		return syntaxError(start, "invalid UTF-8 in value")
	}
	s.pos = end
	a.Value, a.HasValue = string(raw), true
	if !all(a.Value, isPToken) || isStarred(a.Name) && !isExtValue(a.Value) {
		s.note("Q", start)
	}
	return checkValue(a.Value, start)
}

// looseEnd finds the end of an unquoted value: before a separator, a line's
// end, a control character, a BOM, or blanks that precede one of these or the
// "<" of a link whose separator is missing.
func looseEnd(body []byte, from int) int {
	end := from
	for i := from; i < len(body); i++ {
		switch c := body[i]; {
		case c == ' ' || c == '\t':
			continue
		case c == ',' || c == ';' || isControl(c) || hasBOM(body[i:]) || c == '<' && end < i:
			return end
		}
		end = i + 1
	}
	return end
}

// gap is a run of blanks, NULs and byte order marks, and where in it the first
// blank, newline, and NUL or BOM stand, or -1.
type gap struct{ end, blank, newline, junk int }

const bom = "\ufeff"

func hasBOM(b []byte) bool { return bytes.HasPrefix(b, []byte(bom)) }

// at returns the byte behind a gap, or NUL at the end of the body.
func (s *lenient) at(g gap) byte {
	if g.end == len(s.body) {
		return 0
	}
	return s.body[g.end]
}

// gap measures the gap ahead without passing it: what it stands for depends on
// the byte behind it.
func (s *lenient) gap() gap {
	g := gap{s.pos, -1, -1, -1}
	first := func(at *int) {
		if *at < 0 {
			*at = g.end
		}
	}
	for ; g.end < len(s.body); g.end++ {
		switch c := s.body[g.end]; {
		case c == '\n' || c == '\r':
			first(&g.newline)
			first(&g.blank)
		case c == ' ' || c == '\t':
			first(&g.blank)
		case c == 0:
			first(&g.junk)
		case hasBOM(s.body[g.end:]):
			first(&g.junk)
			g.end += len(bom) - 1
		default:
			return g
		}
	}
	return g
}

// take passes a gap under rule W; takeLine passes one whose newline stands in
// for a "," (rule S).
func (s *lenient) take(g gap)     { s.pass(g, Note{"W", g.blank}) }
func (s *lenient) takeLine(g gap) { s.pass(g, Note{"S", g.newline}) }

// pass reports in the order of the body.
func (s *lenient) pass(g gap, blank Note) {
	s.pos = g.end
	first, second := blank, Note{"B", g.junk}
	if second.Offset < first.Offset {
		first, second = second, first
	}
	for _, n := range [...]Note{first, second} {
		if n.Offset >= 0 {
			s.note(n.Rule, n.Offset)
		}
	}
}

// markup finds the link that betrays HTML or XML: an html element, or an
// element's closing tag. <body> and </body> are good targets for a parser,
// and on lines of their own rule S would make links of them.
func markup(links []Link) *Link {
	open := map[string]bool{}
	for i, l := range links {
		name := strings.ToLower(l.Target)
		if closed, ok := strings.CutPrefix(name, "/"); ok && open[closed] || name == "html" {
			return &links[i]
		}
		if all(name, isAlnum) {
			open[name] = true
		}
	}
	return nil
}
