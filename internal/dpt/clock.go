package dpt

import (
	"fmt"
	"slices"
)

const (
	// tolerance of publish instants: clocks of whole seconds.
	tolerance = resolution
	// firstBacklog bounds the age of the newest record of the first answer, ms.
	firstBacklog = 7 * 24 * 3600 * 1000
	// oddHits in a row that contradict the believed offset of a sensor's clock give it
	// another one: one alone is a forecast, a delayed batch or a broken record.
	oddHits = 3
	// steadyAnswers that name the same end of freshness make a Max-Age a countdown.
	steadyAnswers = 2
)

// clock turns the publish instants that a sensor shows into ours.
//
// What the look at `now` shows and the one at `before` did not show was published in
// (before, now]. An instant outside says that the sensor's clock is wrong: the offset to
// it is then the least now - shown, since the newest publication is as old as the
// quickest look found it.
//
// A publisher without publish instants may count down: when the Max-Age of its answers
// always ends at the same instant, that is the next publication, and the newest was one
// full Max-Age earlier.
type clock struct {
	Known  bool  `json:"k,omitempty"` // Shown is known
	Shown  int64 `json:"s,omitempty"` // newest instant, as shown
	Given  int64 `json:"g,omitempty"` // newest instant handed on, by our clock
	Offset int64 `json:"o,omitempty"` // what is shown lies that much behind ours
	Odd    int   `json:"n,omitempty"` // hits in a row that contradict Offset
	Least  int64 `json:"m,omitempty"` // least now - shown of them
	Expiry int64 `json:"e,omitempty"` // end of freshness of the last answer; 0 = not stated
	Whole  int64 `json:"w,omitempty"` // longest Max-Age since it is a countdown
	Steady int   `json:"c,omitempty"` // answers in a row that named the same end
}

// sightings is what a hit tells of its publications.
type sightings struct {
	fresh    []int64 // instants not known before, ascending, by our clock
	repeated bool    // the newest one is known: another text about the same
	overrun  bool    // a pack of several, all new: there may have been more
}

// circumstances of a hit.
type circumstances struct {
	before int64 // start of the last look that was described or unchanged, 0 = none
	slack  int64 // how old the newest publication may be when it becomes visible
	sure   bool  // the sensor's clock is right
	pulled bool  // the look was made because there was more data
	drains bool  // there may be more if all of a pack is new
}

// take reads the instants of a hit.
func (c *clock) take(g signal, hit circumstances) sightings {
	shown := c.shown(g)
	if len(shown) == 0 {
		return sightings{}
	}
	newest, last, known := shown[len(shown)-1], c.Shown, c.Known
	if known && newest == last {
		return sightings{repeated: c.Odd == 0}
	}
	c.Known, c.Shown = true, newest
	if known && newest < last { // a reboot, or its clock was set
		c.Odd, c.Least = 0, 0
		return sightings{}
	}
	fresh := shown
	if known {
		i, found := slices.BinarySearch(shown, last)
		if found {
			i++
		}
		fresh = shown[i:]
	}
	overrun := known && len(shown) > 1 && len(fresh) == len(shown)
	if hit.sure {
		c.Offset, c.Odd = 0, 0
	}
	switch {
	case hit.sure, hit.pulled, overrun && hit.drains: // newest need not be the newest there is
		if newest+min(c.Offset, 0) > g.end+tolerance {
			return sightings{}
		}
	case !c.plausible(newest, hit.before, g.end, hit.slack):
		return sightings{}
	}
	return sightings{fresh: c.corrected(fresh, g.end), overrun: overrun}
}

// shown are the instants of a hit by the sensor's clock. What lies in the future is left
// out, unless all of it does.
func (c *clock) shown(g signal) []int64 {
	if len(g.published) == 0 && c.countdown() && g.stated {
		return []int64{g.end + g.maxAge - c.Whole}
	}
	i, _ := slices.BinarySearch(g.published, g.end-c.Offset+tolerance+1)
	if i == 0 {
		return g.published
	}
	return g.published[:i]
}

// plausible reports whether the newest instant may be used, and learns the offset.
func (c *clock) plausible(newest, before, now, slack int64) bool {
	age, least := now-newest, before-newest
	if before == 0 {
		least = age - firstBacklog
		slack = 0
	}
	future := age < min(c.Offset, 0)-tolerance
	late := least > c.Offset+tolerance
	if !future && !late {
		c.Odd, c.Least = 0, 0
		switch {
		case c.Offset > 0:
			c.Offset = min(c.Offset, max(age, 0))
		case c.Offset < 0:
			c.Offset = min(c.Offset, age)
		}
		return true
	}
	if c.Odd == 0 || age < c.Least {
		c.Least = age
	}
	if c.Odd++; c.Odd >= oddHits {
		c.Offset, c.Odd, c.Least = c.Least, 0, 0
		return true
	}
	return late && least <= c.Offset+slack
}

// corrected moves instants to our clock; none is in the future or comes twice.
func (c *clock) corrected(shown []int64, now int64) []int64 {
	var all []int64
	for _, t := range shown {
		if t = min(t+c.Offset, now); t > c.Given {
			all = append(all, t)
			c.Given = t
		}
	}
	return all
}

// answer follows the end of freshness. previous is the start of the last look that was
// described or unchanged. A fixed Max-Age moves its end on with every answer; once the
// end has passed, so does a countdown.
func (c *clock) answer(g signal, previous, longest int64) {
	if !g.stated {
		c.Expiry, c.Whole, c.Steady = 0, 0, 0
		return
	}
	end := g.end + g.maxAge
	if g.kind == unchanged && c.Expiry > g.end && g.start-previous > 3*tolerance {
		if moved := end - c.Expiry; moved > 2*tolerance || moved < -2*tolerance {
			c.Steady, c.Whole = 0, 0
		} else {
			c.Steady = min(c.Steady+1, steadyAnswers)
		}
	}
	c.Expiry = end
	c.Whole = max(c.Whole, min(g.maxAge, longest))
}

// countdown reports whether the next publication is announced.
func (c *clock) countdown() bool { return c.Steady >= steadyAnswers }

func (c *clock) check() error {
	if c.Odd < 0 || c.Odd >= oddHits || c.Steady < 0 || c.Steady > steadyAnswers ||
		c.Whole < 0 || span(c.Whole) > maxMaxGap {
		return fmt.Errorf("clock: counts %d, %d, longest Max-Age %d ms", c.Odd, c.Steady, c.Whole)
	}
	return outside("clock: instant or offset", spansTo, c.Shown, c.Given, c.Offset, c.Least,
		c.Expiry)
}
