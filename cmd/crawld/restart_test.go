package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/crawld/crawld/internal/testbed"
)

// Ranges so long that nothing is due between two moments of a test, once the first
// visits are over: what changes then has changed by the restart.
const restartConfig = `sensor_files: [list.yaml]
planner: {range: 10m, budget: 4/sensor}
polling: {bootstrap: 5m, min_gap: 1s, max_gap: 10m}
log: {level: debug, format: json}
`

func restartList(bed *testbed.Bed) string {
	plans := map[string]string{"always": "always_on", "capped": "always_on", "polled": "unknown",
		"asleep": "{cycle: {period: 1h, awake: 2m, anchor: " +
			time.Now().Add(5*time.Minute).UTC().Format(time.RFC3339) + "}}"}
	list := "sensors:\n"
	for _, s := range bed.Sensors() {
		most := 9
		if s.Name() == "capped" {
			most = 2
		}
		list += fmt.Sprintf("  - {id: %s, uri: %q, rate: 3/min, weight: 2, max_crawls: %d,\n"+
			"     sleep_plan: %s}\n", s.Name(), s.URI(), most, plans[s.Name()])
	}
	return list
}

// state is all that a daemon tells of its range and of its sensors.
type state struct {
	Status  map[string]any
	Sensors map[string]map[string]any
}

// stateOf leaves out what the passing of time changes by itself, and what is
// counted since the start of the process.
func stateOf(t *testing.T, d *process) state {
	t.Helper()
	s := state{decoded[map[string]any](t, d.client, "/api/v1/status"), map[string]map[string]any{}}
	attempts := 0.0
	for _, n := range s.Status["used"].(map[string]any) {
		attempts += n.(float64)
	}
	s.Status["used"] = attempts // polls and probes are one thing to a restart
	// The share of failures is saved with the plan, so it is that of the range's start.
	for _, name := range []string{"replans", "dropped", "late_plans", "attempts", "failed"} {
		delete(s.Status, name)
	}
	list := decoded[struct{ Sensors []map[string]any }](t, d.client, "/api/v1/sensors")
	for _, listed := range list.Sensors {
		id := listed["id"].(string)
		s.Sensors[id] = decoded[map[string]any](t, d.client, "/api/v1/sensors/"+id)
		delete(s.Sensors[id], "age_seconds")
		delete(s.Sensors[id]["plan"].(map[string]any), "windows")
	}
	return s
}

// A restart in the middle of a range goes on with it: the same range, price and
// budget, the same attempts used, and of every sensor the last success, the rate
// learned, what the tracker believes and the instants that are still to come.
func TestRestartResumes(t *testing.T) {
	t.Parallel()
	bed := newBed(t)
	for _, name := range []string{"always", "capped", "polled", "asleep"} {
		if _, err := bed.Add(testbed.Spec{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	s := newSite(t, restartConfig)
	s.write("list.yaml", restartList(bed))
	d := s.run(binary(t))
	for _, id := range []string{"always", "capped", "polled"} {
		described(t, d.client, id)
	}
	before := stateOf(t, d)
	d.stop(syscall.SIGTERM)
	s.check(binary(t))
	d = s.run(binary(t))
	if !strings.Contains(d.text(), `"msg":"resuming"`) {
		t.Errorf("the log does not say that it resumes:\n%s", d.text())
	}
	after := stateOf(t, d)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("changed by a restart (-before +after):\n%s", diff)
	}
	for _, id := range []string{"always", "capped"} {
		planned := before.Sensors[id]["plan"].(map[string]any)["planned"].([]any)
		if len(planned) == 0 {
			t.Errorf("%s: nothing was planned any more, so nothing was tested", id)
		}
	}
	if used := after.Status["used"]; used != 3.0 {
		t.Errorf("%v attempts used, want the first look at each of three sensors", used)
	}
	unchangedByReload(t, d, s, after)
	d.stop(syscall.SIGTERM)
}

// unchangedByReload adds a sensor: the others keep all they have.
func unchangedByReload(t *testing.T, d *process, s site, before state) {
	t.Helper()
	list, err := os.ReadFile(s.path("list.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("list.yaml", string(list)+"  - {id: new, uri: coap://192.0.2.1/, max_crawls: 0}\n")
	if status, body, err := d.post("/-/reload"); err != nil || status != http.StatusOK {
		t.Fatalf("reload: %d %s %v", status, body, err)
	}
	after := stateOf(t, d)
	if _, ok := after.Sensors["new"]; !ok {
		t.Error("the new sensor is not there after the reload")
	}
	delete(after.Sensors, "new")
	if diff := cmp.Diff(before.Sensors, after.Sensors); diff != "" {
		t.Errorf("unchanged sensors, changed by a reload (-before +after):\n%s", diff)
	}
}

// described waits until a sensor has been described and no visit to it runs.
func described(t *testing.T, c client, id string) {
	t.Helper()
	body, ok := c.await("/api/v1/sensors/"+id, func(body string) bool {
		return strings.Contains(body, `"last_outcome":"described"`) &&
			strings.Contains(body, `"in_flight":false`) && !strings.Contains(body, `"latest":null`)
	})
	if !ok {
		t.Fatalf("%s is not described:\n%s", id, body)
	}
}

// A folder that may not be written to is said in one line. Root may write
// anywhere, so as root the daemon is started as nobody, in a folder of root's.
func TestUnwritableFolder(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "crawld-unwritable-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = os.Chmod(dir, 0o755), os.RemoveAll(dir) })
	program, err := os.Open(binary(t))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	list := filepath.Join(dir, "list.txt")
	err = os.WriteFile(list, []byte("coap://192.0.2.1/\n"), 0o600)
	if err = errors.Join(err, os.Chmod(list, 0o444), os.Chmod(dir, 0o555)); err != nil {
		t.Fatal(err)
	}
	// Nobody may not walk to the program, but may run an open file.
	cmd := exec.Command("/proc/self/fd/3", "run", "--sensors", "list.txt", "--data", "crawld.db",
		"--web.listen-address", "127.0.0.1:0")
	cmd.Dir, cmd.ExtraFiles = dir, []*os.File{program}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Skipf("a program cannot be run this way here: %v", err)
	}
	line, more, _ := strings.Cut(string(out), "\n")
	if cmd.ProcessState.ExitCode() != exitRuntime || more != "" ||
		!strings.Contains(line, "data file crawld.db") || !strings.Contains(line, "permission denied") {
		t.Errorf("exit code %d, output\n%s", cmd.ProcessState.ExitCode(), out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}
