package coapclient

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/testbed"
	"github.com/crawld/crawld/internal/visit"
)

// sky is a network and what a client must make of it.
type sky struct {
	name string
	air  testbed.Air // in both directions
	want float64     // share of visits that bring the body
}

// lossFigures are what a body of five blocks must survive.
var lossFigures = []sky{
	{"loss 5 %", testbed.Air{Loss: .05}, .999},
	{"loss 10 %", testbed.Air{Loss: .1}, .99},
	{"loss 20 %", testbed.Air{Loss: .2}, .95},
	{"loss 30 %", testbed.Air{Loss: .3}, .8},
}

// skies are the other networks. Times are in the scale of lossAck: a spike of 50 ms
// stands for one of 5 s.
var skies = []sky{
	{"clear", testbed.Air{}, 1},
	{"loss 50 %", testbed.Air{Loss: .5}, 0.1},
	{"duplicates", testbed.Air{Duplicate: .5}, 1},
	{"reordered", testbed.Air{Reorder: .5}, 1},
	{"spikes", testbed.Air{Spike: .2, SpikeDelay: 50 * time.Millisecond}, .999},
	{"everything", testbed.Air{Loss: .1, Duplicate: .2, Reorder: .2, Spike: .1,
		SpikeDelay: 50 * time.Millisecond}, .97},
}

// lossAck is ACK_TIMEOUT of these tests: a hundredth of the default.
const lossAck = 20 * time.Millisecond

const lossBlocks = 5

// tally is what became of visits through a sky.
type tally struct {
	visits, good, corrupt, repeated int
	sent, received                  int // datagrams that left the client, and the sensor
}

// lossy visits a sensor with a body of five blocks many times, by clients that share
// a Client and have a network each.
func lossy(t *testing.T, air testbed.Air, visits, retrans int) (sum tally) {
	t.Helper()
	body := bodyOf(lossBlocks*64, 0)
	// The progress limit is five times ACK_TIMEOUT, as by default.
	c := newClient(t, Options{Limits: Limits{Progress: 5 * lossAck}})
	const workers = 20
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range workers {
		s := newSensor(t, func(s *sensor, q query) { s.part(q, body, 64, etag("e"), linkFormat) })
		network, err := testbed.NewProxy(uint64(w), s.conn.LocalAddr().(*net.UDPAddr).AddrPort(),
			air, air)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			var own tally
			for range visits / workers {
				v := visitTo("coap://" + network.Addr().String() + "/.well-known/core")
				v.AckTimeout, v.Retrans = lossAck, retrans
				own.add(fetch(t, c, v), body)
			}
			if err := network.Close(); err != nil {
				t.Error(err)
			}
			_, down := network.Counts()
			mu.Lock()
			defer mu.Unlock()
			sum.visits += own.visits
			sum.good += own.good
			sum.corrupt += own.corrupt
			sum.repeated += own.repeated
			sum.sent += own.sent
			sum.received += down.In
		})
	}
	wg.Wait()
	return sum
}

func (n *tally) add(out visit.Outcome, body []byte) {
	n.visits++
	n.sent += out.DatagramsSent
	if !out.Result.Success() {
		return
	}
	n.good++
	if !bytes.Equal(out.Body, body) {
		n.corrupt++
	}
	if out.Blocks != lossBlocks { // a duplicate was taken for a new block
		n.repeated++
	}
}

// ideal is how many datagrams both sides send per visit if each request is repeated
// until its answer comes, and never otherwise.
func ideal(air testbed.Air) float64 {
	through := 1 - air.Loss
	requests := 1 / (through * through)
	answers := requests * through * (1 + air.Duplicate) // one to each copy
	return lossBlocks * (requests + answers)
}

// faults are what a tally shows against the figures of its sky.
func (n tally) faults(x sky) (all []string) {
	success := float64(n.good) / float64(n.visits)
	slack := 3 * math.Sqrt(x.want*(1-x.want)/float64(n.visits)) // of a finite sample
	if success < x.want-slack {
		all = append(all, fmt.Sprintf("success %.4f, want %v - %.4f", success, x.want, slack))
	}
	if cost := n.cost(x.air); cost > 1.5 {
		all = append(all, fmt.Sprintf("%.2f times the ideal number of datagrams", cost))
	}
	if n.corrupt+n.repeated > 0 {
		all = append(all, fmt.Sprintf("%d corrupt bodies, %d with a block twice", n.corrupt,
			n.repeated))
	}
	return all
}

// cost is the number of datagrams, 1 = ideal.
func (n tally) cost(air testbed.Air) float64 {
	return float64(n.sent+n.received) / float64(n.visits) / ideal(air)
}

// TestLoss: every block is asked for again. With five transmissions a block
// fails with probability (1-(1-p)^2)^5. Nothing else that a network does to
// datagrams changes a body, or doubles a part of it.
func TestLoss(t *testing.T) {
	visits := 200
	if long() {
		visits = 1000
	}
	for _, x := range append(lossFigures, skies...) {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			visits := visits
			if x.air.Loss > .4 {
				visits /= 4 // each takes as long as four others
			}
			n := lossy(t, x.air, visits, 4)
			t.Logf("%.2f %% of %d visits, %.2f times the ideal %.1f datagrams",
				100*float64(n.good)/float64(n.visits), n.visits, n.cost(x.air), ideal(x.air))
			for _, fault := range n.faults(x) {
				t.Error(fault)
			}
		})
	}
	t.Run("without retransmission the same test fails", func(t *testing.T) {
		t.Parallel()
		x := lossFigures[2]
		if n := lossy(t, x.air, visits, 0); len(n.faults(x)) == 0 {
			t.Errorf("%+v: the network loses nothing", n)
		}
	})
}

// TestIdleCostsNothing: after EXCHANGE_LIFETIME a sensor leaves no entry in any
// table, and no goroutine at any time.
func TestIdleCostsNothing(t *testing.T) {
	c := newClient(t, Options{Limits: Limits{PerHost: 1000, PerSubnet: 1000}})
	sensors := make([]*sensor, 50)
	for i := range sensors {
		sensors[i] = newSensor(t, answerLinks)
	}
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for _, s := range sensors {
		wg.Go(func() {
			for range 20 {
				v := visitTo(s.uri())
				v.AckTimeout = time.Second
				described(t, fetch(t, c, v), links)
			}
		})
	}
	wg.Wait()
	waitFor(t, func() bool { return runtime.NumGoroutine() <= before })
	last := time.Now()
	c.sweep(last.Add((exchangeLifetime - 1) * time.Second))
	if n := c.Stats().Peers; n != len(sensors) {
		t.Errorf("%d peers remembered, want %d", n, len(sensors))
	}
	c.sweep(last.Add((exchangeLifetime + 2) * time.Second))
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.peers) + len(c.active) + len(c.names) +
		len(c.sensors.seats) + len(c.hosts.seats) + len(c.subnets.seats)
	if n != 0 || c.peak != 0 || c.sweeper != nil {
		t.Errorf("%d entries left, peak %d, sweeper %v", n, c.peak, c.sweeper)
	}
}

// TestOneExchangePerSensor: NSTART = 1, and the bounds per host and subnet.
func TestOneExchangePerSensor(t *testing.T) {
	var now, most atomic.Int64
	answer := func(s *sensor, q query) {
		for n := now.Add(1); n > most.Load(); {
			most.Store(n)
		}
		now.Add(-1)
		s.piggyback(q, content, []byte(links), linkFormat)
	}
	s := newSensor(t, answer)
	c := newClient(t, Options{Limits: Limits{PerHost: 2}})
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() { described(t, fetch(t, c, visitTo(s.uri())), links) })
	}
	for range 10 {
		other := newSensor(t, answer)
		wg.Go(func() {
			out := fetch(t, c, visitTo(other.uri()))
			described(t, out, links)
			if n := c.Stats().Active; n > 2 {
				t.Errorf("%d visits at once to one host", n)
			}
		})
	}
	wg.Wait()

	quiet := newSensor(t, func(*sensor, query) {})
	slow, v := visitTo(quiet.uri()), visitTo(quiet.uri())
	slow.AckTimeout, slow.Deadline = time.Second, time.Now().Add(200*time.Millisecond)
	v.Deadline = time.Now().Add(20 * time.Millisecond)
	var first visit.Outcome
	wg.Go(func() { first = fetch(t, c, slow) })
	waitFor(t, func() bool { return c.Stats().Active == 1 })
	out := fetch(t, c, v)
	is(t, out, visit.Missed, ReasonDeadline, false)
	wg.Wait()
	is(t, first, visit.Asleep, ReasonDeadline, false)
	if n := len(quiet.received()); n != 1 {
		t.Errorf("the sensor was asked %d times", n)
	}
}
