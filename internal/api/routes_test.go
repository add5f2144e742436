package api

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/exporter-toolkit/web"
	"golang.org/x/crypto/bcrypt"
)

func contains(s, part string) bool { return part != "" && strings.Contains(s, part) }

// How near to the daemon a peer is.
type nearness int

const (
	away  nearness = iota
	local          // on this machine
	owner          // of the control socket
)

var peers = []struct {
	name, addr string
	is         nearness
}{
	{"control socket", control, owner},
	{"loopback", "127.0.0.1:40000", local}, {"loopback6", "[::1]:40000", local},
	{"mapped", "[::ffff:127.0.0.1]:40000", local},
	{"another unix socket", otherSocket, away}, {"unnamed unix socket", "", away},
	{"remote", "192.0.2.9:40000", away}, {"remote6", "[2001:db8::1]:40000", away},
	{"remote mapped", "[::ffff:192.0.2.9]:40000", away}, {"zoned", "[fe80::1%eth0]:40000", away},
	{"name", "localhost:40000", away}, {"vsock", "vm(2):40000", away},
}

// origins are what a browser says of the page that made it ask.
var origins = []struct {
	name  string
	cross bool
	head  []string
}{
	{"no browser", false, nil}, {"same origin", false, []string{"Sec-Fetch-Site", "same-origin"}},
	{"typed", false, []string{"Sec-Fetch-Site", "none"}},
	{"cross-site", true, []string{"Sec-Fetch-Site", "cross-site"}},
	{"same site", true, []string{"Sec-Fetch-Site", "same-site", "Origin", "http://x.example.com"}},
	{"old browser", true, []string{"Origin", "https://attacker.example"}},
	{"sandbox", true, []string{"Origin", "null"}},
}

// route is a row: the codes of a method for those who may use it. Who is not near enough
// gets 403 for the methods that the route has; what comes from another origin gets it for all
// methods but GET and HEAD.
type route struct {
	pattern, target string // as registered, so that the test can tell which one is missing
	get, post, put  int    // of DELETE: as of put, but never 2xx
	near            nearness
}

var routeTable = []route{
	{"/{$}", "/", 200, 405, 405, away},
	{"/search", "/search?q=rt%3D*", 200, 405, 405, away},
	{"/sensors/{id}", "/sensors/50%25", 200, 405, 405, away},
	{"/sensors", "/sensors?id=50%25", 200, 405, 405, away},
	{"/static/style.css", "/static/style.css", 200, 405, 405, away},
	{"/config", "/config", 200, 405, 405, away},
	{"/-/healthy", "/-/healthy", 200, 405, 405, away},
	{"/-/ready", "/-/ready", 200, 405, 405, away},
	{"/metrics", "/metrics", 200, 405, 405, away},
	{"/-/reload", "/-/reload", 405, 200, 200, local},
	{"/-/backup", "/-/backup", 200, 405, 405, owner},
	{"/debug/pprof/", "/debug/pprof/", 200, 405, 405, owner},
	{"/debug/pprof/", "/debug/pprof/heap", 200, 405, 405, owner},
	{"/debug/pprof/", "/debug/pprof/nothing", 404, 405, 405, owner},
	{"/debug/pprof/cmdline", "/debug/pprof/cmdline", 200, 405, 405, owner},
	{"/debug/pprof/symbol", "/debug/pprof/symbol", 200, 405, 405, owner},
	{"/debug/pprof/profile", "/debug/pprof/profile?seconds=3600", 200, 405, 405, owner},
	{"/debug/pprof/trace", "/debug/pprof/trace?seconds=3600", 200, 405, 405, owner},
	{"/api/v1/status", "/api/v1/status", 200, 405, 405, away},
	{"/api/v1/plan", "/api/v1/plan", 200, 405, 405, away},
	{"/api/v1/search", "/api/v1/search?q=rt%3D*", 200, 405, 405, away},
	{"/api/v1/sensors", "/api/v1/sensors", 200, 405, 405, away},
	{"/api/v1/sensors/{id}", "/api/v1/sensors/50%25", 200, 405, 405, away},
	{"/api/v1/sensors/{id}/versions", "/api/v1/sensors/50%25/versions", 200, 405, 405, away},
	{"/api/v1/versions", "/api/v1/versions?id=50%25", 200, 405, 405, away},
	{"/api/v1/sensors/{id}/versions/{hash}/body", "/api/v1/sensors/50%25/versions/HASH/body",
		200, 405, 405, away},
	{"/api/v1/sensors/{id}/body", "/api/v1/sensors/50%25/body", 200, 405, 405, away},
	{"/api/v1/body", "/api/v1/body?id=50%25", 200, 405, 405, away},
	{"/api/v1/groups", "/api/v1/groups", 200, 405, 405, away},
	{"/api/v1/groups/{id}", "/api/v1/groups/house", 200, 405, 405, away},
	{"/api/v1/groups/{id}/versions", "/api/v1/groups/house/versions", 200, 405, 405, away},
	{"/api/v1/groups/{id}/versions/{hash}/body", "/api/v1/groups/house/versions/GROUP/body",
		200, 405, 405, away},
	{"/api/v1/groups/{id}/body", "/api/v1/groups/house/body", 200, 405, 405, away},
	{"/events", "/events", 200, 415, 405, away},
	{"/capture", "/capture", 405, 415, 405, away},
	{"/events/{id}", "/events/urn:x:none", 404, 405, 405, away},
	{"/epcs/{epc}/events", "/epcs/urn:x:none/events", 200, 405, 405, away},
	{"/epcs/{epc}/trace", "/epcs/urn:x:none/trace", 200, 405, 405, away},
	{"", "/favicon.ico", 404, 404, 404, away},
	{"", "/api/v1/", 404, 404, 404, away},
	{"", "/api/v1/reload", 404, 404, 404, away},
	{"", "/static/", 404, 404, 404, away},
	{"", "/debug/", 404, 404, 404, away},
	{"", "/debug/vars", 404, 404, 404, away},
}

// expected is the code for a peer and an origin.
func (r route) expected(method string, is nearness, cross bool) int {
	codes := map[string]int{"GET": r.get, "HEAD": r.get, "POST": r.post, "PUT": r.put,
		"DELETE": http.StatusMethodNotAllowed}
	if r.pattern == "" {
		codes["DELETE"] = http.StatusNotFound
	}
	code := codes[method]
	changes := method != "GET" && method != "HEAD"
	if changes && cross || is < r.near && code != http.StatusMethodNotAllowed {
		return http.StatusForbidden
	}
	return code
}

// routed is a daemon that has what the table's targets ask for.
func routed(t *testing.T) (*daemon, *strings.Replacer) {
	t.Helper()
	d := newDaemon(t, testFleet(t))
	d.run(10 * time.Minute)
	hash := d.store("50%", d.now, []byte("</x>"), 40)
	d.group()
	snapshots, err := d.repo.Snapshots("house", time.Time{}, 1)
	if err != nil || len(snapshots) != 1 {
		t.Fatal(snapshots, err)
	}
	return d, strings.NewReplacer("HASH", hash, "GROUP", snapshots[0].Hash)
}

func TestAuthorisation(t *testing.T) {
	d, names := routed(t)
	asked := 0
	for _, route := range routeTable {
		target := names.Replace(route.target)
		for _, peer := range peers {
			for _, origin := range origins {
				for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE"} {
					want := route.expected(method, peer.is, origin.cross)
					w := d.request(method, target, peer.addr, origin.head...)
					if asked++; w.Code != want {
						t.Errorf("%s %s from %s, %s: %d, expected %d", method, target, peer.name,
							origin.name, w.Code, want)
					}
					if w.Header().Get("X-Content-Type-Options") != "nosniff" ||
						!contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
						t.Errorf("%s %s: headers %v", method, target, w.Header())
					}
				}
			}
		}
	}
	t.Logf("%d routes, %d requests", len(routeTable), asked)
}

// users is a web configuration with one user; bcrypt's cheapest hash of "secret".
const users = "basic_auth_users: {u: %q}\n"

// With users, whoever does not come over the control socket needs a password, for every route
// and method, and gets with it what he would get without users. The requests go over a socket,
// through the handler of exporter-toolkit; who is the peer stands in a header.
func TestAuthorisationWithPasswords(t *testing.T) {
	d, names := routed(t)
	inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.handler.ServeHTTP(w, from(r.Header.Get("Test-Peer"), r))
	})
	base, client := protected(t, inner)
	for _, route := range routeTable {
		target := base + names.Replace(route.target)
		for _, peer := range peers {
			if peer.is == owner {
				continue
			}
			for _, cross := range []bool{false, true} {
				for _, password := range []string{"", "wrong", "secret"} {
					for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
						r, err := http.NewRequest(method, target, nil)
						if err != nil {
							t.Fatal(err)
						}
						r.Header.Set("Test-Peer", peer.addr)
						if cross {
							r.Header.Set("Sec-Fetch-Site", "cross-site")
						}
						want := http.StatusUnauthorized
						if password != "" {
							r.SetBasicAuth("u", password)
						}
						if password == "secret" {
							want = route.expected(method, peer.is, cross)
						}
						if got := status(t, client, r); got != want {
							t.Errorf("%s %s from %s, cross %v, password %q: %d, expected %d", method, target,
								peer.name, cross, password, got, want)
						}
					}
				}
			}
		}
	}
}

// protected serves a handler on loopback behind users with passwords.
func protected(t *testing.T, handler http.Handler) (base string, client *http.Client) {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	file, socket := filepath.Join(t.TempDir(), "web.yaml"), false
	if err := os.WriteFile(file, fmt.Appendf(nil, users, hash), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	ended := make(chan error, 1)
	go func() {
		ended <- web.Serve(l, server, &web.FlagConfig{WebListenAddresses: &[]string{},
			WebSystemdSocket: &socket, WebConfigFile: &file}, slog.New(slog.DiscardHandler))
	}()
	client = &http.Client{Transport: &http.Transport{}}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	})
	return "http://" + l.Addr().String(), client
}

func status(t *testing.T, client *http.Client, r *http.Request) int {
	t.Helper()
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// registered finds every pattern that a source registers, and what registers something that
// cannot be read off.
var (
	registered = regexp.MustCompile(`\bget\("([^"]+)"|\.Handle(?:Func)?\("[A-Z]+ ([^"]+)"`)
	registers  = regexp.MustCompile(`\bget\(|\.Handle(?:Func)?\(`)
	// wholly is the one place that puts a pattern together: what get does.
	wholly = `mux.HandleFunc("GET "+path, `
)

// unlisted are the routes of a source that the table does not have.
func unlisted(source string, table []route) (missing []string, found int) {
	source = strings.ReplaceAll(source, wholly, "")
	all := registered.FindAllStringSubmatch(source, -1)
	for _, m := range all {
		if !slices.ContainsFunc(table, func(r route) bool { return r.pattern == m[1]+m[2] }) {
			missing = append(missing, m[1]+m[2])
		}
	}
	if other := len(registers.FindAllString(source, -1)) - len(all); other > 0 {
		missing = append(missing, fmt.Sprintf("%d patterns that are no literals", other))
	}
	return missing, len(all)
}

// The table above is only worth something while it has every route.
func TestAuthorisationKnowsEveryRoute(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	routes := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		missing, found := unlisted(string(source), routeTable)
		if routes += found; missing != nil {
			t.Errorf("%s: %q: not in the table", file, missing)
		}
	}
	if routes < 38 {
		t.Fatalf("only %d routes found", routes)
	}
	for source, want := range map[string]int{`get("/new", s.page)`: 1, `mux.Handle("POST /new", h)`: 1,
		`mux.HandleFunc(pattern, h)`: 1, `get("/config", s.config)`: 0} {
		if missing, _ := unlisted(source, routeTable); len(missing) != want {
			t.Errorf("control: %s: missing %q", source, missing)
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
	overUnix := &httptest.Server{Listener: unix, Config: &http.Server{Handler: d.handler,
		ConnContext: func(ctx context.Context, _ net.Conn) context.Context { return Control(ctx) }}}
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
