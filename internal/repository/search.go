package repository

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"go.etcd.io/bbolt"

	"github.com/crawld/crawld/internal/linkformat"
	"github.com/crawld/crawld/internal/search"
)

const (
	// maxWork bounds one Search, in microseconds as a row looked up, or 64 bytes of a body
	// unpacked, verified and parsed, takes about one.
	maxWork       = 250_000
	workCandidate = 4
	workBody      = 10
	bodyPerWork   = 64 // bytes
	// maxCandidates are judged by Keep at a time.
	maxCandidates = 256
)

// Candidate is a sensor whose description may be among the hits.
type Candidate struct {
	Sensor   string
	Verified time.Time // last success of any kind; microseconds, UTC
}

// Keep says of candidates, 1 to 256 of them in order of their ids, which are to be looked
// at: one answer for each. Sensors that left the fleet have their description still, so
// that whoever wants the fleet alone says so here. No transaction is open meanwhile. An
// error ends the search and is returned.
type Keep func([]Candidate) ([]bool, error)

// Hit is a link that a search has found, or a description without links.
type Hit struct {
	Sensor   string
	Number   int             // of the link in the description, from 0; -1 = it has no links
	Link     linkformat.Link // as sent; the zero Link with Number -1
	Version  time.Time       // when the description was first seen; microseconds, UTC
	Verified time.Time       // when it was last known to be right; microseconds, UTC
	Hash     string          // hex SHA-256 of the description
	Format   int             // its Content-Format number, -1 = none given
}

// Found is one page of a search.
type Found struct {
	Hits       []Hit  // by sensor, then as in the description
	Next       string // what the next page goes on after, "" = there is no more
	Stopped    bool   // the work that one call may do is done: the page may be short, even empty
	Unreadable int    // descriptions that were left out because their rows are damaged
}

// Search returns the links of versions in force that the query finds, of the sensors that
// keep (nil = all) wants, at most limit (1 .. 1000; else 1000) of them, after the cursor of
// the page before ("" = from the first). Labels, states and age are keep's to look at: the
// repository knows neither fleet nor planner nor the time.
//
// Every hit comes from a body that has its hash and that was held against the query; the
// index only says which bodies are worth that. What is stored between two pages is found if
// it comes behind the cursor.
func (r *Repository) Search(q search.Query, keep Keep, after string, limit int) (Found, error) {
	if limit < 1 || limit > maxPage {
		limit = maxPage
	}
	from, err := decodePlace(after)
	if err != nil {
		return Found{}, err
	}
	s := searching{r: r, q: q, from: from, limit: limit, work: maxWork}
	if err := s.run(keep); err != nil {
		return Found{}, err
	}
	if len(s.found.Hits) > limit {
		last := s.found.Hits[limit]
		s.found.Hits = s.found.Hits[:limit]
		s.found.Next = place{sensorKey(last.Sensor), max(0, last.Number)}.encode()
	} else if s.found.Stopped = !s.ended; s.found.Stopped {
		s.found.Next = s.from.encode()
	}
	return s.found, nil
}

// place is where a search goes on: at a link of a sensor, which need not exist.
type place struct {
	sensor []byte // key
	link   int
}

func (p place) encode() string {
	return base64.RawURLEncoding.EncodeToString(
		append(binary.AppendUvarint(nil, uint64(p.link)), p.sensor...))
}

func decodePlace(text string) (place, error) {
	if text == "" {
		return place{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	link, n := binary.Uvarint(raw)
	if err != nil || n <= 0 || link > math.MaxInt32 {
		return place{}, ErrCursor
	}
	id, rest, err := cutSensor(raw[n:])
	if err != nil || len(rest) > 0 || len(id) > maxSensor {
		return place{}, ErrCursor
	}
	return place{raw[n:], int(link)}, nil
}

// behind is the place after all of a sensor.
func behind(sensor []byte) place { return place{bytes.Clone(sensor), math.MaxInt32} }

// searching is a Search under way. It collects one hit more than is wanted, so that a next
// page is only named where there is one.
type searching struct {
	r     *Repository
	q     search.Query
	limit int
	from  place // all before it has been looked at
	ended bool  // all has
	scan  bool  // the index does not help
	work  int   // still allowed
	found Found
}

// candidate is a Candidate with its key. Without a state that can be read it was never
// verified as far as is known, and nothing of it is shown.
type candidate struct {
	Candidate
	key     []byte
	damaged bool
}

func (s *searching) run(keep Keep) error {
	for !s.ended && len(s.found.Hits) <= s.limit && s.work > 0 {
		var list []candidate
		next := s.from
		err := s.r.view(func(tx *bbolt.Tx) (err error) {
			list, next, err = s.gather(tx)
			return err
		})
		if err != nil {
			return err
		}
		kept, err := judged(keep, list)
		if err != nil {
			return err
		}
		if err := s.r.view(func(tx *bbolt.Tx) error { return s.read(tx, kept, next) }); err != nil {
			return err
		}
	}
	return nil
}

// judged are the candidates that keep wants.
func judged(keep Keep, list []candidate) ([]candidate, error) {
	if keep == nil || len(list) == 0 {
		return list, nil
	}
	asked := make([]Candidate, len(list))
	for i, c := range list {
		asked[i] = c.Candidate
	}
	wanted, err := keep(asked)
	if err != nil {
		return nil, err
	}
	if len(wanted) != len(list) {
		return nil, fmt.Errorf("search: %d candidates, %d answers", len(list), len(wanted))
	}
	var kept []candidate
	for i, c := range list {
		if wanted[i] {
			kept = append(kept, c)
		}
	}
	return kept, nil
}

// gather finds the next candidates and the place behind them; a zero place is the end.
func (s *searching) gather(tx *bbolt.Tx) (list []candidate, next place, err error) {
	walk := s.join(tx)
	at := s.from.sensor
	for len(list) < maxCandidates {
		sensor, ended := walk.next(at)
		switch {
		case ended:
			return list, place{}, nil
		case s.work <= 0:
			return list, place{bytes.Clone(sensor), s.linkOf(sensor)}, nil
		}
		id, rest, err := cutSensor(sensor)
		if err != nil || len(rest) > 0 {
			return nil, next, fmt.Errorf("search: key %x is not a sensor's: %w", sensor, ErrCorrupt)
		}
		s.work -= workCandidate
		next = behind(sensor)
		at = append(bytes.Clone(sensor), 0) // the least key behind it
		if tx.Bucket([]byte("latest")).Get(sensor) == nil {
			continue // a row of the index without a version
		}
		c := candidate{Candidate{Sensor: id}, bytes.Clone(sensor), false}
		state, err := decodeState(tx.Bucket([]byte("state")).Get(sensor))
		if c.damaged = err != nil; !c.damaged {
			c.Verified = time.UnixMicro(state.verified).UTC()
		}
		list = append(list, c)
	}
	return list, next, nil
}

// linkOf is the link to go on at when the search goes on at a sensor.
func (s *searching) linkOf(sensor []byte) int {
	if bytes.Equal(sensor, s.from.sensor) {
		return s.from.link
	}
	return 0
}

// read looks for hits in the descriptions of candidates; next is the place behind them.
func (s *searching) read(tx *bbolt.Tx, kept []candidate, next place) error {
	from := shelf{s.r.codec, tx}
	for i, c := range kept {
		link := s.linkOf(c.key)
		// At least one is read, or a call could end where it began.
		if len(s.found.Hits) > s.limit || s.work <= 0 && i > 0 {
			s.from = place{c.key, link}
			return nil
		}
		if link == math.MaxInt32 {
			continue
		}
		v, raw, err := from.description(Member{ID: c.Sensor})
		s.work -= workBody + len(raw)/bodyPerWork
		if sum, bad := parseHash(v.Hash); err != nil && bad == nil {
			s.r.quarantineBody(sum[:])
		}
		if err != nil || c.damaged {
			s.found.Unreadable++
			continue
		}
		s.match(c, v, linksOf(v.Format, raw), link)
	}
	s.from, s.ended = next, next.sensor == nil
	return nil
}

// match adds the hits of a description from a link on.
func (s *searching) match(c candidate, v Version, links []linkformat.Link, from int) {
	hit := Hit{Sensor: c.Sensor, Number: -1, Version: v.At, Verified: c.Verified, Hash: v.Hash,
		Format: v.Format}
	if len(links) == 0 && from == 0 && s.q.OfSensor() {
		s.found.Hits = append(s.found.Hits, hit)
	}
	for i := from; i < len(links) && len(s.found.Hits) <= s.limit; i++ {
		if s.q.Matches(links[i]) {
			hit.Number, hit.Link = i, links[i]
			s.found.Hits = append(s.found.Hits, hit)
		}
	}
}
