package epcis

import (
	"crypto/sha256"
	"slices"
	"strings"
	"time"
)

// unhashed are the members of an event that say nothing of what happened, and comments.
var unhashed = map[string]bool{
	"@context": true, "type": true, "isA": true, "eventID": true, "recordTime": true,
	"errorDeclaration": true, "certificationInfo": true, "ilmd": true,
	"rdfs:comment": true, "comment": true, "#text": true,
}

// eventHash is the event hash of CBV 2.0.
func eventHash(kind Kind, event *value, lists map[string]objects, spaces *namespaces) [32]byte {
	return sha256.Sum256([]byte(preHash(kind, event, lists, spaces)))
}

// preHash is the string that is hashed: the standard's fields, then ilmd, then the extensions
// inside standard fields behind the names of these, then those of the event.
func preHash(kind Kind, event *value, lists map[string]objects, spaces *namespaces) string {
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
	spaces *namespaces
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
		entries[i] = "epc=" + constrained(name)
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
		parts = h.extension(parts, h.spaces.braced(m.key), &m.value)
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
	t = t.Add(500 * time.Microsecond).Truncate(time.Millisecond)
	return t.Format("2006-01-02T15:04:05.000Z")
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
