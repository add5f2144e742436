package main

import (
	"slices"
	"testing"
)

func TestParseObjects(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int{
		"10000..1000000": {10_000, 30_000, 100_000, 300_000, 1_000_000},
		"2000..50000":    {2000, 10_000, 50_000},
		"1000..1500":     {1000, 1500},
		"1000, 2000":     {1000, 2000},
		"5000":           {5000},
	} {
		got, err := parseObjects(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v %v, not %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1000..", "..2000", "2000..1000", "1000..1000", "1000,1000",
		"999", "10000001", "1e4", "1000...2000"} {
		if got, err := parseObjects(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
