package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/crawld/crawld/internal/testbed"
)

const fewDescriptors = 64

// Both sensors are asked again and again, the second by a name that nobody has.
const descriptorsConfig = `sensor_files: [list.yaml]
planner: {range: 2s, budget: 20/sensor}
log: {level: info, format: json}
`

// descriptors is a daemon that may have few of them.
type descriptors struct {
	*process
	site
	control client
	address string
	held    []net.Conn
}

// run starts it with a limit on descriptors, and waits until it crawls.
func (d *descriptors) run(limit int) {
	t := d.site.t
	t.Helper()
	d.process = start(t, "/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$@"`, limit), "sh",
		binary(t), "run", "--config", d.path("crawld.yaml"), "--data", d.data(),
		"--web.listen-address", "127.0.0.1:0")
	for _, line := range d.lines() {
		if line.HTTP != "" {
			d.address = line.HTTP
		}
	}
	d.control = newClient("unix", d.path("crawld.sock"))
	if !eventually(func() bool { return d.count("unchanged") > 0 }) {
		t.Fatal("the sensor is not crawled")
	}
}

func newDescriptors(t *testing.T) *descriptors {
	t.Helper()
	sensor, err := newBed(t).Add(testbed.Spec{Name: "one"})
	if err != nil {
		t.Fatal(err)
	}
	d := &descriptors{site: newSite(t, descriptorsConfig)}
	d.write("list.yaml", fmt.Sprintf("sensors:\n"+
		"  - {id: one, uri: %q, rate: 20/s, sleep_plan: always_on}\n"+
		"  - {id: named, uri: 'coap://sensor.example.invalid/', rate: 20/s,\n"+
		"     sleep_plan: always_on}\n", sensor.URI()))
	t.Cleanup(d.release)
	return d
}

// hold opens connections of both kinds on which nothing is sent.
func (d *descriptors) hold(n int) {
	d.site.t.Helper()
	for i := range n {
		network, address := "tcp", d.address
		if i%2 == 1 {
			network, address = "unix", d.path("crawld.sock")
		}
		conn, err := net.Dial(network, address)
		if err != nil {
			d.site.t.Fatal(err)
		}
		d.held = append(d.held, conn)
	}
}

func (d *descriptors) release() {
	for _, c := range d.held {
		_ = c.Close()
	}
	d.held = nil
}

// open counts the daemon's descriptors.
func (d *descriptors) open() int {
	d.site.t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.cmd.Process.Pid))
	if err != nil {
		d.site.t.Fatal(err)
	}
	return len(files)
}

// limit changes how many descriptors the running daemon may have.
func (d *descriptors) limit(n int) {
	d.site.t.Helper()
	to := unix.Rlimit{Cur: uint64(n), Max: fewDescriptors}
	if err := unix.Prlimit(d.cmd.Process.Pid, unix.RLIMIT_NOFILE, &to, nil); err != nil {
		d.site.t.Fatalf("limit %d: %v", n, err)
	}
}

// cpu is the time that the daemon has spent on a processor.
func (d *descriptors) cpu() time.Duration {
	d.site.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", d.cmd.Process.Pid))
	if err != nil {
		d.site.t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest) // from the third of proc_pid_stat(5) on
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err1 != nil || err2 != nil {
		d.site.t.Fatalf("%s", text)
	}
	const tick = time.Second / 100 // USER_HZ
	return time.Duration(user+system) * tick
}

func (d *descriptors) healthy(c client, over string) {
	d.site.t.Helper()
	if status, body, err := c.get("/-/healthy"); err != nil || status != http.StatusOK {
		d.site.t.Errorf("health over %s: %d %s %v", over, status, body, err)
	}
}

func (d *descriptors) count(outcome string) float64 {
	d.site.t.Helper()
	_, text, err := d.get("/metrics")
	if err != nil {
		d.site.t.Fatal(err)
	}
	return metric(text, `crawld_crawls_total{outcome="`+outcome+`"}`)
}

// exhausted tells whether a reload finds no descriptor to read the lists with.
func (d *descriptors) exhausted() bool {
	_, body, _ := d.control.post("/-/reload")
	return strings.Contains(body, "too many open files")
}

// With 64 descriptors the daemon works as ever, however many clients there are. Without any
// left it answers, crawls what it can, puts off what it cannot, does not spin, and recovers by
// itself.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	d := newDescriptors(t)
	d.run(fewDescriptors)
	needs := d.open()
	d.hold(4 * fewDescriptors)
	d.healthy(d.client, "TCP, among idle clients")
	d.healthy(d.control, "the control socket, among idle clients")
	if n := d.open(); n >= fewDescriptors || d.exhausted() {
		t.Errorf("%d of %d descriptors are open", n, fewDescriptors)
	}
	t.Logf("%d descriptors at rest, %d with %d idle clients", needs, d.open(), len(d.held))
	d.release()
	if !eventually(func() bool { return d.open() < needs+8 }) {
		t.Errorf("%d descriptors are open, %d were", d.open(), needs)
	}
	d.limit(min(needs, d.open())) // as if other parts had taken all the others
	d.starved(t)
	d.stop(syscall.SIGTERM)
}

// starved takes all descriptors that are left, watches for some seconds, and gives them back.
func (d *descriptors) starved(t *testing.T) {
	missed, unchanged := d.count("missed"), d.count("unchanged")
	spent, began, full := d.cpu(), time.Now(), 0
	for time.Since(began) < 3*time.Second || full == 0 || d.count("missed") == missed {
		if time.Since(began) > awaitBound {
			t.Fatalf("%d times no descriptor was left, %v crawls were put off", full,
				d.count("missed")-missed)
		}
		d.hold(20)
		if d.exhausted() {
			full++
		}
		d.healthy(d.client, "TCP")
		d.healthy(d.control, "the control socket")
		unchanged++
		if !eventually(func() bool { return d.count("unchanged") >= unchanged }) {
			t.Fatal("a sensor that needs no descriptor is not crawled any more")
		}
	}
	took := time.Since(began)
	share := float64(d.cpu()-spent) / float64(took)
	t.Logf("%.1f %% of a processor over %.1f s; %d times no descriptor was left; %v crawls put off",
		100*share, took.Seconds(), full, d.count("missed")-missed)
	if share > 0.1 {
		t.Errorf("%.0f %% of a processor", 100*share)
	}
	d.release()
	d.limit(fewDescriptors)
	if !eventually(func() bool { return !d.exhausted() }) {
		t.Error("descriptors do not come back")
	}
	failed := d.count("failed")
	if !eventually(func() bool { return d.count("failed") > failed }) {
		t.Error("the name is not asked for again")
	}
}
