package app

import (
	"fmt"
	"math"

	"github.com/crawld/crawld/internal/config"
	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/scheduler"
)

// Parameters maps the configuration to the planner's parameters.
func Parameters(c config.Config) (planner.Parameters, error) {
	par := planner.Parameters{Range: c.Planner.Range, Tick: c.Planner.ResolvedTick(),
		Step: c.Planner.StepTicks(), Guard: c.Planner.Guard, GuardAuto: c.Planner.GuardAuto,
		Capacity: int(math.Ceil(c.Planner.Capacity)),
		Polling:  planner.Polling(dpt.Params{}, c.Polling)}
	if c.Planner.BudgetPerSensor {
		par.PerSensor = c.Planner.Budget
	} else {
		par.Budget = c.Planner.Theta(0)
	}
	if err := par.End.UnmarshalText([]byte(c.Planner.End)); err != nil {
		return par, fmt.Errorf("planner.end: %w", err)
	}
	if err := par.Objective.UnmarshalText([]byte(c.Planner.Objective)); err != nil {
		return par, fmt.Errorf("planner.objective: %w", err)
	}
	par.Groups = timed(c.Groups)
	par.Candidates = scheduler.Ends
	if c.Planner.Candidates == config.CandidatesGrid {
		par.Candidates = scheduler.Grid
	}
	return par, par.Validate()
}
