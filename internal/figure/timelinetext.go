package figure

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

const (
	drawingWidth = 72 // columns
	labelWidth   = 32 // longer labels and notes are cut
)

// writeTable draws each row as sleepplan.Draw does. Failed crawls replace its
// signs; events and changes go into a line below where there are any.
func (t *Timeline) writeTable(w io.Writer) error {
	var b strings.Builder
	if t.Title != "" {
		fmt.Fprintf(&b, "%s\n", clean(t.Title))
	}
	fmt.Fprintf(&b, "%s .. %s\n\n", stamp(t.From), stamp(t.To))
	labels := make([]string, len(t.Rows))
	for i, r := range t.Rows {
		labels[i] = shorten(r.Label, labelWidth, columns)
	}
	width := widest(labels)
	for i, r := range t.Rows {
		line, below := t.drawRow(r)
		text := pad(labels[i], -width) + "  " + line + "  " + shorten(r.Note, labelWidth, columns)
		b.WriteString(strings.TrimRight(text, " ") + "\n")
		if below != "" {
			b.WriteString(strings.Repeat(" ", width+2) + below + "\n")
		}
	}
	if t.Legend {
		b.WriteString("\n= awake  . asleep  | crawl, planned or made  x crawl while asleep" +
			"  ! failed  o event  * changed\n")
	}
	all := t.Notes
	if h := t.hidden(); h != "" {
		all = append(all[:len(all):len(all)], h)
	}
	notes(&b, all)
	_, err := io.WriteString(w, b.String())
	return err
}

// drawRow is a row's line and the line below it, which may be empty.
func (t *Timeline) drawRow(r Row) (line, below string) {
	draw := func(awake []sleepplan.Window, kinds ...MarkKind) []byte {
		var at []time.Time
		for _, m := range r.Marks {
			for _, k := range kinds {
				if m.Kind != k || !t.shows(m.At) {
					continue
				}
				if m.At.Equal(t.To) { // Draw's range is half-open
					m.At = t.To.Add(-1)
				}
				at = append(at, m.At)
			}
		}
		return []byte(sleepplan.Draw(awake, at, t.From, t.To, drawingWidth))
	}
	// over puts a sign where the marks of a kind are: without windows Draw
	// writes an x there.
	over := func(to []byte, kind MarkKind, sign byte) {
		for i, c := range draw(nil, kind) {
			if c == 'x' {
				to[i] = sign
			}
		}
	}
	above := draw(r.Awake, Planned, Crawled)
	over(above, Failed, '!')
	second := []byte(strings.Repeat(" ", drawingWidth))
	over(second, Event, 'o')
	over(second, Changed, '*')
	return string(above), strings.TrimRight(string(second), " ")
}
