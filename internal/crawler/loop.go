package crawler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/visit"
)

// Run is the loop. It returns when ctx ends and every visit that had been
// started has been observed and handed to the store.
func (c *Crawler) Run(ctx context.Context) error {
	defer close(c.stopped)
	fetching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now, wake := c.turn(fetching)
		timer.Reset(min(max(wake.Sub(now), 0), maxWait))
		select {
		case <-ctx.Done():
			return c.drain(cancel)
		case <-timer.C:
		case o := <-c.outcomes:
			c.observe(o)
		case s := <-c.solved:
			c.adopt(s)
		case call := <-c.calls:
			call(wall(c.read()))
		}
	}
}

// wall is the wall clock alone: plans hold wall clock time, and a reading that
// carries the monotonic clock would hide a jump from every comparison.
func wall(read time.Time) time.Time { return read.Round(0).UTC() }

// turn does all that is due and tells when the next turn is.
func (c *Crawler) turn(ctx context.Context) (now, wake time.Time) {
	read := c.read()
	now = wall(read)
	if snap, ok := c.p.Problem(now); ok {
		go c.solve(snap)
	}
	c.checkRange(now) // Problem may have begun a range: what starts now belongs to it
	for {
		if c.o.Hold != nil && c.o.Hold() {
			wake = now.Add(holdFor)
			break
		}
		if c.running >= c.o.Slots {
			wake = now.Add(maxWait) // the next outcome wakes the loop
			break
		}
		if pause := c.pause(read); pause > 0 {
			wake = now.Add(pause)
			break
		}
		v, ok, next := c.p.Next(now)
		if !ok {
			wake = next
			break
		}
		c.start(ctx, v, read)
	}
	return now, wake
}

// pause is how long the pace asks to wait before the next start. Looking costs
// nothing: only a visit that starts takes a token.
func (c *Crawler) pause(read time.Time) time.Duration {
	if c.limit == nil {
		return 0
	}
	missing := 1 - c.limit.TokensAt(read)
	return time.Duration(missing / c.o.Capacity * float64(time.Second))
}

// read reads the clocks and lets the planner follow a wall clock that has jumped, before
// it is asked or told anything by the new one. Small steps add up to a jump.
func (c *Crawler) read() time.Time {
	read := time.Now()
	by := wall(read).Sub(wall(c.base)) - read.Sub(c.base)
	if by <= maxJump && by >= -maxJump {
		return read
	}
	c.o.Log.Warn("wall clock jumped, plan rebuilt", zap.Duration("by", by))
	c.metrics.jumps.Inc()
	c.base = read
	c.p.Jump(by, wall(read))
	c.current.Range = c.p.Running().Range // moved with the clock, but still the same one
	c.hasSaved = false
	return read
}

// present tells an instant that was read earlier by the wall clock as it is set now.
func present(t, read time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return wall(read).Add(-read.Sub(t))
}

func (c *Crawler) solve(snap *planner.Snapshot) {
	began := time.Now()
	var s solution
	s.plan, s.err = snap.Solve(c.o.Workers)
	if errors.Is(s.err, scheduler.ErrBudget) {
		c.o.Log.Error("the end rule fixed needs a larger budget, this range is planned with carry",
			zap.Error(s.err))
		s.plan, s.err = snap.Carry().Solve(c.o.Workers)
	}
	if s.err == nil {
		s.encoded, s.err = s.plan.Encode()
	}
	s.took = time.Since(began)
	select {
	case c.solved <- s:
	case <-c.stopped:
	}
}

func (c *Crawler) adopt(s solution) {
	c.metrics.planDuration.Observe(s.took.Seconds())
	if s.err != nil {
		c.metrics.planFailures.Inc()
		c.o.Log.Error("no plan for the range, the old prices stay", zap.Error(s.err))
		return
	}
	now := wall(c.read())
	c.plans[s.plan.Version()] = s.encoded
	c.p.Adopt(s.plan, now)
	c.checkRange(now)
}

// start makes a visit on a goroutine of its own, unless it comes too late.
func (c *Crawler) start(ctx context.Context, v visit.Visit, read time.Time) {
	now := wall(read)
	if !v.Deadline.After(now) {
		c.settle(planner.Missed(v, now), now)
		return
	}
	if c.limit != nil {
		c.limit.AllowN(read, 1)
	}
	c.running++
	c.tally.Attempts++
	if v.Kind == visit.Manual {
		c.tally.Manual++
	}
	c.visits.Go(func() { c.outcomes <- c.o.Fetch(ctx, v) })
	c.metrics.started(v, now)
}

// observe takes the outcome of a visit that was started.
func (c *Crawler) observe(o visit.Outcome) {
	c.running--
	read := c.read()
	o.Started, o.Ended = present(o.Started, read), present(o.Ended, read)
	c.settle(o, wall(read))
}

// settle hands an outcome to the planner and, with the record it gives back, to
// the store. What cannot be stored is observed again as failed.
func (c *Crawler) settle(o visit.Outcome, now time.Time) {
	before := c.p.Record(o.Sensor)
	if before != nil {
		c.metrics.observed(o, before.Source)
	}
	c.tally.count(o)
	record := c.p.Observe(o, now)
	if record == nil {
		return // the sensor has left the fleet meanwhile
	}
	c.o.Log.Debug("visit", zap.String("sensor", o.Sensor), zap.Stringer("kind", o.Kind),
		zap.Stringer("outcome", o.Result), zap.String("reason", o.Reason),
		zap.Duration("took", o.Took()), zap.Time("at", o.At), zap.String("why", o.Why))
	c.o.Store(o, record.Encode(), func(err error) {
		if err == nil {
			return
		}
		c.metrics.storeFailures.Inc()
		c.o.Log.Error("outcome not stored", zap.String("sensor", o.Sensor), zap.Error(err))
		if o.Result.Success() {
			c.unstored(o, err)
		}
	})
}

// unstored takes a success back on the loop. It must not wait for the loop: the
// loop may be waiting for the store.
func (c *Crawler) unstored(o visit.Outcome, err error) {
	o.Result, o.Reason, o.Error = visit.Failed, planner.NotStored, err.Error()
	go func() {
		select {
		case c.calls <- func(now time.Time) { c.p.Observe(o, now) }:
		case <-c.stopped:
		}
	}()
}

func (t *RangeSummary) count(o visit.Outcome) {
	if t.Results == nil {
		t.Results, t.Kinds = map[visit.Result]int{}, map[visit.Kind]int{}
	}
	t.Results[o.Result]++
	t.Kinds[o.Kind]++
}

// checkRange notices that a range has begun or a plan has been adopted: both
// are saved, and the range before is summed up.
func (c *Crawler) checkRange(now time.Time) {
	rec := c.p.Running()
	same := rec.Range.Equal(c.current.Range)
	if same && rec.Version == c.current.Version && c.hasSaved {
		return
	}
	if !same && !c.current.Range.IsZero() {
		c.finishRange(rec.Range)
	}
	c.current = rec
	c.hasSaved = true
	if err := c.o.SaveRange(rec.Range, c.p.FleetRecord(), c.plans[rec.Version]); err != nil {
		c.o.Log.Error("plan not saved, a restart would plan anew", zap.Error(err))
	}
	for version := range c.plans {
		if version <= rec.Version {
			delete(c.plans, version)
		}
	}
	if rec.Version > 0 {
		c.metrics.planned(now)
	}
	if rec.Version > 0 && !c.isReady {
		c.isReady = true
		close(c.ready)
	}
}

func (c *Crawler) finishRange(end time.Time) {
	t := c.tally
	t.FleetRecord, t.End = c.current, end
	c.tally = RangeSummary{}
	fields := []zap.Field{zap.Time("start", t.Range), zap.Int("budget", t.Theta),
		zap.Int("planned", t.Planned), zap.Int("attempts", t.Attempts),
		zap.Float64("price", t.Price), zap.Float64("expected_latency_seconds", t.Expected)}
	for _, r := range visit.Results() {
		fields = append(fields, zap.Int(r.String(), t.Results[r]))
	}
	c.o.Log.Info("range ended", fields...)
	if c.o.OnRange != nil {
		c.o.OnRange(t)
	}
}

// drain ends the loop: nothing new is started, running visits get the grace
// period, then are cut off; all of them are observed and stored.
func (c *Crawler) drain(cancel context.CancelFunc) error {
	grace := time.AfterFunc(c.o.Grace, cancel)
	defer grace.Stop()
	for c.running > 0 {
		select {
		case o := <-c.outcomes:
			c.observe(o)
		case call := <-c.calls:
			call(wall(c.read()))
		}
	}
	c.visits.Wait()
	rec := c.p.Running()
	if err := c.o.SaveRange(rec.Range, c.p.FleetRecord(), nil); err != nil {
		return fmt.Errorf("range not saved: %w", err)
	}
	return nil
}
