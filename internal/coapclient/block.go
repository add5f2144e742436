package coapclient

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// document is a complete answer: a body, or the word that the stored one is
// valid.
type document struct {
	code      codes.Code // 2.05 or 2.03
	body      []byte
	hash      string // hex SHA-256 of body
	blocks    int
	etag      []byte // nil = none
	format    int    // -1 = none
	maxAge    time.Duration
	hasMaxAge bool
	at        time.Time // when the last part came
}

// visit makes the transfer and, where one is not proof enough, a second one.
//
// A body in several blocks without an ETag may be stitched from two versions
// (RFC 7959 section 2.4). Before it replaces a stored version it is fetched
// again; of two whole but different bodies the second is the newer.
func (e *exchange) visit(ctx context.Context) (*document, *failure) {
	d, f := e.transfer(ctx)
	if f != nil || d.code == codes.Valid {
		return d, f
	}
	if d.blocks > 1 && d.etag == nil && e.want.Known != "" && d.hash != e.want.Known {
		e.note("no ETag on %d blocks: fetched again to confirm", d.blocks)
		return e.transfer(ctx)
	}
	return d, nil
}

// transfer fetches one whole body. Each remedy is tried once per visit.
func (e *exchange) transfer(ctx context.Context) (*document, *failure) {
	for {
		d, f := e.attempt(ctx)
		if f == nil || f.again == noRemedy || e.tried[f.again] {
			return d, f
		}
		e.tried[f.again] = true
		e.note("again: %s", f.text)
	}
}

// attempt requests block after block under one token, which some servers key
// their block state by. Every block is a message of its own with its own
// retransmissions.
func (e *exchange) attempt(ctx context.Context) (*document, *failure) {
	d := &e.document
	*d = document{format: -1}
	var next *block
	if szx, ok := szxOf(e.client.opts.PrefBlock); ok {
		next = &block{szx: szx}
	}
	for first := true; ; first = false {
		e.offset = len(d.body)
		r, f := e.ask(ctx, next, first)
		if f != nil {
			return nil, f
		}
		if f = e.check(r, first); f != nil {
			return nil, f
		}
		if r.code == codes.Valid {
			d.code, d.etag = r.code, bytes.Clone(r.etag)
			d.maxAge, d.hasMaxAge = maxAge(r), r.hasMaxAge
			return d, nil
		}
		more, f := d.add(r, e.client.opts.Limits)
		if f != nil {
			return nil, f
		}
		e.advance()
		if !more {
			d.finish(e.progress)
			return d, nil
		}
		next = &block{num: len(d.body) / r.block.size(), szx: r.block.szx}
	}
}

// advance counts a new block. A wait beyond the progress limit uses up one of
// the silences that are taken for loss.
func (e *exchange) advance() {
	if e.now.Sub(e.progress) > e.patience() {
		e.stalls++
	}
	e.blocks++
	e.fruitless, e.progress, e.heard = 0, e.now, false
}

// ask sends the request for one block; next nil leaves the size to the sensor.
func (e *exchange) ask(ctx context.Context, next *block, first bool) (*response, *failure) {
	mid, f := e.arm(first)
	if f != nil {
		return nil, f
	}
	q := &e.request
	*q = request{
		non: e.want.NON, mid: mid, token: e.tokenWire[:], block: next,
		accept: e.target.wellKnown && !e.tried[withoutAccept],
	}
	if first {
		q.echo, e.echo = e.echo, nil
		if n := len(e.want.ETag); !e.want.Full && n >= 1 && n <= 8 {
			q.etag = e.want.ETag
		}
	}
	var err error
	if e.opts, e.out, err = e.target.encode(q, e.opts, e.out[:cap(e.out)]); err != nil {
		return nil, failf(ReasonFormat, "encode request: %v", err)
	}
	return e.roundTrip(ctx)
}

// check sorts out every response that is not a part of the body.
func (e *exchange) check(r *response, first bool) *failure {
	switch r.code {
	case codes.Content:
		return nil
	case codes.Valid:
		if first && !e.want.Full && len(e.want.ETag) > 0 {
			return nil
		}
	}
	f := failf(ReasonCode, "%v answered %s %v", e.addr, dotted(r.code), r.code)
	f.code = r.code
	switch r.code {
	case codes.NotAcceptable:
		if e.target.wellKnown {
			f.again = withoutAccept
		}
	case codes.Unauthorized:
		if r.echo != nil && !e.tried[withEcho] {
			f.again, e.echo = withEcho, bytes.Clone(r.echo)
		}
	case codes.ServiceUnavailable, codes.TooManyRequests:
		f.after = maxAge(r)
	}
	if len(r.payload) > 0 && r.code>>5 != 2 { // diagnostic, RFC 7252 section 5.5.2
		f.text += ": " + diagnostic(r.payload)
	}
	return f
}

// add appends one part of the body and tells whether more follow.
func (d *document) add(r *response, l Limits) (more bool, f *failure) {
	if d.blocks > 0 {
		if f = d.same(r); f != nil {
			return false, f
		}
	}
	if r.size2 > int64(l.Body) {
		return false, failf(ReasonLimit, "body of %d bytes announced, %d allowed", r.size2, l.Body)
	}
	if r.hasBlock {
		if f = r.fits(d, l); f != nil {
			return false, f
		}
		more = r.block.more
	}
	held := len(d.body) + len(r.payload)
	if held > l.Body || more && held == l.Body {
		return false, failf(ReasonLimit, "body of more than %d bytes", l.Body)
	}
	if d.blocks++; d.blocks > l.Blocks || more && d.blocks == l.Blocks {
		return false, failf(ReasonLimit, "body of more than %d blocks", l.Blocks)
	}
	if d.blocks == 1 {
		d.code, d.etag, d.format = r.code, bytes.Clone(r.etag), r.format
		d.body = make([]byte, 0, d.room(r, l, more))
	}
	d.body = append(d.body, r.payload...)
	d.maxAge, d.hasMaxAge = maxAge(r), r.hasMaxAge
	return more, nil
}

// room is the capacity for the body: exact where it is known.
func (d *document) room(r *response, l Limits, more bool) int {
	switch {
	case !more:
		return len(r.payload)
	case r.size2 > int64(len(r.payload)):
		return int(r.size2)
	}
	return min(4*len(r.payload), l.Body)
}

// same holds a later part against the first (RFC 7959 section 2.4).
func (d *document) same(r *response) *failure {
	var f *failure
	switch {
	case !bytes.Equal(d.etag, r.etag) || (d.etag == nil) != (r.etag == nil):
		f = failf(ReasonBlock, "ETag changed from %x to %x between two blocks", d.etag, r.etag)
		f.again = fromStart
	case r.format >= 0 && d.format != r.format: // node-coap leaves it out of later blocks
		f = failf(ReasonBlock, "Content-Format changed from %d to %d between two blocks",
			d.format, r.format)
	case !r.hasBlock:
		f = failf(ReasonBlock, "block at byte %d came without Block2", len(d.body))
	}
	return f
}

// fits checks the place and size of a block.
func (r *response) fits(d *document, l Limits) *failure {
	b := r.block
	switch {
	case b.szx > 6:
		return failf(ReasonBlock, "block size exponent %d is reserved, or BERT, "+
			"which was not offered", b.szx)
	case b.offset() != len(d.body):
		return failf(ReasonBlock, "block at byte %d, expected %d", b.offset(), len(d.body))
	case (b.more || b.num > 0) && b.size() < l.MinBlock:
		return failf(ReasonLimit, "blocks of %d bytes, at least %d wanted", b.size(), l.MinBlock)
	case b.more && len(r.payload) != b.size() || len(r.payload) > b.size():
		return failf(ReasonBlock, "block of %d bytes carries %d", b.size(), len(r.payload))
	}
	return nil
}

func (d *document) finish(now time.Time) {
	d.at = now
	sum := sha256.Sum256(d.body)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	d.hash = string(text[:])
}
