package repository

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Rows of the repository's own are length-prefixed binary behind a format byte:
// a version row takes 50 bytes where JSON takes 160, and a million sensors have
// at least one each. A later layout gets the next format byte, and rows of both
// can stand side by side. Outcomes keep the encoding of package visit.
const rowFormat = 1

// never is the last-verified instant of a sensor that never answered.
const never = -1 << 63

// maxRaw bounds what is packed and what unpacking may grow to: far above the
// 64 KiB that one exchange may bring, far below what hurts.
const maxRaw = 16 << 20

// codec packs values. Encoder and decoder are safe for concurrent use through
// EncodeAll and DecodeAll.
type codec struct {
	enc    *zstd.Encoder
	visits *zstd.Encoder // with visitDictionary
	record *zstd.Encoder // with eventDictionary
	dec    *zstd.Decoder
}

// visitDictionary is what outcomes have in common, so that packing one costs its
// numbers and not the names of its fields: a third of the bytes, 50 times per
// sensor. It is part of the file format: another text needs another number, and
// this one must stay readable. The number is from zstd's private range.
const (
	visitDictionaryID = 0x8000
	visitDictionary   = `,"why":"probe"retry"poll"announced"manual","value":0.,"etag":"","known":"` +
		`","full":true,"non":true,"retrans":4,"ack_timeout":2000000000,"outcome":"asleep"refused"` +
		`failed"missed","contact":false,"retry_after":,"verdict":"recovered"invalid","published_at":[` +
		`"],"reason":"timeout"rst","error":"no answer","transcript":["{"sensor":"coap://[` +
		`]/.well-known/core","uri":"coap://[2001:db8::1]/.well-known/core",` +
		`"at":"2026-01-01T00:00:00Z","deadline":"2026-01-01T00:00:00Z","kind":"planned",` +
		`"why":"","value":0.,"etag":"","known":"","outcome":"unchanged","contact":true,"code":"2.03",` +
		`"outcome":"described","contact":true,"code":"2.05","hash":"","content_format":40,` +
		`"new_etag":"","max_age":60000000000,"has_max_age":true,"verdict":"valid","links":1,` +
		`"datagrams_sent":1,"datagrams_received":1,"bytes_sent":,"bytes_received":,` +
		`"retransmissions":0,"blocks":0,"rtt":,"started":"2026-01-01T00:00:00Z",` +
		`"ended":"2026-01-01T00:00:00Z"}`
)

// eventDictionary is what EPCIS events in JSON have in common; as visitDictionary.
const (
	eventDictionaryID = 0x8001
	eventDictionary   = `"errorDeclaration":{"declarationTime":"","reason":"","correctiveEventI` +
		`Ds":[]}"bizTransactionList":[{"type":"po","bizTransaction":"urn:epcglobal:cbv:bt:"}],"source` +
		`List":[{"type":"owning_party","source":""}],"destinationList":[{"type":"location","destinati` +
		`on":""}],"quantityList":[{"epcClass":"urn:epc:class:lgtin:","quantity":,"uom":"KGM"}],"child` +
		`QuantityList":[],"sensorElementList":[{"sensorReport":[{"type":"Temperature","value":,"uom":` +
		`"CEL"}]}],"ilmd":{},"crawld:source":"","inputEPCList":["urn:epc:id:sgtin:"],"outputEPCList":` +
		`["urn:epc:id:sgtin:"],"transformationID":"","type":"TransformationEvent","type":"Association` +
		`Event","action":"DELETE","bizStep":"decommissioning","disposition":"active","readPoint":{"id` +
		`":"urn:epc:id:sgln:"},"bizLocation":{"id":"https://id.gs1.org/414/"},"eventID":"urn:uuid:","` +
		`eventID":"ni:///sha-256;?ver=CBV2.0","recordTime":"2026-01-01T00:00:00Z",{"type":"Aggregatio` +
		`nEvent","eventTime":"2026-01-01T00:00:00.000Z","eventTimeZoneOffset":"+00:00","parentID":"ur` +
		`n:epc:id:sscc:","childEPCs":["https://id.gs1.org/01/"],"action":"ADD","bizStep":"packing","d` +
		`isposition":"in_progress"}{"type":"ObjectEvent","eventTime":"2026-01-01T00:00:00Z","eventTim` +
		`eZoneOffset":"+02:00","epcList":["urn:epc:id:sgtin:"],"action":"OBSERVE","bizStep":"shipping` +
		`","disposition":"in_transit","bizStep":"receiving"}`
)

func newCodec() (codec, error) {
	small := []zstd.EOption{zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(1 << 20)}
	dictionary := []byte(visitDictionary)
	enc, err := zstd.NewWriter(nil, small...)
	if err != nil {
		return codec{}, fmt.Errorf("repository: zstd encoder: %w", err)
	}
	visits, err := zstd.NewWriter(nil, append(small,
		zstd.WithEncoderDictRaw(visitDictionaryID, dictionary))...)
	if err != nil {
		return codec{}, fmt.Errorf("repository: zstd encoder of visits: %w", err)
	}
	// Before each event the tables of the dictionary are made anew. Those of the fastest level
	// are the smallest: it takes a third of the time, for a hundredth more bytes.
	record, err := zstd.NewWriter(nil, append(small, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderDictRaw(eventDictionaryID, []byte(eventDictionary)))...)
	if err != nil {
		return codec{}, fmt.Errorf("repository: zstd encoder of events: %w", err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxRaw),
		zstd.WithDecoderConcurrency(0), zstd.WithDecoderDictRaw(visitDictionaryID, dictionary),
		zstd.WithDecoderDictRaw(eventDictionaryID, []byte(eventDictionary)))
	if err != nil {
		return codec{}, fmt.Errorf("repository: zstd decoder: %w", err)
	}
	return codec{enc, visits, record, dec}, nil
}

// The first byte of a packed value.
const (
	packedRaw = iota
	packedZstd
)

// pack appends raw in its shorter form. A frame names its dictionary.
func pack(enc *zstd.Encoder, dst, raw []byte) ([]byte, error) {
	if len(raw) > maxRaw {
		return nil, fmt.Errorf("%d bytes are more than the %d that one row may hold", len(raw), maxRaw)
	}
	start := len(dst)
	dst = enc.EncodeAll(raw, append(dst, packedZstd))
	if len(dst)-start <= len(raw) {
		return dst, nil
	}
	return append(append(dst[:start], packedRaw), raw...), nil
}

// unpack returns a copy that outlives the transaction.
func (c codec) unpack(packed []byte) ([]byte, error) {
	switch {
	case len(packed) >= 1 && packed[0] == packedRaw:
		return append([]byte{}, packed[1:]...), nil
	case len(packed) >= 2 && packed[0] == packedZstd:
		raw, err := c.dec.DecodeAll(packed[1:], nil)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
		}
		return raw, nil
	}
	return nil, fmt.Errorf("a packed value of %d bytes is of no known form: %w",
		len(packed), ErrCorrupt)
}

// fields reads a row from its front; after the first fault all reads are zero.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) take(n uint64) []byte {
	if n > uint64(len(f.rest)) {
		f.rest, f.bad = nil, true
		return nil
	}
	b := f.rest[:n]
	f.rest = f.rest[n:]
	return b
}

func (f *fields) uvarint() uint64 {
	v, n := binary.Uvarint(f.rest)
	if n <= 0 {
		f.rest, f.bad = nil, true
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

func (f *fields) count() int {
	v := f.uvarint()
	if v > 1<<48 {
		f.bad = true
		return 0
	}
	return int(v)
}

// copied reads length-prefixed bytes; none are nil.
func (f *fields) copied() []byte { return append([]byte(nil), f.take(f.uvarint())...) }

// open checks the format byte and tells the bucket in an error.
func (f *fields) open() {
	if b := f.take(1); len(b) == 1 && b[0] != rowFormat {
		f.rest, f.bad = nil, true
	}
}

func (f *fields) err(bucket string) error {
	if f.bad {
		return fmt.Errorf("a row of %s cannot be read: %w", bucket, ErrCorrupt)
	}
	return nil
}

func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// encodeVersion writes a row of versions; sensor and instant are in its key.
func encodeVersion(v Version, sum [32]byte) []byte {
	row := append(append(make([]byte, 0, 64), rowFormat), sum[:]...)
	row = binary.AppendUvarint(row, uint64(v.Size))
	row = binary.AppendVarint(row, int64(v.Format))
	row = appendBytes(row, v.ETag)
	row = appendBytes(row, []byte(v.Verdict))
	return binary.AppendUvarint(row, uint64(v.Links))
}

func decodeVersion(sensor string, at time.Time, row []byte) (Version, error) {
	f := fields{rest: row}
	f.open()
	v := Version{Sensor: sensor, At: at, Hash: hex.EncodeToString(f.take(32)), Size: f.count()}
	// A signed varint is a zigzagged unsigned one.
	z := f.uvarint()
	v.Format = int(int64(z>>1) ^ -int64(z&1))
	v.ETag = f.copied()
	v.Verdict = string(f.take(f.uvarint()))
	v.Links = f.count()
	f.bad = f.bad || len(f.rest) > 0
	return v, f.err("versions")
}

// stateRow is what the repository itself keeps of a sensor, with the planner's
// record behind it, so that one look-up serves both.
type stateRow struct {
	verified int64  // last success in microseconds, or never
	visits   int    // rows of the sensor in visits, so that pruning needs no count
	etag     []byte // of the newest success: it may change while the body does not
	record   []byte // the planner's, opaque; empty = none
}

func (s stateRow) encode() []byte {
	row := append(make([]byte, 0, 32+len(s.record)), rowFormat)
	row = binary.BigEndian.AppendUint64(row, uint64(s.verified))
	row = binary.AppendUvarint(row, uint64(s.visits))
	row = appendBytes(row, s.etag)
	return append(row, s.record...)
}

func decodeState(row []byte) (stateRow, error) {
	f := fields{rest: row}
	f.open()
	s := stateRow{verified: never}
	if b := f.take(8); len(b) == 8 {
		s.verified = int64(binary.BigEndian.Uint64(b))
	}
	s.visits = f.count()
	s.etag = f.copied()
	s.record = append([]byte(nil), f.rest...)
	return s, f.err("state")
}

// counts are kept beside the rows: counting a bucket means reading all of it.
type counts struct{ sensors, versions, bodies int }

func (c counts) encode() []byte {
	row := binary.AppendUvarint([]byte{rowFormat}, uint64(c.sensors))
	row = binary.AppendUvarint(row, uint64(c.versions))
	return binary.AppendUvarint(row, uint64(c.bodies))
}

func decodeCounts(row []byte) (counts, error) {
	f := fields{rest: row}
	f.open()
	c := counts{f.count(), f.count(), f.count()}
	return c, f.err("meta, key counts,")
}
