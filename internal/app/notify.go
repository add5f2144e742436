package app

import (
	"context"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/crawld/crawld/internal/coapclient"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/repository"
)

// announce tells the supervisor when the daemon is ready and keeps its watchdog
// fed, as long as the loop and the store answer.
func (a *App) announce(ctx context.Context) {
	select {
	case <-a.crawler.Ready():
	case <-ctx.Done():
		return
	}
	a.o.Log.Info("ready", zap.Stringer("http", a.Addr()), zap.String("data", a.o.Config.Data))
	a.o.Notify("READY=1\nSTATUS=first plan runs, serving " + a.scheme + "://" + a.Addr().String())
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		every = 2 * time.Minute // no watchdog: only STATUS
	}
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if status, err := a.Beat(ctx); err == nil {
			a.o.Notify("WATCHDOG=1\nSTATUS=" + status)
		}
	}
}

// Beat asks the loop and the store for a sign of life and returns a line of
// status.
func (a *App) Beat(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var st planner.Status
	err := a.crawler.Do(ctx, func(p *planner.Planner, now time.Time) { st = p.Status(now) })
	if err != nil {
		return "", err
	}
	if _, err := a.repo.Fleet(); err != nil {
		return "", err
	}
	status := fmt.Sprintf("%d sensors, %d of %d crawls used in this range", st.Sensors, st.Spent,
		st.Theta)
	if text := troubleText(a.repo.Troubles()); text != "" {
		status += "; " + text
	}
	return status, nil
}

// notifyReloading says RELOADING with the clock that Type=notify-reload wants.
func (a *App) notifyReloading() {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return
	}
	a.o.Notify(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", ts.Nano()/1000))
}

// registerParts exposes the counters of store and sockets.
func registerParts(reg prometheus.Registerer, repo *repository.Repository, c *coapclient.Client) {
	gauge := func(name, help string, f func() float64) {
		reg.MustRegister(prometheus.NewGaugeFunc(
			prometheus.GaugeOpts{Name: "crawld_" + name, Help: help}, f))
	}
	count := func(name, help string, f func() float64) {
		reg.MustRegister(prometheus.NewCounterFunc(
			prometheus.CounterOpts{Name: "crawld_" + name, Help: help}, f))
	}
	gauge("store_size_bytes", "Size of the database file.",
		func() float64 { return float64(repo.Stats().FileBytes) })
	registerTroubles(reg, repo)
	gauge("store_disk_free_bytes", "Free on the disk of the database file; 0 if not known.",
		func() float64 { return float64(repo.Space().Free) })
	gauge("store_quarantined_bodies", "Bodies found damaged that have not been fetched again.",
		func() float64 { return float64(repo.Stats().Quarantined) })
	count("store_commits_total", "Transactions committed.",
		func() float64 { return float64(repo.Stats().Commits) })
	count("store_writes_total", "Outcomes committed, many in one transaction.",
		func() float64 { return float64(repo.Stats().Writes) })
	count("store_hash_mismatches_total", "Bodies found damaged when read; never served.",
		func() float64 { return float64(repo.Stats().HashMismatches) })
	count("datagrams_stranger_total", "Datagrams from addresses that were not asked.",
		func() float64 { return float64(c.Stats().Strangers) })
	count("datagrams_garbage_total", "Datagrams that are no CoAP message.",
		func() float64 { return float64(c.Stats().Garbage) })
	count("requests_unasked_total", "Requests sent to the crawl sockets; never answered.",
		func() float64 { return float64(c.Stats().Unasked) })
	count("handshakes_total", "DTLS and TLS handshakes begun with secure sensors.",
		func() float64 { return float64(c.Stats().Handshakes) })
	count("handshakes_denied_total", "Of them, those that ended for want of trust: wrong key, "+
		"identity or certificate.", func() float64 { return float64(c.Stats().Denied) })
	count("associations_resumed_total", "Visits to secure sensors under a Connection ID, without a "+
		"handshake.", func() float64 { return float64(c.Stats().Resumed) })
}
