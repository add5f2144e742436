package api

import (
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/crawld/crawld/internal/planner"
)

// Rows of a page.
const (
	maxRows     = 1000
	defaultRows = 100
)

// maxID is the longest id that a fleet takes, in bytes.
const maxID = 512

// query reads a request's parameters and keeps the first fault.
type query struct {
	values url.Values
	err    error
}

// parseQuery takes the parameters with the given names; any other one, and one
// that is repeated without being in lists, is a fault.
func parseQuery(r *http.Request, lists []string, names ...string) *query {
	values, err := url.ParseQuery(r.URL.RawQuery)
	q := &query{values: values}
	if err != nil {
		q.fail("query: %v", err)
		return q
	}
	for _, name := range sortedKeys(values) {
		switch {
		case slices.Contains(lists, name):
		case !slices.Contains(names, name):
			q.fail("%s: unknown parameter; known are: %s", clip(name),
				strings.Join(append(names, lists...), ", "))
		case len(values[name]) > 1:
			q.fail("%s: given %d times, expected once", name, len(values[name]))
		}
	}
	return q
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (q *query) fail(format string, args ...any) {
	if q.err == nil {
		q.err = faultf(http.StatusBadRequest, format, args...)
	}
}

// clip keeps what is quoted back to a client short.
func clip(s string) string {
	const most = 64
	if len(s) > most {
		s = s[:most] + "..."
	}
	return strconv.QuoteToASCII(s)
}

// number reads an integer from low to high.
func (q *query) number(name string, preset, low, high int) int {
	if !q.values.Has(name) {
		return preset
	}
	n, err := strconv.Atoi(q.values.Get(name))
	if err != nil || n < low || n > high {
		q.fail("%s: %s; expected a number from %d to %d", name, clip(q.values.Get(name)), low, high)
		return preset
	}
	return n
}

// instant reads an RFC 3339 time, zero if there is none.
func (q *query) instant(name string) time.Time {
	if !q.values.Has(name) {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, q.values.Get(name))
	if err != nil || t.Year() < 1970 {
		q.fail("%s: %s; expected a time such as 2026-05-04T12:00:00Z", name,
			clip(q.values.Get(name)))
	}
	return t
}

func (q *query) states() []planner.State {
	var list []planner.State
	for _, v := range q.values["state"] {
		if !slices.Contains(planner.States(), planner.State(v)) {
			q.fail("state: %s; expected one of %v", clip(v), planner.States())
		}
		list = append(list, planner.State(v))
	}
	return list
}

// labels reads k=v pairs. The key has no "=".
func (q *query) labels() map[string]string {
	want := map[string]string{}
	for _, v := range q.values["label"] {
		key, value, ok := strings.Cut(v, "=")
		if held, twice := want[key]; !ok || key == "" || twice && held != value {
			q.fail("label: %s; expected key=value, each key once", clip(v))
		}
		want[key] = value
	}
	return want
}

// id is the sensor meant by path or query.
func (q *query) id(r *http.Request) string {
	id := r.PathValue("id")
	if id == "" {
		id = q.values.Get("id")
	} else if q.values.Has("id") {
		q.fail("id: given in path and query")
	}
	if id == "" || len(id) > maxID {
		q.fail("id: expected 1 to %d bytes", maxID)
	}
	return id
}

// hash is the version meant by path or query, in lower case, empty if there is
// none.
func (q *query) hash(r *http.Request) string {
	given := r.PathValue("hash")
	if given == "" {
		given = q.values.Get("hash")
	}
	sum, err := hex.DecodeString(given)
	if err != nil || len(sum) != 32 && given != "" {
		q.fail("hash: %s; expected a SHA-256 in 64 hex digits", clip(given))
	}
	return hex.EncodeToString(sum)
}
