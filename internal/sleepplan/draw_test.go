package sleepplan

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// TestDraw compares drawings with testdata/draw.txt, line by line.
func TestDraw(t *testing.T) {
	from := at("2026-03-28 12:00")
	h := func(hours ...float64) (ts []time.Time) {
		for _, x := range hours {
			ts = append(ts, from.Add(time.Duration(x*float64(time.Hour))))
		}
		return ts
	}
	edges := h(1, 4, 4, 20, 30, 99)
	list := must(Explicit([]Window{
		{edges[0], edges[1]}, {edges[2].Add(1), edges[3]}, {edges[4], edges[5]}}))
	var b strings.Builder
	for _, c := range []struct {
		p     Plan
		marks []time.Time
		hours float64
		width int
	}{
		{Unknown(), h(3), 48, 48},
		{AlwaysOn(), h(0, 47.999, 48, -1), 48, 48},
		{must(Cycle(6*time.Hour, time.Minute, from)), h(0, 6.5, 12.01, 36), 48, 48},
		{must(Cycle(6*time.Hour, 90*time.Minute, from.Add(-time.Hour))), nil, 48, 96},
		{must(Weekly([]string{"daily 18:00-09:00"}, "Europe/Berlin", nil)), h(19.9, 20.1, 44), 48, 48},
		{list, h(0.5, 0.6, 3, 20, 31), 48, 24},
		{list, h(1), 48, 1},
		{list, h(1), 48, 0},
		{list, h(1), 0, 10},
		{list, h(1), -1, 10},
	} {
		to := from.Add(time.Duration(c.hours * float64(time.Hour)))
		// Windows around the range must not matter.
		line := Draw(c.p.Windows(from.Add(-day), to.Add(day)), c.marks, from, to, c.width)
		fmt.Fprintf(&b, "%v, %v h\n[%s]\n", c.p, c.hours, line)
	}
	want, err := os.ReadFile("testdata/draw.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := b.String(); got != string(want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestDrawBeyondADuration draws two thousand years, more than a time.Duration
// holds: the line keeps its width.
func TestDrawBeyondADuration(t *testing.T) {
	w, _ := AlwaysOn().Window(origin())
	if got := Draw([]Window{w}, []time.Time{origin()}, w.Start, w.End, 8); len(got) != 8 {
		t.Errorf("got %q", got)
	}
}
