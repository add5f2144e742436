package repository

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/discovery"
	"github.com/crawld/crawld/internal/epcis"
)

// ObjectOf is the object in whose row the descriptions of a sensor are: the sensor's id if
// that is an absolute URI, else the origin of the URI that it is crawled at; canonical. An
// id that is such a URI itself, as in lists without ids, stands for its origin: what an
// event names is the sensor, not one resource of it. "" if neither is a URI.
func ObjectOf(sensor, uri string) string {
	u, err := url.Parse(sensor)
	switch {
	case err != nil || !u.IsAbs():
	case strings.HasPrefix(u.Scheme, "coap") && u.Host != "":
		uri = sensor
	default:
		if id, err := epcis.Canonical(sensor); err == nil {
			return id
		}
	}
	u, err = url.Parse(withoutZone(uri))
	if err != nil || !u.IsAbs() || u.Host == "" {
		return ""
	}
	id, err := epcis.Canonical(u.Scheme + "://" + u.Host)
	if err != nil {
		return ""
	}
	return id
}

// describe writes the cell that tells of a new version of a sensor.
func (t *transaction) describe(object string, at int64, sum [32]byte) error {
	if object == "" {
		return nil
	}
	b, err := t.tx.CreateBucketIfNotExists([]byte("cells"))
	if err != nil {
		return err
	}
	c := descriptionCell(object, at, sum)
	return b.Put(cellKey(&c, seqEvent), encodeCell(&c, &names{}))
}

func descriptionCell(object string, at int64, sum [32]byte) discovery.Cell {
	return discovery.Cell{Object: object, Family: discovery.Descriptions, Time: at,
		ID16: [idLen]byte(sum[:]), Role: discovery.Plain, EventID: bodyEventID(sum)}
}

// describeChunk is how many versions one transaction of the backfill reads.
const describeChunk = 20000

// backfillKey is where in meta the backfill stands: the key of versions that is next.
const backfillKey = "described"

// backfill gives the versions of a file from before there were cells their cells, some at a
// time between other writes. Where it is ended it goes on when the file is opened again.
func (r *Repository) backfill() error {
	due := false
	err := r.view(func(tx *bbolt.Tx) error {
		k, _ := tx.Bucket([]byte("versions")).Cursor().First()
		due = k != nil && tx.Bucket([]byte("cells")) == nil ||
			tx.Bucket([]byte("meta")).Get([]byte(backfillKey)) != nil
		return nil
	})
	if err != nil || !due || r.opts.ReadOnly {
		return err
	}
	r.describeNext()
	return nil
}

// describeNext queues a transaction of the backfill, which queues the next one.
func (r *Repository) describeNext() {
	more := false
	chunk := &op{solo: true}
	chunk.apply = func(t *transaction) (err error) {
		more, err = t.describeVersions()
		return err
	}
	chunk.done = func(err error) {
		if err == nil && more {
			r.describeNext()
		}
	}
	_ = r.queue.push(chunk) // closed: the next Open goes on
}

// describeVersions writes the cells of the next versions, of the whole of a sensor if need
// be, and tells whether there are more.
func (t *transaction) describeVersions() (more bool, err error) {
	if _, err := t.tx.CreateBucketIfNotExists([]byte("cells")); err != nil {
		return false, err
	}
	var object string
	var sensor []byte
	c := t.versions.Cursor()
	k, v := c.Seek(t.meta.Get([]byte(backfillKey)))
	for n := 0; k != nil; k, v = c.Next() {
		id, at, err := cutSensorTime(k)
		if err != nil {
			continue // Check tells it
		}
		if key := k[:len(k)-timeLen]; !bytes.Equal(key, sensor) {
			if n >= describeChunk {
				return true, t.meta.Put([]byte(backfillKey), bytes.Clone(k))
			}
			sensor, object = bytes.Clone(key), ObjectOf(id, t.lastURI(key))
		}
		n++
		version, err := decodeVersion(id, at, v)
		if err != nil {
			continue
		}
		sum, err := parseHash(version.Hash)
		if err == nil {
			err = t.describe(object, at.UnixMicro(), sum)
		}
		if err != nil {
			return false, fmt.Errorf("sensor %q: %w", id, err)
		}
	}
	return false, t.meta.Delete([]byte(backfillKey))
}

// lastURI is where a sensor was last visited, "" if no visit of it can be read.
func (t *transaction) lastURI(sensor []byte) string {
	c := t.visits.Cursor()
	for k, v := c.Seek(sensor); bytes.HasPrefix(k, sensor); k, v = c.Next() {
		if o, err := t.visit(v); err == nil && o.URI != "" {
			return o.URI
		}
	}
	return ""
}
