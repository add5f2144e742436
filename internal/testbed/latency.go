package testbed

import (
	"slices"
	"time"
)

// Latency sums up how long events waited to be seen.
type Latency struct {
	Captured int           // events that an answer carried to a client in time
	Unseen   int           // events that none did
	Sum      time.Duration // of all waits; an unseen event waits until the end of the range
}

// Mean is the mean wait of all events, unseen ones included; 0 without events.
func (l Latency) Mean() time.Duration {
	if n := l.Captured + l.Unseen; n > 0 {
		return l.Sum / time.Duration(n)
	}
	return 0
}

// MeasureLatency computes the event latency of the EasiCrawl paper from a log.
// It counts the events of [from, to) of the included sensors (nil: all). An event
// has been seen at the first instant up to to at which a complete answer left
// whose representation contains it: Complete, Seq at least the event's.
func MeasureLatency(
	events []Event, requests []Request, from, to time.Time, include func(name string) bool,
) Latency {
	answers := map[string][]Request{}
	for _, r := range requests {
		if r.Answered && r.Complete && !r.Sent.After(to) {
			answers[r.Sensor] = append(answers[r.Sensor], r)
		}
	}
	waiting := map[string][]Event{}
	for _, e := range events {
		if !e.At.Before(from) && e.At.Before(to) && (include == nil || include(e.Sensor)) {
			waiting[e.Sensor] = append(waiting[e.Sensor], e)
		}
	}
	var l Latency
	for name, es := range waiting {
		l.add(es, answers[name], to)
	}
	return l
}

// add counts the events of one sensor. Representations only ever gain events, so
// an answer sees every waiting event up to its Seq; one merge does it.
func (l *Latency) add(events []Event, answers []Request, to time.Time) {
	slices.SortFunc(events, func(a, b Event) int { return a.Seq - b.Seq })
	slices.SortStableFunc(answers, func(a, b Request) int { return a.Sent.Compare(b.Sent) })
	for _, a := range answers {
		for len(events) > 0 && events[0].Seq <= a.Seq {
			l.Captured++
			l.Sum += a.Sent.Sub(events[0].At)
			events = events[1:]
		}
	}
	for _, e := range events {
		l.Unseen++
		l.Sum += to.Sub(e.At)
	}
}

// Latency is MeasureLatency of what the bed has logged so far.
func (b *Bed) Latency(from, to time.Time, include func(name string) bool) Latency {
	return MeasureLatency(b.Events(), b.Requests(), from, to, include)
}

// WastedRequests counts the requests that came in [from, to) while an included
// sensor (nil: any) slept. Every datagram counts, retransmissions too; ACKs and
// RSTs do not.
func (b *Bed) WastedRequests(from, to time.Time, include func(name string) bool) int {
	n := 0
	for _, r := range b.Requests() {
		if r.Dropped == DroppedAsleep && r.Kind != KindAck && r.Kind != KindReset &&
			!r.At.Before(from) && r.At.Before(to) && (include == nil || include(r.Sensor)) {
			n++
		}
	}
	return n
}
