package dpt

// rule says from hits and misses alone when a sensor is looked at next. A Tracker holds
// one, keeps its looks within the gaps, and puts off what silence, a refusal or the
// sensor's own wish puts off; of none of these does a rule hear.
//
// Instants are Unix milliseconds, spans milliseconds. A rule is a value that serialises
// to JSON and never reads a clock; chance comes from a seed in its state.
type rule interface {
	// hit takes a look at `at` that showed something new: the publish instants it
	// showed since the last hit, ascending, or, where exact is false, none: all that
	// is known then is that it was published after the last look and not after `at`.
	hit(at int64, published []int64, exact bool)
	// miss takes a look at `at`, round trip rtt, that was due and found nothing new.
	miss(at, rtt int64)
	// due is when it wants to look.
	due() int64
	// why names what set due, with its number.
	why() string
	// pace is the gap expected after due, and the factor by which later gaps grow if
	// nothing is found.
	pace() (gap, growth float64)
	// stats are the believed period and the spread of publications around it, both 0
	// while unknown, and what the rule is doing, in one word.
	stats() (period, spread float64, mode string)
}
