// Package mutant builds this module with a mistake in it, for tests that show that
// another test would notice. Only tests import it.
package mutant

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Change replaces Old, which must occur exactly once, by New.
type Change struct{ Old, New string }

// Overlay writes a file for the go command's -overlay flag into dir, with which the Go
// file is compiled as if it were changed. The error names what the file no longer holds.
func Overlay(dir, file string, changes ...Change) (overlay string, err error) {
	original, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return "", err
	}
	mutated := string(text)
	for _, c := range changes {
		if n := strings.Count(mutated, c.Old); n != 1 {
			return "", fmt.Errorf("%s holds this %d times, not once:\n%s", file, n, c.Old)
		}
		mutated = strings.Replace(mutated, c.Old, c.New, 1)
	}
	copied := filepath.Join(dir, filepath.Base(file))
	replaced, err := json.Marshal(map[string]any{"Replace": map[string]string{original: copied}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(copied, []byte(mutated), 0o600); err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, replaced, 0o600)
}
