package repository

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"go.etcd.io/bbolt"
)

// The first byte of an unpacked document.
const (
	documentText  = iota // the signature as it came
	documentParts        // header, signature and payload, decoded
)

var base64url = base64.RawURLEncoding.Strict()

// encodeDocument is a row of documents: the rest of the SHA-256 of a compact JWS (RFC 7515
// section 7.1), and its parts, packed without their base64, which it gets back in document.
func encodeDocument(enc codec, jws []byte, sum [32]byte) ([]byte, error) {
	plain := append([]byte{documentText}, jws...)
	if parts, err := jwsParts(jws); err == nil {
		plain = appendBytes([]byte{documentParts}, parts[0])
		plain = append(appendBytes(plain, parts[2]), parts[1]...)
	}
	return pack(enc.enc, append([]byte(nil), sum[hashLen:]...), plain)
}

// jwsParts are the decoded header, payload and signature.
func jwsParts(jws []byte) (parts [3][]byte, err error) {
	split := bytes.Split(jws, []byte{'.'})
	if len(split) != len(parts) {
		return parts, fmt.Errorf("%d parts", len(split))
	}
	for i, text := range split {
		// Decoding passes over line ends, which would not come back.
		if bytes.ContainsAny(text, "\r\n") {
			return parts, errors.New("a line end")
		}
		if parts[i], err = base64url.AppendDecode(nil, text); err != nil {
			return parts, err
		}
	}
	return parts, nil
}

// signedDocument is a document as it is read: many events share it.
type signedDocument struct {
	jws    []byte
	events [][]byte // of the payload, compact
}

// document reads a row and verifies its hash.
func (c codec) document(tx *bbolt.Tx, key [hashLen]byte) (*signedDocument, error) {
	var row []byte
	if b := tx.Bucket([]byte("documents")); b != nil {
		row = b.Get(key[:])
	}
	if row == nil {
		return nil, inBucket("documents", key[:], fmt.Errorf("not stored: %w", ErrCorrupt))
	}
	d, err := c.decodeDocument(key[:], row)
	if err != nil {
		return nil, inBucket("documents", key[:], err)
	}
	return d, nil
}

func (c codec) decodeDocument(key, row []byte) (*signedDocument, error) {
	const rest = 32 - hashLen
	if len(row) < rest {
		return nil, fmt.Errorf("a row of %d bytes: %w", len(row), ErrCorrupt)
	}
	plain, err := c.unpack(row[rest:])
	if err != nil {
		return nil, err
	}
	f := fields{rest: plain}
	d := &signedDocument{}
	switch form := f.take(1); {
	case bytes.Equal(form, []byte{documentText}):
		d.jws = f.rest
	case bytes.Equal(form, []byte{documentParts}):
		header, signature := f.take(f.uvarint()), f.take(f.uvarint())
		for i, part := range [][]byte{header, f.rest, signature} {
			if i > 0 {
				d.jws = append(d.jws, '.')
			}
			d.jws = base64url.AppendEncode(d.jws, part)
		}
		d.events = eventList(f.rest)
	default:
		f.bad = true
	}
	sum := sha256.Sum256(d.jws)
	if f.bad || !bytes.Equal(sum[:hashLen], key) || !bytes.Equal(sum[hashLen:], row[:rest]) {
		return nil, fmt.Errorf("%w: it is not what was signed", ErrHash)
	}
	return d, nil
}

// eventList are the events of an EPCIS document in JSON, or the one event that it is, each
// as compact JSON. Of anything else there are none.
func eventList(document []byte) (events [][]byte) {
	var body struct {
		EPCISBody *struct {
			EventList []json.RawMessage `json:"eventList"`
		} `json:"epcisBody"`
	}
	if json.Unmarshal(document, &body) != nil {
		return nil
	}
	list := []json.RawMessage{document}
	if body.EPCISBody != nil {
		list = body.EPCISBody.EventList
	}
	for _, raw := range list {
		var compact bytes.Buffer
		if json.Compact(&compact, raw) != nil {
			return nil
		}
		events = append(events, compact.Bytes())
	}
	return events
}
