package repository

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

func TestShortObjects(t *testing.T) {
	seen := map[string]string{}
	for _, o := range append(modelObjects, "", gs1, gs1+"x", "\x02", "\x02\x02", "2", gs1+"2",
		gs1+gs1+"2") {
		short := shortObject(o)
		if got := longObject(short); got != o {
			t.Errorf("%q came back as %q", o, got)
		}
		if other, twice := seen[short]; twice && other != o {
			t.Errorf("%q and %q are both %q", o, other, short)
		}
		seen[short] = o
	}
}

func TestUUIDs(t *testing.T) {
	const id = "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	if b, is := parseUUID(id); !is || formatUUID(b) != id {
		t.Errorf("%x %v", b, is)
	}
	for _, other := range []string{"", uuidURI, strings.ToUpper(id), id + "0", id[:len(id)-1],
		strings.Replace(id, "-", "", 1) + "0", strings.Replace(id, "6", "g", 1)} {
		if _, is := parseUUID(other); is {
			t.Errorf("%q was taken", other)
		}
	}
}

// A row of cells takes what it must: the sizes are those that the file's size is made of.
func TestCellSizes(t *testing.T) {
	hash := sha256.Sum256([]byte("x"))
	n := &names{texts: []string{"urn:is:1"}, numbers: map[string]uint64{"urn:is:1": 0}}
	c := discovery.Cell{Family: discovery.Aggregated,
		Object: gs1 + "01/09506000134352/21/123456789012",
		ID16:   [idLen]byte(hash[:]), Role: discovery.Join, Kind: epcis.Aggregation, Action: epcis.Add,
		Parent: gs1 + "00/106141412345678908", EventID: epcis.HashURI(hash), BizStep: "packing",
		Source: "urn:is:1"}
	if key, value := cellKey(&c, seqEvent), encodeCell(&c, n); len(key) != 61 || len(value) != 42 {
		t.Errorf("a cell has %d + %d bytes, was 61 + 42", len(key), len(value))
	}
}

// fuzzNames are those that fuzzed rows may name.
var fuzzNames = &names{[]string{"one", "two"}, map[string]uint64{"one": 0, "two": 1}}

// Whatever a row of cells has, reading it ends in an error or in a cell that is written the
// same again.
func FuzzCell(f *testing.F) {
	hash := sha256.Sum256([]byte("x"))
	for _, c := range []discovery.Cell{
		{Role: discovery.Join, Kind: epcis.Association, Parent: gs1 + "00/1",
			EventID: epcis.HashURI(hash), ID16: [idLen]byte(hash[:]), BizStep: "packing", Source: "one"},
		{Role: discovery.Plain, EventID: bodyEventID(hash), ID16: [idLen]byte(hash[:])},
		{Role: discovery.Leave, EventID: "x", BizStep: "urn:x", Source: "other", Action: epcis.Delete},
		{Role: discovery.End, EventID: "urn:uuid:6ba7b810-9dad-11d1-80b4-00c04fd430c8"},
	} {
		f.Add(cellKey(&c, seqEvent), encodeCell(&c, fuzzNames))
	}
	f.Fuzz(func(t *testing.T, tail, row []byte) {
		var c, again discovery.Cell
		if _, err := cutCell(&c, tail[max(0, len(tail)-cellTail):]); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		if err := decodeCell(&c, row, fuzzNames, nil); err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again.Time, again.ID16 = c.Time, c.ID16
		if err := decodeCell(&again, encodeCell(&c, fuzzNames), fuzzNames, &texts{}); err != nil ||
			!gocmp.Equal(c, again) {
			t.Fatalf("%x was read as %+v, that as %+v, %v", row, c, again, err)
		}
	})
}

// As FuzzCell, for records of events and their documents.
func FuzzEvent(f *testing.F) {
	c, err := newCodec()
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(c.dec.Close)
	rnd := rand.New(rand.NewPCG(1, 5))
	for range 40 {
		record := randomRecord(rnd)
		e := eventRow{record: record, raw: byte(rnd.IntN(3))}
		if e.raw == rawDocument {
			e.signed, e.place = true, 3
		}
		row, err := e.encode(c, fuzzNames)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(recordKey(&record), row)
	}
	jws := []byte("e30.e30.AA")
	sum := sha256.Sum256(jws)
	document, err := encodeDocument(c, jws, sum)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(sum[:hashLen], document)
	f.Fuzz(func(t *testing.T, key, row []byte) {
		_, _ = c.decodeDocument(key, row)
		e, err := decodeEvent(c, key, row, fuzzNames)
		if err != nil {
			return
		}
		if e.raw != rawPacked {
			e.record.Event.Raw = nil
		}
		again, err := e.encode(c, fuzzNames)
		if err != nil {
			t.Fatal(err)
		}
		got, err := decodeEvent(c, key, again, fuzzNames)
		if d := gocmp.Diff(e, got, gocmp.AllowUnexported(eventRow{})); d != "" || err != nil {
			t.Fatalf("%s %v", d, err)
		}
	})
}

// A document comes back to the byte, and its events need no copy of their own.
func TestDocuments(t *testing.T) {
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	defer c.dec.Close()
	event := `{"type":"ObjectEvent","x":"` + strings.Repeat("y", 300) + `"}`
	b64 := func(s string) string { return base64url.EncodeToString([]byte(s)) }
	whole := b64(`{"alg":"EdDSA"}`) + "." + b64(`{"epcisBody":{"eventList":[`+event+`, {} ]}}`) +
		"." + b64("sig")
	bare := b64("{}") + "." + b64(event) + "." + b64("s")
	for jws, events := range map[string]int{whole: 2, bare: 1, "a.b": 0, "a.b.c": 0,
		whole + "=": 0, whole + "\n": 0, "..": 0, "": 0} {
		sum := sha256.Sum256([]byte(jws))
		row, err := encodeDocument(c, []byte(jws), sum)
		if err != nil {
			t.Fatal(err)
		}
		d, err := c.decodeDocument(sum[:hashLen], row)
		if err != nil || string(d.jws) != jws || len(d.events) != events {
			t.Errorf("%q: %+v, %v", jws, d, err)
		}
		row[len(row)-1] ^= 1
		if _, err := c.decodeDocument(sum[:hashLen], row); err == nil {
			t.Errorf("%q: a flipped bit was not noticed", jws)
		}
	}
	r := open(t, dataFile(t), Options{})
	e := newEvent(epcis.Event{Kind: epcis.Object, EPCs: []string{"urn:a"},
		Raw: json.RawMessage(event)}, 1)
	record := discovery.Record{Event: e, Recorded: epoch, Signature: []byte(whole)}
	if _, err := r.Publish(t.Context(), []discovery.Record{record}); err != nil {
		t.Fatal(err)
	}
	err = r.view(func(tx *bbolt.Tx) error {
		if _, v := tx.Bucket([]byte("events")).Cursor().First(); len(v) > 100 {
			t.Errorf("the event has %d bytes beside its document", len(v))
		}
		return nil
	})
	got, err2 := r.Record(e.EventID())
	if err != nil || err2 != nil || len(got) != 1 || !gocmp.Equal(got[0], record) {
		t.Errorf("%+v, %v %v", got, err, err2)
	}
}

// Damage of any row is told by Check, and by what reads it, with bucket and key.
func TestCheckFindsWrongEvents(t *testing.T) {
	type change = func(b *bbolt.Bucket, k, v []byte) error
	remove := func(b *bbolt.Bucket, k, _ []byte) error { return b.Delete(k) }
	key := func(of func(k []byte) []byte) change {
		return func(b *bbolt.Bucket, k, v []byte) error { return b.Put(of(k), v) }
	}
	value := func(n int) change {
		return func(b *bbolt.Bucket, k, v []byte) error { return b.Put(k, v[:n]) }
	}
	add := func(at int) func(k []byte) []byte {
		return func(k []byte) []byte { k[(at+len(k))%len(k)]++; return k }
	}
	for _, c := range []struct {
		bucket string
		change change
		says   string
	}{
		{"cells", remove, "is not stored"},
		{"cells", value(1), "bucket cells"},
		{"cells", key(func(k []byte) []byte { return k[:len(k)-1] }), "bucket cells"},
		{"cells", key(func(k []byte) []byte { k[len(k)-1] = 9; return k }), "bucket cells"},
		{"cells", key(add(-2)), "is not stored"},
		{"cells", func(b *bbolt.Bucket, k, _ []byte) error { return b.Put(add(-1)(k), nil) },
			"marked as an error: true"},
		{"events", remove, "leads to no event"},
		{"events", value(5), "bucket events"},
		{"events", key(add(9)), "is not in eventids"},
		{"eventids", remove, "not in eventids"},
		{"eventids", key(func(k []byte) []byte { return k[:9] }), "of 9 bytes"},
		{"documents", remove, "document"},
		{"documents", value(20), "documents"},
		{"names", remove, "number 0"},
	} {
		path := dataFile(t)
		known := twoEvents(t, path)
		edit(t, path, c.bucket, func(b *bbolt.Bucket) error {
			k, v := b.Cursor().First()
			return c.change(b, bytes.Clone(k), bytes.Clone(v))
		})
		report, err := Check(path, Options{})
		all := strings.Join(report.Problems, "\n")
		if err != nil || all == "" {
			t.Errorf("%s: got %q, %v, want %q", c.bucket, all, err, c.says)
		}
		told := errors.Join(errors.New(all), asked(t, path, known))
		if !strings.Contains(told.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", c.bucket, told, c.says)
		}
	}
}

// twoEvents makes a file with two events about urn:a, one of them signed.
func twoEvents(t *testing.T, path string) (ids []string) {
	t.Helper()
	r, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var records []discovery.Record
	for us, signature := range []string{"", "e30.e30.AA"} {
		e := newEvent(epcis.Event{Kind: epcis.Object, EPCs: []string{"urn:a"}, Source: "urn:is"},
			int64(us))
		records = append(records, discovery.Record{Event: e, Publisher: "p",
			Signature: []byte(signature)})
		ids = append(ids, e.EventID())
	}
	_, err = r.Publish(t.Context(), records)
	if err = errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return ids
}

// asked reads all that there is in all ways.
func asked(t *testing.T, path string, ids []string) (told error) {
	t.Helper()
	r, err := Open(path, Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = discovery.Trace(t.Context(), r, discovery.Query{Object: "urn:a",
		From: discovery.Beginning, To: discovery.Forever})
	_, _, err2 := r.Events(discovery.Beginning, discovery.Forever, "", 0)
	told = errors.Join(err, err2, r.Close())
	for _, id := range ids {
		_, err := r.Record(id)
		told = errors.Join(told, err)
	}
	return told
}
