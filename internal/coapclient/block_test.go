package coapclient

import (
	"bytes"
	"net/netip"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// bodyOf is a body in which every position can be told from its neighbours.
func bodyOf(n int, version byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('!' + (i/7+i%13+int(version))%90)
	}
	return b
}

func TestWholeBodies(t *testing.T) {
	c := newClient(t, Options{})
	small := newClient(t, Options{PrefBlock: 64})
	for _, x := range []struct {
		name         string
		c            *Client
		size, server int
		blocks       int
	}{
		{"exactly one block", c, 1024, 1024, 1},
		{"one byte more", c, 1025, 1024, 2},
		{"60 KB", c, 60_000, 1024, 59},
		{"the whole limit", c, 64 << 10, 1024, 64},
		{"1024 blocks of 64 bytes", c, 64 << 10, 64, 1024},
		{"server wants smaller blocks", c, 1000, 128, 8},
		{"we ask for smaller blocks", small, 1000, 1024, 16},
	} {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			body := bodyOf(x.size, 0)
			s := newSensor(t, func(s *sensor, q query) {
				s.part(q, body, x.server, etag("e"), linkFormat)
			})
			out := fetch(t, x.c, visitTo(s.uri()))
			described(t, out, string(body))
			if out.Blocks != x.blocks || out.DatagramsSent != x.blocks+out.Retransmissions {
				t.Errorf("%d blocks in %d datagrams", out.Blocks, out.DatagramsSent)
			}
			for _, q := range s.received()[1:] {
				if q.typ != con || !bytes.Equal(q.token, s.received()[0].token) {
					t.Fatalf("follow-up %+v under another token", q)
				}
			}
		})
	}
}

// TestSmallerFromTheMiddle: RFC 7959 section 2.4 lets a server turn to smaller
// blocks at any time; the byte offset is what counts.
func TestSmallerFromTheMiddle(t *testing.T) {
	body := bodyOf(2000, 0)
	s := newSensor(t, func(s *sensor, q query) {
		n, size := q.block()
		max := 512
		if n*size >= 512 {
			max = 128
		}
		s.part(q, body, max, etag("e"), linkFormat)
	})
	out := fetch(t, newClient(t, Options{}), visitTo(s.uri()))
	described(t, out, string(body))
	if out.Blocks != 1+12 {
		t.Errorf("%d blocks", out.Blocks)
	}
}

func TestSeparateBlocks(t *testing.T) {
	body := bodyOf(700, 0)
	s := newSensor(t, func(s *sensor, q query) {
		n, size := q.block()
		size = min(size, 128)
		end := min((n+1)*size, len(body))
		opts := []option{linkFormat, block2(n, end < len(body), size)}
		b := wire(con, content, uint16(1000+q.n), q.token, opts, body[n*size:end])
		s.send(q.from, b)
		s.send(q.from, b) // it did not wait for our ACK
	})
	c := newClient(t, Options{})
	out := fetch(t, c, visitTo(s.uri()))
	described(t, out, string(body))
	waitFor(t, func() bool { return len(s.received()) >= 6+6+5 })
	acks := 0
	for _, q := range s.received() {
		if q.typ == ack {
			acks++
		}
	}
	if acks < 11 || c.Stats().Duplicates < 5 {
		t.Errorf("%d ACKs, %+v", acks, c.Stats())
	}
}

// hostile are sensors whose blocks make no body. Each must cost at most 70
// datagrams, but for the endless one, which ends at the body's limit.
var hostile = []struct {
	name   string
	script func(s *sensor, q query)
	reason string
	sent   int
}{
	{"endless", func(s *sensor, q query) {
		n, _ := q.block()
		s.piggyback(q, content, make([]byte, 1024), block2(n, true, 1024))
	}, ReasonLimit, 64},
	{"endless in small blocks", func(s *sensor, q query) {
		n, _ := q.block()
		s.piggyback(q, content, make([]byte, 64), block2(n, true, 64))
	}, ReasonLimit, 1024},
	{"stuck", func(s *sensor, q query) {
		s.piggyback(q, content, make([]byte, 64), block2(0, true, 64))
	}, ReasonBlock, 2},
	{"jumping", func(s *sensor, q query) {
		n, _ := q.block()
		s.piggyback(q, content, make([]byte, 64), block2(2*n, true, 64))
	}, ReasonBlock, 2},
	{"ETag of every block another", func(s *sensor, q query) {
		n, _ := q.block()
		s.piggyback(q, content, make([]byte, 64), num(4, uint32(q.n)), block2(n, true, 64))
	}, ReasonBlock, 4},
	{"ETag only on the first block", func(s *sensor, q query) {
		n, _ := q.block()
		opts := []option{block2(n, true, 64)}
		if n == 0 {
			opts = append([]option{etag("e")}, opts...)
		}
		s.piggyback(q, content, make([]byte, 64), opts...)
	}, ReasonBlock, 4},
	{"Content-Format changes", func(s *sensor, q query) {
		n, _ := q.block()
		s.piggyback(q, content, make([]byte, 64), num(12, uint32(n)), block2(n, true, 64))
	}, ReasonBlock, 2},
	{"blocks grow", func(s *sensor, q query) {
		n, _ := q.block()
		s.piggyback(q, content, make([]byte, 64<<n), block2(min(n, 1)/2, true, 64<<n))
	}, ReasonBlock, 2},
	{"short block in the middle", func(s *sensor, q query) {
		s.piggyback(q, content, make([]byte, 63), block2(0, true, 64))
	}, ReasonBlock, 1},
	{"long last block", func(s *sensor, q query) {
		s.piggyback(q, content, make([]byte, 65), block2(0, false, 64))
	}, ReasonBlock, 1},
	{"Block2 vanishes", func(s *sensor, q query) {
		if n, _ := q.block(); n == 0 {
			s.piggyback(q, content, make([]byte, 64), block2(0, true, 64))
			return
		}
		s.piggyback(q, content, make([]byte, 64))
	}, ReasonBlock, 2},
	{"reserved block size", func(s *sensor, q query) {
		s.piggyback(q, content, make([]byte, 64), num(23, 7|8))
	}, ReasonBlock, 1},
	{"blocks of 32 bytes", func(s *sensor, q query) {
		s.piggyback(q, content, make([]byte, 32), block2(0, true, 32))
	}, ReasonLimit, 1},
	{"too much announced", func(s *sensor, q query) {
		s.piggyback(q, content, make([]byte, 64), block2(0, true, 64), num(28, 64<<10+1))
	}, ReasonLimit, 1},
	{"2.03 in the middle", func(s *sensor, q query) {
		if n, _ := q.block(); n == 0 {
			s.piggyback(q, content, make([]byte, 64), block2(0, true, 64))
			return
		}
		s.piggyback(q, valid, nil)
	}, ReasonCode, 2},
}

func TestHostileBlocks(t *testing.T) {
	c := newClient(t, Options{Limits: Limits{Progress: 200 * time.Millisecond}})
	for _, x := range hostile {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			s := newSensor(t, x.script)
			v := visitTo(s.uri())
			v.AckTimeout = 10 * time.Second // loopback loses nothing
			out := fetch(t, c, v)
			is(t, out, visit.Failed, x.reason, true)
			if out.DatagramsSent > x.sent || out.Body != nil || out.Hash != "" {
				t.Errorf("%d datagrams sent, want at most %d; %s", out.DatagramsSent, x.sent,
					out.Error)
			}
		})
	}
}

// TestStuckConfirmable: every ACK of ours would draw the next copy of block 0.
func TestStuckConfirmable(t *testing.T) {
	var first query
	s := newSensor(t, func(s *sensor, q query) {
		if q.code == 1 {
			first = q
		}
		s.send(first.from, wire(con, content, q.mid+1, first.token, []option{block2(0, true, 64)},
			make([]byte, 64)))
	}, func(s *sensor) { s.acks = true })
	v := visitTo(s.uri())
	v.AckTimeout = 10 * time.Second
	out := fetch(t, newClient(t, Options{}), v)
	is(t, out, visit.Failed, ReasonLimit, true)
	if out.DatagramsSent > 70 || out.Blocks != 1 {
		t.Errorf("%d datagrams sent, %d blocks", out.DatagramsSent, out.Blocks)
	}
}

func TestSlowDrip(t *testing.T) {
	var asked []query
	s := newSensor(t, func(s *sensor, q query) { // answers each request only when it is repeated
		if asked = append(asked, q); len(asked)%3 == 0 {
			n, _ := q.block()
			s.piggyback(q, content, make([]byte, 64), block2(n, true, 64))
		}
	})
	v := visitTo(s.uri())
	v.AckTimeout = 30 * time.Millisecond // third transmission after at least 90 ms
	out := fetch(t, newClient(t, Options{Limits: Limits{Progress: 60 * time.Millisecond}}), v)
	is(t, out, visit.Failed, ReasonProgress, true)
	if out.Blocks > 1+maxStalls { // the first block comes before the limit holds
		t.Errorf("%d blocks", out.Blocks)
	}
}

func TestBodyChangesMidway(t *testing.T) {
	old, fresh := bodyOf(300, 1), bodyOf(280, 2)
	s := newSensor(t, func(s *sensor, q query) {
		if q.n <= 3 {
			s.part(q, old, 64, etag("old"), linkFormat)
			return
		}
		s.part(q, fresh, 64, etag("new"), linkFormat)
	})
	out := fetch(t, newClient(t, Options{}), visitTo(s.uri()))
	described(t, out, string(fresh))
	if string(out.NewETag) != "new" || out.DatagramsSent != 4+5 {
		t.Errorf("ETag %q after %d datagrams", out.NewETag, out.DatagramsSent)
	}
}

// TestNoETag: two versions stitched together would pass every other check.
func TestNoETag(t *testing.T) {
	old, fresh := bodyOf(300, 1), bodyOf(300, 2)
	for _, x := range []struct {
		name     string
		known    string
		changeAt int // the request from which on the body is fresh
		want     []byte
		requests int
	}{
		{"first version", "", 0, fresh, 5},
		{"confirmed", "0123", 0, fresh, 10},
		{"stitched, then whole", "0123", 3, fresh, 10},
		{"changed between the two", "0123", 6, fresh, 10},
	} {
		s := newSensor(t, func(s *sensor, q query) {
			body := old
			if q.n >= x.changeAt {
				body = fresh
			}
			s.part(q, body, 64, linkFormat)
		})
		c := newClient(t, Options{})
		v := visitTo(s.uri())
		v.Known, v.AckTimeout = x.known, 10*time.Second
		out := fetch(t, c, v)
		described(t, out, string(x.want))
		if len(s.received()) != x.requests {
			t.Errorf("%s: %d requests, want %d", x.name, len(s.received()), x.requests)
		}
		v.Known = out.Hash // the same again needs no proof
		is(t, fetch(t, c, v), visit.Unchanged, "", true)
		if n := len(s.received()); n != x.requests+5 {
			t.Errorf("%s: unchanged body asked %d times", x.name, n-x.requests)
		}
	}
}

// TestLargeDatagrams: UDP carries up to 65507 bytes, and none may be missing.
func TestLargeDatagrams(t *testing.T) {
	for _, x := range []struct {
		size, limit int
		result      visit.Result
	}{
		{2000, 0, visit.Described}, {65000, 0, visit.Described}, {65000, 60000, visit.Failed},
	} {
		body := bodyOf(x.size, 0)
		s := newSensor(t, func(s *sensor, q query) { s.piggyback(q, content, body, linkFormat) })
		v := visitTo(s.uri())
		v.AckTimeout = 10 * time.Second
		out := fetch(t, newClient(t, Options{Limits: Limits{Body: x.limit}}), v)
		if x.result == visit.Failed {
			is(t, out, visit.Failed, ReasonLimit, true)
			continue
		}
		described(t, out, string(body))
	}
}

// TestBlockOption compares the option with RFC 7959's layout bit by bit.
func TestBlockOption(t *testing.T) {
	for _, x := range []struct {
		n    int
		more bool
		size int
	}{{0, false, 16}, {1, true, 64}, {1023, true, 1024}, {1<<20 - 1, false, 512}} {
		szx, ok := szxOf(x.size)
		b := block{x.n, x.more, szx}
		if want := block2(x.n, x.more, x.size); !ok || num(23, b.value()).id != want.id ||
			!bytes.Equal(num(23, b.value()).value, want.value) || blockOf(b.value()) != b {
			t.Errorf("%+v: value %x", x, b.value())
		}
	}
	for _, size := range []int{0, 8, 15, 48, 2048, -16} {
		if _, ok := szxOf(size); ok {
			t.Errorf("block size %d accepted", size)
		}
	}
	if _, err := New(Options{PrefBlock: 100}); err == nil {
		t.Error("a block size of 100 was accepted")
	}
	if _, err := New(Options{Sockets: -1}); err == nil {
		t.Error("-1 sockets were accepted")
	}
}

// TestTruncatedAndGarbage: whatever else comes from the sensor's address, its
// answer still counts.
func TestTruncatedAndGarbage(t *testing.T) {
	s := newSensor(t, func(s *sensor, q query) {
		opts := []option{etag("12345678"), linkFormat}
		whole := wire(ack, content, q.mid, q.token, opts, []byte(links))
		// Cut inside the header, the token or an option; later cuts leave a valid message.
		for n := range 4 + 8 + 1 + 8 {
			if n != 4+8 {
				s.send(q.from, whole[:n])
			}
		}
		s.send(q.from, []byte("\xff\xff\xff\xff not CoAP"))
		s.send(q.from, append(wire(ack, 0, q.mid, nil, nil, nil), 1)) // an empty ACK is 4 bytes
		s.send(q.from, whole)
	})
	c := newClient(t, Options{})
	v := visitTo(s.uri())
	v.AckTimeout = 10 * time.Second
	out := fetch(t, c, v)
	if out.DatagramsSent != 1 {
		t.Errorf("%d datagrams sent", out.DatagramsSent)
	}
	if st := c.Stats(); st.Garbage+st.WrongToken+st.Overflow != 22 {
		t.Errorf("stats %+v", st)
	}
	described(t, out, links)
}

// TestStrangers: an answer from another port, a flood of requests and garbage
// from nowhere leave nothing behind and draw nothing.
func TestStrangers(t *testing.T) {
	c := newClient(t, Options{Sockets: 1})
	other := newSensor(t, nil)
	s := newSensor(t, func(s *sensor, q query) {
		forged := wire(ack, content, q.mid, q.token, []option{linkFormat}, []byte("forged"))
		other.send(q.from, forged)
	})
	v := visitTo(s.uri())
	v.Retrans = 1
	is(t, fetch(t, c, v), visit.Asleep, ReasonTimeout, false)
	if n := c.Stats().Strangers; n != 2 {
		t.Errorf("%d strangers", n)
	}
	to := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"),
		netip.MustParseAddrPort(c.v4[0].conn.LocalAddr().String()).Port())
	const burst, total = 500, 20_000
	for i := 0; i < total; i += burst {
		for j := range burst {
			path := []option{{11, []byte("x")}}
			other.send(to, wire(con, 1, uint16(i+j), []byte("12345678"), path, nil))
		}
		waitFor(t, func() bool {
			st := c.Stats()
			return st.Unasked+st.KernelDrops >= uint64(i+burst)
		})
	}
	if st := c.Stats(); st.Sent != 2 || st.Peers != 1 || len(other.received()) != 0 {
		t.Errorf("stats %+v, %d replies", st, len(other.received()))
	}
}

func TestStrangersCostNoAllocation(t *testing.T) {
	c := newClient(t, Options{})
	from := netip.MustParseAddrPort("192.0.2.1:5683")
	flood := wire(con, content, 1, []byte("12345678"), []option{linkFormat}, []byte(links))
	if n := testing.AllocsPerRun(100, func() { c.dispatch(c.v4[0], from, flood) }); n != 0 {
		t.Errorf("%v allocations per stranger", n)
	}
}
