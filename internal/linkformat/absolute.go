package linkformat

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Absolute is the link as it reads outside of its document, which base names, an absolute
// URI: target and anchor are absolute, and the anchor is written out, as in the answers of a
// resource directory (RFC 9176 section 6.1). By RFC 6690 section 2.1 the anchor, where there
// is one, is what a relative target starts from; else it is the origin of base, whatever its
// path. Raw UTF-8 of a target (rule U) is percent-encoded (RFC 3987 section 3.1). All other
// attributes are kept, but for a starred one whose value is no ext-value: it has no valid
// form. Of several anchors the first one that is a reference counts.
func (l Link) Absolute(base string) Link {
	scheme, rest := splitScheme(base)
	authority, _ := splitAuthority(rest)
	origin := scheme + "://" + authority
	context, anchored := origin, false
	attrs := make([]Attr, 0, len(l.Attrs)+1)
	for _, a := range l.Attrs {
		switch {
		case isStarred(a.Name) && !isExtValue(a.Value):
		case !strings.EqualFold(a.Name, "anchor"):
			attrs = append(attrs, a)
		case a.HasValue && !anchored && checkReference(a.Value, true) == "":
			context, anchored = encoded(resolve(origin+"/", a.Value)), true
		}
	}
	from := context
	if !anchored {
		from += "/"
	}
	target := encoded(resolve(from, l.Target))
	if !anchored && !strings.HasPrefix(target, origin+"/") {
		// The context of a link elsewhere is the origin of its target.
		if s, rest := splitScheme(target); strings.HasPrefix(rest, "//") {
			authority, _ := splitAuthority(rest[:cutPath(rest)])
			context = s + "://" + authority
		}
	}
	attrs = append(attrs, Attr{Name: "anchor", Value: context, HasValue: true, Quoted: true})
	return Link{Target: target, Attrs: attrs}
}

// resolve is the target URI of RFC 3986 section 5.2.2, byte for byte but for dot segments.
func resolve(base, ref string) string {
	if scheme, rest := splitScheme(ref); scheme != "" {
		return scheme + ":" + tidy(rest)
	}
	scheme, rest := splitScheme(base)
	if strings.HasPrefix(ref, "//") {
		return scheme + ":" + tidy(ref)
	}
	rest, _, _ = strings.Cut(rest, "#")
	path := cutPath(rest)
	prefix, hierarchy := "", rest[:path]
	if strings.HasPrefix(hierarchy, "//") {
		authority, _ := splitAuthority(hierarchy)
		prefix, hierarchy = "//"+authority, hierarchy[2+len(authority):]
	}
	switch {
	case ref == "" || ref[0] == '#':
		return scheme + ":" + rest + ref
	case ref[0] == '?':
		return scheme + ":" + prefix + hierarchy + ref
	case ref[0] != '/' && prefix != "" && hierarchy == "":
		ref = "/" + ref
	case ref[0] != '/':
		ref = hierarchy[:strings.LastIndexByte(hierarchy, '/')+1] + ref
	}
	return scheme + ":" + prefix + tidy(ref)
}

// cutPath is where the query or fragment of a reference without scheme begins.
func cutPath(s string) int {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		return i
	}
	return len(s)
}

// tidy removes the dot segments from the path of a reference without scheme (RFC 3986
// section 5.2.4).
func tidy(s string) string {
	end := cutPath(s)
	path, tail := s[:end], s[end:]
	prefix := ""
	if strings.HasPrefix(path, "//") {
		authority, _ := splitAuthority(path)
		prefix, path = "//"+authority, path[2+len(authority):]
	}
	if !strings.HasPrefix(path, "/") {
		return s // nothing, or not hierarchical
	}
	segments := strings.Split(path[1:], "/")
	var out []string
	for i, segment := range segments {
		last := i == len(segments)-1
		switch segment {
		case ".":
		case "..":
			out = out[:max(0, len(out)-1)]
		default:
			out = append(out, segment)
			continue
		}
		if last {
			out = append(out, "")
		}
	}
	return prefix + "/" + strings.Join(out, "/") + tail
}

// encoded percent-encodes what is not ASCII.
func encoded(s string) string {
	if isASCII(s) {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		if s[i] < utf8.RuneSelf {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, "%%%02X", s[i])
		}
	}
	return b.String()
}
