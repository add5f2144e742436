package linkformat

import (
	"encoding/json"
	"fmt"
)

// Verdict says how a body fared.
type Verdict string

// Valid bodies fit the ABNF, Recovered ones after named liberties, Invalid ones
// not at all.
const (
	Valid     Verdict = "valid"
	Recovered Verdict = "recovered"
	Invalid   Verdict = "invalid"
)

// Note is a rule that was applied (a letter) or violated (a typed rule's name)
// and the byte of the original body where that happened.
type Note struct {
	Rule   string `json:"rule"`
	Offset int    `json:"offset"`
}

// SyntaxError is the first place where a body leaves the ABNF, or goes over a
// limit. Offset is in [0, len(body)]; len(body) means that more was expected.
// A bad target is reported at its first byte, a bad value at the byte after
// "=", an unterminated construct where it opens, anything else at the byte that
// does not fit. If recovery got further before it was stuck, the message also
// says where and why.
type SyntaxError struct {
	Offset  int    `json:"offset"`
	Message string `json:"message"`
}

// Error names the byte, so that the body can be looked at there.
func (e *SyntaxError) Error() string {
	return fmt.Sprintf("link format: byte %d: %s", e.Offset, e.Message)
}

// Result is what Parse found. Links is empty when the verdict is Invalid.
// Recovered lists the rules of recovery applied, only for that verdict;
// Warnings the typed rules violated, only for a Valid body; both in the order
// of the body. Err is nil only for a Valid body: a Recovered one keeps the error
// it had to be recovered from.
type Result struct {
	Verdict   Verdict
	Links     []Link
	Recovered []Note
	Warnings  []Note
	Err       *SyntaxError
}

// MarshalJSON prints verdict, links, recovered, warnings and, unless the body
// is valid, error:
//
//	{"verdict": "recovered",
//	 "links": [{"target": "/a", "attrs": [["ct", "0"], ["obs", null]]}],
//	 "recovered": [{"rule": "W", "offset": 4}],
//	 "warnings": [],
//	 "error": {"offset": 4, "message": "unexpected byte 0x20 after link-value"}}
//
// Arrays are never null.
func (r Result) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Verdict   Verdict      `json:"verdict"`
		Links     []Link       `json:"links"`
		Recovered []Note       `json:"recovered"`
		Warnings  []Note       `json:"warnings"`
		Err       *SyntaxError `json:"error,omitempty"`
	}{r.Verdict, orEmpty(r.Links), orEmpty(r.Recovered), orEmpty(r.Warnings), r.Err})
}
