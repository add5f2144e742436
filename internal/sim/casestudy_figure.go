package sim

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/crawld/crawld/internal/figure"
)

// hours are the waits of a run, those of one case or, with case -1, of all.
func (r CaseRun) hours(of int) []float64 {
	var waits []float64
	for i, w := range r.Waits {
		for _, d := range w {
			if of < 0 || i == of {
				waits = append(waits, d.Hours())
			}
		}
	}
	return waits
}

// caseStatistic is what a panel shows of waits.
type caseStatistic struct {
	name string
	of   func(waits []float64) float64
}

var caseStatistics = []caseStatistic{
	{"mean latency", meanHours},
	{"median latency", func(waits []float64) float64 { return caseQuantile(waits, 0.5) }},
	{"95th percentile of latency", func(waits []float64) float64 { return caseQuantile(waits, 0.95) }},
}

func meanHours(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// caseQuantile is the least value that a share of the values does not exceed.
func caseQuantile(values []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(int(math.Ceil(share*float64(len(sorted))))-1, 0)]
}

// caseMean is the mean latency over all events in hours, over all runs, of a policy
// among those given; NaN if it is not there.
func caseMean(policies []CasePolicy, name string) float64 {
	var means []float64
	for _, p := range policies {
		for _, run := range p.Runs {
			if p.Name == name {
				means = append(means, meanHours(run.hours(-1)))
			}
		}
	}
	return meanHours(means)
}

// Figure is the latency of each stream and of all under every policy.
func (r *CaseResult) Figure() *figure.Figure {
	f := &figure.Figure{ID: "casestudy",
		Title:  fmt.Sprintf("Latency of real events at %d crawls per stream and day", r.Study.Theta),
		Source: "EasiCrawl, section VI and Fig. 10", Facts: r.facts(), Notes: r.notes()}
	for _, stat := range caseStatistics {
		panel := figure.Panel{Title: stat.name, X: figure.Axis{Label: "stream"},
			Y: figure.Axis{Label: "latency", Unit: "h"}}
		for _, p := range r.Policies {
			series := figure.Series{Name: p.Name, Style: figure.Bars}
			for x := range len(r.Cases) + 1 {
				of := x
				if x == len(r.Cases) {
					of = -1
				}
				if of >= 0 && len(r.Cases[of].Events) == 0 {
					continue
				}
				var runs []float64
				for _, run := range p.Runs {
					runs = append(runs, stat.of(run.hours(of)))
				}
				series.Points = append(series.Points, figure.Over(float64(x+1), runs))
			}
			panel.Series = append(panel.Series, series)
		}
		f.Panels = append(f.Panels, panel)
	}
	return f
}

// facts are the means over all events and their ratios, on the events as they are
// and with their hours drawn anew.
func (r *CaseResult) facts() []figure.Fact {
	papers := map[string]string{CasePaper: "13 h", CaseRandom: "about 23 h"}
	var facts []figure.Fact
	for _, p := range r.Policies {
		facts = append(facts, figure.Fact{Name: "mean latency, " + p.Name,
			Value: caseMean(r.Policies, p.Name), Unit: "h", Paper: papers[p.Name]})
	}
	for _, on := range []struct {
		what     string
		policies []CasePolicy
	}{{"", r.Policies}, {", hours drawn anew", r.Unbound}} {
		if on.policies == nil {
			continue
		}
		for _, pair := range [][2]string{{CaseRandom, CasePaper}, {CaseRandom, CaseOurs},
			{CaseSnapped, CaseOurs}, {CasePaper, CaseOurs}} {
			fact := figure.Fact{Name: pair[0] + " / " + pair[1] + on.what,
				Value: caseMean(on.policies, pair[0]) / caseMean(on.policies, pair[1])}
			if pair == [2]string{CaseRandom, CasePaper} && on.what == "" {
				fact.Paper = "2 to 3; 23 h / 13 h = 1.8"
			}
			facts = append(facts, fact)
		}
	}
	return facts
}

// notes say what the numbers of the streams stand for and what was left out.
func (r *CaseResult) notes() []string {
	var streams []string
	asleep, unseen := 0, 0
	for i, k := range r.Cases {
		text := fmt.Sprintf("%d %s (%d events, %s)", i+1, k.Name, len(k.Events), k.Plan)
		streams = append(streams, text)
		asleep += k.Asleep
	}
	for _, p := range r.Policies {
		for _, run := range p.Runs {
			unseen = max(unseen, run.Unseen)
		}
	}
	notes := []string{fmt.Sprintf("Streams: %s; %d all.", strings.Join(streams, ", "), len(r.Cases)+1),
		r.siteNote()}
	if asleep > 0 {
		notes = append(notes, fmt.Sprintf("%d events are left out: their streams were asleep.", asleep))
	}
	if unseen > 0 {
		notes = append(notes, fmt.Sprintf("Up to %d events were not crawled within a week of the last "+
			"one; their latency ends there.", unseen))
	}
	notes = append(notes,
		"The paper's means are of other sensors, and it does not state their budget: only the ratio can "+
			"be compared.")
	if r.Unbound != nil {
		notes = append(notes, "Hours drawn anew: each event keeps its day, its hour is any awake "+
			"one, as the Poisson process that plans are made for would have it.")
	}
	return notes
}

func (r *CaseResult) siteNote() string {
	sites := 0
	for _, k := range r.Cases {
		sites = max(sites, k.Site+1)
	}
	if r.Study.Together {
		return "All streams are one fleet with one budget, shifted to begin on the same day."
	}
	if sites == 1 {
		return "All streams are one site with one budget."
	}
	return fmt.Sprintf("The streams are of %d sites by the times they overlap, each crawled by "+
		"itself with its own budget.", sites)
}

// MaxTimelineDays bounds what a picture can show.
const MaxTimelineDays = 31

// Timeline draws some days from midnight UTC on: for each stream of those days a
// row under crawld and one under the first run of RandomCrawl. Without from it
// takes the days with events of the most streams, of those with the most events.
func (r *CaseResult) Timeline(from time.Time, days int) (*figure.Timeline, error) {
	if days < 1 || days > MaxTimelineDays {
		return nil, fmt.Errorf("sim: case study: a picture of %d days: must be 1 to %d", days,
			MaxTimelineDays)
	}
	if from.IsZero() {
		from = r.busiest(days)
	}
	from = from.UTC().Truncate(caseDay)
	t := &figure.Timeline{From: from, To: from.AddDate(0, 0, days), Legend: true,
		Title: fmt.Sprintf("Real events at %d crawls per stream and day", r.Study.Theta)}
	for i := range r.Cases {
		for _, p := range r.Policies {
			if p.Name == CaseOurs || p.Name == CaseRandom {
				row := r.row(i, p, t.From, t.To)
				if len(row.Marks) > 0 {
					t.Rows = append(t.Rows, row)
				}
			}
		}
	}
	if len(t.Rows) == 0 {
		return nil, fmt.Errorf("sim: case study: nothing happens in the %d days from %s", days,
			from.Format(time.DateOnly))
	}
	t.Notes = append(t.Notes, fmt.Sprintf(
		"Mean latency of all events of all days: %s %.1f h, %s %.1f h.", CaseOurs,
		caseMean(r.Policies, CaseOurs), CaseRandom, caseMean(r.Policies, CaseRandom)))
	if r.Study.Together {
		t.Notes = append(t.Notes, "All sites are shifted by whole days to begin together.")
	}
	return t, nil
}

// row is one stream under one policy.
func (r *CaseResult) row(i int, p CasePolicy, from, to time.Time) figure.Row {
	k, run := r.Cases[i], p.Runs[0]
	row := figure.Row{Label: k.Name + ", " + p.Name, Awake: k.Plan.Windows(from, to)}
	in := func(at time.Time) bool { return !at.Before(from) && at.Before(to) }
	var waits []float64
	for n, at := range run.Events[i] {
		if in(at) {
			wait := run.Waits[i][n]
			waits = append(waits, wait.Hours())
			row.Marks = append(row.Marks, figure.Mark{At: at, Kind: figure.Event,
				Tip: "crawled after " + wait.Round(time.Minute).String()})
		}
	}
	crawls := 0
	for _, at := range run.Planned[i] {
		if in(at) {
			row.Marks = append(row.Marks, figure.Mark{At: at, Kind: figure.Planned})
		}
	}
	for _, at := range run.Crawled[i] {
		if in(at) {
			crawls++
			row.Marks = append(row.Marks, figure.Mark{At: at, Kind: figure.Crawled})
		}
	}
	row.Note = fmt.Sprintf("%d crawls, no event", crawls)
	if len(waits) > 0 {
		row.Note = fmt.Sprintf("%d crawls, mean %.1f h", crawls, meanHours(waits))
	}
	return row
}

// busiest is the day whose stretch of that many days has events of the most
// streams, then the most events, then is the first.
func (r *CaseResult) busiest(days int) time.Time {
	counts := map[int64][]int{} // by day since 1970, events of each case
	dayOf := func(at time.Time) int64 { return at.Unix() / int64(caseDay/time.Second) }
	for i, k := range r.Cases {
		for _, at := range k.Events {
			d := dayOf(at)
			if counts[d] == nil {
				counts[d] = make([]int, len(r.Cases))
			}
			counts[d][i]++
		}
	}
	var best int64
	mostStreams, mostEvents := -1, 0
	for _, d := range sortedDays(counts) {
		streams, events := 0, 0
		for i := range r.Cases {
			n := 0
			for k := range int64(days) {
				if of := counts[d+k]; of != nil {
					n += of[i]
				}
			}
			streams, events = streams+min(n, 1), events+n
		}
		if streams > mostStreams || streams == mostStreams && events > mostEvents {
			best, mostStreams, mostEvents = d, streams, events
		}
	}
	return time.Unix(best*int64(caseDay/time.Second), 0).UTC()
}

func sortedDays(counts map[int64][]int) []int64 {
	var days []int64
	for d := range counts {
		days = append(days, d)
	}
	slices.Sort(days)
	return days
}
