package main

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Sockets that systemd hands over are served instead of the addresses. A unix socket among
// them is not the control socket: who may use it is not known.
func TestSystemdSockets(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("sockets of systemd")
	}
	t.Parallel()
	s := newSite(t, "sensor_files: [list.txt]\nweb: {listen: '192.0.2.1:1', systemd_socket: true}\n")
	s.write("list.txt", "coap://127.0.0.1:9/\n")
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	unix, err := net.Listen("unix", s.path("public.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close()
	// LISTEN_PID is the daemon's, which is the shell's before it.
	cmd := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=2 exec "$@"`, "sh", binary(t),
		"run", "--config", s.path("crawld.yaml"), "--data", s.data())
	for _, l := range []interface{ File() (*os.File, error) }{tcp.(*net.TCPListener),
		unix.(*net.UnixListener)} {
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	d := launch(t, cmd)
	for _, c := range []struct {
		over   client
		reload int
	}{{newClient("tcp", tcp.Addr().String()), http.StatusOK},
		{newClient("unix", s.path("public.sock")), http.StatusForbidden},
		{newClient("unix", s.path("crawld.sock")), http.StatusOK}} {
		if code, body, err := c.over.get("/-/healthy"); code != http.StatusOK {
			t.Errorf("healthy: %d %s %v", code, body, err)
		}
		if code, body, err := c.over.post("/-/reload"); code != c.reload {
			t.Errorf("reload: %d %s %v, expected %d", code, body, err, c.reload)
		}
	}
	d.stop(syscall.SIGTERM)
	if _, err := os.Stat(s.path("public.sock")); err != nil {
		t.Errorf("systemd's socket was removed: %v", err)
	}
	out, err := exec.Command(binary(t), "run", "--config", s.path("crawld.yaml"), "--data",
		s.data()).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "systemd handed over no socket") {
		t.Errorf("without sockets: %v\n%s", err, out)
	}
}
