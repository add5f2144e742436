package epcis

import "strings"

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
