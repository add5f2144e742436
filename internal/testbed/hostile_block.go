package testbed

import (
	"strings"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
)

// hostileBlock is the block size of these modes in bytes.
const hostileBlock = 64

// blockModes send blocks that make no body (RFC 7959).
var blockModes = []Mode{
	{Name: string(FaultEndless), Does: "says with every block of 1024 bytes that more follow",
		Spec: Spec{Fault: FaultEndless, Block: 1024}},
	{Name: "endless-small", Does: "the same in blocks of 64 bytes",
		Spec: Spec{Fault: FaultEndless, Block: hostileBlock}},
	{Name: string(FaultOversize), Does: "announces 16 MiB, and more follow",
		Spec: Spec{Fault: FaultOversize}},
	{Name: string(FaultStuck), Does: "sends block 0 whatever is asked for",
		Spec: Spec{Fault: FaultStuck}},
	{Name: string(FaultJump), Does: "numbers each block one too high",
		Spec: Spec{Fault: FaultJump}},
	{Name: string(FaultFlip), Does: "has another ETag with every block",
		Spec: Spec{Fault: FaultFlip, Block: hostileBlock, Size: 300}},
	{Name: "stuck-con", Does: "sends block 0 again, confirmable, for each ACK that it gets",
		script: stuckConfirmable, hears: true},
	{Name: "etag-vanishes", Does: "has an ETag with its first block only", script: func(t turn) {
		if t.a.block.num == 0 {
			t.send(t.part(block{0, true, hostileBlock}, opaque(message.ETag, "e")))
			return
		}
		t.send(t.part(t.asked()))
	}},
	{Name: "format-flips", Does: "has another Content-Format with every block",
		script: func(t turn) {
			t.send(t.part(t.asked(), number(message.ContentFormat, uint32(t.a.block.num))))
		}},
	{Name: "block-vanishes", Does: "forgets Block2 after the first block", script: func(t turn) {
		if t.a.block.num == 0 {
			t.send(t.part(block{0, true, hostileBlock}))
			return
		}
		t.send(t.reply(codes.Content, []byte(strings.Repeat("x", hostileBlock))))
	}},
	{Name: "block-short", Does: "sends a byte less than the size of a block that others follow",
		script: func(t turn) {
			m := t.part(t.asked())
			m.Payload = m.Payload[1:]
			t.send(m)
		}},
	{Name: "block-long", Does: "sends a last block that is larger than it says",
		script: func(t turn) {
			m := t.part(block{0, false, hostileBlock})
			m.Payload = append(m.Payload, 'x')
			t.send(m)
		}},
	{Name: "block-grows", Does: "doubles its block size with every block", script: func(t turn) {
		t.send(t.part(block{min(t.a.block.num, 1), true, hostileBlock << min(t.n, 4)}))
	}},
	{Name: "block-tiny", Does: "sends a large body in blocks of 16 bytes",
		Spec: Spec{Block: 16, Size: 8 << 10}},
	{Name: "block-reserved", Does: "uses the block size that is reserved", script: func(t turn) {
		m := t.reply(codes.Content, []byte("x"), number(message.Block2, 7|8))
		t.send(m)
	}},
	{Name: "valid-midway", Does: "says 2.03 in the middle of a transfer", script: func(t turn) {
		if t.a.block.num == 0 {
			t.send(t.part(block{0, true, hostileBlock}))
			return
		}
		t.send(t.reply(codes.Valid, nil))
	}},
	{Name: "drip", Does: "takes 900 ms for each of endless blocks",
		Spec: Spec{Delay: 900 * time.Millisecond}, script: drip},
	{Name: "drip-slow", Does: "takes 11 s for each of endless blocks",
		Spec: Spec{Delay: 11 * time.Second}, script: drip},
	{Name: "drip-acked", Does: "acknowledges at once, and takes 11 s for each of endless blocks",
		Spec: Spec{Delay: 11 * time.Second}, script: func(t turn) {
			t.raw(bare(message.Acknowledgement, t.a.mid))
			drip(t)
		}},
}

// asked is the block that was asked for, with more to follow.
func (t turn) asked() block {
	num := t.a.block.num * t.a.block.size / hostileBlock
	return block{num & (1<<20 - 1), true, hostileBlock}
}

// drip answers after the think time with the block that was asked for.
func drip(t turn) {
	if t.fresh {
		t.later(t.e.s.spec.Delay, func() {
			m := t.part(t.asked())
			m.Type, m.MessageID = message.NonConfirmable, int32(t.e.mid())
			t.send(m)
		})
	}
}

func stuckConfirmable(t turn) {
	if t.a.code != codes.Empty {
		t.e.stuckToken = t.a.token
	}
	if t.a.typ == message.Reset {
		return
	}
	m := t.part(block{0, true, hostileBlock})
	m.Type, m.MessageID, m.Token = message.Confirmable, int32(t.e.mid()), []byte(t.e.stuckToken)
	t.send(m)
}
