package discovery

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	acmeToken  = "acme-token-aaaaaaaaaaaa"
	otherToken = "other-token-bbbbbbbbbbb"
	readToken  = "reader-token-cccccccccc"
)

var (
	acmeKey  = ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	otherKey = ed25519.NewKeyFromSeed(append(make([]byte, ed25519.SeedSize-1), 1))
	gateNow  = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
)

func testGate() *Gate {
	public := func(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }
	return NewGate([]Publisher{
		{"acme", public(acmeKey), sha256.Sum256([]byte(acmeToken)),
			[]Source{{"acme:1", "https://one", "EPCIS-2.0"}, {"acme:2", "https://two", "EPCIS-2.0"}}},
		{"other", public(otherKey), sha256.Sum256([]byte(otherToken)),
			[]Source{{"other:1", "https://other", "EPCIS-1.2"}}},
	}, []Reader{{Token: sha256.Sum256([]byte(readToken)), Sources: []string{"acme:1"}}})
}

// signed is a compact JWS made by hand.
func signed(key ed25519.PrivateKey, header, payload string) string {
	enc := base64.RawURLEncoding.EncodeToString
	input := enc([]byte(header)) + "." + enc([]byte(payload))
	return input + "." + enc(ed25519.Sign(key, []byte(input)))
}

const acmeHeader = `{"alg":"EdDSA","kid":"acme"}`

// event is an ObjectEvent at an instant, of some objects and perhaps a source.
func event(at time.Time, source string, objects ...string) string {
	e := map[string]any{"type": "ObjectEvent", "action": "OBSERVE",
		"eventTime": at.Format(time.RFC3339), "eventTimeZoneOffset": "+00:00", "epcList": objects}
	if source != "" {
		e["crawld:source"] = source
	}
	text, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	return string(text)
}

func document(events ...string) string {
	return `{"@context":["https://ref.gs1.org/standards/epcis/2.0.0/epcis-context.jsonld",` +
		`{"crawld":"https://github.com/crawld/crawld#"}],"type":"EPCISDocument",` +
		`"schemaVersion":"2.0","creationDate":"2026-05-04T12:00:00Z","epcisBody":{"eventList":[` +
		strings.Join(events, ",") + `]}}`
}

func many(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("urn:x:", i)
	}
	return list
}

func TestGateTakes(t *testing.T) {
	other := event(gateNow.Add(-MaxPast), "acme:2", many(998)...)
	body := signed(acmeKey, acmeHeader, document(event(gateNow.Add(MaxFuture), "", "urn:x:a"), other))
	records, err := testGate().Check(acmeToken, []byte(" "+body+"\r\n"), gateNow)
	if err != nil {
		t.Fatal(err)
	}
	for i, source := range []string{"acme:1", "acme:2"} {
		r := records[i]
		if r.Event.Source != source || r.Publisher != "acme" || !r.Recorded.Equal(gateNow) ||
			string(r.Signature) != body {
			t.Errorf("event %d: %s %s %v %.20s", i, r.Event.Source, r.Publisher, r.Recorded, r.Signature)
		}
	}
	if len(records) != 2 || !slices.Equal(records[1].Event.EPCs, many(998)) {
		t.Errorf("%d records", len(records))
	}
}

// An error declaration has the time of the event in error, which may be long ago. When it
// was declared must lie near now.
func TestGateTakesLateErrorDeclarations(t *testing.T) {
	declared := func(at time.Time) string {
		long := gateNow.AddDate(-3, 0, 0)
		e := strings.TrimSuffix(event(long, "", "urn:x:a"), "}") + `,"eventID":"urn:uuid:` +
			`00000000-0000-4000-8000-000000000001","errorDeclaration":{"declarationTime":"` +
			at.Format(time.RFC3339) + `"}}`
		return signed(acmeKey, acmeHeader, document(e))
	}
	records, err := testGate().Check(acmeToken, []byte(declared(gateNow)), gateNow)
	if err != nil || len(records) != 1 || records[0].Event.Error == nil {
		t.Errorf("%v %v", records, err)
	}
	_, err = testGate().Check(acmeToken, []byte(declared(gateNow.AddDate(0, -2, 0))), gateNow)
	if code(err) != WrongTime || !strings.Contains(err.Error(), "declarationTime") {
		t.Errorf("%v", err)
	}
}

func code(err error) string {
	var r *Refusal
	if errors.As(err, &r) {
		return r.Code
	}
	return fmt.Sprintf("%T %v", err, err)
}

// hs256 is the classic forgery: the public key as the secret of a MAC.
func hs256(payload string) string {
	enc := base64.RawURLEncoding.EncodeToString
	input := enc([]byte(`{"alg":"HS256","kid":"acme"}`)) + "." + enc([]byte(payload))
	mac := hmac.New(sha256.New, acmeKey.Public().(ed25519.PublicKey))
	mac.Write([]byte(input))
	return input + "." + enc(mac.Sum(nil))
}

type refusalCase struct {
	name, token, body, code string
	status                  int
	text                    string // part of the answer
}

func refusalCases() []refusalCase {
	good := document(event(gateNow, "", "urn:x:a"))
	sign := func(payload string) string { return signed(acmeKey, acmeHeader, payload) }
	head := func(header string) string { return signed(acmeKey, header, good) }
	enc := base64.RawURLEncoding.EncodeToString
	jws := sign(good)
	parts := strings.Split(jws, ".")
	none := enc([]byte(`{"alg":"none","kid":"acme"}`)) + "." + parts[1] + "."
	return []refusalCase{
		{"too long", acmeToken, strings.Repeat("a", MaxBody+1), TooLarge, 413, "262144 bytes"},
		{"no token", "", jws, NoToken, 401, "Authorization: Bearer"},
		{"unknown token", acmeToken + "x", jws, UnknownToken, 401, "not known"},
		{"a reader's token", readToken, jws, UnknownToken, 401, "not known"},
		{"plain JSON", acmeToken, good, BadJWS, 400, "byte 0 is not of base64url"},
		{"empty", acmeToken, "", BadJWS, 400, "no compact JWS"},
		{"two parts", acmeToken, "a.b", BadJWS, 400, "no compact JWS"},
		{"line in the middle", acmeToken, jws[:9] + "\n" + jws[9:], BadJWS, 400, "byte 9 is not"},
		{"detached", acmeToken, parts[0] + ".." + parts[2], BadSignature, 403, "not that of the key"},
		{"header no JSON", acmeToken, head("kid"), BadJWS, 400, "no compact JWS"},
		{"kid twice", acmeToken, head(`{"alg":"EdDSA","kid":"other","kid":"acme"}`), BadJWS, 400, "JWS"},
		{"crit", acmeToken, head(`{"alg":"EdDSA","kid":"acme","crit":["b64"],"b64":false}`), BadJWS, 400,
			`header crit`},
		{"b64", acmeToken, head(`{"alg":"EdDSA","kid":"acme","b64":false}`), BadJWS, 400, `header b64`},
		{"alg none", acmeToken, none, BadAlgorithm, 400, `"none"; only EdDSA`},
		{"HS256 with the public key", acmeToken, hs256(good), BadAlgorithm, 400, `"HS256"; only EdDSA`},
		{"no alg", acmeToken, head(`{"kid":"acme"}`), BadAlgorithm, 400, "only EdDSA"},
		{"wrong kid", acmeToken, signed(otherKey, `{"alg":"EdDSA","kid":"other"}`, good), WrongKey, 403,
			`kid "other", the token is that of "acme"`},
		{"no kid", acmeToken, head(`{"alg":"EdDSA"}`), WrongKey, 403, `kid ""`},
		{"signed by another", acmeToken, signed(otherKey, acmeHeader, good), BadSignature, 403,
			`not that of the key "acme"`},
		{"own key in the header", acmeToken, signed(otherKey, fmt.Sprintf(`{"alg":"EdDSA","kid":"acme",`+
			`"jwk":{"kty":"OKP","crv":"Ed25519","x":"%s"}}`, enc(otherKey.Public().(ed25519.PublicKey))),
			good), BadSignature, 403, "not that of the key"},
		{"payload changed", acmeToken, changedPayload(jws), BadSignature, 403, "not that of the key"},
		{"no EPCIS", acmeToken, sign(`{"type":"ObjectEvent"}`), BadEPCIS, 422, ""},
		{"bad action", acmeToken, sign(strings.Replace(good, "OBSERVE", "CREATE", 1)), BadEPCIS, 422,
			"action"},
		{"long eventID", acmeToken, sign(strings.Replace(good, `"action"`,
			`"eventID":"urn:x:`+strings.Repeat("a", 512)+`","action"`, 1)), BadEPCIS, 422,
			"eventList[0].eventID: "},
		{"1001 objects", acmeToken, sign(document(event(gateNow, "", many(500)...),
			event(gateNow, "", many(501)...))), TooMany, 422, "1000"},
		{"a range of 10^18", acmeToken, sign(document(event(gateNow, "",
			"urn:x:[0-999999999999999999]"))), TooMany, 422, "1000"},
		{"foreign source", acmeToken, sign(document(event(gateNow, "acme:2", "urn:x:a"),
			event(gateNow, "other:1", "urn:x:a"))), WrongSource, 403,
			`eventList[1]: crawld:source: "other:1" is no source of "acme"`},
		{"too old", acmeToken, sign(document(event(gateNow.Add(-MaxPast-time.Second), "", "urn:x:a"))),
			WrongTime, 422, "eventList[0].eventTime: 2026-04-04T11:59:59Z does not lie between"},
		{"too new", acmeToken, sign(document(event(gateNow.Add(MaxFuture+time.Second), "", "urn:x:a"))),
			WrongTime, 422, "eventList[0].eventTime: 2026-05-04T12:05:01Z does not lie between"},
	}
}

// changedPayload flips a bit in the middle part.
func changedPayload(jws string) string {
	b := []byte(jws)
	i := strings.Index(jws, ".") + 200
	b[i] = map[bool]byte{true: 'B', false: 'A'}[b[i] == 'A']
	return string(b)
}

func TestRefusals(t *testing.T) {
	g, seen := testGate(), map[string]bool{}
	for _, c := range refusalCases() {
		records, err := g.Check(c.token, []byte(c.body), gateNow)
		var r *Refusal
		if !errors.As(err, &r) || r.Code != c.code || r.Status != c.status || records != nil ||
			!strings.Contains(r.Text, c.text) || strings.ContainsAny(r.Text, "\r\n") {
			t.Errorf("%s: %d records, %v (%s)\nwant %d %s %s", c.name, len(records), err, code(err),
				c.status, c.code, c.text)
		}
		seen[c.code] = true
	}
	for _, c := range Codes() {
		if !seen[c] || statuses[c] == 0 {
			t.Errorf("no case for %s", c)
		}
	}
}

// A publication in which several things are wrong is refused for the first of them: what an
// outsider may learn does not depend on what is behind.
func TestOrderOfChecks(t *testing.T) {
	long := gateNow.AddDate(-1, 0, 0)
	allWrong := document(event(long, "other:1", many(1001)...))
	foreignAndLate := document(event(long, "other:1", "urn:x:a"))
	wrongKid := `{"alg":"EdDSA","kid":"nobody"}`
	for i, c := range []struct{ token, body, want string }{
		{"", strings.Repeat("?", MaxBody+1), TooLarge},
		{"", "?", NoToken},
		{"unknown", "?", UnknownToken},
		{acmeToken, "?", BadJWS},
		{acmeToken, signed(otherKey, `{"alg":"ES256","kid":"nobody"}`, "?"), BadAlgorithm},
		{acmeToken, signed(otherKey, wrongKid, "?"), WrongKey},
		{acmeToken, signed(otherKey, acmeHeader, "?"), BadSignature},
		{acmeToken, signed(acmeKey, acmeHeader, "?"), BadEPCIS},
		{acmeToken, signed(acmeKey, acmeHeader, allWrong), TooMany},
		{acmeToken, signed(acmeKey, acmeHeader, foreignAndLate), WrongSource},
		{acmeToken, signed(acmeKey, acmeHeader, document(event(long, "", "urn:x:a"))), WrongTime},
	} {
		if _, err := testGate().Check(c.token, []byte(c.body), gateNow); code(err) != c.want ||
			c.want != Codes()[i] {
			t.Errorf("check %d: %s, want %s", i, code(err), c.want)
		}
	}
}

func TestAdmit(t *testing.T) {
	for _, c := range []struct {
		token string
		size  int64
		want  string
	}{{"", MaxBody + 1, TooLarge}, {"", MaxBody, NoToken}, {"x", -1, UnknownToken}} {
		if err := testGate().Admit(c.token, c.size); code(err) != c.want {
			t.Errorf("%q %d: %v, want %s", c.token, c.size, err, c.want)
		}
	}
	if err := testGate().Admit(acmeToken, MaxBody); err != nil {
		t.Error(err)
	}
}

func TestReaders(t *testing.T) {
	g := testGate()
	r, err := g.Reader(readToken)
	if err != nil || !r.Visible("acme:1") || !r.Visible("") || r.Visible("acme:2") {
		t.Errorf("%+v %v", r, err)
	}
	for token, want := range map[string]string{"": NoToken, acmeToken: UnknownToken} {
		if _, err := g.Reader(token); code(err) != want {
			t.Errorf("%q: %v", token, err)
		}
	}
	if r, err := NewGate(nil, nil).Reader(""); err != nil || !r.Visible("anything") {
		t.Errorf("without readers: %+v %v", r, err)
	}
	if _, err := NewGate(nil, nil).Publisher(acmeToken); code(err) != UnknownToken {
		t.Errorf("without publishers: %v", err)
	}
	if got := g.Source("acme:2"); got != (Source{"acme:2", "https://two", "EPCIS-2.0"}) {
		t.Errorf("%+v", got)
	}
	if got := g.Source("gone"); got != (Source{ID: "gone"}) {
		t.Errorf("%+v", got)
	}
}

// Whatever comes, it is refused or signed by the publisher whose token it is, in bounds.
func FuzzGate(f *testing.F) {
	g := testGate()
	for _, c := range refusalCases() {
		if len(c.body) < 10000 {
			f.Add(c.token, []byte(c.body), "", int64(0))
		}
	}
	for _, payload := range []string{document(event(gateNow, "", "urn:x:a")), "{}",
		document(event(gateNow, "acme:2", "urn:x:[1-7]"), event(gateNow, "", "urn:x:b"))} {
		f.Add(acmeToken, []byte(acmeHeader), payload, int64(1))
	}
	f.Fuzz(func(t *testing.T, token string, body []byte, payload string, shift int64) {
		if payload != "" { // the body is the header of what is signed well
			body = []byte(signed(acmeKey, string(body), payload))
		}
		now := gateNow.Add(time.Duration(shift % int64(100*24*time.Hour)))
		records, err := g.Check(token, body, now)
		if err != nil {
			if r := (*Refusal)(nil); !errors.As(err, &r) || r.Status == 0 || len(r.Text) > 2000 ||
				records != nil {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		objects := 0
		for _, r := range records {
			objects += len(r.Event.EPCs) + len(r.Event.Inputs)
			at := r.Event.Time
			if r.Event.Error != nil {
				at = r.Event.Error.Time
			}
			if r.Publisher != "acme" && r.Publisher != "other" || at.After(now.Add(MaxFuture)) ||
				at.Before(now.Add(-MaxPast)) || !strings.HasPrefix(r.Event.Source, r.Publisher+":") {
				t.Fatalf("taken at %v: %+v", now, r)
			}
		}
		if objects > MaxObjects || token != acmeToken && token != otherToken {
			t.Fatalf("%d objects with token %q", objects, token)
		}
	})
}
