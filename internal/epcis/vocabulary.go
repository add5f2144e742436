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
