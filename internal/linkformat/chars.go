package linkformat

import "strings"

// The classes of RFC 5234 appendix B.1 that the productions below are made of.
// All classes take any byte and refuse those above ASCII.

func isAlpha(c byte) bool   { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool   { return '0' <= c && c <= '9' }
func isAlnum(c byte) bool   { return isAlpha(c) || isDigit(c) }
func isHex(c byte) bool     { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }
func isControl(c byte) bool { return c < 0x20 || c == 0x7f }

// isPToken is ptokenchar of RFC 6690: "<", ">", "=" and "/" are among them, so
// </a>;ct=0</b> is one link.
func isPToken(c byte) bool {
	return 0x20 < c && c < 0x7f && c != '"' && c != ',' && c != ';' && c != '\\'
}

// isAttrChar is attr-char of RFC 5987, the alphabet of parmname.
func isAttrChar(c byte) bool {
	return isAlnum(c) || strings.IndexByte("!#$&+-.^_`|~", c) >= 0
}

// isUserChar is unreserved or sub-delims of RFC 3986:
// what userinfo, reg-name, IPvFuture and segments have in common.
func isUserChar(c byte) bool {
	return isAlnum(c) || strings.IndexByte("-._~!$&'()*+,;=", c) >= 0
}

// isStarred tells an ext-name-star from a parmname, which has no "*" in it.
func isStarred(name string) bool { return strings.HasSuffix(name, "*") }

// all reports whether s is not empty and made of such bytes only.
func all(s string, class func(byte) bool) bool {
	for i := range len(s) {
		if !class(s[i]) {
			return false
		}
	}
	return s != ""
}

// isExtValue is charset "'" [ language ] "'" value-chars of RFC 5987; the
// language is held to the shape of a tag, not to the registry.
func isExtValue(s string) bool {
	charset, rest, ok := strings.Cut(s, "'")
	language, chars, ok2 := strings.Cut(rest, "'")
	return ok && ok2 && all(charset, isCharsetChar) &&
		(language == "" || isLanguageTag(language)) &&
		scanEncoded(chars, isAttrChar, false) == ""
}

// isCharsetChar is mime-charsetc of RFC 5987.
func isCharsetChar(c byte) bool {
	return isAlnum(c) || strings.IndexByte("!#$%&+-^_`{}~", c) >= 0
}

// isLanguageTag holds s to the shape all tags of RFC 5646 share: subtags of
// one to eight letters or digits, the first of letters only.
func isLanguageTag(s string) bool {
	primary, _, _ := strings.Cut(s, "-")
	if !all(primary, isAlpha) {
		return false
	}
	for sub := range strings.SplitSeq(s, "-") {
		if len(sub) > 8 || !all(sub, isAlnum) {
			return false
		}
	}
	return true
}
