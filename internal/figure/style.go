package figure

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

var (
	ink   = color.NRGBA{0x22, 0x22, 0x22, 0xff} // text
	faint = color.NRGBA{0x55, 0x55, 0x55, 0xff} // captions and axes
	light = color.NRGBA{0xdd, 0xdd, 0xdd, 0xff} // the grid
)

// look is what tells a series from the others: by colour, and in grey by dash
// and glyph.
type look struct {
	color  color.NRGBA
	dashes []vg.Length
	shape  shape
	turn   int // place among the looks, so that sparse glyphs do not coincide
}

// palette is that of Okabe and Ito (2008), which colour-blind readers can tell
// apart. Grey stands in for its yellow, which is invisible as a line on white.
var palette = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, // blue
	{0xd5, 0x5e, 0x00, 0xff}, // vermilion
	{0x00, 0x9e, 0x73, 0xff}, // bluish green
	{0xcc, 0x79, 0xa7, 0xff}, // reddish purple
	{0x00, 0x00, 0x00, 0xff}, // black
	{0xe6, 0x9f, 0x00, 0xff}, // orange
	{0x56, 0xb4, 0xe9, 0xff}, // sky blue
	{0x80, 0x80, 0x80, 0xff}, // grey
}

var dashes = [][]vg.Length{nil, {6, 3}, {2, 2}, {8, 3, 2, 3}, {12, 3}}

var shapes = []shape{
	{},
	{sides: 4, turn: math.Pi / 4},
	{sides: 3, turn: math.Pi / 2},
	{sides: 4},
	{hollow: true},
	{sides: 4, turn: math.Pi / 4, hollow: true},
	{sides: 3, turn: -math.Pi / 2, hollow: true},
	{sides: 4, hollow: true},
}

// looks gives every name of the figure its look, in order of appearance.
func (f *Figure) looks() map[string]look {
	looks := map[string]look{}
	for _, p := range f.Panels {
		for _, s := range p.Series {
			if _, has := looks[s.Name]; has {
				continue
			}
			i := len(looks)
			// From the ninth on colours return with other dashes and glyphs.
			other := i + i/len(palette)
			looks[s.Name] = look{palette[i%len(palette)], dashes[other%len(dashes)],
				shapes[other%len(shapes)], i}
		}
	}
	return looks
}

func (l look) line(width vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: l.color, Width: width, Dashes: l.dashes}
}

// solid is line without dashes, for error bars and outlines.
func (l look) solid(width vg.Length) draw.LineStyle {
	return draw.LineStyle{Color: l.color, Width: width}
}

// tint is the colour of the look, see-through.
func (l look) tint(alpha uint8) color.NRGBA {
	c := l.color
	c.A = alpha
	return c
}

// shape is a glyph: a circle, or a regular polygon whose first corner lies at
// the angle turn.
type shape struct {
	sides  int
	turn   float64
	hollow bool
}

// draw draws the glyph unless its centre lies outside the canvas.
func (s shape) draw(c draw.Canvas, l look, at vg.Point) {
	if !c.Contains(at) {
		return
	}
	const radius = 3.2
	var path vg.Path
	if s.sides == 0 {
		path.Move(at.Add(vg.Point{X: radius}))
		path.Arc(at, radius, 0, 2*math.Pi)
	}
	for i := range s.sides {
		sin, cos := math.Sincos(s.turn + 2*math.Pi*float64(i)/float64(s.sides))
		corner := vg.Point{X: vg.Length(1.25 * radius * cos), Y: vg.Length(1.25 * radius * sin)}
		if i == 0 {
			path.Move(at.Add(corner))
		} else {
			path.Line(at.Add(corner))
		}
	}
	path.Close()
	if !s.hollow {
		c.SetColor(l.color)
		c.Fill(path)
		return
	}
	c.SetColor(color.White)
	c.Fill(path)
	c.SetLineStyle(l.solid(1.1))
	c.Stroke(path)
}

// sans is a text style of the sans-serif font. Its metrics are those of Arial,
// so what is measured here holds wherever Arial or its twins are installed.
func sans(size vg.Length, c color.Color) text.Style {
	return text.Style{Color: c, Font: font.Font{Typeface: "Liberation", Variant: "Sans", Size: size},
		Handler: plot.DefaultTextHandler}
}

// fontFamily is what the picture asks the reader's machine for.
const fontFamily = "'Liberation Sans',Arimo,Arial,Helvetica,sans-serif"

// measure is the width of texts in a style, in the style's own unit.
func measure(sty text.Style) func(string) float64 {
	return func(s string) float64 { return float64(sty.Width(s)) }
}
