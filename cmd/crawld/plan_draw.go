package main

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/sleepplan"
)

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

// timeline draws some of the sensors as SVG. Which ones are left out is said in the
// picture and on stderr.
func (p *planFlags) timeline(cmd *cobra.Command, r planReport, f *fleet.Fleet) error {
	marks := map[string][]figure.Mark{}
	for _, c := range r.Crawls {
		marks[c.Sensor] = append(marks[c.Sensor], figure.Mark{At: c.At, Kind: figure.Planned})
	}
	first, _ := f.Find(p.from)
	last := min(f.Len(), first+p.limit)
	if first == last {
		return usage(fmt.Errorf("--from %q: no sensor has this id or one after it", p.from))
	}
	t := figure.Timeline{Title: "Plan of " + r.Range.Start.Format(time.RFC3339) + " .. " +
		r.Range.End.Format(time.RFC3339), From: r.Range.Start, To: r.Range.End, Legend: true}
	for i := first; i < last; i++ {
		s := f.At(i)
		row := figure.Row{Label: s.ID, Marks: marks[s.ID],
			Awake: s.Plan.Windows(r.Range.Start, r.Range.End),
			Note:  fmt.Sprintf("%d crawls", len(marks[s.ID]))}
		switch {
		case slices.Contains(r.Polled, s.ID):
			row.Note = "polled"
		case len(row.Marks) == 1:
			row.Note = "1 crawl"
		}
		t.Rows = append(t.Rows, row)
	}
	t.Notes = append(t.Notes, fmt.Sprintf("Budget %d, %d for polls, %d planned, price %.4g s, "+
		"expected latency %.4g s.", r.Budget, r.Reserved, r.Planned, r.Price, r.Expected))
	if n := last - first; n < f.Len() {
		some := fmt.Sprintf("Sensors %d to %d of %d by id: --from and --limit choose others.",
			first+1, last, f.Len())
		t.Notes = append(t.Notes, some)
		fmt.Fprintln(cmd.ErrOrStderr(), some)
	}
	return t.WriteSVG(cmd.OutOrStdout())
}
