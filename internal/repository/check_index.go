package repository

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// index verifies the index against the versions in force, both ways, and counts its rows.
// One that is being built, or is behind, is completed by the next Open.
func (k *checker) index() int {
	wanted, missing := 0, 0
	rows := k.each("index", func(key, value []byte) error {
		_, _, err := cutIndexKey(key)
		if err == nil && len(value) > 0 {
			err = fmt.Errorf("a row of %d bytes, want none", len(value))
		}
		return err
	})
	found := indexOf(k.tx)
	if found.rows == nil || !found.mark.done {
		return rows
	}
	c := found.rows.Cursor()
	k.each("latest", func(sensor, _ []byte) error {
		lacks := 0
		terms, _ := k.indexed(sensor)
		for _, term := range terms {
			key := append([]byte(term), sensor...)
			if at, _ := c.Seek(key); !bytes.Equal(at, key) {
				lacks++
			}
		}
		wanted += len(terms)
		missing += lacks
		if lacks > 0 {
			return fmt.Errorf("%d of its %d terms are not in the index", lacks, len(terms))
		}
		return nil
	})
	if rows > wanted-missing {
		k.each("index", k.stray)
	}
	return rows
}

// stray verifies that a row is a term of its sensor's version in force.
func (k *checker) stray(key, _ []byte) error {
	term, sensor, err := cutIndexKey(key)
	if err != nil {
		return nil // told already
	}
	terms, err := k.indexed(sensor)
	if err != nil && k.bucket("latest").Get(sensor) != nil {
		return nil // of a damaged description; that is told elsewhere
	}
	if _, is := slices.BinarySearch(terms, string(term)); !is {
		return errors.New("its sensor's version in force has no such term")
	}
	return nil
}

// indexed are the terms of a sensor's version in force.
func (k *checker) indexed(sensor []byte) ([]string, error) {
	id, _, err := cutSensor(sensor)
	if err != nil {
		return nil, err
	}
	v, raw, err := shelf{k.codec, k.tx}.description(Member{ID: id})
	if err != nil {
		return nil, err
	}
	return indexTerms(linksOf(v.Format, raw)), nil
}

// cutIndexKey splits a key of the index into its term and its sensor's key.
func cutIndexKey(key []byte) (term, sensor []byte, err error) {
	rest := key
	for range 2 {
		if _, rest, err = cutSensor(rest); err != nil {
			return nil, nil, err
		}
	}
	if _, end, err := cutSensor(rest); err != nil || len(end) > 0 {
		return nil, nil, fmt.Errorf("key %x: want two texts and a sensor: %w", key, ErrCorrupt)
	}
	return key[:len(key)-len(rest)], rest, nil
}
