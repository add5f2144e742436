package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

// Whatever is asked, there is no panic and no answer of 500 and above: the parts
// behind the handler are all well. Redirects stay on this host.
func FuzzQuery(f *testing.F) {
	d := newDaemon(f, testFleet(f))
	d.run(5 * time.Minute)
	for _, route := range routeTable {
		path, query, _ := strings.Cut(route.target, "?")
		f.Add(path, query, uint8(0))
		f.Add(path, "limit=1&from=a&state=fresh&label=a%3Db&cursor=2026-05-04T12:00:00Z,x", uint8(1))
		f.Add(path+"/", query+"&id=%ff&before=2026-05-04T12:00:00.5%2B14:00", uint8(2))
	}
	f.Add("/api/v1/sensors/%2e%2e/versions/%00/body", "visits=3", uint8(3))
	f.Add("/api/v1/search", "q=rt%3Da*+obs!%3D*+age%3C1h+state%3Dfresh+%22a+b%22&limit=1"+
		"&cursor=AGEAAQ", uint8(0))
	f.Add("/search", "q=title%3D%22%1b%3C%22+sensor%3D*&cursor=AGEAAQ", uint8(0))
	f.Add("//evil.example/..", "", uint8(0))
	f.Fuzz(func(t *testing.T, path, query string, method uint8) {
		u, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(path, "/") {
			return
		}
		u.RawQuery = query
		methods := []string{"GET", "HEAD", "POST", "PUT", "OPTIONS"}
		r := &http.Request{Method: methods[int(method)%len(methods)], URL: u, Host: "crawld",
			Header: http.Header{}, RemoteAddr: "192.0.2.9:1", Body: http.NoBody, Proto: "HTTP/1.1"}
		w := httptest.NewRecorder()
		d.handler.ServeHTTP(w, r.WithContext(t.Context()))
		if w.Code >= 500 {
			t.Errorf("%s %s?%s: %d %s", r.Method, path, query, w.Code, w.Body)
		}
		at, _, _ := strings.Cut(w.Header().Get("Location"), "?") // a query goes along as it came
		if strings.HasPrefix(at, "//") || strings.Contains(at, "://") {
			t.Errorf("%s redirects to %s", path, at)
		}
		switch kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";"); {
		case kind == "application/json" && !json.Valid(w.Body.Bytes()):
			t.Errorf("%s?%s: no JSON: %s", path, query, w.Body)
		case kind == "text/html" && w.Code == 200:
			if err := checkPage(w.Body.String()); err != nil {
				t.Errorf("%s?%s: %v", path, query, err)
			}
		}
	})
}
