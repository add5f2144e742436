package repository

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/visit"
)

// A registration and the description that came with it survive a restart together; numbers
// are never given twice; a damaged row costs one registration.
func TestRegistrationsSurviveRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crawld.db")
	ctx := context.Background()
	open := func() *Repository {
		r, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open()
	if all, last, err := r.Registrations(); err != nil || len(all) != 0 || last != 0 {
		t.Fatalf("before the first: %v %d %v", all, last, err)
	}
	if err := r.DropRegistrations(ctx, 1); err != nil {
		t.Fatal(err)
	}
	want := Registration{Number: 7, Endpoint: "e", Sector: "d", Base: "coap://10.0.0.1",
		Explicit: true, Lifetime: time.Minute, Expires: time.Unix(1e9, 0).UTC(), Source: "10.0.0.1",
		Attrs: []RegistrationAttr{{"et", "é\"", true}, {"flag", "", false}}}
	w := &Write{Outcome: visit.Outcome{Visit: visit.Visit{Sensor: "rd:e?d=d"},
		Result: visit.Described, Body: []byte("</x>"), Ended: time.Unix(9e8, 0)}}
	if err := r.PutRegistration(ctx, want, w); err != nil {
		t.Fatal(err)
	}
	second := want
	second.Number = 8
	if err := r.PutRegistration(ctx, second, nil); err != nil {
		t.Fatal(err)
	}
	if err := r.DropRegistrations(ctx, 8, 9); err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = open()
	all, last, err := r.Registrations()
	if diff := cmp.Diff([]Registration{want}, all); diff != "" || last != 8 || err != nil {
		t.Errorf("%v, last %d (-want +got)\n%s", err, last, diff)
	}
	if _, ok, err := r.Latest("rd:e?d=d"); !ok || err != nil {
		t.Errorf("its description: %v %v", ok, err)
	}
	err = r.update(func(tx *bbolt.Tx) error {
		return tx.Bucket(registrations).Put(binary.BigEndian.AppendUint64(nil, 9), []byte("{"))
	})
	if err != nil {
		t.Fatal(err)
	}
	all, _, err = r.Registrations()
	if !errors.Is(err, ErrCorrupt) || len(all) != 1 {
		t.Errorf("with a damaged row: %d registrations, %v", len(all), err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	report, err := Check(path, Options{})
	if err != nil || len(report.Problems) != 1 ||
		!bytes.Contains([]byte(report.Problems[0]), []byte("registrations")) {
		t.Errorf("%v: %q", err, report.Problems)
	}
}
