package main

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	acmeToken  = "acme-token-aaaaaaaaaaaa"
	otherToken = "other-token-bbbbbbbbbbb"
)

// shop is a daemon's folder with two publishers, acme and other.
type shop struct {
	site
	keys map[string]jose.JSONWebKey // private, by kid
}

// newShop makes the keys with keygen. The sources are those of acme; "none" is the first.
func newShop(t *testing.T, sources ...string) shop {
	t.Helper()
	config := "sensor_files: [list.txt]\nlog: {level: debug, format: json}\npublishers:\n"
	s := shop{newSite(t, ""), map[string]jose.JSONWebKey{}}
	for _, kid := range []string{"acme", "other"} {
		if _, err := keygen(kid, s.path(kid)); err != nil {
			t.Fatal(err)
		}
		key, err := readKey(s.path(kid) + ".jwk")
		if err != nil {
			t.Fatal(err)
		}
		s.keys[kid] = key
		s.write(kid+".token", map[string]string{"acme": acmeToken, "other": otherToken}[kid]+"\n")
		config += fmt.Sprintf("  - {kid: %s, key_file: %s.pub.jwk, token_file: %s.token, sources: [", kid,
			kid, kid)
		if kid == "other" {
			sources = []string{"elsewhere"}
		} else {
			sources = append([]string{"none"}, sources...)
		}
		for _, id := range sources {
			config += fmt.Sprintf("{id: %q, address: %q, type: EPCIS-2.0},", id, "https://"+id+".example")
		}
		config += "]}\n"
	}
	s.write("list.txt", "coap://192.0.2.1/\n")
	s.write("crawld.yaml", config)
	return s
}

func (s shop) sign(kid string, document []byte) string {
	s.t.Helper()
	jws, err := sign(document, s.keys[kid])
	if err != nil {
		s.t.Fatal(err)
	}
	return jws
}

// send posts a publication.
func (c client) send(token, contentType, body string) (status int, answer string, err error) {
	req, err := http.NewRequest(http.MethodPost, "http://crawld/events", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	req.Header.Set("Content-Type", contentType)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return c.answer(req)
}

// epcisDocument puts events into a document.
func epcisDocument(t testing.TB, events ...map[string]any) []byte {
	t.Helper()
	text, err := json.Marshal(map[string]any{
		"@context": []any{"https://ref.gs1.org/standards/epcis/2.0.0/epcis-context.jsonld",
			map[string]string{"crawld": "https://github.com/crawld/crawld#"}},
		"type": "EPCISDocument", "schemaVersion": "2.0", "creationDate": "2026-05-04T12:00:00Z",
		"epcisBody": map[string]any{"eventList": events}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// observed is an ObjectEvent.
func observed(id string, at time.Time, epcs ...string) map[string]any {
	return map[string]any{"type": "ObjectEvent", "action": "OBSERVE", "eventID": id,
		"eventTime": at.UTC().Format(time.RFC3339Nano), "eventTimeZoneOffset": "+00:00", "epcList": epcs}
}

func numbered(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint("urn:x:", i)
	}
	return list
}

// eventCount asks a daemon how many events it has.
func eventCount(t *testing.T, c client) (n int) {
	t.Helper()
	for target := "/events?perPage=1000"; target != ""; {
		resp, err := c.http.Get("http://crawld" + target)
		if err != nil {
			t.Fatal(err)
		}
		var page struct {
			Body struct {
				Results struct {
					Body struct {
						EventList []any `json:"eventList"`
					} `json:"resultsBody"`
				} `json:"queryResults"`
			} `json:"epcisBody"`
		}
		err = json.NewDecoder(resp.Body).Decode(&page)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %v", target, resp.Status, err)
		}
		n += len(page.Body.Results.Body.EventList)
		target, _, _ = strings.Cut(strings.TrimPrefix(resp.Header.Get("Link"), "<"), ">")
	}
	return n
}

// forged is a JWS that acme has not signed: without a signature, with a MAC whose secret is
// acme's public key, or with other's signature under acme's kid.
func forged(s shop, alg string, document []byte) string {
	enc := base64.RawURLEncoding.EncodeToString
	if alg == "EdDSA" {
		key := s.keys["other"]
		key.KeyID = "acme"
		jws, err := sign(document, key)
		if err != nil {
			s.t.Fatal(err)
		}
		return jws
	}
	input := enc(fmt.Appendf(nil, `{"alg":%q,"kid":"acme"}`, alg)) + "." + enc(document)
	if alg == "none" {
		return input + "."
	}
	key := s.keys["acme"]
	public := key.Public()
	mac := hmac.New(sha256.New, public.Key.(ed25519.PublicKey))
	mac.Write([]byte(input))
	return input + "." + enc(mac.Sum(nil))
}

// refused is a publication with the answer that it must get.
type refused struct {
	name, token, body string
	status            int
	code              string
}

func refusals(s shop, fresh []byte) []refused {
	now := time.Now()
	of := func(events ...map[string]any) string {
		return s.sign("acme", epcisDocument(s.t, events...))
	}
	foreign := observed("urn:x:e", now, "urn:x:o")
	foreign["crawld:source"] = "elsewhere"
	old := observed("urn:x:f", now.AddDate(0, 0, -31), "urn:x:o")
	early := observed("urn:x:e", now.Add(6*time.Minute), "urn:x:o")
	cases := []refused{
		{"no token", "", s.sign("acme", fresh), 401, "no_token"},
		{"unknown token", acmeToken + "x", s.sign("acme", fresh), 401, "unknown_token"},
		{"wrong kid", acmeToken, s.sign("other", fresh), 403, "wrong_kid"},
		{"alg none", acmeToken, forged(s, "none", fresh), 400, "bad_algorithm"},
		{"HS256 with the public key", acmeToken, forged(s, "HS256", fresh), 400, "bad_algorithm"},
		{"bad signature", acmeToken, forged(s, "EdDSA", fresh), 403, "bad_signature"},
		{"foreign source", acmeToken, of(foreign), 403, "wrong_source"},
		{"too old", acmeToken, of(old), 422, "wrong_time"},
		{"too new", acmeToken, of(early), 422, "wrong_time"},
		{"one of two too old", acmeToken, of(observed("urn:x:e", now, "urn:x:o"), old), 422,
			"wrong_time"},
		{"1001 objects", acmeToken, of(observed("urn:x:e", now, numbered(1001)...)), 422,
			"too_many_objects"},
		{"a range of 10^9", acmeToken, of(observed("urn:x:e", now, "urn:x:[001-1000000000]")), 422,
			"too_many_objects"},
		{"300 KB", acmeToken, strings.Repeat("a", 300<<10), 413, "too_large"},
		{"300 KB signed", acmeToken, s.sign("acme", make([]byte, 300<<10)), 413, "too_large"},
	}
	epcis := filepath.Join("..", "..", "internal", "epcis")
	samples, err := filepath.Glob(filepath.Join(epcis, "testdata", "*", "Invalid_*"))
	if err != nil || len(samples) < 3 {
		s.t.Fatalf("%d invalid samples, %v", len(samples), err)
	}
	for _, sample := range samples {
		text, err := os.ReadFile(sample)
		if err != nil {
			s.t.Fatal(err)
		}
		cases = append(cases, refused{filepath.Base(sample), acmeToken, s.sign("acme", text), 422,
			"bad_epcis"})
	}
	return cases
}

// What is refused is refused with an answer of its own, and nothing is written.
func TestPublishRefusesAndWritesNothing(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	d := s.run(binary(t))
	good := epcisDocument(t, observed("urn:x:first", time.Now(), "urn:x:o"))
	fresh := epcisDocument(t, observed("urn:x:second", time.Now(), "urn:x:o"))
	taken := func(document []byte, want int, part string) {
		t.Helper()
		status, answer, err := d.send(acmeToken, "application/jose", s.sign("acme", document))
		if err != nil || status != want || !strings.Contains(answer, part) {
			t.Errorf("%d %s %v, want %d", status, answer, err, want)
		}
	}
	taken(good, 201, `{"events":[{"event_id":"urn:x:first","stored":true}]}`)
	cases, answers := refusals(s, fresh), map[string]bool{}
	for _, c := range cases {
		status, answer, err := d.send(c.token, "application/jose", c.body)
		var f struct{ Error, Code string }
		if err == nil {
			err = json.Unmarshal([]byte(answer), &f)
		}
		if err != nil || status != c.status || f.Code != c.code || len(f.Error) < 10 {
			t.Errorf("%s: %d %s %v", c.name, status, answer, err)
		}
		answers[f.Error] = true
	}
	if len(answers) < len(cases)-3 { // both of 300 KB, and kinds of too old, may read alike
		t.Errorf("only %d different answers to %d refusals", len(answers), len(cases))
	}
	if n := eventCount(t, overSocket(s.data())); n != 1 {
		t.Errorf("%d events are stored, one was accepted", n)
	}
	taken(good, 200, `"stored":false`)
	taken(fresh, 201, `"stored":true`) // the control: what is stored is counted
	if n := eventCount(t, overSocket(s.data())); n != 2 {
		t.Errorf("%d events are stored, two were accepted", n)
	}
	d.kill()
	s.check(binary(t))
}

// Over the network a reader needs its token and sees what it may; over the control socket
// all is seen.
func TestReadersOverTheNetwork(t *testing.T) {
	t.Parallel()
	s := newShop(t, "hidden")
	const readerToken = "reader-token-ccccccccc"
	s.write("reader.token", readerToken)
	config, err := os.ReadFile(s.path("crawld.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("crawld.yaml", string(config)+
		"readers: [{token_file: reader.token, sources: [none]}]\n")
	d := s.run(binary(t))
	hidden := observed("urn:x:hidden", time.Now(), "urn:x:o")
	hidden["crawld:source"] = "hidden"
	status, answer, err := d.send(acmeToken, "application/jose", s.sign("acme",
		epcisDocument(t, observed("urn:x:shown", time.Now(), "urn:x:o"), hidden)))
	if err != nil || status != http.StatusCreated {
		t.Fatalf("%d %s %v", status, answer, err)
	}
	address := ""
	for _, l := range d.lines() {
		if l.Msg == "ready" {
			address = "http://" + l.HTTP
		}
	}
	for _, c := range []struct {
		args      []string
		want, not string
	}{
		{[]string{"--server", address, "--token-file", s.path("reader.token")}, `"withheld": 1`,
			"urn:x:hidden"},
		{[]string{"--data", s.data()}, `"event_id": "urn:x:hidden"`, `"withheld": 1`},
	} {
		args := append([]string{"trace", "urn:x:o", "-o", "json"}, c.args...)
		out := string(stdout(t, binary(t), args...))
		if !strings.Contains(out, c.want) || !strings.Contains(out, "urn:x:shown") ||
			strings.Contains(out, c.not) {
			t.Errorf("%v: %s", c.args, out)
		}
	}
	for _, token := range []string{"", acmeToken} {
		args := []string{"trace", "urn:x:o", "--server", address}
		if token != "" {
			args = append(args, "--token-file", s.path("acme.token"))
		}
		out, err := exec.Command(binary(t), args...).CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), "401 Unauthorized: ") {
			t.Errorf("%v %s", err, out)
		}
	}
}
