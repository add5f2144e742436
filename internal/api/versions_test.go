package api

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/repository"
)

func TestVersionPages(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	const id = "coap://[::1]/x"
	var want []string
	for i := range 7 {
		at := start.Add(time.Duration(i)*time.Second + 123456*time.Microsecond)
		want = append([]string{d.store(id, at, fmt.Appendf(nil, "</%d>", i), 40)}, want...)
	}
	for _, limit := range []int{1, 2, 6, 7, 8} {
		for _, base := range []string{"/api/v1/sensors/" + url.PathEscape(id) + "/versions?",
			"/api/v1/versions?id=" + url.QueryEscape(id) + "&"} {
			var got []string
			next := "2100-01-01T00:00:00Z"
			for requests := 0; next != ""; requests++ {
				if requests > 7 {
					t.Fatalf("%s: no end, limit %d", base, limit)
				}
				var page versionList
				d.get(fmt.Sprintf("%slimit=%d&before=%s", base, limit, url.QueryEscape(next)), &page)
				for _, v := range page.Versions {
					got = append(got, v.Hash)
				}
				next = page.Next
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("limit %d: %v, expected %v", limit, got, want)
			}
		}
	}
}

// History outlives the listing; nobody's id is told from one without history.
func TestVersionsOfWhom(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.store("gone", start, []byte("</x>"), 40)
	var page versionList
	if d.get("/api/v1/sensors/gone/versions", &page); len(page.Versions) != 1 {
		t.Errorf("%+v", page)
	}
	d.get("/api/v1/sensors/gone/versions?before=2026-05-04T12:00:00Z", &page)
	if len(page.Versions) != 0 || page.Versions == nil {
		t.Errorf("%+v", page)
	}
	d.get("/api/v1/sensors/50%25/versions", &page)
	d.refused("/api/v1/sensors/nobody/versions", 404, "not in the fleet")
	d.refused("/api/v1/sensors/nobody/body", 404, "not in the fleet")
	d.refused("/api/v1/sensors/50%25/body", 404, "never described")
}

func TestBodies(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	html := []byte("<html><script>alert(1)</script>\x00\xff")
	for i, c := range []struct {
		format int
		media  string
		saved  bool
	}{
		{0, "text/plain; charset=utf-8", false}, {40, "application/link-format", false},
		{50, "application/json", false}, {60, "application/cbor", false},
		{110, "application/senml+json", false}, {112, "application/senml+cbor", false},
		{-1, "application/octet-stream", true}, {41, "application/octet-stream", true},
		{30000, "application/octet-stream", true},
	} {
		body := append(html, byte(i))
		hash := d.store("50%", start.Add(time.Duration(i)*time.Second), body, c.format)
		for _, target := range []string{"/api/v1/sensors/50%25/body", "/api/v1/body?id=50%25",
			"/api/v1/sensors/50%25/versions/" + hash + "/body",
			"/api/v1/sensors/50%25/versions/" + strings.ToUpper(hash) + "/body"} {
			w := d.request("GET", target, "192.0.2.9:1")
			h := w.Header()
			if w.Code != 200 || !bytes.Equal(w.Body.Bytes(), body) || h.Get("Content-Type") != c.media ||
				h.Get("ETag") != `"`+hash+`"` || h.Get("X-Content-Type-Options") != "nosniff" ||
				strings.HasPrefix(h.Get("Content-Disposition"), "attachment") != c.saved {
				t.Errorf("format %d, %s: %d %v %q", c.format, target, w.Code, h, w.Body)
			}
			w = d.request("GET", target, "192.0.2.9:1", "If-None-Match", `"`+hash+`"`)
			if w.Code != 304 || w.Body.Len() > 0 {
				t.Errorf("%s with its ETag: %d", target, w.Code)
			}
			w = d.request("HEAD", target, "192.0.2.9:1")
			size := w.Header().Get("Content-Length")
			if w.Code != 200 || w.Body.Len() > 0 || size != fmt.Sprint(len(body)) {
				t.Errorf("HEAD %s: %d %v", target, w.Code, w.Header())
			}
		}
	}
}

// A hash is served as a version of its own sensor only, however old it is.
func TestBodyOfOldVersion(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	first := d.store("50%", start, []byte("first"), 0)
	other := d.store("a b", start, []byte("other"), 0)
	for i := range 5 {
		d.store("50%", start.Add(time.Duration(i+1)*time.Second), fmt.Appendf(nil, "%d", i), 60)
	}
	w := d.request("GET", "/api/v1/body?id=50%25&hash="+first, "@")
	if w.Code != 200 || w.Body.String() != "first" || w.Header().Get("Content-Type")[:4] != "text" {
		t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
	}
	d.refused("/api/v1/sensors/50%25/versions/"+other+"/body", 404, "has no version "+other)
}

// A flipped byte in the file is an error that says so, and never served.
func TestDamagedBodyIsNotServed(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	hash := d.store("50%", start, []byte("</precious>"), 40)
	if err := d.repo.Close(); err != nil {
		t.Fatal(err)
	}
	flip(t, d.path)
	d.open()
	for _, target := range []string{"/api/v1/sensors/50%25/body",
		"/api/v1/sensors/50%25/versions/" + hash + "/body"} {
		d.refused(target, 503, "is damaged, so it is not served; the sensor is asked")
		if w := d.request("GET", target, "@"); bytes.Contains(w.Body.Bytes(), []byte("recious")) {
			t.Errorf("%s: %s", target, w.Body)
		}
	}
	w := d.request("GET", "/sensors?id=50%25", "@")
	if w.Code != 200 || !contains(w.Body.String(), "does not match its hash") {
		t.Errorf("page: %d %s", w.Code, w.Body)
	}
	var list versionList
	d.repo.Survey(t.Context())
	d.get("/api/v1/sensors/50%25/versions", &list)
	var st statusAnswer
	d.get("/api/v1/status", &st)
	if len(list.Versions) != 1 || !list.Versions[0].Damaged || len(st.Degraded) != 1 ||
		st.Degraded[0].Reason != repository.TroubleQuarantine {
		t.Errorf("%+v, degraded %+v", list, st.Degraded)
	}
	for _, target := range []string{"/", "/-/healthy"} {
		w := d.request("GET", target, "@")
		if w.Code != 200 || !contains(w.Body.String(), "descriptions of 1 sensors are damaged") {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	newer := d.store("50%", start.Add(time.Second), []byte("</newer>"), 40)
	d.refused("/api/v1/sensors/50%25/versions/"+hash+"/body", 410, "cannot be fetched again")
	if w := d.request("GET", "/api/v1/sensors/50%25/body", "@"); w.Body.String() != "</newer>" {
		t.Errorf("%s: %d %s", newer, w.Code, w.Body)
	}
	d.store("50%", start.Add(2*time.Second), []byte("</precious>"), 40)
	if w := d.request("GET", "/api/v1/sensors/50%25/body", "@"); w.Body.String() != "</precious>" {
		t.Errorf("fetched again: %d %s", w.Code, w.Body)
	}
	d.repo.Survey(t.Context())
	if d.get("/api/v1/status", &st); len(st.Degraded) > 0 {
		t.Errorf("fetched again: %+v", st.Degraded)
	}
}

// flip changes the last byte of every stored body.
func flip(t *testing.T, path string) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte("bodies"))
		return b.ForEach(func(k, v []byte) error {
			v = bytes.Clone(v)
			v[len(v)-1] ^= 1
			return b.Put(k, v)
		})
	})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestClosedStoreIsAnErrorNotAPanic(t *testing.T) {
	d := newDaemon(t, testFleet(t))
	d.store("50%", start, []byte("</x>"), 40)
	if err := d.repo.Close(); err != nil {
		t.Fatal(err)
	}
	for _, target := range []string{"/api/v1/sensors/50%25", "/api/v1/sensors/50%25/versions",
		"/api/v1/sensors/50%25/body"} {
		if w := d.request("GET", target, "@"); w.Code != 500 || !contains(w.Body.String(), `{"error":`) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if w := d.request("GET", "/sensors?id=50%25", "@"); w.Code != 500 {
		t.Errorf("page: %d %s", w.Code, w.Body)
	}
}
