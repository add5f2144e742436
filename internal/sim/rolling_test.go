package sim

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/crawld/crawld/internal/figure"
)

// ci tells whether time is set aside for the sizes of the figures.
func ci() bool { return os.Getenv("CRAWLD_CI") != "" }

// trials is a number of instances, runs or days, larger where time is set aside.
func trials(quick, full int) int {
	if ci() {
		return full
	}
	return quick
}

// seriesNamed finds a curve of a panel.
func seriesNamed(tb testing.TB, p figure.Panel, name string) figure.Series {
	tb.Helper()
	for _, s := range p.Series {
		if s.Name == name {
			return s
		}
	}
	tb.Fatalf("panel %q has no series %q", p.Title, name)
	return figure.Series{}
}

// panelNamed finds a panel of a figure.
func panelNamed(tb testing.TB, f *figure.Figure, title string) figure.Panel {
	tb.Helper()
	for _, p := range f.Panels {
		if p.Title == title {
			return p
		}
	}
	tb.Fatalf("figure %q has no panel %q", f.ID, title)
	return figure.Panel{}
}

// meanAt is the mean of a curve at x.
func meanAt(tb testing.TB, s figure.Series, x float64) float64 {
	tb.Helper()
	for _, q := range s.Points {
		if q.X == x {
			return q.Mean
		}
	}
	tb.Fatalf("series %q has no point at %v", s.Name, x)
	return 0
}

// sameTwice makes a figure twice and compares every byte.
func sameTwice(t *testing.T, make func() (*figure.Figure, error)) *figure.Figure {
	t.Helper()
	var first []byte
	var f *figure.Figure
	for range 2 {
		var err error
		if f, err = make(); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := f.Write(&b, "json"); err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b.Bytes()
		} else if !bytes.Equal(first, b.Bytes()) {
			t.Errorf("figure %q differs from one making to the next", f.ID)
		}
	}
	return f
}

// near tells whether a curve stays within 3 % of the clairvoyant plan from 1.2 crawls
// per sensor on.
func near(s figure.Series) bool {
	for _, q := range s.Points {
		if q.X >= 1.2 && q.Mean > 1.03 {
			return false
		}
	}
	return len(s.Points) == len(perSensor)
}

// Look-ahead is within 1.03 of a plan that knows all ranges, for every family; the
// other rules are not. Nothing is better than that plan.
func TestRollingRules(t *testing.T) {
	t.Parallel()
	c := Rolling{Families: Families(), Sensors: 40, Ranges: 20, Runs: 1, Seed: 1}
	if ci() {
		c.Runs = 5
	}
	f, err := c.Figure()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range f.Panels {
		for _, s := range p.Series {
			for _, q := range s.Points {
				t.Logf("%-6s %-11s %3v crawls: %.3f (%.3f..%.3f)", p.Title, s.Name, q.X, q.Mean, q.Min,
					q.Max)
				if q.Min < 0.999 {
					t.Errorf("%s, %s: %v of the clairvoyant plan's latency", p.Title, s.Name, q.Min)
				}
			}
		}
		ahead, carry := seriesNamed(t, p, "look-ahead"), seriesNamed(t, p, "carry")
		if !near(ahead) {
			t.Errorf("%s: look-ahead is not within 1.03 of the clairvoyant plan", p.Title)
		}
		if near(carry) { // the negative control
			t.Errorf("%s: a rule without look-ahead passes", p.Title)
		}
		for _, per := range perSensor[1:] {
			if meanAt(t, ahead, per) > meanAt(t, seriesNamed(t, p, "half a gap"), per) {
				t.Errorf("%s, %v crawls: half a gap is better than look-ahead", p.Title, per)
			}
		}
	}
}

// A crawl for each sensor cannot be made with less, and the figure says so.
func TestRollingInfeasible(t *testing.T) {
	half, err := FamilyNamed("half")
	if err != nil {
		t.Fatal(err)
	}
	c := Rolling{Families: []Family{half}, Sensors: 6, Ranges: 2, Runs: 2, Seed: 3}
	f := sameTwice(t, c.Figure)
	fixed := seriesNamed(t, f.Panels[0], "fixed")
	if len(fixed.Points) != len(perSensor)-1 || fixed.Points[0].X != 1.2 {
		t.Errorf("fixed has the points %v", fixed.Points)
	}
	note := "half, fixed, 0.5 crawls per sensor: infeasible"
	if n := strings.Count(strings.Join(f.Notes, "\n"), note); n != 1 {
		t.Errorf("it is called infeasible %d times in %q", n, f.Notes)
	}
}
