package discovery

import "fmt"

// Refusal is why a publication or a query is not taken. Its text is for the one who asked.
type Refusal struct {
	Code   string // one of the constants below
	Status int    // of RFC 9110 and RFC 6750
	Text   string // what is wrong and where, in one line
}

// Codes of refusals, in the order of the checks.
const (
	TooLarge     = "too_large"
	NoToken      = "no_token"
	UnknownToken = "unknown_token"
	BadJWS       = "bad_jws"
	BadAlgorithm = "bad_algorithm"
	WrongKey     = "wrong_kid"
	BadSignature = "bad_signature"
	BadEPCIS     = "bad_epcis"
	TooMany      = "too_many_objects"
	WrongSource  = "wrong_source"
	WrongTime    = "wrong_time"
)

// Codes lists all codes of refusals in the order of the checks.
func Codes() []string {
	return []string{TooLarge, NoToken, UnknownToken, BadJWS, BadAlgorithm, WrongKey, BadSignature,
		BadEPCIS, TooMany, WrongSource, WrongTime}
}

// statuses are those of RFC 9110. RFC 6750 section 3.1 has 401 for a token that is
// missing or unknown and 403 for what a known one may not do.
var statuses = map[string]int{
	TooLarge: 413, NoToken: 401, UnknownToken: 401, BadJWS: 400, BadAlgorithm: 400, WrongKey: 403,
	BadSignature: 403, BadEPCIS: 422, TooMany: 422, WrongSource: 403, WrongTime: 422,
}

// Error is the text.
func (r *Refusal) Error() string { return r.Text }

func refuse(code, format string, args ...any) *Refusal {
	return &Refusal{code, statuses[code], fmt.Sprintf(format, args...)}
}

// clip keeps what is quoted back short and printable.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		s = s[:most] + "..."
	}
	return fmt.Sprintf("%+q", s)
}
