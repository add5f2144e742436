package api

import (
	"fmt"
	"math"
	"time"

	"github.com/crawld/crawld/internal/sleepplan"
)

// Size of a timeline in its own units, which are CSS pixels at 100 %.
const (
	timelineWidth  = 960
	timelineHeight = 70
)

// timeline is the geometry of one sensor's running range: awake windows shaded,
// planned visits hollow, past ones filled by outcome. Markup is the template's.
type timeline struct {
	Width, Height int
	Awake         []bar
	Marks         []mark
	Ticks         []mark
	Now           float64
	Hidden        int // visits before the range, which are not drawn
}

// bar is a shaded stretch.
type bar struct{ X, Width float64 }

// mark is a point in time. Class is a word of this package, never of a sensor.
type mark struct {
	X     float64
	Class string
	Text  string
}

// scale maps a range of time to [0, timelineWidth].
type scale struct{ sleepplan.Window }

func (s scale) x(t time.Time) float64 {
	share := float64(t.Sub(s.Start)) / float64(s.Duration())
	return math.Round(min(max(share, 0), 1)*timelineWidth*10) / 10
}

// pixelAfter is the first instant whose x is at least a pixel beyond that of t.
func (s scale) pixelAfter(t time.Time) time.Time {
	return t.Add(max(s.Duration()/timelineWidth, 1))
}

func (d *sensorDetail) timeline() timeline {
	s := scale{d.Plan.Range}
	t := timeline{Width: timelineWidth, Height: timelineHeight, Now: s.x(d.now),
		Awake: s.shade(d.sleep)}
	for _, at := range d.Plan.Planned {
		if s.Contains(at) {
			t.Marks = append(t.Marks, mark{s.x(at), "planned", "planned " + clock(at)})
		}
	}
	for _, o := range d.Visits {
		at := o.Started
		if at.IsZero() {
			at = o.At
		}
		if !s.Contains(at) {
			t.Hidden++
			continue
		}
		t.Marks = append(t.Marks, mark{s.x(at), o.Result.String(),
			fmt.Sprintf("%s %s (%s)", clock(at), o.Result, o.Kind)})
	}
	layout := "15:04:05Z"
	if s.Duration() > 24*time.Hour {
		layout = "Jan 2 15:04Z"
	}
	for i := range 5 {
		at := s.Start.Add(s.Duration() / 4 * time.Duration(i))
		class := []string{"first", "", "", "", "last"}[i]
		t.Ticks = append(t.Ticks, mark{s.x(at), class, at.UTC().Format(layout)})
	}
	return t
}

// shade draws the awake windows. What lies within a pixel of a window's end is
// taken as its part, so that the work is bounded by the width and not by the
// number of windows.
func (s scale) shade(p sleepplan.Plan) []bar {
	var bars []bar
	for from := s.Start; from.Before(s.End); {
		w, ok := p.NextWindow(from)
		if !ok || !w.Start.Before(s.End) {
			break
		}
		x := s.x(w.Start)
		width := max(math.Round((s.x(w.End)-x)*10)/10, 1)
		if n := len(bars); n > 0 && x-bars[n-1].X-bars[n-1].Width < 1 {
			bars[n-1].Width = math.Round((x+width-bars[n-1].X)*10) / 10
		} else {
			bars = append(bars, bar{x, width})
		}
		from = later(w.End, s.pixelAfter(from))
	}
	return bars
}
