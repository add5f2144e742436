package linkformat

import (
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// The strict grammar again, as one regular expression assembled from the ABNF
// of RFC 6690, 3986, 2616 and 5987. Slow, and it shares no code with Parse.
const (
	abnfPct       = `%[0-9A-Fa-f]{2}`
	abnfUnres     = `A-Za-z0-9\-._~`
	abnfSub       = `!$&'()*+,;=`
	abnfPchar     = `(?:[` + abnfUnres + abnfSub + `:@]|` + abnfPct + `)`
	abnfSegNC     = `(?:[` + abnfUnres + abnfSub + `@]|` + abnfPct + `)+`
	abnfAbempty   = `(?:/` + abnfPchar + `*)*`
	abnfRootless  = abnfPchar + `+` + abnfAbempty
	abnfAbsolute  = `/(?:` + abnfRootless + `)?`
	abnfOctet     = `(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9][0-9]|[0-9])`
	abnfIPv4      = abnfOctet + `(?:\.` + abnfOctet + `){3}`
	abnfH16       = `[0-9A-Fa-f]{1,4}`
	abnfLs32      = `(?:` + abnfH16 + `:` + abnfH16 + `|` + abnfIPv4 + `)`
	abnfFuture    = `[vV][0-9A-Fa-f]+\.[` + abnfUnres + abnfSub + `:]+`
	abnfRegName   = `(?:[` + abnfUnres + abnfSub + `]|` + abnfPct + `)*`
	abnfUserinfo  = `(?:[` + abnfUnres + abnfSub + `:]|` + abnfPct + `)*`
	abnfTail      = `(?:\?(?:` + abnfPchar + `|[/?])*)?(?:#(?:` + abnfPchar + `|[/?])*)?`
	abnfAttrName  = "[A-Za-z0-9!#$&+\\-.^_`|~]+"
	abnfPToken    = "[!#$%&'()*+\\-./0-9:<=>?@A-Za-z\\[\\]^_`{|}~]+"
	abnfQuoted    = `"(?:[\t \x21\x23-\x5b\x5d-\x7e\x{80}-\x{10FFFF}]|\r\n[ \t]|\\[\x00-\x7f])*"`
	abnfLang      = `[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*`
	abnfCharset   = "[A-Za-z0-9!#$%&+\\-^_`{}~]+"
	abnfExtValue  = abnfCharset + `'(?:` + abnfLang + `)?'(?:` + abnfPct + `|` + abnfAttrName + `)*`
	abnfValue     = `(?:` + abnfPToken + `|` + abnfQuoted + `)`
	abnfLinkParam = abnfAttrName + `(?:=` + abnfValue + `|\*=` + abnfExtValue + `)?`
)

func abnfIPv6() string {
	alternatives := []string{`(?:` + abnfH16 + `:){6}` + abnfLs32}
	tails := []string{
		`(?:H:){5}L`, `(?:H:){4}L`, `(?:H:){3}L`, `(?:H:){2}L`, `H:L`, `L`, `H`, ``,
	}
	for i, tail := range tails {
		front := ""
		if i > 0 {
			front = fmt.Sprintf(`(?:(?:H:){0,%d}H)?`, i-1)
		}
		a := strings.ReplaceAll(front+`::`+tail, "H", abnfH16)
		alternatives = append(alternatives, strings.ReplaceAll(a, "L", abnfLs32))
	}
	return strings.Join(alternatives, "|")
}

func abnfReference() string {
	host := `(?:\[(?:` + abnfIPv6() + `|` + abnfFuture + `)\]|` + abnfRegName + `)`
	authority := `(?:` + abnfUserinfo + `@)?` + host + `(?::[0-9]*)?`
	network := `//` + authority + abnfAbempty
	hier := `(?:` + network + `|` + abnfAbsolute + `|` + abnfRootless + `)?`
	relative := `(?:` + network + `|` + abnfAbsolute + `|` + abnfSegNC + abnfAbempty + `)?`
	return `(?:[A-Za-z][A-Za-z0-9+\-.]*:` + hier + `|` + relative + `)` + abnfTail
}

func twinReference() *regexp.Regexp {
	return regexp.MustCompile(`^(?:` + abnfReference() + `)$`)
}

// twinDocument accepts what Parse must call Valid, limits apart.
func twinDocument(linkParam string) func([]byte) bool {
	link := `<(?:` + abnfReference() + `)>(?:;` + linkParam + `)*`
	re := regexp.MustCompile(`^(?:` + link + `(?:,` + link + `)*)?$`)
	return func(body []byte) bool { return utf8.Valid(body) && re.Match(body) }
}

// mutator changes bodies a little, preferably where the grammar is sensitive.
type mutator struct {
	*rand.Rand
	seeds [][]byte
}

func newMutator(t testing.TB, seed uint64) mutator {
	m := mutator{rand.New(rand.NewPCG(seed, 6690)), nil}
	for _, d := range corpus(t) {
		if len(d.body) < 250 {
			m.seeds = append(m.seeds, d.body)
		}
	}
	for _, s := range []string{
		`<coap://[2001:db8::1]:5683/a?b=c#d>`, `<//u:p@h:1/>`, `<coap://[v1.a:b]>`, `<a:b>`, `<./a:b>`,
		`<?q>;x="\` + "\x00" + `"`, `<>;a*=UTF-8'de-AT'%c3%a4;b`, "<>;t=\"a\r\n b\"", `<#>;a=<b>=`,
		`<coap://[::ffff:1.2.3.4]>`, `<>;t="\é"`, `<>;t="é\\"`,
		`<>;a*=UTF-8'abcdefghi'x`, `<>;a*=UTF-8'abcdefgh-i'`, `<coap://[1:2:3:4:5:6:7::]>`,
	} {
		m.seeds = append(m.seeds, []byte(s))
	}
	return m
}

func (m mutator) next() []byte {
	const alphabet = "<>;,=\"\\*%#?/:[]@'&. \t\r\n\x00\x7f{|09afgzAZ-+~"
	b := append([]byte(nil), m.seeds[m.IntN(len(m.seeds))]...)
	for range 1 + m.IntN(3) {
		i := m.IntN(len(b) + 1)
		j := i + m.IntN(min(len(b)-i, 12)+1)
		insert := []byte{alphabet[m.IntN(len(alphabet))]}
		switch m.IntN(8) {
		case 0:
			insert = nil
		case 1:
			insert = []byte("é")
		case 2:
			insert = []byte{byte(m.IntN(256))}
		case 3:
			other := m.seeds[m.IntN(len(m.seeds))]
			k := m.IntN(len(other) + 1)
			insert = other[k : k+m.IntN(min(len(other)-k, 20)+1)]
		case 4, 5:
			j = i
		case 6:
			j = min(i+1, len(b))
		}
		b = append(b[:i:i], append(insert[:len(insert):len(insert)], b[j:]...)...)
	}
	return b
}

// rounds scales a loop: the small count in every run, the large one in CI.
func rounds(small, large int) int {
	if os.Getenv("CRAWLD_CI") != "" {
		return large
	}
	return small
}

func TestVerdictAgreesWithABNF(t *testing.T) {
	twin := twinDocument(abnfLinkParam)
	m := newMutator(t, 1)
	accepted, n := 0, rounds(6000, 60000)
	for range n {
		body := m.next()
		valid := Parse(body).Verdict == Valid
		if valid != twin(body) {
			t.Fatalf("Parse says valid = %v, the ABNF says otherwise: %q", valid, body)
		}
		if valid {
			accepted++
		}
	}
	if accepted < n/20 || accepted > n*19/20 {
		t.Errorf("%d of %d bodies valid: the mutations are one-sided", accepted, n)
	}
}

// A twin that forbids "<" in a ptoken must be told from Parse, or the loop
// above compares nothing.
func TestABNFTwinCatchesAMutant(t *testing.T) {
	mutant := twinDocument(strings.ReplaceAll(abnfLinkParam, ":<=>", ":=>"))
	m := newMutator(t, 1)
	for range 6000 {
		if body := m.next(); mutant(body) != (Parse(body).Verdict == Valid) {
			return
		}
	}
	t.Error("6000 bodies did not tell a wrong grammar from the right one")
}

func TestReferenceAgreesWithABNF(t *testing.T) {
	twin := twinReference()
	rng := rand.New(rand.NewPCG(3986, 0))
	pieces := []string{
		"a", "Z", "9", "-", ".", "/", "//", ":", "::", "@", "?", "#", "[", "]", "%", "%4f", "%g0", "v1.",
		"coap:", "1:", "ffff", "10000",
		"1.2.3.4", "256", "01", "'", "(", " ", "|", "é", "\xff", "\x00", "&",
		"[::1]", "[1:2:3:4:5:6:7:8]", "://", "=", ",", ";", "%25eth0", "",
	}
	for range rounds(30000, 300000) {
		var b strings.Builder
		for range 1 + rng.IntN(7) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		s := b.String()
		if got, want := checkReference(s, false) == "", twin.MatchString(s); got != want {
			t.Fatalf("checkReference(%q) = %v, the ABNF says %v", s, got, want)
		}
	}
}
