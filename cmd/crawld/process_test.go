package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/testbed"
)

// process is a running crawld with its log.
type process struct {
	client
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{} // closed once the process and its log have ended

	mu   sync.Mutex // guards log
	log  []logLine
	exit error // behind ended
}

// logLine is what the tests read of a line of the log.
type logLine struct {
	Level  string `json:"level"`
	Msg    string `json:"msg"`
	HTTP   string `json:"http"`
	Sensor string `json:"sensor"`
	Hash   string `json:"hash"`
	raw    string
}

// start runs the binary at path with arguments and returns when it is ready. It
// is killed at the end of the test if it still runs.
func start(t *testing.T, path string, args ...string) *process {
	t.Helper()
	return launch(t, exec.Command(path, args...))
}

// launch is start of a command that is not started yet.
func launch(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	d := &process{t: t, cmd: cmd, ended: make(chan struct{})}
	out, err := d.cmd.StderrPipe()
	if err == nil {
		err = d.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.kill)
	ready := make(chan string, 1)
	go d.read(out, ready)
	select {
	case address := <-ready:
		d.client = newClient("tcp", address)
	case <-d.ended:
		t.Fatalf("crawld %v ended by itself: %v\n%s", cmd.Args, d.exit, d.text())
	case <-time.After(awaitBound):
		t.Fatalf("crawld %v is not ready after %v\n%s", cmd.Args, awaitBound, d.text())
	}
	return d
}

// read takes in the log; a line that was cut by the end of the process is no line.
func (d *process) read(out io.Reader, ready chan<- string) {
	defer close(d.ended)
	for lines := bufio.NewReader(out); ; {
		raw, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		line := logLine{raw: raw}
		_ = json.Unmarshal([]byte(raw), &line) // not all lines are of the log
		d.mu.Lock()
		d.log = append(d.log, line)
		d.mu.Unlock()
		if line.Msg == "ready" {
			ready <- line.HTTP
		}
	}
	d.exit = d.cmd.Wait()
}

// lines returns the log so far.
func (d *process) lines() []logLine {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.log[:len(d.log):len(d.log)]
}

func (d *process) text() string {
	var b strings.Builder
	for _, l := range d.lines() {
		b.WriteString(l.raw)
	}
	return b.String()
}

// kill ends it as a power cut of the process would, and waits for its end.
func (d *process) kill() {
	_ = d.cmd.Process.Kill()
	<-d.ended
}

// stop ends it as a supervisor does and expects that it ends well.
func (d *process) stop(s syscall.Signal) {
	d.t.Helper()
	if err := d.cmd.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
	select {
	case <-d.ended:
	case <-time.After(awaitBound):
		d.t.Fatalf("%v: still running after %v\n%s", s, awaitBound, d.text())
	}
	if d.exit != nil {
		d.t.Fatalf("%v: %v\n%s", s, d.exit, d.text())
	}
}

// site is a folder with a configuration, a list and a data file.
type site struct {
	t   *testing.T
	dir string
}

func newSite(t *testing.T, config string) site {
	t.Helper()
	s := site{t, t.TempDir()}
	s.write("crawld.yaml", config)
	return s
}

func (s site) path(name string) string { return filepath.Join(s.dir, name) }
func (s site) data() string            { return s.path("crawld.db") }

func (s site) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s site) run(binary string) *process {
	s.t.Helper()
	return start(s.t, binary, "run", "--config", s.path("crawld.yaml"), "--data", s.data(),
		"--web.listen-address", "127.0.0.1:0")
}

// check runs crawld db check, which must find nothing.
func (s site) check(binary string) {
	s.t.Helper()
	out, err := exec.Command(binary, "db", "check", "--data", s.data()).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "clean") {
		s.t.Errorf("db check: %v\n%s", err, out)
	}
}

// left opens the file that a daemon left, in which a check must find nothing.
func (s site) left() (*repository.Repository, repository.Report) {
	s.t.Helper()
	report, err := repository.Check(s.data(), repository.Options{})
	if err != nil || len(report.Problems) > 0 {
		s.t.Fatalf("check: %v %v", err, report.Problems)
	}
	r, err := repository.Open(s.data(), repository.Options{ReadOnly: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return r, report
}

// newBed is a bed that ends with the test.
func newBed(t *testing.T) *testbed.Bed {
	bed := testbed.New(1)
	t.Cleanup(func() {
		if err := bed.Close(); err != nil {
			t.Error(err)
		}
	})
	return bed
}

// stdout runs a command to its end and returns its standard output.
func stdout(t *testing.T, path string, args ...string) []byte {
	t.Helper()
	out, err := exec.Command(path, args...).Output()
	if err != nil {
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			t.Logf("%s", exit.Stderr)
		}
		t.Fatalf("%s %v: %v", path, args, err)
	}
	return out
}
