package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/crawld/crawld/internal/dpt"
	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/repository"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/visit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// What an attacker would put where a daemon shows it.
const (
	hostile     = `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + "\u202e\x1b[2J&amp;"
	hostileBody = `</'onload='x>;title="</td></tr><script>alert(3)</script>";rt="{{.}}",` +
		"</\u202etxt.exe>,<javascript:alert(4)>;if=\"'><svg/onload=alert(5)>\""
)

// daemon is the handler over a real repository and a real planner, which the
// test drives in virtual time.
type daemon struct {
	t       testing.TB
	repo    *repository.Repository
	path    string
	free    repository.FreeSpace // nil: as it is
	fleet   *fleet.Fleet
	o       Options
	handler http.Handler

	mu  sync.Mutex // what the crawler's loop is in the daemon
	p   *planner.Planner
	now time.Time

	visits int
}

// The ids are what real lists and hostile ones have.
var trickyIDs = []string{"coap://[::1]/x", "coap://[2001:db8::1%25eth0]:61616/a/b?c=d&e=f",
	"50%", "a b", "%2F", "Küche/温度", "a+b", "x?y#z", "..", hostile}

func testFleet(t testing.TB) *fleet.Fleet {
	t.Helper()
	cycle, err := sleepplan.Cycle(time.Minute, 20*time.Second, start)
	if err != nil {
		t.Fatal(err)
	}
	plans := []sleepplan.Plan{cycle, sleepplan.AlwaysOn(), sleepplan.Unknown()}
	var list []fleet.Sensor
	for i, id := range trickyIDs {
		list = append(list, fleet.Sensor{ID: id, URI: fmt.Sprintf("coap://192.0.2.%d/", i+1),
			Weight: 1, MaxCrawls: 6, Rate: 1.0 / 60, Plan: plans[i%2],
			Labels: map[string]string{"room": fmt.Sprint(i % 2), "note": hostile}})
	}
	list = append(list, fleet.Sensor{ID: "unknown-plan", URI: "coap://192.0.2.200/", Weight: 1,
		MaxCrawls: fleet.NoCap, Rate: 1.0 / 60, Plan: plans[2]})
	f, err := fleet.New(list)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// rounds is how often a seeded loop goes round.
func rounds(n int) int {
	if os.Getenv("CRAWLD_CI") != "" {
		return 20 * n
	}
	return n
}

// manySensors have numbers as ids and three labels.
func manySensors(t testing.TB, n int) *fleet.Fleet {
	t.Helper()
	list := make([]fleet.Sensor, n)
	for i := range list {
		id := fmt.Sprintf("%06d", i)
		list[i] = fleet.Sensor{ID: id, URI: "coap://192.0.2.1/", Weight: 1, MaxCrawls: 1, Rate: 1,
			Plan: sleepplan.Unknown(), Labels: map[string]string{"name": id, "group": "a",
				"parity": fmt.Sprint(i % 2)}}
	}
	f, err := fleet.New(list)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func newDaemon(t testing.TB, f *fleet.Fleet) *daemon {
	t.Helper()
	d := &daemon{t: t, fleet: f, now: start, path: filepath.Join(t.TempDir(), "crawld.db")}
	var err error
	d.p, err = planner.New(f, planner.Parameters{Range: 10 * time.Minute,
		Tick: 100 * time.Millisecond, Step: 1, GuardAuto: true, PerSensor: 4,
		Polling: dpt.Params{Policy: dpt.DPTN, Bootstrap: time.Minute, MinGap: 5 * time.Second,
			MaxGap: 10 * time.Minute}}, planner.Saved{}, start)
	if err != nil {
		t.Fatal(err)
	}
	d.open()
	t.Cleanup(func() { d.repo.Close() })
	return d
}

// open opens the repository and builds the handler over it.
func (d *daemon) open() {
	d.t.Helper()
	var err error
	if d.repo, err = repository.Open(d.path, repository.Options{FreeSpace: d.free}); err != nil {
		d.t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{Name: "crawld_test", Help: "Is 1."})
	gauge.Set(1)
	registry.MustRegister(gauge)
	d.o = Options{Repo: d.repo, Do: d.do, Gatherer: registry, Version: "1.2.3", Log: zap.NewNop(),
		Reload: func(context.Context) error { return nil },
		Config: func() string { return "data: x\n" },
		Ready:  func() bool { return true },
		Fleet:  func() *fleet.Fleet { return d.fleet },
		Expires: func(id string) (time.Time, bool) {
			return start.Add(time.Hour), id == "unknown-plan"
		}}
	d.handler = New(d.o)
}

func (d *daemon) do(ctx context.Context, f func(*planner.Planner, time.Time)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	f(d.p, d.now)
	return nil
}

// run lets the daemon crawl for that long.
func (d *daemon) run(length time.Duration) {
	d.t.Helper()
	for end := d.now.Add(length); d.step(end); {
	}
}

// group makes two groups, one of all sensors and one of it and of a sensor.
func (d *daemon) group() {
	d.t.Helper()
	house := repository.Group{ID: "house", AtLeast: 1}
	for _, s := range d.fleet.All() {
		house.Members = append(house.Members, repository.Member{ID: s.ID, URI: s.URI})
	}
	street := repository.Group{ID: "street", AtLeast: 1, Members: []repository.Member{
		{ID: "house", Group: true}, {ID: "never", URI: "coap://192.0.2.77/"}}}
	groups := []repository.Group{street, house}
	if err := d.repo.SetGroups(d.t.Context(), groups, d.now); err != nil {
		d.t.Fatal(err)
	}
}

// step makes the next visit, or ends with false.
func (d *daemon) step(end time.Time) bool {
	d.t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if snap, ok := d.p.Problem(d.now); ok {
		plan, err := snap.Solve(1)
		if err != nil {
			d.t.Fatal(err)
		}
		d.p.Adopt(plan, d.now)
	}
	v, ok, wake := d.p.Next(d.now)
	if !ok {
		d.now = earlier(wake, end)
		return d.now.Before(end)
	}
	o := d.outcome(v)
	record := d.p.Observe(o, o.Ended).Encode()
	if err := d.repo.Store(d.t.Context(), repository.Write{Outcome: o, Record: record}); err != nil {
		d.t.Fatal(err)
	}
	return true
}

// outcome is what a sensor makes of a visit: its description has the minute in
// it, and of five visits one is refused and one not answered.
func (d *daemon) outcome(v visit.Visit) visit.Outcome {
	o := visit.Outcome{Visit: v, Started: d.now, Ended: d.now.Add(100 * time.Millisecond),
		Contact: true, Transcript: []visit.Line{{Note: hostile}}}
	switch d.visits++; d.visits % 5 {
	case 4:
		o.Result, o.Contact, o.Reason, o.Error = visit.Asleep, false, "timeout", "no answer"
		return o
	case 2:
		o.Result, o.Code, o.Reason, o.Error = visit.Refused, "5.00", hostile, hostile
		return o
	}
	o.Body = []byte(hostileBody + fmt.Sprintf(`,</m>;sz=%d`, d.now.Minute()))
	sum := sha256.Sum256(o.Body)
	parsed := linkformat.Parse(o.Body)
	o.Hash, o.Format, o.Code = hex.EncodeToString(sum[:]), 40, "2.05"
	o.Verdict, o.Links, o.NewETag = string(parsed.Verdict), len(parsed.Links), sum[:4]
	if o.Hash == v.Known {
		o.Result = visit.Unchanged
	}
	return o
}

// store puts a description into the repository without asking the planner.
func (d *daemon) store(id string, at time.Time, body []byte, format int) string {
	d.t.Helper()
	sum := sha256.Sum256(body)
	o := visit.Outcome{Visit: visit.Visit{Sensor: id, At: at}, Result: visit.Described, Body: body,
		Hash: hex.EncodeToString(sum[:]), Format: format, Started: at, Ended: at}
	if format == 40 {
		o.Verdict = string(linkformat.Parse(body).Verdict)
	}
	if err := d.repo.Store(d.t.Context(), repository.Write{Outcome: o}); err != nil {
		d.t.Fatal(err)
	}
	return o.Hash
}

// Peers without an address: those of the control socket and those of another unix socket.
const (
	control     = "@"
	otherSocket = "@ another"
)

// from makes a request one of a peer, as net/http does.
func from(peer string, r *http.Request) *http.Request {
	ctx := r.Context()
	if r.URL.Query().Has("seconds") { // a profile lasts until its client hangs up
		var hangUp context.CancelFunc
		ctx, hangUp = context.WithCancel(ctx)
		hangUp()
	}
	if peer == control {
		ctx = Control(ctx)
	}
	r = r.WithContext(ctx)
	r.RemoteAddr, _, _ = strings.Cut(peer, " ")
	return r
}

// request is answered without a socket.
func (d *daemon) request(method, target, peer string, header ...string) *httptest.ResponseRecorder {
	d.t.Helper()
	r := from(peer, httptest.NewRequest(method, target, nil))
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	return w
}

// get decodes the JSON answer to a GET that has to succeed.
func (d *daemon) get(target string, into any) {
	d.t.Helper()
	w := d.request("GET", target, "192.0.2.9:1")
	if w.Code != http.StatusOK {
		d.t.Fatalf("%s: %d %s", target, w.Code, w.Body)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		d.t.Fatalf("%s: Content-Type %q", target, got)
	}
	if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
		d.t.Fatalf("%s: %v", target, err)
	}
}

// refused wants a status and, in the JSON error, a text.
func (d *daemon) refused(target string, status int, text string) {
	d.t.Helper()
	w := d.request("GET", target, "192.0.2.9:1")
	var answer struct{ Error string }
	err := json.Unmarshal(w.Body.Bytes(), &answer)
	if w.Code != status || err != nil || !contains(answer.Error, text) {
		d.t.Errorf("%s: %d %s; expected %d and an error with %q", target, w.Code, w.Body, status, text)
	}
}

var errTest = errors.New("line one\nline two")
