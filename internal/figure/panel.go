package figure

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A series of more points than crowded has glyphs at some of them and a band
// instead of error bars.
const crowded = 30

// plot is the panel without its legend and the labels of its axes.
func (p Panel) plot(looks map[string]look) *plot.Plot {
	pl := plot.New()
	pl.Title.Text = clean(p.Title)
	pl.Title.TextStyle = sans(11, ink)
	pl.Title.TextStyle.XAlign, pl.Title.TextStyle.YAlign = draw.XCenter, draw.YTop
	pl.Title.Padding = 8
	pl.BackgroundColor = nil // the tiles overlap after they are aligned
	xlo, xhi, ylo, yhi := p.bounds()
	bars, gap := p.bars()
	if bars > 0 { // half a group stands beyond the outermost points
		if p.X.Log {
			xlo, xhi = xlo*math.Exp(-gap/2), xhi*math.Exp(gap/2)
		} else {
			xlo, xhi = xlo-gap/2, xhi+gap/2
		}
	}
	fromZero := bars > 0 || ylo >= 0 && ylo <= yhi/2 || yhi <= 0 && yhi >= ylo/2
	dress(&pl.X, p.X)
	pl.X.Min, pl.X.Max = p.X.span(xlo, xhi, 0.02, false)
	pl.X.Tick.Marker = p.X.ticks(pl.X.Min, pl.X.Max, 10)
	dress(&pl.Y, p.Y)
	pl.Y.Min, pl.Y.Max = p.Y.span(ylo, yhi, 0.05, fromZero)
	pl.Y.Tick.Marker = p.Y.ticks(pl.Y.Min, pl.Y.Max, 8)
	for i, t := range pl.Y.Tick.Marker.(plot.ConstantTicks) {
		if !t.IsMinor() { // a blank more, lest a wider font touch the axis
			pl.Y.Tick.Marker.(plot.ConstantTicks)[i].Label += " "
		}
	}
	pl.Add(grid{})
	bar := 0
	for _, s := range p.Series {
		q := painter{s, looks[s.Name], bar, bars, gap}
		if s.Style == Bars {
			bar++
		}
		pl.Add(q)
	}
	return pl
}

// dress gives an axis of the plot its fonts, lines and scale. The label is not
// the plot's: it would take its room from where half of the range is, which on a
// logarithmic axis is far from the middle.
func dress(to *plot.Axis, a Axis) {
	to.Padding = 0
	to.LineStyle = draw.LineStyle{Color: faint, Width: 0.8}
	to.Tick.LineStyle = to.LineStyle
	to.Tick.Length = 5
	sty := sans(9, ink)
	sty.XAlign, sty.YAlign = to.Tick.Label.XAlign, to.Tick.Label.YAlign
	to.Tick.Label = sty
	if a.Log {
		to.Scale = plot.LogScale{}
	}
}

// drawLabels labels the axes of the panel that was drawn at, with data the
// canvas between its axes.
func (p Panel) drawLabels(at, data draw.Canvas) {
	sty := sans(10, ink)
	sty.XAlign, sty.YAlign = draw.XCenter, draw.YTop
	width, height := float64(data.Max.X-data.Min.X), float64(data.Max.Y-data.Min.Y)
	at.FillText(sty, vg.Point{X: data.Center().X, Y: at.Min.Y - 4},
		shorten(p.X.title(), width, measure(sty)))
	y := shorten(p.Y.title(), height, measure(sty))
	sty.Rotation, sty.YAlign = math.Pi/2, draw.YBottom
	at.FillText(sty, vg.Point{X: at.Min.X - 6, Y: data.Center().Y}, y)
}

// bounds are the extremes of all points, spread included.
func (p Panel) bounds() (xlo, xhi, ylo, yhi float64) {
	xlo, xhi, ylo, yhi = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, s := range p.Series {
		for _, q := range s.Points {
			xlo, xhi = min(xlo, q.X), max(xhi, q.X)
			ylo, yhi = min(ylo, q.Min), max(yhi, q.Max)
		}
	}
	return xlo, xhi, ylo, yhi
}

// bars is the number of series of bars and the room of one group of bars: the
// least distance of two x among them, of logarithms on a logarithmic axis.
func (p Panel) bars() (n int, gap float64) {
	var xs []float64
	for _, s := range p.Series {
		if s.Style != Bars {
			continue
		}
		n++
		for _, q := range s.Points {
			xs = append(xs, p.X.linear(q.X))
		}
	}
	slices.SortFunc(xs, cmp.Compare)
	xs = slices.Compact(xs)
	gap = math.Inf(1)
	for i := range xs[min(len(xs), 1):] {
		gap = min(gap, xs[i+1]-xs[i])
	}
	if math.IsInf(gap, 1) {
		gap = 1
	}
	return n, gap
}

// linear is what is proportional to the place on the axis.
func (a Axis) linear(v float64) float64 {
	if a.Log {
		return math.Log(v)
	}
	return v
}

// grid draws a line at every labelled tick.
type grid struct{}

// Plot implements plot.Plotter.
func (grid) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	sty := draw.LineStyle{Color: light, Width: 0.6}
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if !t.IsMinor() {
			c.StrokeLine2(sty, x(t.Value), c.Min.Y, x(t.Value), c.Max.Y)
		}
	}
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if !t.IsMinor() {
			c.StrokeLine2(sty, c.Min.X, y(t.Value), c.Max.X, y(t.Value))
		}
	}
}

// painter draws one series.
type painter struct {
	Series
	look look
	bar  int // place among the series of bars
	bars int
	gap  float64 // as Panel.bars gives it
}

// Plot implements plot.Plotter.
func (s painter) Plot(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	if s.Style == Bars {
		s.drawBars(c, p)
		return
	}
	var mean, low, high []vg.Point
	for i, q := range s.Points {
		if s.Style == Steps && i > 0 {
			before := s.Points[i-1]
			mean = append(mean, vg.Point{X: x(q.X), Y: y(before.Mean)})
			low = append(low, vg.Point{X: x(q.X), Y: y(before.Min)})
			high = append(high, vg.Point{X: x(q.X), Y: y(before.Max)})
		}
		mean = append(mean, vg.Point{X: x(q.X), Y: y(q.Mean)})
		low = append(low, vg.Point{X: x(q.X), Y: y(q.Min)})
		high = append(high, vg.Point{X: x(q.X), Y: y(q.Max)})
	}
	band := len(s.Points) > crowded && s.Style != Points
	if band && !slices.Equal(low, high) {
		slices.Reverse(low)
		c.FillPolygon(s.look.tint(48), c.ClipPolygonXY(slices.Concat(high, low)))
	}
	if s.Style != Points {
		c.StrokeLines(s.look.line(1.5), c.ClipLinesXY(mean)...)
	}
	for i, q := range s.Points {
		if !band {
			errorBar(c, s.look.solid(1), x(q.X), y(q.Min), y(q.Max))
		}
		if s.Style != Steps && s.marked(i) {
			s.look.shape.draw(c, s.look, vg.Point{X: x(q.X), Y: y(q.Mean)})
		}
	}
}

// marked tells the points that have a glyph.
func (s painter) marked(i int) bool {
	every := 1
	if len(s.Points) > crowded && s.Style != Points {
		every = (len(s.Points) + 11) / 12
	}
	return i%every == s.look.turn*every/len(palette)%every
}

// errorBar joins the least and the greatest value at x.
func errorBar(c draw.Canvas, sty draw.LineStyle, x, low, high vg.Length) {
	if low == high || !c.ContainsX(x) {
		return
	}
	c.StrokeLines(sty, c.ClipLinesY([]vg.Point{{X: x, Y: low}, {X: x, Y: high}})...)
	for _, y := range []vg.Length{low, high} {
		if c.ContainsY(y) {
			c.StrokeLine2(sty, x-3, y, x+3, y)
		}
	}
}

func (s painter) drawBars(c draw.Canvas, p *plot.Plot) {
	x, y := p.Transforms(&c)
	base := c.Min.Y
	if p.Y.Min < 0 {
		base = y(min(p.Y.Max, 0))
	}
	_, log := p.X.Scale.(plot.LogScale)
	for _, q := range s.Points {
		right := q.X + s.gap
		if log {
			right = q.X * math.Exp(s.gap)
		}
		width := (x(right) - x(q.X)) * 0.8 / vg.Length(s.bars)
		left := x(q.X) + width*(vg.Length(s.bar)-vg.Length(s.bars)/2)
		top := y(q.Mean)
		box := vg.Rectangle{Min: vg.Point{X: left + width*0.05, Y: min(base, top)},
			Max: vg.Point{X: left + width*0.95, Y: max(base, top)}}
		if c.ContainsX(x(q.X)) {
			s.look.box(c, box)
			sty := draw.LineStyle{Color: ink, Width: 1} // seen on the bar, too
			errorBar(c, sty, left+width/2, y(q.Min), y(q.Max))
		}
	}
}

// box draws a bar, or its sample in the legend: solid, or hatched in one of
// three directions, so that neighbours differ in grey.
func (l look) box(c draw.Canvas, r vg.Rectangle) {
	corners := func(r vg.Rectangle) []vg.Point {
		return []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}}
	}
	outline := c.ClipPolygonXY(corners(r))
	if len(outline) == 0 {
		return
	}
	alpha := []uint8{0xc0, 0x30, 0x60, 0x10}[l.turn%4]
	c.FillPolygon(l.tint(alpha), outline)
	in := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
		Min: vg.Point{X: max(r.Min.X, c.Min.X), Y: max(r.Min.Y, c.Min.Y)},
		Max: vg.Point{X: min(r.Max.X, c.Max.X), Y: min(r.Max.Y, c.Max.Y)}}}
	slope := []vg.Length{0, 1, -1, 0}[l.turn%4]
	high, wide := in.Max.Y-in.Min.Y, in.Max.X-in.Min.X
	hatch := draw.LineStyle{Color: l.color, Width: 0.7}
	if l.turn%4 != 0 {
		for at := -wide; at < high+wide; at += 4 {
			from := vg.Point{X: in.Min.X, Y: in.Min.Y + at}
			to := vg.Point{X: in.Max.X, Y: from.Y + slope*wide}
			c.StrokeLines(hatch, in.ClipLinesXY([]vg.Point{from, to})...)
		}
	}
	c.StrokeLines(l.solid(0.8), append(outline, outline[0]))
}
