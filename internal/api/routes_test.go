package api

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func contains(s, part string) bool { return part != "" && strings.Contains(s, part) }

var peers = []struct{ name, addr string }{
	{"loopback", "127.0.0.1:40000"}, {"loopback6", "[::1]:40000"},
	{"mapped", "[::ffff:127.0.0.1]:40000"}, {"unix", "@"}, {"unix unnamed", ""},
	{"remote", "192.0.2.9:40000"}, {"remote6", "[2001:db8::1]:40000"},
	{"remote mapped", "[::ffff:192.0.2.9]:40000"}, {"zoned", "[fe80::1%eth0]:40000"},
	{"name", "localhost:40000"},
}

const locals = 5 // of them, at the front

// routeTable has for every route, method and peer the code that is right. The
// patterns are as registered, so that the test can tell which one is missing.
var routeTable = []struct {
	pattern, target string
	ok              int
	posts, puts     int // for local peers
	remote          int // for POST and PUT of others; 0: as for local ones
}{
	{"/{$}", "/", 200, 405, 405, 405},
	{"/search", "/search?q=rt%3D*", 200, 405, 405, 405},
	{"/sensors/{id}", "/sensors/50%25", 200, 405, 405, 405},
	{"/sensors", "/sensors?id=50%25", 200, 405, 405, 405},
	{"/static/style.css", "/static/style.css", 200, 405, 405, 405},
	{"/config", "/config", 200, 405, 405, 405},
	{"/-/healthy", "/-/healthy", 200, 405, 405, 405},
	{"/-/ready", "/-/ready", 200, 405, 405, 405},
	{"/metrics", "/metrics", 200, 405, 405, 405},
	{"/-/reload", "/-/reload", 405, 200, 200, 403},
	{"/-/backup", "/-/backup", 200, 405, 405, 405},
	{"/api/v1/status", "/api/v1/status", 200, 405, 405, 405},
	{"/api/v1/plan", "/api/v1/plan", 200, 405, 405, 405},
	{"/api/v1/search", "/api/v1/search?q=rt%3D*", 200, 405, 405, 405},
	{"/api/v1/sensors", "/api/v1/sensors", 200, 405, 405, 405},
	{"/api/v1/sensors/{id}", "/api/v1/sensors/50%25", 200, 405, 405, 405},
	{"/api/v1/sensors/{id}/versions", "/api/v1/sensors/50%25/versions", 200, 405, 405, 405},
	{"/api/v1/versions", "/api/v1/versions?id=50%25", 200, 405, 405, 405},
	{"/api/v1/sensors/{id}/versions/{hash}/body", "/api/v1/sensors/50%25/versions/HASH/body",
		200, 405, 405, 405},
	{"/api/v1/sensors/{id}/body", "/api/v1/sensors/50%25/body", 200, 405, 405, 405},
	{"/api/v1/body", "/api/v1/body?id=50%25", 200, 405, 405, 405},
	{"/api/v1/groups", "/api/v1/groups", 200, 405, 405, 405},
	{"/api/v1/groups/{id}", "/api/v1/groups/house", 200, 405, 405, 405},
	{"/api/v1/groups/{id}/versions", "/api/v1/groups/house/versions", 200, 405, 405, 405},
	{"/api/v1/groups/{id}/versions/{hash}/body", "/api/v1/groups/house/versions/GROUP/body",
		200, 405, 405, 405},
	{"/api/v1/groups/{id}/body", "/api/v1/groups/house/body", 200, 405, 405, 405},
	{"/events", "/events", 200, 415, 405, 0},
	{"/capture", "/capture", 405, 415, 405, 0},
	{"/events/{id}", "/events/urn:x:none", 404, 405, 405, 405},
	{"/epcs/{epc}/events", "/epcs/urn:x:none/events", 200, 405, 405, 405},
	{"/epcs/{epc}/trace", "/epcs/urn:x:none/trace", 200, 405, 405, 405},
	{"", "/favicon.ico", 404, 404, 404, 404},
	{"", "/api/v1/", 404, 404, 404, 404},
	{"", "/api/v1/reload", 404, 404, 404, 404},
	{"", "/static/", 404, 404, 404, 404},
	{"", "/debug/pprof/", 404, 404, 404, 404},
}

// onSocket are the routes that only peers of the control socket may read.
var onSocket = map[string]bool{"/-/backup": true}

func TestAuthorisation(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.run(10 * time.Minute)
	hash := d.store("50%", d.now, []byte("</x>"), 40)
	d.group()
	snapshots, err := d.repo.Snapshots("house", time.Time{}, 1)
	if err != nil || len(snapshots) != 1 {
		t.Fatal(snapshots, err)
	}
	for _, route := range routeTable {
		target := strings.NewReplacer("HASH", hash, "GROUP", snapshots[0].Hash).Replace(route.target)
		for i, peer := range peers {
			want := map[string]int{"GET": route.ok, "HEAD": route.ok, "POST": route.posts,
				"PUT": route.puts, "DELETE": 405}
			if i >= locals && route.remote != 0 {
				want["POST"], want["PUT"] = route.remote, route.remote
			}
			if onSocket[route.pattern] && peer.addr != "@" && peer.addr != "" {
				want["GET"], want["HEAD"] = 403, 403
			}
			if route.pattern == "" {
				want["DELETE"] = 404
			}
			for method, code := range want {
				w := d.request(method, target, peer.addr)
				if w.Code != code {
					t.Errorf("%s %s from %s: %d, expected %d", method, target, peer.name, w.Code, code)
				}
				if w.Header().Get("X-Content-Type-Options") != "nosniff" ||
					!contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
					t.Errorf("%s %s: headers %v", method, target, w.Header())
				}
			}
		}
	}
}

// The table above is only worth something while it has every route.
func TestAuthorisationKnowsEveryRoute(t *testing.T) {
	source, err := os.ReadFile("api.go")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, route := range routeTable {
		listed[route.pattern] = true
	}
	found := regexp.MustCompile(`get\("([^"]+)"|Handle\("[A-Z]+ ([^"]+)"`).FindAllStringSubmatch(
		string(source), -1)
	if len(found) < 18 {
		t.Fatalf("only %d routes found in api.go", len(found))
	}
	for _, m := range found {
		if !listed[m[1]+m[2]] {
			t.Errorf("route %s is not in the table", m[1]+m[2])
		}
	}
}

func TestReloadRefusesOtherOrigins(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	calls := 0
	d.o.Reload = func(context.Context) error { calls++; return nil }
	d.handler = New(d.o)
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"},
		{"Origin", "https://attacker.example"}, {"Origin", "null"},
	} {
		w := d.request("POST", "/-/reload", "127.0.0.1:1", header...)
		if w.Code != http.StatusForbidden {
			t.Errorf("%v: %d", header, w.Code)
		}
	}
	if calls != 0 {
		t.Errorf("%d reloads went through", calls)
	}
	w := d.request("POST", "/-/reload", "127.0.0.1:1", "Sec-Fetch-Site", "same-origin")
	if w.Code != 200 {
		t.Errorf("same origin: %d %s", w.Code, w.Body)
	}
}

func TestReloadTellsEveryLineOfTheError(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.o.Reload = func(ctx context.Context) error {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("a reload without end")
		}
		return errTest
	}
	d.handler = New(d.o)
	w := d.request("POST", "/-/reload", "@")
	if w.Code != 500 || w.Body.String() != errTest.Error()+"\n" {
		t.Errorf("%d %q", w.Code, w.Body)
	}
}

// What net/http really says of peers, over real sockets.
func TestReloadOverSockets(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	socket := filepath.Join(t.TempDir(), "s")
	unix, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	dial := func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) }
	overUnix := &httptest.Server{Listener: unix, Config: &http.Server{Handler: d.handler}}
	overUnix.Start()
	overTCP := httptest.NewServer(d.handler)
	for name, c := range map[string]*http.Client{"http://crawld": {
		Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
		overTCP.URL: overTCP.Client()} {
		resp, err := c.Post(name+"/-/reload", "", strings.NewReader(strings.Repeat("x", 1<<10)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		resp.Body.Close()
		if resp.StatusCode != 200 {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
	overUnix.Close()
	overTCP.Close()
}
