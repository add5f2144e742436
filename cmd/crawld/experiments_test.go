package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/rival"
)

// The document and its pictures. Each experiment stands between two marks:
//
//	<!-- run: ARGUMENTS | small: ARGUMENTS -->
//	what the command says
//	<!-- end -->
//
// CRAWLD_EXPERIMENTS writes the document anew. "all" or the beginning of some arguments
// runs those commands for it at full size; `make experiments` does that for all but those
// that need PostgreSQL, which "all" leaves out.
const (
	experimentsFile = "../../docs/experiments.md"
	experimentsVar  = "CRAWLD_EXPERIMENTS"
)

var (
	experimentMark = regexp.MustCompile(`(?s)<!-- run: ([^|\n]+?) \| small: ([^\n]*?) -->\n(.*?)<!-- end -->\n`)
	smallNumber    = regexp.MustCompile(`[0-9.]+`)
)

// experiment is one marked part of the document.
type experiment struct {
	args, small []string
	text        string
}

func experiments(t *testing.T, doc string) []experiment {
	t.Helper()
	var all []experiment
	for _, m := range experimentMark.FindAllStringSubmatch(doc, -1) {
		all = append(all, experiment{strings.Fields(m[1]), strings.Fields(m[2]), m[3]})
	}
	if marks := strings.Count(doc, "<!-- run:"); marks != len(all) || marks < 10 {
		t.Fatalf("%d marks, %d experiments", marks, len(all))
	}
	return all
}

// file is where an experiment's numbers and picture stand, beside the document.
func (e experiment) file(extension string) string {
	name := strings.Join(e.args[1:], "-")
	name = strings.NewReplacer("--", "", "/", "-", ".", "-").Replace(name)
	return "experiments/" + name + extension
}

// postgres tells whether it needs a PostgreSQL server.
func (e experiment) postgres() bool { return slices.Contains(e.args, "--postgres") }

// says runs the command.
func (e experiment) says(t *testing.T, format string, more ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	args := slices.Concat(e.args, more, []string{"--output", format})
	for i, arg := range args { // the document's commands start in the project's folder
		if strings.HasPrefix(arg, "docs/") {
			args[i] = "../../" + arg
		}
	}
	if code := run(t.Context(), args, strings.NewReader(""), &out, &errs); code != exitOK {
		t.Fatalf("crawld %s: %d %s", strings.Join(args, " "), code, errs.String())
	}
	return out.String()
}

// shown is what the document has between the marks.
func (e experiment) shown(t *testing.T, numbers string) string {
	t.Helper()
	var table strings.Builder
	if err := decodeFigure(t, numbers).Write(&table, "table"); err != nil {
		t.Fatal(err)
	}
	command := strings.Join(e.args, " ")
	return "\n```console\n$ crawld " + command + "\n```\n\n![" + command + "](" + e.file(".svg") +
		")\n\n```text\n" + table.String() + "```\n\n"
}

func decodeFigure(t *testing.T, numbers string) *figure.Figure {
	t.Helper()
	var f figure.Figure
	dec := json.NewDecoder(strings.NewReader(numbers))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
		t.Fatal(err)
	}
	return &f
}

// outline is what a figure shows, without its numbers: the names of axes, series and
// facts, in which N and theta may stand.
func outline(f *figure.Figure) string {
	var b strings.Builder
	line := func(parts ...string) {
		b.WriteString(smallNumber.ReplaceAllString(strings.Join(parts, " | "), "#") + "\n")
	}
	for _, p := range f.Panels {
		line(p.Title, p.X.Label, p.X.Unit, p.Y.Label, p.Y.Unit)
		for _, s := range p.Series {
			line(s.Name, s.Style.String())
		}
	}
	seen := map[string]bool{}
	for _, fact := range f.Facts {
		name := smallNumber.ReplaceAllString(fact.Name, "#")
		if !seen[name] { // fewer settings give fewer facts of a kind
			line(name, fact.Unit, fact.Paper)
		}
		seen[name] = true
	}
	return b.String()
}

// The document's commands are commands, their tables are those of the numbers beside it,
// and each shows what its command shows today, run at small size.
func TestExperimentsDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(experimentsFile)
	if err != nil {
		t.Fatal(err)
	}
	doc, wanted := string(text), os.Getenv(experimentsVar)
	var written strings.Builder
	rest := doc
	for _, e := range experiments(t, doc) {
		command := strings.Join(e.args, " ")
		if wanted == "all" && !e.postgres() || wanted != "" && strings.HasPrefix(command, wanted) {
			e.write(t)
		}
		numbers, err := os.ReadFile("../../docs/" + e.file(".json"))
		if err != nil {
			t.Errorf("%s: %v: make experiments writes it", command, err)
			continue
		}
		if wanted != "" {
			begin, after, _ := strings.Cut(rest, " -->\n"+e.text+"<!-- end -->\n")
			written.WriteString(begin + " -->\n" + e.shown(t, string(numbers)) + "<!-- end -->\n")
			rest = after
			continue
		}
		if e.text != e.shown(t, string(numbers)) {
			t.Errorf("%s: the document does not show %s: run make experiments", command, e.file(".json"))
		}
		e.checkPicture(t, string(numbers))
		if _, err := rival.Installed(); err != nil && e.postgres() {
			t.Logf("%s is not run: %v", command, err)
			continue
		}
		if len(e.small) == 0 {
			continue
		}
		full, small := outline(decodeFigure(t, string(numbers))), outline(decodeFigure(t, e.says(t, "json", e.small...)))
		if full != small {
			t.Errorf("%s shows something else now: run make experiments\nin the document:\n%s\nnow:\n%s",
				command, full, small)
		}
	}
	if wanted != "" && !t.Failed() {
		if err := os.WriteFile(experimentsFile, []byte(written.String()+rest), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// write runs the experiment at full size.
func (e experiment) write(t *testing.T) {
	t.Helper()
	numbers := e.says(t, "json")
	for extension, data := range map[string]string{".json": numbers, ".svg": e.picture(t, numbers)} {
		file := filepath.Join("../../docs", e.file(extension))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// picture is that of the numbers, except in the case study, where it is a timeline of
// some days.
func (e experiment) picture(t *testing.T, numbers string) string {
	t.Helper()
	if e.args[1] == "casestudy" {
		return e.says(t, "svg")
	}
	var svg strings.Builder
	if err := decodeFigure(t, numbers).Write(&svg, "svg"); err != nil {
		t.Fatal(err)
	}
	return svg.String()
}

// checkPicture holds the picture against the numbers.
func (e experiment) checkPicture(t *testing.T, numbers string) {
	t.Helper()
	got, err := os.ReadFile("../../docs/" + e.file(".svg"))
	if err != nil {
		t.Error(err)
		return
	}
	for dec := xml.NewDecoder(bytes.NewReader(got)); ; {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Errorf("%s: %v", e.file(".svg"), err)
			return
		}
	}
	if e.args[1] != "casestudy" && e.picture(t, numbers) != string(got) {
		t.Errorf("%s is not the picture of %s", e.file(".svg"), e.file(".json"))
	}
}

// The negative control: another figure's outline is not taken for this one's.
func TestOutlineTellsFiguresApart(t *testing.T) {
	t.Parallel()
	e := experiment{args: []string{"simulate", "easicrawl", "--figure", "5"}}
	five := decodeFigure(t, e.says(t, "json", "--runs", "1", "--sensors", "2"))
	e.args[3] = "7"
	seven := decodeFigure(t, e.says(t, "json", "--runs", "1", "--sensors", "2"))
	if outline(five) == outline(seven) {
		t.Error("figures 5 and 7 look alike")
	}
	renamed := *five
	renamed.Panels = slices.Clone(five.Panels)
	renamed.Panels[0].Series = slices.Clone(five.Panels[0].Series)
	renamed.Panels[0].Series[0].Name = "another policy"
	if outline(five) == outline(&renamed) {
		t.Error("a series can be renamed")
	}
}
