package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/crawld/crawld/internal/app"
	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/testbed"
)

// scriptBed starts sensors: bed LISTFILE name[=fault] ... and appends their URIs
// to the list; URI_name holds each. Names that begin with "asleep" never wake,
// those with "blocks" serve small blocks.
func scriptBed(ts *testscript.TestScript, _ bool, args []string) {
	bed := ts.Value("bed").(*testbed.Bed)
	f, err := os.OpenFile(ts.MkAbs(args[0]), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	defer f.Close()
	for _, arg := range args[1:] {
		name, fault, _ := strings.Cut(arg, "=")
		spec := testbed.Spec{Name: name, Fault: testbed.Fault(fault), Size: 300, MaxAge: 30}
		switch {
		case strings.HasPrefix(name, "blocks"):
			spec.Block = 64
		case strings.HasPrefix(name, "asleep"):
			past := []sleepplan.Window{{Start: time.Unix(0, 0), End: time.Unix(1, 0)}}
			spec.Plan, err = sleepplan.Explicit(past)
			ts.Check(err)
		}
		s, err := bed.Add(spec)
		ts.Check(err)
		_, err = fmt.Fprintln(f, s.URI())
		ts.Check(err)
		ts.Setenv("URI_"+name, s.URI())
	}
}

// scriptSensor switches one off or on again, or makes its description change: sensor
// stop|start|publish name.
func scriptSensor(ts *testscript.TestScript, _ bool, args []string) {
	s := sensorOf(ts, args[1])
	switch args[0] {
	case "stop":
		ts.Check(s.Stop())
	case "publish":
		s.Publish()
	default:
		ts.Check(s.Start())
	}
}

// scriptUnasked expects that no datagram reached a sensor: unasked name.
func scriptUnasked(ts *testscript.TestScript, _ bool, args []string) {
	for _, r := range ts.Value("bed").(*testbed.Bed).Requests() {
		if r.Sensor == args[0] {
			ts.Fatalf("%s was asked: %+v", args[0], r)
		}
	}
}

func sensorOf(ts *testscript.TestScript, name string) *testbed.Sensor {
	for _, s := range ts.Value("bed").(*testbed.Bed).Sensors() {
		if s.Name() == name {
			return s
		}
	}
	ts.Fatalf("the bed has no sensor %q", name)
	return nil
}

// scriptServes waits until the stored body is what the sensor serves: serves DATA
// name [ID]. The id is the URI if it is not given.
func scriptServes(ts *testscript.TestScript, _ bool, args []string) {
	s := sensorOf(ts, args[1])
	path := "/api/v1/sensors/" + url.PathEscape(append(args, s.URI())[2]) + "/body"
	want := string(s.Body())
	d := overSocket(ts.MkAbs(args[0]))
	body, ok := d.await(path, func(body string) bool { return body == want })
	if !ok {
		ts.Fatalf("stored of %s:\n%s\nit serves\n%s", args[1], body, want)
	}
}

// scriptCombined waits until the newest snapshot of a group has every link that the
// sensors serve, one sensor after the other, and no other: combined DATA GROUP name ...
func scriptCombined(ts *testscript.TestScript, _ bool, args []string) {
	var want []string
	for _, name := range args[2:] {
		s := sensorOf(ts, name)
		for _, l := range linkformat.Parse(s.Body()).Links {
			l.Target = "coap://" + s.Addr().String() + l.Target
			want = append(want, string(l.Append(nil))+
				fmt.Sprintf(`;anchor="coap://%s"`, s.Addr()))
		}
	}
	d := overSocket(ts.MkAbs(args[0]))
	body, ok := d.await("/api/v1/groups/"+args[1]+"/body", func(body string) bool {
		return body == strings.Join(want, ",")
	})
	if !ok || len(want) < len(args) {
		ts.Fatalf("stored of %s:\n%s\nits members serve\n%s", args[1], body, want)
	}
}

// scriptAwait asks a daemon over its control socket until the answer to a GET
// matches, lines apart: await DATA PATH REGEXP. With ! it must stop matching.
func scriptAwait(ts *testscript.TestScript, neg bool, args []string) {
	d, re := overSocket(ts.MkAbs(args[0])), regexp.MustCompile("(?m)"+args[2])
	body, ok := d.await(args[1], func(body string) bool { return re.MatchString(body) != neg })
	if !ok {
		ts.Fatalf("%s does not come to match %s; last answer:\n%s", args[1], args[2], body)
	}
}

// scriptPost posts to a daemon and expects a status and text: post DATA PATH STATUS REGEXP.
func scriptPost(ts *testscript.TestScript, _ bool, args []string) {
	status, body, err := overSocket(ts.MkAbs(args[0])).post(args[1])
	ts.Check(err)
	if strconv.Itoa(status) != args[2] || !regexp.MustCompile("(?m)"+args[3]).MatchString(body) {
		ts.Fatalf("POST %s: status %d\n%s", args[1], status, body)
	}
}

// scriptExits runs a command and expects an exit code: exits CODE command ...
func scriptExits(ts *testscript.TestScript, _ bool, args []string) {
	code := 0
	err := ts.Exec(args[1], args[2:]...)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// scriptFault runs crawld and expects that it refuses what it was given: an exit
// code, nothing on stdout, one line on stderr that matches: fault CODE REGEXP args ...
func scriptFault(ts *testscript.TestScript, neg bool, args []string) {
	scriptExits(ts, neg, append([]string{args[0], "crawld"}, args[2:]...))
	line, more, _ := strings.Cut(ts.ReadFile("stderr"), "\n")
	if more != "" || ts.ReadFile("stdout") != "" {
		ts.Fatalf("want nothing but one line on stderr")
	}
	if !regexp.MustCompile(args[1]).MatchString(line) {
		ts.Fatalf("%s\ndoes not match %s", line, args[1])
	}
}

// scriptExpand replaces $NAME by the environment's: expand TEMPLATE FILE.
func scriptExpand(ts *testscript.TestScript, _ bool, args []string) {
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
}

// scriptLines writes a list of n URIs of which one line is bad: lines FILE n bad.
func scriptLines(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	bad, err := strconv.Atoi(args[2])
	ts.Check(err)
	var b strings.Builder
	for i := 1; i <= n; i++ {
		scheme := "coap"
		if i == bad {
			scheme = "http"
		}
		fmt.Fprintf(&b, "%s://10.0.%d.%d/\n", scheme, i>>8, i&255)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(b.String()), 0o600))
}

// scriptPort takes a TCP port (port taken NAME) or a UDP port that is then free
// (port free NAME) and puts its address into the environment.
func scriptPort(ts *testscript.TestScript, _ bool, args []string) {
	if args[0] == "free" {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		ts.Check(err)
		ts.Setenv(args[1], c.LocalAddr().String())
		ts.Check(c.Close())
		return
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	ts.Defer(func() { _ = l.Close() })
	ts.Setenv(args[1], l.Addr().String())
}

// scriptSignal sends a signal to the background commands: signal HUP|TERM.
func scriptSignal(ts *testscript.TestScript, _ bool, args []string) {
	signals := map[string]syscall.Signal{"HUP": syscall.SIGHUP, "TERM": syscall.SIGTERM}
	for _, cmd := range ts.BackgroundCmds() {
		ts.Check(cmd.Process.Signal(signals[args[0]]))
	}
}

// scriptTruncate cuts a file to half its length: truncate FILE.
func scriptTruncate(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[0]))
	ts.Check(err)
	ts.Check(os.Truncate(ts.MkAbs(args[0]), info.Size()/2))
}

// scriptShape writes the names and types of a JSON document, to be compared with
// golden ones: shape FILE NAMES.
func scriptShape(ts *testscript.TestScript, _ bool, args []string) {
	names, err := shape([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(names), 0o600))
}

// scriptMetrics saves a scrape, and the names, types and labels of the daemon's own
// metrics: metrics DATA SCRAPE NAMES.
func scriptMetrics(ts *testscript.TestScript, _ bool, args []string) {
	_, text, err := overSocket(ts.MkAbs(args[0])).get("/metrics")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), []byte(text), 0o600))
	names := strings.Join(metricNames(text), "\n") + "\n"
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), []byte(names), 0o600))
}

// overSocket is a daemon that is asked over its control socket.
func overSocket(data string) client { return newClient("unix", app.SocketPath(data)) }
