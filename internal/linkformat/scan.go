package linkformat

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// scanner walks a body. It serves both grammars with the parts they share:
// target, name and quoted-string. pos only ever grows, which is what makes the
// parse linear; look-ahead is bounded by the token or gap that is then passed.
type scanner struct {
	body []byte
	pos  int
}

func syntaxError(offset int, format string, args ...any) *SyntaxError {
	return &SyntaxError{Offset: offset, Message: fmt.Sprintf(format, args...)}
}

func (s *scanner) atEnd() bool { return s.pos >= len(s.body) }

// peek returns the next byte, or NUL at the end: no production of the grammar
// contains NUL outside a quoted-pair, so no caller can mistake it.
func (s *scanner) peek() byte {
	if s.atEnd() {
		return 0
	}
	return s.body[s.pos]
}

// unexpected is the error for a byte that neither continues a link nor
// separates it from the next.
func (s *scanner) unexpected() *SyntaxError {
	return syntaxError(s.pos, "unexpected byte 0x%02x after link-value", s.peek())
}

// target reads "<" URI-Reference ">", the beginning of the link that has
// `before` links in front of it. With iri set, raw UTF-8 is let through. What
// is wrong inside is reported at the first byte of the reference: a URI is one
// token to the reader of a message, and which of its bytes is to blame often
// depends on how one wants to read it.
func (s *scanner) target(before int, iri bool) (Link, *SyntaxError) {
	open := s.pos
	if s.peek() != '<' {
		return Link{}, syntaxError(open, "expected '<'")
	}
	if before == MaxLinks {
		return Link{}, syntaxError(open, "more than %d links", MaxLinks)
	}
	n := bytes.IndexByte(s.body[open:], '>')
	if n < 0 {
		return Link{}, syntaxError(open, "unterminated '<'")
	}
	ref := string(s.body[open+1 : open+n])
	if problem := checkReference(ref, iri); problem != "" {
		return Link{}, syntaxError(open+1, "%s", problem)
	}
	s.pos = open + n + 1
	return Link{Target: ref, Offset: open}, nil
}

// name reads a parmname, or an ext-name-star with its star.
func (s *scanner) name(before int) (Attr, *SyntaxError) {
	start := s.pos
	for isAttrChar(s.peek()) {
		s.pos++
	}
	if s.pos == start {
		return Attr{}, syntaxError(start, "expected parmname")
	}
	if before == MaxAttrs {
		return Attr{}, syntaxError(start, "more than %d attributes in a link", MaxAttrs)
	}
	if s.peek() == '*' {
		s.pos++
	}
	return Attr{Name: string(s.body[start:s.pos]), Offset: start}, nil
}

// quoted reads a quoted-string. That it is never closed is reported before
// anything inside it, for then all that follows was taken for its content.
func (s *scanner) quoted(a *Attr) *SyntaxError {
	open := s.pos
	end := closingQuote(s.body, open+1)
	if end < 0 {
		return syntaxError(open, "unterminated quoted-string")
	}
	value := make([]byte, 0, end-open-1)
	for i := open + 1; i < end; {
		n, problem := quotedUnit(s.body[i:end])
		if problem != "" {
			return syntaxError(i, "%s in quoted-string", problem)
		}
		unit := s.body[i : i+n]
		if unit[0] == '\\' {
			unit = unit[1:]
		}
		value = append(value, unit...)
		i += n
	}
	s.pos = end + 1
	a.Value, a.HasValue, a.Quoted = string(value), true, true
	return checkValue(a.Value, open)
}

// closingQuote returns the place of the first quote from `from` on that no
// backslash escapes, or -1.
func closingQuote(body []byte, from int) int {
	for i := from; i < len(body); i++ {
		switch body[i] {
		case '"':
			return i
		case '\\':
			i++
		}
	}
	return -1
}

// quotedUnit measures the quoted-pair, folded line break, or character at the
// front of b, or names what is wrong with it (RFC 2616 section 2.2).
func quotedUnit(b []byte) (int, string) {
	switch c := b[0]; {
	case c == '\\':
		if b[1] >= utf8.RuneSelf {
			return 0, "non-ASCII character after a backslash"
		}
		return 2, ""
	case c == '\r' && len(b) > 2 && b[1] == '\n' && (b[2] == ' ' || b[2] == '\t'):
		return 3, ""
	case c != '\t' && isControl(c):
		return 0, fmt.Sprintf("control character 0x%02x", c)
	case c < utf8.RuneSelf:
		return 1, ""
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError && n == 1 {
		return 0, "invalid UTF-8"
	}
	return n, ""
}

// checkValue holds a value that begins at offset against MaxValue. The limit
// counts what will be stored, hence after unescaping.
func checkValue(value string, offset int) *SyntaxError {
	if len(value) > MaxValue {
		return syntaxError(offset, "attribute value longer than %d bytes", MaxValue)
	}
	return nil
}
