package epcis

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPublishedHashes(t *testing.T) {
	names, err := filepath.Glob("testdata/hashes/*.json")
	if err != nil {
		t.Fatal(err)
	}
	events := 0
	for _, name := range names {
		doc, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		list, err := os.ReadFile(strings.TrimSuffix(name, ".json") + ".hashes")
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Fields(string(list))
		d, err := Parse(doc, 1000)
		if err != nil || len(d.Events) != len(want) {
			t.Errorf("%s: %d events, want %d: %v", name, len(d.Events), len(want), err)
			continue
		}
		for i, e := range d.Events {
			events++
			if got := HashURI(e.Hash); got != want[i] {
				t.Errorf("%s, event %d: %s, want %s", name, i, got, want[i])
			}
		}
	}
	if events != 27 {
		t.Errorf("%d events were hashed", events)
	}
}
