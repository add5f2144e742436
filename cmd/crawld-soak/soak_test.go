package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// module is a checkout with tests that hold, fail and skip.
func module(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.org/m\n\ngo 1.26\n",
		"m_test.go": `package m

import (
	"os"
	"testing"
)

func TestHolds(t *testing.T) {
	t.Logf("%d kills, seed %s %q", 7, os.Getenv("CRAWLD_SEED"), os.Getenv("CRAWLD_CI"))
}
func TestFails(t *testing.T) { t.Errorf("3 kills, one lost") }
func TestSkips(t *testing.T) { t.Skip("no tool") }

func FuzzHolds(f *testing.F) {
	f.Add([]byte("a"))
	f.Fuzz(func(t *testing.T, b []byte) {})
}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What holds, fails, skips or is not there is told apart; figures add up, and only those
// of the tests.
func TestSoakTellsVerdicts(t *testing.T) {
	kills := []count{times(killed, `: (\d+) kills, `)}
	table := []invariant{
		{id: "T1", name: "holds", pkg: ".", run: "^TestHolds$", counts: kills},
		{id: "T2", name: "fails", pkg: ".", run: "^TestFails$", counts: kills},
		{id: "T3", name: "skips", pkg: ".", run: "^TestSkips$"},
		{id: "T4", name: "renamed", pkg: ".", run: "^TestGone$"},
		{id: "T5", name: "peers", pkg: ".", run: "^Test(Holds|Skips)$"},
		{id: "T6", name: "fuzz", counts: []count{times(fuzzed, `(?s:.*)execs: (\d+)`)}},
	}
	var out, errs strings.Builder
	s := &soak{out: &out, errs: &errs, seed: 41, short: true, table: table,
		tallies: make([]tally, len(table)), dir: module(t)}
	if err := s.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"ok", "BROKEN in 1 of 1", "skipped", "BROKEN in 1 of 1",
		"ok, parts skipped in 1", "ok"}
	for i, v := range want {
		if got := s.tallies[i].verdict(); got != v {
			t.Errorf("%s: %s, want %s", table[i].name, got, v)
		}
	}
	if s.code() != 1 || s.tallies[0].figures[0] != 7 || s.tallies[1].figures[0] != 3 ||
		s.tallies[5].figures[0] < 1 {
		t.Errorf("exit code %d, %+v", s.code(), s.tallies)
	}
	for _, part := range []string{"T2 fails: failed\n", "T4 renamed: there is no such test\n",
		"replay: CRAWLD_SEED=41 go test -count=1 -v -run '^TestFails$'"} {
		if !strings.Contains(errs.String(), part) {
			t.Errorf("%q is not in %s", part, errs.String())
		}
	}
	if lines := strings.Count(out.String(), "\n"); lines != 1+len(table) ||
		!strings.HasPrefix(out.String(), "seed 41, ") {
		t.Errorf("not one line per invariant:\n%s", out.String())
	}
	recordOf(t, s)
}

// What is run once is not run again, and a soak of such rows alone ends with its first round.
func TestSoakRunsOnce(t *testing.T) {
	rows := []invariant{{id: "T1", name: "long", pkg: ".", run: "^TestHolds$", once: true},
		{id: "T2", name: "short", pkg: ".", run: "^TestHolds$"}}
	for _, c := range []struct {
		table  []invariant
		length time.Duration
	}{{rows[:1], 100 * time.Hour}, {rows, 3 * time.Second}} {
		var out, errs strings.Builder
		s := &soak{out: &out, errs: &errs, length: c.length, table: c.table,
			tallies: make([]tally, len(c.table)), dir: module(t)}
		if err := s.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if last := s.tallies[len(s.tallies)-1].runs; s.tallies[0].runs != 1 || last > s.rounds || last < s.rounds-1 {
			t.Errorf("%d rows: %+v in %d rounds\n%s", len(c.table), s.tallies, s.rounds, errs.String())
		}
	}
}

// recordOf checks what a soak leaves in the record.
func recordOf(t *testing.T, s *soak) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "record.md")
	put := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("before\n" + beginMark + "old\n" + endMark + "after\n")
	for range 2 { // the second time over its own
		if err := s.writeRecord(file); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	got := string(text)
	if !strings.HasPrefix(got, "before\n"+beginMark) || !strings.HasSuffix(got, endMark+"after\n") ||
		strings.Contains(got, "\nold\n") || strings.Count(got, "| kills survived | 10 |") != 1 ||
		!strings.Contains(got, "| T2 | fails | 1 | 3 kills survived | BROKEN in 1 of 1 |") {
		t.Errorf("record:\n%s", got)
	}
	put("no marks\n")
	if err := s.writeRecord(file); err == nil {
		t.Error("a file without marks was taken")
	}
}

// testsOf are the names of tests and fuzz targets of a package.
func testsOf(t *testing.T, pkg string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	header := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range header.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
}

// Every row names tests that exist, and so does every row of the track record.
func TestTableNamesTests(t *testing.T) {
	check := func(what, pkg, pattern string) {
		found := 0
		for _, name := range testsOf(t, pkg) {
			if regexp.MustCompile(pattern).MatchString(name) {
				found++
			}
		}
		if alternatives := strings.Count(pattern, "|") + 1; found < alternatives {
			t.Errorf("%s: %s has %d tests in %s", what, pattern, found, pkg)
		}
	}
	for _, inv := range invariants {
		if inv.run != "" {
			check(inv.id+" "+inv.name, inv.pkg, inv.run)
		}
	}
	text, err := os.ReadFile("../../docs/track-record.md")
	if err != nil || !strings.Contains(string(text), beginMark) ||
		!strings.Contains(string(text), endMark) {
		t.Fatalf("docs/track-record.md: %v, or it has no marks", err)
	}
	replay := regexp.MustCompile("`go test (\\S+) -run '([^']+)'`")
	replays := replay.FindAllStringSubmatch(string(text), -1)
	if rows := strings.Count(string(text), "`go test "); len(replays) != rows || rows < 10 {
		t.Errorf("%d of %d commands of the record can be read", len(replays), rows)
	}
	for _, m := range replays {
		check("track record", m[1], m[2])
	}
}

func TestArguments(t *testing.T) {
	var out, errs strings.Builder
	for _, args := range [][]string{{"--hours", "-1"}, {"--hours", "NaN"}, {"T1"},
		{"--only", "T99"}, {"--no"}} {
		if code := run(t.Context(), args, invariants, &out, &errs); code != 2 {
			t.Errorf("%v: exit code %d", args, code)
		}
	}
	rows, err := chosen(invariants, "T5,T2")
	if err != nil || len(rows) != 3 || rows[0].id != "T5" {
		t.Errorf("%v, %v", rows, err)
	}
}
