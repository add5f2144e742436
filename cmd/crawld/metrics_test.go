package main

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// sample is a line of a scrape: name, labels, value.
var sample = regexp.MustCompile(`^([a-z_0-9]+)(?:\{(.*)\})? (\S+)$`)

// label is one label with its value, which here holds no quotes.
var label = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)

// metricNames lists "name type labels" of the daemon's own metrics in a scrape,
// sorted. The values of its labels are API too, but for numbers and versions.
func metricNames(text string) []string {
	types, labels := map[string]string{}, map[string]map[string]bool{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 4 && f[1] == "TYPE" {
			types[f[2]] = f[3]
			labels[f[2]] = map[string]bool{}
		}
		m := sample.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		for _, l := range label.FindAllStringSubmatch(m[2], -1) {
			family := m[1]
			if _, ok := types[family]; !ok { // of a histogram: _bucket, _sum or _count
				family = family[:strings.LastIndexByte(family, '_')]
			}
			if l[1] == "le" || strings.HasSuffix(l[1], "version") {
				l[2] = "*"
			}
			labels[family][l[1]+"="+l[2]] = true
		}
	}
	var names []string
	for name, kind := range types {
		if strings.HasPrefix(name, "crawld_") {
			all := slices.Sorted(maps.Keys(labels[name]))
			names = append(names, strings.TrimSpace(name+" "+kind+" "+strings.Join(all, " ")))
		}
	}
	slices.Sort(names)
	return names
}

// metric is the value of one series, such as crawld_crawls_total{outcome="asleep"};
// -1 if the scrape has none.
func metric(text, series string) float64 {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			if v, err := strconv.ParseFloat(strings.TrimSpace(rest), 64); err == nil {
				return v
			}
		}
	}
	return -1
}
