package config

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// Longest durations that make sense anywhere; keeps sums far from overflow.
const maxDuration = 366 * 24 * time.Hour

var (
	errDuration = errors.New("expected a duration such as 10s, 1h30m or 2d")
	errSize     = errors.New("expected a size such as 1000, 64KiB or 1MiB")
	errRate     = errors.New("expected a rate such as 0.5/s, 3/min, 12/h or 1/d")
)

// parseDuration reads Go's syntax with days before it: 90s, 1h30m, 1d12h, 1.5d.
func parseDuration(s string) (time.Duration, error) {
	var days time.Duration
	if head, tail, ok := strings.Cut(s, "d"); ok {
		n, err := parseFloat(head)
		// The last quarter of int64 is left to what follows the d.
		if ns := n * float64(24*time.Hour); err == nil && math.Abs(ns) < 3<<61 {
			days = time.Duration(math.Round(ns))
		} else {
			return 0, errDuration
		}
		if s = tail; s == "" {
			return days, nil
		}
	}
	rest, err := time.ParseDuration(s)
	if err != nil || days != 0 && (rest < 0 || rest > math.MaxInt64/4 || strings.HasPrefix(s, "+")) {
		return 0, errDuration
	}
	return days + rest, nil
}

// formatDuration is read back by parseDuration without loss.
func formatDuration(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// parseSize reads bytes: 1000, 1000B, 64KiB, 1MiB.
func parseSize(s string) (int, error) {
	unit := int64(1)
	for suffix, n := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if head, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = head, n
		}
	}
	if unit == 1 {
		s = strings.TrimSuffix(s, "B")
	}
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 32)
	if err != nil || n < 0 || n*unit > math.MaxInt {
		return 0, errSize
	}
	return int(n * unit), nil
}

func formatSize(n int) string {
	switch {
	case n > 0 && n%(1<<20) == 0:
		return strconv.Itoa(n>>20) + "MiB"
	case n > 0 && n%(1<<10) == 0:
		return strconv.Itoa(n>>10) + "KiB"
	}
	return strconv.Itoa(n) + "B"
}

// parseRate reads events per s, min, h or d into events per second.
func parseRate(s string) (float64, error) {
	head, unit, _ := strings.Cut(s, "/")
	seconds := map[string]float64{"s": 1, "min": 60, "h": 3600, "d": 86400}[strings.TrimSpace(unit)]
	n, err := parseFloat(head)
	if err != nil || seconds == 0 {
		return 0, errRate
	}
	return n / seconds, nil
}

func formatFloat(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// parseFloat reads a finite decimal number.
func parseFloat(s string) (float64, error) {
	x, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0, fmt.Errorf("expected a finite number, found %q", clip(s))
	}
	return x, nil
}

// within stores x where it lies in lo .. hi, else fails.
func within[T cmp.Ordered](v value, dst *T, x, lo, hi T, show func(T) string) bool {
	if !(x >= lo && x <= hi) {
		v.fail("%s is out of range; expected %s .. %s", clip(v.node.Value), show(lo), show(hi))
		return false
	}
	*dst = x
	return true
}

// duration reads a duration; a bare 0 needs no unit.
func (v value) duration(dst *time.Duration, lo, hi time.Duration) bool {
	want := "a duration such as " + formatDuration(max(*dst, lo, time.Second))
	s, ok := v.scalar(want, "!!str", "!!int")
	if !ok {
		return false
	}
	x, err := parseDuration(s)
	switch {
	case err == nil:
		return within(v, dst, x, lo, hi, formatDuration)
	case v.node.ShortTag() == "!!int":
		v.fail("found the number %s without a unit, expected %s", clip(s), want)
	default:
		v.fail("found %s, %v", describe(v.node), err)
	}
	return false
}

func (v value) size(dst *int, lo, hi int) {
	s, ok := v.scalar("a size such as 64KiB", "!!str", "!!int")
	if !ok {
		return
	}
	if x, err := parseSize(s); err != nil {
		v.fail("found %s, %v", describe(v.node), err)
	} else {
		within(v, dst, x, lo, hi, formatSize)
	}
}

func (v value) rate(dst *float64, hi float64) {
	s, ok := v.scalar("a rate such as 12/h", "!!str")
	if !ok {
		return
	}
	x, err := parseRate(s)
	switch {
	case err != nil:
		v.fail("found %s, %v", describe(v.node), err)
	case !(x >= 0 && x <= hi):
		v.fail("%s is out of range; expected 0 .. %s/s", clip(s), formatFloat(hi))
	default:
		*dst = x
	}
}

// number reads a finite number; quoted ones are text.
func (v value) number(dst *float64, lo, hi float64) bool {
	if _, ok := v.scalar("a number", "!!int", "!!float"); !ok {
		return false
	}
	var x float64
	if err := v.node.Decode(&x); err != nil || math.IsInf(x, 0) || math.IsNaN(x) {
		v.fail("found %s, expected a finite number", clip(v.node.Value))
		return false
	}
	return within(v, dst, x, lo, hi, formatFloat)
}

func (v value) integer(dst *int, lo, hi int) bool {
	if _, ok := v.scalar("a whole number", "!!int"); !ok {
		return false
	}
	var x int
	if err := v.node.Decode(&x); err != nil {
		v.fail("%s is out of range; expected %d .. %d", clip(v.node.Value), lo, hi)
		return false
	}
	return within(v, dst, x, lo, hi, strconv.Itoa)
}

func (v value) boolean(dst *bool) {
	if _, ok := v.scalar("true or false", "!!bool"); ok {
		*dst = strings.EqualFold(v.node.Value, "true")
	}
}

// text reads text that is not empty.
func (v value) text(dst *string, want string) bool {
	s, ok := v.scalar(want, "!!str")
	if ok && s == "" {
		v.fail("is empty; expected %s", want)
		return false
	}
	if ok {
		*dst = s
	}
	return ok
}

// word reads one of a few words.
func (v value) word(dst *string, words ...string) {
	want := strings.Join(words, ", ")
	s, ok := v.scalar("one of: "+want, "!!str")
	if !ok {
		return
	}
	for _, w := range words {
		if s == w {
			*dst = w
			return
		}
	}
	v.fail("found %s, expected one of: %s", describe(v.node), want)
}

// instant reads RFC 3339; YAML itself takes some forms of it for dates.
func (v value) instant(dst *time.Time) bool {
	const want = "an instant with its zone such as 2026-01-05T00:00:03Z (RFC 3339)"
	s, ok := v.scalar(want, "!!str", "!!timestamp")
	if !ok {
		return false
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		v.wrongType(want)
		return false
	}
	*dst = t
	return true
}

// is reports whether the value is that word.
func (v value) is(word string) bool {
	return v.node.Kind == yaml.ScalarNode && v.node.ShortTag() == "!!str" && v.node.Value == word
}
