package epcis

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"
)

// property is a field of the canonical order of CBV 2.0, section 8.9.
type property struct {
	key   string // in JSON
	name  string // what the pre-hash string has in its place
	entry string // what each entry of a list has before it
	list  bool
	words *vocabulary // of bare words
	time  bool
	// members of an object, or of each entry of a list; nil for texts and numbers.
	members []property
}

func single(key string) property { return property{key: key, name: key} }

func worded(key string, words *vocabulary) property {
	return property{key: key, name: key, words: words}
}

func instant(key string) property { return property{key: key, name: key, time: true} }

func epcs(key string) property { return property{key: key, name: key, entry: "epc", list: true} }

func object(key string, members ...property) property {
	return property{key: key, name: key, members: members}
}

// objectList has the name of the list once and that of the entry before each.
func objectList(key, name, entry string, members ...property) property {
	return property{key: key, name: name, entry: entry, list: true, members: members}
}

func quantities(key string) property {
	return objectList(key, key, "quantityElement",
		single("epcClass"), single("quantity"), single("uom"))
}

func wordList(key string, words *vocabulary) property {
	return property{key: key, entry: key, list: true, words: words}
}

// canonicalOrder is that of the standard, in the reading that its authors' reference
// implementation and openEPCIS share for ver=CBV2.0: a type goes before what it is the type
// of, sensorElementList has no name of its own, and certificationInfo does not count.
var canonicalOrder = []property{
	instant("eventTime"), single("eventTimeZoneOffset"),
	epcs("epcList"), single("parentID"), epcs("inputEPCList"), epcs("childEPCs"),
	quantities("quantityList"), quantities("childQuantityList"), quantities("inputQuantityList"),
	epcs("outputEPCList"), quantities("outputQuantityList"),
	single("action"), single("transformationID"),
	worded("bizStep", bizSteps), worded("disposition", dispositions),
	object("persistentDisposition", wordList("set", dispositions), wordList("unset", dispositions)),
	object("readPoint", single("id")), object("bizLocation", single("id")),
	objectList("bizTransactionList", "bizTransactionList", "",
		worded("type", transactionTypes), single("bizTransaction")),
	objectList("sourceList", "sourceList", "", worded("type", partyTypes), single("source")),
	objectList("destinationList", "destinationList", "",
		worded("type", partyTypes), single("destination")),
	objectList("sensorElementList", "", "sensorElement",
		object("sensorMetadata", instant("time"), instant("startTime"), instant("endTime"),
			single("deviceID"), single("deviceMetadata"), single("rawData"),
			single("dataProcessingMethod"), single("bizRules")),
		objectList("sensorReport", "", "sensorReport",
			worded("type", measurements), worded("exception", exceptions), single("deviceID"),
			single("deviceMetadata"), single("rawData"), single("dataProcessingMethod"),
			instant("time"), single("microorganism"), single("chemicalSubstance"),
			single("value"), worded("component", components), single("stringValue"),
			single("booleanValue"), single("hexBinaryValue"), single("uriValue"),
			single("minValue"), single("maxValue"), single("meanValue"), single("sDev"),
			single("percRank"), single("percValue"), single("uom"),
			single("coordinateReferenceSystem"))),
}

// unhashed are the members of an event that say nothing of what happened, and comments.
var unhashed = map[string]bool{
	"@context": true, "type": true, "isA": true, "eventID": true, "recordTime": true,
	"errorDeclaration": true, "certificationInfo": true, "ilmd": true,
	"rdfs:comment": true, "comment": true, "#text": true,
}

// eventHash is the event hash of CBV 2.0.
func eventHash(kind Kind, event *value, lists map[string]objects, spaces namespaces) [32]byte {
	return sha256.Sum256([]byte(preHash(kind, event, lists, spaces)))
}

// preHash is the string that is hashed: the standard's fields, then ilmd, then the extensions
// inside standard fields behind the names of these, then those of the event.
func preHash(kind Kind, event *value, lists map[string]objects, spaces namespaces) string {
	h := hasher{lists, spaces}
	var b strings.Builder
	b.WriteString("eventType=" + kind.String())
	b.WriteString(h.members(event, canonicalOrder))
	if ilmd := event.get("ilmd"); ilmd != nil && len(ilmd.members) > 0 {
		b.WriteString("ilmd" + h.join(ilmd, nil))
	}
	b.WriteString(h.nested(event, canonicalOrder))
	b.WriteString(h.join(event, canonicalOrder))
	return b.String()
}

type hasher struct {
	lists  map[string]objects // EPC lists of the event by their keys
	spaces namespaces
}

// members writes the standard's members of an object in their order.
func (h *hasher) members(v *value, order []property) string {
	var b strings.Builder
	for i := range order {
		p := &order[i]
		m := v.get(p.key)
		if m == nil {
			continue
		}
		switch {
		case p.entry == "epc":
			b.WriteString(h.epcs(p))
		case p.list:
			var entries []string
			for j := range m.members {
				if text := h.one(p, p.entry, &m.members[j].value); text != "" {
					entries = append(entries, text)
				}
			}
			if len(entries) > 0 {
				b.WriteString(p.name + sorted(entries))
			}
		default:
			b.WriteString(h.one(p, p.name, m))
		}
	}
	return b.String()
}

// one is a field or an entry of a list; "" if it says nothing.
func (h *hasher) one(p *property, name string, v *value) string {
	if p.members != nil {
		if text := h.members(v, p.members); text != "" {
			return name + text
		}
		return ""
	}
	text := h.text(v)
	switch {
	case text == "":
		return ""
	case p.time:
		text = milliseconds(text)
	case p.words != nil && strings.IndexByte(text, ':') < 0:
		text = p.words.web + text
	}
	return name + "=" + text
}

func (h *hasher) epcs(p *property) string {
	names := h.lists[p.key].published
	if len(names) == 0 {
		return ""
	}
	entries := make([]string, len(names))
	for i, name := range names {
		entries[i] = "epc=" + constrained(strings.TrimSpace(name))
	}
	return p.name + sorted(entries)
}

// nested writes what the standard does not name inside of the objects that it does name.
func (h *hasher) nested(v *value, order []property) string {
	var b strings.Builder
	for i := range order {
		p := &order[i]
		m := v.get(p.key)
		if p.members == nil || m == nil {
			continue
		}
		inner := func(v *value, name string) string {
			if text := h.nested(v, p.members) + h.join(v, p.members); text != "" {
				return name + text
			}
			return ""
		}
		if !p.list {
			b.WriteString(inner(m, p.name))
			continue
		}
		var entries []string
		for j := range m.members {
			if text := inner(&m.members[j].value, p.entry); text != "" {
				entries = append(entries, text)
			}
		}
		if len(entries) > 0 {
			b.WriteString(p.name + sorted(entries))
		}
	}
	return b.String()
}

// join sorts and joins the members of an object that are not in the order.
func (h *hasher) join(v *value, order []property) string {
	var parts []string
	for i := range v.members {
		m := &v.members[i]
		known := func(p property) bool { return p.key == m.key }
		if slices.ContainsFunc(order, known) || order != nil && unhashed[m.key] ||
			m.key == "rdfs:comment" {
			continue
		}
		parts = h.extension(parts, h.key(m.key), &m.value)
	}
	return sorted(parts)
}

// extension adds a member and, if it is a list, each of its entries with the member's name.
func (h *hasher) extension(parts []string, key string, v *value) []string {
	switch v.kind {
	case '[':
		for i := range v.members {
			parts = h.extension(parts, key, &v.members[i].value)
		}
		return parts
	case '{':
		return append(parts, key+h.join(v, nil))
	}
	if text := h.text(v); text != "" {
		key += "=" + text
	}
	return append(parts, key)
}

// key writes prefix:name as {namespace}name.
func (h *hasher) key(key string) string {
	if space, name, ok := h.spaces.lookup(key); ok {
		if _, own := h.spaces["cbvmda"]; !own && space == standard["cbvmda"] {
			space = strings.TrimSuffix(space, ":") // the namespace in XML has no colon
		}
		return "{" + space + "}" + name
	}
	return key
}

// text is a value in the form that all spellings of it share.
func (h *hasher) text(v *value) string {
	switch v.kind {
	case 't', 'f':
		return v.text
	case '0':
		return decimal(v.text)
	case '"':
	default:
		return ""
	}
	text := h.spaces.expand(strings.TrimSpace(v.text))
	for _, words := range urnVocabularies {
		if word, found := strings.CutPrefix(text, words.urn); found {
			return words.web + word
		}
	}
	return constrained(decimal(text))
}

func sorted(parts []string) string {
	slices.Sort(parts)
	return strings.Join(parts, "")
}

// milliseconds rounds a checked date-time, half a millisecond up.
func milliseconds(text string) string {
	t, err := parseInstant(text)
	if err != nil {
		return text
	}
	return t.Add(500 * time.Microsecond).Truncate(time.Millisecond).Format("2006-01-02T15:04:05.000Z")
}

// constrained is the canonical Digital Link of a GS1 key or class with the finest level of
// identification only (CBV 2.0, section 8.9): the serial number, or else the batch; no CPV and
// no service relation. Other texts stay as they are.
func constrained(text string) string {
	g, ok := parseEPC(text)
	if !ok {
		if g, ok = parseLink(text); !ok {
			return text
		}
	}
	for _, ai := range [...]string{"21", "235", "10", "254", "8011"} {
		if finest := g.value(ai); finest != "" {
			g.n = 0
			g.add(ai, finest)
			return g.uri()
		}
	}
	g.n = 0
	return g.uri()
}

// maxExponent bounds the digits that a number in scientific notation becomes.
const maxExponent = 64

// decimal writes a decimal number without sign +, exponent, leading and trailing zeros. Texts
// that are no number stay as they are; numbers in strings are numbers, as in the XML binding.
func decimal(text string) string {
	digits := strings.TrimLeft(text, "+-")
	if len(text)-len(digits) > 1 {
		return text
	}
	exponent := 0
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		var ok bool
		if exponent, ok = parseExponent(digits[i+1:]); !ok {
			return text
		}
		digits = digits[:i]
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	if whole+fraction == "" || !permits("9", whole+fraction) {
		return text
	}
	switch {
	case exponent > 0:
		fraction += strings.Repeat("0", max(0, exponent-len(fraction)))
		whole, fraction = whole+fraction[:exponent], fraction[exponent:]
	case exponent < 0:
		whole = strings.Repeat("0", max(0, -exponent-len(whole))) + whole
		cut := len(whole) + exponent
		whole, fraction = whole[:cut], whole[cut:]+fraction
	}
	whole, fraction = strings.TrimLeft(whole, "0"), strings.TrimRight(fraction, "0")
	if whole == "" {
		whole = "0"
	}
	if fraction != "" {
		whole += "." + fraction
	}
	if text[0] == '-' && whole != "0" {
		return "-" + whole
	}
	return whole
}

func parseExponent(text string) (int, bool) {
	digits := strings.TrimLeft(text, "+-")
	if digits == "" || len(digits) > 2 || len(text)-len(digits) > 1 || !permits("9", digits) {
		return 0, false
	}
	n := 0
	for i := range len(digits) {
		n = n*10 + int(digits[i]-'0')
	}
	if text[0] == '-' {
		n = -n
	}
	return n, n >= -maxExponent && n <= maxExponent
}
