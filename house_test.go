package crawld

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/crawld/crawld/"

// room is what the package of one folder may import and touch.
type room struct {
	imports string // rooms below internal/; "*" = all
	touch   touch
	also    string // packages a pure room may import although its touch says no
}

type touch int

const (
	world   touch = iota // clock, IO, logging
	values               // arguments only: the room is pure
	handed               // IO that it is handed, but neither clock nor network
	wiring               // world, and any room
	command              // wiring, and it may end the process
)

// rooms is the layering of the daemon. A new package needs a row.
var rooms = map[string]room{
	"internal/sleepplan":  {"", values, ""},
	"internal/linkformat": {"", values, "net/netip"},
	"internal/epcis":      {"", values, ""},
	"internal/search":     {"linkformat", values, ""},
	"internal/discovery":  {"epcis", values, "github.com/go-jose/go-jose/v4"},
	"internal/fleet":      {"sleepplan", values, ""},
	"internal/visit":      {"fleet", values, ""},
	"internal/scheduler":  {"fleet sleepplan", values, ""},
	"internal/dpt":        {"sleepplan visit", values, ""},
	"internal/planner":    {"scheduler dpt visit fleet sleepplan", values, ""},
	"internal/sim": {"planner scheduler dpt visit fleet sleepplan figure epcis discovery",
		handed, ""},
	"internal/figure":      {"sleepplan", handed, ""},
	"internal/repository":  {"fleet linkformat visit epcis discovery search", handed, ""},
	"internal/coapclient":  {"linkformat visit fleet sessionfile", world, ""},
	"internal/sessionfile": {"", handed, ""},
	"internal/testbed":     {"linkformat sleepplan fleet", world, ""},
	"internal/crawler":     {"planner scheduler visit fleet sleepplan linkformat", world, ""},
	"internal/api": {"repository planner scheduler visit fleet sleepplan linkformat epcis discovery search",
		world, ""},
	"internal/discovery/worked": {"epcis", values, ""},
	"internal/directory": {"repository planner scheduler visit fleet sleepplan linkformat epcis discovery search",
		world, ""},
	"internal/rival":    {"epcis discovery", world, ""},
	"internal/config":   {"fleet sleepplan", world, ""},
	"internal/mutant":   {"", world, ""},
	"internal/powercut": {"", handed, ""},
	"internal/app":      {"", wiring, ""},
	"docs/data/traces":  {"", values, ""},
	"cmd/crawld":        {"", command, ""},
	"cmd/crawld-soak":   {"", command, ""},
}

// drawers are names that say nothing of what is inside.
var drawers = strings.Fields("metrics errors types model store util utils common helpers")

// names selects exported names of a package: those listed or, with "only ",
// all but those listed.
type names map[string]string

var (
	clock = names{
		"time":    "Now Since Until Sleep After NewTimer NewTicker AfterFunc Tick",
		"context": "WithTimeout WithTimeoutCause WithDeadline WithDeadlineCause",
	}
	// chance is fine as a *rand.Rand that was handed in or made from a seed.
	chance = names{"math/rand/v2": "only Rand New NewPCG NewChaCha8 PCG ChaCha8 Source Zipf NewZipf"}
	output = names{
		"fmt": "Print Printf Println Scan Scanf Scanln",
		"net": "only JoinHostPort SplitHostPort", // what only splits and joins text
	}
	exit = names{"os": "Exit", "log": "Fatal Fatalf Fatalln", "syscall": "Exit"}
)

func (n names) has(pkg, name string) bool {
	list, listed := n[pkg]
	rest, only := strings.CutPrefix(list, "only ")
	return listed && slices.Contains(strings.Fields(rest), name) != only
}

// source is one production file.
type source struct {
	path  string // slash-separated, from the module's root
	fset  *token.FileSet
	file  *ast.File
	local map[string]string // name in the file -> import path
}

func parseSource(name string, text []byte) (source, error) {
	s := source{path: name, fset: token.NewFileSet(), local: map[string]string{}}
	var err error
	if s.file, err = parser.ParseFile(s.fset, name, text, parser.ParseComments); err != nil {
		return s, err
	}
	for _, spec := range s.file.Imports {
		pkg := importPath(spec)
		base := path.Base(pkg)
		if len(base) > 1 && base[0] == 'v' && base[1] >= '0' && base[1] <= '9' {
			base = path.Base(path.Dir(pkg))
		}
		if spec.Name != nil {
			base = spec.Name.Name
		}
		s.local[base] = pkg
	}
	return s, nil
}

func importPath(spec *ast.ImportSpec) string {
	pkg, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
	return pkg
}

func (s source) at(n ast.Node, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: ", s.path, s.fset.Position(n.Pos()).Line) + fmt.Sprintf(format, args...)
}

// judge returns what the files do against the house rules.
func judge(files []source) []string {
	var faults []string
	commented := map[string]bool{}
	for _, s := range files {
		dir := path.Dir(s.path)
		commented[dir] = commented[dir] || s.file.Doc != nil
		if slices.Contains(drawers, s.file.Name.Name) || slices.Contains(drawers, path.Base(dir)) {
			faults = append(faults, s.at(s.file, "package %s: put it into the room that uses it",
				s.file.Name.Name))
		}
		r, known := rooms[dir]
		if !known {
			faults = append(faults, s.at(s.file, "no row in the table of rooms for %s", dir))
			continue
		}
		faults = append(faults, s.imports(r)...)
		faults = append(faults, s.uses(r)...)
	}
	for dir, has := range commented {
		if !has {
			faults = append(faults, dir+": no package comment")
		}
	}
	slices.Sort(faults)
	return faults
}

func (s source) imports(r room) []string {
	var faults []string
	for _, spec := range s.file.Imports {
		pkg := importPath(spec)
		if ours, is := strings.CutPrefix(pkg, module); is {
			name := strings.TrimPrefix(ours, "internal/")
			if r.touch < wiring && !slices.Contains(strings.Fields(r.imports), name) {
				faults = append(faults, s.at(spec, "must not import %s", ours))
			}
		} else if r.forbids(pkg) {
			faults = append(faults, s.at(spec, "must not import %q", pkg))
		}
		if spec.Name != nil && spec.Name.Name == "." {
			faults = append(faults, s.at(spec, "dot import hides what is used"))
		}
	}
	return faults
}

// forbids tells the packages outside the module that a room must not import.
func (r room) forbids(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	if pkg == "net/url" || slices.Contains(strings.Fields(r.also), pkg) {
		return false
	}
	switch r.touch {
	case values:
		return slices.Contains([]string{"os", "net", "log", "io", "syscall"}, first) ||
			pkg == "math/rand" || pkg == "crypto/rand" || strings.Contains(first, ".")
	case handed:
		return first == "net" || pkg == "math/rand"
	}
	return false
}

func (s source) uses(r room) []string {
	banned := map[string]names{}
	if r.touch == values || r.touch == handed {
		banned["reads the clock"], banned["draws unseeded numbers"] = clock, chance
	}
	if r.touch == values {
		banned["does IO"] = output
	}
	if r.touch != command || path.Base(s.path) != "main.go" {
		banned["ends the process"] = exit
	}
	var faults []string
	ast.Inspect(s.file, func(n ast.Node) bool {
		sel, is := n.(*ast.SelectorExpr)
		if !is {
			return true
		}
		id, is := sel.X.(*ast.Ident)
		if !is {
			return true
		}
		for why, list := range banned {
			if list.has(s.local[id.Name], sel.Sel.Name) {
				faults = append(faults, s.at(sel, "%s.%s %s", id.Name, sel.Sel.Name, why))
			}
		}
		return true
	})
	return faults
}

// Most lines of a function, in production files and in tests.
const (
	longestFunction = 60
	longestTest     = 100
)

// long returns the functions that have more lines, from func to the last brace.
func (s source) long() (faults []string) {
	most := longestFunction
	if strings.HasSuffix(s.path, "_test.go") {
		most = longestTest
	}
	for _, decl := range s.file.Decls {
		f, is := decl.(*ast.FuncDecl)
		if !is {
			continue
		}
		n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
		if n > most {
			faults = append(faults, s.at(f, "%s has %d lines, more than %d", f.Name.Name, n, most))
		}
	}
	return faults
}

// machine are traces of the place where the code was written. They are put
// together here, so that this file has none.
var machine = []string{
	"/" + "work/", "/" + "root/", "/" + "home/", "proxy.golang" + ".org", "sum.golang" + ".org",
	"deb.debian" + ".org", "pypi" + ".org", "registry.npmjs" + ".org",
}

func traces(name string, text []byte) []string {
	if bytes.IndexByte(text, 0) >= 0 {
		return nil // a binary or a database
	}
	var faults []string
	for i, line := range strings.Split(string(text), "\n") {
		for _, trace := range machine {
			if strings.Contains(line, trace) {
				faults = append(faults, fmt.Sprintf("%s:%d: %q belongs to one machine", name, i+1, trace))
			}
		}
	}
	return faults
}

// walk hands every regular file below the root to visit, but for git's own.
func walk(t *testing.T, visit func(name string, text []byte)) {
	t.Helper()
	root := os.DirFS(".")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && d.Name() == ".git" {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() || d.Name() == ".git" { // in a worktree .git is a file
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // another package's test has removed it meanwhile
		}
		if err == nil {
			visit(name, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Below v3.1.4 of pion/dtls a hostile sensor crashes its client (CVE-2026-54908). What is
// looked at is what the module is built with.
func TestDTLSIsRecent(t *testing.T) {
	for version, safe := range map[string]bool{"v3.1.3": false, "v3.0.99": false, "v2.9.9": false,
		"v3.1.4-rc.1": false, "v3.1.4": true, "v3.1.15": true, "v3.1.5-rc.1": true,
		"v3.2.0": true, "v4.0.0": true, "": false} {
		if recentDTLS(version) != safe {
			t.Errorf("%q: safe is not %v", version, safe)
		}
	}
	out, err := exec.Command("go", "list", "-m", "-f",
		"{{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}", "github.com/pion/dtls/v3").Output()
	if err != nil {
		t.Fatal(err)
	}
	if version := strings.TrimSpace(string(out)); !recentDTLS(version) {
		t.Errorf("github.com/pion/dtls/v3 is %q, must be v3.1.4 or later", version)
	}
}

func recentDTLS(version string) bool {
	release, pre, _ := strings.Cut(version, "-")
	var major, minor, patch int
	if _, err := fmt.Sscanf(release, "v%d.%d.%d", &major, &minor, &patch); err != nil {
		return false
	}
	if pre != "" {
		patch-- // it comes before its release
	}
	return slices.Compare([]int{major, minor, patch}, []int{3, 1, 4}) >= 0
}

// sources are the module's Go files, production and tests.
func sources(t *testing.T) (production, tests []source) {
	t.Helper()
	walk(t, func(name string, text []byte) {
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "testdata/") {
			return
		}
		s, err := parseSource(name, text)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "_test.go") {
			tests = append(tests, s)
		} else {
			production = append(production, s)
		}
	})
	if len(production) < 20 || len(tests) < 20 {
		t.Fatalf("only %d files and %d of tests found", len(production), len(tests))
	}
	return production, tests
}

func TestRooms(t *testing.T) {
	production, _ := sources(t)
	for _, fault := range judge(production) {
		t.Error(fault)
	}
}

func TestNoTraceOfOneMachine(t *testing.T) {
	walk(t, func(name string, text []byte) {
		for _, fault := range traces(name, text) {
			t.Error(fault)
		}
	})
}

func TestLengths(t *testing.T) {
	for name, limit := range map[string]int{"cmd/crawld/main.go": 120, "ARCHITECTURE.md": 150} {
		text, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			t.Logf("%s: not there", name)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(text, []byte("\n")); n >= limit {
			t.Errorf("%s has %d lines, must stay under %d", name, n, limit)
		}
	}
	production, tests := sources(t)
	for _, s := range slices.Concat(production, tests) {
		for _, fault := range s.long() {
			t.Error(fault)
		}
	}
}

// Every rule must catch its offender; an empty want is a file in order.
func TestRulesCatchOffenders(t *testing.T) {
	const sim, fleet, dpt = "internal/sim/a.go", "internal/fleet/a.go", "internal/dpt/a.go"
	for _, c := range []struct{ path, body, want string }{
		{fleet, `import "net/url"; var _ = url.Parse`, ""},
		{fleet, `import "net"; var _ = net.JoinHostPort`, `:2: must not import "net"`},
		{fleet, `import "net"; var _ = net.Dial`, "a.go:2: net.Dial does IO"},
		{fleet, `import _ "` + module + `internal/visit"`, "must not import internal/visit"},
		{fleet, `import _ "` + module + `internal/sleepplan"`, ""},
		{dpt, `import _ "net/netip"`, `must not import "net/netip"`},
		{dpt, `import _ "os"`, `must not import "os"`},
		{dpt, `import _ "os/exec"`, `must not import "os/exec"`},
		{dpt, `import _ "log/slog"`, `must not import "log/slog"`},
		{dpt, `import _ "io/fs"`, `must not import "io/fs"`},
		{dpt, `import _ "math/rand"`, `must not import "math/rand"`},
		{dpt, `import _ "go.uber.org/zap"`, `must not import "go.uber.org/zap"`},
		{dpt, `import _ "` + module + `internal/planner"`, "must not import internal/planner"},
		{dpt, `import "math/rand/v2"; var _ = rand.IntN`, "rand.IntN draws unseeded numbers"},
		{dpt, `import "math/rand/v2"; func f(r *rand.Rand) int { return r.IntN(2) }`, ""},
		{dpt, `import "fmt"; func f() { fmt.Println() }`, "fmt.Println does IO"},
		{dpt, `import "time"; var _ = time.Now`, "time.Now reads the clock"},
		{dpt, `import clock "time"; func f() { clock.Sleep(1) }`, "clock.Sleep reads the clock"},
		{dpt, `import . "time"; var _ = Now`, "dot import"},
		{dpt, `import "time"; var _ = time.Unix`, ""},
		{sim, `import "time"; func f(t time.Time) any { return time.Since(t) }`, "time.Since reads"},
		{sim, `import _ "net"`, `must not import "net"`},
		{sim, `import ("io"; "os"); var _, _ io.Writer = os.Stdout, os.Stderr`, ""},
		{"internal/repository/a.go", `import "time"; var _ = time.NewTicker`, "reads the clock"},
		{"internal/crawler/a.go", `import "time"; var _ = time.Now`, ""},
		{"internal/crawler/a.go", `import _ "` + module + `internal/repository"`, "must not import"},
		{"internal/app/a.go", `import _ "` + module + `internal/repository"`, ""},
		{"internal/app/a.go", `import "os"; func f() { os.Exit(1) }`, "os.Exit ends the process"},
		{"internal/app/a.go", `import "log"; var _ = log.Fatalf`, "log.Fatalf ends the process"},
		{"cmd/crawld/run.go", `import "os"; func f() { os.Exit(1) }`, "os.Exit ends the process"},
		{"cmd/crawld/main.go", `import "os"; func f() { os.Exit(1) }`, ""},
		{"internal/util/a.go", ``, "put it into the room that uses it"},
		{"internal/attic/a.go", ``, "no row in the table of rooms for internal/attic"},
	} {
		text := "// Package a is commented.\npackage a; " + c.body
		s, err := parseSource(c.path, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got := strings.Join(judge([]source{s}), "\n")
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s\ngot %q, want %q", c.path, c.body, got, c.want)
		}
	}
}

func TestRulesCatchBareAndMarkedFiles(t *testing.T) {
	bare, err := parseSource("internal/dpt/a.go", []byte("package dpt"))
	if err != nil {
		t.Fatal(err)
	}
	if got := judge([]source{bare}); len(got) != 1 || got[0] != "internal/dpt: no package comment" {
		t.Errorf("%q", got)
	}
	lines := strings.Repeat("\n", 100)
	for name, most := range map[string]int{"a.go": longestFunction, "a_test.go": longestTest} {
		for n, want := range map[int]int{most: 0, most + 1: 1} {
			s, err := parseSource(name, []byte("package a\n// f is\n// long.\nfunc f() {"+lines[:n-1]+"}"))
			if got := s.long(); err != nil || len(got) != want {
				t.Errorf("%d lines in %s: %q, %v", n, name, got, err)
			}
		}
	}
	for _, trace := range machine {
		if got := traces("a.md", []byte("one\nsee "+trace+"x\n")); len(got) != 1 {
			t.Errorf("%s: %q", trace, got)
		}
	}
	if got := traces("a.db", []byte("\x00"+machine[0])); got != nil {
		t.Errorf("a binary is judged: %q", got)
	}
}
