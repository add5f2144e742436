package coapclient

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/visit"
)

// lossy visits a sensor with a body of five blocks many times and returns the
// fraction of visits that brought the body. A body that is not the sensor's
// fails the test.
func lossy(t *testing.T, loss, dup float64, visits, retrans int) (success, datagrams float64) {
	t.Helper()
	body := bodyOf(5*64, 0)
	// Timers in the proportion of the defaults: the progress limit is five times
	// ACK_TIMEOUT.
	const ack = 20 * time.Millisecond
	c := newClient(t, Options{Limits: Limits{Progress: 5 * ack}})
	const workers = 20
	var good, sent, ideal atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		s := newSensor(t, func(s *sensor, q query) {
			s.part(q, body, 64, etag("e"), linkFormat)
		}, func(s *sensor) {
			s.loss, s.dup, s.rng = loss, dup, rand.New(rand.NewPCG(uint64(w), 7))
		})
		wg.Go(func() {
			for range visits / workers {
				v := visitTo(s.uri())
				v.AckTimeout, v.Retrans = ack, retrans
				out := fetch(t, c, v)
				s.mu.Lock()
				sent.Add(int64(out.DatagramsSent + s.out))
				s.out = 0
				s.mu.Unlock()
				ideal.Add(10)
				if !out.Result.Success() {
					continue
				}
				good.Add(1)
				if !bytes.Equal(out.Body, body) {
					t.Errorf("corrupt body: %q", out.Body)
				}
			}
		})
	}
	wg.Wait()
	return float64(good.Load()) / float64(visits), float64(sent.Load()) / float64(ideal.Load())
}

// TestLoss: every block is asked for again. With five transmissions a block
// fails with probability (1-(1-p)^2)^5.
func TestLoss(t *testing.T) {
	visits := 200
	if long() {
		visits = 1000
	}
	for _, x := range []struct{ loss, want float64 }{{.05, .999}, {.1, .99}, {.2, .95}, {.3, .8}} {
		t.Run(fmt.Sprint(x.loss), func(t *testing.T) {
			t.Parallel()
			got, _ := lossy(t, x.loss, 0, visits, 4)
			t.Logf("loss %.0f %%: %.2f %% of %d visits", 100*x.loss, 100*got, visits)
			slack := 3 * math.Sqrt(x.want*(1-x.want)/float64(visits)) // of a finite sample
			if got < x.want-slack {
				t.Errorf("success %.4f, want at least %v - %.4f", got, x.want, slack)
			}
		})
	}
	t.Run("without retransmission the same test fails", func(t *testing.T) {
		t.Parallel()
		if got, _ := lossy(t, .2, 0, visits, 0); got > .5 {
			t.Errorf("success %.4f: the network loses nothing", got)
		}
	})
}

// TestDuplicates: with half of all datagrams doubled, both ways, a visit takes
// at most 1.5 times the ideal number.
func TestDuplicates(t *testing.T) {
	got, packets := lossy(t, 0, .5, 100, 4)
	t.Logf("%.2f times the ideal number of datagrams", packets)
	if got < 1 || packets > 1.5 {
		t.Errorf("success %v, %.2f times the ideal", got, packets)
	}
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
