package dpt

import (
	"slices"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// signalKind is what a visit says of the sensor.
type signalKind uint8

const (
	unasked   signalKind = iota // the daemon was late or down
	described                   // 2.05 with another body than the stored one
	unchanged                   // 2.03, or the stored body again: awake, nothing new
	busy                        // 5.03 or 4.29: not before the instant it names
	faulty                      // RST, another error, a broken transfer: likely to stay
	asleep                      // nothing came back
)

// signal is what trackers and learners read from a visit, in the package's ms. This is
// the only place where CoAP's answers get a meaning for them:
//
//   - Silence and ICMP errors speak of sleep only, never of publications.
//   - 2.03 and RST show the host awake.
//   - Max-Age of 2.05 and 2.03 counts where it is in the answer; the default of RFC 7252
//     section 5.10.5 is no word of the publisher. With 5.03 and 4.29 (RFC 7252 section
//     5.9.3.4, RFC 8516) it is the time to wait; the default is a weak wish there.
//   - Every record of a SenML pack is a publication, all of them are one hit.
type signal struct {
	kind       signalKind
	contact    bool // anything authentic came back
	resent     bool // more than one datagram asked for the same
	start, end int64
	rtt        int64
	published  []int64 // distinct, ascending, by the sensor's clock; only if described
	maxAge     int64   // of the answer; stated tells an explicit one
	stated     bool
	retry      int64 // busy: wait that long after end
	weak       bool  // retry is the default, not the sensor's word
}

// defaultMaxAge is that of an answer without one, RFC 7252 section 5.10.5.
const defaultMaxAge = time.Minute

// read is the mapping.
func read(o visit.Outcome) signal {
	g := signal{contact: answered(o), resent: o.Retransmissions > 0, rtt: o.RTT.Milliseconds()}
	g.start, g.end = instants(o)
	switch {
	case o.Result == visit.Missed:
		g.kind = unasked
	case o.Result == visit.Described:
		g.kind, g.published = described, publishInstants(o.PublishedAt)
	case o.Result == visit.Unchanged:
		g.kind = unchanged
	case o.Result == visit.Asleep && !g.contact:
		g.kind = asleep
	case o.RetryAfter > 0:
		g.kind, g.retry = busy, o.RetryAfter.Milliseconds()
		g.weak = o.RetryAfter == defaultMaxAge && !o.HasMaxAge
	default:
		g.kind = faulty
	}
	if o.Result.Success() && o.HasMaxAge && o.MaxAge >= 0 {
		g.stated, g.maxAge = true, o.MaxAge.Milliseconds()
	}
	return g
}

// awake is what the visit shows of the sensor's sleep, if anything. A request that a
// later transmission got answered shows the sensor awake at the end of the exchange: of
// the transmissions before nothing is known. A visit that failed without contact is no
// evidence.
func (g signal) awake() (at int64, awake, known bool) {
	switch {
	case g.kind == unasked:
		return 0, false, false
	case g.contact && g.resent:
		return g.end, true, true
	case g.contact:
		return g.start, true, true
	}
	return g.start, false, g.kind == asleep
}

// publishInstants are those that a date can have, rounded up.
func publishInstants(times []time.Time) []int64 {
	var all []int64
	for _, t := range times {
		if y := t.Year(); y >= 1970 && y <= 9999 {
			all = append(all, ceilMilli(t))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// instants are start (rounded down) and end (rounded up) of the visit, ms. A visit
// that was not begun stands at its planned instant.
func instants(o visit.Outcome) (start, end int64) {
	at := o.Started
	if at.IsZero() {
		at = o.At
	}
	ended := at
	if o.Ended.After(at) {
		ended = o.Ended
	}
	bound := func(ms int64) int64 { return min(max(ms, -farAway), farAway) }
	return bound(at.UnixMilli()), bound(ceilMilli(ended))
}

// answered reports whether anything authentic came back.
func answered(o visit.Outcome) bool {
	return o.Contact || o.Result.Success() || o.Result == visit.Refused
}
