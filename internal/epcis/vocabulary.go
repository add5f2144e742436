package epcis

import "strings"

// vocabulary is a list of words of CBV 2.0 (chapter 7). Each word has three spellings: alone,
// as URN and as Web URI.
type vocabulary struct {
	urn, web string // what the word follows
	words    string // separated by spaces; "" if any word is taken
}

const (
	cbv = "https://ref.gs1.org/cbv/"
	voc = "https://ref.gs1.org/voc/"
)

var (
	bizSteps = &vocabulary{"urn:epcglobal:cbv:bizstep:", cbv + "BizStep-",
		"accepting arriving assembling collecting commissioning consigning " +
			"creating_class_instance cycle_counting decommissioning departing destroying " +
			"disassembling dispensing encoding entering_exiting holding inspecting installing " +
			"killing loading other packing picking receiving removing repackaging repairing " +
			"replacing reserving retail_selling sampling sensor_reporting shipping " +
			"staging_outbound stock_taking stocking storing transporting unloading unpacking " +
			"void_shipping"}
	dispositions = &vocabulary{"urn:epcglobal:cbv:disp:", cbv + "Disp-",
		"active available completeness_verified completeness_inferred conformant " +
			"container_closed container_open damaged destroyed dispensed disposed encoded " +
			"expired in_progress in_transit inactive mismatch_instance mismatch_class " +
			"mismatch_quantity needs_replacement no_pedigree_match non_conformant " +
			"non_sellable_other partially_dispensed recalled reserved retail_sold returned " +
			"sellable_accessible sellable_not_accessible stolen unavailable unknown"}
	transactionTypes = &vocabulary{"urn:epcglobal:cbv:btt:", cbv + "BTT-",
		"bol cert desadv inv pedigree po poc prodorder recadv rma testprd testres upevt"}
	partyTypes = &vocabulary{"urn:epcglobal:cbv:sdt:", cbv + "SDT-",
		"owning_party possessing_party location"}
	errorReasons = &vocabulary{"urn:epcglobal:cbv:er:", cbv + "ER-",
		"did_not_occur incorrect_data"}
	components = &vocabulary{"", cbv + "Comp-",
		"x y z axial_distance azimuth height spherical_radius polar_angle elevation_angle " +
			"easting northing latitude longitude altitude"}
	exceptions = &vocabulary{"", voc, "ALARM_CONDITION ERROR_CONDITION"}
	// measurements are the GS1 Web Vocabulary's, which grows without EPCIS.
	measurements = &vocabulary{"", voc, ""}
)

// urnVocabularies have words with a URN spelling.
var urnVocabularies = []*vocabulary{bizSteps, dispositions, transactionTypes, partyTypes,
	errorReasons}

// has tells whether the vocabulary has the bare word.
func (v *vocabulary) has(word string) bool {
	if word == "" || strings.ContainsAny(word, ": \t\r\n") {
		return false
	}
	if v.words == "" {
		return true
	}
	for w := range strings.SplitSeq(v.words, " ") {
		if w == word {
			return true
		}
	}
	return false
}

// short is the bare word for any spelling of one of the vocabulary's, else the text itself.
func (v *vocabulary) short(text string) string {
	for _, prefix := range [...]string{v.urn, v.web} {
		if word, found := strings.CutPrefix(text, prefix); found && prefix != "" && v.has(word) {
			return word
		}
	}
	return text
}

// namespaces maps prefixes to what they stand for.
type namespaces map[string]string

// standard are the prefixes of the EPCIS JSON-LD context. A document may give them another
// meaning: GS1's own samples do that with cbvmda.
var standard = namespaces{
	"epcis": "https://ref.gs1.org/epcis/", "cbv": cbv, "gs1": voc,
	"cbvmda": "urn:epcglobal:cbv:mda:", "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
	"owl": "http://www.w3.org/2002/07/owl#", "xsd": "http://www.w3.org/2001/XMLSchema#",
	"dcterms": "http://purl.org/dc/terms/",
}

// lookup splits a compact URI into what its prefix stands for, and the rest.
func (n namespaces) lookup(text string) (space, name string, ok bool) {
	prefix, name, found := strings.Cut(text, ":")
	if !found || strings.HasPrefix(name, "//") {
		return "", "", false
	}
	if space, ok = n[prefix]; !ok {
		space, ok = standard[prefix]
	}
	return space, name, ok
}

// expand writes a compact URI in full (JSON-LD 1.1, section 4.1.5), other texts as they are.
func (n namespaces) expand(text string) string {
	if space, name, ok := n.lookup(text); ok {
		return space + name
	}
	return text
}

// declare adds the prefixes of an @context. Contexts by reference are not fetched.
func (n namespaces) declare(context *value) {
	if context == nil {
		return
	}
	if context.kind == '[' {
		for i := range context.members {
			n.declare(&context.members[i].value)
		}
		return
	}
	for _, m := range context.members {
		switch id := m.get("@id"); {
		case m.kind == '"':
			n[m.key] = m.text
		case id != nil && id.kind == '"':
			n[m.key] = id.text
		}
	}
}
