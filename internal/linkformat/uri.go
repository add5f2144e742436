package linkformat

import (
	"net/netip"
	"strings"
	"unicode/utf8"
)

// checkReference says what keeps s from being a URI-Reference (RFC 3986
// section 4.1), or "". With iri set the wider alphabet of an IRI-reference
// (RFC 3987 section 2.2) is allowed.
func checkReference(s string, iri bool) string {
	if !utf8.ValidString(s) {
		return "invalid UTF-8 in URI-Reference"
	}
	if !iri && !isASCII(s) {
		return "non-ASCII character in URI-Reference (RFC 3986)"
	}
	s, fragment, _ := strings.Cut(s, "#")
	s, query, _ := strings.Cut(s, "?")
	scheme, rest := splitScheme(s)
	if scheme != "" && !isScheme(scheme) {
		return "bad scheme"
	}
	authority, path := splitAuthority(rest)
	if !checkAuthority(authority, iri) {
		return "bad authority"
	}
	parts := [...]struct {
		name, text string
		class      func(byte) bool
	}{{"path", path, isPathChar}, {"query", query, isQueryChar}, {"fragment", fragment, isQueryChar}}
	for _, p := range parts {
		if problem := scanEncoded(p.text, p.class, iri); problem != "" {
			return problem + " in " + p.name
		}
	}
	return ""
}

// isURI is URI of RFC 3986 section 3: a reference with a scheme.
func isURI(s string) bool {
	scheme, _ := splitScheme(s)
	return scheme != "" && checkReference(s, false) == ""
}

// splitScheme takes what stands before a ":" in the first segment. A relative
// path may not have a ":" there (path-noscheme), so it must be a scheme; an
// empty one is returned as ":" for isScheme to refuse.
func splitScheme(s string) (scheme, rest string) {
	i := strings.IndexAny(s, ":/?#")
	switch {
	case i < 0 || s[i] != ':':
		return "", s
	case i == 0:
		return ":", s
	}
	return s[:i], s[i+1:]
}

// isScheme is ALPHA *( ALPHA / DIGIT / "+" / "-" / "." ); s is not empty.
func isScheme(s string) bool {
	return isAlpha(s[0]) && all(s, func(c byte) bool {
		return isAlnum(c) || c == '+' || c == '-' || c == '.'
	})
}

// splitAuthority splits "//" authority path-abempty. Without the slashes there
// is no authority, which to a URI's syntax is the same as an empty one. A path
// that begins with "//" is always an authority: <//15001/65536>, which some
// gateways serve, names host 15001, and stays as sent.
func splitAuthority(s string) (authority, path string) {
	rest, ok := strings.CutPrefix(s, "//")
	if !ok {
		return "", s
	}
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[:i], rest[i:]
	}
	return rest, ""
}

// checkAuthority is [ userinfo "@" ] host [ ":" port ]; all three may be empty.
func checkAuthority(s string, iri bool) bool {
	if i := strings.IndexByte(s, '@'); i >= 0 {
		user := func(c byte) bool { return isUserChar(c) || c == ':' }
		if scanEncoded(s[:i], user, iri) != "" {
			return false
		}
		s = s[i+1:]
	}
	host, port := s, ""
	if i := strings.LastIndexByte(s, ':'); i > strings.LastIndexByte(s, ']') {
		host, port = s[:i], s[i+1:]
	}
	if port != "" && !all(port, isDigit) {
		return false
	}
	if inner, ok := strings.CutPrefix(host, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		return ok && isIPLiteral(inner)
	}
	return scanEncoded(host, isUserChar, iri) == ""
}

// isIPLiteral is IPv6address or IPvFuture. The grammar of RFC 3986 has no zone
// identifiers; netip would take one, so it is ruled out.
func isIPLiteral(s string) bool {
	if s != "" && s[0]|0x20 == 'v' {
		version, rest, ok := strings.Cut(s[1:], ".")
		return ok && all(version, isHex) &&
			all(rest, func(c byte) bool { return isUserChar(c) || c == ':' })
	}
	addr, err := netip.ParseAddr(s)
	return err == nil && addr.Is6() && addr.Zone() == ""
}

// isPathChar is pchar or the "/" between segments; isQueryChar serves query and
// fragment.
func isPathChar(c byte) bool  { return isUserChar(c) || c == ':' || c == '@' || c == '/' }
func isQueryChar(c byte) bool { return isPathChar(c) || c == '?' }

// scanEncoded says what keeps s from being a sequence of such bytes and
// pct-encoded triples, or "". s is valid UTF-8.
func scanEncoded(s string, class func(byte) bool, iri bool) string {
	for i, r := range s {
		switch {
		case r == '%':
			if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
				return "bad percent-encoding"
			}
		case r >= utf8.RuneSelf:
			if !iri || !isUCSChar(r) {
				return "illegal character"
			}
		case !class(byte(r)):
			return "illegal character"
		}
	}
	return ""
}

// isUCSChar is ucschar of RFC 3987: no C1 controls, private use or
// noncharacters.
func isUCSChar(r rune) bool {
	switch {
	case r < 0xa0, 0xe000 <= r && r < 0xf900, 0xfdd0 <= r && r < 0xfdf0, r >= 0xf0000:
		return false
	case 0xe0000 <= r && r < 0xe1000:
		return false
	}
	return r&0xffff < 0xfff0 || r > 0xffff && r&0xffff < 0xfffe
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
