package main

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"sort"
	"time"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/app"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/scheduler"
	"github.com/crawld/crawld/internal/sleepplan"
)

// planReport is a range's plan. Latencies are summed over expected events.
type planReport struct {
	Range    planRange    `json:"range"`
	Budget   int          `json:"budget"`
	Reserved int          `json:"reserved"` // of the budget, for polls of unknown sensors
	Planned  int          `json:"planned"`
	Price    float64      `json:"price"`
	Expected float64      `json:"expected_latency_seconds"`
	Sensors  []planSensor `json:"sensors"`
	Crawls   []planCrawl  `json:"crawls"`
	Polled   []string     `json:"polled"` // ids of sensors without a sleep plan
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

func planCommand() *cobra.Command {
	var s sources
	var at string
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what one time range would be planned to be, without history",
		Long: `Plan solves one time range as the daemon would, as if every sensor had just been
crawled at its start: no repository is read, no failures are assumed, starts per
second are not limited.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			start := time.Now().Round(0)
			if at != "" {
				var err error
				if start, err = time.Parse(time.RFC3339Nano, at); err != nil {
					return usage(fmt.Errorf("--at %q: expected RFC 3339, such as 2026-01-05T00:00:00Z", at))
				}
			}
			report, f, err := makePlan(&s, start)
			if err != nil {
				return err
			}
			switch output(cmd) {
			case "json":
				return printJSON(cmd.OutOrStdout(), report)
			case "text":
				return drawPlan(cmd.OutOrStdout(), report, f)
			}
			return planTable(cmd.OutOrStdout(), report)
		},
	}
	s.flags(cmd)
	cmd.Flags().StringVar(&at, "at", "", "start of the range, RFC 3339 (default now)")
	outputFlag(cmd, "json", "table", "text")
	return cmd
}

func makePlan(s *sources, at time.Time) (planReport, *fleet.Fleet, error) {
	c, f, _, err := s.fleet()
	if err != nil {
		return planReport{}, nil, err
	}
	par, err := app.Parameters(c)
	if err != nil {
		return planReport{}, nil, invalid(err)
	}
	snap, err := planner.Preview(f, par, at)
	if err != nil {
		return planReport{}, nil, err
	}
	plan, err := snap.Solve(runtime.GOMAXPROCS(0))
	if errors.Is(err, scheduler.ErrBudget) {
		return planReport{}, nil, invalid(err)
	}
	if err != nil {
		return planReport{}, nil, err
	}
	return reportPlan(plan, f, at, par.Range), f, nil
}

func reportPlan(plan *planner.Plan, f *fleet.Fleet, at time.Time, length time.Duration) planReport {
	rec := plan.Record()
	r := planReport{Range: planRange{at, at.Add(length)}, Budget: rec.Theta, Reserved: rec.Reserved,
		Planned: rec.Planned, Price: rec.Price, Sensors: []planSensor{}, Crawls: []planCrawl{},
		Polled: []string{}}
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
	fmt.Fprintf(w, "range %s .. %s\nbudget %d, %d for polls, %d planned, price %.4g s, expected latency %.4g s\n\n",
		r.Range.Start.Format(time.RFC3339), r.Range.End.Format(time.RFC3339),
		r.Budget, r.Reserved, r.Planned, r.Price, r.Expected)
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

// timelineWidth is the number of columns that a range is drawn in.
const timelineWidth = 72

// drawPlan draws each sensor's awake windows and crawls over the range.
func drawPlan(w io.Writer, r planReport, f *fleet.Fleet) error {
	marks := map[string][]time.Time{}
	for _, c := range r.Crawls {
		marks[c.Sensor] = append(marks[c.Sensor], c.At)
	}
	fmt.Fprintf(w, "%s .. %s   = awake   . asleep   | crawl\n",
		r.Range.Start.Format(time.RFC3339), r.Range.End.Format(time.RFC3339))
	return table(w, func(row func(...any)) {
		for _, s := range r.Sensors {
			i, _ := f.Find(s.ID)
			windows := f.At(i).Plan.Windows(r.Range.Start, r.Range.End)
			row(s.ID, sleepplan.Draw(windows, marks[s.ID], r.Range.Start, r.Range.End, timelineWidth),
				s.Crawls)
		}
		for _, id := range r.Polled {
			row(id, "polled: sleep plan unknown", "")
		}
	})
}
