package sim

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/crawld/crawld/internal/figure"
)

// figure shows what was measured, and the paper's claims beside it.
func (r *discoveryRun) figure() *figure.Figure {
	objects := figure.Axis{Label: "objects", Log: true}
	clients := figure.Axis{Label: "clients", Log: true}
	perSecond := func(what string) figure.Axis {
		return figure.Axis{Label: what + " per second", Log: true}
	}
	f := &figure.Figure{
		ID:     "discovery",
		Title:  "Discovery Services by objects and by clients",
		Source: "A Scalable and High-efficiency Discovery Service, Fig. 7 to 10",
		Panels: []figure.Panel{
			{Title: "time of a trace", X: objects,
				Y: figure.Axis{Label: "median time", Unit: "us", Log: true}, Series: r.times.series()},
			{Title: "size", X: objects,
				Y: figure.Axis{Label: "on disk", Unit: "MB", Log: true}, Series: r.sizes.series()},
			{Title: "traces by several clients", X: clients, Y: perSecond("traces"),
				Series: r.traces.series()},
			{Title: "durable publishes of 20 objects", X: clients, Y: perSecond("publishes"),
				Series: r.publishes.series()},
		},
		Notes: r.notes(),
	}
	f.Facts = slices.Concat(r.dataFacts(), r.growthFacts(), r.clientFacts())
	return f
}

func (r *discoveryRun) dataFacts() []figure.Fact {
	n := r.Objects[len(r.Objects)-1]
	facts := []figure.Fact{
		{Name: "events per object", Value: float64(r.events) / float64(n), Paper: "about 1.1"},
		{Name: "events in the shortest trace", Value: float64(r.shortest), Paper: "12"},
		{Name: "events in the longest trace", Value: float64(r.longest), Paper: "18"},
	}
	for _, s := range r.Stores {
		if s.Load != nil {
			facts = append(facts, figure.Fact{Name: fmt.Sprintf("loading %d objects, %s", n, s.Name),
				Value: r.loading[s.Name].Seconds(), Unit: "s"})
		}
	}
	return facts
}

// growthFacts are on experiments 1 and 2.
func (r *discoveryRun) growthFacts() []figure.Fact {
	first, last := float64(r.Objects[0]), float64(r.Objects[len(r.Objects)-1])
	facts := []figure.Fact{{
		Name:  fmt.Sprintf("median trace of crawld, %.0f / %.0f objects", last, first),
		Value: r.times.mean(DiscoveryOurs, last) / r.times.mean(DiscoveryOurs, first),
		Paper: "no obvious growth",
	}}
	for _, name := range r.times.names {
		if name == DiscoveryOurs || name == DiscoveryHTTP || r.slow[name] > 0 {
			continue
		}
		f := figure.Fact{Name: fmt.Sprintf("median trace at %.0f objects, crawld / %s", last, name),
			Value: 100 * r.times.mean(DiscoveryOurs, last) / r.times.mean(name, last), Unit: "%"}
		if name == DiscoveryChatty {
			f.Paper = "below 10 %"
		}
		facts = append(facts, f)
	}
	for _, pair := range []struct{ over, under, paper string }{
		{DiscoveryOurs, DiscoveryMode2, "about 1.3"},
		{DiscoveryMode2, DiscoveryMode1, "nearly 3"},
	} {
		if slices.Contains(r.sizes.names, pair.under) {
			facts = append(facts, figure.Fact{
				Name:  fmt.Sprintf("size at %.0f objects, %s / %s", last, pair.over, pair.under),
				Value: r.sizes.mean(pair.over, last) / r.sizes.mean(pair.under, last), Paper: pair.paper})
		}
	}
	return facts
}

// clientFacts are on experiments 3 and 4: each contender at its best number of clients.
func (r *discoveryRun) clientFacts() []figure.Fact {
	var facts []figure.Fact
	add := func(what string, c *curves, our, rival, paper string) {
		if slices.Contains(c.names, our) && slices.Contains(c.names, rival) {
			facts = append(facts, figure.Fact{
				Name:  fmt.Sprintf("most %s per second, %s / %s", what, our, rival),
				Value: r.best(c, our) / r.best(c, rival), Paper: paper})
		}
	}
	for _, our := range []string{DiscoveryOurs, DiscoveryHTTP} {
		add("traces", &r.traces, our, DiscoveryStatement, "")
		add("traces", &r.traces, our, DiscoveryChatty, "about 200")
	}
	add("publishes", &r.publishes, DiscoveryOurs, DiscoveryArrays, "about 5")
	add("publishes", &r.publishes, DiscoveryOurs, DiscoveryRows, "about 5")
	return facts
}

func (r *discoveryRun) best(c *curves, name string) float64 {
	most := 0.0
	for _, clients := range r.Clients {
		most = max(most, c.mean(name, float64(clients)))
	}
	return most
}

func (r *discoveryRun) notes() []string {
	notes := []string{
		fmt.Sprintf("Means and extremes are of %d blocks of at most %v for each contender, in turns, "+
			"after one that warms up; a block of single traces is their median, and warming up asks "+
			"for a tenth of the articles, or for as many as %v allow.", r.Runs,
			r.Block.Round(time.Millisecond), warmBlocks*r.Block),
		fmt.Sprintf("Clients and services share %d processors of one machine; the paper has one "+
			"machine for MySQL and three for HBase.", runtime.GOMAXPROCS(0)),
		fmt.Sprintf("All contenders find the same events for %d articles at each size.", compared),
		"A published event sees 20 articles anywhere, so that it touches 20 pages. bbolt copies what " +
			"it changes and has one writer: publishers that wait share a commit. An engine that only " +
			"appends, such as HBase's, writes less.",
	}
	for _, t := range r.Tracers {
		if n := r.slow[t.Name]; n > 0 {
			notes = append(notes, fmt.Sprintf("%s is given up at %d objects: a trace takes longer than "+
				"its time-out.", t.Name, n))
		}
	}
	return append(notes, r.Notes...)
}
