package sim

import (
	"fmt"
	"time"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/sleepplan"
)

// drawnWindows bounds the windows that are drawn of each kind.
const drawnWindows = 240

// Figure shows when the sensor was probed, which probes were answered, when it was awake
// and when the claim says so: days from left to right, the time within one period upwards.
func (r LearningRun) Figure() *figure.Figure {
	fold, title := r.of.cycle()
	probes := map[bool][]figure.Point{}
	for _, o := range r.probes {
		probes[o.Contact] = append(probes[o.Contact], r.point(o.Started, fold))
	}
	panel := figure.Panel{
		X: figure.Axis{Label: "time", Unit: "d"},
		Y: figure.Axis{Label: "time within " + title, Unit: "s"},
	}
	add := func(name string, style figure.Style, points []figure.Point) {
		if len(points) > 0 {
			panel.Series = append(panel.Series, figure.Series{Name: name, Style: style, Points: points})
		}
	}
	add("unanswered", figure.Points, probes[false])
	add("answered", figure.Points, probes[true])
	later := r.at.Add(max(r.at.Sub(r.from)/3, 3*fold))
	starts, ends := r.edges(clipped(r.truth, r.from, later), fold)
	add("awake from", figure.Points, starts)
	add("awake until", figure.Points, ends)
	if r.Claimed {
		starts, ends = r.edges(r.claim.Plan.Windows(r.at, later), fold)
		add("claimed from", figure.Points, starts)
		add("claimed until", figure.Points, ends)
	}
	return &figure.Figure{ID: "polling-learn", Title: "Learning the sleep plan of a sensor",
		Panels: []figure.Panel{panel}, Facts: r.facts(),
		Notes: []string{fmt.Sprintf("Of the windows at most %d are drawn.", drawnWindows)}}
}

// cycle is the time in which the sensor's life repeats itself, or would on the average.
func (c Learning) cycle() (time.Duration, string) {
	switch {
	case c.Weekly != nil:
		return day, "a day"
	case c.Irregular > 0:
		return c.Irregular, "the mean distance of windows"
	}
	return c.Period, "a period"
}

func (r LearningRun) point(at time.Time, fold time.Duration) figure.Point {
	phase := at.Sub(Epoch) % fold
	return figure.At(at.Sub(r.from).Hours()/24, phase.Seconds())
}

// edges are the starts and ends of some windows, evenly chosen.
func (r LearningRun) edges(windows []sleepplan.Window, fold time.Duration) (
	starts, ends []figure.Point) {
	for i := 0; i < len(windows); i += 1 + len(windows)/drawnWindows {
		starts = append(starts, r.point(windows[i].Start, fold))
		ends = append(ends, r.point(windows[i].End, fold))
	}
	return starts, ends
}

func (r LearningRun) facts() []figure.Fact {
	facts := []figure.Fact{{Name: "probes", Value: float64(r.Probes)},
		{Name: "time", Value: r.Days, Unit: "d"}}
	if !r.Claimed {
		return facts
	}
	return append(facts,
		figure.Fact{Name: "claimed period", Value: r.Period, Unit: "s"},
		figure.Fact{Name: "claimed awake", Value: r.Awake, Unit: "s"},
		figure.Fact{Name: "middles of claimed windows in true ones", Value: 100 * r.Inside, Unit: "%"},
		figure.Fact{Name: "overlap of claimed and true windows", Value: 100 * r.Overlap, Unit: "%"})
}
