package epcis

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// published are the documents of testdata/hashes by their names.
func published(t testing.TB) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("testdata/hashes/*.json")
	if err != nil || len(names) != 10 {
		t.Fatalf("%d documents: %v", len(names), err)
	}
	docs := map[string][]byte{}
	for _, name := range names {
		if docs[strings.TrimSuffix(name, ".json")], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return docs
}

func TestPublishedHashes(t *testing.T) {
	events := 0
	for name, doc := range published(t) {
		list, err := os.ReadFile(name + ".hashes")
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
	if events != 25 {
		t.Errorf("%d events were hashed", events)
	}
}

// The sample with all GS1 keys is in the reference implementation's repository too.
func TestHashOfAllKeys(t *testing.T) {
	d, err := Parse(samples(t, "Documents_epcisDocWithAllGS1Keys")["Documents_epcisDocWithAllGS1Keys.json"], 99)
	if err != nil {
		t.Fatal(err)
	}
	const want = "ni:///sha-256;40744f32beff53a4bf5bb5956d465cb52de5bbcc9f131409d8efb903b04d9351?ver=CBV2.0"
	if got := d.Events[0].EventID(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestDecimals(t *testing.T) {
	for text, want := range map[string]string{
		"1": "1", "1.0": "1", "0.3434000": "0.3434", "007": "7", "+3.50": "3.5", "-0.0": "0",
		"-12.50": "-12.5", "1e3": "1000", "1.25E+2": "125", "125e-2": "1.25", "1e-3": "0.001",
		"1.5e1": "15", ".5": "0.5", "5.": "5", "200.5": "200.5", "1e64": "1" + strings.Repeat("0", 64),
		"12345678901234567890.10": "12345678901234567890.1",
		// These are no numbers, or too long ones.
		"": "", "+": "+", ".": ".", "e3": "e3", "1e": "1e", "1e65": "1e65", "1e999": "1e999",
		"--1": "--1", "1.2.3": "1.2.3", "0x10": "0x10", "1 000": "1 000", "NaN": "NaN",
		"2019-10-21": "2019-10-21", "1e+-3": "1e+-3",
	} {
		if got := decimal(text); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}

// shuffled writes a JSON value with its members and entries in random order, with white space
// and with escapes. The order of entries has no meaning in any list of EPCIS.
func shuffled(rng *rand.Rand, v any) string {
	space := func() string { return []string{"", " ", "\n\t"}[rng.IntN(3)] }
	var parts []string
	open, end := "[", "]"
	switch v := v.(type) {
	case map[string]any:
		open, end = "{", "}"
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, shuffled(rng, key)+space()+":"+space()+shuffled(rng, v[key]))
		}
	case []any:
		for _, entry := range v {
			parts = append(parts, shuffled(rng, entry))
		}
	case string:
		text, _ := json.Marshal(v)
		if i := strings.IndexAny(v, "eE"); i >= 0 && rng.IntN(2) == 0 {
			text = bytes.Replace(text, []byte(v[i:i+1]), fmt.Appendf(nil, `\u%04x`, v[i]), 1)
		}
		return string(text)
	default:
		text, _ := json.Marshal(v)
		return string(text)
	}
	rng.Shuffle(len(parts), func(i, j int) { parts[i], parts[j] = parts[j], parts[i] })
	return open + space() + strings.Join(parts, space()+","+space()) + space() + end
}

// publishedEvents are the events of the published documents, each with its context.
func publishedEvents(t testing.TB) []map[string]any {
	t.Helper()
	docs := published(t)
	var list []map[string]any
	for _, name := range slices.Sorted(maps.Keys(docs)) {
		d := struct {
			Context any `json:"@context"`
			Body    struct {
				Events []map[string]any `json:"eventList"`
			} `json:"epcisBody"`
		}{}
		decoder := json.NewDecoder(bytes.NewReader(docs[name]))
		decoder.UseNumber()
		if err := decoder.Decode(&d); err != nil {
			t.Fatal(err)
		}
		for _, event := range d.Body.Events {
			event["@context"] = d.Context
			list = append(list, event)
		}
	}
	return list
}

// hashOf is the hash of an event alone.
func hashOf(doc string) (string, error) {
	d, err := Parse([]byte(doc), 1000)
	if err != nil {
		return "", err
	}
	return HashURI(d.Events[0].Hash), nil
}

// differing counts the random spellings of the published events whose hash is another.
func differing(t *testing.T, n int, hash func(string) (string, error)) (count, tried int) {
	rng := rand.New(rand.NewPCG(3, 8))
	for _, event := range publishedEvents(t) {
		first, err := hash(shuffled(rng, event))
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			tried++
			if other, err := hash(shuffled(rng, event)); err != nil || other != first {
				count++
			}
		}
	}
	return count, tried
}

func TestOrderAndWhiteSpaceDoNotCount(t *testing.T) {
	count, tried := differing(t, trials(40, 1000), hashOf)
	if count != 0 || tried < 1000 {
		t.Errorf("%d of %d differ", count, tried)
	}
}

// A twin that sorts members but not the entries of lists must be caught.
func TestOrderCatchesATwinThatDoesNotSort(t *testing.T) {
	count, tried := differing(t, 20, func(doc string) (string, error) {
		var v any
		err := json.Unmarshal([]byte(doc), &v)
		text, _ := json.Marshal(v)
		return fmt.Sprintf("%x", sha256.Sum256(text)), err
	})
	if count < tried/4 {
		t.Errorf("only %d of %d caught", count, tried)
	}
}

// change alters one random text or number below v, and returns the path to it.
func change(rng *rand.Rand, v any, path string) (any, string) {
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		key := keys[rng.IntN(len(keys))]
		changed, below := change(rng, v[key], path+"."+key)
		v = maps.Clone(v)
		v[key] = changed
		return v, below
	case []any:
		v = slices.Clone(v)
		i := rng.IntN(len(v))
		var below string
		v[i], below = change(rng, v[i], path+"[]")
		return v, below
	case string:
		// A query of a Digital Link says nothing of what the link identifies.
		link, query, found := strings.Cut(v, "?")
		if found {
			query = "?" + query
		}
		return link + "1" + query, path
	case json.Number:
		return json.Number(v.String() + "1"), path
	case bool:
		return !v, path
	}
	return v, path
}

// counts tells whether what is at a path says what happened.
func counts(path string) bool {
	key, _, _ := strings.Cut(strings.TrimPrefix(path, "."), ".")
	key, _, _ = strings.Cut(key, "[")
	return !unhashed[key] || key == "ilmd"
}

// unseen counts the random changes of the published events that leave a hash as it is.
func unseen(t *testing.T, n int, hash func(string) (string, error)) (count, tried int) {
	rng := rand.New(rand.NewPCG(4, 8))
	for _, event := range publishedEvents(t) {
		before, err := hash(shuffled(rng, event))
		if err != nil {
			t.Fatal(err)
		}
		for range n {
			changed, path := change(rng, event, "")
			after, err := hash(shuffled(rng, changed))
			if err != nil || strings.HasPrefix(path, ".@context") {
				continue // no event any more, or other names for the same extensions
			}
			switch same := after == before; {
			case !counts(path) && !same:
				t.Errorf("%s changes the hash", path)
			case counts(path) && same:
				count++
				fallthrough
			case counts(path):
				tried++
			}
		}
	}
	return count, tried
}

func TestEveryChangeOfWhatHappenedCounts(t *testing.T) {
	count, tried := unseen(t, trials(100, 1500), hashOf)
	if count != 0 || tried < 500 {
		t.Errorf("%d of %d are not seen", count, tried)
	}
}

// A twin that does not look at sensor data must be caught.
func TestChangesCatchATwinThatSkipsSensors(t *testing.T) {
	count, tried := unseen(t, 40, func(doc string) (string, error) {
		if _, err := hashOf(doc); err != nil {
			return "", err
		}
		var v map[string]any
		if err := json.Unmarshal([]byte(doc), &v); err != nil {
			return "", err
		}
		delete(v, "sensorElementList")
		text, err := json.Marshal(v)
		if err != nil {
			return "", err
		}
		return hashOf(string(text))
	})
	if count < 5 {
		t.Errorf("only %d of %d caught", count, tried)
	}
}
