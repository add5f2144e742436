package repository

import (
	"bytes"
	"fmt"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/discovery"
)

// Read lets fn read rows: see discovery.Store. What cannot be read is an error that names
// the key.
func (r *Repository) Read(fn func(discovery.Rows) error) error {
	c := cellRows{Repository: r, prefix: make([]byte, 0, keyRoom), target: make([]byte, 0, keyRoom)}
	var given error
	err := guarded(func() error {
		defer c.end()
		if err := c.begin(); err != nil {
			return err
		}
		given = fn(&c)
		return nil
	})
	if err != nil {
		return r.named(err)
	}
	return given
}

// What one transaction of reading may cost before the next begins: an open one keeps pages
// from being used again. A page that must be looked for costs as much as some cells.
const (
	seekCost = 16
	mostCost = 1 << 14
)

// keyRoom is enough for the keys of most objects.
const keyRoom = 96

// nearby is how many keys are passed over before the wanted one is looked for.
const nearby = 4

// cellRows reads rows by one cursor, which stands at the first key that is not below low. So
// a row that begins between the two is found without looking for it, and where families of
// an object have no cells that costs nothing.
type cellRows struct {
	*Repository
	tx     *bbolt.Tx
	cursor *bbolt.Cursor // nil where there are no cells
	cost   int           // of the transaction
	names  *names
	texts  texts

	k, v   []byte // where the cursor stands, nil at the end
	low    []byte // nil: it stands nowhere
	object string
	family discovery.Family
	from   int64
	prefix []byte // of the row; behind it there is room for an instant
	target []byte // that was looked for; low may be it
	failed error
}

func (c *cellRows) begin() error {
	if err := c.usable(); err != nil {
		return err
	}
	began := false
	err := guarded(func() (err error) {
		c.tx, err = c.db.Begin(false)
		began = true
		return err
	})
	if !began {
		c.stuck.Store(true)
	}
	if err != nil {
		return err
	}
	c.cost, c.low, c.cursor = 0, nil, nil
	c.names = c.Repository.names.Load()
	if b := c.tx.Bucket([]byte("cells")); b != nil {
		c.cursor = b.Cursor()
	}
	return nil
}

// end is also for where reading a page failed: it reads none.
func (c *cellRows) end() {
	if c.tx != nil {
		_ = c.tx.Rollback() // fails only where it was ended before
		c.tx = nil
	}
}

// renew goes on in a transaction of its own.
func (c *cellRows) renew() error {
	c.end()
	return c.begin()
}

// Scan is of discovery.Rows.
func (c *cellRows) Scan(object string, f discovery.Family, from, to int64) {
	if c.failed != nil {
		return
	}
	if c.cost > mostCost {
		if c.failed = c.renew(); c.failed != nil {
			return
		}
	}
	if object != c.object || len(c.prefix) == 0 {
		c.object, c.prefix = object, appendPart(c.prefix[:0], shortObject(object))
	} else {
		c.prefix = c.prefix[:len(c.prefix)-1]
	}
	c.prefix = append(c.prefix, byte(f))
	if c.family, c.from = f, from; from > to { // an empty row
		c.prefix = c.prefix[:0]
		return
	}
	c.find(to)
}

// find moves the cursor to the first cell of the row at or before an instant.
func (c *cellRows) find(to int64) {
	if c.cursor == nil {
		return
	}
	key := appendTime(c.prefix, to)
	c.prefix = key[:len(c.prefix)]
	if c.low != nil && bytes.Compare(c.low, key) <= 0 {
		for range nearby {
			if c.k == nil || bytes.Compare(key, c.k) <= 0 {
				return
			}
			c.step()
		}
		if c.k == nil || bytes.Compare(key, c.k) <= 0 {
			return
		}
	}
	c.target = append(c.target[:0], key...)
	c.seek()
}

// seek looks for the target.
func (c *cellRows) seek() {
	c.k, c.v = c.cursor.Seek(c.target)
	c.low = c.target
	c.cost += seekCost
}

func (c *cellRows) step() {
	c.low = c.k
	c.k, c.v = c.cursor.Next()
	c.cost++
}

// Next is of discovery.Rows.
func (c *cellRows) Next(cell *discovery.Cell) (is bool, err error) {
	if c.failed == nil && c.cost > mostCost && c.k != nil {
		c.target = append(c.target[:0], c.k...)
		if c.failed = c.renew(); c.failed == nil && c.cursor != nil {
			c.seek()
		}
	}
	n := len(c.prefix)
	if c.failed != nil || c.cursor == nil || n == 0 || !bytes.HasPrefix(c.k, c.prefix) {
		return false, c.failed
	}
	*cell = discovery.Cell{Object: c.object, Family: c.family}
	seq, err := cutCell(cell, c.k[n:])
	if err == nil && seq == seqDeclared {
		err = fmt.Errorf("no cell is before it: %w", ErrCorrupt)
	}
	if err == nil && cell.Time < c.from {
		return false, nil
	}
	if err == nil {
		err = c.decode(cell)
	}
	if err != nil {
		c.failed = c.named(inBucket("cells", c.k, err))
		return false, c.failed
	}
	c.step()
	if declares(c.low, c.k) {
		cell.Erased = true
		c.step()
	}
	return true, nil
}

// declares tells whether a key marks the cell of the key before it as an error.
func declares(before, key []byte) bool {
	last := len(before) - 1
	return len(key) == last+1 && key[last] == seqDeclared && bytes.Equal(before[:last], key[:last])
}

// decode decodes a cell, where its transaction has later names with those.
func (c *cellRows) decode(cell *discovery.Cell) error {
	err := decodeCell(cell, c.v, c.names, &c.texts)
	if err == nil {
		return nil
	}
	later, bad := readNames(c.tx)
	if bad != nil || len(later.texts) == len(c.names.texts) {
		return err
	}
	c.names = later
	return decodeCell(cell, c.v, later, &c.texts)
}

// texts keeps the texts of cells that are read one after another together; nil keeps each by
// itself.
type texts struct {
	kept      strings.Builder
	container string // the last one
}

// textsLen is how much is kept together: the event IDs of a trace or two.
const textsLen = 1 << 10

func (t *texts) keep(text []byte) string {
	if t == nil {
		return string(text)
	}
	if t.kept.Cap()-t.kept.Len() < len(text) {
		t.kept.Reset() // what was told of it stays
		t.kept.Grow(max(textsLen, len(text)))
	}
	at := t.kept.Len()
	t.kept.Write(text)
	return t.kept.String()[at:]
}

// parent is a container in its short form: what was joined is mostly what is left next.
func (t *texts) parent(short []byte) string {
	if t == nil {
		return longObject(string(short))
	}
	if len(short) > 0 && shortObject(t.container) == string(short) {
		return t.container
	}
	if len(short) > 0 && isDigit(short[0]) {
		var buf [64]byte
		t.container = t.keep(append(append(buf[:0], gs1...), short...))
	} else {
		t.container = t.keep(bytes.TrimPrefix(short, []byte{plainObject}))
	}
	return t.container
}
