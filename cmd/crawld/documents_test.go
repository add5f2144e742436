package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// spoken is a call of crawld in a document: in back ticks, or on a line of an example.
var spoken = regexp.MustCompile("(?m)(?:`|^    (?:\\$ )?|^\\$ |/usr/bin/)crawld ([^`\\n|#&<>]+)")

// misspoken returns the calls with a command or a flag that there is not, and how many calls
// there are.
func misspoken(text string) (faults []string, found int) {
	for _, m := range spoken.FindAllStringSubmatch(text, -1) {
		found++
		words := strings.Fields(m[1])
		for i := range words {
			words[i] = strings.TrimRight(words[i], ".,;:)")
		}
		cmd, rest, err := rootCommand().Find(words)
		wrong := err != nil || cmd.HasSubCommands() && len(rest) > 0 && rest[0][0] != '-'
		for _, word := range rest {
			name, _, _ := strings.Cut(word, "=")
			name, long := strings.CutPrefix(name, "--")
			wrong = wrong || long && name != "" && name != "help" && cmd.Flags().Lookup(name) == nil &&
				cmd.InheritedFlags().Lookup(name) == nil
		}
		if wrong {
			faults = append(faults, m[0])
		}
	}
	return faults, found
}

// The documents name commands and flags that there are.
func TestDocumentsNameCommands(t *testing.T) {
	total := 0
	for _, name := range []string{"README.md", "CHANGELOG.md", "ARCHITECTURE.md", "deploy/README.md",
		"deploy/crawld.service", "docs/experiments.md", "docs/data/README.md",
		"docs/data/traces/README.md", "configs/crawld.yaml", "configs/sensors/example.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		faults, found := misspoken(string(text))
		for _, fault := range faults {
			t.Errorf("%s: %q", name, fault)
		}
		total += found
	}
	if total < 80 {
		t.Errorf("only %d calls found", total)
	}
	const wrong = "`crawld nothing`, `crawld db chekc`, `crawld plan --budget 3`\n    $ crawld run --config a"
	if faults, found := misspoken(wrong); len(faults) != 3 || found != 4 {
		t.Errorf("control: %d calls, %q", found, faults)
	}
}
