package sim

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

// figure23 is a group as the DPT paper's figure 23 has it, drawn as `simulate polling` does.
func figure23(t *testing.T, seed uint64, days int) pollGroup {
	t.Helper()
	g := pollGroup{atLeast: 2, from: Epoch.Add(2 * day), to: Epoch.Add(time.Duration(days) * day)}
	for i, period := range []time.Duration{500 * time.Second, time.Hour, time.Hour} {
		traffic := Traffic{Period: period, PSS: 0.95, PFS: 0.8, Jitter: time.Second,
			Pacing: WallClockPacing}
		at, err := traffic.Publish(seed+uint64(i)<<16, Epoch.Add(time.Duration(i)*20*time.Minute),
			int(time.Duration(days+1)*day/period))
		if err != nil {
			t.Fatal(err)
		}
		g.sources = append(g.sources, at)
	}
	return g
}

// planned lets the planner visit the group's sources, which never sleep and do not say so,
// and republishes as the repository does. With timed it is told of the group.
func (g pollGroup) planned(t *testing.T, timed bool) (m meeting, polls int) {
	t.Helper()
	par := planner.Parameters{Range: time.Hour, Tick: 100 * time.Millisecond, Step: 1, GuardAuto: true,
		PerSensor: 30, Polling: dpt.Params{Policy: dpt.DPTL, Bootstrap: 5 * time.Minute,
			MinGap: time.Second, MaxGap: 4 * time.Hour}}
	def := planner.Group{ID: "house", AtLeast: g.atLeast}
	cfg := Config{Start: Epoch, Duration: g.to.Sub(Epoch), Seed: 3}
	members, sources := make([]*groupSource, len(g.sources)), map[string]*groupSource{}
	for i, at := range g.sources {
		id := fmt.Sprintf("s%d", i)
		def.Members = append(def.Members, id)
		members[i] = &groupSource{pollSource: pollSource{publications: at}}
		sources[id] = members[i]
		cfg.Sensors = append(cfg.Sensors, Sensor{Plan: sleepplan.AlwaysOn(), Events: at, Logs: true,
			Listed: fleet.Sensor{ID: id, URI: "coap://" + id + ".example", Weight: 1,
				MaxCrawls: fleet.NoCap, Rate: 1. / 3600}})
	}
	if timed {
		par.Groups = []planner.Group{def}
	}
	ready, last := map[string]bool{}, Epoch
	cfg.Parameters = par
	cfg.Outcome = func(o visit.Outcome) {
		if !o.Started.Before(g.from) {
			polls++
		}
		if _, fresh := sources[o.Sensor].poll(o.Started); len(fresh) == 0 {
			return
		}
		if ready[o.Sensor] = true; len(ready) >= g.atLeast {
			m.republished(g, members, last, o.Started)
			clear(ready)
			last = o.Started
		}
	}
	if _, err := Run(cfg); err != nil {
		t.Fatal(err)
	}
	return m, polls
}

// The set-up of the DPT paper's figure 23 through the planner: with its groups it looks less
// often, and republishes as soon as `simulate polling --figure 23` says of MDPT.
func TestPlannerTimesGroups(t *testing.T) {
	days := trials(12, 40)
	var alone, timed, mdpt []float64
	var alonePolls, timedPolls int
	for run := range uint64(3) {
		g := figure23(t, 1+run<<32, days)
		m, polls := g.planned(t, false)
		alone, alonePolls = append(alone, m.latencies...), alonePolls+polls
		m, polls = g.planned(t, true)
		timed, timedPolls = append(timed, m.latencies...), timedPolls+polls
		m, err := g.mdpt(Epoch)
		if err != nil {
			t.Fatal(err)
		}
		mdpt = append(mdpt, m.latencies...)
	}
	t.Logf("latency, s, median and mean: alone %.1f %.1f, timed %.1f %.1f, MDPT of the figure %.1f "+
		"%.1f; polls per snapshot: alone %.2f, timed %.2f; snapshots %d, %d, %d", median(alone),
		mean(alone), median(timed), mean(timed), median(mdpt), mean(mdpt),
		float64(alonePolls)/float64(len(alone)), float64(timedPolls)/float64(len(timed)), len(alone),
		len(timed), len(mdpt))
	if len(mdpt) < 300 || float64(len(timed)) < .98*float64(len(mdpt)) || len(timed) < len(alone) {
		t.Error("too few snapshots")
	}
	if mean(timed) > 1.1*mean(mdpt)+2 || median(timed) > 1.1*median(mdpt)+2 {
		t.Error("later than MDPT of the figure")
	}
	if mean(timed) > mean(alone)/3 || timedPolls > alonePolls/2 {
		t.Error("no better than without groups")
	}
}

func median(x []float64) float64 { return slices.Sorted(slices.Values(x))[len(x)/2] }

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
