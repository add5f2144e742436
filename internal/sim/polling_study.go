package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/figure"
)

// PollingStudy makes the figures of the DPT paper (Park and Heidemann, ISI-TR-660b) with
// the daemon's own trackers. The paper's traces are not published: what it shows of them
// is shown of others.
type PollingStudy struct {
	Traces   []Trace // what the figures of traces show
	Runs     int     // simulations per setting, 0 = the figure's own
	Seed     uint64
	Workers  int
	Progress func(done, total int) // nil = do not tell
}

// pollingFigure is one of the paper's.
type pollingFigure struct {
	name   string
	traces int // that it needs at least
	make   func(PollingStudy) (*figure.Figure, error)
}

var pollingFigures = []pollingFigure{
	{"4", 0, PollingStudy.phases},
	{"8", 1, PollingStudy.correlation},
	{"9", 1, PollingStudy.failures},
	{"10", 1, PollingStudy.jitter},
	{"11", 1, PollingStudy.jitterDistance},
	{"14", 1, func(s PollingStudy) (*figure.Figure, error) { return s.distribution("14", 0) }},
	{"15", 1, func(s PollingStudy) (*figure.Figure, error) { return s.distribution("15", 1) }},
	{"16", 1, func(s PollingStudy) (*figure.Figure, error) { return s.deployment("16", 0) }},
	{"17", 1, func(s PollingStudy) (*figure.Figure, error) { return s.deployment("17", 1) }},
	{"18", 1, func(s PollingStudy) (*figure.Figure, error) { return s.deployment("18", 2) }},
	{"19", 0, func(s PollingStudy) (*figure.Figure, error) { return s.losses("19", 0.6) }},
	{"20", 0, func(s PollingStudy) (*figure.Figure, error) { return s.losses("20", 0.8) }},
	{"21", 1, PollingStudy.validity},
	{"22", 0, PollingStudy.bimodal},
	{"23", 0, PollingStudy.rendezvous},
	{"24", 1, PollingStudy.traceRendezvous},
}

// PollingFigures lists the numbers of the figures.
func PollingFigures() []string {
	var names []string
	for _, f := range pollingFigures {
		names = append(names, f.name)
	}
	return names
}

// Figure makes one of PollingFigures.
func (s PollingStudy) Figure(name string) (*figure.Figure, error) {
	for _, f := range pollingFigures {
		if f.name != name {
			continue
		}
		if len(s.Traces) < f.traces {
			return nil, fmt.Errorf("figure %s: needs a trace", name)
		}
		return f.make(s)
	}
	return nil, fmt.Errorf("figure %q: must be one of %s", name,
		strings.Join(PollingFigures(), ", "))
}

// PollingNeedsTraces tells whether a figure shows traces.
func PollingNeedsTraces(name string) bool {
	return slices.ContainsFunc(pollingFigures, func(f pollingFigure) bool {
		return f.name == name && f.traces > 0
	})
}

// rival is a policy in a figure.
type rival struct {
	name    string
	polling Polling
}

// Rivals as the paper has them: with the standard deviation of the intervals as they are.
var (
	rivalFixed = rival{"fixed", Polling{Policy: dpt.Fixed}}
	rivalA     = rival{"DPT-A", Polling{Policy: dpt.DPTA, SD: dpt.SDRaw}}
	rivalN     = rival{"DPT-N", Polling{Policy: dpt.DPTN, SD: dpt.SDRaw}}
	rivalL     = rival{"DPT-L", Polling{Policy: dpt.DPTL, SD: dpt.SDRaw}}
	foldedL    = rival{"DPT-L, folded sd", Polling{Policy: dpt.DPTL}}
	rivalHZ    = rival{"HZ", Polling{Policy: dpt.HZ}}
	rivalBB    = rival{"BB, times hidden", Polling{Policy: dpt.BB, Hidden: true}}
)

const rawNote = "DPT takes the standard deviation of the intervals as they are, as the paper " +
	"seems to; folded, of the intervals less their whole periods."

// pollSetting is a source in a figure and where it is drawn.
type pollSetting struct {
	x      float64
	period time.Duration
	source func(run int) (Trace, error)
}

// pollTable are the results of all runs by setting and rival.
type pollTable struct {
	rivals   []rival
	settings []pollSetting
	results  [][][]PollingResult
}

// compare lets every rival poll every source. In each run fixed polling has one phase:
// the runs of one setting have them at equal distances.
func (s PollingStudy) compare(settings []pollSetting, rivals []rival, runs int) (
	*pollTable, error) {
	t := &pollTable{rivals, settings, make([][][]PollingResult, len(settings))}
	for k := range settings {
		t.results[k] = make([][]PollingResult, len(rivals))
		for j := range rivals {
			t.results[k][j] = make([]PollingResult, runs)
		}
	}
	faults := make([]error, len(settings)*runs)
	s.each(len(faults), func(job int) {
		k, run := job/runs, job%runs
		trace, err := settings[k].source(run)
		for j, r := range rivals {
			if err != nil {
				break
			}
			p := r.polling
			if p.Period == 0 {
				p.Period = settings[k].period
			}
			var got *pollRun
			phase := (float64(run) + 0.5) / float64(runs)
			if got, err = p.run(trace.Name, trace.Instants, phase); err == nil {
				t.results[k][j][run] = got.result(p.Policy, trace.Name)
			}
		}
		faults[job] = err
	})
	for _, err := range faults {
		if err != nil {
			return nil, err
		}
	}
	return t, nil
}

func (s PollingStudy) each(n int, f func(i int)) {
	EasiCrawl{Workers: s.Workers, Progress: s.Progress}.each(n, f)
}

// runs is Runs or the figure's own number.
func (s PollingStudy) runs(own int) int {
	if s.Runs > 0 {
		return s.Runs
	}
	return own
}

// pollMeasure is what a panel shows of results.
type pollMeasure struct {
	title, label, unit string
	of                 func(PollingResult) float64
}

var (
	medianLatency = pollMeasure{"median latency", "latency", "s",
		func(r PollingResult) float64 { return r.Latency.Median }}
	meanLatency = pollMeasure{"mean latency", "latency", "s",
		func(r PollingResult) float64 { return r.Latency.Mean }}
	p95Latency = pollMeasure{"95th percentile of latency", "latency", "s",
		func(r PollingResult) float64 { return r.Latency.P95 }}
	sdLatency = pollMeasure{"standard deviation of latency", "latency", "s",
		func(r PollingResult) float64 { return r.Latency.SD }}
	hitShare = pollMeasure{"hit percentage", "hits in polls", "%",
		func(r PollingResult) float64 { return 100 * r.HitRatio }}
	pollLoad = pollMeasure{"polls per publication", "polls per publication", "",
		func(r PollingResult) float64 { return r.PPE }}
)

// minutes is a measure of latency in minutes.
func (m pollMeasure) minutes() pollMeasure {
	return pollMeasure{m.title, m.label, "min",
		func(r PollingResult) float64 { return m.of(r) / 60 }}
}

// panel shows a measure of all rivals.
func (t *pollTable) panel(m pollMeasure, x figure.Axis, style figure.Style) figure.Panel {
	p := figure.Panel{Title: m.title, X: x, Y: figure.Axis{Label: m.label, Unit: m.unit}}
	for j, r := range t.rivals {
		s := figure.Series{Name: r.name, Style: style}
		for k := range t.settings {
			s.Points = append(s.Points, t.point(k, j, m))
		}
		p.Series = append(p.Series, s)
	}
	return p
}

// point is a measure over the runs of rival j in setting k.
func (t *pollTable) point(k, j int, m pollMeasure) figure.Point {
	var values []float64
	for _, r := range t.results[k][j] {
		values = append(values, m.of(r))
	}
	return figure.Over(t.settings[k].x, values)
}

// at is the point of a rival at x.
func (t *pollTable) at(x float64, name string, m pollMeasure) figure.Point {
	for k := range t.settings {
		for j, r := range t.rivals {
			if t.settings[k].x == x && r.name == name {
				return t.point(k, j, m)
			}
		}
	}
	panic("sim: no rival " + name) // names and settings are constants of this package
}

// model is a setting of the traffic model.
func (s PollingStudy) model(x float64, traffic Traffic, publications int) pollSetting {
	return pollSetting{x, traffic.Period, func(run int) (Trace, error) {
		instants, err := traffic.Publish(s.Seed+uint64(run)<<32, Epoch, publications)
		return Trace{Name: "model", Instants: instants}, err
	}}
}
