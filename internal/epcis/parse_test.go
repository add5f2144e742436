package epcis

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// objectEvent is an event with the members given, which go before its own.
func objectEvent(members string) string {
	for _, d := range []string{`"type":"ObjectEvent"`, `"action":"OBSERVE"`,
		`"eventTime":"2026-07-22T06:45:00Z"`, `"epcList":["urn:dev:a"]`} {
		key, _, _ := strings.Cut(d, ":")
		if !strings.Contains(members, key+":") {
			members += "," + d
		}
	}
	return "{" + strings.TrimPrefix(members, ",") + "}"
}

// document puts events into an EPCISDocument.
func document(events ...string) string {
	return `{"@context":["https://ref.gs1.org/standards/epcis/epcis-context.jsonld",` +
		`{"ex":"https://example.org/ex/"}],"type":"EPCISDocument","schemaVersion":"2.0",` +
		`"creationDate":"2026-07-22T06:45:00Z","epcisBody":{"eventList":[` +
		strings.Join(events, ",") + `]}}`
}

// pairs reads a file of cases: a line, and the indented lines that belong to it.
func pairs(t *testing.T, name string) [][2]string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	var list [][2]string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		switch below, indented := strings.CutPrefix(line, "    "); {
		case line == "" || line[0] == '#':
		case indented:
			last := &list[len(list)-1]
			last[1] = strings.TrimSpace(last[1] + " " + below)
		default:
			list = append(list, [2]string{line})
		}
	}
	if len(list) < 5 {
		t.Fatalf("%s: only %d cases", name, len(list))
	}
	return list
}

// written is the document of a case: `object`, `event` or `document` and its text.
func written(line string) string {
	kind, text, _ := strings.Cut(line, " ")
	switch kind {
	case "object":
		return objectEvent(text)
	case "event":
		return timedEvent(text)
	}
	return text
}

func TestRefused(t *testing.T) {
	for _, c := range pairs(t, "refused.txt") {
		_, err := Parse([]byte(written(c[0])), 1000)
		if err == nil || !strings.HasPrefix(err.Error(), c[1]) {
			t.Errorf("%s\n%v\nwant %s", c[0], err, c[1])
		}
	}
	for doc, want := range map[string]string{
		"":                    "the document is no JSON: offset 0: ",
		"{\"type\":\"\xff\"}": "the document is not in UTF-8",
		strings.Repeat("[", 40) + strings.Repeat("]", 40): "offset 33: nested more than 32 deep",
	} {
		if _, err := Parse([]byte(doc), 1); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %s", doc, err, want)
		}
	}
}

// timedEvent is an event with the members given and a time.
func timedEvent(members string) string {
	return "{" + members + `,"eventTime":"2026-07-22T06:45:00Z"}`
}

func TestLongTextsMakeNoLongErrors(t *testing.T) {
	long := strings.Repeat("x", 100000)
	for _, doc := range []string{
		`{"type":"` + long + `"}`, `{"` + long + `":1,"` + long + `":1}`, objectEvent(`"` + long + `":1`),
		objectEvent(`"action":"` + long + `"`), objectEvent(`"bizStep":"` + long + `"`),
		objectEvent(`"eventTime":"` + long + `"`), objectEvent(`"eventID":"urn:x:` + long + `"`),
		objectEvent(`"epcList":["urn:x:` + long + `"]`), document(`{"type":"` + long + `"}`),
	} {
		if _, err := Parse([]byte(doc), 10); err == nil || len(err.Error()) > 300 {
			t.Errorf("%.60s: %.400v", doc, err)
		}
	}
	if _, err := Parse(make([]byte, maxBytes+1), 1); err == nil {
		t.Error("a document of any length is taken")
	}
}

func parseOne(t *testing.T, doc string) Event {
	t.Helper()
	d, err := Parse([]byte(doc), 1000)
	if err != nil || len(d.Events) != 1 {
		t.Fatalf("%s: %d events, %v", doc, len(d.Events), err)
	}
	return d.Events[0]
}

func TestParse(t *testing.T) {
	doc := document(objectEvent(`"eventID":"urn:uuid:1",` +
		`"eventTime":"2026-07-22T06:45:00.1234567+02:00","eventTimeZoneOffset":"-06:00",` +
		`"action":"ADD","bizStep":"cbv:BizStep-shipping",` +
		`"disposition":"ex:melting","crawld:source":"is-3","ex:a" : [1, 2],` +
		`"epcList":["urn:dev:a","URN:DEV:a","https://x.example/gtin/09780345418913/ser/7"],` +
		`"errorDeclaration":{"declarationTime":"2026-07-23T00:00:00Z",` +
		`"reason":"urn:epcglobal:cbv:er:incorrect_data","correctiveEventIDs":["urn:uuid:2"]}`))
	got := parseOne(t, doc)
	if got.Hash == [32]byte{} || !json.Valid(got.Raw) ||
		!strings.Contains(string(got.Raw), `"ex:a":[1,2]`) {
		t.Errorf("%x %s", got.Hash, got.Raw)
	}
	got.Hash, got.Raw = [32]byte{}, nil
	want := Event{Kind: Object, Action: Add,
		Time:   time.Date(2026, 7, 22, 4, 45, 0, 123456000, time.UTC),
		Offset: "-06:00", ID: "urn:uuid:1", BizStep: "shipping",
		Disposition: "https://example.org/ex/melting", Source: "is-3",
		EPCs: []string{"urn:dev:a", "https://id.gs1.org/01/09780345418913/21/7"},
		Error: &ErrorDeclaration{time.Date(2026, 7, 23, 0, 0, 0, 0, time.UTC), "incorrect_data",
			[]string{"urn:uuid:2"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}

// One thing has many spellings, with one meaning and one hash.
func TestSpellingsOfOneEvent(t *testing.T) {
	list := pairs(t, "spellings.txt")
	plain := parseOne(t, written(list[0][0]))
	for _, c := range list {
		e := parseOne(t, written(c[0]))
		if e.Hash != plain.Hash || e.BizStep != "shipping" || !e.Time.Equal(plain.Time) {
			t.Errorf("%s\n%+v\n%+v", c[0], e, plain)
		}
	}
}

func TestRoles(t *testing.T) {
	for _, c := range pairs(t, "roles.txt") {
		e := parseOne(t, timedEvent(c[0]))
		got := fmt.Sprintf("parent %q inputs %q epcs %q", e.Parent, e.Inputs, e.EPCs)
		if got != c[1] || !strings.Contains(c[0], e.Kind.String()) ||
			!strings.Contains(c[0], e.Action.String()) {
			t.Errorf("%s: %v %v %s", c[0], e.Kind, e.Action, got)
		}
	}
}

// A range is the same event as the list that it stands for.
func TestRanges(t *testing.T) {
	for _, c := range pairs(t, "ranges.txt") {
		e := parseOne(t, objectEvent(`"epcList":["`+c[0]+`"]`))
		if got := strings.Join(e.EPCs, " "); got != c[1] {
			t.Errorf("%s: %s\nwant %s", c[0], got, c[1])
		}
		list, err := json.Marshal(strings.Fields(c[1]))
		if err != nil {
			t.Fatal(err)
		}
		if other := parseOne(t, objectEvent(`"epcList":`+string(list))); other.Hash != e.Hash {
			t.Errorf("%s: another hash than the list", c[0])
		}
	}
	if e := parseOne(t, objectEvent(`"epcList":["coap://[::1]"]`)); e.EPCs[0] != "coap://[::1]/" {
		t.Errorf("%q", e.EPCs)
	}
}

func TestContexts(t *testing.T) {
	const of = `"disposition":"a:x","a:y":1,"epcList":["a:z"]`
	for context, want := range map[string]string{
		`{"a":"https://a.example/"}`:                         "https://a.example/",
		`["https://b.example/c",{"a":"https://a.example/"}]`: "https://a.example/",
		`{"a":{"@id":"https://a.example/","@type":"@id"}}`:   "https://a.example/",
		`{"a":7}`:             "a:",
		`"https://a.example"`: "a:",
	} {
		e := parseOne(t, objectEvent(`"@context":`+context+`,`+of))
		if e.Disposition != want+"x" || e.EPCs[0] != want+"z" {
			t.Errorf("%s: %s %s, want %s", context, e.Disposition, e.EPCs, want)
		}
		// Names are as good as what they stand for, but for the brackets around extensions.
		full := strings.ReplaceAll(of, `"a:`, `"`+want)
		full = strings.Replace(full, `"`+want+"y", `"a:y`, 1)
		if other := parseOne(t, objectEvent(`"@context":`+context+`,`+full)); other.Hash != e.Hash {
			t.Errorf("%s: another hash", context)
		}
	}
	// An event's own context goes before the document's.
	own := document(objectEvent(`"@context":{"ex":"https://own.example/"},"disposition":"ex:x"`))
	if e := parseOne(t, own); e.Disposition != "https://own.example/x" {
		t.Error(e.Disposition)
	}
	long := `"@context":{"a":"urn:a:` + strings.Repeat("x", maxURI) + `"}`
	for doc, want := range map[string]string{
		objectEvent(long):                   "@context.a: a URI of at most 512 bytes was expected",
		document(objectEvent(long)):         "eventList[0].@context.a: a URI of at most",
		objectEvent(`"@context":7`):         "@context: a number; a URI or an object was expected",
		objectEvent(`"@context":[["a:b"]]`): "@context: a list; a URI or an object was expected",
	} {
		if _, err := Parse([]byte(doc), 9); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestObjectsAreCounted(t *testing.T) {
	one := objectEvent(`"epcList":["urn:x:y:[1-998]","urn:x:z"]`)
	transformation := timedEvent(`"type":"TransformationEvent",` +
		`"inputEPCList":["urn:a:i"],"outputEPCList":["urn:a:i"]`)
	for _, c := range []struct {
		doc  string
		max  int
		want int // -1 = too many
	}{
		{document(), 0, 0},
		{one, 999, 999}, {one, 998, -1},
		{document(one, transformation), 1001, 1001}, {document(one, transformation), 1000, -1},
		{objectEvent(`"epcList":["urn:x:[1-1000000000]"]`), 1000, -1},
		{objectEvent(`"epcList":["urn:x:[0-` + strings.Repeat("9", 400) + `]"]`), 1 << 62, -1},
		{document(one, objectEvent(`"epcList":["urn:x:[1-18446744073709551616]"]`)), 1000, -1},
		{objectEvent(`"epcList":["urn:x:y","urn:x:y"]`), 1, -1},
	} {
		d, err := Parse([]byte(c.doc), c.max)
		if got := d.Objects; errors.Is(err, ErrTooMany) != (c.want < 0) || err == nil && got != c.want {
			t.Errorf("%.100s: %d, %v", c.doc, got, err)
		}
	}
	_, err := Parse([]byte(document(one, one)), 1000)
	want := "eventList[1].epcList: too many objects: 999 here and 999 before, 1000 are allowed"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestInstants(t *testing.T) {
	for text, want := range map[string]string{
		"2026-07-22T06:45:00Z":                   "2026-07-22T06:45:00Z",
		"2026-07-22T06:45:00.5+02:00":            "2026-07-22T04:45:00.5Z",
		"2005-04-03T20:33:31.116000-06:00":       "2005-04-04T02:33:31.116Z",
		"2026-07-22T06:45:00.99999999999999999Z": "2026-07-22T06:45:00.999999Z",
		"1969-12-31T23:59:59.9999999Z":           "1969-12-31T23:59:59.999999Z",
		"0001-01-01T00:00:00Z":                   "0001-01-01T00:00:00Z",
		"2026-07-22T06:45:00":                    "",
		"2026-07-22T06:45:00,5Z":                 "",
		"2026-07-22T06:45:00.Z":                  "",
		"2026-07-22t06:45:00z":                   "",
		"2026-07-22 06:45:00Z":                   "",
		"2026-07-22T06:45Z":                      "",
		"2026-02-29T06:45:00Z":                   "",
		"2026-07-22T24:00:00Z":                   "",
		"2026-07-22T23:59:60Z":                   "",
		"2026-07-22T06:45:00+15:00":              "",
		"2026-07-22T06:45:00+0200":               "",
		"22026-07-22T06:45:00Z":                  "",
	} {
		parsed, err := parseInstant(text)
		if (err == nil) != (want != "") {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := microseconds(text).Format(time.RFC3339Nano)
		if err == nil && (got != want || parsed.Location() != time.UTC) {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

func TestOwnHashIsNoID(t *testing.T) {
	e := parseOne(t, objectEvent(``))
	own := HashURI(e.Hash)
	if e.EventID() != own {
		t.Errorf("%s, want %s", e.EventID(), own)
	}
	if e := parseOne(t, objectEvent(`"eventID":"`+own+`"`)); e.ID != "" || e.EventID() != own {
		t.Errorf("ID %q", e.ID)
	}
	other := strings.Replace(own, "CBV2.0", "CBV2.1", 1)
	if e := parseOne(t, objectEvent(`"eventID":"`+other+`"`)); e.EventID() != other {
		t.Errorf("ID %q", e.ID)
	}
}

func TestNames(t *testing.T) {
	type pair struct {
		Kind   Kind
		Action Action
	}
	for k := Object; k <= Transaction; k++ {
		for a := None; a <= Delete; a++ {
			text, err := json.Marshal(pair{k, a})
			var back pair
			if err != nil || json.Unmarshal(text, &back) != nil || back != (pair{k, a}) {
				t.Errorf("%s is %v, %v", text, back, err)
			}
		}
	}
	text, err := json.Marshal(pair{Object, Add})
	if string(text) != `{"Kind":"ObjectEvent","Action":"ADD"}` || err != nil {
		t.Errorf("%s, %v", text, err)
	}
	if got := fmt.Sprint(Kind(9), Kind(0), Action(9)); got != "Kind(9) Kind(0) Action(9)" {
		t.Error(got)
	}
	if new(Kind).UnmarshalText(nil) == nil || new(Action).UnmarshalText([]byte("CREATE")) == nil {
		t.Error("a name that is none is taken")
	}
}
