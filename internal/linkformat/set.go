package linkformat

import (
	"cmp"
	"slices"
	"strings"
)

// SameSet reports whether a and b are the same set of links: the order of
// links, repeats of a whole link, the order of differently named attributes,
// the case of their names and whether a value is quoted do not matter.
func SameSet(a, b []Link) bool {
	added, removed := Diff(a, b)
	return len(added) == 0 && len(removed) == 0
}

// Diff compares two versions of a description as sets of links, in the sense
// of SameSet: added holds the links of new that old lacks, removed the reverse,
// each once and in the order of its list.
func Diff(old, new []Link) (added, removed []Link) {
	return without(new, old), without(old, new)
}

// without returns the links that others lacks, repeats dropped.
func without(links, others []Link) []Link {
	seen := make(map[string]bool, len(links)+len(others))
	for _, l := range others {
		seen[l.key()] = true
	}
	var rest []Link
	for _, l := range links {
		if k := l.key(); !seen[k] {
			seen[k] = true
			rest = append(rest, l)
		}
	}
	return rest
}

// key is a spelling that links share if and only if they are equal in the
// sense of SameSet. Attributes of one name keep their order, for the first one
// counts.
func (l Link) key() string {
	c := Link{Target: l.Target, Attrs: slices.Clone(l.Attrs)}
	for i, a := range c.Attrs {
		c.Attrs[i].Name = strings.ToLower(a.Name)
		c.Attrs[i].Quoted = true
	}
	slices.SortStableFunc(c.Attrs, func(a, b Attr) int { return cmp.Compare(a.Name, b.Name) })
	return string(c.Append(nil))
}
