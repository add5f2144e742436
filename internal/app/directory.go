package app

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/crawld/crawld/internal/directory"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/search"
	"github.com/crawld/crawld/internal/visit"
)

const (
	// maxLookupSensors bounds how many sensors one lookup reads, some 20 us each.
	maxLookupSensors = 50000
	// maxLookups bounds how many lookups read at once.
	maxLookups = 2
)

// rd is the resource directory with what the daemon keeps for it.
type rd struct {
	*directory.Registrations
	server  *directory.Server
	looking chan struct{} // a slot for each lookup that reads
	changed chan struct{} // told when an expiry may have come nearer

	mu      sync.Mutex
	waiting map[string][]chan error // who waits for the next visit to a sensor
}

// openDirectory opens the directory's sockets and reads its registrations.
func (a *App) openDirectory() error {
	c := a.o.Config.Directory
	if len(c.Listen) == 0 {
		return nil
	}
	regs, err := directory.LoadRegistrations(a.repo)
	if regs == nil {
		return err
	}
	if err != nil {
		a.o.Log.Error("some registrations are unreadable and are left out", zap.Error(err))
	}
	d := &rd{Registrations: regs, looking: make(chan struct{}, maxLookups),
		changed: make(chan struct{}, 1), waiting: map[string][]chan error{}}
	if _, _, err := d.Expire(context.Background(), time.Now()); err != nil {
		a.o.Log.Error("expired registrations stay until later", zap.Error(err))
	}
	d.server, err = directory.New(directory.Options{Listen: c.Listen, Networks: c.Networks,
		DefaultLifetime: c.DefaultLifetime, Log: a.o.Log, Metrics: a.registry,
		Register: a.registerEndpoint, Update: a.updateEndpoint, Remove: a.removeEndpoint,
		Announce: a.crawlEndpoint, Lookup: a.lookup})
	if err != nil {
		return fmt.Errorf("%w; is another server running, or choose another port", err)
	}
	a.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "crawld_directory_registrations", Help: "Registrations that hold."},
		func() float64 { return float64(d.Len()) }))
	a.rd = d
	a.defers("resource directory", d.server.Close)
	return nil
}

// DirectoryAddrs are the addresses of the resource directory; none if it is off.
func (a *App) DirectoryAddrs() []netip.AddrPort {
	if a.rd == nil {
		return nil
	}
	return a.rd.server.Addrs()
}

// serveDirectory answers and ends registrations with their lifetimes.
func (a *App) serveDirectory(ctx context.Context) error {
	var expiring sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer expiring.Wait()
	defer cancel()
	expiring.Go(func() { a.expire(ctx) })
	a.o.Log.Info("resource directory listens", zap.Stringers("addresses", a.DirectoryAddrs()),
		zap.Int("registrations", a.rd.Len()))
	if err := a.rd.server.Run(ctx); err != nil {
		return fmt.Errorf("resource directory: %w", err)
	}
	return nil
}

// expireRetry is when a removal that failed is tried again, and the longest wait between two
// looks at the clock.
const expireRetry = time.Minute

func (a *App) expire(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.rd.changed:
		case <-timer.C:
		}
		gone, next, err := a.rd.Expire(ctx, time.Now())
		if err == nil && gone > 0 {
			a.o.Log.Info("registrations ended with their lifetime", zap.Int("number", gone))
			err = a.rejoin(ctx)
		}
		if err != nil && ctx.Err() == nil {
			a.o.Log.Error("registrations not removed", zap.Error(err))
		}
		wait := expireRetry
		if err == nil && !next.IsZero() {
			wait = min(wait, max(time.Until(next), 0))
		}
		timer.Reset(wait)
	}
}

// joined is the one place where registered sensors come to the listed ones.
func (a *App) joined(listed *fleet.Fleet) (*fleet.Fleet, error) {
	if a.rd == nil {
		return listed, nil
	}
	return a.rd.Join(listed)
}

// rejoin puts the registrations that hold into force. Of several that come at once the first
// brings the others along.
func (a *App) rejoin(ctx context.Context) error {
	a.reload.Lock()
	defer a.reload.Unlock()
	all, err := a.joined(a.listed.Load())
	if err != nil {
		return err
	}
	d := fleet.Compare(a.fleet.Load(), all)
	if len(d.Added)+len(d.Removed)+len(d.Changed) == 0 {
		return nil
	}
	err = a.crawler.Do(ctx, func(p *planner.Planner, now time.Time) { p.Replace(all, now) })
	if err == nil {
		a.fleet.Store(all)
	}
	return err
}

// settle puts a change into force and has the next expiry looked up.
func (a *App) settle(ctx context.Context) error {
	select {
	case a.rd.changed <- struct{}{}:
	default:
	}
	return a.rejoin(ctx)
}

func (a *App) registerEndpoint(ctx context.Context, g directory.Registering) (uint64, error) {
	listed := a.listed.Load()
	reg, err := a.rd.Register(ctx, g, listed, time.Now())
	if err != nil {
		return 0, err
	}
	if err := a.settle(ctx); err != nil {
		return 0, err
	}
	bound := directory.Bind(reg, listed)
	a.o.Log.Info("endpoint registered", zap.String("sensor", bound.Sensor),
		zap.String("base", reg.Base), zap.Duration("lifetime", reg.Lifetime))
	if bound.Listed && !g.Simple {
		return reg.Number, a.heard(ctx, bound, true)
	}
	return reg.Number, nil
}

func (a *App) updateEndpoint(ctx context.Context, u directory.Updating) error {
	reg, err := a.rd.Update(ctx, u, time.Now())
	if err != nil {
		return err
	}
	if err := a.settle(ctx); err != nil {
		return err
	}
	return a.heard(ctx, directory.Bind(reg, a.listed.Load()), false)
}

func (a *App) removeEndpoint(ctx context.Context, number uint64, source netip.Addr) error {
	if err := a.rd.Remove(ctx, number, source, time.Now()); err != nil {
		return err
	}
	return a.settle(ctx)
}

// heard tells the planner that the endpoint's sensor is awake, and with crawl that it may be
// visited at once; where the rules forbid that it is not.
func (a *App) heard(ctx context.Context, bound directory.Bound, crawl bool) error {
	if bound.Shadowed || !bound.Own() {
		return nil // another one speaks for it
	}
	return a.crawler.Do(ctx, func(p *planner.Planner, now time.Time) {
		if crawl {
			_ = p.Announce(bound.Sensor, now)
		} else {
			p.Contact(bound.Sensor, now)
		}
	})
}

// crawlEndpoint has the sensor of a registration visited now, while it is awake, and waits
// for what comes of it. What the rules leave to a later visit is well if its description is
// known.
func (a *App) crawlEndpoint(ctx context.Context, number uint64) error {
	reg, ok := a.rd.Get(number)
	if !ok {
		return directory.ErrUnknown
	}
	sensor := directory.Bind(reg, a.listed.Load()).Sensor
	visited := a.rd.wait(sensor)
	defer a.rd.forget(sensor, visited)
	var refused error
	err := a.crawler.Do(ctx, func(p *planner.Planner, now time.Time) {
		refused = p.Announce(sensor, now)
	})
	if err != nil {
		return err
	}
	if refused != nil && !errors.Is(refused, planner.ErrUnderWay) {
		if _, known, err := a.repo.Latest(sensor); err != nil || known {
			return err
		}
		return fmt.Errorf("%w: %w", directory.ErrBusy, refused)
	}
	select {
	case err := <-visited:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: the visit goes on", directory.ErrBusy)
	}
}

// wait returns a channel that is told what becomes of the next visit to the sensor.
func (d *rd) wait(sensor string) chan error {
	visited := make(chan error, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting[sensor] = append(d.waiting[sensor], visited)
	return visited
}

func (d *rd) forget(sensor string, visited chan error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var others []chan error
	for _, c := range d.waiting[sensor] {
		if c != visited {
			others = append(others, c)
		}
	}
	if d.waiting[sensor] = others; len(others) == 0 {
		delete(d.waiting, sensor)
	}
}

// settled tells those who wait for the sensor; stored says whether its outcome is durable.
func (d *rd) settled(o visit.Outcome, stored error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := stored
	if err == nil && !o.Result.Success() {
		err = fmt.Errorf("%w: the visit ended as %s %s", directory.ErrBusy, o.Result, o.Reason)
	}
	for _, c := range d.waiting[o.Sensor] {
		c <- err
	}
	delete(d.waiting, o.Sensor)
}

// expires is when a registered sensor leaves; false for those that are listed.
func (a *App) expires(sensor string) (at time.Time, registered bool) {
	if a.rd == nil {
		return at, false
	}
	if _, listed := a.listed.Load().Find(sensor); listed {
		return at, false
	}
	reg, registered := a.rd.Sensor(sensor)
	return reg.Expires, registered
}

// lookup reads the newest descriptions of sensors, in the order of their ids: of those that
// the search index names where it can, else of all.
func (a *App) lookup(ctx context.Context, q directory.Query) ([]directory.Found, error) {
	select {
	case a.rd.looking <- struct{}{}:
		defer func() { <-a.rd.looking }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: other lookups run", directory.ErrBusy)
	}
	now, read := time.Now(), 0
	want := directory.MaxCount + 1
	if q.Count > 0 {
		want = q.Skip + q.Count
	}
	bound := a.rd.Bound(a.listed.Load())
	var found []directory.Found
	for s, err := range a.candidates(q, bound) {
		if err != nil {
			return nil, err
		}
		if len(found) >= want {
			break
		}
		if read++; read > maxLookupSensors || ctx.Err() != nil {
			return nil, fmt.Errorf("%w: more than %d sensors to look at", directory.ErrBusy,
				maxLookupSensors)
		}
		links, verified, err := a.described(s)
		if err != nil || verified.IsZero() {
			continue // logged there
		}
		for _, e := range directory.Endpoints(s, bound[s.ID], verified) {
			found = q.Match(found, &e, links, now)
		}
	}
	if q.Count == 0 && len(found) > directory.MaxCount {
		return nil, fmt.Errorf("%w: more than %d links, ask with page and count",
			directory.ErrTooMany, directory.MaxCount)
	}
	return found[min(q.Skip, len(found)):min(len(found), max(want, 0))], nil
}

// candidates are the sensors that a lookup has to read, in the order of their ids. What it
// asks of rt, if or ct is in the search index, unless an endpoint itself could meet it.
func (a *App) candidates(q directory.Query, bound map[string][]directory.Bound) iter.Seq2[*fleet.Sensor, error] {
	all := a.fleet.Load()
	for _, f := range q.Filters {
		if f.OfLinks(bound) {
			return a.indexed(all, search.Attr{Name: f.Name, Value: f.Value})
		}
	}
	return func(yield func(*fleet.Sensor, error) bool) {
		for _, s := range all.All() {
			if !yield(s, nil) {
				return
			}
		}
	}
}

// indexed are the sensors one of whose links has an attribute.
func (a *App) indexed(all *fleet.Fleet, attr search.Attr) iter.Seq2[*fleet.Sensor, error] {
	return func(yield func(*fleet.Sensor, error) bool) {
		last := ""
		for cursor := ""; ; {
			page, err := a.repo.Search(search.Query{Attrs: []search.Attr{attr}}, nil, cursor, 0)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, hit := range page.Hits {
				i, listed := all.Find(hit.Sensor)
				if hit.Sensor != last && listed && !yield(all.At(i), nil) {
					return
				}
				last = hit.Sensor
			}
			if cursor = page.Next; cursor == "" {
				return
			}
		}
	}
}

// described is a sensor's newest description; verified is zero if it has none.
func (a *App) described(s *fleet.Sensor) (links []linkformat.Link, verified time.Time, err error) {
	latest, ok, err := a.repo.Latest(s.ID)
	if err != nil || !ok {
		return nil, verified, a.unreadable(s, err)
	}
	body, err := a.repo.Body(latest.Hash)
	if err != nil {
		return nil, verified, a.unreadable(s, err)
	}
	return directory.ParseLinks(s, latest.Format, latest.Verdict, body), latest.Verified, nil
}

func (a *App) unreadable(s *fleet.Sensor, err error) error {
	if err != nil && !errors.Is(err, repository.ErrNotFound) {
		a.o.Log.Error("a description is left out of a lookup", zap.String("sensor", s.ID),
			zap.Error(err))
	}
	return err
}
