package coapclient

import (
	"net/netip"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/crawld/crawld/internal/visit"
)

// TestMessageIDs holds the two-halves rule against a table of when each of the
// 65536 Message IDs was last used.
func TestMessageIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := peer{next: rapid.Uint16().Draw(t, "first")}
		now := uint32(epochLead / time.Second)
		used := map[uint16]uint32{}
		for range rapid.IntRange(1, 12).Draw(t, "bursts") {
			for range rapid.IntRange(1, 20000).Draw(t, "burst") {
				mid, ok := p.take(now)
				if !ok {
					break
				}
				if last, seen := used[mid]; seen && now-last <= exchangeLifetime {
					t.Fatalf("Message ID %d again after %d s", mid, now-last)
				}
				used[mid] = now
			}
			now += uint32(rapid.IntRange(0, 300).Draw(t, "pause"))
		}
		if now += exchangeLifetime + 1; len(used) > 0 {
			if _, ok := p.take(now); !ok {
				t.Fatal("no Message ID although all have expired")
			}
		}
	})
}

func TestMessageIDsRunOut(t *testing.T) {
	s := newSensor(t, answerLinks)
	c := newClient(t, Options{})
	described(t, fetch(t, c, visitTo(s.uri())), links)
	addr := netip.MustParseAddrPort(s.conn.LocalAddr().String())
	c.mu.Lock()
	p := c.peers[addr]
	p.next, p.left[1] = 0x8000, c.second(time.Now())
	c.peers[addr] = p
	c.mu.Unlock()
	is(t, fetch(t, c, visitTo(s.uri())), visit.Failed, ReasonLimit, false)
}

// TestGate drives the gate with random takes, gives and abandonments against a
// plain count.
func TestGate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const limit = 3
		g := newGate[int](limit)
		inside, waiting := [2]int{}, [2][]chan struct{}{}
		granted := func(turn chan struct{}) bool {
			select {
			case <-turn:
				return true
			default:
				return false
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				k := rapid.IntRange(0, 1).Draw(t, "key")
				if turn := g.take(k); turn == nil {
					inside[k]++
				} else {
					waiting[k] = append(waiting[k], turn)
				}
			},
			"give": func(t *rapid.T) {
				k := rapid.IntRange(0, 1).Draw(t, "key")
				if inside[k] == 0 {
					t.Skip()
				}
				g.give(k)
				inside[k]--
				if len(waiting[k]) > 0 { // first come, first served
					if !granted(waiting[k][0]) {
						t.Fatal("the longest waiting visit was passed over")
					}
					waiting[k] = waiting[k][1:]
					inside[k]++
				}
			},
			"abandon": func(t *rapid.T) {
				k := rapid.IntRange(0, 1).Draw(t, "key")
				if len(waiting[k]) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(waiting[k])-1).Draw(t, "i")
				g.abandon(k, waiting[k][i])
				waiting[k] = append(waiting[k][:i:i], waiting[k][i+1:]...)
			},
			"": func(t *rapid.T) {
				for k := range 2 {
					s, ok := g.seats[k]
					if s.used != inside[k] || s.used > limit || ok != (inside[k] > 0) {
						t.Fatalf("key %d: %d inside by the gate, %d in truth", k, s.used, inside[k])
					}
					if len(waiting[k]) > 0 && inside[k] < limit {
						t.Fatal("a visit waits before a free seat")
					}
				}
			},
		})
	})
}

func TestAbandonAfterGrant(t *testing.T) {
	g := newGate[int](1)
	if g.take(1) != nil {
		t.Fatal("the first seat was not free")
	}
	turn := g.take(1)
	g.give(1)          // passes the seat to turn
	g.abandon(1, turn) // which gave up at the same instant
	if len(g.seats) != 0 {
		t.Errorf("the seat is lost: %v", g.seats)
	}
}

func TestSubnets(t *testing.T) {
	for addr, want := range map[string]string{
		"192.0.2.77": "192.0.2.0/24", "2001:db8:1:2:3::4": "2001:db8:1:2::/64",
		"fe80::1%eth0": "fe80::/64",
	} {
		if got := subnetOf(netip.MustParseAddr(addr)).String(); got != want {
			t.Errorf("subnet of %s is %s, want %s", addr, got, want)
		}
	}
}
