package coapclient

import (
	"context"
	"errors"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// RFC 7252 section 4.8.
const (
	ackTimeout      = 2 * time.Second
	ackRandomFactor = 1.5
)

// maxStalls is how many silences within one visit may outlast the progress limit,
// as long as the retransmissions of one request do. With the default timers the
// fourth transmission of a block comes 14 to 21 s after the first: without this
// a fifth of the transfers of five blocks would end at 20 % loss. A sensor that
// drips a block per silence is cut off at the next.
const maxStalls = 2

// roundTrip sends the request in e.out and returns its response, by the rules of
// RFC 7252 section 4.2: the first timeout is uniform in ACK_TIMEOUT x [1, 1.5]
// and doubles with each of up to Retrans retransmissions. A non-confirmable
// request is sent once and waited for as long as a confirmable one's first
// timeout. The response is valid until the next call.
func (e *exchange) roundTrip(ctx context.Context) (*response, *failure) {
	e.acked = false
	retrans := e.want.Retrans
	if e.want.NON {
		retrans = 0
	}
	wait := time.Duration(float64(e.want.AckTimeout) * (1 + (ackRandomFactor-1)*rand.Float64()))
	for try := 0; ; try++ {
		if try > 0 {
			e.retransmissions++
		}
		if f := e.send(e.out); f != nil {
			return nil, f
		}
		r, f := e.await(ctx, e.now.Add(wait))
		if r != nil || f != nil {
			return r, f
		}
		if try >= retrans {
			return nil, failf(ReasonTimeout, "no answer to %d transmissions", try+1)
		}
		wait *= 2
	}
}

// await waits for the response until the next transmission is due at next, in
// which case it returns neither.
func (e *exchange) await(ctx context.Context, next time.Time) (*response, *failure) {
	for {
		until, reason := e.bound(next)
		e.timer.Reset(time.Until(until))
		select {
		case ev := <-e.inbox:
			if r, f := e.take(ev); r != nil || f != nil {
				return r, f
			}
		case <-e.timer.C:
			return nil, e.expired(reason)
		case <-ctx.Done():
			return nil, stopped(ctx)
		case <-e.client.closed:
			return nil, errClosed()
		}
	}
}

// bound is how long to wait at most, and why the visit ends then ("": it does
// not, the next transmission is due). An empty ACK ends retransmission, and silence
// after it is the sensor's: it has the request.
func (e *exchange) bound(next time.Time) (until time.Time, reason string) {
	until, reason = e.deadline, ReasonDeadline
	if e.contact && (e.heard || e.acked || e.stalls >= maxStalls) {
		if p := e.progress.Add(e.patience()); p.Before(until) {
			until, reason = p, ReasonProgress
		}
	}
	switch {
	case e.acked:
		return until, ReasonSilence
	case next.Before(until):
		return next, ""
	}
	return until, reason
}

func (e *exchange) expired(reason string) *failure {
	switch reason {
	case ReasonProgress:
		return failf(reason, "%v answers, but sent no new block for %v", e.addr, e.patience())
	case ReasonSilence:
		return failf(reason, "%v acknowledged the request and then said nothing", e.addr)
	case ReasonDeadline:
		return failf(reason, "the deadline passed during the exchange with %v", e.addr)
	}
	return nil
}

// patience is the progress limit, but never less than the sensor's own first
// timeout: a sleepy end device answers once per poll period.
func (e *exchange) patience() time.Duration {
	first := time.Duration(ackRandomFactor * float64(e.want.AckTimeout))
	return max(e.client.opts.Limits.Progress, first)
}

// take judges one event. Both results are nil if the wait goes on.
func (e *exchange) take(ev event) (*response, *failure) {
	if ev.lost != nil {
		return nil, ev.lost
	}
	if ev.icmp != nil {
		e.note("%v", ev.icmp)
		return nil, failf(ReasonICMP, "%v: %v", e.addr, ev.icmp)
	}
	e.now = time.Now()
	e.forget()
	e.datagram = ev.datagram
	b := ev.datagram.data
	h, _ := parseHeader(b)           // the reader has checked it
	if n := e.foreign(h); n != nil { // it was right for an earlier request
		e.client.count.duplicates.Add(1)
		return nil, nil
	}
	if h.code == codes.Empty {
		e.touch()
		if h.typ == message.Reset {
			return nil, failf(ReasonRST, "%v reset the exchange", e.addr)
		}
		e.acked = true
		return nil, nil
	}
	r, err := decode(h, b, &e.opts)
	if err != nil {
		e.client.count.garbage.Add(1)
		return nil, nil
	}
	e.touch()
	return e.accept(r)
}

// accept acknowledges a response where that is due and returns it unless it
// repeats a block that is held already.
func (e *exchange) accept(r response) (*response, *failure) {
	if r.critical != 0 {
		if r.typ == message.Confirmable { // RFC 7252 section 5.4.1
			_ = e.answer(message.Reset, r.mid)
		}
		return nil, failf(ReasonCritical, "response has critical option %d, which is unknown or "+
			"malformed", r.critical)
	}
	if r.typ == message.Confirmable {
		if f := e.answer(message.Acknowledgement, r.mid); f != nil {
			return nil, f
		}
	}
	stale := r.typ != message.Acknowledgement && r.code == codes.Content &&
		r.hasBlock && r.block.offset() < e.offset
	if stale {
		e.client.count.duplicates.Add(1)
		return nil, nil
	}
	e.response = r
	return &e.response, nil
}

// lostLocally tells errors that a later transmission may not meet.
func lostLocally(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.ENOBUFS, syscall.ENOMEM, syscall.EAGAIN, syscall.EINTR, syscall.ECONNREFUSED,
		syscall.EHOSTUNREACH,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
