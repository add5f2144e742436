package crawld

import (
	"go/ast"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	goTest  = regexp.MustCompile("go test [^`]*")
	pattern = regexp.MustCompile(`-(run|bench)\s+(?:'([^']*)'|(\S+))`)
	within  = regexp.MustCompile(`\./[a-z/-]+`)
)

// namedNothing returns the commands in a text that run tests or benchmarks which are not in
// their package, and how many patterns there are.
func namedNothing(text string, tests map[string][]string) (faults []string, found int) {
	for _, command := range goTest.FindAllString(text, -1) {
		dir := strings.TrimPrefix(within.FindString(command), "./")
		for _, m := range pattern.FindAllStringSubmatch(command, -1) {
			kinds := map[string][]string{
				"run":   {"Test", "Fuzz"}, // a fuzz target's seeds
				"bench": {"Benchmark"},
			}[m[1]]
			for alternative := range strings.SplitSeq(m[2]+m[3], "|") {
				if alternative == "^$" || alternative == "." {
					continue
				}
				found++
				is := regexp.MustCompile(alternative)
				any := false
				for _, name := range tests[dir] {
					for _, kind := range kinds {
						any = any || strings.HasPrefix(name, kind) && is.MatchString(name)
					}
				}
				if !any {
					faults = append(faults, command+": no "+kinds[0]+" has "+alternative)
				}
			}
		}
	}
	return faults, found
}

// Every test, fuzz target and benchmark whose figure a document tells is there.
func TestDocumentsNameTests(t *testing.T) {
	tests := map[string][]string{} // by folder
	_, files := sources(t)
	for _, s := range files {
		for _, decl := range s.file.Decls {
			if f, is := decl.(*ast.FuncDecl); is && f.Recv == nil {
				tests[path.Dir(s.path)] = append(tests[path.Dir(s.path)], f.Name.Name)
			}
		}
	}
	total := 0
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "deploy/README.md",
		"docs/experiments.md", "docs/track-record.md"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		faults, found := namedNothing(string(text), tests)
		for _, fault := range faults {
			t.Errorf("%s: %s", name, fault)
		}
		total += found
	}
	if total < 40 {
		t.Errorf("only %d patterns found", total)
	}
	const wrong = "`go test -run 'VirtualDay|VirtualYear' ./internal/sim`, " +
		"`go test -run '^$' -bench VirtualDay ./internal/sim`"
	if faults, found := namedNothing(wrong, tests); len(faults) != 2 || found != 3 {
		t.Errorf("control: %d patterns, %q", found, faults)
	}
}
