package epcis

import "strings"

// gs1 is an instance or class that a GS1 key identifies, as a Digital Link spells it: the AI
// of the primary key, its value, and the key qualifiers in the order of the standard.
// The values are plain characters, without percent-encoding.
type gs1 struct {
	ai, key    string
	qualifiers [maxQualifiers]qualifier
	n          int  // qualifiers in use
	padded     bool // the key is a GTIN that was written with 8, 12 or 13 digits
}

const maxQualifiers = 4

type qualifier struct{ ai, value string }

// primary is a primary key of GS1 Digital Link URI Syntax 1.3, section 4.3.
type primary struct {
	ai, name  string
	checked   int    // digits at the front of the value, the last of them the check digit
	extra     int    // digits that follow
	rest      int    // most characters after these
	alphabet  string // of the rest: see permits
	qualifies string // AIs of the qualifiers, in their order
}

var primaries = []primary{
	{"01", "gtin", 14, 0, 0, "", "22 10 21 235"},
	{"00", "sscc", 18, 0, 0, "", ""},
	{"414", "gln", 13, 0, 0, "", "254"},
	{"417", "party", 13, 0, 0, "", ""},
	{"253", "gdti", 13, 0, 17, "82", ""},
	{"255", "gcn", 13, 0, 12, "9", ""},
	{"401", "ginc", 0, 4, 26, "82", ""},
	{"402", "gsin", 17, 0, 0, "", ""},
	{"8003", "grai", 14, 0, 16, "82", ""},
	{"8004", "giai", 0, 4, 26, "82", ""},
	{"8006", "itip", 14, 4, 0, "", "22 10 21"},
	{"8010", "cpid", 0, 4, 26, "39", "8011"},
	{"8017", "gsrnp", 18, 0, 0, "", "8019"},
	{"8018", "gsrn", 18, 0, 0, "", "8019"},
}

// attribute is the form of a key qualifier.
type attribute struct {
	ai, name string
	most     int // characters
	alphabet string
}

var attributes = []attribute{
	{"22", "cpv", 20, "82"}, {"10", "lot", 20, "82"}, {"21", "ser", 20, "82"},
	{"235", "tpx", 28, "82"}, {"254", "glnx", 20, "82"}, {"8011", "cpsn", 12, "9"},
	{"8019", "srin", 10, "9"},
}

// primaryOf finds a primary key by its AI or short name.
func primaryOf(name string) *primary {
	for i := range primaries {
		if p := &primaries[i]; p.ai == name || p.name == name {
			return p
		}
	}
	return nil
}

func attributeOf(name string) *attribute {
	for i := range attributes {
		if a := &attributes[i]; a.ai == name || a.name == name {
			return a
		}
	}
	return nil
}

// fits tells whether the value has the form of the key. Its check digit is not looked at.
func (p *primary) fits(value string) bool {
	n := p.checked + p.extra
	return len(value) >= n && len(value) <= n+p.rest && permits("9", value[:n]) &&
		permits(p.alphabet, value[n:]) && (p.ai != "8003" || value[0] == '0')
}

func (a *attribute) fits(value string) bool {
	return value != "" && len(value) <= a.most && permits(a.alphabet, value)
}

// permits tells whether all characters are of the alphabet: digits ("9"), or character set 39
// or 82 of the GS1 General Specifications (figures 7.11-2 and 7.11-1).
func permits(alphabet, text string) bool {
	for i := range len(text) {
		c := text[i]
		ok := digit(c)
		switch alphabet {
		case "39":
			ok = ok || c >= 'A' && c <= 'Z' || strings.IndexByte("#-/", c) >= 0
		case "82":
			ok = ok || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' ||
				strings.IndexByte(`!"%&'()*+,-./:;<=>?_`, c) >= 0
		}
		if !ok {
			return false
		}
	}
	return true
}

// checkDigit closes a run of digits (GS1 General Specifications, section 7.9.1): seen from
// the right, the digits weigh 3, 1, 3, 1 and so on.
func checkDigit(digits string) byte {
	sum, weight := 0, 3
	for i := len(digits) - 1; i >= 0; i-- {
		sum += weight * int(digits[i]-'0')
		weight = 4 - weight
	}
	return byte('0' + (10-sum%10)%10)
}

// sound tells whether the check digit is right.
func (g *gs1) sound() bool {
	n := primaryOf(g.ai).checked
	return n == 0 || g.key[n-1] == checkDigit(g.key[:n-1])
}

func (g *gs1) add(ai, value string) {
	g.qualifiers[g.n] = qualifier{ai, value}
	g.n++
}

// value of a qualifier, "" if it is not there.
func (g *gs1) value(ai string) string {
	for _, q := range g.qualifiers[:g.n] {
		if q.ai == ai {
			return q.value
		}
	}
	return ""
}

// uri is the canonical Digital Link.
func (g *gs1) uri() string {
	var b strings.Builder
	b.Grow(64)
	b.WriteString("https://id.gs1.org/")
	b.WriteString(g.ai)
	b.WriteByte('/')
	encode(&b, g.key)
	for _, q := range g.qualifiers[:g.n] {
		b.WriteByte('/')
		b.WriteString(q.ai)
		b.WriteByte('/')
		encode(&b, q.value)
	}
	return b.String()
}

// encode escapes all but what an EPC URI may hold as it is (TDS 2.0, tables A-1 and G-1),
// which a path may as well.
func encode(b *strings.Builder, text string) {
	for i := range len(text) {
		c := text[i]
		if unreserved(c) || strings.IndexByte("!'()*+,:;=", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
}

const hexDigits = "0123456789ABCDEF"

// unreserved characters mean the same with and without percent-encoding (RFC 3986, 2.3).
func unreserved(c byte) bool {
	return digit(c) || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' ||
		c == '-' || c == '.' || c == '_' || c == '~'
}
