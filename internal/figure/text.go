package figure

import (
	"html"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes a text fit for one line of a terminal and for XML: white space
// becomes a blank, what is not printable (controls, escapes, changes of the
// writing direction, bytes that are not UTF-8) the replacement character.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return utf8.RuneError
		}
		return r
	}, s)
}

// markup is a clean text as XML content or attribute.
func markup(s string) string { return html.EscapeString(clean(s)) }

// number writes integers in full and other values with at least four
// significant digits, without an exponent where people would use none.
func number(v float64) string {
	abs := math.Abs(v)
	switch {
	case v == 0:
		return "0" // -0 too
	case abs >= 1e15 || abs < 1e-4:
		return strconv.FormatFloat(v, 'e', 3, 64)
	case v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', max(3-exponent(v), 0), 64)
}

// short is number without the zeros at the end of a fraction.
func short(v float64) string {
	s := number(v)
	if strings.Contains(s, ".") && !strings.Contains(s, "e") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// exponent is the decimal exponent of v rounded to four significant digits.
func exponent(v float64) int {
	_, digits, _ := strings.Cut(strconv.FormatFloat(v, 'e', 3, 64), "e")
	e, _ := strconv.Atoi(digits) // FormatFloat has written it
	return e
}

// columns is the width of a text in a terminal. Wide characters of East Asian
// scripts count as one.
func columns(s string) float64 { return float64(utf8.RuneCountInString(s)) }

// wrap breaks a clean text at blanks into lines no wider than width, but for
// words that are. There is at least one line.
func wrap(text string, width float64, measure func(string) float64) []string {
	lines := []string{""}
	for _, word := range strings.Fields(clean(text)) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case measure(*last+" "+word) <= width:
			*last += " " + word
		default:
			lines = append(lines, word)
		}
	}
	return lines
}

// shorten is a clean text that is cut, with an ellipsis, to width. One
// character always stays.
func shorten(text string, width float64, measure func(string) float64) string {
	text = clean(text)
	if measure(text) <= width {
		return text
	}
	runes := []rune(text)
	low, high := 1, len(runes) // the first low characters fit, or low is 1
	for high-low > 1 {
		mid := (low + high) / 2
		if measure(string(runes[:mid])+"…") <= width {
			low = mid
		} else {
			high = mid
		}
	}
	return strings.TrimRight(string(runes[:low]), " ") + "…"
}

// pad fills a text with blanks on its left, or right where width is negative.
func pad(s string, width int) string {
	n := utf8.RuneCountInString(s)
	if width < 0 {
		return s + strings.Repeat(" ", max(-width-n, 0))
	}
	return strings.Repeat(" ", max(width-n, 0)) + s
}
