package app

import (
	"math/rand/v2"
	"net"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// plain is connections as one would write it down: a list of who has been idle and one of who
// has been busy, in order, and the rule who goes.
type plain struct {
	most          int
	waiting, busy []int
}

// add returns who had to go, or -1.
func (p *plain) add(n int) int {
	p.waiting = append(p.waiting, n)
	switch {
	case len(p.waiting)+len(p.busy) <= p.most:
		return -1
	case p.waiting[0] != n:
		return p.remove(p.waiting[0])
	case len(p.busy) > 0:
		return p.remove(p.busy[0])
	}
	return -1
}

func (p *plain) remove(n int) int {
	same := func(m int) bool { return m == n }
	p.waiting, p.busy = slices.DeleteFunc(p.waiting, same), slices.DeleteFunc(p.busy, same)
	return n
}

// move puts n at the end of a list.
func (p *plain) move(n int, to *[]int) {
	p.remove(n)
	*to = append(*to, n)
}

// closing is a connection that only knows whether it is closed.
type closing struct {
	net.Conn
	closed bool
}

func (c *closing) Close() error {
	c.closed = true
	return nil
}

// disagreement runs connections beside a twin and returns the step at which they differ, or -1.
func disagreement(r *rand.Rand, steps int, add func(*plain, int) int) (at, evictions int) {
	most := 1 + r.IntN(6)
	all := newConnections(most, prometheus.NewCounter(prometheus.CounterOpts{Name: "x"}))
	defer all.close()
	twin := &plain{most: most}
	var conns []*closing
	var wrapped []*connection
	closed := map[int]bool{}
	for step := range steps {
		if len(conns) == 0 || r.IntN(3) == 0 {
			conns = append(conns, &closing{})
			wrapped = append(wrapped, all.add(conns[len(conns)-1]).(*connection))
			if gone := add(twin, len(conns)-1); gone >= 0 {
				closed[gone] = true
				evictions++
			}
		}
		n := r.IntN(len(conns))
		switch c := wrapped[n]; {
		case r.IntN(4) == 0:
			_ = c.Close()
			closed[twin.remove(n)] = true
		case r.IntN(2) == 0:
			c.request(1)
			if !closed[n] && c.requests == 1 {
				twin.move(n, &twin.busy)
			}
		case c.requests > 0:
			c.request(-1)
			if !closed[n] && c.requests == 0 {
				twin.move(n, &twin.waiting)
			}
		}
		for i, c := range conns {
			if c.closed != closed[i] {
				return step, evictions
			}
		}
		if all.waiting.Len() != len(twin.waiting) || all.busy.Len() != len(twin.busy) {
			return step, evictions
		}
	}
	return -1, evictions
}

func TestConnectionsMakeRoomForEachOther(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	evictions, caught := 0, 0
	for round := range 500 {
		at, gone := disagreement(r, 60, (*plain).add)
		if evictions += gone; at >= 0 {
			t.Fatalf("round %d: not as written down, at step %d", round, at)
		}
		// Control: a rule that lets the newest go.
		if at, _ := disagreement(r, 60, func(p *plain, n int) int {
			if p.waiting = append(p.waiting, n); len(p.waiting)+len(p.busy) > p.most {
				return p.remove(n)
			}
			return -1
		}); at >= 0 {
			caught++
		}
	}
	if evictions < 1000 || caught < 250 {
		t.Errorf("%d connections had to go, %d of 500 wrong rules were caught", evictions, caught)
	}
}
