package repository

import (
	"encoding/binary"
	"fmt"

	"go.etcd.io/bbolt"
)

// Publishers and information services are few, and each is in thousands of rows: rows hold
// their numbers. Those that are too many or too long are written out.
const (
	maxNames  = 1 << 14
	maxName   = 256 // bytes
	nameNone  = 0
	nameText  = 1 // the text follows
	nameFirst = 2 // of the numbers
)

// names are numbered by their order; a set is not changed once made.
type names struct {
	texts   []string
	numbers map[string]uint64
}

func (n *names) append(dst []byte, text string) []byte {
	if text == "" {
		return append(dst, nameNone)
	}
	if i, known := n.numbers[text]; known {
		return binary.AppendUvarint(dst, i+nameFirst)
	}
	return appendBytes(append(dst, nameText), []byte(text))
}

// name reads what append wrote.
func (f *fields) name(n *names) string {
	switch i := f.uvarint(); {
	case i == nameNone:
	case i == nameText:
		return string(f.take(f.uvarint()))
	case i-nameFirst < uint64(len(n.texts)):
		return n.texts[i-nameFirst]
	default:
		f.bad = true
	}
	return ""
}

// readNames reads the bucket; keys are numbers, without gaps.
func readNames(tx *bbolt.Tx) (*names, error) {
	n := &names{numbers: map[string]uint64{}}
	b := tx.Bucket([]byte("names"))
	if b == nil {
		return n, nil
	}
	c := b.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		at := uint64(len(n.texts))
		if len(k) != 4 || uint64(binary.BigEndian.Uint32(k)) != at {
			return n, fmt.Errorf("bucket names, key %x: number %d was expected: %w", k, at, ErrCorrupt)
		}
		n.texts = append(n.texts, string(v))
		n.numbers[string(v)] = at
	}
	return n, nil
}

func (r *Repository) loadNames(tx *bbolt.Tx) error {
	n, err := readNames(tx)
	for {
		have := r.names.Load()
		if have != nil && len(have.texts) >= len(n.texts) || r.names.CompareAndSwap(have, n) {
			return err
		}
	}
}

// addNames numbers texts that have no number yet.
func (t *transaction) addNames(texts []string) error {
	b, err := t.tx.CreateBucketIfNotExists([]byte("names"))
	if err != nil {
		return err
	}
	n, err := readNames(t.tx)
	if err != nil {
		return err
	}
	for _, text := range texts {
		if _, known := n.numbers[text]; known || len(n.texts) >= maxNames {
			continue
		}
		i := len(n.texts)
		if err := b.Put(binary.BigEndian.AppendUint32(nil, uint32(i)), []byte(text)); err != nil {
			return err
		}
		n.texts, n.numbers[text] = append(n.texts, text), uint64(i)
	}
	return nil
}
