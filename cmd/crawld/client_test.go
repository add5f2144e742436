package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// client asks a daemon over HTTP, each time on a new connection: the daemon may
// have been another one a moment ago.
type client struct{ http *http.Client }

func newClient(network, address string) client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	return client{&http.Client{Timeout: awaitBound,
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}}
}

func (c client) get(path string) (int, string, error)  { return c.do(http.MethodGet, path) }
func (c client) post(path string) (int, string, error) { return c.do(http.MethodPost, path) }

func (c client) do(method, path string) (status int, body string, err error) {
	req, err := http.NewRequest(method, "http://crawld"+path, nil)
	if err != nil {
		return 0, "", err
	}
	return c.answer(req)
}

func (c client) answer(req *http.Request) (status int, body string, err error) {
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// await asks until the answer is as wanted, at most awaitBound, and returns the
// last one.
func (c client) await(path string, wanted func(body string) bool) (body string, ok bool) {
	ok = eventually(func() bool {
		_, answer, err := c.get(path)
		if err != nil {
			answer = err.Error()
		}
		body = answer
		return err == nil && wanted(body)
	})
	return body, ok
}

// eventually polls until a condition holds, at most awaitBound.
func eventually(holds func() bool) bool {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(awaitBound); time.Now().Before(end); <-tick.C {
		if holds() {
			return true
		}
	}
	return false
}

// decoded is the JSON answer to a GET.
func decoded[T any](t *testing.T, c client, path string) T {
	t.Helper()
	var v T
	status, body, err := c.get(path)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d: %s", status, body)
	}
	if err == nil {
		err = json.Unmarshal([]byte(body), &v)
	}
	if err != nil {
		t.Fatalf("GET %s: %v", path, err)
	}
	return v
}

// shape lists the names of a JSON document with their types, a line each, sorted:
// what its readers rely on. Elements of a list go by one name.
func shape(document []byte) (string, error) {
	var v any
	if err := json.Unmarshal(document, &v); err != nil {
		return "", err
	}
	lines := map[string]bool{}
	walk(lines, "", v)
	var all []string
	for line := range lines {
		all = append(all, line+"\n")
	}
	slices.Sort(all)
	return strings.Join(all, ""), nil
}

func walk(lines map[string]bool, name string, v any) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			lines[name+"{} empty"] = true
		}
		for key, field := range v {
			walk(lines, strings.TrimPrefix(name+"."+key, "."), field)
		}
	case []any:
		if len(v) == 0 {
			lines[name+"[] empty"] = true
		}
		for _, element := range v {
			walk(lines, name+"[]", element)
		}
	case nil:
		lines[name+" null"] = true
	case bool:
		lines[name+" bool"] = true
	case float64:
		lines[name+" number"] = true
	case string:
		lines[name+" string"] = true
	}
}
