package epcis

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	maxBytes = 16 << 20 // a value takes some 70 bytes of memory, its text at least two
	maxDepth = 32       // deepest standard field: 8
)

// value is a JSON value. Its texts are parts of the document.
type value struct {
	kind       byte // one of { [ " 0 t f n
	start, end int  // of its text in the document
	text       string
	members    []member // of an object or array, in the document's order
}

// member is an entry of an object or, with no key, of an array.
type member struct {
	key string
	value
}

// get is the member of that name, nil if there is none.
func (v *value) get(key string) *value {
	if v == nil || v.kind != '{' {
		return nil
	}
	for i := range v.members {
		if v.members[i].key == key {
			return &v.members[i].value
		}
	}
	return nil
}

// jsonNames are what a value is called in errors.
var jsonNames = map[byte]string{'{': "an object", '[': "a list", '"': "a string",
	'0': "a number", 't': "true", 'f': "false", 'n': "null"}

// readJSON parses a document. Two members of one name are an error, since readers differ in
// which of them counts (RFC 8259, section 4), and so are half surrogate pairs.
func readJSON(doc []byte) (value, error) {
	if len(doc) > maxBytes {
		return value{}, fmt.Errorf("the document has more than %d bytes", maxBytes)
	}
	if !utf8.Valid(doc) {
		return value{}, errors.New("the document is not in UTF-8")
	}
	if !json.Valid(doc) {
		var all json.RawMessage
		err := json.Unmarshal(doc, &all)
		if at := (*json.SyntaxError)(nil); errors.As(err, &at) {
			err = fmt.Errorf("offset %d: %w", at.Offset, err)
		}
		return value{}, fmt.Errorf("the document is no JSON: %w", err)
	}
	r := reader{doc: string(doc)}
	return r.value(0)
}

// reader walks over a document that is known to be valid JSON.
type reader struct {
	doc string
	at  int
}

// next skips white space and separators, and returns the byte there.
func (r *reader) next() byte {
	for strings.IndexByte(" \t\r\n,:", r.doc[r.at]) >= 0 {
		r.at++
	}
	return r.doc[r.at]
}

func (r *reader) value(depth int) (value, error) {
	if depth > maxDepth {
		return value{}, fmt.Errorf("offset %d: nested more than %d deep", r.at, maxDepth)
	}
	v := value{kind: r.next(), start: r.at}
	var err error
	switch v.kind {
	case '{', '[':
		v.members, err = r.members(v.kind+2, depth) // } and ] are two after { and [
	case '"':
		v.text, err = r.text()
	default:
		n := strings.IndexAny(r.doc[r.at:], " \t\r\n,:]}")
		if n < 0 {
			n = len(r.doc) - r.at
		}
		v.text = r.doc[r.at : r.at+n]
		r.at += n
		if v.kind == '-' || v.kind >= '0' && v.kind <= '9' {
			v.kind = '0'
		}
	}
	v.end = r.at
	return v, err
}

// members reads up to the closing byte.
func (r *reader) members(closing byte, depth int) ([]member, error) {
	var list []member
	seen := map[string]bool{}
	r.at++
	for r.next() != closing {
		var m member
		var err error
		if closing == '}' {
			at := r.at
			if m.key, err = r.text(); err != nil {
				return nil, err
			}
			if seen[m.key] {
				return nil, fmt.Errorf("offset %d: %q is there twice", at, m.key)
			}
			seen[m.key] = true
		}
		if m.value, err = r.value(depth + 1); err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	r.at++
	return list, nil
}

func (r *reader) text() (string, error) {
	start, escaped := r.at, false
	for r.at++; r.doc[r.at] != '"'; r.at++ {
		if r.doc[r.at] == '\\' {
			escaped = true
			r.at++
		}
	}
	r.at++
	if !escaped {
		return r.doc[start+1 : r.at-1], nil
	}
	literal := r.doc[start:r.at]
	var text string
	if err := json.Unmarshal([]byte(literal), &text); err != nil {
		return "", fmt.Errorf("offset %d: %w", start, err)
	}
	// What is no character comes out as U+FFFD.
	written := strings.Count(literal, "\uFFFD") + strings.Count(strings.ToLower(literal), `\ufffd`)
	if strings.Count(text, "\uFFFD") > written {
		return "", fmt.Errorf("offset %d: half of a surrogate pair", start)
	}
	return text, nil
}
