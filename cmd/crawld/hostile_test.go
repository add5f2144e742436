package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/testbed"
)

// world is a bed with a daemon of its own.
type world struct {
	honest  int
	hostile []string      // names of modes; "" = one that behaves and is not counted
	limits  string        // of the configuration
	span    time.Duration // between two polls of a sensor
	planned bool          // not polled: listed as always awake, one crawl in a span

	bed    *testbed.Bed
	names  map[string]bool // of the honest ones
	daemon *process
	ready  time.Time
}

// Delays of the modes and the daemon's timers are a tenth of what they are by default.
const squeeze = 10

// worstModes hold seats, memory or the reader for as long as they are let.
var worstModes = []string{"drip", "drip-slow", "drip-acked", "stuck-con", "endless-small", "flood",
	"ack-chatter", "flip", "jumbo", "link-bomb"}

// open starts the sensors and the daemon.
func (w *world) open(t *testing.T) {
	t.Helper()
	w.bed, w.names = newBed(t), map[string]bool{}
	list := "sensors:\n"
	add := func(spec testbed.Spec) {
		spec.Delay /= squeeze
		s, err := w.bed.Add(spec)
		if err != nil {
			t.Fatal(err)
		}
		w.names[s.Name()] = spec.Fault == "" && !strings.HasPrefix(s.Name(), "bad-")
		plan := ""
		if w.planned {
			plan = ", sleep_plan: always_on, max_crawls: 2"
		}
		list += fmt.Sprintf("  - {id: %q, uri: %q, ack_timeout: 200ms%s}\n", s.Name(), s.URI(), plan)
	}
	for i := range w.honest {
		add(testbed.Spec{Name: fmt.Sprintf("good-%05d", i)})
	}
	for i, name := range w.hostile {
		m := testbed.Mode{}
		if name != "" {
			var err error
			if m, err = testbed.ModeNamed(name); err != nil {
				t.Fatal(err)
			}
		}
		m.Spec.Name = fmt.Sprintf("bad-%05d", i)
		add(m.Spec)
	}
	budget := "range: 1h, budget: 100000/sensor"
	if w.planned {
		budget = fmt.Sprintf("range: %v, budget: 1/sensor", w.span)
	}
	s := newSite(t, fmt.Sprintf("sensor_files: [list.yaml]\nlog: {level: info, format: json}\n"+
		"planner: {%s, capacity: 2000/s}\nlimits: {%s}\n"+
		"polling: {policy: fixed, bootstrap: %v, min_gap: 100ms, max_gap: %[3]v}\n",
		budget, w.limits, w.span))
	s.write("list.yaml", list)
	w.daemon = s.run(binary(t))
	w.ready = time.Now()
}

// age is the mean over the honest sensors, and over the second and third time that each
// is polled, of the time since the answer that the daemon's copy is from.
func (w *world) age() time.Duration {
	from, to := w.ready.Add(w.span), w.ready.Add(3*w.span)
	answers := map[string][]time.Time{}
	for _, r := range w.bed.Requests() {
		if r.Answered && r.Complete && w.names[r.Sensor] {
			answers[r.Sensor] = append(answers[r.Sensor], r.Sent)
		}
	}
	area := 0.0 // seconds squared
	for name, honest := range w.names {
		if honest {
			area += staleness(answers[name], w.ready, from, to)
		}
	}
	mean := area / float64(w.honest) / to.Sub(from).Seconds()
	return time.Duration(mean * float64(time.Second))
}

// staleness is the integral over [from, to) of the time since the newest of the
// answers, or since start before the first, in seconds squared.
func staleness(answers []time.Time, start, from, to time.Time) (area float64) {
	slices.SortFunc(answers, time.Time.Compare)
	last, at := start, from
	for _, a := range append(answers, to) {
		if a.After(to) {
			a = to
		}
		if a.After(at) {
			area += (a.Sub(last).Seconds() + at.Sub(last).Seconds()) / 2 * a.Sub(at).Seconds()
			at = a
		}
		last = a
	}
	return area
}

// peak is the largest resident set of the daemon so far in bytes, and how many sockets
// it has open.
func (w *world) peak(t *testing.T) (resident, sockets int) {
	t.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(w.daemon.cmd.Process.Pid))
	status, err := os.ReadFile(filepath.Join(proc, "status"))
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(status)
	if m == nil {
		t.Fatalf("no VmHWM:\n%s", status)
	}
	kib, _ := strconv.Atoi(string(m[1]))
	files, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		to, _ := os.Readlink(filepath.Join(proc, "fd", f.Name()))
		if strings.HasPrefix(to, "socket:") {
			sockets++
		}
	}
	return kib << 10, sockets
}

// openable is honest, or as many as two worlds of them with a hundredth more can have sockets.
func openable(t *testing.T, honest int) int {
	t.Helper()
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	if most := int(files.Cur)/2 - 500; 100*honest/99 > most {
		honest = most / 100 * 99
		t.Logf("only %d sensors: no more than %d files may be open", honest, files.Cur)
	}
	return honest
}

// One hostile sensor in a hundred: the others stay as fresh as without it, the daemon
// within slots times the longest body, and no socket is opened. A daemon whose limits
// let the hostile ones hold every seat is caught by the same figures.
func TestHostileFew(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the daemon's memory and sockets are read from /proc")
	}
	honest, span := 990, 4*time.Second
	if os.Getenv("CRAWLD_CI") != "" {
		honest, span = 9900, 10*time.Second
	}
	honest = openable(t, honest)
	limits := fmt.Sprintf("progress: %v, per_host: 256, per_subnet: 256", 10*time.Second/squeeze)
	var hostile []string
	for i := range honest / 99 {
		hostile = append(hostile, worstModes[i%len(worstModes)])
	}
	clean := &world{honest: honest, hostile: make([]string, len(hostile)), limits: limits,
		span: span} // as many in all: a larger fleet has another plan
	mixed := &world{honest: honest, hostile: hostile, limits: limits, span: span}
	held := &world{honest: 100, hostile: slices.Repeat([]string{"drip-slow"}, 50),
		limits: "progress: 5m, per_host: 1", span: 3 * time.Second}
	for _, w := range []*world{clean, mixed, held} {
		w.open(t)
	}
	// The time that is measured; held began last.
	<-time.After(time.Until(held.ready.Add(3 * span)))
	without, with, control := clean.age(), mixed.age(), held.age()
	control = time.Duration(float64(control) * span.Seconds() / held.span.Seconds())
	base, sockets := clean.peak(t)
	most, opened := mixed.peak(t)
	t.Logf("mean age %v without, %v with %d hostile of %d, %v where they hold the seats; "+
		"%d and %d MiB; %d sockets", without, with, len(hostile), honest+len(hostile), control,
		base>>20, most>>20, opened)
	// Times are compressed, but not what a busy machine takes to wake a goroutine.
	if wakes := 20 * time.Millisecond; float64(with-wakes) > 1.01*float64(without) {
		t.Errorf("honest sensors are %.2f %% older", 100*(float64(with)/float64(without)-1))
	}
	if float64(control) <= 1.01*float64(without) {
		t.Errorf("seats that are held go unnoticed: %v", control)
	}
	if bound := base + 1024*64<<10; most > bound {
		t.Errorf("%d bytes resident, at most %d promised", most, bound)
	}
	if opened != sockets {
		t.Errorf("%d sockets, %d without hostile sensors", opened, sockets)
	}
	for _, w := range []*world{clean, mixed, held} {
		w.daemon.stop(syscall.SIGTERM)
	}
}

// The same for sensors whose sleep plan is listed. What their freshness loses is told by the
// simulator, where it has no noise (TestHostileFewAmongPlanned of package sim). On a real
// clock a range is crawled at whatever instant its plan finds, and three of them are no
// measure of a hundredth. So what is held here is what a wall clock can tell: no honest sensor
// is left out, the copies are as old as a crawl a range makes them at most, the daemon stays
// within slots times the longest body, and no socket is opened.
func TestHostileFewPlanned(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the daemon's memory and sockets are read from /proc")
	}
	honest, span := 297, 2*time.Second
	if os.Getenv("CRAWLD_SOAK") != "" {
		honest, span = 9900, 10*time.Second
	}
	honest = openable(t, honest)
	var hostile []string
	for i := range honest / 99 {
		hostile = append(hostile, worstModes[i%len(worstModes)])
	}
	limits := fmt.Sprintf("progress: %v, per_host: 256, per_subnet: 256", 10*time.Second/squeeze)
	clean := &world{honest: honest, hostile: make([]string, len(hostile)), limits: limits,
		span: span, planned: true}
	mixed := &world{honest: honest, hostile: hostile, limits: limits, span: span, planned: true}
	for _, w := range []*world{clean, mixed} {
		w.open(t)
	}
	<-time.After(time.Until(mixed.ready.Add(3 * span))) // the time that is measured
	without, with := clean.age(), mixed.age()
	base, sockets := clean.peak(t)
	most, opened := mixed.peak(t)
	t.Logf("mean age %v without, %v with %d hostile of %d; %d and %d MiB; %d sockets", without, with,
		len(hostile), honest+len(hostile), base>>20, most>>20, opened)
	for _, w := range []*world{clean, mixed} {
		if age, left := w.age(), w.leftOut(); age > span || left > 0 {
			t.Errorf("mean age %v at a crawl each %v, %d never answered", age, span, left)
		}
		w.daemon.stop(syscall.SIGTERM)
	}
	if bound := base + 1024*64<<10; most > bound {
		t.Errorf("%d bytes resident, at most %d promised", most, bound)
	}
	if opened != sockets {
		t.Errorf("%d sockets, %d without hostile sensors", opened, sockets)
	}
}

// leftOut is how many honest sensors have not given a whole answer.
func (w *world) leftOut() int {
	left := w.honest
	seen := map[string]bool{}
	for _, r := range w.bed.Requests() {
		if r.Answered && r.Complete && w.names[r.Sensor] && !seen[r.Sensor] {
			seen[r.Sensor] = true
			left--
		}
	}
	return left
}

// staleness against the sum over small steps.
func TestStaleness(t *testing.T) {
	start := time.Unix(0, 0)
	at := func(ms ...int) (all []time.Time) {
		for _, m := range ms {
			all = append(all, start.Add(time.Duration(m)*time.Millisecond))
		}
		return all
	}
	for _, answers := range [][]time.Time{
		nil, at(500), at(1500), at(1200, 200, 2900), at(1000, 3500),
	} {
		from, to := start.Add(time.Second), start.Add(3*time.Second)
		want := 0.0
		for x := from; x.Before(to); x = x.Add(time.Millisecond) {
			last := start
			for _, a := range answers {
				if !a.After(x) && a.After(last) {
					last = a
				}
			}
			want += x.Sub(last).Seconds() * 0.001
		}
		got := staleness(slices.Clone(answers), start, from, to)
		if got < want-0.01 || got > want+0.01 {
			t.Errorf("%v: %v, want %v", answers, got, want)
		}
	}
}
