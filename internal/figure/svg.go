package figure

import (
	"bytes"
	"fmt"
	"image/color"
	"io"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Sizes in points, of which 72 make an inch and 0.75 a CSS pixel.
const (
	figureWidth = 675 // of one column of panels: 900 pixels
	panelHeight = 345 // without the legend
	margin      = 14
	panelGap    = 16
	legendLine  = 15
	legendThumb = 26
	captionLine = 12.5
	titleLine   = 18
	labelRoom   = 18 // left of a panel and below it, for the labels of the axes
)

// layout is the places of a figure's parts.
type layout struct {
	cols, rows    int
	title         []string
	caption       []string
	legend        vg.Length // height of the room below each panel
	width, height vg.Length
}

// writeSVG draws the panels in one column, from the fourth on in two, with the
// title above them, a legend below each and source, facts and notes at the end.
func (f *Figure) writeSVG(w io.Writer) error {
	looks := f.looks()
	l := f.layout()
	canvas := vgsvg.New(l.width, l.height)
	all := draw.New(canvas)
	all.SetColor(color.White)
	all.Fill(all.Rectangle.Path())
	inner := draw.Crop(all, margin, -margin, margin, -margin)
	f.captions(inner, l)
	above, below := vg.Length(len(l.title))*titleLine, vg.Length(len(l.caption))*captionLine
	area := draw.Crop(inner, 0, 0, below, -above)
	plots := make([][]*plot.Plot, l.rows)
	for i := range plots {
		plots[i] = make([]*plot.Plot, l.cols)
	}
	for i, p := range f.Panels {
		plots[i/l.cols][i%l.cols] = p.plot(looks)
	}
	strip := labelRoom + l.legend // below each panel
	tiles := draw.Tiles{Cols: l.cols, Rows: l.rows, PadLeft: labelRoom, PadX: panelGap + labelRoom,
		PadTop: panelGap / 2, PadY: panelGap + strip, PadBottom: panelGap/2 + strip}
	canvases := plot.Align(plots, tiles, area)
	for i, p := range f.Panels {
		at, pl := canvases[i/l.cols][i%l.cols], plots[i/l.cols][i%l.cols]
		pl.Draw(at)
		data := pl.DataCanvas(at)
		p.drawLabels(at, data)
		p.drawLegend(draw.Canvas{Canvas: at.Canvas, Rectangle: vg.Rectangle{
			Min: vg.Point{X: data.Min.X, Y: at.Min.Y - strip},
			Max: vg.Point{X: data.Max.X, Y: at.Min.Y - labelRoom - 4}}}, looks)
	}
	return f.finish(w, canvas)
}

// layout measures the figure.
func (f *Figure) layout() layout {
	l := layout{cols: 1}
	if len(f.Panels) > 3 {
		l.cols = 2
	}
	l.rows = (len(f.Panels) + l.cols - 1) / l.cols
	l.width = vg.Length(l.cols) * figureWidth
	// The font that the reader has may be wider than the one that is measured.
	room := 0.85 * float64(l.width-2*margin)
	if f.Title != "" {
		l.title = wrap(f.Title, room, measure(sans(13, ink)))
	}
	add := func(text string) {
		l.caption = append(l.caption, wrap(text, room, measure(sans(9, faint)))...)
	}
	for _, fact := range f.Facts {
		add(fact.sentence())
	}
	for _, note := range f.Notes {
		add(note)
	}
	if f.Source != "" {
		add("Reproduces " + f.Source + ".")
	}
	for _, p := range f.Panels {
		l.legend = max(l.legend, p.legendHeight())
	}
	l.height = 2*margin + vg.Length(len(l.title))*titleLine + vg.Length(len(l.caption))*captionLine +
		vg.Length(l.rows)*(panelHeight+l.legend+panelGap)
	return l
}

func (f Fact) sentence() string {
	s := f.Name + ": " + number(f.Value)
	if f.Unit != "" {
		s += " " + f.Unit
	}
	if f.Paper != "" {
		s += " (paper: " + f.Paper + ")"
	}
	return s
}

// captions writes the title above the panels and the rest below them.
func (f *Figure) captions(c draw.Canvas, l layout) {
	title, small := sans(13, ink), sans(9, faint)
	title.YAlign, small.YAlign = draw.YTop, draw.YTop
	y := c.Max.Y
	for _, line := range l.title {
		c.FillText(title, vg.Point{X: c.Min.X, Y: y}, line)
		y -= titleLine
	}
	y = c.Min.Y + vg.Length(len(l.caption))*captionLine
	for _, line := range l.caption {
		c.FillText(small, vg.Point{X: c.Min.X, Y: y}, line)
		y -= captionLine
	}
}

// The room that a legend may count on: what the axis takes of a panel's width
// is not known before all panels are aligned.
const legendRoom = figureWidth - 2*margin - 80

// legendLines lays the series' names out in lines from left to right and calls
// place for each; it returns the number of lines.
func (p Panel) legendLines(place func(s Series, name string, x vg.Length, line int)) int {
	sty := sans(9.5, ink)
	x, line := vg.Length(0), 0
	for _, s := range p.Series {
		name := shorten(s.Name, legendRoom-legendThumb-6, measure(sty))
		width := legendThumb + 6 + sty.Width(name)*1.15 + 18
		if x > 0 && x+width-18 > legendRoom {
			x, line = 0, line+1
		}
		place(s, name, x, line)
		x += width
	}
	return line + 1
}

func (p Panel) legendHeight() vg.Length {
	lines := p.legendLines(func(Series, string, vg.Length, int) {})
	return vg.Length(lines)*legendLine + 6
}

func (p Panel) drawLegend(c draw.Canvas, looks map[string]look) {
	sty := sans(9.5, ink)
	sty.YAlign = draw.YCenter
	p.legendLines(func(s Series, name string, x vg.Length, line int) {
		y := c.Max.Y - (vg.Length(line)+0.5)*legendLine
		at := vg.Point{X: c.Min.X + x, Y: y}
		l := looks[s.Name]
		if s.Style == Bars {
			l.box(c, vg.Rectangle{Min: at.Add(vg.Point{X: 4, Y: -4}),
				Max: at.Add(vg.Point{X: legendThumb - 4, Y: 4})})
		}
		if s.Style == Line || s.Style == Steps {
			c.StrokeLine2(l.line(1.5), at.X, y, at.X+legendThumb, y)
		}
		if s.Style == Line || s.Style == Points {
			l.shape.draw(c, l, at.Add(vg.Point{X: legendThumb / 2}))
		}
		descent := sty.FontExtents().Descent
		c.FillText(sty, at.Add(vg.Point{X: legendThumb + 6, Y: descent}), name)
	})
}

// finish writes the canvas with a title for those who do not see it, and with
// the font's twins named beside it. The family is replaced where it begins a
// style attribute: quotes in texts are escaped.
func (f *Figure) finish(w io.Writer, canvas *vgsvg.Canvas) error {
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return err
	}
	svg := bytes.ReplaceAll(b.Bytes(), []byte(`style="font-family:Liberation Sans;`),
		[]byte(`style="font-family:`+fontFamily+`;`))
	head, body, _ := bytes.Cut(svg, []byte("xlink\">\n"))
	_, err := fmt.Fprintf(w, "%sxlink\" role=\"img\">\n<title>%s</title>\n%s", head,
		markup(f.Title), body)
	return err
}
