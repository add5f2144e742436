package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/repository"
)

// demoProcess is a running crawld demo.
type demoProcess struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout bytes.Buffer // whole once ended
	stderr notes
	ended  chan error
}

// notes is what a process has written so far.
type notes struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.Write(p)
}

func (n *notes) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.text.String()
}

func startDemo(t *testing.T, args ...string) *demoProcess {
	t.Helper()
	args = append([]string{"demo", "--listen", "127.0.0.1:0", "--output", "json"}, args...)
	d := &demoProcess{t: t, cmd: exec.Command(binary(t), args...), ended: make(chan error, 1)}
	d.cmd.Stdout, d.cmd.Stderr = &d.stdout, &d.stderr
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.cmd.Process.Kill() })
	go func() { d.ended <- d.cmd.Wait() }()
	return d
}

// serving is the daemon that the demo says it is.
func (d *demoProcess) serving() client {
	d.t.Helper()
	said := regexp.MustCompile(`(?m)^serving http://(\S+)/$`)
	if !eventually(func() bool { return said.MatchString(d.stderr.String()) }) {
		d.t.Fatalf("it does not say where it serves:\n%s", &d.stderr)
	}
	return newClient("tcp", said.FindStringSubmatch(d.stderr.String())[1])
}

// wait expects that it ends by itself, with exit code 0.
func (d *demoProcess) wait(bound time.Duration) {
	d.t.Helper()
	select {
	case err := <-d.ended:
		if err != nil {
			d.t.Fatalf("it ends with %v:\n%s", err, &d.stderr)
		}
	case <-time.After(bound):
		d.t.Fatalf("it still runs after %v:\n%s", bound, &d.stderr)
	}
}

// demoNames are the names of the summary: they are API.
const demoNames = `budget number
budget_used number
data string
datagrams_to_sleepers number
events number
expected_mean_latency_seconds number
found number
measured_mean_latency_seconds number
outcomes.asleep number
outcomes.described number
outcomes.failed number
outcomes.missed number
outcomes.refused number
outcomes.unchanged number
ranges number
seconds number
virtual_mean_latency_seconds.RandomCrawl number
virtual_mean_latency_seconds.crawld number
virtual_mean_latency_seconds.even number
virtual_mean_latency_seconds.even, snapped to window ends number
`

// The demo crawls real sensors, shows them while it runs, and sums up what came of
// it beside what other policies would have made of the same fleet.
func TestDemo(t *testing.T) {
	t.Parallel()
	data := t.TempDir() + "/x.db"
	d := startDemo(t, "--for", "25s", "--data", data, "--seed", "3")
	page, ok := d.serving().await("/", func(body string) bool {
		return strings.Contains(body, "cycle-05") && strings.Contains(body, "dead-40")
	})
	if !ok {
		t.Errorf("the page does not show the fleet:\n%s", page)
	}
	if page, ok = d.serving().await("/sensors/cycle-05", func(body string) bool {
		return strings.Contains(body, "<svg") && strings.Contains(body, "temperature-c")
	}); !ok {
		t.Errorf("the page of a sensor shows neither timeline nor description:\n%s", page)
	}
	d.wait(25*time.Second + awaitBound)
	line := regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d .* \d+\.\d\ds$`)
	lines := line.FindAllString(d.stderr.String(), -1)
	if names, err := shape(d.stdout.Bytes()); err != nil || names != demoNames {
		t.Errorf("names of the summary are %v\n%s", err, names)
	}
	var r demoReport
	if err := json.Unmarshal(d.stdout.Bytes(), &r); err != nil {
		t.Fatalf("%v:\n%s", err, &d.stdout)
	}
	if r.Ranges < 1 || len(lines) != r.Ranges || r.Seconds != 10*float64(r.Ranges) || r.Data != data {
		t.Errorf("%d ranges, %d lines, %v s, data in %s", r.Ranges, len(lines), r.Seconds, r.Data)
	}
	for _, outcome := range []string{"described", "unchanged", "asleep"} {
		if r.Outcomes[outcome] == 0 {
			t.Errorf("no crawl was %s: %v", outcome, r.Outcomes)
		}
	}
	if r.Found == 0 {
		t.Error("nothing that was stored is found")
	}
	if r.Used == 0 || r.Used > r.Budget || r.Events == 0 {
		t.Errorf("%d of %d crawls used, %d events", r.Used, r.Budget, r.Events)
	}
	figures := map[string]float64{"expected": r.Expected, "measured": r.Measured}
	for name, mean := range r.Virtual {
		figures[name] = mean
	}
	for _, name := range []string{"expected", "measured", "crawld", "RandomCrawl", "even",
		"even, snapped to window ends"} {
		if mean := figures[name]; !(mean > 0 && mean < r.Seconds) || math.IsInf(mean, 0) {
			t.Errorf("%s: mean latency %v s", name, mean)
		}
	}
	t.Logf("%v", figures)
	report, err := repository.Check(data, repository.Options{})
	if err != nil || len(report.Problems) > 0 || report.Versions == 0 {
		t.Errorf("data: %+v, %v", report, err)
	}
}

// Ctrl-C ends it at once and well.
func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	d := startDemo(t, "--data", t.TempDir()+"/x.db")
	described(t, d.serving(), "always-01")
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	d.wait(awaitBound)
}
