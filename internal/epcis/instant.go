package epcis

import (
	"errors"
	"time"
)

var errInstant = errors.New("a date-time with offset was expected, as 2026-07-22T06:45:00.123+02:00")

// parseInstant reads a dateTimeStamp (XML Schema 1.1, section 3.4.28) that is a date-time of
// RFC 3339 as well: upper case, any number of fraction digits, an offset of at most 14 hours.
// The result is in UTC; digits after the ninth are cut off.
func parseInstant(text string) (time.Time, error) {
	const date = "2006-01-02T15:04:05"
	if len(text) <= len(date) {
		return time.Time{}, errInstant
	}
	rest := text[len(date):]
	if rest[0] == '.' {
		n := 1
		for n < len(rest) && digit(rest[n]) {
			n++
		}
		if n == 1 {
			return time.Time{}, errInstant
		}
		rest = rest[n:]
	}
	if rest != "Z" && !isOffset(rest) {
		return time.Time{}, errInstant
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, errInstant
	}
	return t.UTC(), nil
}

// isOffset tells whether text is what the standard allows as eventTimeZoneOffset
// (EPCIS 2.0, section 7.4.1): +hh:mm or -hh:mm, at most 14 hours.
func isOffset(text string) bool {
	if len(text) != 6 || text[0] != '+' && text[0] != '-' || text[3] != ':' {
		return false
	}
	for _, i := range [...]int{1, 2, 4, 5} {
		if !digit(text[i]) {
			return false
		}
	}
	return text[1:3] <= "13" && text[4] <= '5' || text[1:] == "14:00"
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
