package repository

import (
	"bytes"
	"container/heap"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/search"
)

// A prefix is looked up as the values that begin with it. One with more values than
// fewValues is left out where another lookup serves, one with more than manyValues always:
// seeking in so many places costs more than it saves.
const fewValues, manyValues = 64, 4096

// stream is the rows of one term: their sensors in order. The prefix of the bucket latest
// is empty.
type stream struct {
	rows   *bbolt.Cursor
	prefix []byte
	sensor []byte // of the row it stands at, nil = at the end
}

func (s *stream) seek(sensor []byte) {
	k, _ := s.rows.Seek(append(s.prefix[:len(s.prefix):len(s.prefix)], sensor...))
	if s.sensor = nil; bytes.HasPrefix(k, s.prefix) && k != nil {
		s.sensor = k[len(s.prefix):]
	}
}

// union is the sensors of several streams in order: those that one lookup finds. It is a
// heap; streams that have ended are out of it.
type union []*stream

func (u union) Len() int           { return len(u) }
func (u union) Less(i, j int) bool { return bytes.Compare(u[i].sensor, u[j].sensor) < 0 }
func (u union) Swap(i, j int)      { u[i], u[j] = u[j], u[i] }
func (u *union) Push(s any)        { *u = append(*u, s.(*stream)) }
func (u *union) Pop() any {
	last := (*u)[len(*u)-1]
	*u = (*u)[:len(*u)-1]
	return last
}

// seek goes to the first sensor from the given one on and returns it, nil at the end.
func (u *union) seek(sensor []byte, work *int) []byte {
	for len(*u) > 0 && bytes.Compare((*u)[0].sensor, sensor) < 0 {
		*work--
		if (*u)[0].seek(sensor); (*u)[0].sensor == nil {
			heap.Pop(u)
		} else {
			heap.Fix(u, 0)
		}
	}
	if len(*u) == 0 {
		return nil
	}
	return (*u)[0].sensor
}

// join is the sensors that every lookup finds, in order: each union in turn goes to where
// another one stands, so that the rarest term sets the pace without being known before.
type join struct {
	unions []*union
	least  []byte // no sensor before it is wanted
	within func(sensor []byte) bool
	work   *int
}

// next is the first such sensor from the given one on. It stops early when the work is
// done, with a sensor from which to go on.
func (j *join) next(from []byte) (sensor []byte, ended bool) {
	at := from
	if bytes.Compare(at, j.least) < 0 {
		at = j.least
	}
	for agreed := false; !agreed; {
		agreed = true
		for _, u := range j.unions {
			found := u.seek(at, j.work)
			if found == nil || !j.within(found) {
				return nil, true
			}
			agreed = agreed && bytes.Equal(found, at)
			at = found
		}
		if *j.work <= 0 {
			return at, false
		}
	}
	return at, false
}

// join takes what the index has for the query, else the bucket latest as a whole.
func (s *searching) join(tx *bbolt.Tx) *join {
	j := &join{work: &s.work, within: func([]byte) bool { return true }}
	if prefix, open := strings.CutSuffix(s.q.Sensor, "*"); open {
		j.least = appendOpen(nil, prefix)
	} else if s.q.Sensor != "" {
		j.least = sensorKey(s.q.Sensor)
	}
	if j.least != nil {
		j.within = func(sensor []byte) bool { return bytes.HasPrefix(sensor, j.least) }
	}
	from := s.from.sensor
	if bytes.Compare(from, j.least) < 0 {
		from = j.least
	}
	add := func(streams []*stream) {
		u := &union{}
		for _, one := range streams {
			s.work--
			if one.seek(from); one.sensor != nil {
				*u = append(*u, one)
			}
		}
		heap.Init(u)
		j.unions = append(j.unions, u)
	}
	if index := indexOf(tx); index.rows != nil && index.mark.done && !s.scan {
		for _, streams := range s.lookups(index.rows) {
			add(streams)
		}
	}
	if s.scan = len(j.unions) == 0; s.scan {
		add([]*stream{{rows: tx.Bucket([]byte("latest")).Cursor()}})
	}
	return j
}

// lookups are the streams of each lookup that is worth following.
func (s *searching) lookups(rows *bbolt.Bucket) (all [][]*stream) {
	for _, most := range []int{fewValues, manyValues} {
		for _, l := range s.q.Lookups() {
			if len(all) > 0 && most == manyValues {
				return all
			}
			if streams, ok := s.values(rows, l, most); ok {
				streams = append(streams, &stream{rows: rows.Cursor(), prefix: []byte(unlisted)})
				all = append(all, streams)
			}
		}
	}
	return all
}

// values are the streams of a lookup: of its one value, or of all that begin with it, if
// these are not too many.
func (s *searching) values(rows *bbolt.Bucket, l search.Lookup, most int) ([]*stream, bool) {
	if !l.Prefix {
		return []*stream{{rows: rows.Cursor(), prefix: termKey(l.Term)}}, true
	}
	name := appendPart(nil, l.Name)
	start := appendOpen(bytes.Clone(name), l.Value)
	var streams []*stream
	c := rows.Cursor()
	for k, _ := c.Seek(start); bytes.HasPrefix(k, start); {
		s.work--
		_, sensor, err := cutSensor(k[len(name):])
		if err != nil || len(streams) == most {
			return nil, false
		}
		prefix := bytes.Clone(k[:len(k)-len(sensor)])
		streams = append(streams, &stream{rows: rows.Cursor(), prefix: prefix})
		behind := bytes.Clone(prefix)
		behind[len(behind)-1]++ // a part ends with 00 01, and 00 02 is in none
		k, _ = c.Seek(behind)
	}
	return streams, true
}
