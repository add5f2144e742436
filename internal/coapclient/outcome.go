package coapclient

import (
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/visit"
)

const (
	// defaultMaxAge is the Max-Age of a response without one, RFC 7252 section
	// 5.10.5.
	defaultMaxAge = time.Minute
	longestMaxAge = 24 * time.Hour

	maxDiagnostic = 200 // bytes of a diagnostic payload that are shown
)

// maxAge is the response's Max-Age, at most a day: a sensor that says 2^32-1
// must not be forgotten for 136 years.
func maxAge(r *response) time.Duration {
	if !r.hasMaxAge {
		return defaultMaxAge
	}
	return min(time.Duration(r.maxAge)*time.Second, longestMaxAge)
}

// diagnostic makes a payload from the network fit for a log line.
func diagnostic(payload []byte) string {
	s := strings.ToValidUTF8(string(payload[:min(len(payload), maxDiagnostic)]), "?")
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == utf8.RuneError || r == 0x7f {
			return '?'
		}
		return r
	}, s)
}

// settle completes the outcome from a document or from a failure.
func settle(out visit.Outcome, d *document, f *failure) visit.Outcome {
	out.Ended = time.Now()
	if f != nil {
		out.Result, out.Reason, out.Error = f.result(out), f.reason, f.text
		out.RetryAfter = f.after
		if f.code != 0 {
			out.Code = dotted(f.code)
		}
		return out
	}
	out.Code = dotted(d.code)
	out.MaxAge, out.HasMaxAge = d.maxAge, d.hasMaxAge
	out.NewETag = d.etag
	if d.code == codes.Valid {
		out.Result, out.Hash = visit.Unchanged, out.Known
		if out.NewETag == nil {
			out.NewETag = slices.Clone(out.ETag)
		}
		return out
	}
	out.Result = visit.Described
	if d.hash == out.Known {
		out.Result = visit.Unchanged
	}
	out.Body, out.Hash, out.Format = d.body, d.hash, d.format
	read(&out, d)
	return out
}

// result draws the line between a sensor that slept, one that said no, and a
// visit that broke.
func (f *failure) result(out visit.Outcome) visit.Result {
	switch f.reason {
	case ReasonRST:
		return visit.Refused
	case ReasonCode:
		if f.code>>5 != 2 {
			return visit.Refused
		}
	case ReasonExhausted: // before anything was sent
		return visit.Missed
	case ReasonICMP, ReasonTimeout, ReasonDeadline, ReasonCancelled:
		switch {
		case out.Contact:
		case out.DatagramsSent == 0:
			return visit.Missed
		case f.reason != ReasonCancelled: // cut short by us: no evidence of sleep
			return visit.Asleep
		}
	}
	return visit.Failed
}

// read parses the body by the Content-Format that came with it. A body that does
// not parse is a description all the same.
func read(out *visit.Outcome, d *document) {
	switch {
	case d.format == int(message.AppLinkFormat), d.format < 0 && len(d.body) == 0:
		res := linkformat.Parse(d.body)
		out.Verdict, out.Links = string(res.Verdict), len(res.Links)
	case d.format == int(message.AppSenmlJSON), d.format == int(message.AppSenmlCbor):
		out.PublishedAt = publishedAt(d.body, d.format, d.at)
	}
}
