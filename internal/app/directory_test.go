package app

import (
	"context"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/directory"
	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/planner"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/crawld/crawld/internal/testbed"
	"github.com/crawld/crawld/internal/visit"
)

// withDirectory are options of a daemon with a resource directory on loopback.
func withDirectory(t *testing.T, uris ...string) Options {
	t.Helper()
	o := options(t, uris...)
	o.Config.Directory.Listen = []string{"127.0.0.1:0"}
	o.Config.Directory.Networks = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	return o
}

// A sensor that sleeps but for a second in ten announces itself and is crawled inside the
// window in which it did. Nobody has listed it.
func TestAnnouncedSensorIsCrawledInItsWindow(t *testing.T) {
	bed := testbed.New(1)
	defer bed.Close()
	always := sensor(t, bed, "listed")
	o := withDirectory(t, always.URI())
	o.Config.Polling.Bootstrap, o.Config.Polling.MaxGap = time.Hour, time.Hour
	a, stop := start(t, o)
	defer stop()
	plan, err := sleepplan.Cycle(10*time.Second, 2*time.Second, time.Now().Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	s, err := bed.Add(testbed.Spec{Name: "shy", Plan: plan, Directory: a.DirectoryAddrs()[0],
		Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	id := directory.SensorID("shy", "")
	await(t, a, "the answer to the sensor", func(*planner.Planner, time.Time) bool {
		all := s.Registrations()
		return len(all) > 0 && all[0].Code == "2.04" && all[0].Echoes == 1
	})
	w, _ := plan.Window(s.Registrations()[0].At)
	visits, err := a.repo.Visits(id, 1)
	if err != nil || len(visits) != 1 {
		t.Fatalf("%d visits: %v", len(visits), err)
	}
	v := visits[0]
	if v.Kind != visit.Announced || v.Result != visit.Described || v.Ended.After(w.End) {
		t.Errorf("visit %v %v ended %v, window %v", v.Kind, v.Result, v.Ended, w)
	}
	t.Logf("crawled %v after it had registered", v.Started.Sub(s.Registrations()[0].At))
}

func coapClient(t *testing.T) func(args ...string) string {
	t.Helper()
	for _, name := range []string{"coap-client-notls", "coap-client-openssl", "coap-client"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		return func(args ...string) string {
			ctx, cancel := context.WithTimeout(context.Background(), bound)
			defer cancel()
			args = append([]string{"-B", "5"}, args...)
			out, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
			if err != nil {
				t.Errorf("%s %q: %v", name, args, err)
			}
			return string(out)
		}
	}
	t.Skip("coap-client of libcoap is not installed (Debian: libcoap3-bin)")
	return nil
}

// libcoap's client finds a resource by rt, and registers another sensor by its base.
func TestLibcoapFindsAndRegisters(t *testing.T) {
	client := coapClient(t)
	bed := testbed.New(1)
	defer bed.Close()
	one, two := sensor(t, bed, "one"), sensor(t, bed, "two")
	a, stop := start(t, withDirectory(t, one.URI()))
	defer stop()
	awaitStored(t, a, one.URI())
	rd := "coap://" + a.DirectoryAddrs()[0].String()
	out := client("-m", "get", rd+"/.well-known/core?rt=core.rd*")
	if !strings.Contains(out, "</rd>;rt=core.rd;ct=40") {
		t.Errorf("discovery: %q", out)
	}
	out = client("-m", "get", rd+"/rd-lookup/res?rt=temperature*")
	if !strings.Contains(out, "<coap://"+one.Addr().String()+"/sensors/temp>") {
		t.Errorf("lookup: %q", out)
	}
	out = client("-v", "7", "-m", "post", "-e", "</x>;rt=made-up", "-t", "40",
		rd+"/rd?ep=two&lt=600&base=coap://"+two.Addr().String())
	if !strings.Contains(out, "2.01") || !strings.Contains(out, "Location-Path:rd, Location-Path:1") {
		t.Errorf("registration: %q", out)
	}
	await(t, a, "a visit to the registered sensor", func(p *planner.Planner, now time.Time) bool {
		e, ok := p.Explain("rd:two", now)
		return ok && e.LastSuccess != nil
	})
}

// announce has a sensor of the bed register once, now, and returns when it has its answer.
func announce(t *testing.T, bed *testbed.Bed, a *App, spec testbed.Spec) *testbed.Sensor {
	t.Helper()
	plan, err := sleepplan.Cycle(24*time.Hour, 23*time.Hour, time.Now().Add(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	spec.Plan, spec.Directory = plan, a.DirectoryAddrs()[0]
	s, err := bed.Add(spec)
	if err != nil {
		t.Fatal(err)
	}
	await(t, a, "the answer to "+spec.Name, func(*planner.Planner, time.Time) bool {
		all := s.Registrations()
		return len(all) > 0 && all[0].Code != "" && all[0].Code != "4.01"
	})
	if code := s.Registrations()[0].Code; code != "2.04" {
		t.Fatalf("%s: %s", spec.Name, code)
	}
	return s
}

func inFleet(id string, want bool) func(*planner.Planner, time.Time) bool {
	return func(p *planner.Planner, now time.Time) bool {
		_, ok := p.Explain(id, now)
		return ok == want
	}
}

// Registered sensors outlive a restart and a reload, leave with their lifetime, and the
// listed ones keep what they have.
func TestRegistrationsRestartReloadAndExpire(t *testing.T) {
	bed := testbed.New(1)
	defer bed.Close()
	one, two := sensor(t, bed, "one"), sensor(t, bed, "two")
	o := withDirectory(t, one.URI())
	a, stop := start(t, o)
	announce(t, bed, a, testbed.Spec{Name: "stays", Lifetime: time.Hour})
	announce(t, bed, a, testbed.Spec{Name: "goes", Lifetime: time.Second})
	await(t, a, "the end of a lifetime", inFleet("rd:goes", false))
	await(t, a, "the registered sensor", inFleet("rd:stays", true))
	if at, ok := a.expires("rd:stays"); !ok || time.Until(at) < 50*time.Minute {
		t.Errorf("expires %v %v", at, ok)
	}
	if _, ok := a.expires(one.URI()); ok {
		t.Error("a listed sensor expires")
	}
	write(t, o.Patterns[0], one.URI(), two.URI())
	if err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, a, "the sensor listed anew", inFleet(two.URI(), true))
	await(t, a, "the registered sensor after a reload", inFleet("rd:stays", true))
	stop()
	a, stop = start(t, o)
	defer stop()
	await(t, a, "the registered sensor after a restart", inFleet("rd:stays", true))
	await(t, a, "none that is over", inFleet("rd:goes", false))
	write(t, o.Patterns[0], "id: broken")
	if err := a.Reload(t.Context()); err == nil {
		t.Error("a broken list is taken")
	}
	await(t, a, "the registered sensor after a bad reload", inFleet("rd:stays", true))
}

// A listed sensor that announces itself from its listed address is visited as what it is
// listed as: nothing joins the fleet.
func TestListedSensorAnnouncesItself(t *testing.T) {
	bed := testbed.New(1)
	defer bed.Close()
	o := withDirectory(t)
	s := sensor(t, bed, "own")
	write(t, o.Patterns[0], s.URI())
	o.Config.Planner.Range = time.Hour
	a, stop := start(t, o)
	defer stop()
	await(t, a, "its first description", func(p *planner.Planner, now time.Time) bool {
		e, _ := p.Explain(s.URI(), now)
		return e.LastSuccess != nil
	})
	g := directory.Registering{Endpoint: s.URI(), Base: "coap://" + s.Addr().String(),
		Lifetime: time.Hour, Source: s.Addr(), Simple: true}
	number, err := a.registerEndpoint(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	// Within the minimum gap nothing is asked, and the known description answers.
	var kind visit.Kind
	for began := time.Now(); kind != visit.Announced; {
		if err := a.crawlEndpoint(t.Context(), number); err != nil || time.Since(began) > bound {
			t.Fatalf("no visit: %v", err)
		}
		visits, err := a.repo.Visits(s.URI(), 1)
		if err != nil {
			t.Fatal(err)
		}
		kind = visits[0].Kind
	}
	if n := a.fleet.Load().Len(); n != 1 {
		t.Errorf("%d sensors", n)
	}
}

// Lookups are bounded, in pages that fit together, and know both kinds of sensors.
func TestLookupPages(t *testing.T) {
	bed := testbed.New(1)
	defer bed.Close()
	var uris []string
	for range 5 {
		uris = append(uris, sensor(t, bed, "").URI())
	}
	a, stop := start(t, withDirectory(t, uris...))
	defer stop()
	announce(t, bed, a, testbed.Spec{Name: "registered", Lifetime: time.Hour})
	for _, uri := range uris {
		await(t, a, "a description", func(p *planner.Planner, now time.Time) bool {
			e, _ := p.Explain(uri, now)
			return e.LastSuccess != nil
		})
	}
	all, err := a.lookup(t.Context(), directory.Query{})
	for err == nil && len(all) < 12 { // the last of them is being stored
		all, err = a.lookup(t.Context(), directory.Query{})
	}
	if err != nil || len(all) != 12 { // two links each
		t.Fatalf("%v: %d links", err, len(all))
	}
	var paged []directory.Found
	for page := range 4 {
		part, err := a.lookup(t.Context(), directory.Query{Skip: 5 * page, Count: 5})
		if err != nil {
			t.Fatal(err)
		}
		paged = append(paged, part...)
	}
	if len(paged) != len(all) {
		t.Fatalf("%d links in pages", len(paged))
	}
	for i := range all {
		if all[i].Link.Target != paged[i].Link.Target {
			t.Errorf("link %d: %s, in pages %s", i, all[i].Link.Target, paged[i].Link.Target)
		}
	}
	searched(t, a, all)
	ep, err := a.lookup(t.Context(), directory.Query{Endpoints: true,
		Filters: []directory.Filter{{Name: "ep", Value: "reg*"}}})
	if err != nil || len(ep) != 1 || ep[0].Link.Target != "/rd/1" {
		t.Errorf("%v: %+v", err, ep)
	}
}

// searched holds lookups that go by the search index against the list of all links.
func searched(t *testing.T, a *App, all []directory.Found) {
	t.Helper()
	bound := a.rd.Bound(a.listed.Load())
	hits := 0
	for _, f := range []directory.Filter{{Name: "rt", Value: "temperature-c"}, {Name: "rt", Value: "t*"},
		{Name: "if", Value: "sensor"}, {Name: "ct", Value: "4*"}, {Name: "rt", Value: "nothing"}} {
		if !f.OfLinks(bound) {
			t.Errorf("%v does not go by the index", f)
		}
		var want []string
		for _, found := range all {
			if linkformat.Match(found.Link, f.Name, f.Value) {
				want = append(want, found.Link.Target)
			}
		}
		for _, count := range []int{0, 3} {
			var got []string
			for more := true; more; more = count > 0 && len(got)%count == 0 && len(got) < len(want) {
				part, err := a.lookup(t.Context(), directory.Query{Filters: []directory.Filter{f},
					Skip: len(got), Count: count})
				if err != nil {
					t.Fatal(err)
				}
				for _, found := range part {
					got = append(got, found.Link.Target)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("%v by %d: %v, want %v", f, count, got, want)
			}
		}
		hits += len(want)
	}
	if hits == 0 {
		t.Error("nothing was found at all")
	}
	for _, f := range []directory.Filter{{Name: "rt", Value: "core*"}, {Name: "ep", Value: "x"},
		{Name: "href", Value: "/"}, {Name: "rt", Value: "*"}} {
		if f.OfLinks(bound) {
			t.Errorf("%v goes by the index", f)
		}
	}
}
