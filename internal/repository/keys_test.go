package repository

import (
	"bytes"
	"cmp"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Keys come back as they were and are ordered by sensor, then newest first.
func TestKeys(t *testing.T) {
	id := rapid.Map(rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 0xFE, 0xFF}), 1, 6),
		func(b []byte) string { return string(b) })
	rapid.Check(t, func(t *rapid.T) {
		a, b := id.Draw(t, "a"), id.Draw(t, "b")
		us, other := rapid.Int64().Draw(t, "us"), rapid.Int64().Draw(t, "other")
		key := rowKey(sensorKey(a), us)
		gotID, at, err := cutSensorTime(key)
		if err != nil || gotID != a || at.UnixMicro() != us {
			t.Fatalf("%q at %d came back as %q at %v, %v", a, us, gotID, at, err)
		}
		want := cmp.Compare(a, b)
		if want == 0 {
			want = cmp.Compare(other, us)
		}
		if got := bytes.Compare(key, rowKey(sensorKey(b), other)); got != want {
			t.Fatalf("%q at %d against %q at %d: got %d, want %d", a, us, b, other, got, want)
		}
		if a != b && bytes.HasPrefix(sensorKey(a), sensorKey(b)) {
			t.Fatalf("the key of %q is a prefix of that of %q", b, a)
		}
	})
}

func TestForeignKeys(t *testing.T) {
	for _, key := range []string{"", "a", "a\x00", "a\x00\x02", "a\x00\xff\x00", "a\x00\x01short"} {
		if id, at, err := cutSensorTime([]byte(key)); err == nil {
			t.Errorf("%q was read as %q at %v", key, id, at)
		}
	}
}

func TestRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		blob := rapid.SliceOfN(rapid.Byte(), 1, 300)
		v := Version{Sensor: "s", At: time.UnixMicro(7).UTC(),
			Size:   rapid.IntRange(0, 1<<40).Draw(t, "size"),
			Format: rapid.IntRange(-1, 65535).Draw(t, "format"), ETag: blob.Draw(t, "etag"),
			Verdict: rapid.String().Draw(t, "verdict"), Links: rapid.IntRange(0, 1000).Draw(t, "links")}
		sum := [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "sum"))
		row := encodeVersion(v, sum)
		got, err := decodeVersion(v.Sensor, v.At, row)
		if h, e := parseHash(got.Hash); err != nil || e != nil || h != sum {
			t.Fatalf("hash %s: %v %v", got.Hash, err, e)
		}
		if got.Hash = ""; !reflect.DeepEqual(got, v) {
			t.Fatalf("got %+v, want %+v", got, v)
		}
		for n := range row {
			if _, err := decodeVersion(v.Sensor, v.At, row[:n]); err == nil {
				t.Fatalf("%d of %d bytes were taken for a row", n, len(row))
			}
		}
		s := stateRow{rapid.Int64().Draw(t, "verified"), rapid.IntRange(0, 99).Draw(t, "visits"),
			blob.Draw(t, "etag of state"), blob.Draw(t, "record")}
		if got, err := decodeState(s.encode()); err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("got %+v, %v, want %+v", got, err, s)
		}
		c := counts{s.visits, v.Links, v.Size}
		if got, err := decodeCounts(c.encode()); err != nil || got != c {
			t.Fatalf("got %+v, %v, want %+v", got, err, c)
		}
	})
}

func TestPack(t *testing.T) {
	c, err := newCodec()
	if err != nil {
		t.Fatal(err)
	}
	defer c.dec.Close()
	for _, raw := range [][]byte{{}, {1}, []byte("</a>"), bytes.Repeat([]byte("</a>;rt=x,"), 100)} {
		packed, err := pack(c.enc, []byte("front"), raw)
		if err != nil || !bytes.HasPrefix(packed, []byte("front")) || len(packed) > 5+1+len(raw) {
			t.Fatalf("%q packed: %d bytes, %v", raw, len(packed), err)
		}
		if got, err := c.unpack(packed[5:]); err != nil || !bytes.Equal(got, raw) {
			t.Errorf("%q came back as %q, %v", raw, got, err)
		}
	}
	bomb := c.enc.EncodeAll(make([]byte, maxRaw+1), []byte{packedZstd})
	for _, packed := range [][]byte{nil, {7}, {packedZstd}, {packedZstd, 1, 2}, bomb} {
		if _, err := c.unpack(packed); err == nil {
			t.Errorf("%d bytes were unpacked", len(packed))
		}
	}
}
