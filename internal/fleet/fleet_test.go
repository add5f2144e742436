package fleet

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/crawld/crawld/internal/sleepplan"
)

// TestMain fixes rapid's seed and count unless the command line names them.
func TestMain(m *testing.M) {
	checks := "300"
	if os.Getenv("CRAWLD_CI") != "" {
		checks = "20000"
	}
	for _, kv := range [][2]string{
		{"rapid.seed", "7252"}, {"rapid.checks", checks}, {"rapid.nofailfile", "true"},
	} {
		if err := flag.Set(kv[0], kv[1]); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}

func sensor(id string) Sensor {
	return Sensor{ID: id, URI: "coap://192.0.2.1/", Weight: 1, MaxCrawls: NoCap, Rate: DefaultRate}
}

func mustNew(t rapid.TB, sensors []Sensor) *Fleet {
	t.Helper()
	f, err := New(sensors)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func ids(f *Fleet) []string {
	var got []string
	for i, s := range f.All() {
		if f.At(i) != s {
			panic("At and All disagree")
		}
		got = append(got, s.ID)
	}
	return got
}

func TestNewSortsAndFills(t *testing.T) {
	listed := []Sensor{sensor("b"), sensor(""), sensor("a"), sensor("B")}
	listed[1].URI = "COAP://Gate.Example:5683/S/1"
	f := mustNew(t, listed)
	want := []string{"B", "COAP://Gate.Example:5683/S/1", "a", "b"}
	if diff := cmp.Diff(want, ids(f)); diff != "" {
		t.Fatal(diff)
	}
	if f.Len() != 4 || f.At(1).URI != "coap://gate.example/S/1" {
		t.Errorf("%d sensors, %q", f.Len(), f.At(1).URI)
	}
	if f.At(0).Labels == nil {
		t.Error("no labels map")
	}
	if listed[0].ID != "b" || listed[1].ID != "" {
		t.Error("New changed what it was given")
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		edit func(*Sensor)
		want string
	}{
		{func(s *Sensor) { s.ID, s.URI = "", "" }, `sensor "": uri is missing`},
		{func(s *Sensor) { s.ID = strings.Repeat("x", 513) }, "id must have 1 to 512 bytes, has 513"},
		{func(s *Sensor) { s.URI = "http://h/" }, `sensor "x": uri "http://h/": scheme must be coap`},
		{func(s *Sensor) { s.ID = "y" }, `sensor "y": listed twice`},
		{func(s *Sensor) { s.Weight = -1 }, "weight -1: must lie in 0 .. 1e9"},
		{func(s *Sensor) { s.Weight = 1.1e9 }, "weight 1.1e+09"},
		{func(s *Sensor) { s.Weight = math.NaN() }, "weight NaN"},
		{func(s *Sensor) { s.Rate = -1e-9 }, "rate -1e-09/s: must lie in 0 .. 1e6"},
		{func(s *Sensor) { s.Rate = math.Inf(1) }, "rate +Inf/s"},
		{func(s *Sensor) { s.Rate = math.NaN() }, "rate NaN/s"},
		{func(s *Sensor) { s.MaxCrawls = -2 }, "max_crawls -2: must not be negative"},
		{func(s *Sensor) { s.AckTimeout = -1 }, "ack_timeout -1ns: must lie in 0 .. 5m"},
		{func(s *Sensor) { s.AckTimeout = 5*time.Minute + 1 }, "ack_timeout 5m0.000000001s"},
	} {
		s := sensor("x")
		c.edit(&s)
		_, err := New([]Sensor{sensor("y"), s})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

func TestNewAcceptsTheEnds(t *testing.T) {
	low, high := sensor("low"), sensor(strings.Repeat("x", 512))
	low.Weight, low.Rate, low.MaxCrawls = 0, 0, 0
	high.Weight, high.Rate, high.MaxCrawls, high.AckTimeout = 1e9, 1e6, math.MaxInt, 5*time.Minute
	mustNew(t, []Sensor{low, high})
	if mustNew(t, nil).Len() != 0 {
		t.Error("an empty list is an empty fleet")
	}
}

func TestFind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		listed := genSensors(t, "fleet")
		f := mustNew(t, listed)
		if !slices.IsSorted(ids(f)) || f.Len() != len(listed) {
			t.Fatalf("%d listed, got %q", len(listed), ids(f))
		}
		for _, id := range append(names, "", "zz") {
			i, found := f.Find(id)
			want := slices.Index(ids(f), id)
			if found != (want >= 0) || found && i != want {
				t.Fatalf("Find(%q) = %d, %v in %q", id, i, found, ids(f))
			}
		}
	})
}

func TestEqual(t *testing.T) {
	base := sensor("x")
	base.Labels = map[string]string{"room": "1"}
	for field, edit := range edits {
		other := base
		other.Labels = maps.Clone(base.Labels)
		if !base.Equal(&other) {
			t.Fatalf("%s: a copy differs", field)
		}
		edit(&other)
		if base.Equal(&other) || other.Equal(&base) {
			t.Errorf("%s: the change goes unseen", field)
		}
	}
}

// edits change one field each.
var edits = map[string]func(*Sensor){
	"ID":         func(s *Sensor) { s.ID += "'" },
	"URI":        func(s *Sensor) { s.URI = "coap://192.0.2.9/x" },
	"Weight":     func(s *Sensor) { s.Weight++ },
	"MaxCrawls":  func(s *Sensor) { s.MaxCrawls++ },
	"Rate":       func(s *Sensor) { s.Rate *= 2 },
	"RateFixed":  func(s *Sensor) { s.RateFixed = !s.RateFixed },
	"Labels":     func(s *Sensor) { s.Labels = map[string]string{"room": "2"} },
	"Plan":       func(s *Sensor) { s.Plan = sleepplan.AlwaysOn() },
	"AckTimeout": func(s *Sensor) { s.AckTimeout += time.Second },
	"MaxRetrans": func(s *Sensor) { s.MaxRetrans++ },
	"Credential": func(s *Sensor) { s.Credential += "x" },
}

var names = []string{"a", "a/1", "b", "c", "d", "e", "ä", "A", "aa", "0"}

// genSensors lists some of the names in any order, each with few variants, so
// that two draws share unchanged, changed, new and missing sensors.
func genSensors(t *rapid.T, label string) []Sensor {
	var listed []Sensor
	for _, id := range rapid.Permutation(names).Draw(t, label) {
		s := sensor(id)
		switch v := rapid.IntRange(0, 4).Draw(t, "variant of "+id); v {
		case 0:
			continue
		case 1, 2:
		case 3:
			s.Rate *= 2
		case 4:
			s.Plan = sleepplan.AlwaysOn()
		}
		listed = append(listed, s)
	}
	return listed
}

// slowCompare is Compare by maps of everything that a sensor says.
func slowCompare(old, new []Sensor) Diff {
	text := func(s Sensor) string { return fmt.Sprint(s.URI, s.Weight, s.Rate, s.Plan) }
	before, after := map[string]string{}, map[string]string{}
	for _, s := range old {
		before[s.ID] = text(s)
	}
	for _, s := range new {
		after[s.ID] = text(s)
	}
	var d Diff
	for id, was := range before {
		switch is, listed := after[id]; {
		case !listed:
			d.Removed = append(d.Removed, id)
		case is != was:
			d.Changed = append(d.Changed, id)
		default:
			d.Unchanged++
		}
	}
	for id := range after {
		if _, listed := before[id]; !listed {
			d.Added = append(d.Added, id)
		}
	}
	for _, s := range [][]string{d.Added, d.Removed, d.Changed} {
		slices.Sort(s)
	}
	return d
}

func TestCompare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genSensors(t, "old"), genSensors(t, "new")
		want := slowCompare(a, b)
		if diff := cmp.Diff(want, Compare(mustNew(t, a), mustNew(t, b))); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestCompareWithNone(t *testing.T) {
	f := mustNew(t, []Sensor{sensor("a"), sensor("b")})
	want := []Diff{{Added: ids(f)}, {Removed: ids(f)}, {Unchanged: 2}, {}}
	got := []Diff{Compare(nil, f), Compare(f, nil), Compare(f, f), Compare(nil, nil)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The twin must see what it is there to find: a Compare that overlooks changes.
func TestCompareTwinCatchesAnOversight(t *testing.T) {
	old, new := []Sensor{sensor("a")}, []Sensor{sensor("a")}
	new[0].Rate *= 2
	careless := Diff{Unchanged: 1}
	if cmp.Equal(careless, slowCompare(old, new)) {
		t.Error("the twin agrees with a Compare that looks at ids alone")
	}
}
