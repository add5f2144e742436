package sim

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/figure"
	"github.com/crawld/crawld/internal/visit"
)

// pollGroup are sources that are republished together as soon as AtLeast of them have
// published since (DPT paper, 6.5 and 7.7).
type pollGroup struct {
	sources  [][]time.Time
	atLeast  int
	from, to time.Time // what is judged
}

// meeting is what became of a policy: how long after its condition came true a group was
// republished, in s, and in how many looks that were to republish it.
type meeting struct {
	latencies []float64
	attempts  int
}

// groupSource is a source and its tracker.
type groupSource struct {
	pollSource
	tracker *dpt.Tracker
	before  int // publications that have been republished
}

// look reports whether anything is new.
func (s *groupSource) look(at time.Time) bool {
	o, fresh := s.poll(at)
	s.tracker.Observe(o)
	return len(fresh) > 0
}

func (s *groupSource) expected(now time.Time) dpt.Expected {
	at, _ := s.tracker.Next(now, 1)
	_, sd, _, _ := s.tracker.Stats()
	return dpt.Expected{At: at, Late: sd}
}

// members begin at from, with DPT-L as the paper has it.
func (g pollGroup) members(from time.Time) ([]*groupSource, error) {
	var list []*groupSource
	for _, instants := range g.sources {
		p := Polling{Policy: dpt.DPTL}
		params, err := p.params("group", instants)
		if err != nil {
			return nil, err
		}
		list = append(list, &groupSource{pollSource: pollSource{publications: instants},
			tracker: dpt.NewTracker(params, from)})
	}
	return list, nil
}

// republished notes a republication at `at`: the condition was met by the publication that
// made it true, or when the group was last republished.
func (m *meeting) republished(g pollGroup, members []*groupSource, last, at time.Time) {
	var first []time.Time
	for _, s := range members {
		if s.before < len(s.publications) {
			first = append(first, s.publications[s.before])
		}
		s.before = s.read
	}
	slices.SortFunc(first, time.Time.Compare)
	met := first[g.atLeast-1]
	if last.After(met) {
		met = last
	}
	if !at.Before(g.from) {
		m.latencies = append(m.latencies, at.Sub(met).Seconds())
	}
}

// mdpt lets the daemon's MDPT say when to look.
func (g pollGroup) mdpt(from time.Time) (meeting, error) {
	var m meeting
	group, err := dpt.NewMDPT(dpt.Condition{Sources: len(g.sources), AtLeast: g.atLeast,
		MinGap: pollingMinGap, Floor: dpt.DefaultFloor})
	if err != nil {
		return m, err
	}
	members, err := g.members(from)
	if err != nil {
		return m, err
	}
	for i, s := range members {
		group.Expect(i, s.expected(from))
	}
	last := from
	for now := from; ; {
		step, ok := group.Next(now)
		if !ok {
			return m, fmt.Errorf("group of %d sources: %s", len(members), step.Why)
		}
		if now = step.At; now.After(g.to) {
			return m, nil
		}
		if step.Republish {
			m.republished(g, members, last, now)
			group.Republished()
			last = now
			continue
		}
		if group.Ready() < g.atLeast && !now.Before(g.from) {
			m.attempts++
		}
		for _, i := range step.Looks {
			group.Begin(i)
		}
		for _, i := range step.Looks {
			hit := members[i].look(now)
			group.Observe(i, now, hit, members[i].expected(now))
		}
	}
}

// fixed looks at all sources at an interval.
func (g pollGroup) fixed(from time.Time, interval time.Duration, phase float64) (meeting, error) {
	var m meeting
	members, err := g.members(from)
	if err != nil {
		return m, err
	}
	contact := from.Add(-time.Duration(phase * float64(interval)))
	tracker := dpt.NewTracker(dpt.Params{Policy: dpt.Fixed, Bootstrap: interval,
		MinGap: pollingMinGap, MaxGap: interval}, contact)
	ready := map[int]bool{}
	last := from
	for now := from; ; {
		now, _ = tracker.Next(now, 1)
		if now.After(g.to) {
			return m, nil
		}
		tracker.Observe(visit.Outcome{Visit: visit.Visit{At: now, Kind: visit.Poll},
			Result: visit.Unchanged, Contact: true, Started: now, Ended: now})
		for i, s := range members {
			if _, fresh := s.poll(now); len(fresh) > 0 {
				ready[i] = true
			}
		}
		if !now.Before(g.from) {
			m.attempts++
		}
		if len(ready) >= g.atLeast {
			m.republished(g, members, last, now)
			clear(ready)
			last = now
		}
	}
}

// groupRival is a way to look at a group; interval 0 is MDPT.
type groupRival struct {
	name           string
	interval       time.Duration
	latency, share string // the paper's
}

// groupPanels hold the rivals' latency and hits by x. draw makes the group of a run.
func (s PollingStudy) groupPanels(rivals []groupRival, xs []float64, x figure.Axis, unit float64,
	draw func(x float64, run int) (pollGroup, error)) ([]figure.Panel, []figure.Fact, error) {
	runs := s.runs(fixedPhases)
	var latency, hits curves
	for _, at := range xs {
		for run := range runs {
			g, err := draw(at, run)
			if err != nil {
				return nil, nil, err
			}
			for _, r := range rivals {
				m, err := r.meet(g, (float64(run)+0.5)/float64(runs))
				if err != nil {
					return nil, nil, err
				}
				if len(m.latencies) == 0 {
					return nil, nil, fmt.Errorf("%s: the group was never republished", r.name)
				}
				latency.add(r.name, at, meanHours(m.latencies)/unit)
				hits.add(r.name, at, 100*float64(len(m.latencies))/math.Max(float64(m.attempts), 1))
			}
		}
	}
	var facts []figure.Fact
	for _, r := range rivals {
		facts = append(facts,
			figure.Fact{Name: "republishing latency, " + r.name, Value: latency.mean(r.name, xs[0]),
				Unit: "min", Paper: r.latency},
			figure.Fact{Name: "republishing hits, " + r.name, Value: hits.mean(r.name, xs[0]),
				Unit: "%", Paper: r.share})
	}
	panel := func(title, label, unit string, c curves) figure.Panel {
		p := figure.Panel{Title: title, X: x, Y: figure.Axis{Label: label, Unit: unit},
			Series: c.series()}
		for i := range p.Series {
			p.Series[i].Style = figure.Bars
		}
		return p
	}
	return []figure.Panel{panel("mean republishing latency", "latency", "min", latency),
		panel("republishing hit percentage", "republications in looks", "%", hits)}, facts, nil
}

func (r groupRival) meet(g pollGroup, phase float64) (meeting, error) {
	if r.interval == 0 {
		return g.mdpt(Epoch)
	}
	return g.fixed(Epoch, r.interval, phase)
}

// rendezvous is figure 23.
func (s PollingStudy) rendezvous() (*figure.Figure, error) {
	const days = 40
	rivals := []groupRival{{"MDPT", 0, "48 s", "96 %"}, {"fixed, 60 min", time.Hour, "", ""},
		{"fixed, 30 min", 30 * time.Minute, "", ""},
		{"fixed, 15 min", 15 * time.Minute, "7.8 min", "47 %"}}
	periods := []time.Duration{500 * time.Second, time.Hour, time.Hour}
	draw := func(jitter float64, run int) (pollGroup, error) {
		g := pollGroup{atLeast: 2, from: Epoch.Add(2 * day), to: Epoch.Add(days * day)}
		for i, period := range periods {
			traffic := Traffic{Period: period, PSS: 0.95, PFS: 0.8, Jitter: fromSeconds(jitter),
				Pacing: WallClockPacing}
			at, err := traffic.Publish(s.Seed+uint64(run)<<32+uint64(i)<<16,
				Epoch.Add(time.Duration(i)*20*time.Minute), int((days+1)*day/period))
			if err != nil {
				return g, err
			}
			g.sources = append(g.sources, at)
		}
		return g, nil
	}
	panels, facts, err := s.groupPanels(rivals, []float64{1, 5, 10},
		figure.Axis{Label: "jitter, standard deviation", Unit: "s"}, 60, draw)
	return &figure.Figure{ID: "polling-23", Source: "DPT, Fig. 23", Panels: panels, Facts: facts,
		Title: "Two of three sources: 500 s, 1 h, 1 h",
		Notes: []string{"p_ss 0.95, p_fs 0.8, phases 0, 20 and 40 min, wall-clock pacing; the " +
			"paper does not tell its jitter, the numbers are for 1 s.", fmt.Sprintf("MDPT looks %v "+
			"after a source is expected at the least: a look that is early costs the period of "+
			"that source.", dpt.DefaultFloor), "The first two days are MDPT's to learn."}}, err
}

// traceRendezvous is figure 24: three sources of five minutes that lose and jitter, in
// parts of their period, as the traces do.
func (s PollingStudy) traceRendezvous() (*figure.Figure, error) {
	const days = 12
	var models []Traffic
	var names []string
	for _, t := range s.Traces {
		fit, err := FitTraffic(t)
		if err != nil {
			return nil, err
		}
		m := fit.Traffic()
		if m.Jitter < m.Period/1000 { // a clock that is exact shows nothing
			continue
		}
		m.Jitter = time.Duration(float64(m.Jitter) * float64(paperPeriod) / float64(m.Period))
		m.Period, m.OutageChance, m.Outage = paperPeriod, 0, 0
		models, names = append(models, m), append(names, t.Name)
	}
	if len(models) == 0 {
		return nil, errors.New("figure 24: no trace with jitter")
	}
	rivals := []groupRival{{"MDPT", 0, "1.5 min", "89 %"},
		{"fixed, 10 min", 10 * time.Minute, "", "about that of MDPT"},
		{"fixed, 5 min", 5 * time.Minute, "", ""},
		{"fixed, 3 min", 3 * time.Minute, "above MDPT's", ""}}
	draw := func(m float64, run int) (pollGroup, error) {
		g := pollGroup{atLeast: int(m), from: Epoch.Add(day / 2), to: Epoch.Add(days * day)}
		for i := range 3 {
			model := models[i%len(models)]
			at, err := model.Publish(s.Seed+uint64(run)<<32+uint64(i)<<16,
				Epoch.Add(time.Duration(i)*100*time.Second), int((days+1)*day/paperPeriod))
			if err != nil {
				return g, err
			}
			g.sources = append(g.sources, at)
		}
		return g, nil
	}
	panels, facts, err := s.groupPanels(rivals, []float64{2, 3},
		figure.Axis{Label: "sources needed, of three"}, 60, draw)
	return &figure.Figure{ID: "polling-24", Source: "DPT, Fig. 24", Panels: panels, Facts: facts,
		Title: "Two of three sources of five minutes with the jitter of traces",
		Notes: []string{fmt.Sprintf("The paper's traces are not published. Period, phases and "+
			"lengths are made; losses and jitter, in parts of the period, are those of %v.", names),
			"The numbers are for two of three."}}, err
}
