package app

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/net/netutil"

	"github.com/crawld/crawld/internal/testbed"
)

// watched is a daemon whose log is kept. At the end nothing may have panicked.
func watched(t *testing.T, uris ...string) (*App, func()) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	o := options(t, uris...)
	o.Log = zap.New(core)
	a, stop := start(t, o)
	return a, func() {
		stop()
		for _, e := range logs.All() {
			if strings.Contains(e.Message, "panic") {
				t.Errorf("%s: %v", e.Message, e.ContextMap())
			}
		}
	}
}

// dialled is a connection to a daemon's port that ends with the test.
func dialled(t *testing.T, a *App, send string) *net.TCPConn {
	t.Helper()
	conn, err := net.Dial("tcp", a.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(2 * bound)); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(conn, send) // it may have been refused already
	return conn.(*net.TCPConn)
}

// slow are beginnings of requests that are not gone on with.
var slow = []string{
	"", "G", "GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ", "GET / HTTP/1.1\r\nHost: x\r\n",
	"POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nab",
	"POST /-/reload HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
	"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}

// How many clients there are at once: more than there may be connections.
func clients(t *testing.T) int {
	n := maxConnections + 200
	if os.Getenv("CRAWLD_CI") != "" {
		n = 5000
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if most := int(limit.Cur) - 2*maxConnections; n > most {
		t.Skipf("needs %d descriptors, there are %d", n+2*maxConnections, limit.Cur)
	}
	return n
}

// opened is how many connections a daemon has on its ports.
func opened(t *testing.T, a *App) (connections, evicted float64) {
	t.Helper()
	families, err := a.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if len(m.GetLabel()) != 1 || m.GetLabel()[0].GetValue() != "public" {
				continue
			}
			switch f.GetName() {
			case "crawld_http_connections":
				connections = m.GetGauge().GetValue()
			case "crawld_http_evicted_connections_total":
				evicted = m.GetCounter().GetValue()
			}
		}
	}
	return connections, evicted
}

func fast(t *testing.T, a *App) (healthy, ready int, took time.Duration) {
	t.Helper()
	client := &http.Client{Timeout: bound, Transport: &http.Transport{DisableKeepAlives: true}}
	began := time.Now()
	healthy, _ = ask(t, client, "GET", "http://"+a.Addr().String()+"/-/healthy", "")
	took = time.Since(began)
	ready, _ = ask(t, client, "GET", "http://"+a.Addr().String()+"/-/ready", "")
	return healthy, ready, took
}

// Thousands of clients that send a little and wait keep nobody else out, are never more than
// there may be, and are gone without a trace after.
func TestSlowClients(t *testing.T) {
	n := clients(t)
	bed := testbed.New(1)
	defer bed.Close()
	a, stop := watched(t, sensor(t, bed, "one").URI())
	defer stop()
	before := runtime.NumGoroutine()
	var conns []*net.TCPConn
	for i := range n {
		conns = append(conns, dialled(t, a, slow[i%len(slow)]))
		if i%(n/5) == 0 {
			if healthy, ready, took := fast(t, a); healthy != 200 || ready != 200 {
				t.Errorf("behind %d slow clients: healthy %d, ready %d, after %v", i, healthy, ready, took)
			}
		}
	}
	healthy, ready, took := fast(t, a)
	open, evicted := opened(t, a)
	t.Logf("%d slow clients: %v open, %v had to go, health answered %d after %v", n, open, evicted,
		healthy, took)
	if healthy != 200 || ready != 200 || open > maxConnections || evicted < float64(n)/10 {
		t.Errorf("healthy %d, ready %d, %v open, %v evicted", healthy, ready, open, evicted)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	for end := time.Now().Add(bound); runtime.NumGoroutine() > before+10; {
		if time.Now().After(end) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
		runtime.Gosched()
	}
}

// A client alone, who hurts nobody, is given up too: each kind of slowness has an end.
func TestSlownessEnds(t *testing.T) {
	t.Parallel()
	a, stop := watched(t, "coap://127.0.0.1:9/")
	defer stop()
	var all sync.WaitGroup
	for _, begin := range slow {
		if strings.HasSuffix(begin, "\r\n\r\n") && strings.HasPrefix(begin, "GET") {
			continue // a whole request: its connection may stay for a minute
		}
		conn := dialled(t, a, begin)
		all.Go(func() {
			began := time.Now()
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("%q is waited for after %v", begin, time.Since(began))
			}
			t.Logf("%q ended after %v", begin, time.Since(began).Round(100*time.Millisecond))
		})
	}
	all.Wait()
}

// However long a body is, little of it is read.
func TestLongBodiesAreCut(t *testing.T) {
	t.Parallel()
	a, stop := watched(t, "coap://127.0.0.1:9/")
	defer stop()
	const length = 1 << 30
	var all sync.WaitGroup
	chunk := []byte("10000\r\n" + strings.Repeat("x", 1<<16) + "\r\n")
	for _, head := range []string{
		"POST /events HTTP/1.1\r\nHost: x\r\nContent-Type: application/jose\r\n",
		"POST /capture HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer aaaaaaaaaaaaaaaaaaaa\r\n" +
			"Content-Type: application/jose\r\n",
		"POST /-/reload HTTP/1.1\r\nHost: x\r\n", "GET /api/v1/status HTTP/1.1\r\nHost: x\r\n",
		"PUT /nothing HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n",
	} {
		for _, kind := range []string{"Content-Length: 1073741824", "Transfer-Encoding: chunked"} {
			conn := dialled(t, a, head+kind+"\r\n\r\n")
			all.Go(func() {
				sent := 0
				for sent < length {
					n, err := conn.Write(chunk)
					if sent += n; err != nil {
						break
					}
				}
				if sent > 64<<20 { // most of it in the kernel's buffers
					t.Errorf("%s%s: %d bytes were taken", head, kind, sent)
				}
				t.Logf("%.20q %s: %d KiB left us", head, kind, sent>>10)
			})
		}
	}
	all.Wait()
	if healthy, _, _ := fast(t, a); healthy != http.StatusOK {
		t.Errorf("healthy: %d", healthy)
	}
}

// attack is bytes that two parsers could read in two ways, or that no client sends, and what
// becomes of them: the status of each answer.
type attack struct {
	name, bytes string
	want        []int
}

const smuggled = "GET /-/smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

// getOf, getWith and postWith are requests that are well-formed but for what they are given.
func getOf(target string) string { return "GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n" }

func getWith(lines string) string {
	return "GET /-/ready HTTP/1.1\r\nHost: x\r\n" + lines + "\r\n"
}

func postWith(lines, body string) string {
	return "POST /-/ready HTTP/1.1\r\nHost: x\r\n" + lines + "\r\n" + body
}

var attacks = slices.Concat(attacksOnLengths, attacksOnHeaders, attacksOnLines, attacksOnTargets)

// attacksOnLengths are about where a body ends.
var attacksOnLengths = []attack{
	{"nothing wrong", getOf("/-/ready") + getOf("/-/ready"), []int{200, 200}},
	{"two lengths", postWith("Content-Length: 0\r\nContent-Length: 39\r\n", smuggled), []int{400}},
	{"two lengths in one", postWith("Content-Length: 0, 39\r\n", smuggled), []int{400}},
	{"signed length", postWith("Content-Length: +39\r\n", smuggled), []int{400}},
	{"hexadecimal length", postWith("Content-Length: 0x27\r\n", smuggled), []int{400}},
	{"negative length", postWith("Content-Length: -1\r\n", smuggled), []int{400}},
	{"huge length", postWith("Content-Length: 99999999999999999999\r\n", ""), []int{400}},
	{"space before the colon", postWith("Content-Length : 39\r\n", smuggled), []int{400}},
	{"CL.TE", postWith("Content-Length: 39\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"+smuggled),
		[]int{405}},
	{"TE.CL", postWith("Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
		"27\r\n"+smuggled+"\r\n0\r\n\r\n"), []int{405}},
	{"two codings", postWith("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
		"0\r\n\r\n"+smuggled), []int{501}},
	{"unknown coding", postWith("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"+smuggled), []int{501}},
	{"coding with a tab", postWith("Transfer-Encoding: \vchunked\r\n", "0\r\n\r\n"+smuggled),
		[]int{400}},
	{"coding in HTTP/1.0", "POST /-/ready HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
		smuggled, []int{405}},
	{"coding folded", postWith("Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"), []int{405}},
	{"chunk of no size", postWith("Transfer-Encoding: chunked\r\n", "\r\n"+smuggled), []int{405}},
	{"chunk size too large", postWith("Transfer-Encoding: chunked\r\n",
		"fffffffffffffffff\r\n"+smuggled), []int{405}},
	{"chunk ends by LF", postWith("Transfer-Encoding: chunked\r\n", "1\nA\n0\n\n"+smuggled),
		[]int{405}},
	{"trailers that were not said", postWith("Transfer-Encoding: chunked\r\n",
		"0\r\nContent-Length: 1\r\nHost: y\r\n\r\n"), []int{405}},
}

var attacksOnHeaders = []attack{
	{"folded header", getWith("X-A: b\r\n c\r\n"), []int{200}},
	{"folded first header", "GET /-/ready HTTP/1.1\r\n Host: x\r\n\r\n", []int{400}},
	{"bare CR in a value", getWith("X-A: b\rX-B: c\r\n"), []int{400}},
	{"bare CR in the request line", "GET /-/ready\rX HTTP/1.1\r\nHost: x\r\n\r\n", []int{400}},
	{"NUL in a value", getWith("X-A: b\x00c\r\n"), []int{400}},
	{"NUL in a name", getWith("X-\x00: b\r\n"), []int{400}},
	{"no colon", getWith("nonsense\r\n"), []int{400}},
	{"empty name", getWith(": x\r\n"), []int{400}},
	{"two hosts", getWith("Host: y\r\n"), []int{400}},
	{"no host", "GET /-/ready HTTP/1.1\r\n\r\n", []int{400}},
	{"host with a path", "GET /-/ready HTTP/1.1\r\nHost: x/../y\r\n\r\n", []int{400}},
	{"huge header", getWith("X-A: " + strings.Repeat("a", 32<<10) + "\r\n"), []int{431}},
	{"many headers", getWith(strings.Repeat("X-A: b\r\n", 4<<10)), []int{431}},
	{"huge target", getOf("/-/ready?" + strings.Repeat("a", 32<<10)), []int{431}},
	{"endless name", "GET /-/ready HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A", 64<<10), []int{431}},
	{"range", getWith("Range: bytes=0-0,0-1,0-2,0-3\r\n"), []int{200}},
}

// attacksOnLines are about the first line of a request, and what else asks for another protocol.
var attacksOnLines = []attack{
	{"unknown version", "GET /-/ready HTTP/3.7\r\nHost: x\r\n\r\n", []int{505}},
	{"no version", "GET /-/ready\r\n\r\n", []int{400}},
	{"binary", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", []int{400}},
	{"method of signs", "G\"T /-/ready HTTP/1.1\r\nHost: x\r\n\r\n", []int{400}},
	{"CONNECT", "CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: x\r\n\r\n", []int{405}},
	{"TRACE", "TRACE /-/ready HTTP/1.1\r\nHost: x\r\n\r\n", []int{405}},
	{"absolute form", getOf("http://evil.example/-/ready"), []int{200}},
	{"absolute form of another scheme", getOf("coap://127.0.0.1/-/ready"), []int{200}},
	{"authority", getOf("//evil.example/-/ready"), []int{307}},
	{"asterisk", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", []int{200}},
	{"upgrade", getWith("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"), []int{200}},
}

var attacksOnTargets = []attack{
	{"NUL in the target", getOf("/sensors/%00"), []int{404}},
	{"dots", getOf("/static/../../../../etc/passwd"), []int{307}},
	{"encoded dots", getOf("/static/%2e%2e/%2e%2e/etc/passwd"), []int{404}},
	{"dots in one segment", getOf("/static/..%2f..%2fetc%2fpasswd"), []int{404}},
	{"backslashes", getOf(`/static/..\..\etc\passwd`), []int{404}},
	{"long encoding", getOf("/static/%c0%ae%c0%ae/x"), []int{404}},
	{"encoded encoding", getOf("/static/%252e%252e/x"), []int{404}},
	{"bad encoding", getOf("/%zz"), []int{400}},
	{"raw UTF-8", getOf("/sensors/Küche"), []int{404}},
	{"raw bytes", getOf("/sensors/\xff\xfe"), []int{404}},
	{"right-to-left", getOf("/sensors/%E2%80%AE"), []int{404}},
	{"line break in the target", getOf("/sensors/%0d%0aSet-Cookie:%20a=b"), []int{404}},
}

// answers sends bytes and reads every answer until the connection ends. It ends its own half
// once it has as many as expected: a handler may take that for a client that has gone.
func answers(conn *net.TCPConn, bytes string, expected int) (codes []int, text string, err error) {
	_, _ = io.WriteString(conn, bytes) // it may be refused before it is all sent
	var all strings.Builder
	for r := bufio.NewReader(io.TeeReader(conn, &all)); ; {
		if len(codes) == expected {
			_ = conn.CloseWrite()
		}
		if _, err := r.Peek(1); err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return codes, all.String(), err
			}
			return codes, all.String(), nil // the end, or cut while the rest was on its way
		}
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return codes, all.String(), err
		}
		codes = append(codes, resp.StatusCode)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			return codes, all.String(), err
		}
	}
}

// What is ambiguous is refused or answered once; nothing hidden in a body is taken for a
// request, and nothing panics.
func TestSmuggling(t *testing.T) {
	t.Parallel()
	a, stop := watched(t, "coap://127.0.0.1:9/")
	defer stop()
	for _, attack := range attacks {
		codes, text, err := answers(dialled(t, a, ""), attack.bytes, len(attack.want))
		if err != nil || !slices.Equal(codes, attack.want) {
			t.Errorf("%s: %v, expected %v (%v)\n%.300s", attack.name, codes, attack.want, err, text)
		}
		for _, sign := range []string{"/-/smuggled", "root:", "\nSet-Cookie", "Location: //", "Location: http"} {
			if strings.Contains(text, sign) {
				t.Errorf("%s: the answer has %q:\n%.300s", attack.name, sign, text)
			}
		}
	}
	if healthy, _, _ := fast(t, a); healthy != http.StatusOK {
		t.Errorf("healthy: %d", healthy)
	}
}

// bare serves without what crawld puts around its handlers.
func bare(t *testing.T, wrap func(net.Listener) net.Listener) net.Addr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) {})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: bound}
	served := make(chan error, 1)
	go func() { served <- server.Serve(wrap(l)) }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return l.Addr()
}

// Control: the corpus tells a server that closes what is ambiguous from one that does not.
func TestSmugglingIsCaught(t *testing.T) {
	t.Parallel()
	at := bare(t, func(l net.Listener) net.Listener { return l })
	conn, err := net.Dial("tcp", at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for _, attack := range attacks {
		if attack.name == "CL.TE" {
			codes, _, _ := answers(conn.(*net.TCPConn), attack.bytes, 2)
			if slices.Equal(codes, attack.want) || len(codes) != 2 {
				t.Errorf("a bare server answers %v", codes)
			}
		}
	}
}

// Control: behind slow clients, a server that stops accepting answers nobody.
func TestSlowClientsAreCaught(t *testing.T) {
	t.Parallel()
	at := bare(t, func(l net.Listener) net.Listener {
		return netutil.LimitListener(l, 8)
	})
	for range 8 {
		conn, err := net.Dial("tcp", at.String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	if resp, err := client.Get("http://" + at.String() + "/-/ready"); err == nil {
		resp.Body.Close()
		t.Errorf("answered %s", resp.Status)
	}
}
