package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/crawld/crawld/internal/sleepplan"
	"github.com/google/go-cmp/cmp"
)

func plan(t *testing.T) func(sleepplan.Plan, error) sleepplan.Plan {
	return func(p sleepplan.Plan, err error) sleepplan.Plan {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
}

func at(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		panic(err)
	}
	return t
}

func TestExamples(t *testing.T) {
	f, refused, err := LoadSensors([]string{"../../configs/sensors/*"})
	if err != nil || refused != nil {
		t.Fatal(refused, err)
	}
	must := plan(t)
	for id, want := range map[string]sleepplan.Plan{
		"coap://[2001:db8::10]": sleepplan.Unknown(),
		"roof-1":                sleepplan.AlwaysOn(),
		"cellar": must(sleepplan.Cycle(5*time.Minute, 30*time.Second,
			at("2026-01-01T00:00:10Z"))),
		"office": must(sleepplan.Weekly([]string{"mon-fri 18:00-09:00", "sat,sun 10:00:05-10:00:20"},
			"Asia/Tokyo", []sleepplan.Exception{
				{Date: "2026-12-25"}, {Date: "2026-12-31", Windows: []string{"12:00-13:00"}}})),
		"buoy": must(sleepplan.Explicit([]sleepplan.Window{
			{Start: at("2026-01-05T00:00:03.1Z"), End: at("2026-01-05T00:00:15.9Z")},
			{Start: at("2026-01-05T05:00:03Z"), End: at("2026-01-05T05:00:16Z")}})),
		"gate":         sleepplan.Unknown(),
		"greenhouse-1": must(sleepplan.Cycle(10*time.Minute, 15*time.Second, at("2026-01-01T00:00:00Z"))),
	} {
		if i, ok := f.Find(id); !ok {
			t.Errorf("%s is not listed", id)
		} else if !f.At(i).Plan.Equal(want) {
			t.Errorf("%s: plan %v, want %v", id, f.At(i).Plan, want)
		}
	}
	i, _ := f.Find("roof-1")
	want := fleet.Sensor{ID: "roof-1", URI: "coap://[2001:db8::11]/.well-known/core", Weight: 2,
		MaxCrawls: 12, Rate: 12.0 / 3600, Labels: map[string]string{"group": "roof"},
		Plan: sleepplan.AlwaysOn(), AckTimeout: 2 * time.Second, MaxRetrans: 4}
	if diff := cmp.Diff(want, *f.At(i)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSensorValues(t *testing.T) {
	got, _, err := ParseSensors("s.yml", []byte(`
sensors:
- uri: COAP://Host:5683
- {id: 007, uri: coap://h/a, weight: 0, max_crawls: 0, rate: 0/d, rate_fixed: true,
   labels: {floor: 3, open: true, none: x}, ack_timeout: 500ms, max_retransmit: 0,
   sleep_plan: unknown}
- id: both
  uri: coap://h/b
  sleep_plan: {cycle: {period: 5m, awake: 5m, anchor: 2026-01-01T00:00:10+09:00}}
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []fleet.Sensor{
		{ID: "COAP://Host:5683", URI: "coap://host/.well-known/core", Weight: 1,
			MaxCrawls: fleet.NoCap, Rate: fleet.DefaultRate},
		{ID: "007", URI: "coap://h/a", RateFixed: true, AckTimeout: 500 * time.Millisecond,
			Labels: map[string]string{"floor": "3", "open": "true", "none": "x"}, MaxRetrans: -1},
		{ID: "both", URI: "coap://h/b", Weight: 1, MaxCrawls: fleet.NoCap, Rate: fleet.DefaultRate,
			Plan: sleepplan.AlwaysOn()},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// JSON's own escapes and its numbers; tabs for indentation.
func TestJSON(t *testing.T) {
	got, _, err := ParseSensors("s.JSON", []byte("\ufeff{\n\t\"sensors\": [\n\t\t{\"id\": "+
		`"\ud83d\ude00", "uri": "coap:\/\/h", "weight": 1e2, "rate_fixed": true, "labels": null}`+
		"\n\t]\n}\n"))
	want := []fleet.Sensor{{ID: "\U0001f600", URI: "coap://h/.well-known/core", Weight: 100,
		MaxCrawls: fleet.NoCap, Rate: fleet.DefaultRate, RateFixed: true}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

func TestText(t *testing.T) {
	got, _, err := ParseSensors("list", []byte("\ufeff# one\r\ncoap://a\r\n\r\n  coap://b/x # y\t\n"+
		"\tcoap://c\t# z#\n#coap://d\ncoap://e"))
	var ids []string
	for _, s := range got {
		ids = append(ids, s.ID)
	}
	if want := "coap://a coap://b/x coap://c coap://e"; strings.Join(ids, " ") != want || err != nil {
		t.Errorf("%q, %v, want %q", ids, err, want)
	}
}

func TestTransportsNotSpokenAreRefusedAlone(t *testing.T) {
	dir := t.TempDir()
	txt := write(t, filepath.Join(dir, "a.txt"), "coap://a\ncoaps+ws://b # secret\ncoap+ws://c\n")
	yml := write(t, filepath.Join(dir, "b.yaml"),
		"sensors:\n- {id: d, weight: 2,\n   uri: coaps+ws://d}\n")
	f, refused, err := LoadSensors([]string{txt, yml})
	if err != nil || f.Len() != 1 || f.At(0).ID != "coap://a" {
		t.Fatalf("%v, %v", f, err)
	}
	var got []string
	for _, r := range refused {
		got = append(got, r.URI, strings.TrimPrefix(r.String(), dir+string(filepath.Separator)))
	}
	want := []string{
		"coaps+ws://b", `a.txt:2: uri "coaps+ws://b": coaps+ws: this transport is not supported yet; ` +
			`the sensor is refused, never tried in plain`,
		"coap+ws://c", `a.txt:3: uri "coap+ws://c": coap+ws: this transport is not supported yet; ` +
			`the sensor is refused, never tried in plain`,
		"coaps+ws://d", `b.yaml:3: uri "coaps+ws://d": coaps+ws: this transport is not supported yet; ` +
			`the sensor is refused, never tried in plain`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestProblemsOfAllFilesComeTogether(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "a.txt", "coap://a\ncoap://b\n")
	write(t, "b.yaml", "sensors:\n- uri: coap://x\n  id: coap://b\n")
	write(t, "c.json", `{"sensors": [{"uri": "coap://c", "weight": -1}]}`)
	_, _, err := LoadSensors([]string{"*", "b.yaml", "nothing/*.txt"})
	want := `nothing/*.txt: no such file; correct sensor_files or make the list
b.yaml:3:7: sensors[0].id: "coap://b" is listed already at a.txt:2:1; remove one or give it another id
c.json:1:44: sensors[0].weight: -1 is out of range; expected 0 .. 1000000000`
	if diff := cmp.Diff(want, message(err)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A file that two patterns name is one list, not two.
func TestFileNamedTwiceIsReadOnce(t *testing.T) {
	t.Chdir(t.TempDir())
	write(t, "a.txt", "coap://a\n")
	if f, _, err := LoadSensors([]string{"*.txt", "a.txt", "a*"}); err != nil || f.Len() != 1 {
		t.Errorf("%v, %v", f, err)
	}
}

func TestTextOf10000LinesWithOneBad(t *testing.T) {
	var b strings.Builder
	for i := range 10_000 {
		if i == 7_341 {
			b.WriteString("coap//192.0.2.1\n")
			continue
		}
		fmt.Fprintf(&b, "coap://192.0.%d.%d\n", i/256, i%256)
	}
	_, _, err := ParseSensors("list.txt", []byte(b.String()))
	if want := `list.txt:7342:1: "coap//192.0.2.1": scheme must be coap, coaps, coap+tcp or coaps+tcp`; message(err) != want {
		t.Errorf("got %v, want %s", err, want)
	}
	good := strings.Replace(b.String(), "coap//", "coap://", 1)
	got, _, err := ParseSensors("list.txt", []byte(strings.Replace(good, "192.0.2.1\n", "h\n", 1)))
	if err != nil || len(got) != 10_000 {
		t.Errorf("corrected: %d sensors, %v", len(got), err)
	}
}

// Reading twice as many lines must not allocate more than about twice as much:
// a stand-in for time that does not depend on the machine.
func TestTextIsLinear(t *testing.T) {
	n := 5_000
	if os.Getenv("CRAWLD_CI") != "" {
		n = 500_000
	}
	allocs := func(n int) float64 {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "coap://[2001:db8::%x:%x]\n", i>>16, i&0xffff)
		}
		data := []byte(b.String())
		return testing.AllocsPerRun(1, func() {
			if got, _, err := ParseSensors("l", data); err != nil || len(got) != n {
				t.Fatal(len(got), err)
			}
		})
	}
	if one, two := allocs(n), allocs(2*n); two > 2.2*one {
		t.Errorf("%d lines: %.0f allocations, %d lines: %.0f", n, one, 2*n, two)
	}
}

func TestSamePlanIsMadeOnce(t *testing.T) {
	r := newShared(nil)
	l := newList("s.yaml", []byte(`sensors:
- {uri: coap://a, sleep_plan: {weekly: [mon 10:00-11:00], time_zone: Asia/Tokyo}}
- {uri: coap://b, sleep_plan: {time_zone: Asia/Tokyo, weekly: [mon 10:00-11:00]}}
- {uri: coap://c, sleep_plan: {weekly: [mon 10:00-11:00]}}
`), r)
	if err := l.d.err(); err != nil || len(r.plans.weekly) != 2 {
		t.Fatalf("%d plans, %v", len(r.plans.weekly), err)
	}
	if a, b, c := l.sensors[0].Plan, l.sensors[1].Plan, l.sensors[2].Plan; !a.Equal(b) || a.Equal(c) {
		t.Errorf("plans %v, %v, %v", a, b, c)
	}
}
