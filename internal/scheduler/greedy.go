package scheduler

// greedyMethod is Algorithm 3 of the EasiCrawl paper as it is meant: of the C windows
// with a legal instant in the range, crawl k of n stands at the end of window number
// ceil(kC/n). The printed text does something else: its m = T/(T^c n) is cycles per
// crawl but counts its loop, so that it makes m crawls and not n, at the ends of the
// last m cycles in a row; t_{m-i-1} has an index below 1; and i != 0 always holds.
//
// Where there are more crawls than windows the same rule gives a window several. They
// stand a share of its length apart, the last one at its end: what a crawl collects is
// then what the next one waits for (T7). On periodic sleep plans that are asleep at
// least half the time this is optimal, elsewhere it is not.
//
// Crawls stand on legal instants, whether these are candidates or not. The curve is
// the exact cost of these plans under either objective. It ends where a window has
// fewer instants than crawls. Being no optimum it need not be convex or even fall:
// gains may be negative, and what a crawl loses the next may win back.
var greedyMethod = method{
	curve: func(w *worker, p *Problem, d *Demand, ahead float64, most int) (curve, error) {
		windows := d.legalWindows(p.Length)
		var c curve
		if len(windows) == 0 {
			return c, nil
		}
		if p.forces(d) {
			c.least = 1
		}
		var before int64
		for n := c.least; n <= most; n++ {
			ticks, ok := evenlyOverWindows(w.spread[:0], windows, n)
			w.spread = ticks
			if !ok {
				break
			}
			e, _ := w.judge(p, d, ticks, ahead)
			w.work += int64(n + 1)
			if n > c.least {
				c.gains = append(c.gains, float64(before-e)*p.unit(d))
			}
			before = e
		}
		return c, nil
	},
	instants: func(w *worker, p *Problem, d *Demand, _ float64, n int) []int32 {
		ticks, _ := evenlyOverWindows(w.keep(n)[:0], d.legalWindows(p.Length), n)
		return ticks
	},
}

// legalWindow is a window with legal instants first..last in the range, and the number
// of its awake ticks there.
type legalWindow struct{ first, last, length int64 }

// legalWindows are a sensor's windows in a range that can be crawled.
func (d *Demand) legalWindows(length int64) []legalWindow {
	var windows []legalWindow
	for k := 0; k < len(d.Spans); {
		var s, e int64
		s, e, k = nextSpan(d.Spans, k)
		if s >= length {
			break
		}
		w := legalWindow{first: max(s, d.From), last: min(d.lastLegal(s, e), length-1)}
		if w.first <= w.last {
			w.length = min(e, length) - w.first
			windows = append(windows, w)
		}
	}
	return windows
}

// evenlyOverWindows appends n instants, and reports whether there was room for them.
// Window i of C gets floor((i+1) n/C) - floor(i n/C) crawls, which are those k with
// ceil(kC/n) = i+1.
func evenlyOverWindows(ticks []int32, windows []legalWindow, n int) ([]int32, bool) {
	last := int64(-1)
	for i, w := range windows {
		crawls := int64((i+1)*n/len(windows) - i*n/len(windows))
		for left := crawls - 1; left >= 0; left-- {
			t := max(w.first, w.last-left*w.length/crawls)
			if t <= last {
				return ticks, false
			}
			ticks = append(ticks, int32(t))
			last = t
		}
	}
	return ticks, true
}
