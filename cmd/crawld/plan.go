package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/app"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/scheduler"
)

// planReport is a range's plan. Latencies are summed over expected events.
type planReport struct {
	Range    planRange    `json:"range"`
	Budget   int          `json:"budget"`
	Reserved int          `json:"reserved"` // of the budget, for polls of unknown sensors
	Planned  int          `json:"planned"`
	Price    float64      `json:"price"`
	Expected float64      `json:"expected_latency_seconds"`
	Dropped  int          `json:"dropped"`               // crawls for which Capacity left no second
	Loss     float64      `json:"capacity_loss_seconds"` // what Capacity cost, weighted
	Sensors  []planSensor `json:"sensors"`
	Crawls   []planCrawl  `json:"crawls"`
	Polled   []string     `json:"polled"` // ids of sensors without a sleep plan
	Capacity int          `json:"-"`      // starts per second
}

type planRange struct {
	Start time.Time `json:"start"`
	End   time.Time `json:"end"`
}

type planSensor struct {
	ID      string  `json:"id"`
	URI     string  `json:"uri"`
	Crawls  int     `json:"crawls"`
	Latency float64 `json:"expected_latency_seconds"`
}

type planCrawl struct {
	At     time.Time `json:"at"`
	Sensor string    `json:"sensor"`
}

// planFlags are the flags of plan.
type planFlags struct {
	sources
	at      string
	explain string
	curve   bool
	limit   int
	from    string
}

// planForms are the forms of what plan shows, the first one being the default.
var planForms = map[string][]string{
	"plan":         {"json", "table", "text", "svg"},
	"explain":      {"table", "json", "svg"},
	"budget-curve": {"table", "json", "csv", "svg"},
}

func planCommand() *cobra.Command {
	var p planFlags
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what one time range would be planned to be, and why",
		Long: `Plan solves one time range as the daemon would, as if every sensor had just been
crawled at its start: no repository is read and no failures are assumed.

--explain SENSOR tells what sets each crawl of one sensor and how many it gets: what
each crawl saves against the price, and what guard and capacity cost.
--budget-curve tells what more or fewer crawls in this range would buy. Savings, costs
and the price are in seconds of latency, weighted, beyond the range's end as far as
the planner looks.

--output svg draws awake windows and crawls over the range, of --limit sensors from the
id --from on.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd) },
	}
	p.sources.flags(cmd)
	cmd.Flags().StringVar(&p.at, "at", "", "start of the range, RFC 3339 (default now)")
	cmd.Flags().StringVar(&p.explain, "explain", "", "id of a sensor whose crawls to explain")
	cmd.Flags().BoolVar(&p.curve, "budget-curve", false, "show the plan's latency over the budget")
	cmd.Flags().IntVar(&p.limit, "limit", 200, "with --output svg: most sensors to draw")
	cmd.Flags().StringVar(&p.from, "from", "", "with --output svg: first id to draw")
	forms := func(what string) string { return strings.Join(planForms[what], ", ") }
	cmd.Flags().StringP("output", "o", "", "form of the result: "+forms("plan")+"; with --explain "+
		forms("explain")+"; with --budget-curve "+forms("budget-curve")+" (default the first one)")
	return cmd
}

// form is what plan shows and in which form.
func (p *planFlags) form(cmd *cobra.Command) (what, form string, err error) {
	what = "plan"
	switch explain := cmd.Flags().Changed("explain"); {
	case explain && p.curve:
		return "", "", errors.New("--explain and --budget-curve: one at a time")
	case explain:
		what = "explain"
	case p.curve:
		what = "budget-curve"
	}
	if form = output(cmd); form == "" {
		form = planForms[what][0]
	}
	if !slices.Contains(planForms[what], form) {
		return "", "", fmt.Errorf("--output %q: must be one of %s", form,
			strings.Join(planForms[what], ", "))
	}
	drawn := what == "plan" && form == "svg"
	for _, name := range []string{"limit", "from"} {
		if cmd.Flags().Changed(name) && !drawn {
			return "", "", fmt.Errorf("--%s: only the timeline of --output svg has it", name)
		}
	}
	if p.limit < 1 {
		return "", "", fmt.Errorf("--limit %d: must be at least 1", p.limit)
	}
	return what, form, nil
}

func (p *planFlags) run(cmd *cobra.Command) error {
	what, form, err := p.form(cmd)
	if err != nil {
		return usage(err)
	}
	start := time.Now().Round(0)
	if p.at != "" {
		if start, err = time.Parse(time.RFC3339Nano, p.at); err != nil {
			return usage(fmt.Errorf("--at %q: expected RFC 3339, such as 2026-01-05T00:00:00Z", p.at))
		}
	}
	v, err := p.preview(start)
	if err != nil {
		return err
	}
	if what == "budget-curve" {
		return v.budgetCurve(cmd.OutOrStdout(), form)
	}
	if what == "explain" { // before the plan is made: that may take long
		if err := known(v.fleet, p.explain); err != nil {
			return unhealthy(err)
		}
	}
	plan, err := v.snap.Solve(runtime.GOMAXPROCS(0))
	if err != nil {
		return badBudget(err)
	}
	if what == "explain" {
		return v.explain(cmd.OutOrStdout(), plan, p.explain, form)
	}
	report := v.report(plan)
	switch form {
	case "json":
		return printJSON(cmd.OutOrStdout(), report)
	case "text":
		return drawPlan(cmd.OutOrStdout(), report, v.fleet)
	case "svg":
		return p.timeline(cmd, report, v.fleet)
	}
	return planTable(cmd.OutOrStdout(), report)
}

// preview is the question that plan answers.
type preview struct {
	fleet *fleet.Fleet
	par   planner.Parameters
	rng   planRange
	snap  *planner.Snapshot
}

func (p *planFlags) preview(at time.Time) (preview, error) {
	c, f, _, err := p.fleet()
	if err != nil {
		return preview{}, err
	}
	par, err := app.Parameters(c)
	if err != nil {
		return preview{}, invalid(err)
	}
	snap, err := planner.Preview(f, par, at)
	return preview{f, par, planRange{at, at.Add(par.Range)}, snap}, err
}

// badBudget is an error of the solver: a budget that the end rule has no plan for is
// an invalid configuration.
func badBudget(err error) error {
	if errors.Is(err, scheduler.ErrBudget) {
		return invalid(err)
	}
	return err
}

func (v preview) report(plan *planner.Plan) planReport {
	rec, f := plan.Record(), v.fleet
	r := planReport{Range: v.rng, Budget: rec.Theta, Reserved: rec.Reserved,
		Planned: rec.Planned, Price: rec.Price, Capacity: v.par.Capacity,
		Dropped: plan.Solution.Dropped, Loss: plan.Solution.SpillLoss,
		Sensors: []planSensor{}, Crawls: []planCrawl{}, Polled: []string{}}
	planned := map[string]bool{}
	for _, p := range plan.Promises() {
		i, _ := f.Find(p.ID)
		planned[p.ID] = true
		r.Expected += f.At(i).Weight * p.Latency
		r.Sensors = append(r.Sensors, planSensor{p.ID, f.At(i).URI, len(p.Crawls), p.Latency})
		for _, t := range p.Crawls {
			r.Crawls = append(r.Crawls, planCrawl{t, p.ID})
		}
	}
	for _, s := range f.All() {
		if !planned[s.ID] {
			r.Polled = append(r.Polled, s.ID)
		}
	}
	sort.SliceStable(r.Crawls, func(i, j int) bool {
		if c := r.Crawls[i].At.Compare(r.Crawls[j].At); c != 0 {
			return c < 0
		}
		return r.Crawls[i].Sensor < r.Crawls[j].Sensor
	})
	return r
}

func planTable(w io.Writer, r planReport) error {
	fmt.Fprintf(w, "range %s .. %s\n"+
		"budget %d, %d for polls, %d planned, price %.4g s, expected latency %.4g s\n",
		r.Range.Start.Format(time.RFC3339), r.Range.End.Format(time.RFC3339),
		r.Budget, r.Reserved, r.Planned, r.Price, r.Expected)
	if r.Dropped != 0 || r.Loss != 0 {
		fmt.Fprintf(w, "capacity %d starts per second: %d dropped, costs %.4g s\n",
			r.Capacity, r.Dropped, r.Loss)
	}
	fmt.Fprintln(w)
	return table(w, func(row func(...any)) {
		row("SENSOR", "CRAWLS", "EXPECTED LATENCY", "URI")
		for _, s := range r.Sensors {
			row(s.ID, s.Crawls, fmt.Sprintf("%.4g s", s.Latency), s.URI)
		}
		for _, id := range r.Polled {
			row(id, "polled", "", "")
		}
	})
}
