package linkformat

import "strings"

// Match is the query filter ?name=pattern of RFC 6690 section 4.1, pattern
// being percent-decoded. A "*" at the end of the pattern matches any rest, one
// elsewhere only itself. The name href stands for the target. An attribute
// matches with its whole value or with any of the parts that spaces separate;
// the value of a flag is "". Of rel, rt, if and sz only the first counts, of
// other names any.
func Match(l Link, name, pattern string) bool {
	prefix, open := strings.CutSuffix(pattern, "*")
	fits := func(s string) bool {
		return s == pattern || open && strings.HasPrefix(s, prefix)
	}
	if strings.EqualFold(name, "href") {
		return fits(l.Target)
	}
	for _, a := range l.Attrs {
		if !strings.EqualFold(a.Name, name) {
			continue
		}
		if fits(a.Value) {
			return true
		}
		for part := range strings.FieldsSeq(a.Value) {
			if fits(part) {
				return true
			}
		}
		if firstCounts(name) {
			return false
		}
	}
	return false
}

// firstCounts lists the names of which a link has one value whatever it says:
// RFC 8288 section 3.3 has parsers ignore later ones for rel, and RFC 6690
// section 3 forbids them for the others.
func firstCounts(name string) bool {
	switch strings.ToLower(name) {
	case "rel", "rt", "if", "sz":
		return true
	}
	return false
}
