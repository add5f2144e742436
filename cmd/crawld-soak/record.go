package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The lines of the track record between which the figures stand.
const (
	beginMark = "<!-- soak: begin -->\n"
	endMark   = "<!-- soak: end -->\n"
)

// headlines are in the record whatever rows were run.
var headlines = []string{killed, images, fuzzed, virtual}

// writeRecord replaces the figures of a track record by those of this soak.
func (s *soak) writeRecord(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, begun := strings.Cut(string(text), beginMark)
	_, after, ended := strings.Cut(rest, endMark)
	if !begun || !ended {
		return fmt.Errorf("%s: no lines %q and %q to write the figures between", file,
			strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	text = []byte(before + beginMark + s.markdown() + endMark + after)
	temp := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".new")
	if err := os.WriteFile(temp, text, 0o644); err != nil {
		return err
	}
	return os.Rename(temp, file)
}

// markdown are the figures as a table of sums and one of invariants.
func (s *soak) markdown() string {
	sums := map[string]float64{}
	for i, inv := range s.table {
		for k, c := range inv.counts {
			if k < len(s.tallies[i].figures) {
				sums[c.unit] += s.tallies[i].figures[k]
			}
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "\nSoak of %s: %v, %d rounds from seed %d, commit %s%s.\n\n| | |\n|---|---|\n",
		s.began.UTC().Format(time.DateOnly), s.took.Round(time.Second), s.rounds, s.seed, commit(s.dir),
		map[bool]string{true: ", short counts"}[s.short])
	for _, unit := range headlines {
		fmt.Fprintf(&b, "| %s | %s |\n", unit, amount(sums[unit]))
	}
	fmt.Fprint(&b, "\n| | invariant | runs | figures | verdict |\n|---|---|---|---|---|\n")
	for i, inv := range s.table {
		fmt.Fprintf(&b, "| %s | %s | %d | %s | %s |\n", inv.id, inv.name, s.tallies[i].runs,
			s.figures(i), s.tallies[i].verdict())
	}
	b.WriteByte('\n')
	return b.String()
}

// commit names what was tested.
func commit(dir string) string {
	cmd := exec.Command("git", "describe", "--always", "--dirty")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
