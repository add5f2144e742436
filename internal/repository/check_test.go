package repository

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

// Every kind of row that is wrong is told, with its bucket.
func TestCheckFindsWrongRows(t *testing.T) {
	put := func(key, value []byte) func(*bbolt.Bucket) error {
		return func(b *bbolt.Bucket) error { return b.Put(key, value) }
	}
	first := func(change func(b *bbolt.Bucket, k, v []byte) error) func(*bbolt.Bucket) error {
		return func(b *bbolt.Bucket) error {
			k, v := b.Cursor().First()
			return change(b, bytes.Clone(k), bytes.Clone(v))
		}
	}
	remove := first(func(b *bbolt.Bucket, k, _ []byte) error { return b.Delete(k) })
	for _, c := range []struct {
		bucket string
		edit   func(*bbolt.Bucket) error
		says   string
	}{
		{"bodies", remove, "is not stored"},
		{"bodies", put([]byte("short"), []byte{0}), "bodies, key"},
		{"versions", remove, "leads to no version"},
		{"versions", put([]byte("x"), []byte("y")), "no sensor id"},
		{"versions", first(func(b *bbolt.Bucket, k, v []byte) error {
			return b.Put(k, v[:len(v)-1])
		}), "cannot be read"},
		{"latest", put(sensorKey("x"), []byte("y")), "a row of 1 bytes"},
		{"latest", put(sensorKey("x"), make([]byte, latestLen)), "leads to no version"},
		{"state", remove, "its sensor has no state"},
		{"state", put([]byte("x"), []byte("y")), "not a sensor's key"},
		{"state", put(sensorKey("b"), stateRow{visits: 7}.encode()), "counts 7 visits"},
		{"visits", remove, "there are"},
		{"visits", put(rowKey(sensorKey("b"), 1), []byte{packedRaw, '{'}), "decode outcome"},
		{"visits", first(func(b *bbolt.Bucket, _, v []byte) error {
			return b.Put(rowKey(sensorKey("b"), 1), v)
		}), `a visit to "a" among those to "b"`},
		{"plans", put([]byte("x"), nil), "not an instant"},
		{"meta", put([]byte("counts"), counts{1, 2, 3}.encode()), "counts are"},
	} {
		path, _ := sample(t)
		edit(t, path, c.bucket, c.edit)
		before := readFile(t, path)
		report, err := Check(path, Options{})
		if all := strings.Join(report.Problems, "\n"); err != nil || !strings.Contains(all, c.says) {
			t.Errorf("%s: got %q, %v, want %q", c.bucket, all, err, c.says)
		}
		if !bytes.Equal(before, readFile(t, path)) {
			t.Errorf("%s: Check changed the file", c.bucket)
		}
	}
}

func TestReportIsBounded(t *testing.T) {
	path, _ := sample(t)
	edit(t, path, "plans", func(b *bbolt.Bucket) error {
		for i := range 200 {
			if err := b.Put([]byte{byte(i), 1}, nil); err != nil {
				return err
			}
		}
		return nil
	})
	report, err := Check(path, Options{})
	n := len(report.Problems)
	if err != nil || n != maxProblems+1 || report.Problems[n-1] != "and 100 more" {
		t.Errorf("%d problems, %v", n, err)
	}
}

// A row of visits as version 1 wrote it: a change of the dictionary that makes
// it unreadable needs a dictionary of its own.
func TestVisitRowsStayReadable(t *testing.T) {
	const row = "0128b52ffd46000080eb007d030032c50f13b08106c1222d17297f706e5d4a8b487901960744b60d" +
		"2d4e57f72d34685accd6d699f27f13df4259fe92e079d0412fe7756331cd15b6498cc1ea00040401" +
		"1000a01310cf7d91a8df71f40b864c0d807ca070f3cb344085d477f575da80242372c018e41b2342" +
		"de15430001f163ddec"
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	defer c.dec.Close()
	packed, err := hex.DecodeString(row)
	if err != nil {
		t.Fatal(err)
	}
	o, err := c.visit(packed)
	want := described("urn:dev:1", "</a>", epoch).Outcome
	if err != nil || o.Sensor != want.Sensor || o.Hash != want.Hash || !o.Ended.Equal(want.Ended) {
		t.Errorf("got %+v, %v", o, err)
	}
}
