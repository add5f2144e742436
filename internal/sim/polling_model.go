package sim

import (
	"fmt"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/figure"
)

// The source of the paper's simulations publishes every 300 s. It does not tell the
// jitter; that of its traces is about ten seconds.
const (
	paperPeriod = 300 * time.Second
	paperJitter = 10 * time.Second
)

// phases is figure 4: fixed polling of a source on a wall clock, as delay pacing has no
// phase to keep.
func (s PollingStudy) phases() (*figure.Figure, error) {
	const publications = 1000
	traffic := Traffic{Period: paperPeriod, PSS: 0.95, PFS: 0.8, Jitter: 5 * time.Second,
		Pacing: WallClockPacing}
	runs := s.runs(20)
	instants, err := traffic.Publish(s.Seed, Epoch, publications)
	if err != nil {
		return nil, err
	}
	source := func(int) (Trace, error) { return Trace{Name: "model", Instants: instants}, nil }
	intervals := []float64{5, 15, 30, 60, 100, 150, 200, 250, 290, 300, 310, 350, 400, 450, 500,
		550, 600}
	var settings []pollSetting
	for _, x := range intervals {
		settings = append(settings, pollSetting{x, fromSeconds(x), source})
	}
	t, err := s.compare(settings, []rival{rivalFixed}, runs)
	if err != nil {
		return nil, err
	}
	byPhase := figure.Series{Name: rivalFixed.name}
	for run := range runs {
		x := (float64(run) + 0.5) / float64(runs) * paperPeriod.Seconds()
		byPhase.Points = append(byPhase.Points, figure.At(x, t.results[9][0][run].Latency.Mean))
	}
	x := figure.Axis{Label: "polling interval", Unit: "s"}
	at := func(x float64) figure.Point { return t.at(x, rivalFixed.name, meanLatency) }
	fact := func(name string, value float64, paper string) figure.Fact {
		return figure.Fact{Name: "mean latency, interval " + name, Value: value, Unit: "s", Paper: paper}
	}
	return &figure.Figure{ID: "polling-4", Source: "DPT, Fig. 4",
		Title: "Fixed polling of a source of 300 s, over phases",
		Panels: []figure.Panel{t.panel(meanLatency, x, figure.Line), t.panel(hitShare, x, figure.Line),
			{Title: "mean latency at an interval of 300 s", Series: []figure.Series{byPhase},
				X: figure.Axis{Label: "publication to poll, phase", Unit: "s"},
				Y: figure.Axis{Label: "latency", Unit: "s"}}},
		Facts: []figure.Fact{
			fact("600 s", at(600).Mean, "half the interval"),
			fact("150 s", at(150).Mean, "half the interval"),
			fact("300 s, best phase", at(300).Min, "about 0"),
			fact("300 s, worst phase", at(300).Max, "299 s"),
			fact("5 s", at(5).Mean, "2.5 s"),
			{Name: "polls in vain, interval 5 s", Unit: "%", Paper: "98 %",
				Value: 100 - t.at(5, rivalFixed.name, hitShare).Mean},
		},
		Notes: []string{"The source keeps to a wall clock, p_ss 0.95, p_fs 0.8, jitter 5 s."}}, nil
}

// losses are figures 19 and 20.
func (s PollingStudy) losses(number string, pfs float64) (*figure.Figure, error) {
	const publications = 1000
	var settings []pollSetting
	for _, pss := range []float64{0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1} {
		settings = append(settings, s.model(pss, Traffic{Period: paperPeriod, PSS: pss, PFS: pfs,
			Jitter: paperJitter, Pacing: DelayPacing}, publications))
	}
	rivals := []rival{rivalFixed, rivalA, rivalN, rivalL, foldedL, rivalHZ}
	t, err := s.compare(settings, rivals, s.runs(20))
	if err != nil {
		return nil, err
	}
	x := figure.Axis{Label: "p_ss"}
	f := &figure.Figure{ID: "polling-" + number, Source: "DPT, Fig. " + number,
		Title: fmt.Sprintf("Policies by loss, p_fs %v, jitter %v", pfs, paperJitter),
		Notes: []string{rawNote, "Fixed polling is every 300 s; best and worst are those of " +
			"the phases of the runs.",
			"12.2 % of Laplace jitter is beyond a standard deviation, not 7 % as the paper says: " +
				"so much DPT-L misses without any loss, and each miss costs it a period."}}
	for _, m := range []pollMeasure{meanLatency, medianLatency, sdLatency, hitShare} {
		f.Panels = append(f.Panels, t.panel(m, x, figure.Line))
	}
	fact := func(name string, value float64, unit, paper string) {
		f.Facts = append(f.Facts, figure.Fact{Name: name, Value: value, Unit: unit, Paper: paper})
	}
	fixed := t.at(0.95, "fixed", meanLatency)
	fact("mean latency at p_ss 0.95, fixed", fixed.Mean, "s", "about 150 s")
	for _, pss := range []float64{0.8, 0.9, 0.95} {
		best := t.at(pss, "fixed", meanLatency).Min
		for _, r := range rivals[1:] {
			fact(fmt.Sprintf("mean latency at p_ss %v, %s / best fixed phase", pss, r.name),
				t.at(pss, r.name, meanLatency).Mean/best, "", "at most about 1 above 0.8")
		}
		fact(fmt.Sprintf("sd of latency at p_ss %v, DPT-L / fixed", pss),
			t.at(pss, "DPT-L", sdLatency).Mean/t.at(pss, "fixed", sdLatency).Mean, "",
			"below 1 above 0.8")
	}
	for _, r := range rivals {
		fact("hits at p_ss 0.95, "+r.name, t.at(0.95, r.name, hitShare).Mean, "%",
			map[string]string{"DPT-A": "lowest", "DPT-L": "highest, above fixed"}[r.name])
	}
	return f, nil
}

// bimodal is figure 22: batched at daytime and published in the evening, at once at night.
func (s PollingStudy) bimodal() (*figure.Figure, error) {
	const days = 20
	const dpt2days = 48 * time.Hour // the paper's largest delay
	bases := []float64{2, 5, 10, 30}
	var settings []pollSetting
	for _, minutes := range bases {
		period := fromSeconds(60 * minutes)
		settings = append(settings, s.model(minutes, Traffic{Period: period, PSS: 1, PFS: 1,
			Jitter: period / 30, Pacing: WallClockPacing, Batches: &Batches{Silent: 6 * time.Hour,
				Online: 18 * time.Hour, Jitter: 10 * time.Minute, Spacing: time.Second}},
			int(days*day/period)))
	}
	fixed := func(p time.Duration) Polling { return Polling{Policy: dpt.Fixed, Period: p} }
	rivals := []rival{{"fixed, 1 day", fixed(day)}, {"fixed, 1 h", fixed(time.Hour)},
		{"DPT-L", Polling{Policy: dpt.DPTL, SD: dpt.SDRaw, MaxGap: dpt2days}},
		{"DPT-L, bimodal", Polling{Policy: dpt.Bimodal, MaxGap: dpt2days}},
		{"HZ", Polling{Policy: dpt.HZ, MaxGap: dpt2days}}}
	t, err := s.compare(settings, rivals, s.runs(fixedPhases))
	if err != nil {
		return nil, err
	}
	x := figure.Axis{Label: "period at night", Unit: "min", Log: true}
	latency := meanLatency.minutes()
	byDay := t.panel(latency, x, figure.Line)
	byDay.Y.Log = true
	f := &figure.Figure{ID: "polling-22", Source: "DPT, Fig. 22",
		Title:  "Batched at daytime, at once at night: DPT-L with and without second interval",
		Panels: []figure.Panel{byDay, t.panel(hitShare, x, figure.Line)},
		Notes: []string{"The paper's trace is not published. Here a sensor is silent from 06:00 " +
			"to 18:00 and publishes then what it has kept, 10 min sooner or later; fixed polling " +
			"is the mean of ten phases; the largest gap is two days."}}
	papers := map[string][2]string{"fixed, 1 day": {"about 12 h", "100 %"},
		"fixed, 1 h": {"18 min", "51 %"}, "DPT-L": {"16 min", "below 51 %"},
		"DPT-L, bimodal": {"24 min", "59 %"}}
	for _, r := range rivals {
		f.Facts = append(f.Facts,
			figure.Fact{Name: "mean latency at 5 min, " + r.name, Value: t.at(5, r.name, latency).Mean,
				Unit: "min", Paper: papers[r.name][0]},
			figure.Fact{Name: "hits at 5 min, " + r.name, Value: t.at(5, r.name, hitShare).Mean,
				Unit: "%", Paper: papers[r.name][1]})
	}
	return f, nil
}
