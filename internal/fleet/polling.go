package fleet

import "time"

// Polling is how a sensor of unknown sleep plan is polled: the words and numbers of
// the configuration. In a Sensor a zero field means what holds for the whole fleet.
type Polling struct {
	Policy    string        // a policy of package dpt, such as "hz"
	Bootstrap time.Duration // interval until something is known
	MinGap    time.Duration // least time between two polls
	MaxGap    time.Duration // largest
	// Price is how many seconds of latency one poll is worth; PollsPerPublication is a
	// load to hold instead. At most one of them is set.
	Price               time.Duration
	PollsPerPublication float64
	SD                  string        // "folded" or "raw": the deviation that DPT goes by
	Desync              time.Duration // polls are moved at random by up to this
	PublishTimes        string        // "auto", "true" or "false": whether answers' instants are used
}

// Over is what p says, and where it says nothing what the fleet's parameters say. A
// price takes the place of the fleet's load to hold, and the other way round.
func (p Polling) Over(fleet Polling) Polling {
	if p.Price > 0 || p.PollsPerPublication > 0 {
		fleet.Price, fleet.PollsPerPublication = 0, 0
	}
	pick(&fleet.Policy, p.Policy)
	pick(&fleet.Bootstrap, p.Bootstrap)
	pick(&fleet.MinGap, p.MinGap)
	pick(&fleet.MaxGap, p.MaxGap)
	pick(&fleet.Price, p.Price)
	pick(&fleet.PollsPerPublication, p.PollsPerPublication)
	pick(&fleet.SD, p.SD)
	pick(&fleet.Desync, p.Desync)
	pick(&fleet.PublishTimes, p.PublishTimes)
	return fleet
}

func pick[T comparable](dst *T, v T) {
	var zero T
	if v != zero {
		*dst = v
	}
}
