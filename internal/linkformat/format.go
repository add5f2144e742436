package linkformat

// Append appends the link-value of l to dst. A value keeps its quotes and gets
// them where a ptoken cannot hold it. The target and the names are taken to be
// grammatical, as Parse returns them; a target that needed rule U is written
// raw again, not percent-encoded, for that would be another target.
func (l Link) Append(dst []byte) []byte {
	dst = append(dst, '<')
	dst = append(dst, l.Target...)
	dst = append(dst, '>')
	for _, a := range l.Attrs {
		dst = append(dst, ';')
		dst = append(dst, a.Name...)
		if a.HasValue {
			dst = append(dst, '=')
			dst = a.appendValue(dst)
		}
	}
	return dst
}

// appendValue escapes what a quoted-string cannot hold bare: quote, backslash
// and controls, among them CR and LF, which bare are legal only when folded.
func (a Attr) appendValue(dst []byte) []byte {
	// An ext-value has no quoted form.
	if isStarred(a.Name) || !a.Quoted && all(a.Value, isPToken) {
		return append(dst, a.Value...)
	}
	dst = append(dst, '"')
	for i := range len(a.Value) {
		c := a.Value[i]
		if c == '"' || c == '\\' || isControl(c) && c != '\t' {
			dst = append(dst, '\\')
		}
		dst = append(dst, c)
	}
	return append(dst, '"')
}

// Format prints links as a link-value-list. Parsing it gives the same links
// again, offsets apart.
func Format(links []Link) []byte {
	var dst []byte
	for i, l := range links {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = l.Append(dst)
	}
	return dst
}
