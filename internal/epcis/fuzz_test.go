package epcis

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func seeds(f *testing.F) {
	for _, pattern := range []string{"samples/*.json", "hashes/*.json"} {
		names, err := filepath.Glob("testdata/" + pattern)
		if err != nil || len(names) < 10 {
			f.Fatal(len(names), err)
		}
		for _, name := range names {
			doc, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(doc)
		}
	}
	for _, doc := range []string{
		``, `{}`, `[[`, `{"type":"ObjectEvent"}`, objectEvent(`"epcList":["urn:x1:y:[008-11]"]`),
		timedEvent(`"type":"AssociationEvent","action":"ADD","parentID":"coap://[::1]",` +
			`"childEPCs":["https://a.example/gtin/9780345418913/ser/%41"]`),
		document(objectEvent(`"ex:a":[[],{},[{"b":1E5}],null,"\ud83d\ude00"]`)),
	} {
		f.Add([]byte(doc))
	}
}

// FuzzParse: never panics, and what it takes is in canonical form, counted, and the same
// event when what it kept as Raw is parsed in the document's context.
func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		const most = 100
		d, err := Parse(doc, most)
		if err != nil {
			if err.Error() == "" || len(d.Events) > 0 || len(err.Error()) > 4000 {
				t.Fatalf("%+v, %v", d, err)
			}
			return
		}
		listed := 0
		for i := range d.Events {
			e := &d.Events[i]
			listed += len(e.EPCs) + len(e.Inputs)
			checkEvent(t, e)
			checkRaw(t, doc, e)
		}
		if d.Objects > most || listed > d.Objects+len(d.Events) {
			t.Fatalf("%d objects, %d listed", d.Objects, listed)
		}
	})
}

func checkEvent(t *testing.T, e *Event) {
	t.Helper()
	for _, id := range append(append([]string{}, e.EPCs...), e.Inputs...) {
		if again, err := Canonical(id); err != nil || again != id {
			t.Fatalf("%q becomes %q, %v", id, again, err)
		}
	}
	if e.Kind < Object || e.Kind > Transaction || e.Time.Location() != time.UTC ||
		!e.Time.Equal(e.Time.Truncate(time.Microsecond)) {
		t.Fatalf("%+v", e)
	}
	if (e.Action == None) != (e.Kind == Transformation) || e.EventID() == "" {
		t.Fatalf("%+v", e)
	}
}

func checkRaw(t *testing.T, doc []byte, e *Event) {
	t.Helper()
	root, err := readJSON(doc)
	if err != nil {
		t.Fatal(err)
	}
	text := bytes.Clone(e.Raw)
	if context := root.get("@context"); context != nil && root.get("epcisBody") != nil {
		text = []byte(`{"@context":` + string(doc[context.start:context.end]) +
			`,"type":"EPCISDocument","epcisBody":{"eventList":[` + string(e.Raw) + `]}}`)
	}
	d, err := Parse(text, 100)
	if err != nil || len(d.Events) != 1 || !reflect.DeepEqual(d.Events[0], *e) {
		t.Fatalf("%s\n%+v\n%+v, %v", text, *e, d, err)
	}
}

func FuzzCanonical(f *testing.F) {
	for _, id := range strings.Fields(`urn:epc:id:sgtin:0614141.112345.400 URN:EPC:ID:SSCC:0
		https://a.example:443/gtin/9780345418913/ser/%41?x COAP://[FE80::1%25e]:5683 urn:a%41:b
		http://u@H:80/%7e%2f http://h:80:80 http://h?x geo:1,2 urn:epc:idpat:cpi:0614141.A%23.*
		https://a.example/414/0614141123452/254/0 http://a//01/00000000 x:y`) {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		uri, err := Canonical(id)
		if err != nil {
			if uri != "" || len(id) > maxURI && !errors.Is(err, errLength) {
				t.Fatalf("%q, %v", uri, err)
			}
			return
		}
		if again, err := Canonical(uri); err != nil || again != uri || len(uri) > maxURI {
			t.Fatalf("%q becomes %q becomes %q, %v", id, uri, again, err)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	doc := []byte(document(timedEvent(`"type":"AggregationEvent","eventTimeZoneOffset":"+00:00",` +
		`"eventID":"urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6","action":"ADD",` +
		`"parentID":"urn:epc:id:sscc:0614141.1234567890","bizStep":"packing",` +
		`"readPoint":{"id":"urn:epc:id:sgln:0614141.12345.0"},"childEPCs":[` +
		strings.Repeat(`"urn:epc:id:sgtin:0614141.112345.400",`, 19) +
		`"https://id.gs1.org/01/09780345418913/21/7"]`)))
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(doc, 1000); err != nil {
			b.Fatal(err)
		}
	}
}
