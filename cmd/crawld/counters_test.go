package main

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/testbed"
	"github.com/crawld/crawld/internal/visit"
)

const countersConfig = `sensor_files: [list.yaml]
planner: {range: 5s, budget: 20/sensor}
polling: {bootstrap: 500ms, min_gap: 100ms, max_gap: 1s}
limits: {blocks: 32}
log: {level: debug, format: json}
`

// countedSpecs is a sensor of each kind. What is listed with a sleep plan is
// crawled by plan, the rest is searched for and polled.
func countedSpecs(t *testing.T) []testbed.Spec {
	t.Helper()
	past := []sleepplan.Window{{Start: time.Unix(0, 0), End: time.Unix(1, 0)}}
	asleep, err := sleepplan.Explicit(past)
	if err != nil {
		t.Fatal(err)
	}
	return []testbed.Spec{
		{Name: "good"}, {Name: "good-planned"}, {Name: "busy", Rate: 2},
		{Name: "busy-planned", Rate: 2}, {Name: "blocks", Block: 64, Size: 300, Rate: .5},
		{Name: "separate", Separate: true},
		{Name: "rst", Fault: testbed.FaultReset}, {Name: "notfound", Fault: testbed.FaultNotFound},
		{Name: "dead", Fault: testbed.FaultDead}, {Name: "dead-planned", Fault: testbed.FaultDead},
		{Name: "asleep", Plan: asleep}, {Name: "asleep-planned", Plan: asleep},
		{Name: "closed", Fault: testbed.FaultClosed}, {Name: "endless", Fault: testbed.FaultEndless},
	}
}

// countedList lists the bed's sensors. Nothing is retransmitted, so that a visit is
// one request; who never answers is given up early.
func countedList(bed *testbed.Bed, crawls int) string {
	list := "sensors:\n"
	for _, s := range bed.Sensors() {
		plan, patience := "unknown", "1m"
		if strings.HasSuffix(s.Name(), "-planned") {
			plan = "always_on"
		}
		if strings.HasPrefix(s.Name(), "dead") || strings.HasPrefix(s.Name(), "asleep") {
			patience = "100ms"
		}
		most := crawls
		if s.Name() == "closed" {
			most = min(most, 5) // the daemon remembers 50 visits, and they shall be all
		}
		list += fmt.Sprintf("  - {id: %s, uri: %q, rate: 2/s, sleep_plan: %s, max_crawls: %d,\n"+
			"     max_retransmit: 0, ack_timeout: %s}\n", s.Name(), s.URI(), plan, most, patience)
	}
	return list
}

// wire is what the bed saw, in the terms of outcomes.
func wire(bed *testbed.Bed) map[string]int {
	n := map[string]int{}
	seen := map[string]int{} // by sensor: newest event in what it answered, plus one
	for _, r := range bed.Requests() {
		first := r.Kind == testbed.KindGet
		switch {
		case r.Complete && seen[r.Sensor] != r.Seq+1:
			seen[r.Sensor] = r.Seq + 1
			n["described"]++
		case r.Complete:
			n["unchanged"]++
		case first && r.Answered && (r.Code == "0.00" || r.Code == "4.04"):
			n["refused"]++
		case first && (r.Dropped == testbed.DroppedDead || r.Dropped == testbed.DroppedAsleep):
			n["asleep"]++
		case first && r.Sensor == "endless":
			n["failed"]++
		}
	}
	return n
}

// Every counter of outcomes has moved by what happened on the wire, as the sensors
// themselves have logged it.
func TestCountersMatchTheWire(t *testing.T) {
	t.Parallel()
	bed := newBed(t)
	for _, spec := range countedSpecs(t) {
		if _, err := bed.Add(spec); err != nil {
			t.Fatal(err)
		}
	}
	s := newSite(t, countersConfig)
	s.write("list.yaml", countedList(bed, 1000))
	d := s.run(binary(t))
	enough := func() bool {
		n := wire(bed)
		return min(n["described"], n["unchanged"], n["refused"], n["asleep"], n["failed"]) >= 5
	}
	if !eventually(enough) {
		t.Fatalf("too little happens on the wire: %v", wire(bed))
	}
	quieten(t, d, s, bed)
	_, text, err := d.get("/metrics")
	if err != nil {
		t.Fatal(err)
	}
	want := wire(bed)
	// A closed port leaves no trace in the bed: the system answers for it.
	closed := decoded[struct{ Visits []visit.Outcome }](t, d.client,
		"/api/v1/sensors/closed?visits=1000").Visits
	if len(closed) == 0 || len(closed) == 50 {
		t.Fatalf("%d visits to the closed port: not all are known", len(closed))
	}
	for _, o := range closed {
		if o.Result != visit.Missed {
			want["asleep"]++
		}
	}
	// A busy machine may miss an instant. Then no sensor is asked, but the log tells.
	missed := int(metric(text, `crawld_crawls_total{outcome="missed"}`))
	eventually(func() bool {
		want["missed"] = strings.Count(d.text(), `"outcome":"missed"`)
		return want["missed"] >= missed
	})
	for _, m := range mismatches(text, want) {
		t.Error(m)
	}
	t.Logf("on the wire: %v", want)
	// The control: a single request that nobody counted would be noticed.
	want["refused"]++
	if len(mismatches(text, want)) == 0 {
		t.Error("one refused visit more on the wire goes unnoticed")
	}
	d.stop(syscall.SIGTERM)
	s.check(binary(t))
}

// mismatches compares a scrape with what happened on the wire.
func mismatches(text string, want map[string]int) (found []string) {
	all := -float64(want["missed"])
	for _, r := range visit.Results() {
		got := metric(text, fmt.Sprintf("crawld_crawls_total{outcome=%q}", r))
		if int(got) != want[r.String()] {
			found = append(found, fmt.Sprintf("%s: counted %v, on the wire %d", r, got, want[r.String()]))
		}
		all += got
	}
	attempts := 0.0
	for _, k := range visit.Kinds() {
		attempts += metric(text, fmt.Sprintf("crawld_attempts_total{kind=%q}", k))
	}
	if again := metric(text, "crawld_retransmissions_total"); attempts != all || again != 0 {
		found = append(found, fmt.Sprintf("%v attempts, %v of them with an outcome, %v retransmissions",
			attempts, all, again))
	}
	return found
}

// quieten takes every sensor's crawls away and waits until no visit is under way.
func quieten(t *testing.T, d *process, s site, bed *testbed.Bed) {
	t.Helper()
	s.write("list.yaml", countedList(bed, 0))
	if status, body, err := d.post("/-/reload"); err != nil || status != http.StatusOK {
		t.Fatalf("reload: %d %s %v", status, body, err)
	}
	quiet := eventually(func() bool {
		return decoded[planner.Status](t, d.client, "/api/v1/status").InFlight == 0
	})
	if !quiet {
		t.Fatal("visits go on although no sensor may be crawled")
	}
}
