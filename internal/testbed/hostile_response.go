package testbed

import (
	"math"
	"strings"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// Options that the codec has no names for.
const (
	echoOption     message.OptionID = 252 // RFC 9175 section 2.2.1
	criticalOption message.OptionID = 65001
)

// responseModes are whole answers, but not those that were asked for.
var responseModes = []Mode{
	{Name: string(FaultUnavailable), Does: "is always unavailable, and says for how long",
		Spec: Spec{Fault: FaultUnavailable, MaxAge: 1}},
	{Name: string(FaultNotFound), Does: "knows no resource",
		Spec: Spec{Fault: FaultNotFound}},
	{Name: "4.29", Does: "has been asked too often, for the next 136 years",
		script: func(t turn) {
			t.send(t.reply(codes.TooManyRequests, nil, number(message.MaxAge, math.MaxUint32)))
		}},
	{Name: "4.06", Does: "accepts no Accept, and no request without one either",
		script: func(t turn) { t.send(t.reply(codes.NotAcceptable, nil)) }},
	{Name: "echo-loop", Does: "wants another Echo with every request", script: func(t turn) {
		t.send(t.reply(codes.Unauthorized, nil, number(echoOption, uint32(t.n))))
	}},
	{Name: "diagnostic", Does: "refuses with a kilobyte of control characters",
		script: func(t turn) {
			t.send(t.reply(codes.BadRequest, []byte(strings.Repeat("\x1b[2J\x00\n\xff", 150))))
		}},
	{Name: "2.03", Does: "says that what nobody named is still valid",
		script: func(t turn) { t.send(t.reply(codes.Valid, nil)) }},
	{Name: "2.04", Does: "says that a GET has changed something",
		script: func(t turn) { t.send(t.reply(codes.Changed, nil)) }},
	{Name: "reserved-code", Does: "answers with codes of the reserved classes 3 and 7",
		script: func(t turn) {
			t.send(t.reply(3<<5|1, []byte("x")))
			t.send(t.reply(7<<5|1, []byte("x")))
		}},
	{Name: "critical", Does: "adds a critical option that nobody knows", script: func(t turn) {
		t.send(t.content(opaque(criticalOption, "x")))
	}},
	{Name: "critical-twice", Does: "sends Block2, which is critical, twice",
		script: func(t turn) {
			b := number(message.Block2, block{size: 1024}.value())
			t.send(t.content(b, b))
		}},
	{Name: "critical-long", Does: "sends a Block2 of four bytes", script: func(t turn) {
		t.send(t.content(opaque(message.Block2, "\x00\x00\x00\x06")))
	}},
	{Name: "proxy-uri", Does: "points to another server by Proxy-Uri", script: func(t turn) {
		t.send(t.content(opaque(message.ProxyURI, elsewhere)))
	}},
	{Name: "redirect", Does: "points elsewhere by Location-Path and Observe, which are data",
		script: func(t turn) {
			t.send(t.content(opaque(message.LocationPath, "elsewhere"),
				opaque(message.LocationQuery, elsewhere), number(message.Observe, 1)))
		}},
	{Name: "options", Does: "sends two thousand options", script: func(t turn) {
		many := make([]message.Option, 2000)
		for i := range many {
			many[i] = opaque(message.OptionID(2000+2*i), "")
		}
		t.send(t.content(many...))
	}},
	{Name: "etag-long", Does: "sends an ETag of nine bytes, which is to be ignored",
		script: func(t turn) { t.send(t.content(opaque(message.ETag, "123456789"))) }},
	{Name: "max-age-zero", Does: "says that its answer is stale at once",
		script: func(t turn) { t.send(t.content(number(message.MaxAge, 0))) }},
	{Name: "max-age-long", Does: "says that its answer is good for 136 years",
		script: func(t turn) { t.send(t.content(number(message.MaxAge, math.MaxUint32))) }},
	{Name: "format-unknown", Does: "sends a Content-Format that is not registered",
		Spec: Spec{Format: 65535}},
	{Name: "format-lie", Does: "says SenML in CBOR and sends link format",
		script: func(t turn) {
			t.send(t.reply(codes.Content, t.e.s.body(0), number(message.ContentFormat, 112)))
		}},
}
