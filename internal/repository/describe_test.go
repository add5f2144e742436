package repository

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

func TestObjectOf(t *testing.T) {
	const uri = "coap://[2001:db8::1]:5683/.well-known/core"
	for _, c := range [][3]string{
		{"urn:dev:mac:1", uri, "urn:dev:mac:1"},
		{"greenhouse 4", "coap://[2001:db8::1]/.well-known/core", "coap://[2001:db8::1]"},
		{"a", "coap://[fe80::1%25eth0]/x", "coap://[fe80::1]"},
		{uri, uri, "coap://[2001:db8::1]:5683"},
		{"coaps://h/", "coaps://h/.well-known/core", "coaps://h"},
		{"coap://[fe80::1%25eth0]/x", "coap://[fe80::1%25eth0]/x", "coap://[fe80::1]"},
		{"a", "/.well-known/core", ""},
		{"a", "urn:x", ""},
		{"", "", ""},
		{"%", ":", ""},
	} {
		want, _ := epcis.Canonical(c[2])
		if got := ObjectOf(c[0], c[1]); got != want {
			t.Errorf("%q at %q is object %q, want %q", c[0], c[1], got, want)
		}
	}
}

// described3 is a sensor's history: two bodies, the first of them twice, and a visit that
// confirms one.
func described3(t *testing.T, r *Repository, sensor string) {
	for i, body := range []string{"</a>", "</b>", "</b>", "</a>"} {
		store(t, r, described(sensor, body, epoch.Add(time.Duration(i)*time.Second)))
	}
}

// descriptions is what the row of an object tells.
func descriptions(t *testing.T, r *Repository, object string) (told []string) {
	t.Helper()
	var cells []discovery.Cell
	err := r.Read(func(rows discovery.Rows) (err error) {
		cells, err = scan(rows, object, discovery.Descriptions, discovery.Beginning, discovery.Forever,
			1000)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cells {
		told = append(told, fmt.Sprint(time.UnixMicro(c.Time).UTC().Sub(epoch), " ", c.EventID))
	}
	return told
}

var told3 = []string{"3s " + hashURI + hashOf("</a>"), "1s " + hashURI + hashOf("</b>"),
	"0s " + hashURI + hashOf("</a>")}

// origin is the object of a sensor that described crawls, where its id is no URI.
func origin(t *testing.T) string {
	t.Helper()
	object, err := epcis.Canonical("coap://[2001:db8::1]")
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// Every new version is a cell, and stands in the sensor's trace.
func TestVersionsAreDescribed(t *testing.T) {
	r := open(t, dataFile(t), Options{})
	described3(t, r, "urn:dev:1")
	described3(t, r, "no URI")
	for _, object := range []string{"urn:dev:1", origin(t)} {
		if got := descriptions(t, r, object); !slices.Equal(got, told3) {
			t.Errorf("%s: %q, want %q", object, got, told3)
		}
		a, err := discovery.Trace(t.Context(), r, discovery.Query{Object: object,
			From: discovery.Beginning, To: discovery.Forever})
		if err != nil || len(a.Events) != 3 || len(a.Warnings) > 0 {
			t.Errorf("%s: %+v, %v", object, a, err)
		}
	}
}

// older makes a file as it was before there were cells.
func older(t *testing.T, sensors ...string) (path string) {
	path = dataFile(t)
	r, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range sensors {
		described3(t, r, s)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bbolt.Tx) error { return tx.DeleteBucket([]byte("cells")) })
	if err != nil || db.Close() != nil {
		t.Fatal(err)
	}
	return path
}

func TestOlderFileIsDescribed(t *testing.T) {
	path := older(t, "urn:dev:1", "urn:dev:2", "no URI")
	r, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := descriptions(t, r, "urn:dev:1"); len(got) > 0 {
		t.Errorf("read-only: %q", got)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r = open(t, path, Options{})
	if err := r.PutFleet(t.Context(), nil); err != nil { // behind the backfill
		t.Fatal(err)
	}
	for _, object := range []string{"urn:dev:1", "urn:dev:2", origin(t)} {
		if got := descriptions(t, r, object); !slices.Equal(got, told3) {
			t.Errorf("%s: %q, want %q", object, got, told3)
		}
	}
}

// A backfill that was ended goes on where it was.
func TestBackfillGoesOn(t *testing.T) {
	path := older(t, "urn:dev:1", "urn:dev:2")
	edit(t, path, "meta", func(b *bbolt.Bucket) error {
		_, err := b.Tx().CreateBucket([]byte("cells"))
		if err != nil {
			return err
		}
		at := rowKey(sensorKey("urn:dev:2"), epoch.Add(time.Hour).UnixMicro())
		return b.Put([]byte(backfillKey), at)
	})
	r := open(t, path, Options{})
	if err := r.PutFleet(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := descriptions(t, r, "urn:dev:1"); len(got) > 0 {
		t.Errorf("it began anew: %q", got)
	}
	if got := descriptions(t, r, "urn:dev:2"); !slices.Equal(got, told3) {
		t.Errorf("%q, want %q", got, told3)
	}
	err := r.view(func(tx *bbolt.Tx) error {
		if at := tx.Bucket([]byte("meta")).Get([]byte(backfillKey)); at != nil {
			t.Errorf("it still stands at %x", at)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
