package repository

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"unicode/utf8"

	"go.etcd.io/bbolt"
)

// maxProblems bounds a report; what is beyond is counted.
const maxProblems = 100

// Report is what Check found. Problems is empty if all is well.
type Report struct {
	Path          string `json:"path"`
	Instance      string `json:"instance"` // hex id, made with the file
	SchemaVersion int    `json:"schema_version"`

	Sensors   int `json:"sensors"`
	Versions  int `json:"versions"`
	Bodies    int `json:"bodies"`
	Visits    int `json:"visits"`
	Snapshots int `json:"snapshots"`  // of groups
	IndexRows int `json:"index_rows"` // of searches
	Events    int `json:"events"`     // of the Discovery Service
	Cells     int `json:"cells"`      // of all objects
	Documents int `json:"documents"`  // that events were signed in
	// Quarantined is how many bodies were found damaged and have not come again. Those
	// that are damaged now are problems too.
	Quarantined int   `json:"quarantined"`
	Bytes       int64 `json:"bytes"` // of the file

	Problems []string `json:"problems"`
}

// Check reads the whole file under a shared lock and writes nothing. It
// verifies bbolt's structure, by its own reading and by bbolt's, and of the rows
// that every body has its hash, that versions and latest lead to a body, that
// snapshots lead to one and to all they are made of, that every visit and state can
// be read, that the index has the terms of the versions in force and no others, that
// events and cells lead to each other and that the counts are right.
//
// Damage is told in Problems. An error means that the file could not be looked
// at: it is missing, locked (ErrLocked) or of another version (ErrVersion).
func Check(path string, o Options) (Report, error) {
	o = o.withDefaults()
	o.ReadOnly = true
	report := Report{Path: path, Problems: []string{}}
	b, err := openBolt(path, o, true)
	switch {
	case errors.Is(err, ErrCorrupt):
		report.Problems = append(report.Problems, err.Error())
		return report, nil
	case err != nil:
		return report, err
	}
	c, err := newCodec()
	if err != nil {
		return report, errors.Join(err, b.close())
	}
	defer c.dec.Close()
	report.SchemaVersion = schemaVersion
	report.Bytes, _ = b.size()
	k := &checker{codec: c, report: &report}
	// Nobody waits for this transaction: a writer could not open the file.
	err = guarded(func() error { return b.db.View(k.check) })
	if err != nil {
		k.problem("%v", err)
	}
	if k.more > 0 {
		report.Problems = append(report.Problems, fmt.Sprintf("and %d more", k.more))
	}
	return report, b.close()
}

type checker struct {
	codec
	shelves
	names  *names
	tx     *bbolt.Tx
	report *Report
	more   int // problems beyond those told

	visits int    // as the states count them
	sensor []byte // whose visits are being read
	run    int    // how many of them so far
}

func (k *checker) problem(format string, args ...any) {
	if len(k.report.Problems) == maxProblems {
		k.more++
		return
	}
	k.report.Problems = append(k.report.Problems, fmt.Sprintf(format, args...))
}

func (k *checker) bucket(name string) *bbolt.Bucket { return k.tx.Bucket([]byte(name)) }

// each counts the rows of a bucket and reports those that fail.
func (k *checker) each(name string, row func(key, value []byte) error) int {
	n := 0
	b := k.bucket(name)
	if b == nil {
		return 0 // made when it is first needed
	}
	c := b.Cursor()
	for key, value := c.First(); key != nil; key, value = c.Next() {
		n++
		if err := row(key, value); err != nil {
			k.problem("%s, key %x: %v", name, key, err)
		}
	}
	return n
}

func (k *checker) check(tx *bbolt.Tx) error {
	k.tx = tx
	// bbolt checks on a goroutine of its own, where a fault could not be
	// caught: the structure has been verified before.
	for err := range tx.Check() {
		k.problem("bbolt: %v", err)
	}
	r := k.report
	r.Instance = hex.EncodeToString(k.bucket("meta").Get([]byte("instance")))
	r.Bodies = k.each("bodies", k.body)
	r.Quarantined = k.each("quarantine", func(key, _ []byte) error {
		if len(key) != hashLen {
			return errors.New("not a hash")
		}
		return nil
	})
	r.Versions = k.each("versions", k.version)
	k.each("latest", k.latest)
	r.Sensors = k.each("state", k.state)
	r.Visits = k.each("visits", k.visit)
	k.endOfVisits(nil)
	if k.visits != r.Visits {
		k.problem("state: counts %d visits, there are %d", k.visits, r.Visits)
	}
	r.Snapshots = k.each("snapshots", k.snapshot)
	r.IndexRows = k.index()
	k.each("plans", func(key, _ []byte) error {
		if len(key) != timeLen {
			return errors.New("not an instant")
		}
		return nil
	})
	k.checkDiscovery()
	k.each(string(registrations), func(key, value []byte) error {
		_, err := decodeRegistration(key, value)
		return err
	})
	got := counts{r.Sensors, r.Versions, r.Bodies}
	if want, err := decodeCounts(k.bucket("meta").Get([]byte("counts"))); err != nil || want != got {
		k.problem("meta: counts are %+v (%v), there are %+v", want, err, got)
	}
	return nil
}

func (k *checker) body(key, value []byte) error {
	sum, _, err := k.codec.body(value)
	if err == nil && !bytes.Equal(sum[:hashLen], key) {
		err = fmt.Errorf("%w: it has %x", ErrHash, sum)
	}
	return err
}

func (k *checker) version(key, value []byte) error {
	sensor, at, err := cutSensorTime(key)
	if err != nil {
		return err
	}
	v, err := decodeVersion(sensor, at, value)
	if err != nil {
		return err
	}
	sum, err := parseHash(v.Hash)
	if err != nil {
		return err
	}
	return k.stored("sensor", v, sum)
}

// stored verifies that a version's body is there.
func (k *checker) stored(of string, v Version, sum [32]byte) error {
	if row := k.bucket("bodies").Get(sum[:hashLen]); !bytes.HasPrefix(row, sum[hashLen:]) {
		return fmt.Errorf("%s %q: body %s is not stored", of, v.Sensor, v.Hash)
	}
	return nil
}

// snapshot verifies that a group's snapshot leads to its body and to its parts.
func (k *checker) snapshot(key, value []byte) error {
	group, at, err := cutSensorTime(key)
	if err != nil {
		return err
	}
	s, err := decodeSnapshot(group, at, value)
	if err != nil {
		return err
	}
	sum, err := parseHash(s.Hash)
	if err == nil {
		err = k.stored("group", s.Version, sum)
	}
	for _, p := range s.Parts {
		bucket, held := "versions", func(row []byte) (Version, error) {
			return decodeVersion(p.ID, p.At, row)
		}
		if p.Group {
			bucket, held = "snapshots", func(row []byte) (Version, error) {
				s, err := decodeSnapshot(p.ID, p.At, row)
				return s.Version, err
			}
		}
		v, bad := held(k.bucket(bucket).Get(rowKey(sensorKey(p.ID), p.At.UnixMicro())))
		if bad != nil || v.Hash != p.Hash {
			err = errors.Join(err, fmt.Errorf("group %q: its part %q of %v is not in %s", group, p.ID,
				p.At, bucket))
		}
	}
	return err
}

func (k *checker) latest(key, value []byte) error {
	if len(value) != latestLen {
		return fmt.Errorf("a row of %d bytes", len(value))
	}
	row := k.bucket("versions").Get(append(bytes.Clone(key), value[:timeLen]...))
	if len(row) == 0 || !bytes.HasPrefix(row[1:], value[timeLen:]) {
		return errors.New("leads to no version")
	}
	if k.bucket("state").Get(key) == nil {
		return errors.New("its sensor has no state")
	}
	return nil
}

func (k *checker) state(key, value []byte) error {
	if _, rest, err := cutSensor(key); err != nil || len(rest) > 0 {
		return fmt.Errorf("not a sensor's key (%v)", err)
	}
	s, err := decodeState(value)
	k.visits += s.visits
	return err
}

func (k *checker) visit(key, value []byte) error {
	sensor, _, err := cutSensorTime(key)
	if err != nil {
		return err
	}
	k.endOfVisits(key[:len(key)-timeLen])
	k.run++
	o, err := k.codec.visit(value)
	if err == nil && o.Sensor != sensor && utf8.ValidString(sensor) {
		err = fmt.Errorf("a visit to %q among those to %q", o.Sensor, sensor)
	}
	return err
}

// endOfVisits compares the visits of the sensor before with what its state says,
// when the next sensor (nil = none) begins.
func (k *checker) endOfVisits(next []byte) {
	if bytes.Equal(k.sensor, next) {
		return
	}
	if k.sensor != nil {
		s, err := decodeState(k.bucket("state").Get(k.sensor))
		if err != nil || s.visits != k.run {
			k.problem("state, key %x: counts %d visits (%v), there are %d", k.sensor, s.visits, err, k.run)
		}
	}
	k.sensor, k.run = bytes.Clone(next), 0
}
