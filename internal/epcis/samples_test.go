package epcis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// samples are the documents of testdata/samples that begin with the prefix.
func samples(t testing.TB, prefix string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/samples/" + prefix + "*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no samples %s*: %v", prefix, err)
	}
	docs := map[string][]byte{}
	for _, name := range names {
		if docs[filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return docs
}

func TestSampleDocumentsParse(t *testing.T) {
	docs := samples(t, "Documents_")
	if len(docs) != 11 {
		t.Errorf("%d documents", len(docs))
	}
	for name, doc := range docs {
		d, err := Parse(doc, 1000)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, e := range d.Events {
			t.Logf("%s %v %v %s %q %q %v %v %s", name, e.Kind, e.Action, e.Time, e.ID, e.Parent, e.EPCs, e.Inputs, HashURI(e.Hash))
		}
	}
}

func TestInvalidSamplesAreRefused(t *testing.T) {
	want := map[string]string{
		"Invalid_ObjectEvent_with_invalid_action.json": `eventList[0].action: "CREATE"; ` +
			"ADD, OBSERVE or DELETE was expected",
		"Invalid_ObjectEvent_with_invalid_eventTime_format.json": `eventList[0].eventTime: ` +
			`"22-07-2026": a date-time with offset was expected`,
		"Invalid_ObjectEvent_without_identifier_list.json": "eventList[0].epcList: " +
			"ObjectEvent without epcList, quantityList",
	}
	docs := samples(t, "Invalid_")
	for name, doc := range docs {
		if _, err := Parse(doc, 1000); err == nil || !strings.HasPrefix(err.Error(), want[name]) {
			t.Errorf("%s: %v\nwant %s", name, err, want[name])
		}
		delete(want, name)
	}
	if len(want) > 0 {
		t.Errorf("not there: %v", want)
	}
}
