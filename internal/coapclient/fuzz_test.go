package coapclient

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// FuzzResponse lets a sensor send anything at any moment of a visit. data is a
// list of datagrams, each after a length byte and a mode byte that says how much
// of a valid answer to the running request is put before it. No datagram may
// cause a panic, and every visit must end within its limits.
func FuzzResponse(f *testing.F) {
	whole := []byte{1, 0xff, 'x'}
	f.Add(append([]byte{3, 1}, whole...))
	f.Add([]byte{0, 2, 0, 3, 2, 1, 0xd1, 10})
	f.Add([]byte{3, 1, 0xd1, 10, 8, 3, 1, 0xd1, 10, 0x18, 5, 4, 0x60, 0x45, 0, 0, 0xff})
	f.Add([]byte{8, 0, 0x68, 0x45, 1, 2, 3, 4, 5, 6, 0, 4, 2, 5, 0xff})
	c := newClient(f, Options{Limits: Limits{Progress: 5 * time.Millisecond, Body: 4096}})
	var mu sync.Mutex
	var feed []byte
	s := newSensor(f, func(s *sensor, q query) {
		mu.Lock()
		defer mu.Unlock()
		for range 4 {
			if len(feed) < 2 {
				return
			}
			n, mode := int(feed[0]), feed[1]
			feed = feed[2:]
			n = min(n, len(feed))
			s.send(q.from, append(answerHead(q, mode), feed[:n]...))
			feed = feed[n:]
		}
	})
	f.Fuzz(func(t *testing.T, data []byte) {
		mu.Lock()
		feed = data
		mu.Unlock()
		v := visitTo(s.uri())
		v.AckTimeout, v.Retrans = 2*time.Millisecond, 1
		out := c.Fetch(context.Background(), v)
		if out.Took() > 10*time.Second || out.DatagramsSent > 70+out.Blocks {
			t.Errorf("visit took %v and %d datagrams", out.Took(), out.DatagramsSent)
		}
		if len(out.Body) > 4096 || out.Result.Success() == (out.Reason != "") {
			t.Errorf("%v, reason %q, %d bytes", out.Result, out.Reason, len(out.Body))
		}
		if out.Result == visit.Missed || out.Result.Success() && len(out.Hash) != 64 {
			t.Errorf("%v with hash %q", out.Result, out.Hash)
		}
	})
}

// answerHead is the beginning of a valid answer, more of it for a higher mode.
func answerHead(q query, mode byte) []byte {
	types := []byte{0x68, 0x48, 0x58, 0x60} // ACK, CON, NON with token; empty ACK
	b := []byte{types[mode>>4&3], content, byte(q.mid >> 8), byte(q.mid)}
	switch mode & 3 {
	case 0:
		return nil
	case 1, 2:
		if mode>>4&3 != 3 {
			b = append(b, q.token...)
		}
	case 3:
		b = wire(ack, content, q.mid, q.token, []option{linkFormat, block2(q.n%3, true, 64)},
			make([]byte, 64))
	}
	return b
}

// FuzzDecode holds the decoder against what was encoded by hand.
func FuzzDecode(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		rng := rand.New(rand.NewPCG(seed, 1))
		token := binary.BigEndian.AppendUint64(nil, rng.Uint64())
		var opts []option
		add := func(p float64, o option) {
			if rng.Float64() < p {
				opts = append(opts, o)
			}
		}
		etag := binary.BigEndian.AppendUint64(nil, rng.Uint64())[:1+rng.IntN(8)]
		format, age := rng.IntN(65536), rng.Uint32()
		blk := block{num: rng.IntN(1 << 20), more: rng.IntN(2) == 0, szx: uint8(rng.IntN(8))}
		add(.5, option{4, etag})
		add(.5, num(6, 1))
		add(.5, num(12, uint32(format)))
		add(.5, num(14, age))
		add(.5, num(23, blk.value()))
		add(.5, num(28, age))
		add(.5, option{40000, make([]byte, rng.IntN(400))})
		payload := make([]byte, rng.IntN(3)*100)
		b := wire(rng.IntN(3), content, uint16(age), token, opts, payload)
		h, ok := parseHeader(b)
		scratch := newExchange(nil).opts
		r, err := decode(h, b, &scratch)
		if !ok || err != nil || h.token != binary.BigEndian.Uint64(token) || r.mid != uint16(age) {
			t.Fatalf("%x: %+v, %v", b, h, err)
		}
		q := query{opts: opts}
		check := func(id int, same bool) {
			if _, has := q.get(id); has != same {
				t.Errorf("option %d of %x: present %v, decoded %+v", id, b, has, r)
			}
		}
		check(4, string(r.etag) == string(etag))
		check(12, r.format == format)
		check(14, r.hasMaxAge && r.maxAge == age)
		check(23, r.hasBlock && r.block == blk)
		check(28, r.size2 == int64(age))
		if len(r.payload) != len(payload) || r.critical != 0 {
			t.Errorf("payload %d, critical %d", len(r.payload), r.critical)
		}
	})
}
