package planner

import (
	"fmt"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/fleet"
)

// Polling are the parameters of package dpt with what a listing or a configuration has of
// its own in their place. A price takes the place of a load to hold, and the other way
// round.
func Polling(base dpt.Params, own fleet.Polling) dpt.Params {
	all := fleet.Polling{Policy: string(base.Policy), Bootstrap: base.Bootstrap,
		MinGap: base.MinGap, MaxGap: base.MaxGap, Price: base.Price, Desync: base.Desync,
		PollsPerPublication: base.PollsPerPublication, SD: string(base.SD),
		PublishTimes: string(base.PublishTimes)}
	all = own.Over(all)
	base.Policy, base.Bootstrap = dpt.Policy(all.Policy), all.Bootstrap
	base.MinGap, base.MaxGap, base.Desync = all.MinGap, all.MaxGap, all.Desync
	base.Price, base.PollsPerPublication = all.Price, all.PollsPerPublication
	base.SD, base.PublishTimes = dpt.SD(all.SD), dpt.PublishTimes(all.PublishTimes)
	return base
}

// CheckPolling reports the first sensor whose own polling parameters do not go with the
// fleet's.
func CheckPolling(f *fleet.Fleet, base dpt.Params) error {
	for _, s := range f.All() {
		if s.Polling == (fleet.Polling{}) {
			continue
		}
		if err := Polling(base, s.Polling).Validate(); err != nil {
			return fmt.Errorf("sensor %q: polling: %w", s.ID, err)
		}
	}
	return nil
}

// polling are the polling parameters of one sensor.
func (p *Planner) polling(s *sensor) dpt.Params {
	if s.Polling == (fleet.Polling{}) {
		return p.par.Polling
	}
	return Polling(p.par.Polling, s.Polling)
}

// learningParams are what a learner takes of them.
func learningParams(polling dpt.Params) dpt.LearnerParams {
	return dpt.LearnerParams{Bootstrap: polling.Bootstrap, MinGap: polling.MinGap,
		MaxGap: polling.MaxGap}
}
