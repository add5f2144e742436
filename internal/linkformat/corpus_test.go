package linkformat

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// document is one row of testdata/corpus/README.md with its files.
type document struct {
	name, verdict string
	body          []byte
	links         int    // -1 if the table has none
	typed, offset int    // offset is -1 for a valid body
	message       string // of the strict error
	strict        []byte // expected parse as JSON, or nil
	lenient       []byte
}

var errorNote = regexp.MustCompile(`-- byte (\d+): (.*)$`)

func corpus(t testing.TB) []document {
	t.Helper()
	table, err := os.ReadFile("testdata/corpus/README.md")
	if err != nil {
		t.Fatal(err)
	}
	var docs []document
	for line := range strings.Lines(string(table)) {
		cells := strings.Split(line, "|")
		if len(cells) < 9 || !strings.Contains(cells[1], "-") || strings.Contains(cells[1], "---") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		docs = append(docs, readDocument(t, cells))
	}
	if len(docs) != 60 {
		t.Fatalf("%d documents in the corpus table, want 60", len(docs))
	}
	return docs
}

func readDocument(t testing.TB, cells []string) document {
	t.Helper()
	d := document{name: cells[1], verdict: cells[2], links: -1, offset: -1}
	path := filepath.Join("testdata", "corpus", d.name)
	var err error
	if d.body, err = os.ReadFile(path + ".wlc"); err != nil {
		t.Fatal(err)
	}
	if size := strconv.Itoa(len(d.body)); size != cells[4] {
		t.Fatalf("%s: %s bytes, the table says %s", d.name, size, cells[4])
	}
	if cells[5] != "" {
		d.links, _ = strconv.Atoi(cells[5])
	}
	d.typed, _ = strconv.Atoi(cells[6])
	if m := errorNote.FindStringSubmatch(cells[8]); m != nil {
		d.offset, _ = strconv.Atoi(m[1])
		d.message = m[2]
	}
	d.strict, _ = os.ReadFile(path + ".json")
	d.lenient, _ = os.ReadFile(path + ".lenient.json")
	return d
}

// wantVerdict follows from which files there are.
func (d document) wantVerdict() Verdict {
	switch {
	case d.strict != nil:
		return Valid
	case d.lenient != nil:
		return Recovered
	}
	return Invalid
}

func TestCorpus(t *testing.T) {
	for _, d := range corpus(t) {
		t.Run(d.name, func(t *testing.T) {
			before := bytes.Clone(d.body)
			r := Parse(d.body)
			if !bytes.Equal(before, d.body) {
				t.Error("Parse altered the body")
			}
			if r.Verdict != d.wantVerdict() {
				t.Fatalf("verdict %s, want %s; error %v", r.Verdict, d.wantVerdict(), r.Err)
			}
			if len(r.Warnings) != d.typed {
				t.Errorf("%d warnings, want %d: %v", len(r.Warnings), d.typed, r.Warnings)
			}
			if d.links >= 0 && len(r.Links) != d.links {
				t.Errorf("%d links, want %d", len(r.Links), d.links)
			}
			checkError(t, d, r.Err)
			compareLinks(t, r.Links, d.strict, d.lenient)
			checkPlaces(t, d.body, r)
		})
	}
}

func checkError(t *testing.T, d document, err *SyntaxError) {
	t.Helper()
	switch {
	case d.offset < 0 && err != nil:
		t.Errorf("error %v in a valid body", err)
	case d.offset >= 0 && (err == nil || err.Offset != d.offset):
		t.Errorf("error %v, want one at byte %d", err, d.offset)
	case d.offset >= 0 && !strings.HasPrefix(err.Message, d.message):
		t.Errorf("message %q, want %q", err.Message, d.message)
	}
}

// compareLinks compares with the first of the expectations that exists.
func compareLinks(t *testing.T, links []Link, expectations ...[]byte) {
	t.Helper()
	for _, want := range expectations {
		if want == nil {
			continue
		}
		got, err := json.Marshal(orEmpty(links))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(fromJSON(t, want), fromJSON(t, got)); diff != "" {
			t.Errorf("links (-want +got):\n%s", diff)
		}
		return
	}
	if len(links) != 0 {
		t.Errorf("%d links of an invalid body", len(links))
	}
}

func fromJSON(t *testing.T, text []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// checkPlaces holds every offset against the body.
func checkPlaces(t testing.TB, body []byte, r Result) {
	t.Helper()
	if r.Err != nil && (r.Err.Offset < 0 || r.Err.Offset > len(body)) {
		t.Errorf("error at byte %d of %d", r.Err.Offset, len(body))
	}
	for _, notes := range [][]Note{r.Recovered, r.Warnings} {
		for i, n := range notes {
			if n.Offset < 0 || n.Offset >= len(body) || i > 0 && notes[i-1].Offset > n.Offset {
				t.Errorf("note %v out of range or order: %v", n, notes)
			}
		}
	}
	for _, l := range r.Links {
		if !bytes.HasPrefix(body[l.Offset:], []byte("<"+l.Target+">")) {
			t.Errorf("target %q is not at byte %d", l.Target, l.Offset)
		}
		for _, a := range l.Attrs {
			if !bytes.HasPrefix(body[a.Offset:], []byte(a.Name)) {
				t.Errorf("attribute %q is not at byte %d", a.Name, a.Offset)
			}
		}
	}
}

// The parser everyone writes first: split at "," and ";". That it fails on the
// corpus shows that the corpus tells parsers apart.
func TestCorpusCatchesNaiveSplit(t *testing.T) {
	wrong := 0
	for _, d := range corpus(t) {
		if d.strict == nil {
			continue
		}
		got, err := json.Marshal(naiveSplit(string(d.body)))
		if err != nil {
			t.Fatal(err)
		}
		if !cmp.Equal(fromJSON(t, d.strict), fromJSON(t, got)) {
			wrong++
		}
	}
	if wrong < 5 {
		t.Errorf("a naive split got only %d documents wrong", wrong)
	}
}

func naiveSplit(body string) []Link {
	links := []Link{}
	for member := range strings.SplitSeq(body, ",") {
		parts := strings.Split(member, ";")
		l := Link{Target: strings.Trim(parts[0], "<>")}
		for _, p := range parts[1:] {
			name, value, ok := strings.Cut(p, "=")
			l.Attrs = append(l.Attrs, Attr{Name: name, Value: strings.Trim(value, `"`), HasValue: ok})
		}
		links = append(links, l)
	}
	return links
}
