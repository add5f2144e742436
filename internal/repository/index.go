package repository

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/search"
)

const (
	// maxIndexed bounds the rows of one description, so that no sensor can keep the one
	// goroutine that writes busy. The largest real description known has a tenth of it.
	maxIndexed = 2048
	// An index is built in transactions of so many descriptions or rows.
	indexChunk, indexChunkRows = 1000, 50000
)

// unlisted is the term of a description with more than maxIndexed others, or one that could
// not be read: every search looks at it. No attribute has an empty name.
var unlisted = string(termKey(search.Term{}))

// termKey is what the rows of a term begin with; the sensor follows.
func termKey(t search.Term) []byte {
	return appendPart(appendPart(make([]byte, 0, len(t.Name)+len(t.Value)+4), t.Name), t.Value)
}

// linksOf are the links of a description; none where it is not in link format.
func linksOf(format int, raw []byte) []linkformat.Link {
	if format != linkFormat {
		return nil
	}
	return linkformat.Parse(raw).Links // empty where it is invalid
}

// indexTerms are what the rows of a description begin with, sorted.
func indexTerms(links []linkformat.Link) []string {
	seen := map[search.Term]bool{}
	for _, l := range links {
		for _, t := range search.Terms(l) {
			if seen[t] = true; len(seen) > maxIndexed {
				return []string{unlisted}
			}
		}
	}
	terms := make([]string, 0, len(seen))
	for t := range seen {
		terms = append(terms, string(termKey(t)))
	}
	slices.Sort(terms)
	return terms
}

// indexMark says how far the index is.
type indexMark struct {
	versions int    // as counted when it was last written: releases without it count on
	done     bool   // all sensors are in it
	next     []byte // else those before this key
}

func (m indexMark) encode() []byte {
	row := binary.AppendUvarint([]byte{rowFormat}, uint64(m.versions))
	done := byte(0)
	if m.done {
		done = 1
	}
	return append(append(row, done), m.next...)
}

func decodeMark(row []byte) (indexMark, error) {
	f := fields{rest: row}
	f.open()
	m := indexMark{versions: f.count()}
	if b := f.take(1); len(b) == 1 {
		m.done = b[0] == 1
	}
	m.next = bytes.Clone(f.rest)
	return m, f.err("meta, key index,")
}

// indexed is the index as a transaction finds it. rows is nil where there is none, or
// where it is behind.
type indexed struct {
	rows *bbolt.Bucket
	mark indexMark
}

func indexOf(tx *bbolt.Tx) indexed {
	meta, rows := tx.Bucket([]byte("meta")), tx.Bucket([]byte("index"))
	mark, err := decodeMark(meta.Get([]byte("index")))
	known, bad := decodeCounts(meta.Get([]byte("counts")))
	if rows == nil || err != nil || bad != nil || mark.versions != known.versions {
		return indexed{}
	}
	return indexed{rows, mark}
}

// putMark notes that the index has what the transaction has written.
func (t *transaction) putMark() error {
	if t.index.rows == nil {
		return nil
	}
	t.index.mark.versions = t.counts.versions
	return t.meta.Put([]byte("index"), t.index.mark.encode())
}

// reindex replaces the rows of the sensor's version in force by those of the one that is
// about to be. Of a version whose body is damaged the rows stay: searches verify what
// they find, Check tells, and Reindex mends it.
func (t *transaction) reindex(o *outcomeRow) error {
	if t.index.rows == nil {
		return nil
	}
	var old []string
	if _, known := t.version(Member{ID: o.sensor}); known {
		v, raw, err := t.description(Member{ID: o.sensor})
		if err != nil {
			t.unreadable++
		} else {
			old = indexTerms(linksOf(v.Format, raw))
		}
	}
	for _, term := range old {
		if _, stays := slices.BinarySearch(o.terms, term); stays {
			continue
		}
		if err := t.index.rows.Delete(append([]byte(term), o.key...)); err != nil {
			return err
		}
	}
	for _, term := range o.terms {
		if _, there := slices.BinarySearch(old, term); there {
			continue
		}
		if err := t.index.rows.Put(append([]byte(term), o.key...), nil); err != nil {
			return err
		}
	}
	return nil
}

// dropIndex begins an empty one.
func (t *transaction) dropIndex() error {
	name := []byte("index")
	if t.tx.Bucket(name) != nil {
		if err := t.tx.DeleteBucket(name); err != nil {
			return err
		}
	}
	rows, err := t.tx.CreateBucket(name)
	if err != nil {
		return err
	}
	t.index = indexed{rows: rows}
	return t.putMark()
}

// extendIndex puts the next descriptions into the index and counts them.
func (t *transaction) extendIndex() (n int, err error) {
	if t.index.rows == nil {
		return 0, fmt.Errorf("the index is gone: %w", ErrCorrupt)
	}
	var keys [][]byte
	c := t.latest.Cursor()
	k, _ := c.Seek(t.index.mark.next)
	for ; k != nil && n < indexChunk && len(keys) < indexChunkRows; k, _ = c.Next() {
		n++
		id, _, err := cutSensor(k)
		if err != nil {
			t.unreadable++
			continue
		}
		v, raw, err := t.description(Member{ID: id})
		if err != nil {
			// Searches look at it whatever they want: it may have come again by then.
			t.unreadable++
			keys = append(keys, append([]byte(unlisted), k...))
			continue
		}
		for _, term := range indexTerms(linksOf(v.Format, raw)) {
			keys = append(keys, append([]byte(term), k...))
		}
	}
	t.index.mark.done, t.index.mark.next = k == nil, bytes.Clone(k)
	slices.SortFunc(keys, bytes.Compare)
	t.index.rows.FillPercent = 0.9 // sensors come in order, so that rows go behind each other
	for _, key := range keys {
		if err := t.index.rows.Put(key, nil); err != nil {
			return n, err
		}
	}
	return n, t.putMark()
}

// completeIndex is Reindex where it is needed, from where an earlier one was cut off.
// Without an index searches still work, as scans.
func (r *Repository) completeIndex() {
	var found indexed
	r.unindexed = r.view(func(tx *bbolt.Tx) error {
		found = indexOf(tx)
		return nil
	})
	if r.unindexed == nil && (found.rows == nil || !found.mark.done) {
		r.indexed, r.unindexed = r.index(context.Background(), found.rows == nil)
	}
}

// Indexed is how many descriptions Open had to put into the index, and why it could not
// go on, after which searches are scans.
func (r *Repository) Indexed() (descriptions int, err error) { return r.indexed, r.unindexed }

// Reindex makes the index of searches anew and returns how many descriptions are in it.
// It works in small transactions between which others have their turn; when it is cut
// off, the next Open goes on where it was.
func (r *Repository) Reindex(ctx context.Context) (descriptions int, err error) {
	return r.index(ctx, true)
}

func (r *Repository) index(ctx context.Context, anew bool) (total int, err error) {
	if anew {
		drop := &op{solo: true, apply: (*transaction).dropIndex}
		if err := r.wait(ctx, drop); err != nil {
			return 0, err
		}
	}
	for done := false; !done; {
		n := 0
		err := r.wait(ctx, &op{solo: true, apply: func(t *transaction) (err error) {
			n, err = t.extendIndex()
			done = t.index.mark.done
			return err
		}})
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}
