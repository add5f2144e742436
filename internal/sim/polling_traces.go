package sim

import (
	"fmt"
	"math"
	"slices"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/figure"
)

// shown is the trace of that number, or the last one if there are fewer.
func (s PollingStudy) shown(i int) Trace { return s.Traces[min(i, len(s.Traces)-1)] }

// distribution is figure 14, of one trace, and 15, of another.
func (s PollingStudy) distribution(number string, of int) (*figure.Figure, error) {
	trace := s.shown(of)
	rivals := []rival{rivalFixed, rivalA, rivalL, rivalHZ}
	latencies := make([][]float64, len(rivals))
	faults := make([]error, len(rivals))
	s.each(len(rivals), func(j int) {
		phases := 1
		if rivals[j].polling.Policy == dpt.Fixed {
			phases = fixedPhases
		}
		for i := range phases {
			run, err := rivals[j].polling.run(trace.Name, trace.Instants,
				(float64(i)+0.5)/float64(phases))
			if err != nil {
				faults[j] = err
				return
			}
			latencies[j] = append(latencies[j], run.latencies...)
		}
		slices.Sort(latencies[j])
	})
	for _, err := range faults {
		if err != nil {
			return nil, err
		}
	}
	panel := figure.Panel{X: figure.Axis{Label: "latency", Unit: "s", Log: true},
		Y: figure.Axis{Label: "share of publications"}}
	f := &figure.Figure{ID: "polling-" + number, Source: "DPT, Fig. " + number,
		Title: "Use latency of all publications, " + trace.Name,
		Notes: []string{notTheirs, rawNote, "Fixed polling is every period, ten phases together."}}
	papers := map[string]map[string]string{
		"14": {"fixed": "232 s of 300 s", "DPT-A": "14 s of 300 s", "DPT-L": "14 s of 300 s"},
		"15": {"fixed": "150 s of 300 s", "DPT-A": "18 s of 300 s", "DPT-L": "50 s of 300 s"}}
	fixedMedian := caseQuantile(latencies[0], 0.5)
	for j, r := range rivals {
		panel.Series = append(panel.Series, figure.Series{Name: r.name,
			Points: cumulative(latencies[j], 0.05)})
		f.Facts = append(f.Facts, figure.Fact{Name: "median latency, " + r.name, Unit: "s",
			Value: caseQuantile(latencies[j], 0.5), Paper: papers[number][r.name]})
		if j > 0 {
			f.Facts = append(f.Facts,
				figure.Fact{Name: "median latency, " + r.name + " / fixed", Paper: "0.1 to 0.33",
					Value: caseQuantile(latencies[j], 0.5) / fixedMedian},
				figure.Fact{Name: "later than the median of fixed, " + r.name, Unit: "%",
					Value: 100 * shareAbove(latencies[j], fixedMedian),
					Paper: map[string]string{"14": "below 5 %", "15": "20 to 30 %"}[number]})
		}
	}
	f.Panels = []figure.Panel{panel}
	return f, nil
}

const notTheirs = "The paper's traces are not published; this is another one."

// cumulative is the distribution of sorted values at some points of a logarithmic axis
// that begins at least.
func cumulative(sorted []float64, least float64) []figure.Point {
	const points = 60
	most := max(sorted[len(sorted)-1], 2*least)
	list := make([]figure.Point, 0, points)
	for i := range points {
		x := least * math.Pow(most/least, float64(i)/(points-1))
		list = append(list, figure.At(x, 1-shareAbove(sorted, x)))
	}
	return list
}

// shareAbove is that of sorted values greater than x.
func shareAbove(sorted []float64, x float64) float64 {
	i, _ := slices.BinarySearch(sorted, math.Nextafter(x, math.Inf(1)))
	return 1 - float64(i)/float64(len(sorted))
}

// deployment is figure 16, 17 or 18, each of one trace.
func (s PollingStudy) deployment(number string, of int) (*figure.Figure, error) {
	trace := s.shown(of)
	rivals := []rival{rivalFixed, rivalA, rivalN, rivalL, foldedL, rivalHZ, rivalBB}
	results := make([]PollingResult, len(rivals))
	faults := make([]error, len(rivals))
	s.each(len(rivals), func(j int) {
		results[j], faults[j] = rivals[j].polling.Replay(trace.Name, trace.Instants)
	})
	t := &pollTable{rivals: rivals, settings: []pollSetting{{x: 1}},
		results: [][][]PollingResult{make([][]PollingResult, len(rivals))}}
	f := &figure.Figure{ID: "polling-" + number, Source: "DPT, Fig. " + number,
		Title: "Policies on " + trace.Name,
		Notes: []string{notTheirs, rawNote,
			fmt.Sprintf("Fixed polling is every period, the mean of ten phases. After an outage "+
				"the mean is about the largest gap, %v.", pollingMaxGap)}}
	for j, r := range rivals {
		if faults[j] != nil {
			return nil, faults[j]
		}
		t.results[0][j] = results[j : j+1]
		fact := func(name string, value float64, unit, paper string) {
			f.Facts = append(f.Facts, figure.Fact{Name: name + ", " + r.name, Value: value,
				Unit: unit, Paper: paper})
		}
		fact("median latency", results[j].Latency.Median, "s", "")
		if j > 0 {
			fact("median latency / fixed", results[j].Latency.Median/results[0].Latency.Median, "",
				map[bool]string{true: "0.1 to 0.3"}[j < 4])
		}
		fact("polls per publication", results[j].PPE, "", "")
	}
	x := figure.Axis{Label: "trace"}
	for _, m := range []pollMeasure{medianLatency, meanLatency, p95Latency, hitShare} {
		f.Panels = append(f.Panels, t.panel(m, x, figure.Bars))
	}
	return f, nil
}

// PollingFigure shows results of several policies and sources side by side: bars by number
// of the source.
func PollingFigure(results []PollingResult) *figure.Figure {
	var sources []string
	f := &figure.Figure{ID: "polling", Title: "Policies by source"}
	for _, r := range results {
		if !slices.Contains(sources, r.Source) {
			sources = append(sources, r.Source)
			f.Notes = append(f.Notes, fmt.Sprintf("Source %d is %s.", len(sources), r.Source))
		}
	}
	for _, m := range []pollMeasure{medianLatency, meanLatency, p95Latency, hitShare, pollLoad} {
		p := figure.Panel{Title: m.title, X: figure.Axis{Label: "source"},
			Y: figure.Axis{Label: m.label, Unit: m.unit}}
		for _, r := range results {
			at := figure.At(float64(slices.Index(sources, r.Source)+1), m.of(r))
			i := slices.IndexFunc(p.Series, func(s figure.Series) bool { return s.Name == r.Policy })
			if i < 0 {
				i = len(p.Series)
				p.Series = append(p.Series, figure.Series{Name: r.Policy, Style: figure.Bars})
			}
			p.Series[i].Points = append(p.Series[i].Points, at)
		}
		f.Panels = append(f.Panels, p)
	}
	return f
}

// validity is figure 21: the trace, and its model in its place.
func (s PollingStudy) validity() (*figure.Figure, error) {
	trace := s.shown(0)
	fit, err := FitTraffic(trace)
	if err != nil {
		return nil, err
	}
	model := fit.Traffic()
	settings := []pollSetting{
		{1, model.Period, func(int) (Trace, error) { return trace, nil }},
		s.model(2, model, len(trace.Instants)),
	}
	rivals := []rival{rivalFixed, rivalA, rivalN, rivalL, rivalHZ}
	t, err := s.compare(settings, rivals, s.runs(3))
	if err != nil {
		return nil, err
	}
	f := &figure.Figure{ID: "polling-21", Source: "DPT, Fig. 21",
		Title: "A trace and the model fitted to it, " + trace.Name,
		Notes: []string{notTheirs, rawNote, fmt.Sprintf("The model: period %.4g s, p_ss %.4f, "+
			"p_fs %.3f, jitter %.3g s, %s pacing; an outage of %v with probability %.2g after a "+
			"publication, where the paper's has none.", fit.Period.Value, fit.PSS.Value,
			model.PFS, fit.Jitter.Value, fit.Pacing, model.Outage, model.OutageChance)}}
	x := figure.Axis{Label: "1 = trace, 2 = model"}
	for _, m := range []pollMeasure{medianLatency, meanLatency, sdLatency, hitShare} {
		f.Panels = append(f.Panels, t.panel(m, x, figure.Bars))
		for _, r := range rivals {
			if m.title == meanLatency.title || m.title == sdLatency.title {
				continue // they follow the few outages that are drawn
			}
			f.Facts = append(f.Facts, figure.Fact{Name: m.title + ", " + r.name + ", model / trace",
				Value: t.at(2, r.name, m).Mean / t.at(1, r.name, m).Mean, Paper: "about 1"})
		}
	}
	return f, nil
}
