package linkformat

// Parse reads a link-format body: strictly, and if that fails, leniently. It
// keeps no reference to body and never changes it.
func Parse(body []byte) Result {
	links, err := parseStrict(body)
	if err == nil {
		return Result{Verdict: Valid, Links: links, Warnings: typedWarnings(links)}
	}
	links, notes, stuck := parseLenient(body)
	if stuck == nil {
		return Result{Verdict: Recovered, Links: links, Recovered: notes, Err: err}
	}
	return Result{Verdict: Invalid, Err: err.andThen(stuck)}
}

// andThen adds where recovery gave up, unless that is where the strict parse
// stopped anyway: the first deviation is often harmless and the second fatal.
func (e *SyntaxError) andThen(stuck *SyntaxError) *SyntaxError {
	if stuck.Offset == e.Offset {
		return e
	}
	return syntaxError(e.Offset, "%s; recovery gave up at byte %d: %s",
		e.Message, stuck.Offset, stuck.Message)
}

// parseStrict is link-value-list = [ link-value *[ "," link-value ]].
func parseStrict(body []byte) ([]Link, *SyntaxError) {
	if len(body) == 0 {
		return nil, nil
	}
	s := scanner{body: body}
	var links []Link
	for {
		l, err := s.strictLink(len(links))
		if err != nil {
			return nil, err
		}
		links = append(links, l)
		if s.atEnd() {
			return links, nil
		}
		if s.peek() != ',' {
			return nil, s.unexpected()
		}
		s.pos++
	}
}

// strictLink is link-value = "<" URI-Reference ">" *( ";" link-param ).
func (s *scanner) strictLink(before int) (Link, *SyntaxError) {
	l, err := s.target(before, false)
	for err == nil && s.peek() == ';' {
		s.pos++
		var a Attr
		if a, err = s.strictParam(len(l.Attrs)); err == nil {
			l.Attrs = append(l.Attrs, a)
		}
	}
	return l, err
}

// strictParam is a link-param; every typed form of the ABNF is also a
// link-extension, except that a starred name takes only an ext-value.
func (s *scanner) strictParam(before int) (Attr, *SyntaxError) {
	a, err := s.name(before)
	if err != nil {
		return a, err
	}
	star := isStarred(a.Name)
	if s.peek() != '=' {
		if star {
			return a, syntaxError(s.pos, "expected '=' after '*'")
		}
		return a, nil
	}
	s.pos++
	if s.peek() == '"' && !star {
		return a, s.quoted(&a)
	}
	return a, s.token(&a)
}

// token reads a ptoken, or for a starred name an ext-value.
func (s *scanner) token(a *Attr) *SyntaxError {
	start := s.pos
	for isPToken(s.peek()) {
		s.pos++
	}
	a.Value, a.HasValue = string(s.body[start:s.pos]), true
	switch {
	case s.pos == start:
		return syntaxError(start, "empty or illegal unquoted value")
	case isStarred(a.Name) && !isExtValue(a.Value):
		return syntaxError(start, "bad ext-value (RFC 5987)")
	}
	return checkValue(a.Value, start)
}
