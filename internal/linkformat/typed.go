package linkformat

import "strings"

// typedWarnings lists the attributes that break the form of their name.
func typedWarnings(links []Link) []Note {
	var notes []Note
	for _, l := range links {
		for i, a := range l.Attrs {
			name := strings.ToLower(a.Name)
			if form, ok := checkForm(name, a); !ok {
				notes = append(notes, Note{name + "-" + form, a.Offset})
			}
			if isOnce(name) && isRepeat(l.Attrs[:i], name) {
				notes = append(notes, Note{"one-" + name, a.Offset})
			}
		}
	}
	return notes
}

// checkForm names the form that the ABNF of RFC 6690 section 2, or the RFC that
// registered the name, gives the value, and whether the value has it.
func checkForm(name string, a Attr) (form string, ok bool) {
	switch name {
	case "rel", "rev", "rt", "if":
		return "registered", isListOf(a, isRelationType)
	case "anchor":
		return "uri", a.Quoted && checkReference(a.Value, false) == ""
	case "hreflang":
		return "tag", !a.Quoted && isLanguageTag(a.Value)
	case "media":
		return "value", a.HasValue
	case "title":
		return "quoted", a.Quoted
	case "type":
		return "media", isMediaType(a.Value)
	case "sz":
		return "decimal", !a.Quoted && isCardinal(a.Value)
	case "ct":
		return "decimal", isListOf(a, isCardinal)
	case "obs", "osc":
		return "flag", !a.HasValue
	}
	return "", true
}

// isListOf reports whether the value is one element or, if quoted, elements
// separated by one or more spaces.
func isListOf(a Attr, element func(string) bool) bool {
	if !a.Quoted {
		return element(a.Value)
	}
	if a.Value == "" || a.Value[0] == ' ' || a.Value[len(a.Value)-1] == ' ' {
		return false
	}
	for part := range strings.SplitSeq(a.Value, " ") {
		if part != "" && !element(part) {
			return false
		}
	}
	return true
}

// isRelationType is reg-rel-type, lower case only, or ext-rel-type, a URI.
func isRelationType(s string) bool {
	registered := func(c byte) bool {
		return isAlnum(c) && !('A' <= c && c <= 'Z') || c == '.' || c == '-'
	}
	if all(s, registered) && isAlpha(s[0]) {
		return true
	}
	return isURI(s)
}

// isCardinal has no leading zero.
func isCardinal(s string) bool {
	return all(s, isDigit) && (s == "0" || s[0] != '0')
}

// isMediaType is type-name "/" subtype-name of RFC 4288; a parameter such as
// charset does not belong to it.
func isMediaType(s string) bool {
	name := func(s string) bool {
		return len(s) <= 127 && all(s, func(c byte) bool {
			return isAlnum(c) || strings.IndexByte("!#$&.+-^_", c) >= 0
		})
	}
	major, minor, ok := strings.Cut(s, "/")
	return ok && name(major) && name(minor)
}

// isOnce lists the names whose RFC forbids a second occurrence in a link.
func isOnce(name string) bool {
	switch name {
	case "rel", "rt", "if", "sz", "ct", "obs", "osc", "media", "title", "title*", "type":
		return true
	}
	return false
}

// isRepeat compares names without regard to case, as RFC 8288 appendix B.3 does.
func isRepeat(before []Attr, name string) bool {
	for _, a := range before {
		if strings.EqualFold(a.Name, name) {
			return true
		}
	}
	return false
}
