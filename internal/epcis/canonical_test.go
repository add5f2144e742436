package epcis

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// trials is how often a random test repeats: fully in CI, otherwise so that it stays short.
func trials(short, full int) int {
	if os.Getenv("CRAWLD_CI") != "" {
		return full
	}
	return short
}

func TestCanonical(t *testing.T) {
	for id, want := range map[string]string{
		// The examples of TDS 2.0, chapter 7, and of the sample document with all GS1 keys.
		"urn:epc:id:sgtin:0614141.112345.400":         "01/10614141123459/21/400",
		"urn:epc:id:sgtin:614141.0112345.400":         "01/06141411123453/21/400",
		"urn:epc:id:sgtin:0614141.812345.6789%2F%25!": "01/80614141123458/21/6789%2F%25!",
		"urn:epc:id:sscc:0614141.1234567890":          "00/106141412345678908",
		"urn:epc:id:sgln:0614141.12345.400":           "414/0614141123452/254/400",
		"urn:epc:id:sgln:0614141.12345.0":             "414/0614141123452",
		"urn:epc:id:sgln:061414112345..400":           "414/0614141123452/254/400",
		"urn:epc:id:grai:0614141.12345.400":           "8003/00614141123452400",
		"urn:epc:id:giai:0614141.12345400":            "8004/061414112345400",
		"urn:epc:id:giai:0614141.A.B":                 "8004/0614141A.B",
		"urn:epc:id:gsrn:0614141.1234567890":          "8018/061414112345678902",
		"urn:epc:id:gsrnp:0614141.1234567890":         "8017/061414112345678902",
		"urn:epc:id:gdti:0614141.12345.006847":        "253/0614141123452006847",
		"urn:epc:id:cpi:0614141.5PQ7%2FZ43.12345":     "8010/06141415PQ7%2FZ43/8011/12345",
		"urn:epc:id:sgcn:4012345.67890.04711":         "255/401234567890104711",
		"urn:epc:id:ginc:0614141.xyz47%2F11":          "401/0614141xyz47%2F11",
		"urn:epc:id:gsin:0614141.123456789":           "402/06141411234567890",
		"urn:epc:id:itip:4012345.012345.01.02.987":    "8006/040123451234560102/21/987",
		"urn:epc:id:upui:1234567.089456.51qIgY)j":     "01/01234567894560/235/51qIgY)j",
		"urn:epc:id:pgln:0614141.12345":               "417/0614141123452",
		"urn:epc:class:lgtin:4012345.012345.998877":   "01/04012345123456/10/998877",
		"urn:epc:idpat:sgtin:0614141.112345.*":        "01/10614141123459",
		"URN:EPC:id:sscc:0614141.1234567890":          "00/106141412345678908",
		// Digital Links.
		"https://id.gs1.org/01/10614141123459/21/400":          "01/10614141123459/21/400",
		"HTTP://Shop.Example.COM:8080/a/gtin/10614141123459":   "01/10614141123459",
		"https://example.org/01/9780345418913":                 "01/09780345418913",
		"https://example.org/01/614141123452":                  "01/00614141123452",
		"https://example.org/01/40170725":                      "01/00000040170725",
		"https://example.org/01/09780345418913/ser/x/cpv/2A":   "01/09780345418913/22/2A/21/x",
		"https://example.org/gtin/9780345418913/lot/B/ser/%41": "01/09780345418913/10/B/21/A",
		"https://example.org/01/09780345418913/21/00/?17=2#x":  "01/09780345418913/21/00",
		"https://example.org/8010/0614141%23A/cpsn/7":          "8010/0614141%23A/8011/7",
		"https://example.org/gsrn/061414112345678902/8019/3":   "8018/061414112345678902/8019/3",
		"https://example.org/414/0614141123452/254/0":          "414/0614141123452",
		// Its check digit is wrong in GS1's own sample.
		"https://id.example.com/8003/030013450007718765": "8003/030013450007718765",
	} {
		if got, err := Canonical(id); err != nil || got != "https://id.gs1.org/"+want {
			t.Errorf("%s: %s, %v\nwant https://id.gs1.org/%s", id, got, err, want)
		}
	}
}

func TestCanonicalOfOtherURIs(t *testing.T) {
	for id, want := range map[string]string{
		"urn:dev:ow:10e2073a01080063":                     "urn:dev:ow:10e2073a01080063",
		"URN:Dev:MAC:0024befffe804ff1":                    "urn:dev:MAC:0024befffe804ff1",
		"COAP://[FE80::1]:5683/Temp":                      "coap://[fe80::1]/Temp",
		"coaps+tcp://Host.example:5684":                   "coaps+tcp://host.example/",
		"coap://10.0.0.1:5685/a?B=%7e%3d":                 "coap://10.0.0.1:5685/a?B=~%3D",
		"https://User@Example.org:443/x":                  "https://User@example.org/x",
		"http://example.org?x":                            "http://example.org/?x",
		"urn:epc:id:gid:95100000.12345.400":               "urn:epc:id:gid:95100000.12345.400",
		"urn:epc:id:sgtin:0614141.12345.400":              "urn:epc:id:sgtin:0614141.12345.400",
		"urn:epc:id:sgtin:0614141.112345.":                "urn:epc:id:sgtin:0614141.112345.",
		"urn:epc:id:sgln:0614141.12345.%zz":               "",
		"https://example.org/99/9780345418913":            "https://example.org/99/9780345418913",
		"https://example.org/2026/01/20260116":            "https://example.org/2026/01/20260116",
		"https://example.org/01/9780345418913/a/b":        "https://example.org/01/9780345418913/a/b",
		"https://example.org/01/9780345418913/21":         "https://example.org/01/9780345418913/21",
		"https://example.org/401/error":                   "https://example.org/401/error",
		"geo:50.94757334,6.922120147":                     "geo:50.94757334,6.922120147",
		"":                                                "",
		"parcel":                                          "",
		"urn:x":                                           "",
		"urn::x":                                          "",
		"https:///01/09780345418913":                      "",
		"http://a:b/":                                     "",
		"http://[::1/x":                                   "",
		"http://example.org/a b":                          "",
		"http://example.org/\u00fc":                       "",
		"http://example.org/%2":                           "",
		"1a:b":                                            "",
		"https://example.org/" + strings.Repeat("x", 500): "",
	} {
		got, err := Canonical(id)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v\nwant %q", id, got, err, want)
		}
	}
}

// gs1Sample is a random object in its parts.
type gs1Sample struct {
	epc        string // EPC URI
	key, value string // short name of the primary key, and its value
	qualifier  string // short name, "" if there is none
	serial     string
}

// slowCheck finds the check digit by trial: the weighted sum of all digits ends in 0.
func slowCheck(digits string) string {
	for c := range 10 {
		all, sum := fmt.Sprint(digits, c), 0
		for i := range len(all) {
			n := int(all[len(all)-1-i] - '0')
			if i%2 == 1 {
				n *= 3
			}
			sum += n
		}
		if sum%10 == 0 {
			return fmt.Sprint(c)
		}
	}
	panic("no check digit")
}

func randomText(rng *rand.Rand, alphabet string, least, most int) string {
	b := make([]byte, least+rng.IntN(most-least+1))
	for i := range b {
		b[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(b)
}

const (
	nine = "0123456789"
	set  = nine + `ABCXYZabcxyz!"%&'()*+,-./:;<=>?_`
)

// escaped writes each character as it is or percent-encoded, as chance has it; what a URI
// may not hold is always encoded.
func escaped(rng *rand.Rand, text string) string {
	var b strings.Builder
	for i := range len(text) {
		c := text[i]
		switch {
		case strings.IndexByte(`"%&/<>?#`, c) >= 0 || rng.IntN(8) == 0:
			fmt.Fprintf(&b, [...]string{"%%%02X", "%%%02x"}[rng.IntN(2)], c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// randomGS1 puts a key together from company prefix and reference, without any of the code
// under test.
func randomGS1(rng *rand.Rand) gs1Sample {
	n := 6 + rng.IntN(7)
	company := randomText(rng, nine, n, n)
	digits := func(total int) string { return randomText(rng, nine, total-n, total-n) }
	text := func(most int) string { return randomText(rng, set, 1, most) }
	item := digits(13)
	gtin := item[:1] + company + item[1:]
	gtin += slowCheck(gtin)
	eleven := digits(12)
	gln := company + eleven + slowCheck(company+eleven)
	make := func(scheme, reference, key, value, qualifier, serial string) gs1Sample {
		epc := "urn:epc:id:" + scheme + ":" + company + "." + reference
		if qualifier != "" {
			epc += "." + escaped(rng, serial)
		}
		return gs1Sample{epc, key, value, qualifier, serial}
	}
	joined := func(scheme, key, front, serial string) gs1Sample {
		s := make(scheme, eleven+"."+escaped(rng, serial), key, front+serial, "", "")
		return s
	}
	switch rng.IntN(15) {
	case 0:
		return make("sgtin", item, "gtin", gtin, "ser", text(20))
	case 1:
		ref := digits(17)
		body := ref[:1] + company + ref[1:]
		return make("sscc", ref, "sscc", body+slowCheck(body), "", "")
	case 2:
		return make("sgln", eleven, "gln", gln, "glnx", "a"+text(19))
	case 3:
		return joined("grai", "grai", "0"+gln[:12]+slowCheck("0"+gln[:12]), text(16))
	case 4:
		ref := text(30 - n)
		return make("giai", escaped(rng, ref), "giai", company+ref, "", "")
	case 5, 6:
		ref, scheme := digits(17), [...]string{"gsrn", "gsrnp"}[rng.IntN(2)]
		return make(scheme, ref, scheme, company+ref+slowCheck(company+ref), "", "")
	case 7:
		return joined("gdti", "gdti", gln, text(17))
	case 8:
		ref := randomText(rng, nine+"ABCXYZ-/#", 1, 30-n)
		return make("cpi", escaped(rng, ref), "cpid", company+ref, "cpsn", randomText(rng, nine, 1, 12))
	case 9:
		return joined("sgcn", "gcn", gln, randomText(rng, nine, 1, 12))
	case 10:
		ref := text(30 - n)
		return make("ginc", escaped(rng, ref), "ginc", company+ref, "", "")
	case 11:
		ref := digits(16)
		return make("gsin", ref, "gsin", company+ref+slowCheck(company+ref), "", "")
	case 12:
		piece, total := randomText(rng, nine, 2, 2), randomText(rng, nine, 2, 2)
		return make("itip", item+"."+piece+"."+total, "itip", gtin+piece+total, "ser", text(20))
	case 13:
		return make("upui", item, "gtin", gtin, "tpx", text(28))
	default:
		return make("pgln", eleven, "party", gln, "", "")
	}
}

var aiOf = map[string]string{"gtin": "01", "sscc": "00", "gln": "414", "party": "417",
	"gdti": "253", "gcn": "255", "ginc": "401", "gsin": "402", "grai": "8003", "giai": "8004",
	"itip": "8006", "cpid": "8010", "gsrnp": "8017", "gsrn": "8018", "ser": "21", "tpx": "235",
	"glnx": "254", "cpsn": "8011"}

// link is a random Digital Link of the object.
func (s gs1Sample) link(rng *rand.Rand) string {
	name := func(key string) string {
		if rng.IntN(2) == 0 {
			return aiOf[key]
		}
		return key
	}
	value := s.value
	for s.key == "gtin" && value[0] == '0' && len(value) > 12 && rng.IntN(2) == 0 {
		value = value[1:]
	}
	hosts := [...]string{"https://id.gs1.org/", "http://Example.ORG:8080/x/", "HTTPS://a.example/21/"}
	uri := hosts[rng.IntN(len(hosts))] + name(s.key) + "/" + escaped(rng, value)
	if s.qualifier != "" {
		uri += "/" + name(s.qualifier) + "/" + escaped(rng, s.serial)
	}
	return uri + [...]string{"", "/", "?17=270101", "#top"}[rng.IntN(4)]
}

// estranged counts the spellings of n random objects that a function does not bring
// together, or changes when it sees its own result. drawn counts the schemes.
func estranged(n int, canonical func(string) (string, error)) (count int, drawn map[string]int) {
	rng := rand.New(rand.NewPCG(1, 8))
	drawn = map[string]int{}
	for range n {
		s := randomGS1(rng)
		drawn[strings.Split(s.epc, ":")[3]]++
		a, err := canonical(s.epc)
		if err != nil || !strings.HasPrefix(a, "https://id.gs1.org/") {
			count++
		}
		for _, spelling := range []string{s.link(rng), s.link(rng), a} {
			if b, err := canonical(spelling); err != nil || a != b {
				count++
			}
		}
	}
	return count, drawn
}

func TestEPCsAndLinksMeet(t *testing.T) {
	count, drawn := estranged(trials(20000, 300000), Canonical)
	if count != 0 {
		t.Errorf("%d spellings do not meet", count)
	}
	if len(drawn) != 15 || drawn["upui"] < 1000 {
		t.Errorf("drawn: %v", drawn)
	}
}

// Twins that lack one step must not pass.
func TestMeetingCatchesWrongTwins(t *testing.T) {
	twins := map[string]func(string) (string, error){
		"no padding": func(id string) (string, error) {
			if g, ok := parseLink(id); ok && g.padded {
				return id, nil
			}
			return Canonical(id)
		},
		"no percent-decoding": func(id string) (string, error) {
			uri, err := Canonical(id)
			if strings.Contains(id, "%41") {
				uri += "%41"
			}
			return uri, err
		},
		"host kept": func(id string) (string, error) {
			uri, err := Canonical(id)
			return strings.Replace(uri, "id.gs1.org", strings.Split(id+"//x/", "/")[2], 1), err
		},
	}
	for name, twin := range twins {
		if count, _ := estranged(2000, twin); count < 5 {
			t.Errorf("%s: only %d caught", name, count)
		}
	}
}

// Objects of different parts stay apart.
func TestObjectsStayApart(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 8))
	seen := map[string]gs1Sample{}
	for range trials(20000, 300000) {
		s := randomGS1(rng)
		s.epc = ""
		uri, err := Canonical(s.link(rng))
		if err != nil {
			t.Fatal(err)
		}
		if other, met := seen[uri]; met && other != s {
			t.Fatalf("%v and %v are both %s", s, other, uri)
		}
		seen[uri] = s
	}
}

// The cases are of the CBV authors' reference implementation.
func TestConstrainedLinks(t *testing.T) {
	for _, c := range pairs(t, "hashes/links.txt") {
		want := c[1]
		if want == "-" {
			want = c[0]
		}
		if got := constrained(c[0]); got != want {
			t.Errorf("%s: %s, want %s", c[0], got, want)
		}
	}
}
