package testbed

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// Mode is a difficult or hostile sensor: a name, what it does, and the Spec that
// does it. A mode that a Spec's other fields cannot describe has a script.
type Mode struct {
	Name string
	Does string // one sentence
	Spec Spec   // without a Name

	script func(t turn) // run for each request, repeated ones too; nil = by the Spec alone
	hears  bool         // the script is run for ACKs and RSTs as well
}

// Modes returns every mode, by layer: messages, responses, blocks, bodies.
func Modes() []Mode {
	all := slices.Concat(messageModes, responseModes, blockModes, bodyModes)
	for i, m := range all {
		if m.script != nil {
			all[i].Spec.Fault = Fault(m.Name)
		}
	}
	return all
}

// ModeNamed returns the mode of a name. The error names the modes there are.
func ModeNamed(name string) (Mode, error) {
	all := Modes()
	i := slices.IndexFunc(all, func(m Mode) bool { return m.Name == name })
	if i >= 0 {
		return all[i], nil
	}
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.Name
	}
	return Mode{}, fmt.Errorf("testbed: no mode %q; there are: %s", name, strings.Join(names, ", "))
}

// scripted returns the mode whose script a fault names.
func scripted(f Fault) (Mode, bool) {
	for _, list := range [][]Mode{messageModes, responseModes, blockModes, bodyModes} {
		for _, m := range list {
			if m.script != nil && m.Name == string(f) {
				return m, true
			}
		}
	}
	return Mode{}, false
}

// turn is one message that a script may answer. What a script sends is logged as no
// answer: Request.Answered stays false.
type turn struct {
	e     *endpoint
	a     ask
	n     int  // requests received so far, repeated ones too, this one included
	fresh bool // not a repetition
	now   time.Time
}

// misbehave hands a message to the script.
func (e *endpoint) misbehave(a ask, key exchange, entry Request, now time.Time) {
	e.s.bed.record(entry)
	t := turn{e: e, a: a, now: now}
	if a.code != codes.Empty {
		e.requests++
		if t.fresh = e.exchanges[key] == nil; t.fresh {
			e.remember(key, entry).settled = true
		}
	}
	t.n = e.requests
	e.mode.script(t)
}

// reply is a response to the request: in its ACK, or a NON to a NON.
func (t turn) reply(code codes.Code, payload []byte, options ...message.Option) message.Message {
	m := message.Message{
		Type: message.Acknowledgement, MessageID: int32(t.a.mid), Token: []byte(t.a.token),
		Code: code, Options: options, Payload: payload,
	}
	if t.a.typ == message.NonConfirmable {
		m.Type, m.MessageID = message.NonConfirmable, int32(t.e.mid())
	}
	return m
}

// content is a 2.05 with the whole description.
func (t turn) content(options ...message.Option) message.Message {
	body := t.e.s.body(t.e.s.seq(t.now))
	options = append(options, number(message.ContentFormat, LinkFormat))
	return t.reply(codes.Content, body, options...)
}

// part is a 2.05 with one block of a body of size times x.
func (t turn) part(b block, options ...message.Option) message.Message {
	return t.reply(codes.Content, bytes.Repeat([]byte{'x'}, b.size),
		append(options, number(message.Block2, b.value()))...)
}

func (t turn) send(m message.Message) { t.raw(encode(m)) }

func (t turn) raw(datagram []byte) { t.e.send(datagram, t.a.peer) }

// mangled sends a message after a change to its bytes.
func (t turn) mangled(m message.Message, change func(b []byte) []byte) { t.raw(change(encode(m))) }

func (t turn) later(d time.Duration, do func()) {
	t.e.later(t.now.Add(d), func(time.Time) { do() })
}

// opaque is an option with any value.
func opaque(id message.OptionID, v string) message.Option {
	return message.Option{ID: id, Value: []byte(v)}
}
