package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/testbed"
)

// diskShop is a daemon that crawls busy sensors and takes publications.
func diskShop(t *testing.T) shop {
	t.Helper()
	s, bed, list := newShop(t), newBed(t), "sensors:\n"
	for i := range 8 {
		one, err := bed.Add(testbed.Spec{Name: fmt.Sprint("s", i), Rate: 20, Size: 2000})
		if err != nil {
			t.Fatal(err)
		}
		list += fmt.Sprintf("  - {id: %s, uri: %q, rate: 20/s, sleep_plan: always_on}\n", one.Name(),
			one.URI())
	}
	config, err := os.ReadFile(s.path("crawld.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.write("list.yaml", list)
	s.write("crawld.yaml", strings.Replace(string(config), "list.txt", "list.yaml", 1)+
		"planner: {range: 2s, budget: 40/sensor}\n")
	return s
}

// mark publishes one event and returns the status.
func (s shop) mark(d *process, n int) int {
	s.t.Helper()
	e := observed(fmt.Sprint("urn:x:mark:", n), time.Now(), "urn:x:pallet")
	status, answer, err := d.send(acmeToken, "application/jose", s.sign("acme", epcisDocument(s.t, e)))
	if err != nil {
		s.t.Fatal(err)
	}
	if status != http.StatusCreated && status != http.StatusInsufficientStorage {
		s.t.Logf("publishing: %d %s", status, answer)
	}
	return status
}

// grows waits until a counter has grown by n.
func (d *process) grows(series string, n float64) {
	d.t.Helper()
	before := -1.0
	_, ok := d.await("/metrics", func(text string) bool {
		if before < 0 {
			before = metric(text, series)
		}
		return metric(text, series) >= before+n
	})
	if !ok {
		d.t.Fatalf("%s does not grow from %v\n%s", series, before, d.text())
	}
}

func (d *process) isDegraded(reason string, want float64) time.Duration {
	d.t.Helper()
	began := time.Now()
	text, ok := d.await("/metrics", func(text string) bool {
		return metric(text, `crawld_store_degraded{reason="`+reason+`"}`) == want
	})
	if !ok {
		d.t.Fatalf("degraded by %s is not %v\n%s\n%s", reason, want, text, d.text())
	}
	return time.Since(began)
}

// A disk that fills up under the running daemon: told within seconds, publications refused,
// reads answered, nothing acknowledged lost, and all goes on when there is space again.
func TestDiskFills(t *testing.T) {
	t.Parallel()
	s := diskShop(t)
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=128m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	d := start(t, binary(t), "run", "--config", s.path("crawld.yaml"), "--data",
		filepath.Join(disk, "crawld.db"), "--web.listen-address", "127.0.0.1:0")
	d.grows(`crawld_crawls_total{outcome="described"}`, 20)
	acknowledged := 0
	if s.mark(d, acknowledged) != http.StatusCreated {
		t.Fatal("not taken while there is space")
	}
	acknowledged++
	others := filepath.Join(disk, "others")
	fillDisk(t, others)
	// What comes before the daemon looks is met by ENOSPC and, where possible, the ballast.
	for n := 1; n < 400; n++ {
		if s.mark(d, n) == http.StatusInsufficientStorage {
			break
		}
		acknowledged = n + 1
	}
	told := d.isDegraded("full", 1)
	if s.mark(d, 1000) != http.StatusInsufficientStorage {
		t.Error("publications are taken on a full disk")
	}
	if n := eventCount(t, d.client); n != acknowledged {
		t.Errorf("%d events, %d acknowledged", n, acknowledged)
	}
	if status, body, err := d.get("/-/healthy"); status != http.StatusOK ||
		!strings.Contains(body, "crawling waits") || err != nil {
		t.Errorf("healthy: %d %q %v", status, body, err)
	}
	if !eventually(func() bool { return strings.Contains(d.text(), `"degraded"`) }) {
		t.Errorf("the log says nothing:\n%s", d.text())
	}
	if err := os.Remove(others); err != nil {
		t.Fatal(err)
	}
	well := d.isDegraded("full", 0)
	d.grows(`crawld_crawls_total{outcome="described"}`, 10)
	if s.mark(d, 2000) != http.StatusCreated {
		t.Error("publications are refused although there is space again")
	}
	d.stop(syscall.SIGTERM)
	report, err := repository.Check(filepath.Join(disk, "crawld.db"), repository.Options{})
	if err != nil || len(report.Problems) > 0 || report.Events != acknowledged+1 {
		t.Errorf("%d events of %d: %v %v", report.Events, acknowledged+1, report.Problems, err)
	}
	t.Logf("degraded told after %v, well again after %v, %d events acknowledged",
		told.Round(time.Millisecond), well.Round(time.Millisecond), acknowledged+1)
}

// fillDisk takes all that is free.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 1<<20)
	for err == nil {
		_, err = f.Write(chunk)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// failSyncs has the process's calls of fdatasync fail with EIO until the returned func is
// called.
func failSyncs(t *testing.T, d *process) (stop func()) {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed")
	}
	cmd := exec.Command(strace, "-f", "-p", fmt.Sprint(d.cmd.Process.Pid), "-e",
		"trace=fdatasync", "-e", "inject=fdatasync:error=EIO")
	var out bytes.Buffer
	cmd.Stderr = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		_ = cmd.Wait()
		if strings.Contains(out.String(), "Operation not permitted") {
			t.Skipf("no process can be traced here: %s", out.String())
		}
	})
}

// A sync that fails once: the daemon reopens the file, loses nothing that it has
// acknowledged, and goes on. If it fails again it ends with the code for which no
// supervisor starts it again.
func TestSyncFails(t *testing.T) {
	t.Parallel()
	s := diskShop(t)
	d := s.run(binary(t))
	d.grows(`crawld_crawls_total{outcome="described"}`, 20)
	if s.mark(d, 0) != http.StatusCreated {
		t.Fatal("not taken")
	}
	stop := failSyncs(t, d)
	defer stop()
	says := func(text string) {
		t.Helper()
		if !eventually(func() bool { return strings.Contains(d.text(), text) }) {
			stop()
			t.Fatalf("no line with %q:\n%s", text, d.text())
		}
	}
	says("outcome not stored")
	stop() // the daemon waits a moment before it tries
	says("data file reopened")
	if status, body, err := d.get("/-/healthy"); status != http.StatusOK || body != "ok\n" {
		t.Errorf("healthy: %d %q %v", status, body, err)
	}
	d.grows(`crawld_crawls_total{outcome="described"}`, 10)
	if s.mark(d, 1) != http.StatusCreated || eventCount(t, d.client) != 2 {
		t.Errorf("after it was mended there are %d events", eventCount(t, d.client))
	}
	defer failSyncs(t, d)()
	select {
	case <-d.ended:
	case <-time.After(awaitBound):
		t.Fatalf("goes on although nothing can be synced\n%s", d.text())
	}
	if exit := (*exec.ExitError)(nil); !errors.As(d.exit, &exit) || exit.ExitCode() != exitUnhealthy {
		t.Errorf("ended with %v\n%s", d.exit, d.text())
	}
	report, err := repository.Check(s.data(), repository.Options{})
	if err != nil || len(report.Problems) > 0 || report.Events != 2 {
		t.Errorf("%d events: %v %v", report.Events, report.Problems, err)
	}
	d = s.run(binary(t))
	d.grows(`crawld_crawls_total{outcome="described"}`, 10)
	d.stop(syscall.SIGTERM)
}
