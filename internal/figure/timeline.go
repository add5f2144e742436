package figure

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// Timeline is sensors over the same stretch of time, one row each, as in Fig. 10
// of the EasiCrawl paper.
type Timeline struct {
	Title    string
	From, To time.Time // From before To, in the years 1 to 9999 as all instants
	Rows     []Row
	Legend   bool // explain the signs in drawings
	Notes    []string
}

// Row is a sensor: when it is awake and what happens to it.
type Row struct {
	Label string             // its name, on the left
	Note  string             // such as counts, on the right
	Awake []sleepplan.Window // sorted and disjoint; they may reach beyond the range
	Marks []Mark             // in any order
	Curve []Sample           // raw readings behind the marks, or none; ascending in time
}

// Mark is something that happens at an instant.
type Mark struct {
	At   time.Time `json:"at"`
	Kind MarkKind  `json:"kind"`
	Tip  string    `json:"tip"` // shown beside the kind and instant, or ""
}

// Sample is a reading of a sensor.
type Sample struct {
	At    time.Time `json:"at"`
	Value float64   `json:"value"`
}

// MarkKind is what happens at a mark.
type MarkKind uint8

// The kinds, with their signs.
const (
	Event   MarkKind = iota // a circle: the sensor captured something
	Planned                 // a hollow triangle
	Crawled                 // a filled triangle
	Failed                  // a cross: a crawl that got no description
	Changed                 // a bar: the description differs from the one before
)

var markNames = []string{"event", "planned", "crawled", "failed", "changed"}

// String is the kind's name in JSON and CSV.
func (k MarkKind) String() string { return nameOf(markNames, "mark", int(k)) }

// MarshalText is String.
func (k MarkKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Write writes the timeline in one of Formats; the table is a drawing in
// characters without the curves. What cannot be shown is refused before
// anything is written, and the row is named. Marks and readings outside of
// [From, To] are written as JSON and CSV, but not drawn; drawings count the marks.
func (t *Timeline) Write(w io.Writer, format string) error {
	write, known := map[string]func(io.Writer) error{
		"table": t.writeTable, "json": t.writeJSON, "csv": t.writeCSV, "svg": t.writeSVG,
	}[format]
	if !known {
		return formatError(format)
	}
	if err := t.check(); err != nil {
		return fmt.Errorf("timeline %q: %w", t.Title, err)
	}
	return write(w)
}

// WriteSVG is Write for the format svg.
func (t *Timeline) WriteSVG(w io.Writer) error { return t.Write(w, "svg") }

func (t *Timeline) check() error {
	for _, at := range []time.Time{t.From, t.To} {
		if err := representable(at); err != nil {
			return err
		}
	}
	if !t.From.Before(t.To) {
		return fmt.Errorf("it does not end after its start %s", stamp(t.From))
	}
	if len(t.Rows) == 0 {
		return errors.New("no rows")
	}
	for _, r := range t.Rows {
		if err := r.check(); err != nil {
			return fmt.Errorf("row %q: %w", r.Label, err)
		}
	}
	return nil
}

func (r Row) check() error {
	for i, a := range r.Awake {
		if err := errors.Join(representable(a.Start), representable(a.End)); err != nil {
			return fmt.Errorf("window %d: %w", i, err)
		}
		if !a.Start.Before(a.End) || i > 0 && a.Start.Before(r.Awake[i-1].End) {
			return fmt.Errorf("window %d from %s: windows must be sorted, disjoint and not empty",
				i, stamp(a.Start))
		}
	}
	for i, m := range r.Marks {
		if err := representable(m.At); err != nil {
			return fmt.Errorf("mark %d: %w", i, err)
		}
		if int(m.Kind) >= len(markNames) {
			return fmt.Errorf("mark %d: no such kind: %v", i, m.Kind)
		}
	}
	for i, s := range r.Curve {
		if err := representable(s.At); err != nil {
			return fmt.Errorf("reading %d: %w", i, err)
		}
		if !finite(s.Value) {
			return fmt.Errorf("reading %d: %v is no value to show", i, s.Value)
		}
		if i > 0 && s.At.Before(r.Curve[i-1].At) {
			return fmt.Errorf("reading %d: %s is before the one that precedes it", i, stamp(s.At))
		}
	}
	return nil
}

// representable tells why RFC 3339 cannot hold an instant.
func representable(t time.Time) error {
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return fmt.Errorf("an instant in the year %d", y)
	}
	return nil
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// shows reports whether t is drawn. To itself is: a range's last crawl may lie
// there.
func (t *Timeline) shows(at time.Time) bool { return !at.Before(t.From) && !at.After(t.To) }

// share is the place of an instant in the range, from 0 to 1.
func (t *Timeline) share(at time.Time) float64 {
	s := seconds(t.From, at) / seconds(t.From, t.To)
	return min(max(s, 0), 1)
}

// seconds may be more than a time.Duration holds.
func seconds(from, to time.Time) float64 {
	return float64(to.Unix()-from.Unix()) + float64(to.Nanosecond()-from.Nanosecond())/1e9
}

// The timeline in JSON. Instants are in UTC, lists are never null.
type (
	timelineJSON struct {
		Title string    `json:"title"`
		From  time.Time `json:"from"`
		To    time.Time `json:"to"`
		Rows  []rowJSON `json:"rows"`
		Notes []string  `json:"notes"`
	}
	rowJSON struct {
		Label string             `json:"label"`
		Note  string             `json:"note"`
		Awake []sleepplan.Window `json:"awake"`
		Marks []Mark             `json:"marks"`
		Curve []Sample           `json:"curve"`
	}
)

func (t *Timeline) writeJSON(w io.Writer) error {
	doc := timelineJSON{t.Title, t.From.UTC(), t.To.UTC(), make([]rowJSON, len(t.Rows)),
		append([]string{}, t.Notes...)}
	for i, r := range t.Rows {
		row := rowJSON{r.Label, r.Note, make([]sleepplan.Window, len(r.Awake)),
			make([]Mark, len(r.Marks)), make([]Sample, len(r.Curve))}
		for k, a := range r.Awake {
			row.Awake[k] = sleepplan.Window{Start: a.Start.UTC(), End: a.End.UTC()}
		}
		for k, m := range r.Marks {
			row.Marks[k] = Mark{m.At.UTC(), m.Kind, m.Tip}
		}
		for k, s := range r.Curve {
			row.Curve[k] = Sample{s.At.UTC(), s.Value}
		}
		doc.Rows[i] = row
	}
	return writeJSON(w, doc)
}

// writeCSV writes a line per row, with its note, and one per window, mark and
// reading; what names which.
func (t *Timeline) writeCSV(w io.Writer) error {
	lines := [][]string{{"row", "what", "start", "end", "value", "text"}}
	for _, r := range t.Rows {
		lines = append(lines, []string{r.Label, "row", stamp(t.From), stamp(t.To), "", r.Note})
		for _, a := range r.Awake {
			lines = append(lines, []string{r.Label, "awake", stamp(a.Start), stamp(a.End), "", ""})
		}
		for _, m := range r.Marks {
			lines = append(lines, []string{r.Label, m.Kind.String(), stamp(m.At), "", "", m.Tip})
		}
		for _, s := range r.Curve {
			lines = append(lines, []string{r.Label, "reading", stamp(s.At), "", exact(s.Value), ""})
		}
	}
	return csv.NewWriter(w).WriteAll(lines)
}

// hidden counts the marks that drawings leave out.
func (t *Timeline) hidden() string {
	n := 0
	for _, r := range t.Rows {
		for _, m := range r.Marks {
			if !t.shows(m.At) {
				n++
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("Marks outside of the range, which are not drawn: %d.", n)
}

// round keeps a tenth of a pixel.
func round(x float64) float64 { return math.Round(x*10) / 10 }
