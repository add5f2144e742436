package epcis

import "strings"

// scheme is an EPC URI scheme of TDS 2.0, section 6.3, that has a Digital Link (chapter 7).
type scheme struct {
	name string
	ai   string // of the primary key
	// digits of company prefix and reference together; 0: the reference is free text
	digits int
	// lead says that the first digit of the reference goes before the company prefix
	lead   bool
	pieces bool   // piece and total follow the key, two digits each (ITIP)
	serial string // AI of the serial number, "+" if it is part of the key, "" if there is none
	class  bool   // a pattern with * for the serial names a class
}

var schemes = []scheme{
	{name: "sgtin", ai: "01", digits: 13, lead: true, serial: "21", class: true},
	{name: "sscc", ai: "00", digits: 17, lead: true},
	{name: "sgln", ai: "414", digits: 12, serial: "254"},
	{name: "grai", ai: "8003", digits: 12, serial: "+", class: true},
	{name: "giai", ai: "8004"},
	{name: "gsrn", ai: "8018", digits: 17},
	{name: "gsrnp", ai: "8017", digits: 17},
	{name: "gdti", ai: "253", digits: 12, serial: "+", class: true},
	{name: "cpi", ai: "8010", serial: "8011", class: true},
	{name: "sgcn", ai: "255", digits: 12, serial: "+", class: true},
	{name: "ginc", ai: "401"},
	{name: "gsin", ai: "402", digits: 16},
	{name: "itip", ai: "8006", digits: 13, lead: true, pieces: true, serial: "21", class: true},
	{name: "upui", ai: "01", digits: 13, lead: true, serial: "235", class: true},
	{name: "pgln", ai: "417", digits: 12},
	{name: "lgtin", ai: "01", digits: 13, lead: true, serial: "10"},
}

// parseEPC reads urn:epc:id:..., urn:epc:class:lgtin:... or a class as pattern,
// urn:epc:idpat:...*. It fails on what is malformed and on schemes without a Digital Link.
func parseEPC(id string) (g gs1, ok bool) {
	if len(id) < 8 || !strings.EqualFold(id[:8], "urn:epc:") {
		return g, false
	}
	space, rest, _ := strings.Cut(id[8:], ":")
	name, rest, _ := strings.Cut(rest, ":")
	for i := range schemes {
		s := &schemes[i]
		if s.name == name && (space == "class") == (name == "lgtin") {
			switch {
			case space == "id", space == "class":
				return s.parse(rest, false)
			case space == "idpat" && s.class && strings.HasSuffix(rest, ".*"):
				return s.parse(rest[:len(rest)-2], true)
			}
		}
	}
	return g, false
}

// parse reads what follows the scheme's name. Of a class the serial is cut off.
func (s *scheme) parse(text string, class bool) (g gs1, ok bool) {
	company, rest, found := strings.Cut(text, ".")
	if !found || len(company) < 6 || len(company) > 12 || !permits("9", company) {
		return g, false
	}
	reference, rest, more := strings.Cut(rest, ".")
	if s.serial == "" && s.digits == 0 && more {
		reference, rest, more = text[len(company)+1:], "", false // free text may have dots
	}
	if reference, ok = decode(reference); !ok {
		return g, false
	}
	key, ok := s.key(company, reference)
	if !ok {
		return g, false
	}
	if s.pieces {
		if len(rest) < 5 || rest[2] != '.' || !permits("9", rest[:2]) || !permits("9", rest[3:5]) {
			return g, false
		}
		key += rest[:2] + rest[3:5]
		rest, more = strings.CutPrefix(rest[5:], ".")
	}
	serial, ok := decode(rest)
	if !ok || more != (s.serial != "" && !class) || more && serial == "" {
		return g, false
	}
	if s.serial == "+" {
		key += serial
	}
	g.ai, g.key = s.ai, key
	if more && s.serial != "+" && !g.noExtension(s.serial, serial) {
		if !attributeOf(s.serial).fits(serial) {
			return g, false
		}
		g.add(s.serial, serial)
	}
	return g, primaryOf(s.ai).fits(key)
}

// noExtension tells whether a GLN extension is the 0 that stands for none (TDS 2.0, 6.3.3).
func (g *gs1) noExtension(ai, value string) bool { return ai == "254" && value == "0" }

// key joins company prefix and reference and adds the check digit.
func (s *scheme) key(company, reference string) (string, bool) {
	if s.digits == 0 {
		return company + reference, reference != ""
	}
	if len(company)+len(reference) != s.digits || !permits("9", reference) {
		return "", false
	}
	key := company + reference
	if s.lead {
		if reference == "" {
			return "", false
		}
		key = reference[:1] + company + reference[1:]
	}
	if s.ai == "8003" {
		key = "0" + key
	}
	return key + string(checkDigit(key)), true
}

// decode resolves percent-encoding.
func decode(text string) (string, bool) {
	if strings.IndexByte(text, '%') < 0 {
		return text, true
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '%' {
			if i+2 >= len(text) {
				return "", false
			}
			hi, lo := unhex(text[i+1]), unhex(text[i+2])
			if hi < 0 || lo < 0 {
				return "", false
			}
			c = byte(hi<<4 | lo)
			i += 2
		}
		b.WriteByte(c)
	}
	return b.String(), true
}

// unhex is the value of a hexadecimal digit, -1 if it is none.
func unhex(c byte) int {
	switch {
	case digit(c):
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
