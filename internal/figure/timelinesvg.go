package figure

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sizes in pixels.
const (
	timelineWidth = 960
	edge          = 14
	rowHeight     = 36
	curveHeight   = 64 // of rows where one has a curve
	rowGap        = 4
	labelRoomMax  = 230
	noteRoomMax   = 180
	textSize      = 12
	textLine      = 16
)

// drawing is a timeline being written: the SVG so far, and where things are.
type drawing struct {
	*Timeline
	b           strings.Builder
	left, right float64 // of the rows
	top         float64 // of the first row
	height      float64 // of a row
	bottom      float64 // of the last row
}

// text measures what is written at textSize; what the reader's machine has
// instead may be wider.
func textWidth(s string) float64 { return 1.12 * measure(sans(textSize, ink))(s) }

// writeSVG writes presentation attributes only: they work where a page's policy
// forbids styles.
func (t *Timeline) writeSVG(w io.Writer) error {
	d := &drawing{Timeline: t, height: rowHeight, top: edge + 18}
	if t.Title != "" {
		d.top += 22
	}
	label, note := 0.0, 0.0
	for _, r := range t.Rows {
		label, note = max(label, textWidth(clean(r.Label))), max(note, textWidth(clean(r.Note)))
		if len(r.Curve) > 0 {
			d.height = curveHeight
		}
	}
	d.left = math.Ceil(edge + min(label, labelRoomMax) + 10)
	d.right = math.Floor(timelineWidth - edge - min(note, noteRoomMax) - 12)
	d.bottom = d.top + float64(len(t.Rows))*d.height
	d.header()
	for i, r := range t.Rows {
		d.row(r, d.top+float64(i)*d.height)
	}
	end := d.footer(d.axis())
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%s" `+
		`viewBox="0 0 %d %s" role="img" font-family="%s" font-size="%d" fill="#222222">`+"\n"+
		"<title>%s</title>\n"+`<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n%s</svg>\n",
		timelineWidth, px(end), timelineWidth, px(end), fontFamily, textSize,
		markup(t.Title), d.b.String())
	return err
}

// px is a coordinate to a tenth of a pixel.
func px(v float64) string { return strconv.FormatFloat(round(v), 'f', -1, 64) }

// x is the place of an instant.
func (d *drawing) x(at time.Time) float64 { return d.left + d.share(at)*(d.right-d.left) }

// line adds a line of SVG.
func (d *drawing) line(format string, args ...any) { fmt.Fprintf(&d.b, format+"\n", args...) }

// put writes a text whose start, middle or end is at x.
func (d *drawing) put(x, y float64, anchor, attributes, text string) {
	d.line(`<text x="%s" y="%s" text-anchor="%s"%s>%s</text>`, px(x), px(y), anchor, attributes,
		markup(text))
}

const (
	small = ` font-size="11" fill="#555555"`
	large = ` font-size="16"`
)

func (d *drawing) header() {
	y := float64(edge)
	if d.Title != "" {
		y += 14
		d.put(edge, y, "start", large, shorten(d.Title, timelineWidth-2*edge,
			func(s string) float64 { return textWidth(s) * 16 / textSize }))
		y += 8
	}
	const layout = "2006-01-02 15:04:05"
	d.put(edge, y+10, "start", small,
		d.From.UTC().Format(layout)+" to "+d.To.UTC().Format(layout)+" UTC")
}

// fitted writes a text that is cut to room, with all of it as a tip.
func (d *drawing) fitted(x, y float64, anchor, attributes, text string, room float64) {
	short := shorten(text, room, textWidth)
	if short == clean(text) {
		d.put(x, y, anchor, attributes, text)
		return
	}
	d.line(`<g><title>%s</title>`, markup(text))
	d.put(x, y, anchor, attributes, short)
	d.line(`</g>`)
}

// row draws a sensor between y and y+height.
func (d *drawing) row(r Row, y float64) {
	high := d.height - rowGap
	middle := y + high/2 + textSize*0.36
	d.fitted(d.left-10, middle, "end", "", r.Label, labelRoomMax)
	d.fitted(d.right+12, middle, "start", ` fill="#555555"`, r.Note, noteRoomMax)
	d.line(`<rect x="%s" y="%s" width="%s" height="%s" fill="#f1f1f1"/>`,
		px(d.left), px(y), px(d.right-d.left), px(high))
	if bars := d.shade(r); bars != "" {
		d.line(`<path d="%s" transform="translate(0,%s) scale(1,%s)" fill="#bfdcf0"/>`,
			bars, px(y), px(high))
	}
	curve := d.curve(r, y+5, high-22)
	if curve != nil {
		d.line(`<polyline points="%s" fill="none" stroke="#777777" stroke-width="1"/>`, curve)
	}
	events := func(time.Time) float64 { return y + 0.27*high }
	if curve != nil {
		events = curve.at(d)
	}
	crawls := func(time.Time) float64 { return y + high - 10 }
	d.marks(r, Changed, func(time.Time) float64 { return y + high/2 },
		fmt.Sprintf("M0,%sV%s", px(-high/2), px(high/2)))
	d.marks(r, Event, events, "")
	d.marks(r, Crawled, crawls, "")
	d.marks(r, Planned, crawls, "")
	d.marks(r, Failed, crawls, "")
}

// signs are the kinds' paths around the origin and how they are painted.
var signs = map[MarkKind]struct{ path, paint string }{
	Event: {"M-3.5,0a3.5,3.5 0 1,0 7,0a3.5,3.5 0 1,0 -7,0Z",
		`fill="#ffffff" stroke="#d55e00" stroke-width="1.6"`},
	Planned: {"M0,-7L6.5,5H-6.5Z", `fill="none" stroke="#222222" stroke-width="1.2"`},
	Crawled: {"M0,-5L4.6,3.6H-4.6Z", `fill="#0072b2"`},
	Failed:  {"M-4.5,-4.5L4.5,4.5M-4.5,4.5L4.5,-4.5", `fill="none" stroke="#c00000" stroke-width="2"`},
	Changed: {"M0,-7V7", `fill="none" stroke="#009e73" stroke-width="2.5"`},
}

// marks draws the marks of a kind at their heights, with tips. Marks that would
// be drawn at the same place are one. An empty path is the kind's own.
func (d *drawing) marks(r Row, kind MarkKind, y func(time.Time) float64, path string) {
	if path == "" {
		path = signs[kind].path
	}
	var of []Mark
	for _, m := range r.Marks {
		if m.Kind == kind && d.shows(m.At) {
			of = append(of, m)
		}
	}
	if len(of) == 0 {
		return
	}
	slices.SortStableFunc(of, func(a, b Mark) int { return a.At.Compare(b.At) })
	d.line(`<g %s>`, signs[kind].paint)
	for i := 0; i < len(of); {
		x, more := px(d.x(of[i].At)), 1
		for i+more < len(of) && px(d.x(of[i+more].At)) == x {
			more++
		}
		tip := kind.String() + " " + stamp(of[i].At)
		if of[i].Tip != "" {
			tip += ": " + of[i].Tip
		}
		if more > 1 {
			tip += fmt.Sprintf(" (and %d more)", more-1)
		}
		d.line(`<path d="%s" transform="translate(%s,%s)"><title>%s</title></path>`,
			path, x, px(y(of[i].At)), markup(tip))
		i += more
	}
	d.line(`</g>`)
}

// axis draws the axis below the rows and returns where it ends.
func (d *drawing) axis() float64 {
	y := d.bottom + 2
	d.line(`<path d="M%s,%sH%s" fill="none" stroke="#555555"/>`, px(d.left), px(y), px(d.right))
	ticks := timeTicks(d.From, d.To, d.right-d.left, textWidth)
	var path strings.Builder
	next := math.Inf(1) // left end of the context that was written last
	for i := len(ticks) - 1; i >= 0; i-- {
		t := ticks[i]
		x := d.x(t.at)
		fmt.Fprintf(&path, "M%s,%sv5", px(x), px(y))
		// Near the edge texts move to the inside.
		inside := func(half float64) float64 {
			return min(max(x, edge/2+half), timelineWidth-edge/2-half)
		}
		d.put(inside(textWidth(t.label)/2), y+18, "middle", "", t.label)
		// Of two contexts that would overlap the later one is kept: with it
		// something begins.
		half := textWidth(t.context) / 2
		if t.context != "" && inside(half)+half+8 < next {
			d.put(inside(half), y+34, "middle", small, t.context)
			next = inside(half) - half
		}
	}
	d.line(`<path d="%s" fill="none" stroke="#555555"/>`, path.String())
	return y + 40
}

// footer writes the legend and the notes below y and returns the drawing's
// height.
func (d *drawing) footer(y float64) float64 {
	if d.Legend {
		y += textLine + 4
		d.legend(y)
	}
	all := d.Notes
	if h := d.hidden(); h != "" {
		all = append(all[:len(all):len(all)], h)
	}
	y += 4
	for _, note := range all {
		for _, line := range wrap(note, timelineWidth-2*edge, textWidth) {
			y += textLine
			d.put(edge, y, "start", small, line)
		}
	}
	return y + edge
}

// legend explains the signs that there are.
func (d *drawing) legend(y float64) {
	x := d.left
	entry := func(text string) {
		d.put(x+14, y, "start", "", text)
		x += 14 + textWidth(text) + 24
	}
	d.line(`<rect x="%s" y="%s" width="16" height="12" fill="#bfdcf0"/>`, px(x-6), px(y-10))
	entry("awake")
	for k := range MarkKind(len(markNames)) {
		is := func(m Mark) bool { return m.Kind == k && d.shows(m.At) }
		if !slices.ContainsFunc(d.Rows, func(r Row) bool { return slices.ContainsFunc(r.Marks, is) }) {
			continue
		}
		d.line(`<path d="%s" transform="translate(%s,%s)" %s/>`, signs[k].path, px(x), px(y-4),
			signs[k].paint)
		entry(k.String())
	}
}
