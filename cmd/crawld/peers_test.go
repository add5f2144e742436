package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/plgd-dev/go-coap/v3/message"
	"github.com/plgd-dev/go-coap/v3/message/codes"
	"github.com/plgd-dev/go-coap/v3/mux"
	coapnet "github.com/plgd-dev/go-coap/v3/net"
	"github.com/plgd-dev/go-coap/v3/net/blockwise"
	"github.com/plgd-dev/go-coap/v3/options"
	"github.com/plgd-dev/go-coap/v3/udp"
)

const peersConfig = `sensor_files: [list.yaml]
polling: {bootstrap: 500ms, min_gap: 100ms, max_gap: 1s}
planner: {range: 5s, budget: 50/sensor}
log: {level: debug, format: json}
`

// tool finds a program of libcoap under the first of its names that is installed.
func tool(t *testing.T, names ...string) string {
	t.Helper()
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("none of %v is installed (Debian: libcoap3-bin)", names)
	return ""
}

// peer is a CoAP server that shares no code with the daemon.
type peer struct {
	name    string
	address string
	start   func() (stop func())
}

// libcoap is libcoap's own example server.
func libcoap(t *testing.T) peer {
	program := tool(t, "coap-server-notls", "coap-server")
	c, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := c.LocalAddr().String()
	if err := c.Close(); err != nil { // another one may take it: then the test fails
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(address)
	return peer{"libcoap", address, func() func() {
		cmd := exec.Command(program, "-A", host, "-p", port)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}}
}

// largeBody is a link-format document of 60 KB: 60 blocks of 1024 bytes.
func largeBody() []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < 60_000; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `</sensors/%04d>;rt="temperature-c";title="%s"`, i, strings.Repeat("x", 200))
	}
	return b.Bytes()
}

// goCoAP is a plain server of go-coap with a large description.
func goCoAP(t *testing.T) peer {
	router, body := mux.NewRouter(), largeBody()
	err := router.Handle("/.well-known/core", mux.HandlerFunc(
		func(w mux.ResponseWriter, _ *mux.Message) {
			_ = w.SetResponse(codes.Content, message.AppLinkFormat, bytes.NewReader(body))
		}))
	if err != nil {
		t.Fatal(err)
	}
	address := "127.0.0.1:0"
	start := func() func() {
		l, err := coapnet.NewListenUDP("udp4", address)
		if err != nil {
			t.Fatal(err)
		}
		address = l.LocalAddr().String()
		server := udp.NewServer(options.WithMux(router),
			options.WithBlockwise(true, blockwise.SZX1024, 10*time.Second))
		done := make(chan error, 1)
		go func() { done <- server.Serve(l) }()
		return func() {
			server.Stop()
			_ = l.Close()
			<-done
		}
	}
	start()() // to know its port
	return peer{"go-coap", address, start}
}

// What is stored of a server is what libcoap's client fetches from it, byte for
// byte; a server that goes and comes back is found again.
func TestPeers(t *testing.T) {
	t.Parallel()
	fetcher := tool(t, "coap-client-notls", "coap-client")
	s := newSite(t, peersConfig)
	list, stops := "sensors:\n", map[string]func(){}
	peers := []peer{libcoap(t), goCoAP(t)}
	for _, p := range peers {
		stops[p.name] = p.start()
		list += fmt.Sprintf("  - {id: %s, uri: %q}\n", p.name, "coap://"+p.address)
	}
	t.Cleanup(func() {
		for _, stop := range stops {
			stop()
		}
	})
	s.write("list.yaml", list)
	d := s.run(binary(t))
	for _, p := range peers {
		awaitOutcome(t, d, p.name, "described", "unchanged")
		sameAsFetched(t, d, s, fetcher, p)
	}
	for _, p := range peers {
		stops[p.name]()
	}
	for _, p := range peers {
		awaitOutcome(t, d, p.name, "asleep")
	}
	for _, p := range peers {
		stops[p.name] = p.start()
	}
	for _, p := range peers {
		awaitOutcome(t, d, p.name, "described", "unchanged")
		sameAsFetched(t, d, s, fetcher, p)
	}
	d.stop(syscall.SIGTERM)
	s.check(binary(t))
}

func awaitOutcome(t *testing.T, d *process, id string, outcomes ...string) {
	t.Helper()
	body, ok := d.await("/api/v1/sensors/"+id, func(body string) bool {
		for _, outcome := range outcomes {
			if strings.Contains(body, `"last_outcome":"`+outcome+`"`) {
				return !strings.Contains(body, `"latest":null`) // and it is stored
			}
		}
		return false
	})
	if !ok {
		t.Fatalf("%s is not %v:\n%s", id, outcomes, body)
	}
}

func sameAsFetched(t *testing.T, d *process, s site, fetcher string, p peer) {
	t.Helper()
	file := s.path(p.name + ".wlc")
	cmd := exec.Command(fetcher, "-m", "get", "-B", "20", "-o", file,
		"coap://"+p.address+"/.well-known/core")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	status, got, err := d.get("/api/v1/sensors/" + p.name + "/body")
	if err != nil || status != http.StatusOK || got != string(want) || len(want) < 100 {
		t.Errorf("%s: status %d, %v; stored %d bytes, fetched %d bytes, equal: %v",
			p.name, status, err, len(got), len(want), got == string(want))
	}
	if err := os.Remove(file); err != nil {
		t.Error(err)
	}
	t.Logf("%s: %d bytes are the same", p.name, len(want))
}
