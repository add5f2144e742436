package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/crawld/crawld/internal/repository"
)

// While there is no space publications are refused, the same ones again too, and every read
// is answered; they are taken when there is space again.
func TestNoSpace(t *testing.T) {
	d := newEvents(t)
	d.publish(box()...)
	if err := d.repo.Close(); err != nil {
		t.Fatal(err)
	}
	var free atomic.Int64
	d.free = func(string) (int64, int64, bool) { return free.Load() << 30, 100 << 30, true }
	gate := d.o.Gate
	d.open()
	d.o.Gate = gate
	d.handler = New(d.o)
	var body string
	for i, c := range []struct {
		free   int64
		status int
		reason string
	}{{50, 201, ""}, {7, 201, repository.TroubleLow}, {3, 507, repository.TroubleFull},
		{2, 507, repository.TroubleFull}, {20, 201, ""}} {
		free.Store(c.free)
		d.repo.Survey(t.Context())
		e := entry{fmt.Sprint("urn:x:", i), "ObjectEvent", "OBSERVE", "", "", 0, []string{"urn:x:o"}}
		body = d.sign(1, "acme", d.document(e))
		w := d.post("/events", acme, joseType, body)
		var f struct{ Code, Error string }
		_ = json.Unmarshal(w.Body.Bytes(), &f)
		if w.Code != c.status || (f.Code == publishFull) != (c.status == 507) {
			t.Errorf("%d GB: %d %s", c.free, w.Code, w.Body)
		}
		if err := d.repo.Refuses(); errors.Is(err, repository.ErrFull) != (c.status == 507) {
			t.Errorf("%d GB: %v", c.free, err)
		}
		var st statusAnswer
		d.get("/api/v1/status", &st)
		if len(st.Degraded) != min(1, len(c.reason)) ||
			c.reason != "" && st.Degraded[0].Reason != c.reason {
			t.Errorf("%d GB: degraded %+v", c.free, st.Degraded)
		}
		var a answer
		d.ask("/events", far, "", &a)
		d.ask("/epcs/urn:x:o/trace", far, "", &struct{}{})
		if w := d.request("GET", "/", far); w.Code != http.StatusOK ||
			contains(w.Body.String(), "degraded:") != (c.reason != "") {
			t.Errorf("%d GB: page %d %s", c.free, w.Code, w.Body)
		}
	}
	free.Store(1)
	d.repo.Survey(t.Context())
	if w := d.post("/events", "", joseType, body); w.Code != 401 {
		t.Errorf("a stranger learns of the disk: %d %s", w.Code, w.Body)
	}
}
