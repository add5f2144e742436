package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
)

// explainReport is why a plan has the crawls of one sensor that it has.
type explainReport struct {
	Range     planRange `json:"range"`
	URI       string    `json:"uri"`
	SleepPlan string    `json:"sleep_plan"`
	Weight    float64   `json:"weight"`
	Rate      float64   `json:"rate_per_second"`
	planner.Advice
}

// known tells, of a sensor that is not in the fleet, which ids are like it.
func known(f *fleet.Fleet, id string) error {
	if _, ok := f.Find(id); ok {
		return nil
	}
	hint := ""
	if like := similar(f, id); len(like) > 0 {
		hint = "; did you mean " + strings.Join(like, " or ") + "?"
	}
	return fmt.Errorf("sensor %q is not in the fleet%s", id, hint)
}

func (v preview) explain(w io.Writer, plan *planner.Plan, id, form string) error {
	advice, planned, err := plan.Advise(id, runtime.GOMAXPROCS(0))
	if err != nil {
		return err
	}
	if rec := plan.Record(); !planned {
		return unhealthy(fmt.Errorf("sensor %q is polled: its sleep plan is unknown, so none of its "+
			"crawls is planned; %d of %d crawls are reserved for polls", id, rec.Reserved, rec.Theta))
	}
	i, _ := v.fleet.Find(id)
	s := v.fleet.At(i)
	r := explainReport{v.rng, s.URI, s.Plan.String(), s.Weight, s.Rate, advice}
	switch form {
	case "json":
		return printJSON(w, r)
	case "svg":
		return r.figure().Write(w, "svg")
	}
	return r.table(w)
}

func (r explainReport) table(w io.Writer) error {
	err := table(w, func(row func(...any)) {
		row("sensor", r.ID)
		row("uri", r.URI)
		row("sleep plan", r.SleepPlan)
		row("weight", fmt.Sprintf("%.4g, %.4g events per awake hour", r.Weight, 3600*r.Rate))
		row("range", instants(r.Range.Start, r.Range.End))
		row("crawls", fmt.Sprintf("%d, expected latency %s", len(r.Crawls), inSeconds(r.Latency)))
		row("price", inSeconds(r.Price))
		row("count set by", r.why())
		row("guard", r.guard())
		row("capacity", r.capacity())
	})
	if err != nil {
		return err
	}
	fmt.Fprintln(w)
	if len(r.Crawls) > 0 {
		err = table(w, func(row func(...any)) {
			row("AT", "SET BY", "VALUE", "WINDOW")
			for _, c := range r.Crawls {
				row(c.At.Format(time.RFC3339Nano), r.binds(c.Binds), inSeconds(c.Value), span(c.Window))
			}
		})
		fmt.Fprintln(w)
	}
	if err != nil || len(r.Marginals) == 0 {
		return err
	}
	return table(w, func(row func(...any)) {
		row("CRAWL", "SAVES", "")
		for _, m := range r.Marginals {
			note := ""
			if !m.Made {
				note = "not made"
			}
			row(m.Crawl, inSeconds(m.Gain), note)
		}
	})
}

// inSeconds keeps four digits, but all before the point.
func inSeconds(s float64) string {
	if a := math.Abs(s); a >= 1e4 && a < 1e15 {
		return fmt.Sprintf("%.0f s", s)
	}
	return fmt.Sprintf("%.4g s", s)
}

func instants(from, to time.Time) string {
	return from.Format(time.RFC3339Nano) + " .. " + to.Format(time.RFC3339Nano)
}

func span(w *planner.TimeWindow) string {
	if w == nil {
		return "-"
	}
	return instants(w.Start, w.End)
}

// next is what one more crawl would save; 0 if there is no instant for it.
func (r explainReport) next() float64 {
	if n := len(r.Marginals); n > 0 && !r.Marginals[n-1].Made {
		return r.Marginals[n-1].Gain
	}
	return 0
}

// why is what binds the count, in words.
func (r explainReport) why() string {
	more := "one more crawl would save " + inSeconds(r.next())
	switch r.Bound {
	case planner.BoundPrice:
		return "price: " + more + ", less than " + inSeconds(r.Price)
	case planner.BoundBudget:
		return "budget: " + more + ", as much as any that is not made"
	case planner.BoundCap:
		return fmt.Sprintf("max_crawls %d: %s", *r.Cap, more)
	case planner.BoundEnd:
		return "end rule: a last crawl is made although it is worth less than the price"
	case planner.BoundWeight:
		return "weight or rate: it is 0, nothing can be gained"
	}
	return "sleep plan: no further instant of the range gains anything"
}

func (r explainReport) guard() string {
	if r.Guard.Seconds == 0 {
		return "none"
	}
	half := ""
	if r.Guard.Half {
		half = ", at most half the window"
	}
	length := time.Duration(r.Guard.Seconds * float64(time.Second)).Round(time.Millisecond)
	return fmt.Sprintf("%v before a window's end%s; costs %s", length, half, inSeconds(r.Guard.Cost))
}

func (r explainReport) capacity() string {
	c := r.Capacity
	if c.PerSecond == 0 {
		return "not limited"
	}
	if c.Moved == 0 && c.Dropped == 0 && c.FleetDropped == 0 && c.FleetCost == 0 {
		return fmt.Sprintf("%d starts per second; costs nothing", c.PerSecond)
	}
	return fmt.Sprintf("%d starts per second; %d moved, %d dropped, costs %s; the fleet: "+
		"%d dropped, costs %s", c.PerSecond, c.Moved, c.Dropped, inSeconds(c.Cost), c.FleetDropped,
		inSeconds(c.FleetCost))
}

// binds is what sets an instant, in words.
func (r explainReport) binds(b planner.Bind) string {
	switch b {
	case planner.BindWindowEnd:
		if r.Guard.Seconds > 0 {
			return "window end less guard"
		}
		return "window end"
	case planner.BindBalanced:
		return "balanced inside the window"
	case planner.BindAlwaysOn:
		return "balanced, always on"
	case planner.BindGrid:
		return "grid step"
	case planner.BindCapacity:
		return "capacity: moved from a full second"
	}
	return strings.ReplaceAll(string(b), "_", " ")
}

// figure draws what each crawl saves against the price.
func (r explainReport) figure() *figure.Figure {
	made, more := figure.Series{Name: "made"}, figure.Series{Name: "one more", Style: figure.Points}
	price := figure.Series{Name: "price", Points: []figure.Point{figure.At(0, r.Price),
		figure.At(float64(len(r.Marginals)+1), r.Price)}}
	log := r.Price > 0
	for _, m := range r.Marginals {
		s := &more
		if m.Made {
			s = &made
		}
		s.Points = append(s.Points, figure.At(float64(m.Crawl), m.Gain))
		log = log && m.Gain > 0
	}
	series := slices.DeleteFunc([]figure.Series{made, more, price}, func(s figure.Series) bool {
		return len(s.Points) == 0
	})
	return &figure.Figure{ID: "plan-explain", Title: "What each crawl of " + r.ID + " saves",
		Panels: []figure.Panel{{X: figure.Axis{Label: "crawls"}, Series: series,
			Y: figure.Axis{Label: "saved latency, weighted", Unit: "s", Log: log}}},
		Notes: []string{"Range " + instants(r.Range.Start, r.Range.End) + ".",
			"Count set by " + r.why() + ".", "Guard: " + r.guard() + ".",
			"Capacity: " + r.capacity() + "."}}
}

// mostHints bounds how many ids are offered for one that is not there.
const mostHints = 3

// similar are the ids closest to one, by how many characters differ, case
// aside: at most a third.
func similar(f *fleet.Fleet, id string) []string {
	type hint struct {
		id       string
		distance int
	}
	var hints []hint
	for _, s := range f.All() {
		most := max(1, max(len(id), len(s.ID))/3)
		if d := distance(strings.ToLower(id), strings.ToLower(s.ID)); d <= most {
			hints = append(hints, hint{s.ID, d})
		}
	}
	slices.SortStableFunc(hints, func(a, b hint) int { return a.distance - b.distance })
	var ids []string
	for _, h := range hints[:min(len(hints), mostHints)] {
		ids = append(ids, h.id)
	}
	return ids
}

// distance is Levenshtein's, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
