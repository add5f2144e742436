package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/visit"
)

const (
	// tendEvery is how often the store is looked after: what is wrong is told, and
	// crawling goes on again, within two of them.
	tendEvery = 2 * time.Second
	// mendAgain is how long after the store was mended it must hold out: a disk that
	// fails twice in that time is left to people.
	mendAgain = time.Hour
)

// tend looks after the store until ctx ends. Its error is that of a store that cannot
// be written to any more; ending the daemon is all that is left.
func (a *App) tend(ctx context.Context) error {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	var mended time.Time
	var told []repository.Trouble
	for broken := false; ; broken = a.repo.Stats().Broken {
		a.repo.Survey(ctx)
		told = a.tellTroubles(told)
		if broken { // since before the last tick: a hiccup of the disk has had time to pass
			if err := a.mend(ctx, mended); err != nil {
				return err
			}
			mended = time.Now()
			told = a.tellTroubles(told)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// mend has the data file closed, verified and opened again.
func (a *App) mend(ctx context.Context, before time.Time) error {
	if !before.IsZero() && time.Since(before) < mendAgain {
		return fmt.Errorf("data file %s: %w; it was mended %v ago already, look at its disk",
			a.o.Config.Data, repository.ErrBroken, time.Since(before).Round(time.Second))
	}
	began := time.Now()
	err := a.repo.Reopen(ctx)
	if ctx.Err() != nil {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w; the daemon ends: look at the disk, then crawld db check", err)
	}
	a.o.Log.Warn("data file reopened and verified, writes go on",
		zap.Duration("took", time.Since(began)))
	return nil
}

// tellTroubles logs what has come and gone, and has the supervisor show it.
func (a *App) tellTroubles(before []repository.Trouble) []repository.Trouble {
	now := a.repo.Troubles()
	reason := func(list []repository.Trouble, reason string) bool {
		return slices.ContainsFunc(list, func(t repository.Trouble) bool { return t.Reason == reason })
	}
	changed := false
	for _, t := range now {
		if reason(before, t.Reason) {
			continue
		}
		changed = true
		tell := a.o.Log.Error
		if t.Reason == repository.TroubleLow {
			tell = a.o.Log.Warn
		}
		tell("degraded", zap.String("reason", t.Reason), zap.String("why", t.Text))
	}
	for _, t := range before {
		if !reason(now, t.Reason) {
			changed = true
			a.o.Log.Info("no longer degraded", zap.String("reason", t.Reason))
		}
	}
	switch text := troubleText(now); {
	case changed && text != "":
		a.o.Notify("STATUS=" + text)
	case changed:
		a.o.Notify("STATUS=all is well again")
	}
	return now
}

// troubleText is troubles in one line, "" if there are none.
func troubleText(list []repository.Trouble) string {
	var texts []string
	for _, t := range list {
		texts = append(texts, t.Text)
	}
	return strings.Join(texts, "; ")
}

// fetch makes a visit. One to a sensor whose stored body is damaged brings the body,
// whatever its ETag says.
func (a *App) fetch(ctx context.Context, v visit.Visit) visit.Outcome {
	if v.Known != "" && a.repo.Damaged(v.Known) {
		v.Full = true
	}
	return a.client.Fetch(ctx, v)
}

// registerTroubles exposes what Troubles tells as a gauge of each reason.
func registerTroubles(reg prometheus.Registerer, repo *repository.Repository) {
	for _, reason := range repository.Reasons() {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "crawld_store_degraded",
			Help:        "1 if the store is degraded, by reason; all but low stop something.",
			ConstLabels: prometheus.Labels{"reason": reason}}, func() float64 {
			for _, t := range repo.Troubles() {
				if t.Reason == reason {
					return 1
				}
			}
			return 0
		}))
	}
}
