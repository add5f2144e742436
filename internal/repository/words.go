package repository

// words are the business steps and dispositions of CBV 2.0 (sections 7.1 and 7.2) in their
// short form. Rows have their places in the list, so that it may only grow at its end.
var words = [...]string{
	"accepting", "arriving", "assembling", "collecting", "commissioning", "consigning",
	"creating_class_instance", "cycle_counting", "decommissioning", "departing", "destroying",
	"disassembling", "dispensing", "encoding", "entering_exiting", "holding", "inspecting",
	"installing", "killing", "loading", "other", "packing", "picking", "receiving", "removing",
	"repackaging", "repairing", "replacing", "reserving", "retail_selling", "sampling",
	"sensor_reporting", "shipping", "staging_outbound", "stock_taking", "stocking", "storing",
	"transporting", "unloading", "unpacking", "void_shipping",

	"active", "available", "completeness_inferred", "completeness_verified",
	"conformant", "container_closed", "container_open", "damaged", "destroyed", "dispensed",
	"disposed", "expired", "in_progress", "in_transit", "inactive", "mismatch_class",
	"mismatch_instance", "mismatch_quantity", "needs_replacement", "no_pedigree_match",
	"non_conformant", "non_sellable_other", "partially_dispensed", "recalled", "reserved",
	"retail_sold", "returned", "sellable_accessible", "sellable_not_accessible", "stolen",
	"unavailable", "unknown",
}

// How a row has a word: none, as text, or by its place in the list.
const (
	wordNone = iota
	wordText
	wordFirst
)

var wordNumbers = func() map[string]byte {
	numbers := make(map[string]byte, len(words))
	for i, w := range words {
		numbers[w] = byte(i + wordFirst)
	}
	return numbers
}()

func appendWord(dst []byte, word string) []byte {
	if word == "" {
		return append(dst, wordNone)
	}
	if n, known := wordNumbers[word]; known {
		return append(dst, n)
	}
	return appendBytes(append(dst, wordText), []byte(word))
}

func (f *fields) word() string {
	head := f.take(1)
	switch {
	case len(head) == 0 || head[0] == wordNone:
	case head[0] == wordText:
		return string(f.take(f.uvarint()))
	case int(head[0]-wordFirst) < len(words):
		return words[head[0]-wordFirst]
	default:
		f.bad = true
	}
	return ""
}
