package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/figure"
)

// Discovery are the experiments of Zhao et al., "A Scalable and High-efficiency Discovery
// Service In IoT Using a New Storage Schema" (COMPSAC 2013), section IV: Discovery
// Services that hold the same events are timed in turns, a block of one after a block of
// the other, so that whatever else the machine does is shared by all.
type Discovery struct {
	Objects []int // how many articles are traced, ascending
	Clients []int // at a time, ascending
	Runs    int   // blocks of each contender in each setting, after one that does not count
	Block   time.Duration
	Seed    uint64 // of the data set and of what is asked

	Stores     []DiscoveryStore
	Tracers    []DiscoveryTracer
	Publishers []DiscoveryPublisher
	Notes      []string // what is to be said of the contenders

	Clock func() time.Time
	// Progress is told how many blocks of how many are done; nil if nobody looks.
	Progress func(done, total int)
}

// The contenders between which ratios are shown.
const (
	DiscoveryOurs      = "crawld"
	DiscoveryHTTP      = "crawld, HTTP"
	DiscoveryMode1     = "Mode 1"
	DiscoveryMode2     = "Mode 2"
	DiscoveryStatement = "Mode 2, one statement"
	DiscoveryChatty    = "Mode 2, a query a row"
	DiscoveryArrays    = "Mode 2, array INSERTs"
	DiscoveryRows      = "Mode 2, an INSERT a row"
)

// ErrTooSlow is wrapped by the error of a tracer that is to be asked no more.
var ErrTooSlow = errors.New("too slow")

// DiscoveryStore is where events are held.
type DiscoveryStore struct {
	Name string
	// Load brings events in; nil where another of the stores shares its tables.
	Load func(context.Context, []discovery.Record) error
	// Settle is called after loading; nil = there is nothing to be done.
	Settle func(context.Context) error
	Size   func(context.Context) (bytes int64, err error)
}

// DiscoveryTracer is a way to ask for a trace.
type DiscoveryTracer struct {
	Name  string
	Alone bool // never by several clients
	// Trace asks and takes the whole answer in. It is what is timed.
	Trace func(ctx context.Context, object string) error
	// Found is the answer to the same question.
	Found func(ctx context.Context, object string) ([]discovery.Traced, error)
}

// DiscoveryPublisher is a way to publish. What it acknowledges is durable.
type DiscoveryPublisher struct {
	Name    string
	Publish func(context.Context, discovery.Record) error
}

// discoveryRun is a comparison that is under way.
type discoveryRun struct {
	Discovery
	goods *Shipments
	done  int // of blocks

	times     curves // median trace in us, by objects
	sizes     curves // MB, by objects
	traces    curves // per second, by clients
	publishes curves // per second, by clients

	events            int                      // of the data set
	loading           map[string]time.Duration // by store
	shortest, longest int                      // trace, in events
	slow              map[string]int           // at how many objects a tracer was given up
}

// Run makes the figure: median time of a trace and size by objects, then, with all objects
// there, traces and publishes per second by clients. Contenders that do not find the same
// events are an error.
func (d Discovery) Run(ctx context.Context) (*figure.Figure, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	r := &discoveryRun{Discovery: d, goods: NewShipments(d.Seed),
		loading: map[string]time.Duration{}, slow: map[string]int{}}
	for _, n := range d.Objects {
		for _, step := range []func(context.Context, int) error{r.load, r.agree, r.trace, r.measure} {
			if err := step(ctx, n); err != nil {
				return nil, fmt.Errorf("%d objects: %w", n, err)
			}
		}
	}
	for _, experiment := range []func(context.Context, int) error{r.traceTogether, r.publish} {
		for _, clients := range d.Clients {
			if err := experiment(ctx, clients); err != nil {
				return nil, fmt.Errorf("%d clients: %w", clients, err)
			}
		}
	}
	return r.figure(), nil
}

func (d Discovery) check() error {
	before := 0
	for _, n := range d.Objects {
		if n <= before || !boxable(n-before) {
			return fmt.Errorf("sim: %d objects after %d: boxes of %d to %d cannot hold the difference",
				n, before, leastPerBox, mostPerBox)
		}
		before = n
	}
	switch {
	case before == 0 || len(d.Clients) == 0:
		return errors.New("sim: no objects, or no clients")
	case d.Runs < 1 || d.Block <= 0:
		return fmt.Errorf("sim: %d blocks of %v: must be positive", d.Runs, d.Block)
	case slices.Min(d.Clients) < 1:
		return fmt.Errorf("sim: %d clients: must be positive", slices.Min(d.Clients))
	}
	return nil
}

// blocks lets n contenders take turns, forth and back, Runs times after a first time that
// only warms up. The block of contender i tells what it measured.
func (r *discoveryRun) blocks(n int, block func(i, run int) (float64, error),
	add func(i int, value float64)) error {
	for run := range r.Runs + 1 {
		for k := range n {
			i := k
			if run%2 == 0 {
				i = n - 1 - k
			}
			value, err := block(i, run)
			if err != nil {
				return err
			}
			if run > 0 {
				add(i, value)
			}
			r.tell()
		}
	}
	return nil
}

// tell moves the progress on by one block.
func (r *discoveryRun) tell() {
	r.done++
	if r.Progress == nil {
		return
	}
	together := len(r.Publishers)
	for _, t := range r.Tracers {
		if !t.Alone {
			together++
		}
	}
	r.Progress(r.done,
		(r.Runs+1)*(len(r.Objects)*len(r.Tracers)+len(r.Clients)*together)+len(r.Objects))
}

// articles are what a block asks for: the same of all contenders.
func (r *discoveryRun) articles(block uint64) func() string {
	rng := rand.New(rand.NewPCG(r.Seed, block))
	return func() string { return Article(rng.IntN(r.goods.Articles())) }
}
