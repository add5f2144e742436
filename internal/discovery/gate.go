package discovery

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/subtle"
	"slices"
)

// Source is an information service: where more is known of the objects of its events.
type Source struct {
	ID      string // as events name it in crawld:source
	Address string // where it is asked, for example a URL
	Type    string // what is spoken there, for example EPCIS-2.0
}

// Publisher is who may publish, and for which information services.
type Publisher struct {
	KID     string // of its key, in the header of what it signs
	Key     ed25519.PublicKey
	Token   [sha256.Size]byte // SHA-256 of its bearer token
	Sources []Source          // at least one; the first is that of events which name none
}

// Reader is who may query, and what it may see.
type Reader struct {
	Token   [sha256.Size]byte // SHA-256 of its bearer token
	All     bool              // it may see every source
	Sources []string          // ids of those that it may see, without All
}

// Visible tells whether the reader may see events of a source. Descriptions of sensors
// have none and are for all.
func (r Reader) Visible(source string) bool {
	return r.All || source == "" || slices.Contains(r.Sources, source)
}

// Gate knows publishers and readers. It does not change once made.
type Gate struct {
	publishers []Publisher
	readers    []Reader
	sources    map[string]Source
}

// NewGate makes a gate. Kids and tokens of publishers are distinct, and so are tokens of
// readers; every publisher has a source, and all agree about one that several have.
func NewGate(publishers []Publisher, readers []Reader) *Gate {
	g := &Gate{publishers, readers, map[string]Source{}}
	for _, p := range publishers {
		for _, s := range p.Sources {
			g.sources[s.ID] = s
		}
	}
	return g
}

// Source is the information service with that id; of one that no publisher has any more
// only the id is known.
func (g *Gate) Source(id string) Source {
	if s, ok := g.sources[id]; ok {
		return s
	}
	return Source{ID: id}
}

// Reader is who has that token ("" = none was given); without any readers everybody may see
// everything. The error is a *Refusal.
func (g *Gate) Reader(token string) (Reader, error) {
	if len(g.readers) == 0 {
		return Reader{All: true}, nil
	}
	return holder(token, g.readers, func(r Reader) [sha256.Size]byte { return r.Token })
}

// Publisher is who has that token ("" = none was given). The error is a *Refusal.
func (g *Gate) Publisher(token string) (Publisher, error) {
	return holder(token, g.publishers, func(p Publisher) [sha256.Size]byte { return p.Token })
}

// holder finds whose token it is. How long it takes tells nothing of the tokens: hashes are
// compared, all of them and to their ends.
func holder[T any](token string, all []T, hash func(T) [sha256.Size]byte) (who T, err error) {
	if token == "" {
		return who, refuse(NoToken,
			"a bearer token is needed: send the header Authorization: Bearer TOKEN")
	}
	given, found := sha256.Sum256([]byte(token)), false
	for _, one := range all {
		known := hash(one)
		if subtle.ConstantTimeCompare(given[:], known[:]) == 1 {
			who, found = one, true
		}
	}
	if !found {
		return who, refuse(UnknownToken, "the bearer token is not known here")
	}
	return who, nil
}
