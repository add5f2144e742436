package sim

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/visit"
)

const shippedEvents = "../../docs/data/easicrawl_events.csv"

func shippedStreams(tb testing.TB) []Stream {
	tb.Helper()
	file, err := os.Open(shippedEvents)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	streams, err := ReadEvents(shippedEvents, file)
	if err != nil {
		tb.Fatal(err)
	}
	return streams
}

func shippedStudy(tb testing.TB, change func(*CaseStudy)) *CaseResult {
	tb.Helper()
	c := CaseStudy{Streams: shippedStreams(tb), Night: []string{"temp", "rh"}, Theta: 2,
		Runs: trials(3, 20), Seed: 1}
	if change != nil {
		change(&c)
	}
	res, err := c.Run()
	if err != nil {
		tb.Fatal(err)
	}
	return res
}

var sharedOnce struct {
	sync.Once
	res *CaseResult
}

// sharedStudy is the shipped events at two crawls per stream and day.
func sharedStudy(tb testing.TB) *CaseResult {
	sharedOnce.Do(func() {
		sharedOnce.res = shippedStudy(tb, nil)
		if err := sharedOnce.res.DrawHours(); err != nil {
			tb.Fatal(err)
		}
	})
	return sharedOnce.res
}

// caseOrder is how many times the mean latency of better is at least below that of
// worse.
type caseOrder struct {
	better, worse string
	times         float64
}

func disordered(policies []CasePolicy, orders ...caseOrder) (faults []string) {
	for _, o := range orders {
		if b, w := caseMean(policies, o.better), caseMean(policies, o.worse); !(b*o.times <= w) {
			faults = append(faults, fmt.Sprintf("%s %.3f h, %s %.3f h: not %v times",
				o.better, b, o.worse, w, o.times))
		}
	}
	return faults
}

// EasiCrawl is 1.5 times better than RandomCrawl, and better still where the events of a
// day may come at any awake hour, as plans assume: of the real ones half come between
// 17:00 and midnight, when the one crawl comes that RandomCrawl is sure to make. In one
// fleet of both sites it is a little less.
func TestCaseStudyOrder(t *testing.T) {
	unbound := []caseOrder{{CaseOurs, CasePaper, 1}, {CasePaper, CaseSnapped, 1},
		{CasePaper, CaseRandom, 1.6}}
	res := sharedStudy(t)
	bound := []caseOrder{{CaseOurs, CasePaper, 1.05}, {CasePaper, CaseSnapped, 1},
		{CasePaper, CaseRandom, 1.5}}
	for _, fault := range append(disordered(res.Policies, bound...),
		disordered(res.Unbound, unbound...)...) {
		t.Error(fault)
	}
	together := shippedStudy(t, func(c *CaseStudy) { c.Together, c.Runs = true, 1 })
	for _, fault := range disordered(together.Policies, caseOrder{CaseOurs, CasePaper, 1.2},
		caseOrder{CasePaper, CaseRandom, 1.35}) {
		t.Errorf("together: %s", fault)
	}
	for _, r := range []*CaseResult{res, together} {
		for _, p := range r.Policies {
			t.Logf("together %t: %s %.3f h", r.Study.Together, p.Name, caseMean(r.Policies, p.Name))
		}
	}
}

// At one crawl per stream and day the paper's policies have no choice left: each
// stream is crawled at its last awake instant.
func TestCaseStudyOneCrawlADay(t *testing.T) {
	res := shippedStudy(t, func(c *CaseStudy) { c.Theta, c.Runs = 1, 1 })
	forced := caseMean(res.Policies, CasePaper)
	for _, name := range []string{CaseSnapped, CaseRandom} {
		if got := caseMean(res.Policies, name); math.Abs(got-forced) > 1e-9 {
			t.Errorf("%s %v h, %s %v h", name, got, CasePaper, forced)
		}
	}
	for _, fault := range disordered(res.Policies, caseOrder{CaseOurs, CasePaper, 1.05}) {
		t.Error(fault)
	}
}

// The negative control: a RandomCrawl that is given our plans is noticed.
func TestCaseStudyNoticesABaselineWithOurPlans(t *testing.T) {
	var cheat []CasePolicy
	for _, p := range sharedStudy(t).Policies {
		if p.Name == CaseRandom {
			p.Runs = sharedStudy(t).Policies[0].Runs
		}
		cheat = append(cheat, p)
	}
	if disordered(cheat, caseOrder{CasePaper, CaseRandom, 1.3}) == nil {
		t.Error("nothing is noticed")
	}
}

// unfit are the events whose latency is not that to the first crawl at or after
// them, found by looking at every crawl, and the crawls that nobody may make.
func unfit(r *CaseResult, run CaseRun) (faults []string) {
	spent := map[string]int{}
	for i, k := range r.Cases {
		for n, at := range run.Events[i] {
			next := time.Duration(math.MaxInt64)
			for _, crawl := range run.Crawled[i] {
				if !crawl.Before(at) {
					next = min(next, crawl.Sub(at))
				}
			}
			if run.Waits[i][n] != next {
				faults = append(faults, fmt.Sprintf("%s: the event of %v waits %v, the next crawl is %v later",
					k.Name, at, run.Waits[i][n], next))
			}
		}
		for _, crawl := range run.Crawled[i] {
			if !k.Plan.Awake(crawl) {
				faults = append(faults, fmt.Sprintf("%s is crawled asleep at %v", k.Name, crawl))
			}
			spent[fmt.Sprint(k.Site, crawl.Format(time.DateOnly))]++
		}
	}
	for day, n := range spent {
		streams := 0
		for _, k := range r.Cases {
			if strings.HasPrefix(day, fmt.Sprint(k.Site)) {
				streams++
			}
		}
		if n > streams*r.Study.Theta {
			faults = append(faults, fmt.Sprintf("site and day %s: %d crawls of %d streams", day, n, streams))
		}
	}
	return faults
}

// Every event is there once under every policy and waits for the next crawl; all
// are crawled, awake and within the budget.
func TestCaseStudyLatencies(t *testing.T) {
	res := sharedStudy(t)
	events, asleep := 0, 0
	for _, k := range res.Cases {
		events, asleep = events+len(k.Events), asleep+k.Asleep
	}
	if events != 560 || asleep != 28 || res.Cases[len(res.Cases)-1].Site != 1 {
		t.Errorf("%d events, %d asleep, last site %d", events, asleep, res.Cases[len(res.Cases)-1].Site)
	}
	for _, p := range slices.Concat(res.Policies, res.Unbound) {
		for _, run := range p.Runs {
			for _, fault := range unfit(res, run) {
				t.Errorf("%s: %s", p.Name, fault)
			}
			if n := len(run.hours(-1)); n != events || run.Unseen != 0 {
				t.Errorf("%s: %d latencies, %d events not crawled", p.Name, n, run.Unseen)
			}
		}
	}
}

// The negative controls: crawls moved to before the events, one crawl too many.
func TestCaseStudyNoticesMovedCrawls(t *testing.T) {
	res := sharedStudy(t)
	run := res.Policies[0].Runs[0]
	run.Crawled = slices.Clone(run.Crawled)
	honest := run.Crawled[0]
	for i, change := range []func(at time.Time) time.Time{
		func(at time.Time) time.Time { return at.Add(-time.Hour) },
		func(at time.Time) time.Time { return res.Cases[0].Events[0].Add(-time.Minute) },
	} {
		run.Crawled[0] = nil
		for _, at := range honest {
			run.Crawled[0] = append(run.Crawled[0], change(at))
		}
		if len(unfit(res, run)) < 100 {
			t.Errorf("change %d: %d faults noticed", i, len(unfit(res, run)))
		}
	}
	run.Crawled[0] = slices.Concat(honest, honest)
	if len(unfit(res, run)) == 0 {
		t.Error("crawls beyond the budget are not noticed")
	}
}

// Nothing of a plan comes from the future: what happens later changes no crawl.
func TestCaseStudyKnowsOnlyThePast(t *testing.T) {
	cut := time.Date(2004, 11, 1, 0, 0, 0, 0, time.UTC)
	later := shippedStreams(t)
	for i, s := range later {
		if s.Events[0].Before(cut) {
			later[i].Events = slices.DeleteFunc(slices.Clone(s.Events), func(at time.Time) bool {
				return at.After(cut) && at.Hour() != 20
			})
		}
	}
	changed := shippedStudy(t, func(c *CaseStudy) { c.Streams, c.Runs = later, 1 })
	before := func(r *CaseResult, policy, i int) []time.Time {
		crawls := r.Policies[policy].Runs[0].Crawled[i]
		n, _ := slices.BinarySearchFunc(crawls, cut, time.Time.Compare)
		return crawls[:n]
	}
	for p, policy := range changed.Policies {
		differ := false
		for i, k := range changed.Cases {
			if k.Site > 0 {
				continue
			}
			is, was := before(changed, p, i), before(sharedStudy(t), p, i)
			if len(is) < 100 || !slices.EqualFunc(is, was, time.Time.Equal) {
				t.Errorf("%s: %s: %d crawls, then %d, or not the same ones", policy.Name, k.Name,
					len(was), len(is))
			}
			whole := sharedStudy(t).Policies[p].Runs[0].Crawled[i]
			differ = differ || !slices.Equal(whole, policy.Runs[0].Crawled[i])
		}
		if !differ && policy.Name == CaseOurs {
			t.Errorf("%s: never mind what happens", policy.Name)
		}
	}
}

// The same seed gives the same bytes, another one other draws.
func TestCaseStudyIsDeterministic(t *testing.T) {
	render := func(seed uint64) string {
		res := shippedStudy(t, func(c *CaseStudy) { c.Runs, c.Seed = 1, seed })
		var b bytes.Buffer
		picture, err := res.Timeline(time.Time{}, 4)
		if err == nil {
			err = res.Figure().Write(&b, "json")
		}
		if err == nil {
			err = picture.Write(&b, "svg")
		}
		if err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	one := render(1)
	if render(1) != one {
		t.Error("the same seed gives something else")
	}
	if render(2) == one {
		t.Error("another seed gives the same")
	}
}

func TestCaseStudyPicture(t *testing.T) {
	picture, err := sharedStudy(t).Timeline(time.Time{}, 4)
	if err != nil {
		t.Fatal(err)
	}
	events, rows := 0, 0
	for _, r := range picture.Rows {
		for _, m := range r.Marks {
			if m.At.Before(picture.From) || !m.At.Before(picture.To) {
				t.Errorf("%s: a mark at %v", r.Label, m.At)
			}
			if m.Kind.String() == "event" {
				events++
			}
		}
		rows++
	}
	if rows != 8 || events < 16 || picture.To.Sub(picture.From) != 96*time.Hour {
		t.Errorf("%d rows with %d events from %v to %v", rows, events, picture.From, picture.To)
	}
	if _, err := sharedStudy(t).Timeline(time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC), 4); err == nil {
		t.Error("a picture of 1999 has nothing to show")
	}
	for _, days := range []int{0, MaxTimelineDays + 1} {
		if _, err := sharedStudy(t).Timeline(time.Time{}, days); err == nil {
			t.Errorf("a picture of %d days", days)
		}
	}
}

func TestCaseStudyRefuses(t *testing.T) {
	noon := time.Date(2020, 1, 1, 12, 0, 0, 0, time.UTC)
	chain := []Stream{{"a", []time.Time{noon, noon.AddDate(15, 0, 0)}},
		{"b", []time.Time{noon.AddDate(14, 0, 0), noon.AddDate(28, 0, 0)}}}
	for want, c := range map[string]CaseStudy{
		"both must be at least 1": {Streams: chain[:1], Theta: 1},
		"while its stream is awake": {Streams: []Stream{{"room temp", []time.Time{noon}}},
			Night: []string{"TEMP"}, Theta: 1, Runs: 1},
		`stream "b", one with all that it overlaps, is longer than 20 years`: {Streams: chain,
			Theta: 1, Runs: 1},
	} {
		if _, err := c.Run(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// A site of which nothing is left does no harm to the others.
func TestCaseStudySilentSite(t *testing.T) {
	noon := time.Date(2020, 1, 1, 12, 0, 0, 0, time.UTC)
	c := CaseStudy{Night: []string{"temp"}, Theta: 2, Runs: 1, Streams: []Stream{
		{"temp", []time.Time{noon.AddDate(1, 0, 0)}}, {"co", []time.Time{noon}},
		{"temporal-2", []time.Time{noon.Add(9 * time.Hour)}}, {"attempt", []time.Time{noon}}}}
	res, err := c.Run()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, k := range res.Cases {
		names = append(names, fmt.Sprint(k.Name, " ", k.Site, " ", k.Plan.Kind(), " ", len(k.Events)))
	}
	want := []string{"attempt 0 always_on 1", "co 0 always_on 1", "temporal-2 1 weekly 1",
		"temp 2 weekly 0"}
	if !slices.Equal(names, want) {
		t.Errorf("%q, want %q", names, want)
	}
	var b bytes.Buffer
	if err := res.Figure().Write(&b, "csv"); err != nil || strings.Contains(b.String(), "NaN") {
		t.Errorf("%v\n%s", err, &b)
	}
}

func TestQuantile(t *testing.T) {
	for share, want := range map[float64]float64{0: 1, 0.25: 1, 0.26: 2, 0.5: 2, 0.95: 9, 1: 9} {
		if got := caseQuantile([]float64{9, 1, 3, 2}, share); got != want {
			t.Errorf("quantile %v is %v, want %v", share, got, want)
		}
	}
}

// The description of a sensor that logs lists each event once, in the first
// description after it, and the planner counts them. Without a log it only sees
// that something has changed, and believes in fewer.
func TestLoggedEvents(t *testing.T) {
	var at []time.Time
	for i := range 300 {
		at = append(at, Epoch.Add(time.Duration(i)*Unit/2))
	}
	believed := map[bool]float64{}
	for _, logs := range []bool{true, false} {
		var logged []time.Time
		oneRange(t, "half", 1, 10, 1, func(c *Config) {
			c.Duration = 400 * Unit
			c.Sensors[0].Events, c.Sensors[0].Logs, c.Sensors[0].Listed.RateFixed = at, logs, false
			before := Epoch.Add(-1)
			c.Outcome = func(o visit.Outcome) {
				for _, event := range o.PublishedAt {
					if !event.After(before) || event.After(o.Started) {
						t.Errorf("the crawl of %v after %v lists %v", o.Started, before, event)
					}
				}
				before = o.Started
				logged = append(logged, o.PublishedAt...)
			}
			c.Planned = func(plan *planner.Plan) { believed[logs] = plan.Record().Events }
		})
		if logs && !slices.Equal(logged, at) || !logs && logged != nil {
			t.Errorf("logs %t: %d of %d events are listed", logs, len(logged), len(at))
		}
	}
	if !(believed[true] > 2*believed[false]) {
		t.Errorf("events believed in: %v", believed)
	}
}
