// Package crawler carries out what the planner decides. One loop owns the
// planner: it waits until each instant, starts visits within a bound on
// concurrency and pace, hands their outcomes back and to the store, and has the
// next range solved beside the loop. It decides nothing itself.
package crawler

import (
	"context"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/visit"
)

// Fetch makes one visit. It ends by the visit's deadline or when ctx does, and
// tells everything in the Outcome.
type Fetch func(ctx context.Context, v visit.Visit) visit.Outcome

// Store commits an outcome and the planner's record of its sensor in one
// transaction and calls done once that is durable, or with why it is not. It
// may block while its queue is full; done may run on any goroutine.
type Store func(o visit.Outcome, record []byte, done func(error))

// SaveRange commits the planner's record of a range and, if it has one, its
// plan.
type SaveRange func(start time.Time, fleetRecord, plan []byte) error

// Options are the crawler's parts. Fetch, Store, SaveRange and Log are needed.
type Options struct {
	Fetch     Fetch
	Store     Store
	SaveRange SaveRange
	Log       *zap.Logger
	Metrics   prometheus.Registerer // nil: none are kept

	Slots    int           // visits at once; 0 = 1024
	Capacity float64       // starts per second; 0 = no limit
	Workers  int           // that solve a range; 0 = 1
	Grace    time.Duration // running visits may go on that long at the end
	OnRange  func(RangeSummary)
	// Hold tells whether nothing new should be started, because it could not be kept. It
	// must be quick. nil: never.
	Hold func() bool
}

// RangeSummary is what became of one time range.
type RangeSummary struct {
	planner.FleetRecord
	End      time.Time
	Attempts int                  // visits that were started
	Manual   int                  // of them manual
	Results  map[visit.Result]int // by outcome, missed ones too
	Kinds    map[visit.Kind]int
}

// Spent is what counted against the budget: attempts that nobody asked for by hand.
func (s RangeSummary) Spent() int { return s.Attempts - s.Manual }

// ErrStopped is returned by Do when the loop has ended.
var ErrStopped = errors.New("crawler: the loop has ended")

// maxWait re-arms the timer at least every minute, so that a jump of the wall
// clock is noticed.
const maxWait = time.Minute

// holdFor is how long the loop waits before it asks Hold again.
const holdFor = time.Second

// maxJump is how far wall clock and monotonic clock may drift apart before that is an
// event.
const maxJump = time.Minute

// Crawler is the loop and what it shares with its visits.
type Crawler struct {
	o       Options
	p       *planner.Planner // owned by Run's goroutine
	limit   *rate.Limiter    // nil: starts are not paced
	metrics *metrics

	outcomes chan visit.Outcome
	solved   chan solution
	calls    chan func(time.Time)
	ready    chan struct{}
	stopped  chan struct{}

	running  int
	visits   sync.WaitGroup
	base     time.Time // wall and monotonic time that the planner's clock goes by
	current  planner.FleetRecord
	tally    RangeSummary
	plans    map[uint64][]byte // encoded, by version, until they run
	isReady  bool
	hasSaved bool
}

type solution struct {
	plan    *planner.Plan
	encoded []byte
	took    time.Duration
	err     error
}

// New makes a crawler that will own p once Run is called.
func New(p *planner.Planner, o Options) *Crawler {
	if o.Slots <= 0 {
		o.Slots = 1024
	}
	if o.Workers <= 0 {
		o.Workers = 1
	}
	c := &Crawler{o: o, p: p, base: time.Now(),
		outcomes: make(chan visit.Outcome, o.Slots), solved: make(chan solution, 1),
		calls: make(chan func(time.Time)), ready: make(chan struct{}),
		stopped: make(chan struct{}), plans: map[uint64][]byte{}}
	if o.Capacity > 0 {
		burst := int(math.Max(1, o.Capacity/50)) // 20 ms worth: a burst no socket buffer minds
		c.limit = rate.NewLimiter(rate.Limit(o.Capacity), burst)
	}
	c.metrics = newMetrics(o.Metrics, c)
	return c
}

// Ready is closed once the first plan runs.
func (c *Crawler) Ready() <-chan struct{} { return c.ready }

// Do runs f on the loop's goroutine, the only place where the planner may be
// asked. f must not block. The error is ctx's, or ErrStopped.
func (c *Crawler) Do(ctx context.Context, f func(p *planner.Planner, now time.Time)) error {
	done := make(chan struct{})
	call := func(now time.Time) {
		f(c.p, now)
		close(done)
	}
	select {
	case c.calls <- call:
	case <-c.stopped:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	<-done // the loop has taken the call and runs it at once
	return nil
}
