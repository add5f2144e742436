package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/testbed"
)

// loaded is a daemon that crawls while its list is changed again and again.
type loaded struct {
	t      *testing.T
	a      *App
	bed    *testbed.Bed
	logs   *observer.ObservedLogs
	log    *zap.Logger // into logs
	list   string
	stable []*testbed.Sensor // in every good list, as they are
	guest  *testbed.Sensor   // in some
}

func newLoaded(t *testing.T, sensors int) (*loaded, func()) {
	t.Helper()
	l := &loaded{t: t, bed: testbed.New(1), list: filepath.Join(t.TempDir(), "list.yaml")}
	t.Cleanup(func() {
		if err := l.bed.Close(); err != nil {
			t.Error(err)
		}
	})
	for i := range sensors {
		l.stable = append(l.stable, sensor(t, l.bed, fmt.Sprintf("s%03d", i)))
	}
	l.guest = sensor(t, l.bed, "guest")
	o := options(t)
	core, logs := observer.New(zap.DebugLevel)
	l.logs, l.log = logs, zap.New(core)
	o.Log, o.Patterns = l.log, []string{l.list}
	o.Config.Planner.Range, o.Config.Planner.Budget = 2*time.Second, 20
	o.Grace = bound
	l.write(l.good(0))
	a, stop := start(t, o)
	l.a = a
	return l, stop
}

// good is a list with the guest, or with another weight of it, or without it.
func (l *loaded) good(round int) string {
	var b strings.Builder
	b.WriteString("sensors:\n")
	for _, s := range l.stable {
		fmt.Fprintf(&b, "- {id: %s, uri: %q, rate: 20/s, sleep_plan: always_on}\n", s.Name(), s.URI())
	}
	if round%3 > 0 {
		fmt.Fprintf(&b, "- {id: guest, uri: %q, rate: 20/s, sleep_plan: always_on, weight: %d}\n",
			l.guest.URI(), round%3)
	}
	return b.String()
}

// bad is a list that must not be taken.
func (l *loaded) bad(round int) string {
	good := l.good(round)
	all := []string{"", "sensors: [", good[:len(good)-4], good + good[len("sensors:\n"):],
		good + "- {id: x}\n", strings.Replace(good, "rate", "rat", 1),
		strings.Replace(good, "always_on", "{cycle: {period: 1s, awake: 2s}}", 1), "\x00" + good,
		good + "- {id: y, uri: 'coap://user@h/'}\n"}
	return all[round%len(all)]
}

// write puts a whole new file in the old one's place.
func (l *loaded) write(text string) {
	l.t.Helper()
	next := l.list + ".new"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	if err := os.Rename(next, l.list); err != nil {
		l.t.Fatal(err)
	}
}

// crawls waits until so many more requests have come than there were.
func (l *loaded) crawls(before, more int) {
	l.t.Helper()
	await(l.t, l.a, "crawls", func(*planner.Planner, time.Time) bool {
		return len(l.bed.Requests()) >= before+more
	})
}

// visits are what the daemon says it asked of a sensor, and requests what the sensor heard:
// each one once.
func (l *loaded) tally() (visits, requests map[string]int, doubled []string) {
	visits, requests = map[string]int{}, map[string]int{}
	planned := map[string]bool{}
	for _, e := range l.logs.FilterMessage("visit").All() {
		f := e.ContextMap()
		if f["outcome"] == "missed" {
			continue
		}
		id := fmt.Sprint(f["sensor"])
		visits[id]++
		if key := fmt.Sprint(id, f["at"]); planned[key] && f["kind"] == "planned" {
			doubled = append(doubled, key)
		} else {
			planned[key] = true
		}
	}
	for _, r := range l.bed.Requests() {
		if r.Kind == testbed.KindGet && r.Code != "0.00" { // an empty ACK is for a repetition
			requests[r.Sensor]++
		}
	}
	return visits, requests, doubled
}

// While lists come and go, half of them invalid, a bad one changes nothing, and of the sensors
// that stay each crawl is made once and ends once.
func TestReloadUnderLoad(t *testing.T) {
	sensors, reloads := 20, 50
	if os.Getenv("CRAWLD_CI") != "" {
		sensors, reloads = 100, 500
	}
	l, stop := newLoaded(t, sensors)
	defer stop()
	began := time.Now()
	for round := range reloads {
		before, running := len(l.bed.Requests()), l.a.fleet.Load()
		if round%2 == 0 {
			l.write(l.bad(round / 2))
			if err := l.a.Reload(context.Background()); err == nil {
				t.Fatalf("round %d: a bad list was taken: %.300s", round, l.bad(round/2))
			}
			if l.a.fleet.Load() != running || reloadOK(t, l.a) != 0 {
				t.Fatalf("round %d: a bad list changed something", round)
			}
		} else {
			l.write(l.good(round / 2))
			if err := l.a.Reload(context.Background()); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			want := sensors
			if round/2%3 > 0 {
				want++
			}
			if n := l.a.fleet.Load().Len(); n != want || reloadOK(t, l.a) != 1 {
				t.Fatalf("round %d: %d sensors, expected %d", round, n, want)
			}
		}
		l.crawls(before, sensors/8)
	}
	took := time.Since(began)
	stop()
	visits, requests, doubled := l.tally()
	total := 0
	for _, s := range l.stable {
		total += visits[s.Name()]
		if visits[s.Name()] != requests[s.Name()] {
			t.Errorf("%s: %d visits, %d requests", s.Name(), visits[s.Name()], requests[s.Name()])
		}
	}
	if len(doubled) > 0 {
		t.Errorf("made twice: %q", doubled)
	}
	if total < reloads*sensors/16 || requests["guest"] == 0 {
		t.Errorf("only %d crawls, %d of the guest", total, requests["guest"])
	}
	t.Logf("%d reloads, half of them bad, in %v beside %d crawls: none lost, none made twice",
		reloads, took.Round(time.Millisecond), total)
	l.caught(t, visits)
}

// caught is the control: a crawl that is lost, or made twice, would show.
func (l *loaded) caught(t *testing.T, before map[string]int) {
	t.Helper()
	entries := l.logs.FilterMessage("visit").All()
	j := slices.IndexFunc(entries, func(e observer.LoggedEntry) bool {
		return e.ContextMap()["sensor"] == "s000" && e.ContextMap()["kind"] == "planned"
	})
	if j < 0 {
		t.Fatal("s000 was not crawled")
	}
	l.log.Debug("visit", entries[j].Context...)
	visits, requests, doubled := l.tally()
	if visits["s000"] != before["s000"]+1 || visits["s000"] == requests["s000"] || len(doubled) == 0 {
		t.Errorf("a visit more: %d, %d requests, doubled %q", visits["s000"], requests["s000"], doubled)
	}
}
