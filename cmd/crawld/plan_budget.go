package main

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strconv"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/scheduler"
)

// curveReport is the latency of a range over its budget.
type curveReport struct {
	Range planRange `json:"range"`
	planner.BudgetCurve
	par planner.Parameters
}

func (v preview) budgetCurve(w io.Writer, form string) error {
	curve, err := v.snap.BudgetCurve(runtime.GOMAXPROCS(0))
	if err != nil {
		return badBudget(err)
	}
	r := curveReport{v.rng, curve, v.par}
	switch form {
	case "json":
		return printJSON(w, r)
	case "csv":
		return r.csv(w)
	case "svg":
		f, err := r.figure()
		if err != nil {
			return invalid(err)
		}
		return f.Write(w, "svg")
	}
	return r.table(w)
}

func (r curveReport) table(w io.Writer) error {
	fmt.Fprintf(w, "range %s\nbudget %d, %d for polls and retries\n",
		instants(r.Range.Start, r.Range.End), r.Budget, r.Reserved)
	for _, note := range r.notes() {
		fmt.Fprintln(w, note)
	}
	fmt.Fprintln(w)
	here := r.configured()
	return table(w, func(row func(...any)) {
		row("BUDGET", "PLANNED", "EXPECTED LATENCY", "CHANGE", "ONE MORE CRAWL", "ONE LESS")
		for _, p := range r.Points {
			if !p.Feasible {
				row(p.Budget, "-", "infeasible", "", "", "")
				continue
			}
			more, less := oneCrawl(p)
			against := ""
			switch {
			case p.Budget == r.Budget:
				against = "(configured)"
			case here.Feasible:
				against = change(p.Objective - here.Objective)
			}
			row(p.Budget, p.Planned, inSeconds(p.Expected), against, more, less)
		}
	})
}

// notes are what a reader of the numbers has to know, infeasible budgets first.
func (r curveReport) notes() []string {
	infeasible := 0
	for _, p := range r.Points {
		if !p.Feasible {
			infeasible = max(infeasible, p.Budget)
		}
	}
	var notes []string
	if infeasible > 0 {
		notes = append(notes, fmt.Sprintf("Budgets up to %d are infeasible: the end rule crawls every "+
			"awake sensor.", infeasible))
	}
	for _, p := range r.Points {
		if p.Feasible && p.Dropped > 0 {
			notes = append(notes, fmt.Sprintf("From budget %d on, %d starts per second are too few and "+
				"crawls are dropped: what one more would save is not to be had.", p.Budget, r.par.Capacity))
			break
		}
	}
	if r.par.Candidates == scheduler.Ends {
		notes = append(notes, "One crawl more or less is valued before instants are polished, which "+
			"changes it a little.")
	}
	if r.par.End == scheduler.Lookahead {
		notes = append(notes, "Changes count what waits beyond the range's end, where the planner "+
			"looks ahead.")
	}
	return notes
}

// configured is the point of the configured budget.
func (r curveReport) configured() planner.BudgetPoint {
	for _, p := range r.Points {
		if p.Budget == r.Budget {
			return p
		}
	}
	return planner.BudgetPoint{}
}

// oneCrawl is what one crawl more and one less would change.
func oneCrawl(p planner.BudgetPoint) (more, less string) {
	if p.Less == nil {
		return change(-p.Price), "infeasible"
	}
	return change(-p.Price), change(*p.Less)
}

// change is a difference with its sign.
func change(s float64) string {
	if s == 0 {
		return "0 s"
	}
	if s > 0 {
		return "+" + inSeconds(s)
	}
	return inSeconds(s)
}

// csv writes one line per budget, with the names that JSON has.
func (r curveReport) csv(w io.Writer) error {
	exact := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	rows := [][]string{{"budget", "feasible", "planned", "expected_latency_seconds", "objective",
		"price", "one_less", "dropped", "capacity_loss_seconds"}}
	for _, p := range r.Points {
		row := make([]string, len(rows[0]))
		row[0], row[1] = strconv.Itoa(p.Budget), strconv.FormatBool(p.Feasible)
		if p.Feasible {
			copy(row[2:], []string{strconv.Itoa(p.Planned), exact(p.Expected), exact(p.Objective),
				exact(p.Price), "", strconv.Itoa(p.Dropped), exact(p.Loss)})
			if p.Less != nil {
				row[6] = exact(*p.Less)
			}
		}
		rows = append(rows, row)
	}
	return csv.NewWriter(w).WriteAll(rows)
}

// figure draws latency and price over the budget.
func (r curveReport) figure() (*figure.Figure, error) {
	waits, price := figure.Series{Name: "expected latency"}, figure.Series{Name: "price"}
	log := true
	for _, p := range r.Points {
		if p.Feasible {
			waits.Points = append(waits.Points, figure.At(float64(p.Budget), p.Expected))
			price.Points = append(price.Points, figure.At(float64(p.Budget), p.Price))
			log = log && p.Price > 0
		}
	}
	notes := r.notes()
	if len(waits.Points) == 0 {
		return nil, errors.New("there is nothing to draw. " + notes[0])
	}
	curves := []figure.Series{waits}
	if p := r.configured(); p.Feasible {
		curves = append(curves, figure.Series{Name: "configured", Style: figure.Points,
			Points: []figure.Point{figure.At(float64(p.Budget), p.Expected)}})
		more, less := oneCrawl(p)
		notes = append([]string{fmt.Sprintf("Budget %d: one more crawl: %s, one less: %s.",
			p.Budget, more, less)}, notes...)
	}
	x := figure.Axis{Label: "budget, crawls in the range"}
	return &figure.Figure{ID: "plan-budget", Title: "Latency over the budget", Notes: notes,
		Panels: []figure.Panel{
			{Title: "How long the range's events wait", X: x, Series: curves,
				Y: figure.Axis{Label: "expected latency, weighted", Unit: "s"}},
			{Title: "What one more crawl saves", X: x, Series: []figure.Series{price},
				Y: figure.Axis{Label: "price", Unit: "s", Log: log}}}}, nil
}
