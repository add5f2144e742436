// Package figure holds pictures together with the numbers behind them. A Figure
// is a plot of curves, a Timeline a drawing of sensors over time; each is one
// value that is written as a table for people, as JSON or CSV for programs, or
// as SVG to be looked at.
//
// The package reads no clock and writes only to the io.Writer it is handed.
// Equal values give equal bytes in every format. Names may come from sensors:
// control characters are replaced in tables and pictures, markup is escaped.
package figure

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// ErrFormat is wrapped by what Write answers to a format it does not know.
var ErrFormat = errors.New("unknown format")

// Formats are the names that Write knows.
func Formats() []string { return []string{"table", "json", "csv", "svg"} }

// Figure is a picture of one or more panels with the numbers behind it.
type Figure struct {
	ID     string   `json:"id"` // short and stable, such as "easicrawl-4"
	Title  string   `json:"title"`
	Source string   `json:"source"` // what it reproduces, such as "EasiCrawl, Fig. 4", or ""
	Panels []Panel  `json:"panels"`
	Facts  []Fact   `json:"facts"` // numbers beside the picture
	Notes  []string `json:"notes"` // one sentence each
}

// Panel is one pair of axes. A series keeps its colour, dash and glyph in all
// panels of a figure; the name tells.
type Panel struct {
	Title  string   `json:"title"` // may be empty
	X      Axis     `json:"x"`
	Y      Axis     `json:"y"`
	Series []Series `json:"series"` // names differ within a panel
}

// Axis is what a direction of a panel measures.
type Axis struct {
	Label string   `json:"label"`
	Unit  string   `json:"unit"` // such as "s"; empty for plain counts and ratios
	Log   bool     `json:"log"`  // all values must be positive
	Min   *float64 `json:"min"`  // end of the drawn axis; nil = from the data
	Max   *float64 `json:"max"`
}

// Series is one curve. The X of its points ascend strictly, but for Points.
type Series struct {
	Name   string  `json:"name"`
	Style  Style   `json:"style"`
	Points []Point `json:"points"`
}

// Point is what N runs gave at X. Min, Mean and Max are equal where there was
// one.
type Point struct {
	X    float64 `json:"x"`
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	N    int     `json:"n"`
}

// At is the point of a single run.
func At(x, y float64) Point { return Point{x, y, y, y, 1} }

// Over is the point of several runs: their mean, least and greatest value. No
// runs give N = 0, which Write refuses.
func Over(x float64, runs []float64) Point {
	if len(runs) == 0 {
		return Point{X: x}
	}
	p := Point{X: x, Min: runs[0], Max: runs[0], N: len(runs)}
	for _, y := range runs {
		p.Mean += y / float64(len(runs))
		p.Min, p.Max = min(p.Min, y), max(p.Max, y)
	}
	p.Mean = min(max(p.Mean, p.Min), p.Max) // rounding may leave the interval
	return p
}

// Style is how a series is drawn.
type Style uint8

// The styles.
const (
	Line   Style = iota // joined points
	Points              // points alone, in any order
	Steps               // each value holds until the next x
	Bars                // from zero, beside those of other series
)

var styleNames = []string{"line", "points", "steps", "bars"}

// String is the style's name in JSON.
func (s Style) String() string { return nameOf(styleNames, "style", int(s)) }

// MarshalText is String.
func (s Style) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (s *Style) UnmarshalText(text []byte) error {
	for i, name := range styleNames {
		if name == string(text) {
			*s = Style(i)
			return nil
		}
	}
	return fmt.Errorf("figure: unknown style %q: use one of %q", text, styleNames)
}

// nameOf is names[i], or kind(i) for a value that has none.
func nameOf(names []string, kind string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return kind + "(" + strconv.Itoa(i) + ")"
}

// Fact is a number beside the picture.
type Fact struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Paper string  `json:"paper"` // the paper's own value in its words, or ""
}

// Write writes the figure in one of Formats. It refuses, before anything is
// written and naming the panel and series, what cannot be shown: nothing to
// draw, values that are not finite, means outside min..max, points out of order.
func (f *Figure) Write(w io.Writer, format string) error {
	write, known := map[string]func(io.Writer) error{
		"table": f.writeTable, "json": f.writeJSON, "csv": f.writeCSV, "svg": f.writeSVG,
	}[format]
	if !known {
		return formatError(format)
	}
	if err := f.check(); err != nil {
		return fmt.Errorf("figure %q: %w", f.ID, err)
	}
	return write(w)
}

func formatError(format string) error {
	return fmt.Errorf("%w %q: must be one of %s", ErrFormat, format, strings.Join(Formats(), ", "))
}

func (f *Figure) writeJSON(w io.Writer) error {
	c := *f
	c.Facts = append([]Fact{}, f.Facts...) // never null
	c.Notes = append([]string{}, f.Notes...)
	return writeJSON(w, c)
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// writeCSV writes one row per panel, series and point, with full precision.
// Panels are named by title, or by number where they have none.
func (f *Figure) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"panel", "series", "x", "mean", "min", "max", "n"}}
	for i, p := range f.Panels {
		for _, s := range p.Series {
			for _, q := range s.Points {
				rows = append(rows, []string{p.name(i), s.Name, exact(q.X), exact(q.Mean),
					exact(q.Min), exact(q.Max), strconv.Itoa(q.N)})
			}
		}
	}
	return out.WriteAll(rows)
}

// name is the title of the i-th panel, or its number from 1.
func (p Panel) name(i int) string {
	if p.Title != "" {
		return p.Title
	}
	return strconv.Itoa(i + 1)
}

// exact is the shortest decimal that reads back as v.
func exact(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// title is the label with its unit.
func (a Axis) title() string {
	if a.Unit == "" {
		return a.Label
	}
	return a.Label + " (" + a.Unit + ")"
}
