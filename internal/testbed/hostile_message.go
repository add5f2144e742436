package testbed

import (
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// Numbers of datagrams that one request draws.
const (
	floodSize   = 20_000
	chatterSize = 500
	pingSize    = 50

	chatterEvery = 100 * time.Millisecond
)

// messageModes break the message layer (RFC 7252 sections 3 and 4).
var messageModes = []Mode{
	{Name: string(FaultDead), Does: "hears everything and never answers",
		Spec: Spec{Fault: FaultDead}},
	{Name: string(FaultClosed), Does: "has a closed port: ICMP unreachable",
		Spec: Spec{Fault: FaultClosed}},
	{Name: string(FaultReset), Does: "answers each request with RST",
		Spec: Spec{Fault: FaultReset}},
	{Name: string(FaultGarbage), Does: "answers with bytes that are no CoAP",
		Spec: Spec{Fault: FaultGarbage}},
	{Name: string(FaultNoise), Does: "sends bytes that are no CoAP, then the answer",
		Spec: Spec{Fault: FaultNoise}},
	{Name: string(FaultStranger), Does: "answers from a port that nobody asked",
		Spec: Spec{Fault: FaultStranger}},
	{Name: "duplicates", Does: "sends every second datagram twice",
		Spec: Spec{Duplicate: 0.5, Block: 64, Size: 300}},
	{Name: "lost-ack", Does: "answers separately, and its empty ACK is always lost",
		Spec: Spec{Separate: true, LoseAck: true}},
	{Name: "ack-silence", Does: "acknowledges the request and then says nothing",
		script: func(t turn) { t.raw(bare(message.Acknowledgement, t.a.mid)) }},
	{Name: "ack-chatter", Does: "acknowledges the request every 100 ms, five hundred times",
		script: chatter},
	{Name: "truncated", Does: "sends the answer cut within an option", script: func(t turn) {
		t.mangled(t.content(opaque(message.ETag, "12345678")), func(b []byte) []byte {
			return b[:len(t.a.token)+8] // header, token, and a part of the ETag
		})
	}},
	{Name: "version", Does: "answers in version 2 of CoAP", script: func(t turn) {
		t.mangled(t.content(), func(b []byte) []byte {
			b[0] ^= 0xc0
			return b
		})
	}},
	{Name: "token-length", Does: "says that its token has 15 bytes", script: func(t turn) {
		t.mangled(t.content(), func(b []byte) []byte {
			b[0] |= 15
			return b
		})
	}},
	{Name: "wrong-token", Does: "answers under a token that nobody used", script: func(t turn) {
		m := t.content()
		m.Token = []byte("nobody's")
		t.send(m)
	}},
	{Name: "short-token", Does: "answers under the token less its last byte",
		script: func(t turn) {
			m := t.content()
			m.Token = m.Token[:max(len(m.Token)-1, 0)]
			t.send(m)
		}},
	{Name: "wrong-mid", Does: "answers, acknowledges and resets Message IDs that nobody used",
		script: func(t turn) {
			m := t.content()
			m.MessageID = int32(t.a.mid + 1)
			t.send(m)
			t.raw(bare(message.Acknowledgement, t.a.mid+1))
			t.raw(bare(message.Reset, t.a.mid+1))
		}},
	{Name: "marker", Does: "puts a payload marker where no payload follows", script: func(t turn) {
		t.mangled(t.reply(codes.Content, nil, number(message.ContentFormat, LinkFormat)),
			func(b []byte) []byte { return append(b, 0xff) })
	}},
	{Name: "mirror", Does: "sends every request back as it came", script: func(t turn) {
		t.send(message.Message{Type: t.a.typ, Code: t.a.code, MessageID: int32(t.a.mid),
			Token: []byte(t.a.token)})
	}},
	{Name: "flood", Does: "sends 20 000 confirmable GETs that nobody asked for, then answers",
		script: flood},
	{Name: "pings", Does: "sends 50 CoAP pings before each answer", script: func(t turn) {
		for range pingSize {
			t.raw(bare(message.Confirmable, t.e.mid()))
		}
		t.send(t.content())
	}},
}

func chatter(t turn) {
	if !t.fresh {
		return
	}
	var again func(n int)
	again = func(n int) {
		t.raw(bare(message.Acknowledgement, t.a.mid))
		if n < chatterSize {
			t.e.later(clock().Add(chatterEvery), func(time.Time) { again(n + 1) })
		}
	}
	again(1)
}

// flood spares the later requests: one flood per client is enough.
func flood(t turn) {
	if t.n == 1 {
		m := message.Message{Type: message.Confirmable, Code: codes.GET, Token: []byte("flood")}
		for range floodSize {
			m.MessageID = int32(t.e.mid())
			t.send(m)
		}
	}
	t.send(t.content())
}
