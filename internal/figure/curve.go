package figure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// shade is the path of the row's awake windows, one unit high. Windows less than
// half a pixel apart are drawn as one, and none is narrower than that: so the
// path is bounded by the width.
func (d *drawing) shade(r Row) string {
	var b strings.Builder
	left, right := math.Inf(-1), math.Inf(-1)
	flush := func() {
		if right > left {
			fmt.Fprintf(&b, "M%s,0H%sV1H%sZ", px(left), px(right), px(left))
		}
	}
	for _, a := range r.Awake {
		if !a.Start.Before(d.To) || !d.From.Before(a.End) {
			continue
		}
		l := d.x(a.Start)
		if l-right >= 0.5 {
			flush()
			left = l
		}
		right = max(d.x(a.End), l+0.5)
	}
	flush()
	return b.String()
}

// polyline is points of a curve, ascending in x.
type polyline [][2]float64

// String is the points attribute.
func (p polyline) String() string {
	var b strings.Builder
	for i, q := range p {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(px(q[0]) + "," + px(q[1]))
	}
	return b.String()
}

// at is the height of the curve at an instant.
func (p polyline) at(d *drawing) func(time.Time) float64 {
	return func(at time.Time) float64 {
		x := d.x(at)
		i, _ := slices.BinarySearchFunc(p, x, func(q [2]float64, x float64) int {
			return cmp.Compare(q[0], x)
		})
		switch {
		case i == 0:
			return p[0][1]
		case i == len(p):
			return p[i-1][1]
		}
		a, b := p[i-1], p[i]
		return a[1] + (b[1]-a[1])*(x-a[0])/(b[0]-a[0])
	}
}

// curve scales the row's readings to the height; nil where none is in the
// range. Of the readings within a pixel the first, least, greatest and last are
// kept, which draw the same line.
func (d *drawing) curve(r Row, top, height float64) polyline {
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range r.Curve {
		if d.shows(s.At) {
			low, high = min(low, s.Value), max(high, s.Value)
		}
	}
	var line, pixel polyline
	flush := func() {
		if len(pixel) == 0 {
			return
		}
		up := func(a, b [2]float64) int { return cmp.Compare(a[1], b[1]) }
		keep := polyline{pixel[0], slices.MinFunc(pixel, up), slices.MaxFunc(pixel, up),
			pixel[len(pixel)-1]}
		slices.SortStableFunc(keep[1:3], func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
		line = append(line, slices.Compact(keep)...)
		pixel = pixel[:0]
	}
	for _, s := range r.Curve {
		if !d.shows(s.At) {
			continue
		}
		y := top + height/2
		if high > low {
			y = top + height*(high-s.Value)/(high-low)
		}
		x := d.x(s.At)
		if len(pixel) > 0 && math.Floor(x) != math.Floor(pixel[0][0]) {
			flush()
		}
		pixel = append(pixel, [2]float64{x, y})
	}
	flush()
	return line
}
