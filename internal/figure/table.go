package figure

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	tableWidth  = 160 // columns; a panel with more series goes into several blocks
	proseWidth  = 100
	headerWidth = 14 // headers up to this width are not broken
	nameWidth   = 40 // longer names of series are cut in headers
)

func (f *Figure) writeTable(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", clean(f.ID), clean(f.Title))
	if f.Source != "" {
		fmt.Fprintf(&b, "reproduces %s\n", clean(f.Source))
	}
	for _, p := range f.Panels {
		b.WriteString("\n")
		p.table(&b)
	}
	if len(f.Facts) > 0 {
		b.WriteString("\n")
		factTable(&b, f.Facts)
	}
	notes(&b, f.Notes)
	_, err := io.WriteString(w, b.String())
	return err
}

// table writes the panel's caption and its blocks of columns.
func (p Panel) table(b *strings.Builder) {
	if p.Title != "" {
		fmt.Fprintf(b, "%s\n", clean(p.Title))
	}
	if y := clean(p.Y.title() + p.runs()); y != "" {
		fmt.Fprintf(b, "%s\n", y)
	}
	rows := p.rows()
	x := column{header: clean(p.X.title())}
	for _, r := range rows {
		x.add(short(r.x), "")
	}
	block := []column{x}
	for i, s := range p.Series {
		c := column{header: shorten(s.Name, nameWidth, columns)}
		for _, r := range rows {
			c.addPoint(r.points[i])
		}
		if len(block) > 1 && widthOf(append(block, c)) > tableWidth {
			writeBlock(b, block)
			b.WriteString("\n")
			block = []column{x}
		}
		block = append(block, c)
	}
	writeBlock(b, block)
}

// runs says what the numbers are where points stand for several runs.
func (p Panel) runs() string {
	least, most := p.Series[0].Points[0].N, 0
	for _, s := range p.Series {
		for _, q := range s.Points {
			least, most = min(least, q.N), max(most, q.N)
		}
	}
	switch {
	case most == 1:
		return ""
	case least == most:
		return fmt.Sprintf(", mean (min..max) of %d runs", most)
	}
	return fmt.Sprintf(", mean (min..max) of %d to %d runs", least, most)
}

// row is what the series of a panel have at x, by index; nil where nothing.
type row struct {
	x      float64
	points []*Point
}

// rows joins the series on x, ascending. An x has as many rows as the series
// with the most points there.
func (p Panel) rows() []row {
	var rows []row
	first := map[float64]int{} // row of x at which a series begins to look
	count := func(s Series) map[float64]int {
		n := map[float64]int{}
		for _, q := range s.Points {
			n[q.X]++
		}
		return n
	}
	most := map[float64]int{}
	for _, s := range p.Series {
		for x, n := range count(s) {
			most[x] = max(most[x], n)
		}
	}
	for x, n := range most {
		for range n {
			rows = append(rows, row{x, make([]*Point, len(p.Series))})
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return cmp.Compare(a.x, b.x) })
	for i := len(rows) - 1; i >= 0; i-- {
		first[rows[i].x] = i
	}
	for i, s := range p.Series {
		taken := map[float64]int{}
		for k, q := range s.Points {
			rows[first[q.X]+taken[q.X]].points[i] = &s.Points[k]
			taken[q.X]++
		}
	}
	return rows
}

// column is a header and two columns of cells: the means, aligned at the decimal
// point, and the ranges, which may all be empty.
type column struct {
	header        string
	means, ranges []string
}

func (c *column) add(mean, spread string) {
	c.means = append(c.means, mean)
	c.ranges = append(c.ranges, spread)
}

func (c *column) addPoint(q *Point) {
	switch {
	case q == nil:
		c.add("-", "")
	case q.Min == q.Max:
		c.add(number(q.Mean), "")
	default:
		c.add(number(q.Mean), fmt.Sprintf("(%s..%s)", number(q.Min), number(q.Max)))
	}
}

func widest(texts []string) int {
	n := 0
	for _, s := range texts {
		n = max(n, utf8.RuneCountInString(s))
	}
	return n
}

// cells are the column's lines without the header, and their width.
func (c column) cells() ([]string, int) {
	before, after := 0, 0
	for _, mean := range c.means {
		whole, part := split(mean)
		before, after = max(before, len(whole)), max(after, len(part))
	}
	spread := widest(c.ranges)
	lines := make([]string, len(c.means))
	for i := range lines {
		whole, part := split(c.means[i])
		lines[i] = pad(whole, before) + pad(part, -after)
		if spread > 0 {
			lines[i] += " " + pad(c.ranges[i], -spread)
		}
	}
	return lines, widest(lines)
}

// split cuts a number before its decimal point.
func split(number string) (whole, part string) {
	if i := strings.IndexByte(number, '.'); i >= 0 {
		return number[:i], number[i:]
	}
	return number, ""
}

// lines are the header, broken to the column's width, and that width.
func (c column) lines() ([]string, int) {
	_, width := c.cells()
	width = max(width, widest(strings.Fields(c.header)), min(widest([]string{c.header}), headerWidth))
	return wrap(c.header, float64(width), columns), width
}

func widthOf(block []column) int {
	sum := -2
	for _, c := range block {
		_, width := c.lines()
		sum += width + 2
	}
	return sum
}

// writeBlock writes columns side by side, everything aligned to the right and
// the headers to the bottom.
func writeBlock(b *strings.Builder, block []column) {
	high := 0
	for _, c := range block {
		head, _ := c.lines()
		high = max(high, len(head))
	}
	lines := make([]string, high+len(block[0].means))
	for _, c := range block {
		head, width := c.lines()
		cells, _ := c.cells()
		blank := make([]string, high-len(head))
		for i, cell := range slices.Concat(blank, head, cells) {
			lines[i] += pad(cell, width) + "  "
		}
	}
	for _, line := range lines {
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

func factTable(b *strings.Builder, facts []Fact) {
	var names, values, units []string
	for _, f := range facts {
		names = append(names, clean(f.Name))
		values = append(values, number(f.Value))
		units = append(units, clean(f.Unit))
	}
	name, value, unit := widest(names), widest(values), widest(units)
	for i, f := range facts {
		line := pad(names[i], -name) + "  " + pad(values[i], value) + " " + pad(units[i], -unit)
		if f.Paper != "" {
			line += "  (paper: " + clean(f.Paper) + ")"
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

func notes(b *strings.Builder, notes []string) {
	if len(notes) > 0 {
		b.WriteString("\n")
	}
	for _, note := range notes {
		for i, line := range wrap(note, proseWidth, columns) {
			b.WriteString([]string{"- ", "  "}[min(i, 1)] + line + "\n")
		}
	}
}
