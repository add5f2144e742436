package api

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/repository"
)

// Nothing that is refused is stored; each refusal is counted under its name.
func TestPublishRefusals(t *testing.T) {
	d := newEvents(t)
	good := d.document(box()...)
	for _, c := range []struct {
		name, token, kind, body string
		status                  int
		code, challenge         string
	}{
		{"plain JSON", acme, "application/json", good, 415, "unsigned", ""},
		{"no type", acme, "", good, 415, "unsigned", ""},
		{"300 KB", acme, joseType, strings.Repeat("a", 300<<10), 413, discovery.TooLarge, ""},
		{"300 KB of a stranger", "", joseType, strings.Repeat("a", 300<<10), 413, discovery.TooLarge, ""},
		{"no token", "", joseType, d.sign(1, "acme", good), 401, discovery.NoToken,
			`Bearer realm="crawld"`},
		{"other's token", other, joseType, d.sign(1, "acme", good), 403, discovery.WrongKey,
			`Bearer realm="crawld", error="insufficient_scope"`},
		{"other's key", acme, joseType, d.sign(2, "acme", good), 403, discovery.BadSignature,
			`Bearer realm="crawld", error="insufficient_scope"`},
		{"other's source", other, joseType, d.sign(2, "other", good), 403, discovery.WrongSource,
			`Bearer realm="crawld", error="insufficient_scope"`},
		{"no EPCIS", acme, joseType, d.sign(1, "acme", "{}"), 422, discovery.BadEPCIS, ""},
		{"an old event", acme, joseType, d.sign(1, "acme", d.document(entry{"urn:x:e", "ObjectEvent",
			"ADD", "", "", 31 * 24 * time.Hour, []string{"urn:x:o"}})), 422, discovery.WrongTime, ""},
	} {
		w := d.post("/events", c.token, c.kind, c.body)
		var f struct{ Error, Code string }
		err := json.Unmarshal(w.Body.Bytes(), &f)
		if w.Code != c.status || err != nil || f.Code != c.code || f.Error == "" ||
			w.Header().Get("WWW-Authenticate") != c.challenge {
			t.Errorf("%s: %d %s %q", c.name, w.Code, w.Body, w.Header().Get("WWW-Authenticate"))
		}
		if testutil.ToFloat64(counter(t, d, c.code)) < 1 {
			t.Errorf("%s: not counted", c.name)
		}
	}
	var a answer
	if d.ask("/events", far, "", &a); len(a.ids()) != 0 {
		t.Errorf("stored although refused: %v", a.ids())
	}
}

// A body whose length is not told beforehand is bounded all the same, and none of a stranger
// is kept.
func TestPublishWithoutLength(t *testing.T) {
	d := newEvents(t)
	for _, c := range []struct {
		token, body string
		status      int
	}{
		{acme, strings.Repeat("a", discovery.MaxBody+1), 413}, {acme, strings.Repeat("a", 2<<20), 413},
		{"", strings.Repeat("a", 2<<20), 401}, {acme, d.sign(1, "acme", d.document(box()...)), 201},
	} {
		r := httptest.NewRequest("POST", "/events", strings.NewReader(c.body))
		r.ContentLength = -1
		r.Header.Set("Content-Type", joseType)
		r.Header.Set("Authorization", "Bearer "+c.token)
		w := httptest.NewRecorder()
		d.handler.ServeHTTP(w, r)
		if w.Code != c.status {
			t.Errorf("%d bytes with %q: %d %s", len(c.body), c.token, w.Code, w.Body)
		}
	}
}

// An event that says something else under an id that is taken is refused with all of its
// document, and other publishers may use the id for an event of their own.
func TestConflict(t *testing.T) {
	d := newEvents(t)
	first := entry{"urn:x:e", "ObjectEvent", "ADD", "", "", time.Hour, []string{"urn:x:o"}}
	d.publish(first)
	second, more := first, first
	second.objects, more.id = []string{"urn:x:p"}, "urn:x:f"
	w := d.post("/events", acme, joseType, d.sign(1, "acme", d.document(more, second)))
	if w.Code != 409 || !contains(w.Body.String(), `"code":"conflict"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = d.post("/events", other, joseType, d.sign(2, "other", d.document(second)))
	if w.Code != 201 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	var a answer
	d.ask("/events/urn:x:e", far, "", &a)
	if len(a.ids()) != 2 {
		t.Errorf("%v", a.ids())
	}
	if d.ask("/epcs/urn:x:o/events", far, "", &a); len(a.ids()) != 1 {
		t.Errorf("of o: %v", a.ids())
	}
}

// Publishers at the same time, and the same event by all: it is stored once.
func TestPublishersTogether(t *testing.T) {
	d := newEvents(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	stored := map[string]int{}
	for i := range 40 {
		same := entry{"urn:x:same", "ObjectEvent", "ADD", "", "", time.Hour, []string{"urn:x:o"}}
		own := same
		own.id = fmt.Sprint("urn:x:", i)
		body := d.sign(1, "acme", d.document(own, same))
		wg.Go(func() {
			w := d.post("/events", acme, joseType, body)
			var p publication
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != 201 {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, e := range p.Events {
				if e.Stored {
					stored[e.EventID]++
				}
			}
		})
	}
	wg.Wait()
	var a answer
	d.ask("/events?perPage=1000", far, "", &a)
	if len(a.ids()) != 41 || len(stored) != 41 || stored["urn:x:same"] != 1 {
		t.Errorf("%d events, %d stored, the same one %d times", len(a.ids()), len(stored),
			stored["urn:x:same"])
	}
}

// What the store cannot do is told as such.
func TestFaultsOfTheStore(t *testing.T) {
	d := newEvents(t)
	if err := d.repo.Close(); err != nil {
		t.Fatal(err)
	}
	w := d.post("/events", acme, joseType, d.sign(1, "acme", d.document(box()...)))
	if w.Code != 500 || testutil.ToFloat64(counter(t, d, publishFailed)) != 1 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	full := fmt.Errorf("crawld.db: %w", repository.ErrFull)
	f, ok := discoveryFault(full)
	if !ok || f.status != 507 || f.code != publishFull || publishResult(full) != publishFull {
		t.Errorf("%+v", f)
	}
}
