package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/mutant"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/testbed"
	"github.com/crawld/crawld/internal/visit"
)

// load is a daemon that crawls so many sensors, each awake for half of every time range.
type load struct {
	sensors int
	rate    int           // crawls a second, a budget over each range
	length  time.Duration // of a range
	ranges  int           // that are watched, after the first one
	every   time.Duration // the daemon is looked at that often
	strict  bool          // hold the lateness of starts too

	t      *testing.T
	crowd  *testbed.Crowd
	site   site
	daemon *process
	seen   []footprint
	before string // metrics when the watch began
	after  string
}

// footprint is what the daemon has at an instant.
type footprint struct {
	goroutines, descriptors int
	memory                  int // bytes of its own
}

// What a daemon may have under load, whatever the load: visits at once are bounded, and each
// takes a few goroutines. README.md tells users of the memory, which is that beside the data
// file's pages.
const (
	loadSlots       = 1024
	mostGoroutines  = 4*loadSlots + 100
	memoryBase      = 128 << 20
	memoryPerSensor = 10 << 10
)

const loadConfig = `sensor_files: [list.yaml]
planner: {range: %v, budget: %d, capacity: %d/s}
log: {level: info, format: json}
`

// loads are the sizes: the long one is for a soak.
func loads() load {
	if os.Getenv("CRAWLD_SOAK") != "" {
		return load{sensors: 50000, rate: 1000, length: time.Minute, ranges: 3,
			every: time.Second, strict: true}
	}
	return load{sensors: 2000, rate: 200, length: 2 * time.Second, ranges: 2,
		every: 50 * time.Millisecond}
}

func loadID(i int) string { return fmt.Sprintf("s%05d", i) }

// open starts the sensors and the daemon at path.
func (l *load) open(t *testing.T, path string) {
	t.Helper()
	l.t = t
	var err error
	if l.crowd, err = testbed.NewCrowd(l.sensors); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.crowd.Close(); err != nil {
			t.Error(err)
		}
	})
	seconds := int(l.length / time.Second)
	l.site = newSite(t, fmt.Sprintf(loadConfig, l.length, l.rate*seconds, 2*l.rate))
	var list strings.Builder
	list.WriteString("sensors:\n")
	began := time.Now().Add(-24 * time.Hour)
	for i := range l.sensors {
		anchor := began.Add(l.length * time.Duration(i) / time.Duration(l.sensors))
		fmt.Fprintf(&list, "- {id: %s, uri: %q, rate: 0.1/s, sleep_plan: {cycle: {period: %v, "+
			"awake: %v, anchor: %s}}}\n", loadID(i), l.crowd.URI(i), l.length, l.length/2,
			anchor.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
	}
	l.site.write("list.yaml", list.String())
	l.daemon = l.site.run(path)
}

// watch looks at the daemon over the ranges.
func (l *load) watch() {
	l.t.Helper()
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	begin := time.Now().Add(l.length)
	for end := begin.Add(time.Duration(l.ranges) * l.length); time.Now().Before(end); <-tick.C {
		status, text, err := l.daemon.get("/metrics")
		if err != nil || status != http.StatusOK {
			l.t.Fatalf("/metrics: %d %v", status, err)
		}
		if time.Now().Before(begin) {
			continue
		}
		if l.before == "" {
			l.before = text
		}
		l.after = text
		l.seen = append(l.seen, footprint{int(metric(text, "go_goroutines")), l.descriptors(),
			l.memory()})
	}
}

func (l *load) proc(name string) string {
	return filepath.Join("/proc", strconv.Itoa(l.daemon.cmd.Process.Pid), name)
}

func (l *load) descriptors() int {
	l.t.Helper()
	files, err := os.ReadDir(l.proc("fd"))
	if err != nil {
		l.t.Fatal(err)
	}
	return len(files)
}

// ownMemory leaves out the pages of the data file, which the system takes back when it wants.
var ownMemory = regexp.MustCompile(`RssAnon:\s+(\d+) kB`)

func (l *load) memory() int {
	l.t.Helper()
	status, err := os.ReadFile(l.proc("status"))
	m := ownMemory.FindSubmatch(status)
	if err != nil || m == nil {
		l.t.Fatalf("%v\n%s", err, status)
	}
	kib, _ := strconv.Atoi(string(m[1]))
	return kib << 10
}

// gone is by how much a series has grown over the watch.
func (l *load) gone(series string) float64 {
	return metric(l.after, series) - metric(l.before, series)
}

// faults are the promises that did not hold while it was watched.
func (l *load) faults() (found []string) {
	fault := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	third := len(l.seen) / 3
	if third == 0 {
		return []string{fmt.Sprintf("load: looked at %d times only", len(l.seen))}
	}
	first, last := l.seen[:third], l.seen[len(l.seen)-third:]
	goroutines := func(s footprint) int { return s.goroutines }
	descriptors := func(s footprint) int { return s.descriptors }
	memory := func(s footprint) int { return s.memory }
	if most := highest(l.seen, goroutines); most > mostGoroutines {
		fault("goroutines: %d, at most %d", most, mostGoroutines)
	}
	// Whatever comes and goes with visits and scrapes, a leak raises the least there is.
	if was, is := lowest(first, goroutines), lowest(last, goroutines); is > was+loadSlots/16 {
		fault("goroutines: at least %d at first, %d at last", was, is)
	}
	if was, is := lowest(first, descriptors), lowest(last, descriptors); is > was {
		fault("descriptors: at least %d at first, %d at last", was, is)
	}
	if most, bound := highest(l.seen, memory), memoryBase+l.sensors*memoryPerSensor; most > bound {
		fault("memory: %d MiB, at most %d", most>>20, bound>>20)
	}
	started := l.gone("crawld_crawl_lateness_seconds_count")
	if want := float64(l.rate*l.ranges) * l.length.Seconds() / 2; started < want {
		fault("load: only %v crawls, want %v", started, want)
	}
	if late := started - l.gone(`crawld_crawl_lateness_seconds_bucket{le="1"}`); l.strict &&
		late > started/100 {
		fault("lateness: %v of %v starts more than a second late", late, started)
	}
	return found
}

func lowest(list []footprint, of func(footprint) int) int {
	return of(slices.MinFunc(list, func(a, b footprint) int { return of(a) - of(b) }))
}

func highest(list []footprint, of func(footprint) int) int {
	return of(slices.MaxFunc(list, func(a, b footprint) int { return of(a) - of(b) }))
}

// latest is the p-quantile of the starts' lateness in seconds, by the histogram: the upper end
// of its bucket.
func (l *load) latest(p float64) (bound string) {
	all := l.gone("crawld_crawl_lateness_seconds_count")
	for _, bound := range []string{"0.001", "0.01", "0.1", "0.5", "1", "5", "30", "120", "600"} {
		series := fmt.Sprintf("crawld_crawl_lateness_seconds_bucket{le=%q}", bound)
		if l.gone(series) >= p*all {
			return bound
		}
	}
	return "+Inf"
}

// stored reads from the database what became of the visits: how many there were to each
// sensor, and the planned instants that two visits have.
func (l *load) stored() (visits []int, twice []string, missed int) {
	l.t.Helper()
	repo, err := repository.Open(l.site.data(), repository.Options{})
	if err != nil {
		l.t.Fatal(err)
	}
	defer repo.Close()
	visits = make([]int, l.sensors)
	for i := range visits {
		all, err := repo.Visits(loadID(i), 0)
		if err != nil {
			l.t.Fatal(err)
		}
		instants := map[time.Time]bool{}
		for _, o := range all {
			if o.Result == visit.Missed {
				missed++
				continue
			}
			visits[i]++
			if instants[o.At] {
				twice = append(twice, fmt.Sprint(loadID(i), " at ", o.At))
			}
			instants[o.At] = true
		}
	}
	return visits, twice, missed
}

// unequal are the sensors that heard another number of visits than are stored of them.
func unequal(heard, stored []int) (list []string) {
	for i := range heard {
		if heard[i] != stored[i] {
			list = append(list, fmt.Sprintf("%s: %d requests heard, %d visits stored", loadID(i),
				heard[i], stored[i]))
		}
	}
	return list
}

// Under load the daemon's goroutines, descriptors and memory stay where they are, starts are
// on time, and every crawl is made once and stored once.
func TestLoad(t *testing.T) {
	t.Run("daemon", func(t *testing.T) {
		t.Parallel()
		l := loads()
		l.open(t, binary(t))
		l.watch()
		for _, f := range l.faults() {
			t.Error(f)
		}
		l.daemon.stop(syscall.SIGTERM)
		heard := l.crowd.Requests()
		visits, twice, missed := l.stored()
		total := 0
		for _, n := range heard {
			total += n
		}
		repeats, strange := l.crowd.Repeats()
		last := l.seen[len(l.seen)-1]
		t.Logf("%d sensors, %.0f crawls/s: starts %s s late at most in half of the cases, %s s in 99 "+
			"of 100; %d goroutines, %d descriptors, %d MiB; %d crawls, %d asked twice, %d missed",
			l.sensors, l.gone("crawld_crawl_lateness_seconds_count")/
				(float64(l.ranges)*l.length.Seconds()), l.latest(.5), l.latest(.99),
			last.goroutines, last.descriptors, last.memory>>20, total, repeats, missed)
		wrong := append(unequal(heard, visits), twice...)
		if strange > 0 || len(wrong) > 0 {
			t.Errorf("%d strange datagrams; %d of %d crawls lost or doubled: %q", strange, len(wrong),
				total, wrong[:min(len(wrong), 5)])
		}
		visits[0]++
		if len(unequal(heard, visits)) != len(unequal(heard, heard))+1 {
			t.Error("a visit too many goes unnoticed")
		}
	})
	t.Run("leaks", func(t *testing.T) {
		t.Parallel()
		leaks(t)
	})
}

// leaks is the control: a daemon that keeps a goroutine and a descriptor of every visit, and
// makes each one twice, is found guilty of all three.
func leaks(t *testing.T) {
	overlay, err := mutant.Overlay(t.TempDir(), "../../internal/crawler/loop.go",
		mutant.Change{Old: "\t\"fmt\"\n", New: "\t\"fmt\"\n\t\"syscall\"\n"},
		mutant.Change{Old: "	c.visits.Go(func() { c.outcomes <- c.o.Fetch(ctx, v) })\n", New: `
	go func() { select {} }()
	_, _ = syscall.Dup(2)
	c.visits.Go(func() {
		c.o.Fetch(ctx, v)
		c.outcomes <- c.o.Fetch(ctx, v)
	})
`})
	if err != nil {
		t.Fatal(err)
	}
	path, err := build("crawld-leaks", "-overlay", overlay)
	if err != nil {
		t.Fatal(err)
	}
	l := load{sensors: 1000, rate: 200, length: time.Second, ranges: 3,
		every: 50 * time.Millisecond}
	l.open(t, path)
	l.watch()
	found := strings.Join(l.faults(), "\n")
	l.daemon.stop(syscall.SIGTERM)
	visits, _, _ := l.stored()
	doubled := unequal(l.crowd.Requests(), visits)
	t.Logf("%s\n%d sensors with other crawls than stored", found, len(doubled))
	if !strings.Contains(found, "goroutines:") || !strings.Contains(found, "descriptors:") ||
		len(doubled) == 0 {
		t.Error("a leak or a second visit goes unnoticed")
	}
}
