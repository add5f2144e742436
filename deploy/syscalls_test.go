package deploy

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds the wait for a daemon that runs under strace on a busy machine.
const patience = 60 * time.Second

// expand lists the system calls of one of systemd's sets.
func expand(t *testing.T, set string, into map[string]bool) {
	t.Helper()
	out, ok := run(t, "systemd-analyze", "syscall-filter", "--no-pager", set)
	if !ok {
		t.Fatal(out)
	}
	for _, line := range strings.Split(out, "\n")[1:] {
		switch name := strings.TrimSpace(line); {
		case strings.HasPrefix(name, "@"):
			expand(t, name, into)
		case name != "" && name[0] != '#':
			into[name] = true
		}
	}
}

// allowed is what the unit lets through: @default always, and then each
// SystemCallFilter= adds its sets or, with ~, takes them away.
func allowed(t *testing.T, filters []string) map[string]bool {
	t.Helper()
	calls := map[string]bool{}
	expand(t, "@default", calls)
	for _, filter := range filters {
		sets, without := strings.CutPrefix(filter, "~")
		named := map[string]bool{}
		for _, set := range strings.Fields(sets) {
			expand(t, set, named)
		}
		for call := range named {
			if without {
				delete(calls, call)
			} else {
				calls[call] = true
			}
		}
	}
	return calls
}

var (
	traced = regexp.MustCompile(`(?m)^\d+ +(\w+)\(`)
	family = regexp.MustCompile(`(?m)^\d+ +socket\((AF_\w+)`)
	// writable and executable at once is what MemoryDenyWriteExecute= forbids.
	wx = regexp.MustCompile(`(?m)^\d+ +m(map|protect)\(.*PROT_WRITE\|PROT_EXEC.*`)
)

// blocked lists what of a trace the unit would not let happen.
func blocked(t *testing.T, unit, trace string) []string {
	t.Helper()
	d := directives(unit)
	var faults []string
	calls := allowed(t, d["SystemCallFilter"])
	for _, m := range traced.FindAllStringSubmatch(trace, -1) {
		if !calls[m[1]] {
			faults = append(faults, m[1])
		}
	}
	families := strings.Fields(strings.Join(d["RestrictAddressFamilies"], " "))
	for _, m := range family.FindAllStringSubmatch(trace, -1) {
		if !slices.Contains(families, m[1]) {
			faults = append(faults, m[1])
		}
	}
	faults = append(faults, wx.FindAllString(trace, -1)...)
	slices.Sort(faults)
	return slices.Compact(faults)
}

// service is a directory in the places of /usr/bin/crawld, /etc/crawld and the
// state directory, and a socket in the place of systemd's.
type service struct {
	dir    string
	notify *net.UnixConn
}

func newService(t *testing.T) service {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"crawld.yaml": "sensor_files: [list.yaml]\nweb:\n  listen: 127.0.0.1:0\n",
		"list.yaml": "sensors:\n- {uri: 'coap://127.0.0.1:9/', sleep_plan: always_on}\n" +
			"- {uri: 'coap://[::1]:9/x'}\n- {uri: 'coap://[fe80::1%25lo]/'}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if out, ok := run(t, "go", "build", "-o", dir, "../cmd/crawld"); !ok {
		t.Fatal(out)
	}
	conn, err := net.ListenUnixgram("unixgram",
		&net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return service{dir, conn}
}

// command is one of the unit's command lines, below strace. With -D the daemon
// is our child and gets our signals.
func (s service) command(ctx context.Context, line string) *exec.Cmd {
	line = strings.NewReplacer("/usr/bin/", s.dir+"/", "/etc/crawld/", s.dir+"/").Replace(line)
	args := append([]string{"-D", "-f", "-A", "-o", filepath.Join(s.dir, "trace"), "--"},
		strings.Fields(line)...)
	cmd := exec.CommandContext(ctx, "strace", args...)
	cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+filepath.Join(s.dir, "notify"),
		"STATE_DIRECTORY="+s.dir, "WATCHDOG_USEC=1000000")
	return cmd
}

// await reads notifications until one holds the word, and returns that.
func (s service) await(t *testing.T, word string) string {
	t.Helper()
	if err := s.notify.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	for {
		n, err := s.notify.Read(buf)
		if err != nil {
			t.Fatalf("no %s: %v", word, err)
		}
		if text := string(buf[:n]); strings.Contains(text, word) {
			return text
		}
	}
}

// work takes a running daemon through what systemd and its users do to it.
func (s service) work(t *testing.T, process *os.Process) {
	t.Helper()
	_, url, _ := strings.Cut(s.await(t, "READY=1"), "http://")
	url, _, _ = strings.Cut(url, "\n")
	res, err := http.Get("http://" + url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err != nil || !bytes.Contains(page, []byte("process_start_time_seconds")) {
		t.Errorf("metrics lack those of the process, %v", err)
	}
	s.await(t, "WATCHDOG=1")
	if err := process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	s.await(t, "RELOADING=1")
	s.await(t, "READY=1")
	if err := process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	s.await(t, "STOPPING=1")
}

// The daemon, run as the unit runs it, makes no system call that the unit blocks.
func TestNothingNeededIsBlocked(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("system calls of Linux")
	}
	need(t, "systemd-analyze")
	need(t, "strace")
	if out, ok := run(t, "strace", "-o", os.DevNull, "true"); !ok {
		t.Skipf("strace may not trace here: %s", out)
	}
	unit := readUnit(t)
	d := directives(unit)
	s := newService(t)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	if out, err := s.command(ctx, d["ExecStartPre"][0]).CombinedOutput(); err != nil {
		t.Fatalf("ExecStartPre: %v\n%s", err, out)
	}
	var log bytes.Buffer
	daemon := s.command(ctx, d["ExecStart"][0])
	daemon.Stdout, daemon.Stderr = &log, &log // strace holds them too: Wait waits for it
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = daemon.Process.Kill() })
	s.work(t, daemon.Process)
	if err := daemon.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	trace, err := os.ReadFile(filepath.Join(s.dir, "trace"))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, m := range family.FindAllSubmatch(trace, -1) {
		seen[string(m[1])] = true
	}
	if n := len(traced.FindAll(trace, -1)); n < 500 || !seen["AF_INET"] || !seen["AF_NETLINK"] {
		t.Fatalf("the trace is incomplete: %d system calls, sockets of %v", n, seen)
	}
	if faults := blocked(t, unit, string(trace)); len(faults) > 0 {
		t.Errorf("the unit would block %q", faults)
	}
	// The comparison must bite.
	tight := strings.Replace(unit, "~@privileged", "~@network-io @privileged", 1)
	if faults := blocked(t, tight, string(trace)); !slices.Contains(faults, "socket") {
		t.Errorf("a unit without sockets would block %q", faults)
	}
}
