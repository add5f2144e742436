package api

import (
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata anew")

// shape lists the paths of a JSON value with their types, one a line. Values are
// the planner's business, names are API.
func shape(v any, path string, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			if path == ".labels" || path == ".sensors[].labels" {
				key = "*"
			}
			shape(member, path+"."+key, into)
		}
	case []any:
		into[path+" list"] = true
		for _, member := range v {
			shape(member, path+"[]", into)
		}
	case string:
		kind := "string"
		if _, err := time.Parse(time.RFC3339, v); err == nil {
			kind = "instant"
		}
		into[path+" "+kind] = true
	case nil: // of a field that has another type at other times
	default:
		into[fmt.Sprintf("%s %T", path, v)] = true
	}
}

// Field names and types of every answer, as clients decode them.
func TestGoldenShapes(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.group()
	d.run(8 * time.Minute)
	var each []string
	for _, s := range d.fleet.All() {
		each = append(each, "/api/v1/sensors?id="+url.QueryEscape(s.ID))
	}
	for name, targets := range map[string][]string{
		"status":  {"/api/v1/status"},
		"plan":    {"/api/v1/plan"},
		"sensors": {"/api/v1/sensors", "/api/v1/sensors?limit=1"},
		"sensor":  each,
		"search":  {"/api/v1/search?limit=2", "/api/v1/search?q=title%3D*"},
		"groups":  {"/api/v1/groups", "/api/v1/groups?limit=1"},
		"group":   {"/api/v1/groups/house", "/api/v1/groups/street"},
		"group-versions": {"/api/v1/groups/house/versions",
			"/api/v1/groups/house/versions?limit=1"},
		"versions": {"/api/v1/sensors/50%25/versions", "/api/v1/sensors/50%25/versions?limit=1"},
	} {
		into := map[string]bool{}
		for _, target := range targets {
			var v any
			d.get(target, &v)
			shape(v, "", into)
		}
		got := strings.Join(sortedKeys(into), "\n") + "\n"
		path := filepath.Join("testdata", name+".shape")
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: run with -update if the API is meant to change (-want +got):\n%s", name, diff)
		}
	}
}

// The golden shapes would notice a renamed field.
func TestShapeTellsNamesApart(t *testing.T) {
	lines := func(text string) []string {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		into := map[string]bool{}
		shape(v, "", into)
		return sortedKeys(into)
	}
	a := lines(`{"a":[{"b":1},{"b":null}],"c":"2026-05-04T12:00:00Z"}`)
	if want := []string{".a list", ".a[].b float64", ".c instant"}; !slices.Equal(a, want) {
		t.Errorf("%q", a)
	}
	if slices.Equal(a, lines(`{"a":[{"B":1},{"b":null}],"c":"2026-05-04T12:00:00Z"}`)) {
		t.Error("a renamed field goes unnoticed")
	}
}
