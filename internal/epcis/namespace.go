package epcis

import (
	"strings"
)

// namespaces are the prefixes that the @context of a document, and of an event in it, declare.
type namespaces struct {
	document, event map[string]string
}

// standard are the prefixes of the EPCIS JSON-LD context. A document may give them another
// meaning: GS1's own samples do that with cbvmda.
var standard = map[string]string{
	"epcis": "https://ref.gs1.org/epcis/", "cbv": cbv, "gs1": voc,
	"cbvmda": "urn:epcglobal:cbv:mda:", "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
	"owl": "http://www.w3.org/2002/07/owl#", "xsd": "http://www.w3.org/2001/XMLSchema#",
	"dcterms": "http://purl.org/dc/terms/",
}

// declared is what a prefix was declared to stand for.
func (n *namespaces) declared(prefix string) (string, bool) {
	if space, ok := n.event[prefix]; ok {
		return space, true
	}
	space, ok := n.document[prefix]
	return space, ok
}

// lookup splits a compact URI into what its prefix stands for, and the rest.
func (n *namespaces) lookup(text string) (space, name string, ok bool) {
	prefix, name, found := strings.Cut(text, ":")
	if !found || strings.HasPrefix(name, "//") {
		return "", "", false
	}
	if space, ok = n.declared(prefix); !ok {
		space, ok = standard[prefix]
	}
	return space, name, ok
}

// expand writes a compact URI in full (JSON-LD 1.1, section 4.1.5), other texts as they are.
func (n *namespaces) expand(text string) string {
	if space, name, ok := n.lookup(text); ok {
		return space + name
	}
	return text
}

// braced writes the name of an extension, prefix:name, as {namespace}name.
func (n *namespaces) braced(key string) string {
	space, name, ok := n.lookup(key)
	if !ok {
		return key
	}
	if _, own := n.declared("cbvmda"); !own && space == standard["cbvmda"] {
		space = strings.TrimSuffix(space, ":") // the namespace in XML has no colon
	}
	return "{" + space + "}" + name
}

// declare collects the prefixes of an @context. Contexts by reference are not fetched, and the
// length of a namespace is bounded, since it stands in the place of each of its prefixes.
func declare(context *value) (map[string]string, error) {
	spaces := map[string]string{}
	if context == nil {
		return spaces, nil
	}
	entries := []member{{value: *context}}
	if context.kind == '[' {
		entries = context.members
	}
	for i := range entries {
		if entries[i].kind != '{' && entries[i].kind != '"' {
			return nil, in("@context", expected(&entries[i].value, "a URI or an object"))
		}
		for j := range entries[i].members {
			m := &entries[i].members[j]
			space := &m.value
			if id := m.get("@id"); id != nil {
				space = id
			}
			if space.kind != '"' {
				continue
			}
			if len(space.text) > maxURI {
				return nil, in("@context", in(m.key, errLength))
			}
			spaces[m.key] = space.text
		}
	}
	return spaces, nil
}
