package sleepplan

import (
	"bytes"
	"math/bits"
	"time"
)

// Draw is [from, to) as one line of width characters, each an equal share of
// the range: '.' asleep, '=' awake for at least a part of it, '|' a mark while
// awake, 'x' a mark while asleep. Where several marks share a character, 'x'
// wins. Marks outside the range are left out; ws is sorted and disjoint. The
// line is empty where the range or the width is. A day in hours, of a sensor
// awake from 03:00 to 06:30 and crawled at 05:10 and 12:00:
//
//	...==|=.....x...........
func Draw(ws []Window, marks []time.Time, from, to time.Time, width int) string {
	if !from.Before(to) || width <= 0 {
		return ""
	}
	// Integer arithmetic puts an instant at a character's edge into the same
	// character on every machine.
	column := func(t time.Time) int {
		hi, lo := bits.Mul64(uint64(t.Sub(from)), uint64(width))
		q, _ := bits.Div64(hi, lo, uint64(to.Sub(from)))
		return min(int(q), width-1) // both differences saturate at 292 years
	}
	line := bytes.Repeat([]byte{'.'}, width)
	for _, w := range ws {
		w, ok := w.clip(from, to)
		if !ok {
			continue
		}
		// End-1 is the last instant awake: End may lie in the next character.
		for i := column(w.Start); i <= column(w.End.Add(-1)); i++ {
			line[i] = '='
		}
	}
	whole := Window{from, to}
	for _, m := range marks {
		if !whole.Contains(m) {
			continue
		}
		i := search(ws, m)
		if c := &line[column(m)]; i == len(ws) || !ws[i].Contains(m) {
			*c = 'x'
		} else if *c != 'x' {
			*c = '|'
		}
	}
	return string(line)
}
