package figure

import "time"

// timeStep is a distance of marks on an axis of time: a duration that divides
// the day, whole days, or months.
type timeStep struct {
	length  time.Duration // of months: about
	months  int
	layout  string // of a mark
	context string // of what the mark leaves open, shown where it changes
}

const (
	day   = 24 * time.Hour
	month = 730 * time.Hour
)

// timeSteps are all steps, ascending.
func timeSteps() []timeStep {
	const date = "Mon 2 Jan 2006"
	var steps []timeStep
	add := func(unit time.Duration, layout, context string, times ...time.Duration) {
		for _, n := range times {
			steps = append(steps, timeStep{length: n * unit, layout: layout, context: context})
		}
	}
	add(1, "15:04:05.000000000", date, 1, 2, 5, 10, 20, 50, 100, 200, 500)
	add(time.Microsecond, "15:04:05.000000", date, 1, 2, 5, 10, 20, 50, 100, 200, 500)
	add(time.Millisecond, "15:04:05.000", date, 1, 2, 5, 10, 20, 50, 100, 200, 500)
	add(time.Second, "15:04:05", date, 1, 2, 5, 10, 15, 30)
	add(time.Minute, "15:04", date, 1, 2, 5, 10, 15, 30)
	add(time.Hour, "15:04", date, 1, 2, 3, 6, 12)
	add(day, "2 Jan", "2006", 1, 2, 7, 14)
	for _, n := range []int{1, 3, 6} {
		steps = append(steps, timeStep{time.Duration(n) * month, n, "Jan", "2006"})
	}
	for _, n := range []int{1, 2, 5, 10, 20, 50, 100} {
		steps = append(steps, timeStep{time.Duration(n) * 12 * month, 12 * n, "2006", ""})
	}
	for _, n := range []int{200, 500, 1000} { // longer than a duration holds
		steps = append(steps, timeStep{1 << 62, 12 * n, "2006", ""})
	}
	return steps
}

// first is the last mark at or before t.
func (s timeStep) first(t time.Time) time.Time {
	if s.months == 0 {
		return t.Truncate(s.length)
	}
	n := t.Year()*12 + int(t.Month()) - 1
	n -= n % s.months
	return time.Date(n/12, time.Month(n%12+1), 1, 0, 0, 0, 0, time.UTC)
}

func (s timeStep) next(t time.Time) time.Time {
	if s.months == 0 {
		return t.Add(s.length)
	}
	return t.AddDate(0, s.months, 0)
}

// timeTick is a mark of the axis.
type timeTick struct {
	at             time.Time
	label, context string // context where it differs from that of the tick before
}

// timeTicks marks [from, to] in UTC with the shortest step whose labels fit into
// width.
func timeTicks(from, to time.Time, width float64, measure func(string) float64) []timeTick {
	from, to = from.UTC(), to.UTC()
	var step timeStep
	for _, step = range timeSteps() {
		length := step.length.Seconds()
		if step.months > 0 {
			length = float64(step.months) * month.Seconds()
		}
		if room := length / seconds(from, to) * width; room >= measure(from.Format(step.layout))+40 {
			break
		}
	}
	var ticks []timeTick
	before := ""
	for at := step.first(from); !at.After(to); at = step.next(at) {
		if at.Before(from) {
			continue
		}
		tick := timeTick{at: at, label: at.Format(step.layout)}
		if context := at.Format(step.context); context != before {
			tick.context, before = context, context
		}
		ticks = append(ticks, tick)
	}
	return ticks
}
