package epcis

import "strings"

// maxSegments bounds the search for a primary key in a path.
const maxSegments = 64

// parseLink reads a GS1 Digital Link of any domain (GS1 Digital Link URI Syntax 1.3, section
// 4): the path ends in a primary key and its qualifiers, each as AI or short name followed by
// a value. Query and fragment are left out: they say something of the object but do not
// identify it. Compressed links are not read.
func parseLink(uri string) (g gs1, ok bool) {
	scheme, rest, found := strings.Cut(uri, "://")
	if !found || !strings.EqualFold(scheme, "https") && !strings.EqualFold(scheme, "http") {
		return g, false
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		rest = rest[:i]
	}
	host, path, found := strings.Cut(strings.TrimSuffix(rest, "/"), "/")
	if !found || host == "" {
		return g, false
	}
	var parts [maxSegments]string
	n := 0
	for segment := range strings.SplitSeq(path, "/") {
		text, sane := decode(segment)
		if !sane || n == maxSegments {
			return g, false
		}
		parts[n] = text
		n++
	}
	// The leftmost key that explains all of the rest: in /01/.../21/00 the 00 is a serial.
	for i := 0; i+1 < n; i++ {
		if p := primaryOf(parts[i]); p != nil && (n-i)%2 == 0 {
			if g, ok := p.link(parts[i+1 : n]); ok {
				return g, true
			}
		}
	}
	return g, false
}

// link makes the key of its value and the name and value of each qualifier. Qualifiers may be
// in any order, and come out in the standard's.
func (p *primary) link(parts []string) (g gs1, ok bool) {
	g = gs1{ai: p.ai, key: parts[0]}
	if n := len(g.key); p.ai == "01" && (n == 8 || n == 12 || n == 13) {
		g.key, g.padded = "000000"[:14-n]+g.key, true
	}
	if !p.fits(g.key) || len(parts) > 1+2*maxQualifiers {
		return g, false
	}
	var given gs1
	for i := 1; i < len(parts); i += 2 {
		a := attributeOf(parts[i])
		if a == nil || !a.fits(parts[i+1]) || given.value(a.ai) != "" {
			return g, false
		}
		given.add(a.ai, parts[i+1])
	}
	known := 0
	for ai := range strings.SplitSeq(p.qualifies, " ") {
		if v := given.value(ai); v != "" {
			known++
			if !g.noExtension(ai, v) {
				g.add(ai, v)
			}
		}
	}
	return g, known == given.n
}
