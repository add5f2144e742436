package crawld

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
	"testing"
)

// fuzzTarget is a function that `go test -fuzz` can run.
type fuzzTarget struct {
	place  string // file:line: name
	corpus string // folder of its inputs, slash-separated, from the module's root
	adds   bool   // it calls Add on its *testing.F
}

// fuzzTargets lists the fuzz targets of a test file.
func fuzzTargets(name string, text []byte) ([]fuzzTarget, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, 0)
	if err != nil {
		return nil, err
	}
	var targets []fuzzTarget
	for _, d := range file.Decls {
		f, is := d.(*ast.FuncDecl)
		if !is || f.Recv != nil || !strings.HasPrefix(f.Name.Name, "Fuzz") {
			continue
		}
		targets = append(targets, fuzzTarget{adds: adds(f),
			place:  fmt.Sprintf("%s:%d: %s", name, fset.Position(f.Pos()).Line, f.Name.Name),
			corpus: path.Join(path.Dir(name), "testdata/fuzz", f.Name.Name)})
	}
	return targets, nil
}

// adds tells whether a fuzz target gives its *testing.F a seed.
func adds(target *ast.FuncDecl) bool {
	params := target.Type.Params.List
	if len(params) != 1 || len(params[0].Names) != 1 {
		return false
	}
	found := false
	ast.Inspect(target.Body, func(n ast.Node) bool {
		if sel, is := n.(*ast.SelectorExpr); is && sel.Sel.Name == "Add" {
			x, is := sel.X.(*ast.Ident)
			found = found || is && x.Name == params[0].Names[0].Name
		}
		return true
	})
	return found
}

// mostInputs is how many files of a corpus can still be read by a human.
const mostInputs = 20

// judgeSeeds holds that every target has seeds, else `go test` would run it on nothing, and
// that a corpus belongs to a target and is small. corpora is the number of files by folder.
func judgeSeeds(targets []fuzzTarget, corpora map[string]int) (faults []string) {
	left := map[string]bool{}
	for folder, files := range corpora {
		left[folder] = true
		if files > mostInputs {
			faults = append(faults, fmt.Sprintf("%s: %d inputs, at most %d", folder, files, mostInputs))
		}
	}
	for _, f := range targets {
		delete(left, f.corpus)
		if !f.adds && corpora[f.corpus] == 0 {
			faults = append(faults, f.place+" has no seeds")
		}
	}
	for folder := range left {
		faults = append(faults, folder+" belongs to no fuzz target")
	}
	slices.Sort(faults)
	return faults
}

func TestFuzzTargetsHaveSeeds(t *testing.T) {
	var targets []fuzzTarget
	corpora := map[string]int{}
	walk(t, func(name string, text []byte) {
		if strings.Contains(name, "testdata/fuzz/") {
			corpora[path.Dir(name)]++
		}
		if strings.HasSuffix(name, "_test.go") {
			more, err := fuzzTargets(name, text)
			if err != nil {
				t.Fatal(err)
			}
			targets = append(targets, more...)
		}
	})
	for _, fault := range judgeSeeds(targets, corpora) {
		t.Error(fault)
	}
	t.Logf("%d fuzz targets, %d corpora", len(targets), len(corpora))
	if len(targets) < 30 {
		t.Errorf("only %d fuzz targets found", len(targets))
	}
}

func TestSeedsCatchOffenders(t *testing.T) {
	const own = "a/testdata/fuzz/FuzzA"
	for _, c := range []struct {
		body    string // of FuzzA in a/a_test.go
		corpora map[string]int
		want    string
	}{
		{"f.Add(1)", nil, ""},
		{"for range 3 { f.Add(1) }", map[string]int{own: 1}, ""},
		{"", map[string]int{own: 1}, ""},
		{"f.Fuzz(nil)", nil, "a/a_test.go:2: FuzzA has no seeds"},
		{"g.Add(1)", map[string]int{own: 0}, "has no seeds"},
		{"f.Add(1)", map[string]int{"a/testdata/fuzz/FuzzB": 1}, "belongs to no fuzz target"},
		{"f.Add(1)", map[string]int{own: mostInputs + 1}, "21 inputs, at most 20"},
	} {
		text := "package a\nfunc FuzzA(f *testing.F) { " + c.body + " }\nfunc TestA(t *testing.T) {}"
		targets, err := fuzzTargets("a/a_test.go", []byte(text))
		if err != nil || len(targets) != 1 {
			t.Fatalf("%d targets, %v", len(targets), err)
		}
		got := strings.Join(judgeSeeds(targets, c.corpora), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%q, %v: %q, want %q", c.body, c.corpora, got, c.want)
		}
	}
}
