package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/crawld/crawld/internal/fleet"
	"github.com/google/go-cmp/cmp"
)

// positioned fails the test unless each problem is one line with a place.
func positioned(t *testing.T, name string, err error) {
	t.Helper()
	var es Errors
	if !errors.As(err, &es) || len(es) == 0 {
		t.Fatalf("%T %v", err, err)
	}
	for _, e := range es {
		if strings.ContainsAny(e.Error(), "\r\n") || e.File != name || e.Msg == "" ||
			e.Line < 1 && len(es) <= maxErrors || !strings.HasPrefix(e.Error(), name+":") {
			t.Fatalf("%q", e.Error())
		}
	}
}

func FuzzParse(f *testing.F) {
	if text, err := os.ReadFile(reference); err == nil {
		f.Add(string(text))
	}
	f.Add("sensor_files: [a]\nplanner: {range: 1d, step: 3tick, guard: 0, budget: 7}\n")
	f.Add("sensor_files: ['\\\\[', \"\\u00e9\\t\"]\ndata: |\n  x\n  y\n")
	f.Add("sensor_files: [a]\nlimits: {body: 0x10, block_min: 1_6}\nplanner: {capacity: 1e-9/d}\n")
	f.Add("a: &a [*a, *a]\n<<: *a\n? {b: c}\n: !!set {}\n---\n\t- x")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("/etc/crawld.yaml", []byte(text))
		if err != nil {
			positioned(t, "/etc/crawld.yaml", err)
			return
		}
		again, err := Parse(c.Path, []byte(c.YAML()))
		if err != nil {
			t.Fatalf("%v\n%s", err, c.YAML())
		}
		if diff := cmp.Diff(c, again, byPrefix); diff != "" {
			t.Fatalf("(-once +twice)\n%s\n%s", diff, c.YAML())
		}
	})
}

func FuzzParseSensors(f *testing.F) {
	files, err := filepath.Glob("../../configs/sensors/*")
	if err != nil || len(files) == 0 {
		f.Fatal("no examples", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(filepath.Ext(file), string(text))
	}
	f.Add(".txt", "coap://000000::\ncoap://a # b\n\ncoaps://c\nhttp://d\n")
	f.Add(".json", `{"sensors": [{"uri": "coap://\ud800", "labels": {"a": 1}}]} {}`)
	f.Add(".yaml", "sensors:\n- {uri: coap://a, labels: {\"a\\nb\": [x]}}\n")
	f.Add(".yaml", "sensors:\n- &a {uri: coap://a, sleep_plan: {weekly: [daily 1]}}\n- *a\n")
	f.Fuzz(func(t *testing.T, ext, text string) {
		if ext != ".yaml" && ext != ".json" {
			ext = ".txt"
		}
		sensors, refused, err := ParseSensors("list"+ext, []byte(text))
		if err != nil {
			positioned(t, "list"+ext, err)
			return
		}
		if _, err := fleet.New(sensors); err != nil {
			t.Fatalf("a list that parses is no fleet: %v", err)
		}
		for _, r := range refused {
			if r.Line < 1 || r.URI == "" || strings.Contains(r.String(), "\n") {
				t.Fatalf("%+v", r)
			}
		}
	})
}
