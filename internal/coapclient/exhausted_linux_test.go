package coapclient

import (
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/crawld/crawld/internal/visit"
)

// useUp opens files until there is no descriptor left, and returns how to give them back.
func useUp(t *testing.T) (giveBack func()) {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	low := syscall.Rlimit{Cur: min(limit.Cur, uint64(len(open)+16)), Max: limit.Max}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low); err != nil {
		t.Fatal(err)
	}
	var files []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if err != nil {
			break
		}
		files = append(files, f)
	}
	return func() {
		for _, f := range files {
			f.Close()
		}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	}
}

// A machine that has no descriptor left says nothing of a sensor: what needs one is missed,
// as if its turn had not come, what needs none goes on, and all of it comes back.
func TestNoDescriptorLeft(t *testing.T) {
	s := newSensor(t, answerLinks)
	c := newClient(t, Options{Networks: allowLoopback})
	_, port, err := net.SplitHostPort(s.conn.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	giveBack := useUp(t)
	unknown := fetch(t, c, visitTo("coap://sensor.example.invalid/x"))
	zoned := fetch(t, c, visitTo("coap://[fe80::1%25lo]/x"))
	literal := fetch(t, c, visitTo("coap://127.0.0.1:"+port+"/x"))
	giveBack()
	for _, o := range []visit.Outcome{unknown, zoned} {
		if o.Result != visit.Missed || o.Reason != ReasonExhausted || o.DatagramsSent != 0 {
			t.Errorf("%s: %v %s %q", o.URI, o.Result, o.Reason, o.Error)
		}
		if !strings.Contains(o.Error, "too many open files") {
			t.Errorf("%s does not say why: %s", o.URI, o.Error)
		}
	}
	described(t, literal, links)
	described(t, fetch(t, c, visitTo("coap://localhost:"+port+"/x")), links)
	is(t, fetch(t, c, visitTo("coap://sensor.example.invalid/x")), visit.Failed, ReasonResolve, false)
}
