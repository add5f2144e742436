package coapclient

import (
	"encoding/hex"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"

	"github.com/crawld/crawld/internal/visit"
)

// Bounds on a transcript: a sensor may send without end.
const (
	maxLines      = 2048
	shownPayload  = 32 // bytes
	shownValue    = 64 // bytes of an option's value
	shownNonsense = 16 // bytes of what is no CoAP
)

// noting tells whether the visit is written down. All that a transcript costs stands
// behind it.
func (e *exchange) noting() bool { return e.client.opts.Transcript }

// note adds a remark to the transcript.
func (e *exchange) note(format string, args ...any) {
	if !e.noting() {
		return
	}
	e.client.mu.Lock()
	defer e.client.mu.Unlock()
	e.append(visit.Line{Note: fmt.Sprintf(format, args...)})
}

// trace adds a datagram, and why it was not taken. It is called with Client.mu held:
// the reader sees more datagrams than the visit does.
func (e *exchange) trace(sent bool, b []byte, dropped string) {
	if e.noting() {
		l := describe(b)
		if l.Sent = sent; dropped != "" {
			l.Note = dropped
		}
		e.append(l)
	}
}

// append is called with Client.mu held.
func (e *exchange) append(l visit.Line) {
	l.Offset = time.Since(e.started).Seconds()
	switch {
	case len(e.transcript) < maxLines:
		e.transcript = append(e.transcript, l)
	case len(e.transcript) == maxLines:
		l = visit.Line{Offset: l.Offset, Note: "the rest is not shown"}
		e.transcript = append(e.transcript, l)
	}
}

// dropped names the counter of a datagram that is no answer to the running request.
func (c *Client) dropped(counter *atomic.Uint64) string {
	switch counter {
	case &c.count.unasked:
		return "dropped: a request"
	case &c.count.wrongToken:
		return "dropped: not our token"
	case &c.count.wrongMID:
		return "dropped: not our Message ID"
	}
	return "dropped: no CoAP message"
}

var typeNames = [4]string{"CON", "NON", "ACK", "RST"}

// describe reads a datagram for people.
func describe(b []byte) visit.Line {
	l := visit.Line{Size: len(b)}
	h, ok := parseHeader(b)
	if !ok {
		l.Note = fmt.Sprintf("%x", b[:min(len(b), shownNonsense)])
		return l
	}
	l.Type, l.Code, l.MID = typeNames[h.typ], codeName(h.code), h.mid
	l.Token = hex.EncodeToString(b[4 : 4+h.tkl])
	opts := make(message.Options, 0, maxOptions)
	r, err := decode(h, b, &opts)
	for _, o := range opts {
		l.Options = append(l.Options, showOption(o))
	}
	if err != nil {
		l.Note = "malformed: " + err.Error()
	}
	l.Payload = len(r.payload)
	if l.Payload > 0 {
		l.Head = append([]byte(nil), r.payload[:min(len(r.payload), shownPayload)]...)
	}
	return l
}

func codeName(c codes.Code) string {
	if c == codes.GET {
		return "GET"
	}
	return dotted(c)
}

// valueForm is how an option's value is shown.
type valueForm uint8

const (
	asHex valueForm = iota
	asText
	asNumber
	asBlock
)

// optionForms has the registered options (RFC 7252 section 12.2 and its successors).
var optionForms = map[message.OptionID]struct {
	name string
	form valueForm
}{
	1: {"If-Match", asHex}, 3: {"Uri-Host", asText}, 4: {"ETag", asHex},
	5: {"If-None-Match", asHex}, 6: {"Observe", asNumber}, 7: {"Uri-Port", asNumber},
	8: {"Location-Path", asText}, 9: {"OSCORE", asHex}, 11: {"Uri-Path", asText},
	12: {"Content-Format", asNumber}, 14: {"Max-Age", asNumber}, 15: {"Uri-Query", asText},
	16: {"Hop-Limit", asNumber}, 17: {"Accept", asNumber}, 20: {"Location-Query", asText},
	23: {"Block2", asBlock}, 27: {"Block1", asBlock}, 28: {"Size2", asNumber},
	35: {"Proxy-Uri", asText}, 39: {"Proxy-Scheme", asText}, 60: {"Size1", asNumber},
	252: {"Echo", asHex}, 258: {"No-Response", asNumber}, 292: {"Request-Tag", asHex},
}

// showOption is an option as "Name: value". Text is quoted: it comes from the network.
func showOption(o message.Option) string {
	known := optionForms[o.ID]
	if known.name == "" {
		known.name = fmt.Sprintf("Option %d", o.ID)
	}
	number, _, err := message.DecodeUint32(o.Value)
	value := o.Value[:min(len(o.Value), shownValue)]
	switch {
	case len(o.Value) > 4 || err != nil, known.form == asHex:
		if known.form == asText {
			break
		}
		return fmt.Sprintf("%s: 0x%x", known.name, value)
	case known.form == asNumber:
		return fmt.Sprintf("%s: %d", known.name, number)
	case known.form == asBlock:
		b, more := blockOf(number), ""
		if b.more {
			more = " more"
		}
		return fmt.Sprintf("%s: %d/%d%s", known.name, b.num, b.size(), more)
	}
	return fmt.Sprintf("%s: %q", known.name, value)
}
