package sleepplan

import (
	"fmt"
	"math/bits"
	"time"
)

// cycle is a duty cycle: awake in [anchor+k*period, +awake) for every integer
// k, with 0 < awake < period.
type cycle struct {
	period, awake time.Duration
	anchor        time.Time
}

// Cycle is the plan of a sensor that wakes every period for awake, once at the
// anchor: awake in [anchor+k*period, anchor+k*period+awake), k any integer,
// also negative. It needs 0 < awake <= period; a sensor with awake == period
// never sleeps and gets the plan AlwaysOn.
func Cycle(period, awake time.Duration, anchor time.Time) (Plan, error) {
	switch {
	case period <= 0:
		return Plan{}, fmt.Errorf("cycle: period %v: must be longer than 0s", period)
	case awake <= 0 || awake > period:
		return Plan{}, fmt.Errorf("cycle: awake %v: must be longer than 0s and at most the period %v",
			awake, period)
	case awake == period:
		return AlwaysOn(), nil
	}
	return Plan{kind: KindCycle, cycle: &cycle{period, awake, anchor.UTC()}}, nil
}

// offset is how far t lies behind the start of its period, in [0, period).
func (c *cycle) offset(t time.Time) time.Duration {
	// Both phases are in [0, period), so one correction is enough.
	d := phase(t, c.period) - phase(c.anchor, c.period)
	if d < 0 {
		d += c.period
	}
	return d
}

// phase is t modulo period in exact arithmetic: t.Sub(anchor) would saturate
// 292 years from the anchor, and an anchor of year 1 is a natural choice.
func phase(t time.Time, period time.Duration) time.Duration {
	m := int64(period)
	sec := t.Unix() % m
	if sec < 0 {
		sec += m
	}
	// sec < 2^63 times 1e9 needs 93 bits.
	hi, lo := bits.Mul64(uint64(sec), uint64(time.Second))
	lo, carry := bits.Add64(lo, uint64(t.Nanosecond()), 0)
	return time.Duration(bits.Rem64(hi+carry, lo, uint64(m)))
}

// equal holds anchors against each other modulo the period: only that matters.
func (c *cycle) equal(o *cycle) bool {
	return c.period == o.period && c.awake == o.awake && c.offset(o.anchor) == 0
}

// appendWindows starts at the period that from lies in, wherever the anchor is.
// The windows never touch, as awake < period.
func (c *cycle) appendWindows(dst []Window, from, to time.Time) []Window {
	for s := from.Add(-c.offset(from)); s.Before(to); s = s.Add(c.period) {
		if w, ok := (Window{s, s.Add(c.awake)}).clip(from, to); ok {
			dst = append(dst, w)
		}
	}
	return dst
}

func (c *cycle) nextAwake(t time.Time) time.Time {
	if d := c.offset(t); d >= c.awake {
		return t.Add(c.period - d)
	}
	return t
}

// window is the window that contains t; the sensor must be awake then.
func (c *cycle) window(t time.Time) Window {
	s := t.Add(-c.offset(t))
	return Window{s, s.Add(c.awake)}
}

func (c *cycle) String() string {
	return fmt.Sprintf("cycle %v/%v from %s", c.awake, c.period, stamp(c.anchor))
}
