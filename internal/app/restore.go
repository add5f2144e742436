package app

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/visit"
)

// restore reads what the planner knew. A record that cannot be read costs its
// sensor the history, never the daemon its start.
func (a *App) restore(now time.Time) (planner.Saved, error) {
	saved := planner.Saved{Sensors: map[string][]byte{}}
	var err error
	if saved.Fleet, err = a.repo.Fleet(); err != nil {
		return saved, err
	}
	if _, saved.Plan, _, err = a.repo.Plan(); err != nil {
		return saved, err
	}
	err = a.repo.States(func(sensor string, record []byte) error {
		if len(record) == 0 {
			return nil
		}
		if err := planner.CheckRecord(record); err != nil {
			a.o.Log.Error("state of a sensor is unreadable, it starts anew",
				zap.String("sensor", sensor), zap.Error(err))
			return nil
		}
		saved.Sensors[sensor] = record
		return nil
	})
	if err != nil {
		return saved, err
	}
	if len(saved.Fleet) > 0 {
		a.o.Log.Info("resuming", zap.Int("sensors", len(saved.Sensors)), zap.Time("now", now))
	}
	return saved, nil
}

// tellIndex says what opening the database did to the index of searches.
func (a *App) tellIndex() {
	n, err := a.repo.Indexed()
	if err != nil {
		a.o.Log.Error("descriptions are not indexed, searches are slow until a restart can do it",
			zap.Int("indexed", n), zap.Error(err))
	} else if n > 0 {
		a.o.Log.Info("indexed for search", zap.Int("descriptions", n))
	}
}

func (a *App) store(o visit.Outcome, record []byte, done func(error)) {
	a.repo.StoreAsync(repository.Write{Outcome: o, Record: record}, func(err error) {
		if err == nil {
			a.groups.visited(o)
		}
		if a.rd != nil {
			a.rd.settled(o, err)
		}
		if err == nil && o.Result == visit.Described {
			a.o.Log.Debug("stored", zap.String("sensor", o.Sensor), zap.String("hash", o.Hash))
		}
		done(err)
	})
}

// saveRange commits the range's record and plan together.
func (a *App) saveRange(start time.Time, fleetRecord, plan []byte) error {
	var row *repository.PlanRow
	if plan != nil {
		row = &repository.PlanRow{Start: start, Plan: plan}
	}
	return a.repo.Save(context.Background(), fleetRecord, row, nil)
}
