package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A range is an hour from a Monday on, in ticks of a tenth of a second.
const (
	planLength = 36000
	planGuard  = 20 // ticks: auto is two seconds, at most half a window
	planTick   = 100 * time.Millisecond
)

func planStart() time.Time { return time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC) }

// awakeSpan is an awake window in ticks from the start of the range.
type awakeSpan struct{ start, end int }

// listedSensor is a sensor as its list has it, with its windows as this test makes
// them: it shares no code with what it judges.
type listedSensor struct {
	id      string
	plan    string // as listed
	windows []awakeSpan
	polled  bool
	rate    float64 // per second
	weight  float64
	most    int
}

func (s listedSensor) yaml() string {
	return fmt.Sprintf("  - {id: %s, uri: coap://192.0.2.1/%s, rate: %g/s, weight: %g,\n"+
		"     max_crawls: %d, sleep_plan: %s}\n", s.id, s.id, s.rate, s.weight, s.most, s.plan)
}

func drawSensor(rng *rand.Rand, i int) listedSensor {
	s := listedSensor{id: fmt.Sprintf("s%02d", i), rate: float64(1+rng.IntN(500)) / 1000,
		weight: float64(1+rng.IntN(8)) / 2, most: 100}
	if rng.IntN(3) == 0 {
		s.most = rng.IntN(4)
	}
	at := func(tick int) string {
		return planStart().Add(time.Duration(tick) * planTick).Format(time.RFC3339Nano)
	}
	switch i % 5 {
	case 0:
		s.plan, s.windows = "always_on", []awakeSpan{{-1e6, 1e6}}
	case 1: // the anchor lies a hundred periods back
		period, first := 200+rng.IntN(9000), rng.IntN(9000)
		awake := 1 + rng.IntN(period-1)
		s.plan = fmt.Sprintf("{cycle: {period: %v, awake: %v, anchor: %s}}",
			time.Duration(period)*planTick, time.Duration(awake)*planTick, at(first-100*period))
		for k := -9000 / 200; k*period+first < 2*planLength; k++ {
			s.windows = append(s.windows, awakeSpan{k*period + first, k*period + first + awake})
		}
	case 2: // Tokyo is nine hours ahead, always
		start, length := 1+rng.IntN(40), 1+rng.IntN(18)
		s.plan = fmt.Sprintf(`{weekly: ["mon 09:%02d-09:%02d"], time_zone: Asia/Tokyo}`,
			start, start+length)
		s.windows = []awakeSpan{{600 * start, 600 * (start + length)}}
	case 3:
		var list []string
		for tick := -rng.IntN(500); tick < planLength+100; tick += 1 + rng.IntN(5000) {
			end := tick + 1 + rng.IntN(4000)
			s.windows = append(s.windows, awakeSpan{tick, end})
			list = append(list, fmt.Sprintf("{start: %s, end: %s}", at(tick), at(end)))
			tick = end
		}
		s.plan = "{windows: [" + strings.Join(list, ", ") + "]}"
	default:
		s.plan, s.polled = "unknown", true
	}
	return s
}

// legal reports whether a crawl may start at a tick: within a window, the guard
// before its end.
func (s listedSensor) legal(tick int) bool {
	for _, w := range s.windows {
		guard := min(planGuard, float64(w.end-w.start)/2)
		if w.start <= tick && tick < w.end && (tick == w.start || float64(w.end-tick) >= guard) {
			return 0 <= tick && tick < planLength
		}
	}
	return false
}

// latency is (W) tick by tick: each event waits for the next crawl, or for the end
// of the range. Within its tick it comes in the middle, on the average.
func (s listedSensor) latency(crawls []int) float64 {
	awake := make([]bool, planLength)
	for _, w := range s.windows {
		for u := max(w.start, 0); u < min(w.end, planLength); u++ {
			awake[u] = true
		}
	}
	sum, next, k := 0.0, planLength, len(crawls)-1
	for u := planLength - 1; u >= 0; u-- {
		for k >= 0 && crawls[k] > u {
			next, k = crawls[k], k-1
		}
		if awake[u] {
			sum += float64(next-u) - .5
		}
	}
	return s.rate * sum * planTick.Seconds() * planTick.Seconds()
}

// judge holds a plan against the sensors that it was made for.
func judge(sensors []listedSensor, r planReport) (problems []string) {
	wrong := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf(format, args...))
	}
	crawls := map[string][]int{}
	for i, c := range r.Crawls {
		since := c.At.Sub(planStart())
		if since%planTick != 0 {
			wrong("%s at %v: between ticks", c.Sensor, c.At)
		}
		crawls[c.Sensor] = append(crawls[c.Sensor], int(since/planTick))
		if i == 0 {
			continue
		}
		before := r.Crawls[i-1]
		if order := c.At.Compare(before.At); order < 0 || order == 0 && c.Sensor <= before.Sensor {
			wrong("crawls are not sorted: %v after %v", c, before)
		}
	}
	promised := map[string]planSensor{}
	for _, p := range r.Sensors {
		promised[p.ID] = p
	}
	total := 0.0
	for _, s := range sensors {
		if s.polled != slices.Contains(r.Polled, s.id) {
			wrong("%s: polled %v", s.id, !s.polled)
		}
		p, ticks := promised[s.id], crawls[s.id]
		if p.Crawls != len(ticks) || len(ticks) > s.most || s.polled && len(ticks) > 0 {
			wrong("%s: %d crawls promised, %d planned, %d allowed", s.id, p.Crawls, len(ticks), s.most)
		}
		for _, tick := range ticks {
			if !s.legal(tick) {
				wrong("%s: no crawl may start at tick %d", s.id, tick)
			}
		}
		if s.polled {
			continue
		}
		want := s.latency(ticks)
		if total += s.weight * want; !near(p.Latency, want) {
			wrong("%s: expected latency %v, is %v", s.id, p.Latency, want)
		}
	}
	if !near(r.Expected, total) {
		wrong("expected latency %v, is %v", r.Expected, total)
	}
	if n := len(r.Crawls); n != r.Planned || n > r.Budget-r.Reserved {
		wrong("%d crawls, %d planned, of %d less %d", n, r.Planned, r.Budget, r.Reserved)
	}
	return problems
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-6*math.Max(want, 1e-9) }

func planned(t *testing.T, config string, sensors []listedSensor) planReport {
	t.Helper()
	s := newSite(t, config)
	list := "sensors:\n"
	for _, sensor := range sensors {
		list += sensor.yaml()
	}
	s.write("list.yaml", list)
	out := stdout(t, binary(t), "plan", "--config", s.path("crawld.yaml"), "--at",
		planStart().Format(time.RFC3339))
	var r planReport
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// What `crawld plan` promises is legal, and is what its instants make of it, for
// sleep plans of every form and each way to end a range.
func TestPlanKeepsItsPromises(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	crawls := 0
	for i := range 12 {
		end := []string{"lookahead", "carry", "fixed"}[i%3]
		candidates := []string{"ends", "grid"}[i/3%2]
		var sensors []listedSensor
		for k := range 5 + rng.IntN(20) {
			s := drawSensor(rng, k)
			if end == "fixed" {
				s.most = max(s.most, 1)
			}
			sensors = append(sensors, s)
		}
		config := fmt.Sprintf("sensor_files: [list.yaml]\nplanner: {range: 1h, budget: %d/sensor,"+
			" end: %s, candidates: %s, step: 10s}\n", 2+rng.IntN(4), end, candidates)
		r := planned(t, config, sensors)
		crawls += len(r.Crawls)
		for _, problem := range judge(sensors, r) {
			t.Errorf("%s, %s: %s", end, candidates, problem)
		}
		if i == 0 {
			spoil(t, sensors, r)
		}
	}
	t.Logf("%d crawls judged", crawls)
}

// spoil is the control: a plan with anything wrong is caught.
func spoil(t *testing.T, sensors []listedSensor, good planReport) {
	t.Helper()
	for name, change := range map[string]func(r *planReport){
		"a tick later":     func(r *planReport) { r.Crawls[0].At = r.Crawls[0].At.Add(planTick) },
		"out of the range": func(r *planReport) { r.Crawls[0].At = r.Range.End },
		"one crawl less":   func(r *planReport) { r.Crawls = r.Crawls[1:] },
		"unsorted":         func(r *planReport) { slices.Reverse(r.Crawls) },
		"too good":         func(r *planReport) { r.Sensors[0].Latency *= 1 - 1e-5 },
		"over budget":      func(r *planReport) { r.Budget = len(r.Crawls) - 1 },
	} {
		bad := good
		bad.Crawls, bad.Sensors = slices.Clone(good.Crawls), slices.Clone(good.Sensors)
		change(&bad)
		if len(judge(sensors, bad)) == 0 {
			t.Errorf("a plan that is %s goes unnoticed", name)
		}
	}
}

// Under fixed every awake sensor is crawled at its last legal instant; a budget
// that does not reach is an invalid configuration.
func TestFixedEnd(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	var sensors []listedSensor
	for k := range 20 {
		s := drawSensor(rng, k)
		s.most = 100
		sensors = append(sensors, s)
	}
	const config = "sensor_files: [list.yaml]\nplanner: {range: 1h, budget: 3/sensor, end: fixed}\n"
	last := map[string]int{}
	for _, c := range planned(t, config, sensors).Crawls {
		last[c.Sensor] = int(c.At.Sub(planStart()) / planTick)
	}
	for _, s := range sensors {
		for tick := last[s.id] + 2; tick < planLength; tick++ {
			if s.legal(tick) {
				t.Errorf("%s: last crawl at tick %d, %d is legal too", s.id, last[s.id], tick)
				break
			}
		}
	}
}
